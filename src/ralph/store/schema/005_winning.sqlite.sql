-- What is the primary key in PostgreSQL.
CREATE INDEX runs_in_order ON runs (project_id, seq);
CREATE INDEX tasks_by_number ON tasks (project_id, seq);
