-- No checksum holds these values: a twin of them finds what has changed on the disk.
CREATE INDEX held_changes_twin ON held_changes
    (seq, run_id, iteration, digest, reason, files, marks, diff, created_at, approved_at) WHERE seq > -1;
