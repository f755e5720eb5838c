-- What a memory's life needs: why it is in its state, how often it was learned and held, when it was
-- validated, and by what it is known again.

ALTER TABLE memory ADD COLUMN state_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE memory ADD COLUMN success_rate DOUBLE PRECISION;
ALTER TABLE memory ADD COLUMN support BIGINT NOT NULL DEFAULT 1;
ALTER TABLE memory ADD COLUMN validated_at TEXT;
ALTER TABLE memory ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
DROP INDEX memory_by_title;
CREATE INDEX memory_by_title ON memory (project_id, title_key) WHERE kind = 'knowledge';
DROP INDEX memory_by_origin;
CREATE INDEX memory_by_origin ON memory (project_id, origin_task) WHERE origin_task IS NOT NULL;
CREATE INDEX memory_by_fingerprint ON memory (project_id, fingerprint);
CREATE INDEX memory_by_state ON memory (project_id, state, seq);

-- Changes made together are undone together; an event that takes another one back names it.
ALTER TABLE memory_events ADD COLUMN change_id TEXT NOT NULL DEFAULT '';
ALTER TABLE memory_events ADD COLUMN undoes BIGINT;

-- The [[Title]]s a memory's text speaks of, by the key titles are compared by.
CREATE TABLE memory_links (
    project_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    title_key TEXT NOT NULL,
    PRIMARY KEY (project_id, memory_id, title_key),
    FOREIGN KEY (project_id, memory_id) REFERENCES memory (project_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_links_by_title ON memory_links (project_id, title_key);

-- What a file and the store last agreed on, entry by entry. `place` tells working copies apart when
-- several share one database.
CREATE TABLE synced_files (
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    place TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    changed_ns BIGINT NOT NULL,
    PRIMARY KEY (project_id, place, path)
);
CREATE TABLE synced_places (
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    place TEXT NOT NULL,
    event_seq BIGINT NOT NULL,
    files_mark TEXT NOT NULL,
    PRIMARY KEY (project_id, place)
);
CREATE TABLE synced_entries (
    project_id TEXT NOT NULL,
    place TEXT NOT NULL,
    path TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    agreed TEXT NOT NULL,
    PRIMARY KEY (project_id, place, path, memory_id),
    FOREIGN KEY (project_id, memory_id) REFERENCES memory (project_id, id) ON DELETE CASCADE
);
