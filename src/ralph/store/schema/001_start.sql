-- Shared by SQLite and PostgreSQL. Ids are text, moments UTC ISO-8601 text of fixed width, lists and
-- structures JSON text. {identity} is the database's own counter. Every key starts with the project, so
-- that the tables can be split by it.

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE features (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    plan TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, id),
    UNIQUE (project_id, name)
);

CREATE TABLE tasks (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'done', 'failed', 'blocked')),
    priority BIGINT NOT NULL,
    parent_id TEXT,
    feature_id TEXT,
    reason TEXT NOT NULL,
    claimed_by TEXT,
    claim_token BIGINT NOT NULL,
    lease_until TEXT,
    reset_after BIGINT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, id),
    FOREIGN KEY (project_id, parent_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, feature_id) REFERENCES features (project_id, id)
);
CREATE INDEX tasks_in_order ON tasks (project_id, status, priority DESC, seq);
CREATE INDEX tasks_claimed ON tasks (project_id, lease_until) WHERE status = 'in_progress';
CREATE INDEX tasks_by_parent ON tasks (project_id, parent_id);
CREATE INDEX tasks_by_feature ON tasks (project_id, feature_id);

CREATE TABLE task_needs (
    project_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    needs_id TEXT NOT NULL,
    PRIMARY KEY (project_id, task_id, needs_id),
    FOREIGN KEY (project_id, task_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, needs_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE
);
CREATE INDEX task_needs_by_needed ON task_needs (project_id, needs_id);

CREATE TABLE task_log (
    seq {identity},
    project_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    message TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    FOREIGN KEY (project_id, task_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE
);
CREATE INDEX task_log_by_task ON task_log (project_id, task_id);

CREATE TABLE runs (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    ending TEXT NOT NULL,
    iterations BIGINT NOT NULL,
    UNIQUE (project_id, id)
);

CREATE TABLE attempts (
    seq {identity},
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    task_id TEXT,
    number BIGINT,
    feature_id TEXT,
    hat TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    model_reason TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('done', 'failed', 'retried', 'blocked', 'interrupted', 'error')),
    reason TEXT NOT NULL,
    error_type TEXT CHECK (error_type IN ('timeout', 'tool_error', 'assertion_failure', 'unknown')),
    seconds DOUBLE PRECISION NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    tokens_in BIGINT,
    tokens_out BIGINT,
    files TEXT NOT NULL,
    notes TEXT NOT NULL,
    difficulty TEXT CHECK (difficulty IN ('trivial', 'easy', 'moderate', 'hard', 'blocked')),
    shown TEXT NOT NULL,
    with_memory BIGINT NOT NULL,
    worker TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, run_id, iteration),
    UNIQUE (project_id, task_id, number),
    FOREIGN KEY (project_id, run_id) REFERENCES runs (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, task_id) REFERENCES tasks (project_id, id) ON DELETE CASCADE
);
CREATE INDEX attempts_in_order ON attempts (project_id, seq);
CREATE INDEX attempts_open ON attempts (project_id, task_id) WHERE outcome IS NULL;

CREATE TABLE failures (
    seq {identity},
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    task_id TEXT NOT NULL,
    attempt_number BIGINT NOT NULL,
    tried TEXT NOT NULL,
    why TEXT NOT NULL,
    category TEXT NOT NULL,
    files TEXT NOT NULL,
    trace TEXT NOT NULL,
    retry_suggestion TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, run_id, iteration),
    FOREIGN KEY (project_id, run_id, iteration)
        REFERENCES attempts (project_id, run_id, iteration) ON DELETE CASCADE
);
CREATE INDEX failures_by_task ON failures (project_id, task_id, attempt_number);
CREATE INDEX failures_by_category ON failures (project_id, category);

