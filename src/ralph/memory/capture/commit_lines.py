"""Which lines commits changed, to tell whether one changed what another had just written."""

from __future__ import annotations

import re
from contextlib import closing, suppress

from ralph.core.errors import GitError
from ralph.core.git import stream_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Lines = dict[bytes, list[range]]
    """Ranges of lines by file."""

MAX_DIFF_BYTES = 8 * 1024 * 1024
"""Number of bytes of diffs that are read at once; commits behind that are not compared."""
_DIFF_COMMAND = (
    *("-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "log.showSignature=false", "log"),
    *("--no-walk=unsorted", "--format=%x00%H", "--unified=0", "--no-renames", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--no-relative"),
)
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def fixes_of_same_lines(root: Path | str, pairs: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> set[str]:
    """Return the first ids of those pairs of commits in which the first one changed lines that the second one wrote.

    No other commit may have changed these files between them: the numbers of lines would not agree.
    """
    ids = dict.fromkeys(id for pair in pairs for id in pair)
    before: dict[str, Lines] = {}
    after: dict[str, Lines] = {}
    with closing(stream_git(root, *_DIFF_COMMAND, *ids, "--", environment=environment)) as output:
        for id, lines in _by_commit(_bounded(output)):
            before[id], after[id] = _changed(lines)
    return {fix for fix, last in pairs if _overlap(before.get(fix, {}), after.get(last, {}))}


def _bounded(output: Iterator[bytes]) -> bytes:
    """Return the beginning of what git prints; nothing more if it fails, as in a partial clone."""
    parts, size = [], 0
    with suppress(GitError):
        for part in output:
            parts.append(part)
            size += len(part)
            if size > MAX_DIFF_BYTES:
                break
    return b"".join(parts)


def _by_commit(output: bytes) -> Iterator[tuple[str, list[bytes]]]:
    for part in output.split(b"\0")[1:]:
        id, *lines = part.split(b"\n")
        yield id.decode("ascii", "replace"), lines


def _changed(lines: list[bytes]) -> tuple[Lines, Lines]:
    """Return the lines of each file that a diff replaces, and those that it writes."""
    before: Lines = {}
    after: Lines = {}
    file, place = b"", 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith(b"--- ") or line.startswith(b"+++ "):
            file = line[6:] if line[4:6] in (b"a/", b"b/") else file
        elif hunk := _HUNK.match(line):
            start, count, new_start, new_count = (int(hunk[n]) if hunk[n] else 1 for n in (1, 2, 3, 4))
            # What is only added changes what stands before and behind it.
            before.setdefault(file, []).append(range(start, start + max(count, 2)))
            after.setdefault(file, []).append(range(new_start, new_start + new_count))
            place += count + new_count  # a removed line may look like a heading
    return before, after


def _overlap(before: Lines, after: Lines) -> bool:
    return any(
        one.start < other.stop and other.start < one.stop
        for file, ranges in before.items()
        for one in ranges
        for other in after.get(file, ())
    )
