"""Worktree and branch per task, and merging of finished work into the base branch.

Each agent has its own worktree. The person's worktree is touched by a single
fast-forward, which either succeeds or changes nothing: conflicts are detected
beforehand, in the worktree of the task.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from pathlib import Path

from ralph.core.config import TOML_NAME
from ralph.core.errors import WorktreeError
from ralph.core.records import record, replace
from ralph.loop.git import worktrees
from ralph.loop.git.commits import MergeRefusedError, TaskCommitter, TaskWorktree, is_inside, name_few
from ralph.loop.git.repository import (
    Repository,
    StopRequestedError,
    full_ref,
    git_error,
    operation_in_progress,
)
from ralph.loop.git.worktrees import ADMIN_DIRECTORY, worktree_git_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.core.git import GitResult
    from ralph.loop.git.repository import BranchRef

WORKTREES_DIRECTORY = ".ralph/worktrees"
"""Directory of the worktrees, relative to the project."""
BRANCH_PREFIX = "ralph"
"""Prefix of the branches of tasks."""
MERGE_RETRIES = 5
"""Number of attempts to merge while others move the base branch."""
MAX_CONFLICT_LINES = 10
"""Maximum number of conflict lines quoted from git."""
MAX_SUBJECT_LENGTH = 200
"""Maximum length of a commit subject, in characters."""
MAX_BRANCH_NAME_LENGTH = 48
"""Maximum length of a branch name made from a task id, in characters."""

_OWN_FILES = (".ralph/", ".agent/", ".ralph.toml")
"""Paths that Ralph itself writes in the person's worktree."""
_NEVER_COMMITTED = (".ralph", ".agent/memories.md")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


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


def branch_suffix(task_id: str) -> str:
    """Return a task id as a directory and branch name, with a hash appended if it had to be changed."""
    name = _UNSAFE.sub("-", task_id).strip("-")[:MAX_BRANCH_NAME_LENGTH]
    if name and name == task_id:
        return name
    suffix = hashlib.sha256(task_id.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name.strip('-') or 'task'}-{suffix}"


