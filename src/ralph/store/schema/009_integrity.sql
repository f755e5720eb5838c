-- What a task may change of the files that decide whether it is done, and who wrote its text.
ALTER TABLE tasks ADD COLUMN allow TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tasks ADD COLUMN written_by TEXT NOT NULL DEFAULT 'person';

-- Changes to such files that wait for a person. Each mark is a path and the hash of its content.
CREATE TABLE held_changes (
    seq {identity},
    project_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    digest TEXT NOT NULL,
    reason TEXT NOT NULL,
    files TEXT NOT NULL,
    marks TEXT NOT NULL,
    diff TEXT NOT NULL,
    created_at TEXT NOT NULL,
    approved_at TEXT,
    FOREIGN KEY (project_id, task_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE
);
CREATE INDEX held_changes_by_task ON held_changes (project_id, task_id);
