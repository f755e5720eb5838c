-- Every key starts with the project, and numbers are its own.
ALTER TABLE episode_words DROP CONSTRAINT episode_words_seq_fkey;
ALTER TABLE episode_vectors DROP CONSTRAINT episode_vectors_seq_fkey;
ALTER TABLE episodes DROP CONSTRAINT episodes_pkey, ADD PRIMARY KEY (project_id, seq);
ALTER TABLE episode_words DROP CONSTRAINT episode_words_pkey, ADD PRIMARY KEY (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES episodes (project_id, seq) ON DELETE CASCADE;
ALTER TABLE episode_vectors DROP CONSTRAINT episode_vectors_pkey, DROP CONSTRAINT episode_vectors_seq_key,
    ADD PRIMARY KEY (project_id, made), ADD UNIQUE (project_id, seq),
    ADD FOREIGN KEY (project_id, seq) REFERENCES episodes (project_id, seq) ON DELETE CASCADE;

ALTER TABLE episode_words ADD COLUMN found_by tsvector NOT NULL GENERATED ALWAYS AS ({found_by}) STORED;
ALTER TABLE episode_words SET (toast_tuple_target = 128);
CREATE INDEX episode_words_found ON episode_words USING gin (found_by) WITH (gin_pending_list_limit = 256);
