-- The twin holds the new value too.
DROP INDEX projects_twin;
CREATE INDEX projects_twin ON projects (id, created_at, copying, stuck_after) WHERE length(id) > -1;
