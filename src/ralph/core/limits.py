"""Size limits of a memory, whatever its source."""

from __future__ import annotations

MAX_TITLE_LENGTH = 200
"""Maximum length of a title, in characters."""
MAX_BODY_LENGTH = 100_000
"""Maximum length of a body, in characters."""
MAX_TAG_LENGTH = 100
"""Maximum length of a tag, in characters."""
MAX_TAGS = 50
"""Maximum number of tags, and of files."""
