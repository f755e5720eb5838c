-- Every key starts with the project: the tables can be partitioned by it, or distributed over machines.

ALTER TABLE features DROP CONSTRAINT features_pkey, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE tasks DROP CONSTRAINT tasks_pkey, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE task_log DROP CONSTRAINT task_log_pkey, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE runs DROP CONSTRAINT runs_pkey, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE attempts DROP CONSTRAINT attempts_pkey CASCADE, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE failures DROP CONSTRAINT failures_pkey CASCADE, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE memory DROP CONSTRAINT memory_pkey CASCADE, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE memory_events DROP CONSTRAINT memory_events_pkey, ADD PRIMARY KEY (project_id, seq);
DROP INDEX attempts_in_order;

ALTER TABLE memory_files
    ADD FOREIGN KEY (project_id, seq) REFERENCES memory (project_id, seq) ON DELETE CASCADE;
DROP INDEX memory_files_by_memory;
CREATE INDEX memory_files_by_memory ON memory_files (project_id, seq);
ALTER TABLE memory_vectors DROP CONSTRAINT memory_vectors_pkey, DROP CONSTRAINT memory_vectors_seq_key,
    ADD PRIMARY KEY (project_id, made), ADD UNIQUE (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES memory (project_id, seq) ON DELETE CASCADE;

-- Found by the same words as in SQLite. Each carries its project, so that a search reads what its own project holds
-- and knows how rare a word is there. They lie beside the rows: a search that counts rows need not read them.
ALTER TABLE memory_words DROP CONSTRAINT memory_words_pkey, ADD PRIMARY KEY (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES memory (project_id, seq) ON DELETE CASCADE;
ALTER TABLE attempt_words DROP CONSTRAINT attempt_words_pkey, ADD PRIMARY KEY (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES attempts (project_id, seq) ON DELETE CASCADE;
ALTER TABLE failure_words DROP CONSTRAINT failure_words_pkey, ADD PRIMARY KEY (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES failures (project_id, seq) ON DELETE CASCADE;
ALTER TABLE memory_words ADD COLUMN found_by tsvector NOT NULL GENERATED ALWAYS AS ({found_by}) STORED;
ALTER TABLE attempt_words ADD COLUMN found_by tsvector NOT NULL GENERATED ALWAYS AS ({found_by}) STORED;
ALTER TABLE failure_words ADD COLUMN found_by tsvector NOT NULL GENERATED ALWAYS AS ({found_by}) STORED;
ALTER TABLE memory_words SET (toast_tuple_target = 128);
ALTER TABLE attempt_words SET (toast_tuple_target = 128);
ALTER TABLE failure_words SET (toast_tuple_target = 128);
CREATE INDEX memory_words_found ON memory_words USING gin (found_by) WITH (gin_pending_list_limit = 256);
CREATE INDEX attempt_words_found ON attempt_words USING gin (found_by) WITH (gin_pending_list_limit = 256);
CREATE INDEX failure_words_found ON failure_words USING gin (found_by) WITH (gin_pending_list_limit = 256);

-- Or the removal of each memory reads the agreements of all working copies.
CREATE INDEX synced_entries_by_memory ON synced_entries (project_id, memory_id);
