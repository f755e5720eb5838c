-- What a loop that learns to win looks at: which experiment an attempt was part of, what kind of work it was, what it
-- asked for next, to whom it handed over, and how far it got.

ALTER TABLE attempts ADD COLUMN holdout DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN task_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN next_model TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN handed_to TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN change_mark TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN checks_passed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN checks_failed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX attempts_held_out ON attempts (project_id, seq) WHERE holdout > 0;

-- What a run was asked to do, so that it can go on after a crash; and the time it has used up before it stopped.
ALTER TABLE runs ADD COLUMN options TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN seconds DOUBLE PRECISION NOT NULL DEFAULT 0;

-- The files a memory names as they were when it was last seen to hold, and what has become of them since.
ALTER TABLE memory ADD COLUMN seen TEXT NOT NULL DEFAULT '';
ALTER TABLE memory ADD COLUMN stale TEXT NOT NULL DEFAULT '';
CREATE INDEX memory_stale ON memory (project_id, seq) WHERE stale <> '';

-- Sums over all attempts up to one of them, so that questions about all need not read all; made anew when one goes.
CREATE TABLE attempt_sums (
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    hat TEXT NOT NULL,
    task_kind TEXT NOT NULL,
    difficulty TEXT NOT NULL,
    outcome TEXT NOT NULL,
    is_handover BIGINT NOT NULL,
    with_memory BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    PRIMARY KEY (project_id, model, hat, task_kind, difficulty, outcome, is_handover, with_memory)
);
CREATE TABLE attempt_summed (
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    until_seq BIGINT NOT NULL,
    tasks BIGINT NOT NULL,
    tasks_until_seq BIGINT NOT NULL,
    PRIMARY KEY (project_id)
);

-- A task is done when nobody has to take it over any more.
DROP VIEW strategy_metrics;
CREATE VIEW strategy_metrics AS
SELECT counted.*, CASE WHEN consecutive_failures >= 3 THEN 1 ELSE 0 END AS stuck_flag
FROM (
    SELECT t.project_id, t.id AS task_id,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id) AS total_attempts,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome IN ('failed', 'retried', 'blocked', 'error')
                AND a.number > COALESCE((SELECT MAX(d.number) FROM attempts AS d
                    WHERE d.project_id = t.project_id AND d.task_id = t.id
                        AND d.outcome = 'done' AND d.handed_to = ''), 0)
        ) AS consecutive_failures,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome IN ('failed', 'retried', 'blocked', 'error')
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
