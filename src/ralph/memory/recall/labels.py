"""Labels for score components and memory fields, for displaying memories to people."""

from __future__ import annotations

SCORE_DESCRIPTIONS = {
    "words": "contains query words, weighted by rarity",
    "paths": "file paths contain words of the query",
    "named": "the query names one of its files",
    "title": "title shares words with the query title",
    "every word": "has every telling word of the title",
    "files": "shares files with the top matches",
    "folders": "shares folders with the top matches",
    "no files": "as much as files get others, having none",
    "together": "learned right before or after a match",
    "links": "links to a match, or is linked from one",
    "meaning": "similar meaning, regardless of wording",
    "source": "other passages of the same session match",
    "end": "end of a session whose other passages match",
    "recency": "age, with a half-life of one year",
    "date": "learned at the date that the query names",
    "tags": "tags are words of the query",
    "confidence": "current confidence",
    "success": "how often it helped when it was shown",
    "hat": "learned in the same role",
    "task type": "learned from the same type of task",
    "feature": "learned for the same feature",
    "failure": "learned from the same failure",
    "stale": "files it names have changed or are gone",
    "meant to fail": "records a test that was meant to fail",
    "text": "contains the exact text of the query",
}
"""Short description of each score component."""

FIELD_LABELS = {
    "kind": "type",
    "body": "content",
    "content": "figures",
    "origin_loops": "loops",
    "state_reason": "reason",
    "stale": "check first",
    "pinned_at": "pinned",
}
"""Display names of fields that differ from the internal ones."""
HIDDEN_FIELDS = ("seen", "updated_at", "validated_at", "verified_at", "used_at")
"""Timestamps and marks hidden from the history, because they follow from other changes."""
