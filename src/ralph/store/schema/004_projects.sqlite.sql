-- The words stay as they are, so their indexes need not follow: only whose they are is noted.

DROP TRIGGER memory_words_changed;
DROP TRIGGER attempt_words_changed;
DROP TRIGGER failure_words_changed;
UPDATE memory_words SET project_id = (SELECT project_id FROM memory AS m WHERE m.seq = memory_words.seq);
UPDATE attempt_words SET project_id = (SELECT project_id FROM attempts AS a WHERE a.seq = attempt_words.seq);
UPDATE failure_words SET project_id = (SELECT project_id FROM failures AS f WHERE f.seq = failure_words.seq);
UPDATE memory_vectors SET project_id = (SELECT project_id FROM memory AS m WHERE m.seq = memory_vectors.seq);
CREATE TRIGGER memory_words_changed AFTER UPDATE ON memory_words BEGIN
    INSERT INTO memory_index (memory_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO memory_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER attempt_words_changed AFTER UPDATE ON attempt_words BEGIN
    INSERT INTO attempt_index (attempt_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO attempt_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
CREATE TRIGGER failure_words_changed AFTER UPDATE ON failure_words BEGIN
    INSERT INTO failure_index (failure_index, rowid, title, body, paths, tags)
    VALUES ('delete', old.seq, old.title, old.body, old.paths, old.tags);
    INSERT INTO failure_index (rowid, title, body, paths, tags)
    VALUES (new.seq, new.title, new.body, new.paths, new.tags);
END;
