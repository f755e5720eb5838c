"""Import of a repository's history: its commits become episodes, the newest first."""

from __future__ import annotations

import os

from ralph.core.errors import GitError
from ralph.core.hashing import sha256_hex
from ralph.core.records import replace
from ralph.core.text import sanitize_all
from ralph.formats.transcripts.base import TranscriptProblem
from ralph.memory.capture.git_history import (
    DEFAULT_LIMIT,
    MAX_COUNTED,
    LogCounts,
    count_commits,
    head_commit,
    read_commits,
    shallow_commits,
)
from ralph.memory.capture.session_import import FORGOTTEN, ImportSummary, batches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.records import Episode
    from ralph.memory.capture.session_import import ImportContext, Progress

GIT_SOURCE = "git"


class CommitImport:
    """Import of the commits of the current branch."""

    def __init__(self, context: ImportContext, root: str, limit: int = 0) -> None:
        self._context = context
        self._root = root
        self._limit = limit or DEFAULT_LIMIT
        self._counts = LogCounts()
        self._shallow = shallow_commits(root)
        # Commits that are made meanwhile come with the next import.
        self._head = head_commit(root)
        self._after, _, self._scope = context.cursor(GIT_SOURCE).mark.partition(" ")
        if self._scope not in ("", self._new_scope()):
            self._after = ""  # The last import left out what this one may read.

    def read(self, progress: Progress | None = None) -> ImportSummary:
        """Store the commits, and return what came in. The cursor moves when all of them are stored."""
        read = added = 0
        problems: list[TranscriptProblem] = []
        commits = read_commits(
            self._root,
            head=self._head,
            after=self._after or None,
            since=self._context.since,
            limit=self._limit,
            counts=self._counts,
        )
        total = min(count_commits(self._root, after=self._after or None), self._limit) if progress else 0
        for batch in batches(self._readable(commits, problems)):
            read += len(batch)
            added += self._context.add(_sanitized(batch), self._counts.left_out)
            if progress:
                progress(read, max(read, total))
        if self._head and not problems:
            self._context.set_cursor(GIT_SOURCE, read, f"{self._head} {self._kept_scope()}".rstrip())
        left_out = self._counts.left_out
        return ImportSummary(
            source=GIT_SOURCE,
            title="git",
            read=read,
            added=added,
            known=read - added - left_out[FORGOTTEN],
            left_out=tuple(left_out.most_common()),
            problems=tuple(problems),
            notes=tuple(self._notes()),
        )

    def _readable(self, commits: Iterator[Episode], problems: list[TranscriptProblem]) -> Iterator[Episode]:
        """Yield commits until git cannot read on, which is a problem."""
        try:
            yield from commits
        except GitError as error:
            reason = f"older commits were not read: {error}"
            problems.append(TranscriptProblem(path=self._root, offset=0, reason=reason))

    def _new_scope(self) -> str:
        """Return what identifies the commits that this import may read, on one word."""
        parts = [self._context.since, str(self._limit), *sorted(self._shallow)]
        return sha256_hex("\n".join(parts).encode())[:16]

    def _kept_scope(self) -> str:
        """Return the scope to record: empty if nothing is left out that another import could read."""
        if self._context.since or self._counts.is_cut or (self._shallow and not self._after):
            return self._new_scope()
        return self._scope if self._after else ""

    def _notes(self) -> Iterator[str]:
        if not self._head:
            yield "The repository has no commits yet."
        if self._counts.is_cut:
            total = count_commits(self._root, after=self._after or None)
            older = max(total - self._counts.read, 0)
            count = "more than " if total > MAX_COUNTED else ""
            if older:
                command = f"ralph import git --max {self._limit + older}"
                yield f"Older commits that were not read: {count}{older:,}. To import them as well: {command}"
        if self._shallow:
            yield "This is a shallow clone. For its older commits: git fetch --unshallow, then ralph import git"
        if os.path.isfile(f"{self._root}/.gitmodules"):  # noqa: PTH113
            yield "Submodules have histories of their own, which are not read."


def _sanitized(commits: list[Episode]) -> list[Episode]:
    """Return commits without secrets."""
    authors = list({one.agent for one in commits})
    names = dict(zip(authors, sanitize_all(authors), strict=True))
    return [
        one if text == one.text and names[one.agent] == one.agent else replace(one, text=text, agent=names[one.agent])
        for one, text in zip(commits, sanitize_all([one.text for one in commits]), strict=True)
    ]
