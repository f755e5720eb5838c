-- No checksum holds these values: a twin of them finds what has changed on the disk.
CREATE INDEX questions_twin ON questions
    (seq, run_id, iteration, text, asked_at, answer, answered_by, answered_at) WHERE seq > -1;
