-- Passages of past work, word for word: of sessions, attempts and commits. `bytes` is the size of the text, so that
-- keeping within a limit reads no texts.
CREATE TABLE episodes (
    seq {identity},
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    agent TEXT NOT NULL,
    position BIGINT NOT NULL,
    speaker TEXT NOT NULL,
    body TEXT NOT NULL,
    files TEXT NOT NULL,
    links TEXT NOT NULL,
    branch TEXT NOT NULL,
    at TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    uses BIGINT NOT NULL DEFAULT 0,
    wins BIGINT NOT NULL DEFAULT 0,
    losses BIGINT NOT NULL DEFAULT 0,
    checksum TEXT NOT NULL,
    UNIQUE (project_id, id)
);
CREATE INDEX episodes_by_source ON episodes (project_id, kind, source, position);
CREATE INDEX episodes_by_branch ON episodes (project_id, kind, branch, at);
CREATE INDEX episodes_by_use ON episodes (project_id, uses, at, bytes);

CREATE TABLE episode_words (
    seq {key} REFERENCES episodes (seq) ON DELETE CASCADE,
    project_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    paths TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE episode_vectors (
    made {identity},
    project_id TEXT NOT NULL,
    seq BIGINT NOT NULL UNIQUE REFERENCES episodes (seq) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector {bytes} NOT NULL
);

-- How far each transcript or repository is imported, and a mark by which another one in its place is known.
CREATE TABLE import_cursors (
    project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    position BIGINT NOT NULL,
    mark TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (project_id, source)
);
