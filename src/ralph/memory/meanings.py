"""What the parts of a score mean and how fields are called, for whoever shows a memory to people."""

from __future__ import annotations

MEANINGS = {
    "words": "holds the words asked for, rare ones most",
    "paths": "its files are named in words asked for",
    "named": "one of its files is asked for by name",
    "title": "its title holds words of the title",
    "files": "touches the files that the best ones touch",
    "folders": "touches the folders that the best ones touch",
    "together": "was learned right before or after a match",
    "links": "links to a match, or is linked from one",
    "meaning": "means much the same, in whatever words",
    "recency": "how new it is: half of it goes each year",
    "tags": "its tags are words asked for",
    "confidence": "how sure it is by now",
    "success": "how often it helped when it was used",
    "hat": "was learned in the same role",
    "task type": "was learned from this type of task",
    "feature": "was learned for the same feature",
    "failure": "is about what went wrong last time",
    "stale": "files it names have changed or gone since",
    "text": "holds the text just as it was typed",
}
"""What each share of a score is for, in a few words that fit beside it."""

FIELDS = {
    "kind": "type",
    "body": "content",
    "content": "figures",
    "origin_loops": "loops",
    "state_reason": "reason",
    "stale": "check first",
}
"""What people call fields that have another name inside."""
UNTOLD = ("seen", "updated_at", "validated_at", "verified_at", "used_at")
"""Moments and marks that follow from what else an event says."""
