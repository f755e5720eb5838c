-- After how many failures a task is stuck, as the settings of the last run say it.
ALTER TABLE projects ADD COLUMN stuck_after BIGINT NOT NULL DEFAULT 3;

-- A reset gives all retries back, so that failures before it do not make a task stuck.
DROP VIEW strategy_metrics;
CREATE VIEW strategy_metrics AS
SELECT counted.*, CASE WHEN failures_since_reset > 0 AND failures_since_reset >= (
        SELECT p.stuck_after FROM projects AS p WHERE p.id = counted.project_id
    ) THEN 1 ELSE 0 END AS stuck_flag
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
