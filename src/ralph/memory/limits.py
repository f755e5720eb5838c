"""How much a memory may hold, whichever way it comes in."""

from __future__ import annotations

LONGEST_TITLE = 200
LONGEST_BODY = 100_000
LONGEST_TAG = 100
MOST_TAGS = 50
"""As many files as well."""
