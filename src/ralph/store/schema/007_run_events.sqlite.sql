CREATE INDEX run_events_by_project ON run_events (project_id, seq);
-- A page of all failures reads no more than the page; on a server the key does that.
CREATE INDEX failures_in_order ON failures (project_id, seq);
