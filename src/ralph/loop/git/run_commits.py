"""Commits of a run, as git tells them."""

from __future__ import annotations

import re

from ralph.core.git import run_git
from ralph.core.records import record
from ralph.core.text import sanitize
from ralph.loop.options import START_KEY, stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ralph.core.records import Run

MAX_COMMITS = 1_000
"""Maximum number of commits that are read."""
LOG_SECONDS = 15.0
"""Timeout of git, in seconds: a report without commits is better than none."""
_FORMAT = "--format=%x01%H%x00%h%x00%s%x00"
_NUMSTAT = re.compile(r"(\d+|-)\t(\d+|-)\t(.+)")
_HASH = re.compile(r"[0-9a-f]{40,64}")


@record
class RunCommit:
    """Commit with the work of a task."""

    id: str
    """Full hash."""
    short_id: str
    subject: str
    files: int
    paths: tuple[str, ...]
    """Paths of these files."""
    added: int
    """Lines added; binary files count none."""
    removed: int


def read_commits(root: Path | str, ids: Sequence[str]) -> list[RunCommit]:
    """Return commits by their hashes, as far as they still exist. A merge counts with all that it brought."""
    known = [id for id in ids if _HASH.fullmatch(id)][:MAX_COMMITS]
    if not known:
        return []
    options = ("--no-walk=unsorted", "--ignore-missing", "--diff-merges=first-parent", "--numstat", _FORMAT)
    ran = run_git(root, "log", *options, *known, "--", timeout_seconds=LOG_SECONDS)
    return list(_parse(ran.stdout)) if ran.ok else []


def head_commit(root: Path | str) -> str:
    """Return the commit that is checked out; an empty string if there is none."""
    return run_git(root, "rev-parse", "-q", "--verify", "HEAD", timeout_seconds=LOG_SECONDS).stdout.strip()


def commits_during(root: Path | str, run: Run) -> list[str]:
    """Return the hashes of the commits made on the current branch during a run; none outside of a repository.

    A commit made just before the run may have the second in which the run started: what it started from is left out.
    """
    until = [f"--until={run.ended_at[:19]}Z"] if run.ended_at else []
    since = f"--since={run.started_at[:19]}Z"
    start = stored_text(run.options, START_KEY)
    before = [f"^{start}"] if _HASH.fullmatch(start) else []
    options = ("--first-parent", "--ignore-missing", f"--max-count={MAX_COMMITS}", since, *until)
    ran = run_git(root, "rev-list", *options, "HEAD", *before, "--", timeout_seconds=LOG_SECONDS)
    return ran.stdout.split() if ran.ok else []


def _parse(log: str) -> Iterator[RunCommit]:
    for entry in log.split("\x01")[1:]:
        id, short_id, subject, stat = (*entry.split("\0", 3), "", "", "")[:4]
        changes = [match.groups() for match in map(_NUMSTAT.match, stat.splitlines()) if match]
        yield RunCommit(
            id=id,
            short_id=short_id,
            subject=sanitize(subject),
            files=len(changes),
            paths=tuple(sanitize(path) for _, _, path in changes),
            added=sum(int(added) for added, _, _ in changes if added != "-"),
            removed=sum(int(removed) for _, removed, _ in changes if removed != "-"),
        )
