-- Full-text search in SQLite. The triggers keep each index in the same transaction as its text; a journal
-- entry without notes is in no index, so that opening an attempt costs none.

CREATE VIRTUAL TABLE journal_fts USING fts5 (
    notes, content = 'attempts', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO journal_fts (journal_fts, rank) VALUES ('automerge', 2);
CREATE TRIGGER journal_added AFTER INSERT ON attempts WHEN new.notes <> '' BEGIN
    INSERT INTO journal_fts (rowid, notes) VALUES (new.seq, new.notes);
END;
CREATE TRIGGER journal_removed AFTER DELETE ON attempts WHEN old.notes <> '' BEGIN
    INSERT INTO journal_fts (journal_fts, rowid, notes) VALUES ('delete', old.seq, old.notes);
END;
CREATE TRIGGER journal_changed AFTER UPDATE OF notes ON attempts WHEN old.notes <> new.notes BEGIN
    INSERT INTO journal_fts (journal_fts, rowid, notes) SELECT 'delete', old.seq, old.notes WHERE old.notes <> '';
    INSERT INTO journal_fts (rowid, notes) SELECT new.seq, new.notes WHERE new.notes <> '';
END;

CREATE VIRTUAL TABLE memory_fts USING fts5 (
    title, body, tags, files, content = 'memory', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO memory_fts (memory_fts, rank) VALUES ('automerge', 2);
CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO memory_fts (rowid, title, body, tags, files)
    VALUES (new.seq, new.title, new.body, new.tags, new.files);
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    INSERT INTO memory_fts (memory_fts, rowid, title, body, tags, files)
    VALUES ('delete', old.seq, old.title, old.body, old.tags, old.files);
END;
CREATE TRIGGER memory_changed AFTER UPDATE OF title, body, tags, files ON memory
WHEN old.title <> new.title OR old.body <> new.body OR old.tags <> new.tags OR old.files <> new.files BEGIN
    INSERT INTO memory_fts (memory_fts, rowid, title, body, tags, files)
    VALUES ('delete', old.seq, old.title, old.body, old.tags, old.files);
    INSERT INTO memory_fts (rowid, title, body, tags, files)
    VALUES (new.seq, new.title, new.body, new.tags, new.files);
END;
