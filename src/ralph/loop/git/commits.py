"""Commits of what an agent left in the worktree of its task."""

from __future__ import annotations

import re
from pathlib import Path

from ralph.core.errors import WorktreeError
from ralph.core.records import record
from ralph.core.redaction import redact
from ralph.core.skill import SKILL_NAME
from ralph.core.text import escape_invisible, one_line
from ralph.loop.git.repository import full_ref, git_error, operation_in_progress, remove_stale_locks
from ralph.loop.git.worktrees import last_commit, worktree_git_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.loop.git.repository import Repository, WorktreeStatus

REPOSITORY_MODE = "160000"
"""Mode of a nested repository in a tree."""
LIST_INDEX = ("ls-files", "--stage", "-z")
"""Arguments of git for `nested_repositories`."""
MAX_NAMED_PATHS = 3
"""Maximum number of paths named in a message."""
MAX_SUBJECT_LENGTH = 72
"""Maximum length of a commit subject, in characters."""
OWN_FILES = (".ralph/", ".agent/", ".ralph.toml", f".claude/skills/{SKILL_NAME}/")
"""Paths that Ralph itself writes in the person's worktree, whose changes do not matter to it."""
NEVER_COMMITTED = (".ralph", ".agent/memories.md")
"""Paths that Ralph never commits."""
_MARKERS = (re.compile(rb"^<{7} ", re.MULTILINE), re.compile(rb"^>{7} ", re.MULTILINE))
_WITH_MARKERS = ("UU", "AA")
"""Status codes of conflicts for which git writes both sides into the file."""


@record
class TaskWorktree:
    """Worktree of one task."""

    directory: Path
    """Project directory inside the worktree, where the agent works."""
    root: Path
    branch: str
    is_new: bool = True
    """False when it holds work of an earlier attempt."""
    conflicts: tuple[str, ...] = ()
    """Files with conflict markers from merging the base branch."""
    start_commit: str = ""
    """Commit it was created from; empty when it holds earlier work."""
    base_commit: str = ""
    """Head of the base branch when the attempt began."""
    trailers: str = ""
    """Lines that name the run and the attempt in commits."""


@record
class CommittedWork:
    """Work of a task as it will be merged."""

    commit: str
    tree: str
    base: str = ""
    """Head of the base branch, if the commit descends from it, so that merging gives the same tree."""
    left_out: tuple[str, ...] = ()
    """One sentence for each file that is in the worktree and in no commit."""


class MergeRefusedError(WorktreeError):
    """Finished work cannot be merged into the base branch."""

    def __init__(self, why: str, conflicts: tuple[str, ...] = (), *, waits_for_person: bool = False) -> None:
        super().__init__(why)
        self.conflicts = conflicts
        self.waits_for_person = waits_for_person


