"""The branch that work of tasks is merged into.

The person's worktree is touched by a single fast-forward, which either succeeds or changes nothing: conflicts are
detected beforehand, in the worktree of the task.
"""

from __future__ import annotations

import os
from pathlib import Path

from ralph.core.config import TOML_NAME
from ralph.core.errors import WorktreeError
from ralph.core.files import read_bytes_or_none
from ralph.core.records import record
from ralph.loop.git.commits import (
    REPOSITORY_MODE,
    CommittedWork,
    MergeRefusedError,
    TaskWorktree,
    is_inside,
    name_few,
)
from ralph.loop.git.repository import StopRequestedError, full_ref, git_error, operation_in_progress
from ralph.loop.git.worktrees import SESSION_ACTION, made_commits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ralph.core.git import GitResult
    from ralph.loop.git.repository import BranchRef, Repository

MERGE_RETRIES = 5
"""Number of attempts to merge while others move the base branch."""
MAX_LOG_ENTRIES = 100
"""Number of moves of the branch among which that of a session is looked for."""
MAX_CONFLICT_LINES = 10
"""Maximum number of conflict lines quoted from git."""

_LINK_MODE = "120000"
"""Mode of a symbolic link in a tree."""


@record
class MergeResult:
    """Result of merging finished work."""

    commit: str | None = None
    """New head of the base branch; None when nothing was merged."""
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    reason: str = ""
    """Why it was not merged; empty when it was, or when there was nothing to merge."""
    waits_for_person: bool = False
    """Whether a person has to act, because the obstacle is outside of the task."""
    left_out: tuple[str, ...] = ()
    """One sentence for each file that is only in the worktree, which is kept for that reason."""


