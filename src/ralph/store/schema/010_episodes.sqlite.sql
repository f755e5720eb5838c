CREATE VIRTUAL TABLE episode_index USING fts5 (
    title, body, paths, tags, content = 'episode_words', content_rowid = 'seq',
    detail = none, columnsize = 0, tokenize = 'ascii tokenchars ''_.-'''
);
INSERT INTO episode_index (episode_index, rank) VALUES ('automerge', 2);
CREATE TRIGGER episode_words_added AFTER INSERT ON episode_words BEGIN
    INSERT INTO episode_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER episode_words_removed AFTER DELETE ON episode_words BEGIN
    INSERT INTO episode_index (episode_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
END;
CREATE TRIGGER episode_words_changed AFTER UPDATE ON episode_words BEGIN
    INSERT INTO episode_index (episode_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO episode_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;

-- No checksum holds these values: a twin of them finds what has changed on the disk.
CREATE INDEX import_cursors_twin
    ON import_cursors (project_id, source, position, mark, at) WHERE length(source) > -1;
CREATE INDEX episode_vectors_twin ON episode_vectors (made, project_id, model, vector) WHERE made > -1;