class TaskBranches:
    """Worktrees and branches of a project's tasks; safe to use from several threads and processes."""

    def __init__(self, repository: Repository, base: str) -> None:
        """`base` is the branch that work starts from and is merged into."""
        self.base = base
        self._repository = repository
        self._common = repository.common_git_directory
        self._folder = repository.top / repository.prefix / WORKTREES_DIRECTORY
        self._excluded = tuple(repository.prefix + name for name in _NEVER_COMMITTED)
        self._committer = TaskCommitter(repository, self._excluded)

    @classmethod
    def open(cls, root: Path) -> TaskBranches:
        """Open the project in a directory; raise WorktreeError where work could not be merged later."""
        repository = Repository.open(root)
        branches = cls(repository, "")
        branches._create_directories()
        # While another process merges, the tree briefly looks modified.
        with repository.lock():
            branches.base = _mergeable_branch(repository)
        return branches

    def _create_directories(self) -> None:
        """Create the directories for worktrees and locks, ignored by git."""
        try:
            (self._common / ADMIN_DIRECTORY).mkdir(exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorktreeError(
                f"Could not create worktrees: {error.strerror}: {error.filename}.", code="worktree-not-created"
            ) from error

    # --- worktrees -------------------------------------------------------------------

    def prepare_worktree(self, task_id: str, title: str) -> TaskWorktree:
        """Return the worktree of a task, up to date with the base branch.

        Work of an earlier attempt is kept. If it conflicts with the base branch, the conflict markers are left in the
        tree for the agent to resolve.
        """
        name = branch_suffix(task_id)
        branch, top = f"{BRANCH_PREFIX}/{name}", self._folder / name
        refs = self._repository.find_branches(self.base, branch)
        if self.base not in refs:
            message = f"The branch {self.base} no longer exists, so there is nothing to start from."
            raise WorktreeError(message, code="base-branch-missing")
        try:
            if self._is_worktree(top):
                if branch in refs:
                    return self._continue_work(
                        self._worktree_at(top, branch, is_new=False), _commit_message(title, task_id)
                    )
                worktrees.remove_worktree(self._repository, top)
            return self._create_worktree(top, branch, refs, _commit_message(title, task_id))
        except OSError as error:
            raise WorktreeError(
                f"Could not create {top}: {error.strerror}: {error.filename}.", code="worktree-not-created"
            ) from error

    def _is_worktree(self, top: Path) -> bool:
        """Return whether a path is a worktree of this repository; raise WorktreeError if it is something else."""
        if not os.path.lexists(top):
            return False
        if not top.is_symlink() and top.is_dir():
            if self._is_registered(top):
                return True
            if all(path.name == ".git" for path in top.iterdir()):
                worktrees.remove_worktree(self._repository, top)
                return False
            # The repository may have been moved.
            self._repository.try_git(self._repository.top, "worktree", "repair", str(top))
            if self._is_registered(top):
                return True
        message = f"{top} exists but is not a worktree of this repository. Move it away."
        raise WorktreeError(message, code="worktree-path-taken")

    def _is_registered(self, top: Path) -> bool:
        folder = worktree_git_directory(top)
        return folder is not None and folder.resolve().parent == self._common / "worktrees"

    def _worktree_at(self, top: Path, branch: str, *, is_new: bool, start: str = "") -> TaskWorktree:
        directory = top / self._repository.prefix
        directory.mkdir(parents=True, exist_ok=True)
        return TaskWorktree(directory=directory, root=top, branch=branch, is_new=is_new, start_commit=start)

    def _create_worktree(self, top: Path, branch: str, refs: dict[str, BranchRef], message: str) -> TaskWorktree:
        """Create a worktree, on the branch of an earlier attempt if there is one."""
        earlier = refs.get(branch)
        if earlier and earlier.worktree:
            _refuse_checked_out(branch, earlier)
            worktrees.remove_worktree(self._repository, Path(earlier.worktree))
        self._create_directories()
        commit = (earlier or refs[self.base]).commit
        worktrees.add_worktree(self._repository, top, branch, commit)
        self._check_out(top)
        if not earlier:
            return self._worktree_at(top, branch, is_new=True, start=commit)
        return self._continue_work(self._worktree_at(top, branch, is_new=False), message)

    def _check_out(self, top: Path) -> None:
        self._repository.run_git_checked(top, "reset", "-q", "--hard", "--no-recurse-submodules")

    def _continue_work(self, worktree: TaskWorktree, message: str) -> TaskWorktree:
        """Continue the work of an earlier attempt on top of the current base branch."""
        folder = self._committer.git_directory(worktree)
        if not (folder / "index").exists():
            # Killed before the checkout: to git it looks as if all files had been deleted.
            self._check_out(worktree.root)
        if operation_in_progress(folder) == "rebase":
            self._repository.run_git_checked(worktree.root, "rebase", "--abort")
        try:
            self._committer.commit(worktree, f"wip: {message}")
        except MergeRefusedError as error:
            if error.conflicts:
                return replace(worktree, conflicts=error.conflicts)
            # Work that cannot be committed stays in the tree for the agent to look at.
            if not self._repository.try_git(worktree.root, "checkout", "-q", worktree.branch).ok:
                raise
        merging = ("merge", "-q", "--ff", "--no-edit", "--no-stat", "--no-verify-signatures")
        ran = self._repository.try_git(worktree.root, *merging, full_ref(self.base))
        conflicts = () if ran.ok else self._unmerged(worktree)
        if not ran.ok and not conflicts:
            raise WorktreeError(f"Could not merge {self.base} into {worktree.branch}: {git_error(ran)}")
        return replace(worktree, conflicts=conflicts)

    def _unmerged(self, worktree: TaskWorktree) -> tuple[str, ...]:
        return tuple(
            self._repository.relative_path(path) for path, _ in self._repository.status(worktree.root).unmerged
        )

    def is_behind(self, worktree: TaskWorktree) -> bool:
        """Return whether the base branch has commits that a worktree lacks."""
        base = self._repository.find_branches(self.base).get(self.base)
        return (
            base is not None
            and base.commit != worktree.start_commit
            and not self._repository.is_ancestor(worktree.root, base.commit)
        )

    # --- merging -----------------------------------------------------------------------

    def has_base(self) -> bool:
        """Return whether the base branch still exists."""
        try:
            return self.base in self._repository.find_branches(self.base)
        except WorktreeError:
            return False

    @contextmanager
    def task_lock(self, task_id: str, should_stop: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock of a task: a session that lost its claim may still be running."""
        name = f"{branch_suffix(task_id)}.lock"
        with self._repository.lock(should_stop, name):
            yield
            if not self._top_of(f"{BRANCH_PREFIX}/{branch_suffix(task_id)}").exists():
                (self._common / ADMIN_DIRECTORY / name).unlink(missing_ok=True)

    def commit_and_merge(
        self,
        worktree: TaskWorktree,
        task_id: str,
        title: str,
        should_stop: Callable[[], bool] = lambda: False,
        run_gates_again: Callable[[], bool] | None = None,
        has_claim: Callable[[], bool] = lambda: True,
    ) -> MergeResult:
        """Commit the work in a worktree, merge it into the base branch and remove the worktree.

        Work that cannot be merged stays in its worktree. If the base branch has moved, it is merged into the worktree
        first, and `run_gates_again` must pass on the result. `has_claim` is asked right before the merge, because
        another worker may have taken over the task.
        """
        message = _commit_message(title, task_id)
        try:
            files = self._committer.commit(worktree, message)
            # Without a change since the worktree was created there is nothing to merge.
            merge = (
                MergeResult()
                if files == ()
                else self._merge(worktree, message, files, should_stop, run_gates_again, has_claim)
            )
            self._remove(worktree.root, worktree.branch)
        except MergeRefusedError as error:
            return MergeResult(conflicts=error.conflicts, reason=str(error), waits_for_person=error.waits_for_person)
        except WorktreeError as error:
            return MergeResult(reason=str(error), waits_for_person=not isinstance(error, StopRequestedError))
        return merge

    def commit_unfinished(self, worktree: TaskWorktree) -> None:
        """Commit the work in a worktree for the next attempt, in case its directory is deleted."""
        try:
            self._committer.commit(worktree, f"wip: {worktree.branch}")
        except WorktreeError:
            return  # the work stays in the tree

    def _merge(
        self,
        worktree: TaskWorktree,
        message: str,
        files: tuple[str, ...] | None,
        should_stop: Callable[[], bool],
        run_gates_again: Callable[[], bool] | None,
        has_claim: Callable[[], bool],
    ) -> MergeResult:
        repository = self._repository
        with repository.lock(should_stop):
            if run_gates_again and self.is_behind(worktree):
                if conflicts := self._continue_work(worktree, message).conflicts:
                    raise self._conflict(conflicts, ())
                if not run_gates_again():
                    raise MergeRefusedError(f"The work does not pass the gates together with the current {self.base}.")
            if not has_claim():
                raise StopRequestedError("Another worker has taken over the task, so the work was not merged.")
            for _ in range(MERGE_RETRIES):
                refs = repository.find_branches(self.base, worktree.branch)
                if self.base not in refs:
                    why = f"The branch {self.base} no longer exists; the work is on {worktree.branch}."
                    raise MergeRefusedError(why, waits_for_person=True)
                before, work = refs[self.base], refs[worktree.branch]
                tree = self._merged_tree(worktree, before.commit, work.commit)
                if tree == before.tree:
                    return MergeResult()
                files = files or self._changed_files(before.commit, tree)
                self._refuse_protected_files(files, worktree)
                parents = ("-p", before.commit, "-p", work.commit)
                commit = repository.run_git_checked(worktree.root, "commit-tree", tree, *parents, "-m", message)
                if self._move_base(before, commit, worktree.branch):
                    return MergeResult(commit=commit, files=files)
        raise MergeRefusedError(f"{self.base} kept changing, so nothing could be merged.", waits_for_person=True)

    def _refuse_protected_files(self, files: Sequence[str], worktree: TaskWorktree) -> None:
        """Refuse work that changes Ralph's own files: agents must not decide how they are verified."""
        paths = [os.path.normpath(f"{self._repository.prefix}{file}") for file in files]
        if protected := [path for path in paths if is_inside(path, self._excluded)]:
            files_text, branch = name_few(protected), worktree.branch
            why = f"The work changes {files_text}, a file of Ralph. Remove it from the commits on {branch}."
            raise MergeRefusedError(why)
        settings = f"{self._repository.prefix}{TOML_NAME}"
        if settings in paths:
            command = f"git merge {worktree.branch}"
            why = f"The work changes {settings}, which defines the gates. Review it, then run: {command}"
            raise MergeRefusedError(why, waits_for_person=True)

    def _changed_files(self, before: str, after: str) -> tuple[str, ...]:
        command = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
        output = self._repository.run_git_checked(self._repository.top, *command)
        return tuple(self._repository.relative_path(path) for path in output.split("\0") if path)

    def _merged_tree(self, worktree: TaskWorktree, base: str, work: str) -> str:
        """Return the tree of the merge of both commits; raise if they conflict."""
        ran = self._repository.try_git(worktree.root, "merge-tree", "--write-tree", "--name-only", "-z", base, work)
        tree, *rest = ran.stdout.split("\0")
        if ran.ok:
            return tree
        if ran.exit_code != 1 or "" not in rest:
            raise MergeRefusedError(f"The work cannot be merged: {git_error(ran)}")
        conflicts = tuple(self._repository.relative_path(path) for path in rest[: rest.index("")])
        raise self._conflict(conflicts, rest)

    def _conflict(self, conflicts: tuple[str, ...], output: Collection[str]) -> MergeRefusedError:
        why = f"The work conflicts with the current {self.base}, in {name_few(conflicts)}."
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
        current = self._repository.find_branches(self.base).get(self.base)
        if current and current.commit != before.commit:
            return False
        blocking = [line.strip() for line in ran.stderr.split("\n") if line.startswith("\t")]
        why = f"commit or stash the changes to {name_few(blocking)} in {before.worktree}."
        raise MergeRefusedError(
            f"The work on {branch} is not merged into {self.base}: {why if blocking else git_error(ran)}",
            waits_for_person=True,
        )

    def _advance(self, before: BranchRef, commit: str, why: str) -> GitResult:
        """Fast-forward the base branch, together with the worktree that has it checked out, if any."""
        if before.worktree and Path(before.worktree).is_dir():
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
            return self._repository.try_git_when_unlocked(Path(before.worktree), *merging, GIT_REFLOG_ACTION=why)
        updating = ("update-ref", "-m", why, full_ref(self.base), commit, before.commit)
        return self._repository.try_git(self._repository.top, *updating)

    # --- cleanup -----------------------------------------------------------------------

    def remove_merged(self, keep: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Remove merged worktrees and branches of tasks not in `keep`; return the removed branches.

        Unmerged work always stays. `keep` is called after the branches are listed, because others may start new
        tasks meanwhile.
        """
        if not self._repository.find_branches(self.base):
            return ()
        merged = self._repository.find_branches(f"{BRANCH_PREFIX}/", merged_into=self.base)
        kept_branches = {f"{BRANCH_PREFIX}/{branch_suffix(task_id)}" for task_id in keep()}
        removable = tuple(
            branch for branch, found in merged.items() if branch not in kept_branches and self._is_idle(branch, found)
        )
        for branch in removable:
            self._remove(self._top_of(branch), branch)
        return removable

    def _top_of(self, branch: str) -> Path:
        return self._folder / branch.removeprefix(f"{BRANCH_PREFIX}/")

    def _is_idle(self, branch: str, found: BranchRef) -> bool:
        """Return whether a merged branch is unused and its worktree has no uncommitted changes."""
        top = self._top_of(branch)
        if not found.worktree:
            return not os.path.lexists(top)
        if not _is_same(found.worktree, top) or not top.is_dir():
            return not os.path.lexists(found.worktree)
        state = self._repository.status(top, "--untracked-files=all")
        return not state.unmerged and all(is_inside(path, self._excluded) for path in state.changed)

    def _remove(self, top: Path, branch: str) -> bool:
        """Remove a worktree and its branch; return False if that failed; `remove_merged` tries again."""
        try:
            worktrees.remove_worktree(self._repository, top)
        except OSError:
            return False
        return self._repository.try_git(self._repository.top, "update-ref", "-d", full_ref(branch)).ok


def _mergeable_branch(repository: Repository) -> str:
    """Return the branch that is checked out; raise WorktreeError if work cannot be merged into it."""
    if operation := operation_in_progress(repository.git_directory):
        message = f"A {operation} is in progress in {repository.top}. Finish it before a parallel run."
        raise WorktreeError(message, code="git-operation-in-progress")
    state = repository.status(repository.top, "--untracked-files=normal", "--ignore-submodules=dirty")
    if not state.head:
        raise WorktreeError("--parallel needs a commit to start from. Make a first commit.", code="no-commit")
    if not state.branch:
        message = f"No branch is checked out in {repository.top}. Switch to the one to merge into: git switch BRANCH"
        raise WorktreeError(message, code="detached-head")
    own = tuple(repository.prefix + name for name in _OWN_FILES)
    changed = [path for path in state.changed if not path.startswith(own)]
    if changed:
        message = f"Uncommitted changes: {name_few(changed)}. Commit, stash or ignore them before a parallel run."
        raise WorktreeError(message, code="uncommitted-changes")
    if BRANCH_PREFIX in repository.find_branches(BRANCH_PREFIX):
        message = "A branch named ralph prevents branches named ralph/…. Rename it: git branch -m ralph NEW-NAME"
        raise WorktreeError(message, code="reserved-branch-name")
    return state.branch


def _refuse_checked_out(branch: str, found: BranchRef) -> None:
    if os.path.lexists(found.worktree):
        message = f"The branch {branch} is checked out in {found.worktree}. Switch to another branch there."
        raise WorktreeError(message, code="branch-checked-out")


def _is_same(one: Path | str, other: Path | str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _commit_message(title: str, task_id: str) -> str:
    """Return the commit message for a task."""
    first, id = (" ".join(text.split()) for text in (title, task_id))
    return f"{first[:MAX_SUBJECT_LENGTH] or id}\n\nTask: {id}"
