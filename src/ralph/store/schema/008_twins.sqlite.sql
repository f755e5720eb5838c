-- How often the file was written to. Its writers note the number beside it too: a file that has gone back to an older
-- state, because its write-ahead log was lost or damaged, is known by that.
CREATE TABLE writing (
    id TEXT NOT NULL PRIMARY KEY,
    changes BIGINT NOT NULL,
    against BIGINT NOT NULL CHECK (against = -changes)
);
INSERT INTO writing (id, changes, against) VALUES (lower(hex(randomblob(8))), 0, 0);

-- A twin of every value that no checksum and no other index holds: `PRAGMA integrity_check` compares an index with
-- its table, and so finds the one that has changed on the disk. The conditions hold for all rows; no query asks for
-- them, so no query is answered from a twin.
CREATE INDEX projects_twin ON projects (id, created_at, copying) WHERE length(id) > -1;
CREATE INDEX tasks_twin ON tasks (seq, claimed_by, claim_token, lease_until) WHERE seq > -1;
CREATE INDEX task_log_twin ON task_log (seq, message, who, at) WHERE seq > -1;
CREATE INDEX runs_twin ON runs (seq, agent, started_at, ended_at, ending, iterations, options, seconds) WHERE seq > -1;
CREATE INDEX run_events_twin ON run_events (seq, what, run_id, iteration, task_id, at) WHERE seq > -1;
CREATE INDEX memory_twin ON memory (seq, seen, stale) WHERE length(seen) + length(stale) > 0;
CREATE INDEX memory_events_twin
    ON memory_events (seq, what, was, became, who, why, at, change_id, undoes) WHERE seq > -1;
CREATE INDEX memory_vectors_twin ON memory_vectors (made, project_id, model, vector) WHERE made > -1;
CREATE INDEX synced_places_twin
    ON synced_places (project_id, place, event_seq, files_mark, seen_at) WHERE length(place) > -1;
CREATE INDEX synced_files_twin ON synced_files (project_id, place, path, bytes, changed_ns) WHERE length(place) > -1;
CREATE INDEX synced_entries_twin
    ON synced_entries (project_id, place, path, memory_id, agreed) WHERE length(place) > -1;
CREATE INDEX attempt_sums_twin
    ON attempt_sums (project_id, attempts, seconds, cost_usd, tokens_in, tokens_out) WHERE attempts > -1;
CREATE INDEX attempt_summed_twin ON attempt_summed (project_id, until_seq, tasks, tasks_until_seq) WHERE until_seq > -1;
