-- What a person asks of a run from elsewhere, and until when it waits for the usage limit of an agent.
ALTER TABLE runs ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN waits_until TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN waits_for TEXT NOT NULL DEFAULT '';

-- What the person who interrupted an attempt said; notes may also hold the agent's words.
ALTER TABLE attempts ADD COLUMN feedback TEXT NOT NULL DEFAULT '';
