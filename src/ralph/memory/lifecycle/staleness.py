"""Staleness of memories that name files.

A file is identified by its mark, the git blob id of its content.
Nothing here reads files or runs git; `ralph.memory.freshness` does.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.text import one_line, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.core.records import Memory

ABSENT_MARK = "-"
"""Mark of a path without a file. If a file appears there, its content is recorded as current."""
UNKNOWN_MARK = ""
"""Mark of a file that had already changed when it was first checked."""
FOLDER_MARK = "folder"
"""Mark of a directory."""
MATCHED_MARK = "matched"
"""Mark of a pattern that matches some files."""

CHANGED_PENALTY, GONE_PENALTY = 0.5, 1.0
"""Doubt by state of the files: most changes leave a statement true, a missing file makes it useless."""
GONE_SUFFIXES = (" gone", " any more")
"""Endings of the clauses about missing files in a staleness reason."""
MAX_LISTED_FILES = 3
"""Maximum number of files listed in a clause."""
MAX_PATH_WIDTH = 120
"""Maximum length of a path in a staleness reason, in characters."""
MAX_REASON_LENGTH = 600
"""Maximum length of a staleness reason, in characters."""


@record
class FileReferences:
    """Files a memory names, with their recorded state."""

    files: tuple[str, ...]
    marks: dict[str, str]
    """Marks recorded when the memory was last known to be true."""
    verified_on: str
    """Date on which the memory was last known to be true."""
    since: str
    """Time of the last edit or confirmation; files without a mark are assumed unchanged since then."""


# --- marks -------------------------------------------------------------------------------


def content_marks(content: bytes) -> tuple[str, ...]:
    """Return the marks of a content: with normalized line endings first, then unmodified if that differs."""
    normalized = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content
    marks = (_blob_id(normalized),)
    return marks if normalized is content else (*marks, _blob_id(content))


def _blob_id(content: bytes) -> str:
    import hashlib

    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def parse_marks(seen: str) -> dict[str, str]:
    """Return the recorded marks by path; empty if the record is damaged."""
    import json

    try:
        marks = json.loads(seen or "{}")
    except ValueError:
        return {}
    return {path: mark for path, mark in marks.items() if isinstance(mark, str)} if isinstance(marks, dict) else {}


def format_marks(marks: Mapping[str, str]) -> str:
    """Return marks in the stored form."""
    import json

    return json.dumps(marks, ensure_ascii=False, separators=(",", ":")) if marks else ""


# --- paths -------------------------------------------------------------------------------


def is_pattern(path: str) -> bool:
    """Return whether a path is a glob pattern; brackets do not count, since real file names contain them."""
    return "*" in path or "?" in path


def project_path(path: str) -> str:
    """Return a path in the form git uses; empty if it is not a plain path inside the project."""
    from posixpath import normpath

    if not path or path.startswith(("/", "~")) or "\0" in path or "://" in path or "\\" in path:
        return ""
    plain = normpath(path)
    return "" if plain in (".", "..") or plain.startswith("../") else plain


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a glob pattern; `*` does not cross directories, `**` does."""
    import re

    plain = pattern.removeprefix("./")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", plain if "/" in plain else f"**/{plain}")
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wildcards.get(part) or re.escape(part) for part in parts))


# --- assessment --------------------------------------------------------------------------


def assess_staleness(
    references: FileReferences, states: Mapping[str, tuple[str, ...]], changed_at: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Return the marks to record for a memory and the reason why it is stale; empty if its files are unchanged.

    `states` holds the possible marks of each path, the preferred one first, and none where nothing is; nothing is known
    about paths missing from it. `changed_at` is the time of the last change git recorded by path; it is used for files
    without a recorded mark.
    """
    marks: dict[str, str] = {}
    gone: list[str] = []
    changed: list[str] = []
    for path in references.files:
        recorded, current = references.marks.get(path), states.get(path)
        if current is None:
            marks |= {path: recorded} if recorded is not None else {}
            continue
        is_new = recorded is None and changed_at.get(path, "") <= references.since
        if is_new or recorded == ABSENT_MARK:
            marks[path] = current[0] if current else ABSENT_MARK
            continue
        marks[path] = recorded or UNKNOWN_MARK
        if recorded not in current:
            (changed if current else gone).append(path)
    return marks, _reason(gone, changed, references.verified_on)


def _reason(gone: Sequence[str], changed: Sequence[str], verified_on: str) -> str:
    """Return what happened to the files, most serious first; empty if nothing did."""
    groups = (
        ([path for path in gone if not is_pattern(path)], "is gone", "are gone"),
        ([path for path in gone if is_pattern(path)], "matches nothing any more", "match nothing any more"),
        (changed, f"has changed since {verified_on}", f"have changed since {verified_on}"),
    )
    clauses = (f"{_list_paths(paths)} {one if len(paths) == 1 else many}" for paths, one, many in groups if paths)
    return truncate("; ".join(clauses), MAX_REASON_LENGTH)


def _list_paths(paths: Sequence[str]) -> str:
    names = [_shorten(path) for path in paths[:MAX_LISTED_FILES]]
    more = [f"{len(paths) - MAX_LISTED_FILES} more"] if len(paths) > MAX_LISTED_FILES else []
    *first, last = names + more
    return f"{', '.join(first)} and {last}" if first else last


def _shorten(path: str) -> str:
    return one_line(path, MAX_PATH_WIDTH)


def staleness_penalty(stale: str) -> float:
    """Return the doubt caused by a staleness reason: 0 without one, 1 if a file is gone."""
    if not stale:
        return 0.0
    return GONE_PENALTY if any(part.endswith(GONE_SUFFIXES) for part in stale.split("; ")) else CHANGED_PENALTY


def ids_confirmed_by(memories: Iterable[Memory], files: Collection[str]) -> list[str]:
    """Return the ids of stale memories confirmed by a successful attempt that was shown them.

    Those are the ones that name a file it changed: an agent told to check first before working on a file has checked.
    """
    changed = set(map(project_path, files)) - {""}
    return [
        memory.id for memory in memories if memory.stale and not changed.isdisjoint(map(project_path, memory.files))
    ]


def reset_marks_on_edit(was: Memory, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a change, with staleness marks reset if the text is new."""
    is_new_text = fields.get("content", was.content) != was.content
    if is_new_text and "seen" not in fields and (was.seen or was.stale):
        return {**fields, "seen": "", "stale": ""}
    return dict(fields)