-- A memory outlives the task that taught it: its origin is a note, not a foreign key.
CREATE TABLE memory (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    title_key TEXT NOT NULL,
    body TEXT NOT NULL,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    files TEXT NOT NULL,
    feature TEXT,
    task_type TEXT,
    hat TEXT,
    source TEXT NOT NULL CHECK (source IN ('automatic', 'explicit', 'imported')),
    trust TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('staged', 'active', 'rejected', 'superseded', 'pruned', 'quarantined')),
    confidence DOUBLE PRECISION NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    wins BIGINT NOT NULL,
    losses BIGINT NOT NULL,
    uses BIGINT NOT NULL,
    superseded_by TEXT,
    origin_task TEXT,
    origin_run TEXT,
    origin_attempt BIGINT,
    origin_session TEXT,
    origin_loops TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    used_at TEXT,
    verified_at TEXT,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, id)
);
CREATE INDEX memory_by_title ON memory (project_id, state, kind, title_key);
CREATE INDEX memory_by_origin ON memory (project_id, origin_task);

CREATE TABLE memory_events (
    seq {identity},
    project_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    what TEXT NOT NULL,
    was TEXT,
    became TEXT,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    at TEXT NOT NULL,
    FOREIGN KEY (project_id, memory_id) REFERENCES memory (project_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_events_by_memory ON memory_events (project_id, memory_id, seq);

-- The names the published designs use, for people who query by hand.

CREATE VIEW journal AS
SELECT seq AS id, project_id, run_id, iteration, task_id, feature_id, outcome, model,
    seconds AS duration_secs, cost_usd, files AS files_modified, notes, started_at AS created_at
FROM attempts WHERE outcome IS NOT NULL;

CREATE VIEW iteration_outcomes AS
SELECT project_id, task_id, number AS attempt_number, model, started_at,
    CAST(ROUND(seconds * 1000) AS BIGINT) AS duration_ms, tokens_in AS tokens_input,
    tokens_out AS tokens_output, outcome, error_type
FROM attempts WHERE outcome IS NOT NULL AND task_id IS NOT NULL;

CREATE VIEW failure_reports AS
SELECT project_id, task_id, attempt_number, tried AS what_was_tried, why AS why_it_failed,
    category AS error_category, files AS relevant_files, trace AS stack_trace_snippet, created_at
FROM failures;

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
                    WHERE d.project_id = t.project_id AND d.task_id = t.id AND d.outcome = 'done'), 0)
        ) AS consecutive_failures,
        (SELECT COUNT(*) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id
                AND a.outcome IN ('failed', 'retried', 'blocked', 'error')
                AND a.number > t.reset_after
                AND a.number > COALESCE((SELECT MAX(d.number) FROM attempts AS d
                    WHERE d.project_id = t.project_id AND d.task_id = t.id AND d.outcome = 'done'), 0)
        ) AS failures_since_reset,
        (SELECT MAX(a.started_at) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id) AS last_attempt_at,
        (SELECT MAX(a.started_at) FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id AND a.outcome = 'done') AS last_success_at,
        (SELECT a.difficulty FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id AND a.difficulty IS NOT NULL
            ORDER BY a.number DESC LIMIT 1) AS difficulty_estimate,
        (SELECT a.model FROM attempts AS a
            WHERE a.project_id = t.project_id AND a.task_id = t.id AND a.outcome = 'done'
            ORDER BY a.number DESC LIMIT 1) AS suggested_model
    FROM tasks AS t
) AS counted;

CREATE VIEW learnings AS
SELECT project_id, id, origin_task AS task_id, kind AS category, body AS content, tags AS relevance_tags,
    created_at, CASE WHEN state = 'pruned' THEN updated_at END AS pruned_at, superseded_by
FROM memory WHERE state IN ('active', 'superseded', 'pruned');

CREATE VIEW memories AS
SELECT id, project_id, kind AS type, title, body AS content, confidence, tags, files AS file_refs,
    hat AS created_by_hat, origin_task AS created_by_task_id, origin_session AS created_by_session_id,
    source, created_at, used_at AS last_used_at, uses AS use_count, verified_at
FROM memory WHERE state = 'active';
