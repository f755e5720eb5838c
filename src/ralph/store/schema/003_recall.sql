-- What memories, journal entries and failure reports are found by: their words, cut by our own rules (of which
-- `version` says which), with one word after the other, and the files they name. Kept in the same
-- transaction as the texts, and made anew by: ralph doctor --reindex

CREATE TABLE memory_words (
    seq {key} REFERENCES memory (seq) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    paths TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE attempt_words (
    seq {key} REFERENCES attempts (seq) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    paths TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE failure_words (
    seq {key} REFERENCES failures (seq) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    paths TEXT NOT NULL,
    tags TEXT NOT NULL
);

CREATE TABLE memory_files (
    project_id TEXT NOT NULL,
    path TEXT NOT NULL,
    seq BIGINT NOT NULL REFERENCES memory (seq) ON DELETE CASCADE,
    PRIMARY KEY (project_id, path, seq)
);
CREATE INDEX memory_files_by_memory ON memory_files (seq);

-- What a text means, as a vector of one model; made when there is time for it. It goes when the text changes, and
-- the next one has a higher number: who keeps vectors at hand asks for those after the last one seen.
CREATE TABLE memory_vectors (
    made {identity},
    seq BIGINT NOT NULL UNIQUE REFERENCES memory (seq) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector {bytes} NOT NULL
);

CREATE INDEX failures_by_fingerprint ON failures (project_id, fingerprint);

-- The surest of each kind, for a prime: without reading the texts of all.
CREATE INDEX memory_by_confidence ON memory (project_id, state, kind, confidence DESC, created_at DESC);
