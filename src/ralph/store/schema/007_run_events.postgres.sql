-- Every key starts with the project, and numbers are its own.
ALTER TABLE run_events DROP CONSTRAINT run_events_pkey, ADD PRIMARY KEY (project_id, seq);
