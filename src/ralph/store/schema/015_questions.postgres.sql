-- Every key starts with the project, and numbers are its own.
ALTER TABLE questions DROP CONSTRAINT questions_pkey, ADD PRIMARY KEY (project_id, seq);
