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

from ralph.core import files
from ralph.core.errors import WorktreeError
from ralph.core.git import query_git
from ralph.core.records import replace
from ralph.loop.git import worktrees
from ralph.loop.git.base_branch import BaseBranch, MergeResult
from ralph.loop.git.checkouts import CHECKOUT_PREFIX, clean_checkout
from ralph.loop.git.commits import (
    NEVER_COMMITTED,
    OWN_FILES,
    CommittedWork,
    MergeRefusedError,
    TaskCommitter,
    TaskWorktree,
    commit_message,
    is_inside,
    name_few,
)
from ralph.loop.git.left_out import find_left_out
from ralph.loop.git.repository import (
    Repository,
    StopRequestedError,
    full_ref,
    operation_in_progress,
)
from ralph.loop.git.worktrees import ADMIN_DIRECTORY, last_commit, worktree_git_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.loop.git.repository import BranchRef

WORKTREES_DIRECTORY = ".ralph/worktrees"
"""Directory of the worktrees, relative to the project."""
BRANCH_PREFIX = "ralph"
"""Prefix of the branches of tasks."""
MAX_BRANCH_NAME_LENGTH = 48
"""Maximum length of a branch name made from a task id, in characters."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def branch_suffix(task_id: str) -> str:
    """Return a task id as a directory and branch name, with a hash appended if it had to be changed."""
    name = _UNSAFE.sub("-", task_id).strip("-")[:MAX_BRANCH_NAME_LENGTH]
    if name and name == task_id:
        return name
    suffix = hashlib.sha256(task_id.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name.strip('-') or 'task'}-{suffix}"


def describe_left_work(root: Path | str, task_id: str) -> str:
    """Return where a worktree or branch of a task is left, with the command that removes it; empty if there is none."""
    name = branch_suffix(task_id)
    branch, folder = f"{BRANCH_PREFIX}/{name}", f"{WORKTREES_DIRECTORY}/{name}"
    if not (Path(root) / WORKTREES_DIRECTORY).is_dir():
        return ""  # tasks of this project have no branches
    left = {
        f"the worktree {folder}": (Path(root) / folder).is_dir() and f"git worktree remove --force {folder}",
        f"the branch {branch}": query_git(root, "rev-parse", "-q", "--verify", f"refs/heads/{branch}") is not None
        and f"git branch -D {branch}",
    }
    commands = [command for command in left.values() if command]
    if not commands:
        return ""
    return f"Left of it: {' and '.join(what for what in left if left[what])}. To remove: {' && '.join(commands)}"


class TaskBranches:
    """Worktrees and branches of a project's tasks; safe to use from several threads and processes."""

    def __init__(self, repository: Repository, base: str) -> None:
        """`base` is the branch that work starts from and is merged into."""
        self.base = base
        self._repository = repository
        self._common = repository.common_git_directory
        self._folder = repository.top / repository.prefix / WORKTREES_DIRECTORY
        self._excluded = tuple(repository.prefix + name for name in NEVER_COMMITTED)
        self._base = BaseBranch(repository, base, self._excluded)
        self._committer = TaskCommitter(repository, self._excluded)

    @classmethod
    def open(cls, root: Path) -> TaskBranches:
        """Open the project in a directory; raise WorktreeError where work could not be merged later."""
        repository = Repository.open(root)
        cls(repository, "").create_directories()
        # While another process merges, the tree briefly looks modified.
        with repository.lock():
            return cls(repository, _mergeable_branch(repository))

    def create_directories(self) -> None:
        """Create the directories for worktrees and locks, ignored by git."""
        root = self._repository.top / self._repository.prefix
        if not files.is_inside(self._folder, root):
            message = f"{WORKTREES_DIRECTORY} in {root} is a symlink that points outside the project. Remove it."
            raise WorktreeError(message, code="outside-link")
        try:
            (self._common / ADMIN_DIRECTORY).mkdir(exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not os.path.lexists(ignore):
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorktreeError(
                f"Could not create worktrees: {error.strerror}: {error.filename}.", code="worktree-not-created"
            ) from error

    # --- worktrees -------------------------------------------------------------------

    def prepare_worktree(self, task_id: str, title: str, trailers: str = "") -> TaskWorktree:
        """Return the worktree of a task, up to date with the base branch; `trailers` end the messages of its commits.

        Work of an earlier attempt is kept. If it conflicts with the base branch, the conflict markers are left in the
        tree for the agent to resolve.
        """
        name = branch_suffix(task_id)
        branch, top = f"{BRANCH_PREFIX}/{name}", self._folder / name
        refs = self._repository.find_branches(self.base, branch)
        if self.base not in refs:
            message = f"The branch {self.base} no longer exists, so there is nothing to start from."
            raise WorktreeError(message, code="base-branch-missing")
        base_commit, message = refs[self.base].commit, commit_message(title, task_id, trailers)
        try:
            if self._is_worktree(top):
                if branch not in refs:
                    self._restore_branch(top, branch, base_commit)
                worktree = self._continue_work(self._worktree_at(top, branch, is_new=False), message)
            else:
                worktree = self._create_worktree(top, branch, refs, message)
            return replace(worktree, base_commit=base_commit, trailers=trailers)
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

    def _restore_branch(self, top: Path, branch: str, base: str) -> None:
        """Create the branch of a worktree again, which may hold the only copy of the work."""
        commit = last_commit(top)
        if not commit or not self._repository.try_git(top, "cat-file", "-e", f"{commit}^{{commit}}").ok:
            commit = base
        self._repository.run_git_checked(self._repository.top, "update-ref", full_ref(branch), commit)

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
        self.create_directories()
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
        return replace(worktree, conflicts=self._base.merge_into(worktree))

    # --- what will be merged -----------------------------------------------------------

    def commit_work(
        self, worktree: TaskWorktree, task_id: str, title: str, *, catches_up: bool = True
    ) -> CommittedWork:
        """Commit the work in a worktree and return what would be merged.

        With `catches_up`, the base branch is merged into it first, so that gates judge the combined result. Raises
        MergeRefusedError if the work cannot be committed or conflicts with the base branch.
        """
        state = self._committer.commit(worktree, commit_message(title, task_id, worktree.trailers))
        left_out = find_left_out(self._repository, worktree, state, self._excluded)
        base, work = self._base.find_with(worktree)
        is_current = work.commit == base.commit or state.head == worktree.start_commit == base.commit
        if catches_up and not is_current:
            return replace(self._base.catch_up(worktree, base, work), left_out=left_out)
        current_base = base.commit if is_current else ""
        return CommittedWork(commit=work.commit, tree=work.tree, base=current_base, left_out=left_out)

    @contextmanager
    def check_out(self, worktree: TaskWorktree, work: CommittedWork, reuse: Sequence[str]) -> Iterator[Path]:
        """Yield the project directory in a clean checkout of committed work; see `clean_checkout`."""
        top = self._folder / f"{CHECKOUT_PREFIX}{worktree.root.name}"
        source = self._repository.top / self._repository.prefix
        with clean_checkout(self._repository, top, work.commit, source, reuse) as directory:
            yield directory

    def undo_base_move(self, worktree: TaskWorktree) -> str:
        """Move the base branch back if a session has moved it to a commit of its own; return what happened."""
        try:
            return self._base.undo_move(worktree)
        except WorktreeError as error:
            return str(error)

    def has_base(self) -> bool:
        """Return whether the base branch still exists."""
        return self._base.exists()

    # --- merging -----------------------------------------------------------------------

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
        judge: Callable[[CommittedWork], bool] | None = None,
        has_claim: Callable[[], bool] = lambda: True,
        work: CommittedWork | None = None,
        may_change_settings: Callable[[], bool] = lambda: False,
    ) -> MergeResult:
        """Merge the work in a worktree into the base branch and remove the worktree.

        `work` is what has been judged; without it, what is in the worktree is committed. If the base branch has moved
        since, it is merged into the worktree first, and `judge` must accept the result. `has_claim` is asked right
        before the merge, because another worker may have taken over the task. `may_change_settings` says whether a
        person approved that the work changes them. Work that cannot be merged stays in its worktree, and so do files
        that are in no commit.
        """
        message = commit_message(title, task_id, worktree.trailers)
        try:
            work = work or self.commit_work(worktree, task_id, title, catches_up=False)
            merge = (
                MergeResult()
                if work.commit == worktree.start_commit
                else self._base.merge_work(worktree, message, work, should_stop, judge, has_claim, may_change_settings)
            )
            if work.left_out:
                return replace(merge, left_out=work.left_out)
            self._remove(worktree.root, worktree.branch)
        except MergeRefusedError as error:
            return MergeResult(conflicts=error.conflicts, reason=str(error), waits_for_person=error.waits_for_person)
        except WorktreeError as error:
            return MergeResult(reason=str(error), waits_for_person=not isinstance(error, StopRequestedError))
        return merge

    def commit_unfinished(self, worktree: TaskWorktree, message: str, ref: str, start: str) -> str:
        """Commit the work in a worktree for the next attempt, and save it under a ref; return the commit.

        It is empty if nothing was changed since the commit `start`, or nothing could be committed.
        """
        try:
            self._committer.commit(worktree, message)
            commit = self.head_of(worktree)
            if commit == start:
                return ""
            self._repository.run_git_checked(self._repository.top, "update-ref", ref, commit)
        except WorktreeError:
            return ""  # the work stays in the tree
        return commit

    def head_of(self, worktree: TaskWorktree) -> str:
        """Return the commit that is checked out in a worktree."""
        return self._repository.run_git_checked(worktree.root, "rev-parse", "HEAD")

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
        self._remove_checkouts(kept_branches)
        return removable

    def _remove_checkouts(self, kept_branches: Collection[str]) -> None:
        """Remove checkouts that a killed run has left."""
        for top in self._folder.glob(f"{CHECKOUT_PREFIX}*"):
            if f"{BRANCH_PREFIX}/{top.name.removeprefix(CHECKOUT_PREFIX)}" not in kept_branches:
                worktrees.remove_worktree(self._repository, top)

    def _top_of(self, branch: str) -> Path:
        return self._folder / branch.removeprefix(f"{BRANCH_PREFIX}/")

    def _is_idle(self, branch: str, found: BranchRef) -> bool:
        """Return whether a merged branch is unused and its worktree has no uncommitted changes."""
        top = self._top_of(branch)
        if not found.worktree:
            return not os.path.lexists(top)
        if not _is_same(found.worktree, top) or not top.is_dir():
            return not os.path.lexists(found.worktree)
        state = self._repository.status(top, "--untracked-files=all", "--ignored=matching")
        if state.unmerged or not all(is_inside(path, self._excluded) for path in state.changed):
            return False
        worktree = self._worktree_at(top, branch, is_new=False)
        return not find_left_out(self._repository, worktree, state, self._excluded)

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
    own = tuple(repository.prefix + name for name in OWN_FILES)
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
