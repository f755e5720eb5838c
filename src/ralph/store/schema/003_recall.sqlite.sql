-- The index proper holds each word once with the rows that have it: no places, no lengths. What is found is
-- scored by our own code, which knows more of it.

DROP TRIGGER journal_added;
DROP TRIGGER journal_removed;
DROP TRIGGER journal_changed;
DROP TABLE journal_fts;
DROP TRIGGER memory_added;
DROP TRIGGER memory_removed;
DROP TRIGGER memory_changed;
DROP TABLE memory_fts;

CREATE VIRTUAL TABLE memory_index USING fts5 (
    title, body, paths, tags, content = 'memory_words', content_rowid = 'seq',
    detail = none, columnsize = 0, tokenize = 'ascii tokenchars ''_.-'''
);
INSERT INTO memory_index (memory_index, rank) VALUES ('automerge', 2);
CREATE TRIGGER memory_words_added AFTER INSERT ON memory_words BEGIN
    INSERT INTO memory_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER memory_words_removed AFTER DELETE ON memory_words BEGIN
    INSERT INTO memory_index (memory_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
END;
CREATE TRIGGER memory_words_changed AFTER UPDATE ON memory_words BEGIN
    INSERT INTO memory_index (memory_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO memory_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;

CREATE VIRTUAL TABLE attempt_index USING fts5 (
    title, body, paths, tags, content = 'attempt_words', content_rowid = 'seq',
    detail = none, columnsize = 0, tokenize = 'ascii tokenchars ''_.-'''
);
INSERT INTO attempt_index (attempt_index, rank) VALUES ('automerge', 2);
CREATE TRIGGER attempt_words_added AFTER INSERT ON attempt_words BEGIN
    INSERT INTO attempt_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER attempt_words_removed AFTER DELETE ON attempt_words BEGIN
    INSERT INTO attempt_index (attempt_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
END;
CREATE TRIGGER attempt_words_changed AFTER UPDATE ON attempt_words BEGIN
    INSERT INTO attempt_index (attempt_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO attempt_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;

CREATE VIRTUAL TABLE failure_index USING fts5 (
    title, body, paths, tags, content = 'failure_words', content_rowid = 'seq',
    detail = none, columnsize = 0, tokenize = 'ascii tokenchars ''_.-'''
);
INSERT INTO failure_index (failure_index, rank) VALUES ('automerge', 2);
CREATE TRIGGER failure_words_added AFTER INSERT ON failure_words BEGIN
    INSERT INTO failure_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER failure_words_removed AFTER DELETE ON failure_words BEGIN
    INSERT INTO failure_index (failure_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
END;
CREATE TRIGGER failure_words_changed AFTER UPDATE ON failure_words BEGIN
    INSERT INTO failure_index (failure_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO failure_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
