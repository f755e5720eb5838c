"""Diffs of attempts, from the commits that were recorded with them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ralph.core.errors import GitError
from ralph.core.git import query_git, stream_git
from ralph.core.records import record, replace
from ralph.core.redaction import redact
from ralph.core.text import escape_invisible
from ralph.loop.git.serial import PUT_BACK, checkpoint_ref
from ralph.loop.git.snapshots import EMPTY_TREE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ralph.core.records import Attempt

MAX_DIFF_BYTES = 200_000
"""Maximum size of a diff, in bytes."""
_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/")


@record
class AttemptDiff:
    """What an attempt changed."""

    run_id: str
    iteration: int
    task_id: str | None
    number: int | None
    before: str = ""
    """Commit it is compared with; empty if there is nothing to compare."""
    after: str = ""
    """Commit with its work."""
    text: str = ""
    """Unified diff, redacted and bounded."""
    is_cut: bool = False
    """Whether the diff is longer than the text."""
    problem: str = ""
    """Why there is no diff; empty if there is one."""


def attempt_diff(directory: Path | str, attempt: Attempt, earlier: Sequence[Attempt] | None = None) -> AttemptDiff:
    """Return what an attempt changed; with `earlier` attempts at its task, newest first, what all of them did.

    These count as far as the attempt goes on with their work.
    """
    before, after = _range(directory, attempt, earlier)
    found = AttemptDiff(
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        task_id=attempt.task_id,
        number=attempt.number,
        before=before,
        after=after,
        problem="" if after else "No changes are recorded: the attempt made none, or its run did not commit.",
    )
    return _with_text(directory, found) if after else found


def _range(directory: Path | str, attempt: Attempt, earlier: Sequence[Attempt] | None) -> tuple[str, str]:
    """Return the commits between which the changes of an attempt are; empty if there are none."""
    after = attempt.commits[-1] if attempt.commits else attempt.checkpoint
    if not after:
        return "", ""
    is_merge = query_git(directory, "rev-parse", "-q", "--verify", f"{after}^2") is not None
    if attempt.commits and (earlier is not None or is_merge or not attempt.start_commit):
        return _parent(directory, after if is_merge else attempt.commits[0]), after
    start = _first_start(directory, attempt, earlier or ())
    return start or _parent(directory, after), after


def _first_start(directory: Path | str, attempt: Attempt, earlier: Sequence[Attempt]) -> str:
    """Return the commit that an attempt, or the first of the earlier ones whose work it goes on with, started from."""
    for one in earlier:
        if one.checkpoint and one.checkpoint == attempt.start_commit:
            attempt = one
    start = attempt.start_commit
    ref = checkpoint_ref(attempt.run_id, attempt.iteration) + PUT_BACK
    put_back = (query_git(directory, "rev-parse", "-q", "--verify", ref) or "").strip() if earlier else ""
    # Work that was put back on top of what others committed since is the task's own, but they are not.
    return _parent(directory, start) if start and put_back == start else start


def _parent(directory: Path | str, commit: str) -> str:
    return (query_git(directory, "rev-parse", "-q", "--verify", f"{commit}^1") or EMPTY_TREE).strip()


def _with_text(directory: Path | str, found: AttemptDiff) -> AttemptDiff:
    content = b""
    try:
        with closing(stream_git(directory, "diff", *_OPTIONS, found.before, found.after)) as chunks:
            for chunk in chunks:
                content += chunk
                if len(content) > MAX_DIFF_BYTES:
                    break
    except GitError:
        return replace(found, problem=f"{found.after[:12]} is not in this repository any more.")
    is_cut = len(content) > MAX_DIFF_BYTES
    lines = content[:MAX_DIFF_BYTES].decode("utf-8", "backslashreplace")
    text = redact(escape_invisible(lines.rpartition("\n")[0] if is_cut else lines.rstrip("\n")))
    return replace(found, text=text, is_cut=is_cut, problem="" if text else "The attempt changed nothing.")
