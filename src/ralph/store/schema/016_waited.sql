-- How long a run has waited, by reason, as JSON.
ALTER TABLE runs ADD COLUMN waited TEXT NOT NULL DEFAULT '';