class TaskCommitter:
    """Commits work in the worktrees of tasks, without Ralph's own files."""

    def __init__(self, repository: Repository, excluded: tuple[str, ...]) -> None:
        """`excluded` are paths that are never committed."""
        self._repository = repository
        self._excluded = excluded

    def commit(self, worktree: TaskWorktree, message: str) -> WorktreeStatus:
        """Commit the work and return the status from before."""
        folder = self.git_directory(worktree)
        state = self._status(worktree)
        if not state.head and (commit := last_commit(worktree.root)):
            # Somebody deleted the branch; a commit would start a history of its own.
            self._repository.run_git_checked(worktree.root, "update-ref", full_ref(worktree.branch), commit)
            state = self._status(worktree)
        if state.branch != worktree.branch:
            self._reset_branch(worktree, folder)
        if unresolved := self._unresolved(worktree, state):
            raise MergeRefusedError(f"The merge conflict is not resolved in {name_few(unresolved)}.", unresolved)
        changed = [path for path in state.changed if not is_inside(path, self._excluded)]
        if nested := [self._repository.relative_path(path) for path in changed if path.endswith("/")]:
            why = "is a nested git repository, whose files would be lost. Delete its .git directory."
            raise MergeRefusedError(f"The work cannot be committed: {name_few(nested)} {why}")
        if changed or state.unmerged or operation_in_progress(folder):
            nested = nested_repositories(self._repository.run_git_checked(worktree.root, *LIST_INDEX))
            skipped = (*self._excluded, *nested)
            self._git_or_refuse(
                worktree, "add", "-A", "--", ":/", *(f":(top,exclude,literal){name}" for name in skipped)
            )
            if moved := [path for path in nested if path in changed]:
                self._git_or_refuse(worktree, "update-index", "--", *moved)  # its commit, without looking inside
            if state.unmerged:
                self._git_or_refuse(
                    worktree, "add", "-A", "--", *(f":(top,literal){path}" for path, _ in state.unmerged)
                )
            self._git_or_refuse(worktree, "commit", "-q", "--cleanup=whitespace", "-m", message)
        return state

    def _status(self, worktree: TaskWorktree) -> WorktreeStatus:
        return self._repository.status(worktree.root, "--untracked-files=all", "--ignored=matching")

    def _git_or_refuse(self, worktree: TaskWorktree, *arguments: str) -> None:
        ran = self._repository.try_git(worktree.root, *arguments)
        # A file may look changed without a difference for git, for example with other line endings.
        is_empty_commit = arguments[0] == "commit" and not ran.ok and self._has_nothing_staged(worktree)
        if not ran.ok and not is_empty_commit:
            raise MergeRefusedError(f"The work in {worktree.directory} cannot be committed: {git_error(ran)}")

    def _has_nothing_staged(self, worktree: TaskWorktree) -> bool:
        return self._repository.try_git(worktree.root, "diff", "--cached", "--quiet").ok

    def _reset_branch(self, worktree: TaskWorktree, folder: Path) -> None:
        """Move the task's branch to what the agent has checked out, if that descends from the branch."""
        if operation_in_progress(folder) == "rebase":
            raise MergeRefusedError(f"A rebase was left unfinished in {worktree.directory}.")
        if not self._repository.is_ancestor(worktree.root, full_ref(worktree.branch)):
            raise MergeRefusedError(
                f"What is checked out in {worktree.directory} does not descend from {worktree.branch}. "
                f"Return to the branch with: git checkout {worktree.branch}"
            )
        self._repository.run_git_checked(worktree.root, "checkout", "-q", "--no-track", "-B", worktree.branch)

    def _unresolved(self, worktree: TaskWorktree, state: WorktreeStatus) -> tuple[str, ...]:
        """Return the files with unresolved conflicts."""
        found = [
            self._repository.relative_path(path)
            for path, kind in state.unmerged
            if kind not in _WITH_MARKERS or _has_both_sides(worktree.root / path, is_binary_too=True)
        ]
        marked = (path for path in worktree.conflicts if _has_both_sides(worktree.directory / path))
        return tuple(dict.fromkeys((*found, *marked)))

    def git_directory(self, worktree: TaskWorktree) -> Path:
        """Return the git directory of a worktree, after removing stale locks."""
        folder = worktree_git_directory(worktree.root)
        if folder is None:
            raise WorktreeError(f"The worktree {worktree.root} no longer exists.")
        remove_stale_locks(folder)
        return folder


def attempt_trailers(run_id: str, attempt: int | None) -> str:
    """Return the lines of a commit message that name an attempt."""
    return f"Ralph-Run: {run_id}\nRalph-Attempt: {attempt or 1}"


def commit_message(title: str, task_id: str, trailers: str = "") -> str:
    """Return the message of a commit with the work of a task."""
    id = " ".join(task_id.split())
    subject = one_line(redact(title), MAX_SUBJECT_LENGTH) or id
    return "\n".join(filter(None, [f"{subject}\n\nRalph-Task: {id}", trailers]))


def nested_repositories(listing: str) -> list[str]:
    """Return nested repositories in the index: to add them, git would run the programs that they configure."""
    return [entry.partition("\t")[2] for entry in listing.split("\0") if entry.startswith(REPOSITORY_MODE)]


def is_inside(path: str, parents: Collection[str]) -> bool:
    """Return whether a path is one of the given ones or inside of them."""
    return any(path == parent or path.startswith(f"{parent}/") for parent in parents)


def printable_path(path: str) -> str:
    """Return a path for a sentence: a name may hold line breaks and escape codes, and need not be UTF-8."""
    return escape_invisible(path).replace("\n", "\\n")


def name_few(paths: Collection[str]) -> str:
    """Return the first of some paths as text, and how many more there are."""
    named = [printable_path(path) for path in list(paths)[:MAX_NAMED_PATHS]]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _has_both_sides(path: Path, *, is_binary_too: bool = False) -> bool:
    """Return whether a file still has conflict markers; binary files cannot have any."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return (is_binary_too and b"\0" in content) or all(marker.search(content) for marker in _MARKERS)
