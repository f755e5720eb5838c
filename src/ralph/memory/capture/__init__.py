"""What comes into the memory: extracted learnings, hand-overs, finished runs."""
