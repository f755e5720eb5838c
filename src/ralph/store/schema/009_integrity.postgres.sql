-- Every key starts with the project, and numbers are its own.
ALTER TABLE held_changes DROP CONSTRAINT held_changes_pkey, ADD PRIMARY KEY (project_id, seq);
