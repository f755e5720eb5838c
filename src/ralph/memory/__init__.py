"""What to remember and what to recall. Pure: records in, records out."""
