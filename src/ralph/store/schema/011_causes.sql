-- What an attempt failed because of: the project, the agent, the service, a person or Ralph. Rows are classified by
-- `migrate_rows`, which also retires what was learned from failures that say nothing about the project.
ALTER TABLE attempts ADD COLUMN cause TEXT;
