"""What the rows of memories tell: related by a file or folder, learned together, or a failure that was meant."""

from __future__ import annotations

import re

from ralph.memory.lifecycle.confidence import days_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

FILE_KEY_SEGMENTS = 3
"""Number of last segments of a path that identify a file."""
CONSECUTIVE_WITHIN_DAYS = 10 / (24 * 60)
"""Maximum time between two memories learned together, in days."""
FIX = "fix"
"""Kind of memories about what failed, and what helped."""
_MEANT_TO_FAIL = re.compile(
    r"\bexpected (?:red|fail(?:s|ure|ing)?|to fail)\b|\bfail(?:s|ed|ing)? as expected\b|\bred (?:gate|phase)\b"
    r"|\b(?:meant|supposed) to fail\b|\bintentional(?:ly)? (?:failing|red)\b",
    re.IGNORECASE,
)


def whole_path(path: str) -> str:
    """Return the path itself."""
    return path


def file_key(path: str) -> str:
    """Return what identifies a file even if its tree was moved, as from `src/java` to `src/main/java`."""
    return "/".join(path.rsplit("/", FILE_KEY_SEGMENTS)[-FILE_KEY_SEGMENTS:])


def folder(path: str) -> str:
    """Return the directory of a file."""
    return path.rpartition("/")[0]


def last_confirmed(row: Row) -> str:
    """Return when a memory was last created, used or verified."""
    return max(str(row["used_at"] or ""), str(row["verified_at"] or ""), str(row["created_at"]))


def _origin(row: Row) -> tuple[object, ...]:
    """Return the session or attempt a memory was learned in; empty if unknown."""
    origin = tuple(row[name] for name in ("origin_session", "origin_run", "origin_task", "origin_attempt"))
    return origin if any(origin) else ()


def has_same_origin(one: Row, other: Row) -> bool:
    """Return whether two memories were learned in the same session or attempt."""
    return bool(_origin(one)) and _origin(one) == _origin(other)


def is_consecutive(one: Row, other: Row) -> bool:
    """Return whether two memories were learned one after the other.

    Memories with the same timestamp were imported in bulk, unless one session or attempt learned both.
    """
    if _origin(one) or _origin(other):
        return has_same_origin(one, other)
    return 0 < abs(days_between(one["created_at"], other["created_at"])) <= CONSECUTIVE_WITHIN_DAYS


def is_meant_to_fail(row: Row) -> bool:
    """Return whether a memory records the failure of a test that was written first: nothing was wrong."""
    return row["kind"] == FIX and _MEANT_TO_FAIL.search(row["body"]) is not None
