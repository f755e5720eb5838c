-- The twin holds the new value too.
DROP INDEX runs_twin;
CREATE INDEX runs_twin ON runs
    (seq, agent, started_at, ended_at, ending, iterations, options, seconds, request, waits_until, waits_for, waited)
    WHERE seq > -1;
