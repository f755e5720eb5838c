-- What agents ask a person about their task, with the answers. Several questions of a task form its history.
CREATE TABLE questions (
    seq {identity},
    project_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    text TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    answer TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    answered_at TEXT,
    FOREIGN KEY (project_id, task_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE
);
CREATE INDEX questions_by_task ON questions (project_id, task_id);
