-- The commit that an attempt started from, the commits with its work, and where unfinished work is saved.
ALTER TABLE attempts ADD COLUMN start_commit TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN commits TEXT NOT NULL DEFAULT '[]';
ALTER TABLE attempts ADD COLUMN checkpoint TEXT NOT NULL DEFAULT '';
