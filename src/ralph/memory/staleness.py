"""Say of a memory that names files whether they are still as they were when it was last seen to hold.

A file is known again by its mark, the id that git gives to its content, so that git's index tells where a content went.
Nothing here looks at a file or asks git: `ralph.freshness` does.
"""

from __future__ import annotations

from ralph.records import record
from ralph.text import cut, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.records import Memory

ABSENT = "-"
"""The mark of a path where nothing was. Should a file come there, it is taken as it is then."""
UNKNOWN = ""
"""The mark of a file that had changed already when it was first looked at."""
FOLDER = "folder"
MATCHED = "matched"
"""The mark of a pattern that some files met."""
EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""Git's id of an empty file: it says nothing of which file it is."""

DOUBT_IF_CHANGED, DOUBT_IF_GONE = 0.5, 1.0
"""How doubtful a memory is: most changes to a file leave what is said of it true, what is gone is of little use."""
GONE = (" gone", " any more")
SHOWN_FILES = 3
WIDEST_PATH = 120
LONGEST = 600


@record
class Here:
    """What is at a path now."""

    marks: tuple[str, ...] = ()
    """All that its content may be known by, the best first; none when nothing is there."""
    moved_to: str = ""


@record
class Named:
    """The files a memory names, and what is known of them."""

    files: tuple[str, ...]
    marks: dict[str, str]
    """As they were when it was last seen to hold, as far as that was noted."""
    held_on: str
    """The day it was last seen to hold."""
    since: str
    """When somebody last wrote or confirmed it: what was not noted was as it was then."""


# --- marks -------------------------------------------------------------------------------


def marks_of(content: bytes) -> tuple[str, ...]:
    """Give what a content is known by: its mark with line ends made alike, and as it is if that is another one."""
    alike = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content
    marks = (_blob_id(alike),)
    return marks if alike is content else (*marks, _blob_id(content))


def _blob_id(content: bytes) -> str:
    import hashlib

    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def marks_in(seen: str) -> dict[str, str]:
    """Give the marks that were noted, by path; none of what is damaged."""
    import json

    try:
        found = json.loads(seen or "{}")
    except ValueError:
        return {}
    return {path: mark for path, mark in found.items() if isinstance(mark, str)} if isinstance(found, dict) else {}


def seen_of(marks: Mapping[str, str]) -> str:
    """Give marks as they are noted."""
    import json

    return json.dumps(marks, ensure_ascii=False, separators=(",", ":")) if marks else ""


# --- paths -------------------------------------------------------------------------------


def is_pattern(path: str) -> bool:
    """Say whether a path stands for all files like it; brackets alone are in the names of real ones."""
    return "*" in path or "?" in path


def inside(path: str) -> str:
    """Give a path as git writes it; empty for one that is not a plain path inside the project."""
    from posixpath import normpath

    if not path or path.startswith(("/", "~")) or "\0" in path or "://" in path or "\\" in path:
        return ""
    plain = normpath(path)
    return "" if plain in (".", "..") or plain.startswith("../") else plain


def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Give what matches the paths that meet a pattern; `*` stays in one folder, `**` does not."""
    import re

    plain = pattern.removeprefix("./")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", plain if "/" in plain else f"**/{plain}")
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(signs.get(part) or re.escape(part) for part in parts))


# --- what became of them -----------------------------------------------------------------


def judged(named: Named, here: Mapping[str, Here], touched: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Give the marks to note for a memory, and what makes it doubtful; nothing when its files are as they were.

    `here` is what is at each path now; of one that is missing there nothing can be known. `touched` says when git last
    saw a change of a path: it counts for files whose mark was not noted.
    """
    marks: dict[str, str] = {}
    fates: dict[str, Here] = {}
    for path in named.files:
        known, found = named.marks.get(path), here.get(path)
        if found is None:
            marks |= {path: known} if known is not None else {}
            continue
        is_new = known is None and touched.get(path, "") <= named.since
        if is_new or known == ABSENT:
            marks[path] = found.marks[0] if found.marks else ABSENT
            continue
        marks[path] = known or UNKNOWN
        if known not in found.marks:
            fates[path] = found
    return marks, _sentence(fates, named.held_on) if fates else ""


def _sentence(fates: Mapping[str, Here], held_on: str) -> str:
    """Say what became of files, what weighs most first."""
    missing = [path for path, here in fates.items() if not here.marks and not here.moved_to]
    gone = [path for path in missing if not is_pattern(path)]
    unmet = [path for path in missing if is_pattern(path)]
    moved = [(path, here.moved_to) for path, here in fates.items() if here.moved_to]
    changed = [path for path, here in fates.items() if here.marks]
    told = [f"{_listed(gone)} {_verb(gone, 'is', 'are')} gone"] if gone else []
    told += [f"{_listed(unmet)} {_verb(unmet, 'matches', 'match')} nothing any more"] if unmet else []
    told += [f"{_shown(path)} has moved to {_shown(to)}" for path, to in moved[:SHOWN_FILES]]
    told += [f"{_listed(changed)} {_verb(changed, 'has', 'have')} changed since {held_on}"] if changed else []
    return cut("; ".join(told), LONGEST)


def _listed(paths: Sequence[str]) -> str:
    names = [_shown(path) for path in paths[:SHOWN_FILES]]
    more = [f"{len(paths) - SHOWN_FILES} more"] if len(paths) > SHOWN_FILES else []
    *first, last = names + more
    return f"{', '.join(first)} and {last}" if first else last


def _verb(paths: Sequence[str], one: str, many: str) -> str:
    return one if len(paths) == 1 else many


def _shown(path: str) -> str:
    return one_line(path, WIDEST_PATH)


def doubt(stale: str) -> float:
    """Give how doubtful a memory is by what became of its files: 0 when nothing did, 1 when one of them is gone."""
    if not stale:
        return 0.0
    return DOUBT_IF_GONE if any(part.endswith(GONE) for part in stale.split("; ")) else DOUBT_IF_CHANGED


def likely_move(path: str, places: Iterable[str]) -> str:
    """Give where a file went when its content is now at these places; empty when that cannot be told."""
    others = [place for place in places if place != path]
    name = path.rpartition("/")[2]
    alike = [place for place in others if place.rpartition("/")[2] == name]
    found = alike or others
    return found[0] if len(found) == 1 else ""


def confirmed_by(memories: Iterable[Memory], files: Collection[str]) -> list[str]:
    """Give the ids of the doubtful memories that an attempt confirmed which was shown them and got its task done.

    Those are the ones that name a file it changed: whoever works on a file and is told to check first has checked.
    """
    changed = set(map(inside, files)) - {""}
    return [one.id for one in memories if one.stale and not changed.isdisjoint(map(inside, one.files))]


def rewritten(was: Memory, fields: Mapping[str, object]) -> dict[str, object]:
    """Give the fields of a change; with a new text a memory is as fresh as the text, so marks of before go."""
    is_new_text = fields.get("body", was.body) != was.body
    if is_new_text and "seen" not in fields and (was.seen or was.stale):
        return {**fields, "seen": "", "stale": ""}
    return dict(fields)