class BaseBranch:
    """Branch that tasks start from and are merged into."""

    def __init__(self, repository: Repository, name: str, excluded: tuple[str, ...]) -> None:
        """`excluded` are paths that are never merged."""
        self.name = name
        self._repository = repository
        self._excluded = excluded

    def exists(self) -> bool:
        """Return whether it still exists."""
        try:
            return self.name in self._repository.find_branches(self.name)
        except WorktreeError:
            return False

    def find_with(self, worktree: TaskWorktree) -> tuple[BranchRef, BranchRef]:
        """Return this branch and the branch of a task; raise MergeRefusedError if one is gone."""
        refs = self._repository.find_branches(self.name, worktree.branch)
        if self.name not in refs:
            why = f"The branch {self.name} no longer exists; the work is on {worktree.branch}."
            raise MergeRefusedError(why, waits_for_person=True)
        if worktree.branch not in refs:
            raise MergeRefusedError(f"The branch {worktree.branch} no longer exists.")
        return refs[self.name], refs[worktree.branch]

    def undo_move(self, worktree: TaskWorktree) -> str:
        """Move this branch back if a session or a gate has moved it; return what happened."""
        made, log = made_commits(worktree.root), self._read_log()
        if not log or not _is_by_session(*log[0], made):
            return ""
        current = self._repository.find_branches(self.name).get(self.name)
        if current is None or current.commit in (worktree.base_commit, "") or current.commit != log[0][0]:
            return ""
        before = next((commit for commit, what in log if not _is_by_session(commit, what, made)), worktree.base_commit)
        updating = ("update-ref", "-m", "ralph: moved back", full_ref(self.name), before, current.commit)
        self._repository.run_git_checked(self._repository.top, *updating)
        left = f" Its files are still in {current.worktree}." if current.worktree else ""
        return f"{self.name} was moved to {current.commit[:12]} during a session and is back at {before[:12]}.{left}"

    def _read_log(self) -> list[tuple[str, str]]:
        """Return the latest commits that this branch was moved to, newest first, and what led to each."""
        words = ("log", "-g", "--format=%H %gs", "-n", str(MAX_LOG_ENTRIES), full_ref(self.name), "--")
        ran = self._repository.try_git(self._repository.top, *words)
        entries = (line.partition(" ") for line in ran.stdout.splitlines()) if ran.ok else ()
        return [(commit, what) for commit, _, what in entries]

    def catch_up(self, worktree: TaskWorktree, base: BranchRef, work: BranchRef) -> CommittedWork:
        """Merge this branch into a worktree, if it lacks anything; raise MergeRefusedError if they conflict."""
        is_included = self._repository.is_ancestor(worktree.root, base.commit, work.commit)
        if not is_included:
            if conflicts := self.merge_into(worktree):
                raise self.conflict(conflicts, ())
            base, work = self.find_with(worktree)
            # It may have moved again.
            is_included = self._repository.is_ancestor(worktree.root, base.commit, work.commit)
        return CommittedWork(commit=work.commit, tree=work.tree, base=base.commit if is_included else "")

    def merge_into(self, worktree: TaskWorktree) -> tuple[str, ...]:
        """Merge it into a worktree without uncommitted changes, and return the conflicts."""
        merging = ("merge", "-q", "--ff", "--no-edit", "--no-stat", "--no-verify-signatures")
        ran = self._repository.try_git(worktree.root, *merging, full_ref(self.name))
        conflicts = () if ran.ok else self._unmerged(worktree)
        if not ran.ok and not conflicts:
            raise WorktreeError(f"Could not merge {self.name} into {worktree.branch}: {git_error(ran)}")
        return conflicts

    def _unmerged(self, worktree: TaskWorktree) -> tuple[str, ...]:
        return tuple(
            self._repository.relative_path(path) for path, _ in self._repository.status(worktree.root).unmerged
        )

    def merge_work(
        self,
        worktree: TaskWorktree,
        message: str,
        work: CommittedWork,
        should_stop: Callable[[], bool],
        judge: Callable[[CommittedWork], bool] | None,
        has_claim: Callable[[], bool],
        may_change_settings: Callable[[], bool] = lambda: False,
    ) -> MergeResult:
        """Merge committed work into this branch, under the lock of all merges.

        Without `judge`, work that does not include the head of the branch is merged as it is. `may_change_settings`
        is asked whether a person approved a change of the settings in the work that was judged last.
        """
        repository = self._repository
        with repository.lock(should_stop):
            for _ in range(MERGE_RETRIES):
                before, _branch = self.find_with(worktree)
                if judge and before.commit != work.base:
                    work = self._judge_again(worktree, message, judge)
                    continue
                if not has_claim():
                    raise StopRequestedError("Another worker has taken over the task, so the work was not merged.")
                is_current = before.commit == work.base
                tree = work.tree if is_current else self._merged_tree(worktree, before.commit, work.commit)
                if tree == before.tree:
                    return MergeResult()
                files = self._changed_files(worktree, before.commit, tree)
                self._refuse_protected_files(files, worktree, may_change_settings)
                parents = ("-p", before.commit, "-p", work.commit)
                commit = repository.run_git_checked(worktree.root, "commit-tree", tree, *parents, "-m", message)
                if self._move_base(before, commit, worktree.branch):
                    return MergeResult(commit=commit, files=files)
        raise MergeRefusedError(f"{self.name} kept changing, so nothing could be merged.", waits_for_person=True)

    def _judge_again(
        self, worktree: TaskWorktree, message: str, judge: Callable[[CommittedWork], bool]
    ) -> CommittedWork:
        """Bring work up to date with the base branch and have the result judged."""
        work = self.catch_up(worktree, *self.find_with(worktree))
        if not judge(work):
            raise MergeRefusedError(f"The work does not pass the gates together with the current {self.name}.")
        return work

    def _refuse_protected_files(
        self, files: Sequence[str], worktree: TaskWorktree, may_change_settings: Callable[[], bool]
    ) -> None:
        """Refuse work that changes Ralph's own files: agents must not decide how they are verified."""
        paths = [os.path.normpath(f"{self._repository.prefix}{file}") for file in files]
        if protected := [path for path in paths if is_inside(path, self._excluded)]:
            files_text, branch = name_few(protected), worktree.branch
            why = f"The work changes {files_text}, a file of Ralph. Remove it from the commits on {branch}."
            raise MergeRefusedError(why)
        settings = f"{self._repository.prefix}{TOML_NAME}"
        if settings in paths and not may_change_settings():
            command = f"git merge {worktree.branch}"
            why = f"The work changes {settings}, which defines the gates. Review it, then run: {command}"
            raise MergeRefusedError(why, waits_for_person=True)

    def _changed_files(self, worktree: TaskWorktree, before: str, after: str) -> tuple[str, ...]:
        """Return the files that differ between two trees; refuse nested repositories and links that stay behind."""
        command = ("diff-tree", "-r", "--raw", "--no-renames", "-z", before, after)
        fields = self._repository.run_git_checked(self._repository.top, *command).split("\0")
        changes = list(zip(fields[::2], map(self._repository.relative_path, fields[1::2]), strict=False))
        if nested := [path for change, path in changes if change.split(" ")[1] == REPOSITORY_MODE]:
            raise self._nested_commits(nested, worktree)
        links = [(change.split(" ")[3], path) for change, path in changes if change.split(" ")[1] == _LINK_MODE]
        if lost := [path for blob, path in links if self._leads_into(blob, worktree)]:
            why = f"{name_few(lost)} links to a path in its own worktree, which will be removed."
            raise MergeRefusedError(f"{why} Make the link relative, and commit what it leads to.")
        return tuple(path for _, path in changes)

    def _leads_into(self, blob: str, worktree: TaskWorktree) -> bool:
        """Return whether a link names a path in a worktree in full; it would lead nowhere later."""
        target = self._repository.run_git_checked(self._repository.top, "cat-file", "blob", blob)
        return target.startswith("/") and _is_below(target, worktree.root)

    def _nested_commits(self, paths: Sequence[str], worktree: TaskWorktree) -> MergeRefusedError:
        why = f"{name_few(paths)} is a git repository of its own, whose commits would be lost with the worktree."
        if (worktree.root / ".gitmodules").exists():
            command = f"git merge {worktree.branch}"
            return MergeRefusedError(f"{why} Push them, then run: {command}", waits_for_person=True)
        return MergeRefusedError(f"{why} Delete its .git directory and add its files.")

    def _merged_tree(self, worktree: TaskWorktree, base: str, work: str) -> str:
        """Return the tree of the merge of both commits; raise if they conflict."""
        ran = self._repository.try_git(worktree.root, "merge-tree", "--write-tree", "--name-only", "-z", base, work)
        tree, *rest = ran.stdout.split("\0")
        if ran.ok:
            return tree
        if ran.exit_code != 1 or "" not in rest:
            raise MergeRefusedError(f"The work cannot be merged: {git_error(ran)}")
        conflicts = tuple(self._repository.relative_path(path) for path in rest[: rest.index("")])
        raise self.conflict(conflicts, rest)

    def conflict(self, conflicts: tuple[str, ...], output: Collection[str]) -> MergeRefusedError:
        """Return the error for work that conflicts with this branch; `output` is that of git."""
        why = f"The work conflicts with the current {self.name}, in {name_few(conflicts)}."
        details = [line.strip() for line in output if line.startswith("CONFLICT") and ":" in line][:MAX_CONFLICT_LINES]
        return MergeRefusedError("\n".join([why, *details]), conflicts)

    def _move_base(self, before: BranchRef, commit: str, branch: str) -> bool:
        """Move the base branch to a commit; return False if another process has moved it."""
        if operation := operation_in_progress(self._repository.git_directory):
            why = f"A {operation} is in progress in {self._repository.top}: finish it first."
            raise MergeRefusedError(f"The work is on {branch} and not merged. {why}", waits_for_person=True)
        ran = self._advance(before, commit, f"merge {branch}")
        if ran.ok:
            return True
        current = self._repository.find_branches(self.name).get(self.name)
        if current and current.commit != before.commit:
            return False
        blocking = [line.strip() for line in ran.stderr.split("\n") if line.startswith("\t")]
        why = f"commit or stash the changes to {name_few(blocking)} in {self._checked_out_in(before)}."
        raise MergeRefusedError(
            f"The work on {branch} is not merged into {self.name}: {why if blocking else git_error(ran)}",
            waits_for_person=True,
        )

    def _advance(self, before: BranchRef, commit: str, why: str) -> GitResult:
        """Fast-forward the base branch, together with the worktree that has it checked out, if any."""
        worktree = self._checked_out_in(before)
        if worktree and Path(worktree).is_dir():
            # Without --no-overwrite-ignore, git silently overwrites ignored files.
            merging = (
                "merge",
                "-q",
                "--ff-only",
                "--no-overwrite-ignore",
                "--no-stat",
                "--no-verify-signatures",
                commit,
            )
            return self._repository.try_git(Path(worktree), *merging, GIT_REFLOG_ACTION=why)
        updating = ("update-ref", "-m", why, full_ref(self.name), commit, before.commit)
        return self._repository.try_git(self._repository.top, *updating)

    def _checked_out_in(self, branch: BranchRef) -> str:
        """Return the worktree that has this branch checked out: the person's own, even if a session has forced one."""
        head = read_bytes_or_none(self._repository.git_directory / "HEAD")
        is_here = head is not None and head.strip() == os.fsencode(f"ref: {full_ref(self.name)}")
        return str(self._repository.top) if is_here else branch.worktree


def _is_by_session(commit: str, what: str, made: Collection[str]) -> bool:
    """Return whether an entry of a branch's log is the work of a session; `made` are commits made in its worktree."""
    return what.startswith(SESSION_ACTION) or (commit in made and not what.startswith(("commit", "merge ")))


def _is_below(path: str, folder: Path) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(folder)}{os.sep}")
