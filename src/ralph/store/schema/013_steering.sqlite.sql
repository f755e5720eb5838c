-- The twin holds the new values too.
DROP INDEX runs_twin;
CREATE INDEX runs_twin ON runs
    (seq, agent, started_at, ended_at, ending, iterations, options, seconds, request, waits_until, waits_for)
    WHERE seq > -1;
