-- Who wrote a feature: a person's words are shown in prompts as they are.
ALTER TABLE features ADD COLUMN written_by TEXT NOT NULL DEFAULT 'person';
