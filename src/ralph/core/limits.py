"""Size limits of a memory, whatever its source."""

from __future__ import annotations

LONGEST_TITLE = 200
"""Maximum length of a title, in characters."""
LONGEST_BODY = 100_000
"""Maximum length of a body, in characters."""
LONGEST_TAG = 100
"""Maximum length of a tag, in characters."""
MOST_TAGS = 50
"""Maximum number of tags, and of files."""
