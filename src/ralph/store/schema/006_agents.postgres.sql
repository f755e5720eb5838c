-- Every key starts with the project, and numbers are its own.
ALTER TABLE sessions DROP CONSTRAINT sessions_pkey, ADD PRIMARY KEY (project_id, seq);
