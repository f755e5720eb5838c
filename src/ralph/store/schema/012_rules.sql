-- What a person pinned to every prompt, and rules that memories and passages state, as JSON. They are found without
-- reading anything else.
ALTER TABLE memory ADD COLUMN pinned_at TEXT;
ALTER TABLE memory ADD COLUMN rule TEXT NOT NULL DEFAULT '';
ALTER TABLE episodes ADD COLUMN rules TEXT NOT NULL DEFAULT '';
CREATE INDEX memory_with_rule ON memory (project_id, seq) WHERE rule <> '' OR pinned_at IS NOT NULL;
CREATE INDEX episodes_with_rules ON episodes (project_id, at) WHERE rules <> '';
