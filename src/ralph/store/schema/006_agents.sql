-- How often an agent asked its model, and its own name for the session.
ALTER TABLE attempts ADD COLUMN turns BIGINT;
ALTER TABLE attempts ADD COLUMN agent_session TEXT NOT NULL DEFAULT '';

-- An attempt that nothing can be learned from about its task: the service that runs its model failed.
ALTER TABLE attempts ADD COLUMN excused BIGINT NOT NULL DEFAULT 0;

-- Sessions of agents that people run themselves: what they were told, what they left.
CREATE TABLE sessions (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    title TEXT NOT NULL,
    summary TEXT NOT NULL,
    shown TEXT NOT NULL,
    learned TEXT NOT NULL,
    said TEXT NOT NULL,
    prompts BIGINT NOT NULL,
    compactions BIGINT NOT NULL,
    started_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    ended_at TEXT,
    ending TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, id)
);
CREATE INDEX sessions_by_time ON sessions (project_id, last_at);

-- An excused attempt is no failure of the task.
DROP VIEW strategy_metrics;
CREATE VIEW strategy_metrics AS
SELECT counted.*, CASE WHEN consecutive_failures >= 3 THEN 1 ELSE 0 END AS stuck_flag
FROM (
    SELECT t.project_id, t.id AS task_id,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id) AS total_attempts,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome IN ('failed', 'retried', 'blocked', 'error') AND a.excused = 0
                AND a.number > COALESCE((SELECT MAX(d.number) FROM attempts AS d
                    WHERE d.project_id = t.project_id AND d.task_id = t.id
                        AND d.outcome = 'done' AND d.handed_to = ''), 0)
        ) AS consecutive_failures,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome IN ('failed', 'retried', 'blocked', 'error') AND a.excused = 0
                AND a.number > t.reset_after
                AND a.number > COALESCE((SELECT MAX(d.number) FROM attempts AS d
                    WHERE d.project_id = t.project_id AND d.task_id = t.id
                        AND d.outcome = 'done' AND d.handed_to = ''), 0)
        ) AS failures_since_reset,
        (SELECT MAX(a.started_at) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id) AS last_attempt_at,
        (SELECT MAX(a.started_at) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome = 'done' AND a.handed_to = '') AS last_success_at,
        (SELECT a.difficulty FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id AND a.difficulty IS NOT NULL
            ORDER BY a.number DESC LIMIT 1) AS difficulty_estimate,
        (SELECT a.model FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id AND a.outcome = 'done' AND a.handed_to = ''
            ORDER BY a.number DESC LIMIT 1) AS suggested_model
    FROM tasks AS t
) AS counted;
