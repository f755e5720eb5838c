-- What happens in runs and to tasks, for those who follow it. Nothing is linked: an event outlives what it is about.
CREATE TABLE run_events (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    what TEXT NOT NULL,
    run_id TEXT NOT NULL,
    iteration BIGINT,
    task_id TEXT,
    at TEXT NOT NULL
);

-- A page of memories, the newest first, is found where the one before ended.
CREATE INDEX memory_by_date ON memory (project_id, state, created_at, id);
-- What a run taught, at once or when it was looked through later.
CREATE INDEX memory_by_run ON memory (project_id, origin_run) WHERE origin_run IS NOT NULL;
CREATE INDEX memory_by_loops ON memory (project_id, seq) WHERE origin_loops <> '[]';
