-- Several projects in one database: each by its name, and every table that can be split by its project.

CREATE UNIQUE INDEX projects_by_name ON projects (name);

-- A claim changes a task's place in every index it is in: most have no parent and no feature.
DROP INDEX tasks_by_parent;
CREATE INDEX tasks_by_parent ON tasks (project_id, parent_id) WHERE parent_id IS NOT NULL;
DROP INDEX tasks_by_feature;
CREATE INDEX tasks_by_feature ON tasks (project_id, feature_id) WHERE feature_id IS NOT NULL;
-- What is needed to go on with a copy that is not finished; empty when the project is whole.
ALTER TABLE projects ADD COLUMN copying TEXT NOT NULL DEFAULT '';

ALTER TABLE memory_words ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt_words ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE failure_words ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE memory_vectors ADD COLUMN project_id TEXT NOT NULL DEFAULT '';

-- When a working copy was last in step: one that is gone, as those of containers are, is forgotten after a while.
ALTER TABLE synced_places ADD COLUMN seen_at TEXT NOT NULL DEFAULT '';
