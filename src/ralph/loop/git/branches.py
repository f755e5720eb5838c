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
from ralph.loop.git.repository import (
    Repository,
    StopRequestedError,
    full_ref,
    git_error,
    operation_in_progress,
    remove_stale_locks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.core.git import GitResult
    from ralph.loop.git.repository import BranchRef, WorktreeStatus

WORKTREES_DIRECTORY = ".ralph/worktrees"
"""Directory of the worktrees, relative to the project."""
BRANCH_PREFIX = "ralph"
"""Prefix of the branches of tasks."""
MERGE_TREE_VERSION = (2, 38)
"""First version of git that can merge without a working tree."""
MERGE_RETRIES = 5
"""Number of attempts to merge while others move the base branch."""
MAX_NAMED_PATHS = 3
"""Maximum number of paths named in a message."""
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


class _MergeRefusedError(WorktreeError):
    """Finished work cannot be merged into the base branch."""

    def __init__(self, why: str, conflicts: tuple[str, ...] = (), *, waits_for_person: bool = False) -> None:
        super().__init__(why)
        self.conflicts = conflicts
        self.waits_for_person = waits_for_person


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
            (self._common / worktrees.ADMIN_DIRECTORY).mkdir(exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorktreeError(f"Could not create worktrees: {error.strerror}: {error.filename}.") from error

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
            raise WorktreeError(f"The branch {self.base} no longer exists, so there is nothing to start from.")
        try:
            if self._is_worktree(top):
                if branch in refs:
                    return self._continue_work(self._place(top, branch, is_new=False), _commit_message(title, task_id))
                worktrees.remove_worktree(self._common, top)
            return self._create_worktree(top, branch, refs, _commit_message(title, task_id))
        except OSError as error:
            raise WorktreeError(f"Could not create {top}: {error.strerror}: {error.filename}.") from error

    def _is_worktree(self, top: Path) -> bool:
        """Return whether a path is a worktree of this repository; raise WorktreeError if it is something else."""
        if not os.path.lexists(top):
            return False
        if not top.is_symlink() and top.is_dir():
            if self._is_registered(top):
                return True
            if all(path.name == ".git" for path in top.iterdir()):
                return False
            # The repository may have been moved.
            self._repository.try_git(self._repository.top, "worktree", "repair", str(top))
            if self._is_registered(top):
                return True
        raise WorktreeError(f"{top} exists but is not a worktree of this repository. Move it away.")

    def _is_registered(self, top: Path) -> bool:
        folder = worktrees.worktree_git_directory(top)
        return folder is not None and folder.resolve().parent == self._common / "worktrees"

    def _place(self, top: Path, branch: str, *, is_new: bool, start: str = "") -> TaskWorktree:
        directory = top / self._repository.prefix
        directory.mkdir(parents=True, exist_ok=True)
        return TaskWorktree(directory=directory, root=top, branch=branch, is_new=is_new, start_commit=start)

    def _create_worktree(self, top: Path, branch: str, refs: dict[str, BranchRef], message: str) -> TaskWorktree:
        """Create a worktree, on the branch of an earlier attempt if there is one."""
        earlier = refs.get(branch)
        if earlier and earlier.worktree:
            _refuse_checked_out(branch, earlier)
            worktrees.remove_worktree(self._common, Path(earlier.worktree))
        self._create_directories()
        commit = (earlier or refs[self.base]).commit
        worktrees.create_worktree(self._common, top, branch)
        self._check_out(top, commit)
        if not earlier:
            return self._place(top, branch, is_new=True, start=commit)
        return self._continue_work(self._place(top, branch, is_new=False), message)

    def _check_out(self, top: Path, commit: str = "HEAD") -> None:
        self._repository.run_git_checked(top, "reset", "-q", "--hard", "--no-recurse-submodules", commit)

    def _continue_work(self, place: TaskWorktree, message: str) -> TaskWorktree:
        """Continue the work of an earlier attempt on top of the current base branch."""
        folder = self._git_directory(place)
        if not (folder / "index").exists():
            # Killed before the checkout: to git it looks as if all files had been deleted.
            self._check_out(place.root)
        if operation_in_progress(folder) == "rebase":
            self._repository.run_git_checked(place.root, "rebase", "--abort")
        try:
            self._commit(place, f"wip: {message}")
        except _MergeRefusedError as error:
            if error.conflicts:
                return replace(place, conflicts=error.conflicts)
            # Work that cannot be committed stays in the tree for the agent to look at.
            if not self._repository.try_git(place.root, "checkout", "-q", place.branch).ok:
                raise
        merging = ("merge", "-q", "--ff", "--no-edit", "--no-stat", "--no-verify-signatures")
        ran = self._repository.try_git(place.root, *merging, full_ref(self.base))
        conflicts = () if ran.ok else self._unmerged(place)
        if not ran.ok and not conflicts:
            raise WorktreeError(f"Could not merge {self.base} into {place.branch}: {git_error(ran)}")
        return replace(place, conflicts=conflicts)

    def _git_directory(self, place: TaskWorktree) -> Path:
        """Return the git directory of a worktree, after removing stale locks."""
        folder = worktrees.worktree_git_directory(place.root)
        if folder is None:
            raise WorktreeError(f"The worktree {place.root} no longer exists.")
        remove_stale_locks(folder)
        return folder

    def _unmerged(self, place: TaskWorktree) -> tuple[str, ...]:
        return tuple(self._repository.relative_path(path) for path, _ in self._repository.status(place.root).unmerged)

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
                (self._common / worktrees.ADMIN_DIRECTORY / name).unlink(missing_ok=True)

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
        first, and `recheck` must pass on the result. `is_ours` is asked right before the merge, because another
        worker may have taken over the task.
        """
        message = _commit_message(title, task_id)
        try:
            files = self._commit(worktree, message)
            # Without a change since the worktree was created there is nothing to merge.
            merge = (
                MergeResult()
                if files == ()
                else self._merge(worktree, message, files, should_stop, run_gates_again, has_claim)
            )
            self._remove(worktree.root, worktree.branch)
        except _MergeRefusedError as error:
            return MergeResult(conflicts=error.conflicts, reason=str(error), waits_for_person=error.waits_for_person)
        except WorktreeError as error:
            return MergeResult(reason=str(error), waits_for_person=not isinstance(error, StopRequestedError))
        return merge

    def commit_unfinished(self, worktree: TaskWorktree) -> None:
        """Commit the work in a worktree for the next attempt, in case its directory is deleted."""
        try:
            self._commit(worktree, f"wip: {worktree.branch}")
        except WorktreeError:
            return  # the work stays in the tree

    def _commit(self, place: TaskWorktree, message: str) -> tuple[str, ...] | None:
        """Commit the work; return the changed files, or None if there are earlier commits on the branch."""
        folder = self._git_directory(place)
        state = self._repository.status(place.root, "--untracked-files=all")
        if state.branch != place.branch:
            self._reset_branch(place, folder)
        if unresolved := self._unresolved(place, state):
            raise _MergeRefusedError(f"The merge conflict is not resolved in {_few(unresolved)}.", unresolved)
        changed = [path for path in state.changed if not _is_in(path, self._excluded)]
        if nested := [self._repository.relative_path(path) for path in changed if path.endswith("/")]:
            why = "is a nested git repository, whose files would be lost. Delete its .git directory."
            raise _MergeRefusedError(f"The work cannot be committed: {_few(nested)} {why}")
        if changed or state.unmerged or operation_in_progress(folder):
            self._git_or_refuse(
                place, "add", "-A", "--", ":/", *(f":(top,exclude,literal){name}" for name in self._excluded)
            )
            if state.unmerged:
                self._git_or_refuse(place, "add", "-A", "--", *(f":(top,literal){path}" for path, _ in state.unmerged))
            self._git_or_refuse(place, "commit", "-q", "--cleanup=whitespace", "-m", message)
        return tuple(map(self._repository.relative_path, changed)) if state.head == place.start_commit else None

    def _git_or_refuse(self, place: TaskWorktree, *arguments: str) -> None:
        ran = self._repository.try_git(place.root, *arguments)
        # A file may look changed without a difference for git, for example with other line endings.
        is_empty_commit = arguments[0] == "commit" and not ran.ok and self._has_nothing_staged(place)
        if not ran.ok and not is_empty_commit:
            raise _MergeRefusedError(f"The work in {place.directory} cannot be committed: {git_error(ran)}")

    def _has_nothing_staged(self, place: TaskWorktree) -> bool:
        return self._repository.try_git(place.root, "diff", "--cached", "--quiet").ok

    def _reset_branch(self, place: TaskWorktree, folder: Path) -> None:
        """Move the task's branch to what the agent has checked out, if that descends from the branch."""
        if operation_in_progress(folder) == "rebase":
            raise _MergeRefusedError(f"A rebase was left unfinished in {place.directory}.")
        if not self._repository.is_ancestor(place.root, full_ref(place.branch)):
            raise _MergeRefusedError(
                f"What is checked out in {place.directory} does not descend from {place.branch}. "
                f"Return to the branch with: git checkout {place.branch}"
            )
        self._repository.run_git_checked(place.root, "checkout", "-q", "--no-track", "-B", place.branch)

    def _unresolved(self, place: TaskWorktree, state: WorktreeStatus) -> tuple[str, ...]:
        """Return the files with unresolved conflicts."""
        found = [
            self._repository.relative_path(path)
            for path, kind in state.unmerged
            if kind not in _WITH_MARKERS or _has_both_sides(place.root / path, is_binary_too=True)
        ]
        marked = (path for path in place.conflicts if _has_both_sides(place.directory / path))
        return tuple(dict.fromkeys((*found, *marked)))

    def _merge(
        self,
        place: TaskWorktree,
        message: str,
        files: tuple[str, ...] | None,
        should_stop: Callable[[], bool],
        recheck: Callable[[], bool] | None,
        is_ours: Callable[[], bool],
    ) -> MergeResult:
        repository = self._repository
        with repository.lock(should_stop):
            if recheck and self.is_behind(place):
                if conflicts := self._continue_work(place, message).conflicts:
                    raise self._conflict(conflicts, ())
                if not recheck():
                    raise _MergeRefusedError(f"The work does not pass the gates together with the current {self.base}.")
            if not is_ours():
                raise StopRequestedError("Another worker has taken over the task, so the work was not merged.")
            for _ in range(MERGE_RETRIES):
                refs = repository.find_branches(self.base, place.branch)
                if self.base not in refs:
                    why = f"The branch {self.base} no longer exists; the work is on {place.branch}."
                    raise _MergeRefusedError(why, waits_for_person=True)
                before, work = refs[self.base], refs[place.branch]
                tree = self._merged_tree(place, before.commit, work.commit)
                if tree == before.tree:
                    return MergeResult()
                files = files or self._changed_files(before.commit, tree)
                self._refuse_protected_files(files, place)
                parents = ("-p", before.commit, "-p", work.commit)
                commit = repository.run_git_checked(place.root, "commit-tree", tree, *parents, "-m", message)
                if self._move_base(before, commit, place.branch):
                    return MergeResult(commit=commit, files=files)
        raise _MergeRefusedError(f"{self.base} kept changing, so nothing could be merged.", waits_for_person=True)

    def _refuse_protected_files(self, files: Sequence[str], place: TaskWorktree) -> None:
        """Refuse work that changes Ralph's own files: agents must not decide how they are verified."""
        paths = [os.path.normpath(f"{self._repository.prefix}{file}") for file in files]
        if protected := [path for path in paths if _is_in(path, self._excluded)]:
            why = f"The work changes {_few(protected)}, a file of Ralph. Remove it from the commits on {place.branch}."
            raise _MergeRefusedError(why)
        settings = f"{self._repository.prefix}{TOML_NAME}"
        if settings in paths:
            why = f"The work changes {settings}, which defines the gates. Review it, then run: git merge {place.branch}"
            raise _MergeRefusedError(why, waits_for_person=True)

    def _changed_files(self, before: str, after: str) -> tuple[str, ...]:
        command = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
        output = self._repository.run_git_checked(self._repository.top, *command)
        return tuple(self._repository.relative_path(path) for path in output.split("\0") if path)

    def _merged_tree(self, place: TaskWorktree, base: str, work: str) -> str:
        """Return the tree of the merge of both commits; raise if they conflict."""
        if self._repository.version < MERGE_TREE_VERSION:
            return self._merged_in_place(place, base)
        ran = self._repository.try_git(place.root, "merge-tree", "--write-tree", "--name-only", "-z", base, work)
        tree, *rest = ran.stdout.split("\0")
        if ran.ok:
            return tree
        if ran.exit_code != 1 or "" not in rest:
            raise _MergeRefusedError(f"The work cannot be merged: {git_error(ran)}")
        conflicts = tuple(self._repository.relative_path(path) for path in rest[: rest.index("")])
        raise self._conflict(conflicts, rest)

    def _merged_in_place(self, place: TaskWorktree, base: str) -> str:
        """Merge in the worktree of the task, as older versions of git require, and abort that merge."""
        ran = self._repository.try_git(place.root, "merge", "--no-ff", "--no-commit", "--no-stat", base)
        try:
            if ran.ok:
                return self._repository.run_git_checked(place.root, "write-tree")
            if conflicts := self._unmerged(place):
                raise self._conflict(conflicts, ran.stdout.split("\n"))
            raise _MergeRefusedError(f"The work cannot be merged: {git_error(ran)}")
        finally:
            self._repository.try_git(place.root, "merge", "--abort")

    def _conflict(self, conflicts: tuple[str, ...], output: Collection[str]) -> _MergeRefusedError:
        why = f"The work conflicts with the current {self.base}, in {_few(conflicts)}."
        details = [line.strip() for line in output if line.startswith("CONFLICT") and ":" in line][:MAX_CONFLICT_LINES]
        return _MergeRefusedError("\n".join([why, *details]), conflicts)

    def _move_base(self, before: BranchRef, commit: str, branch: str) -> bool:
        """Move the base branch to a commit; return False if another process has moved it."""
        if operation := operation_in_progress(self._repository.git_directory):
            why = f"A {operation} is in progress in {self._repository.top}: finish it first."
            raise _MergeRefusedError(f"The work is on {branch} and not merged. {why}", waits_for_person=True)
        ran = self._advance(before, commit, f"merge {branch}")
        if ran.ok:
            return True
        current = self._repository.find_branches(self.base).get(self.base)
        if current and current.commit != before.commit:
            return False
        blocking = [line.strip() for line in ran.stderr.split("\n") if line.startswith("\t")]
        why = f"commit or stash the changes to {_few(blocking)} in {before.worktree}."
        raise _MergeRefusedError(
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
        worktrees.delete_leftovers(self._common, self._folder)
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
        return not state.unmerged and all(_is_in(path, self._excluded) for path in state.changed)

    def _remove(self, top: Path, branch: str) -> bool:
        """Remove a worktree and its branch; return False if that failed. `tidy` tries again."""
        try:
            worktrees.remove_worktree(self._common, top)
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
        message = f"Uncommitted changes: {_few(changed)}. Commit, stash or ignore them before a parallel run."
        raise WorktreeError(message, code="uncommitted-changes")
    if BRANCH_PREFIX in repository.find_branches(BRANCH_PREFIX):
        message = "A branch named ralph prevents branches named ralph/…. Rename it: git branch -m ralph NEW-NAME"
        raise WorktreeError(message, code="reserved-branch-name")
    return state.branch


def _refuse_checked_out(branch: str, found: BranchRef) -> None:
    if os.path.lexists(found.worktree):
        raise WorktreeError(f"The branch {branch} is checked out in {found.worktree}. Switch to another branch there.")


def _is_in(path: str, parents: Collection[str]) -> bool:
    return any(path == parent or path.startswith(f"{parent}/") for parent in parents)


def _is_same(one: Path | str, other: Path | str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _has_both_sides(path: Path, *, is_binary_too: bool = False) -> bool:
    """Return whether a file still has conflict markers; binary files cannot have any."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return (is_binary_too and b"\0" in content) or all(marker.search(content) for marker in _MARKERS)


def _few(paths: Collection[str]) -> str:
    named = list(paths)[:MAX_NAMED_PATHS]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _commit_message(title: str, task_id: str) -> str:
    """Return the commit message for a task."""
    first, id = (" ".join(text.split()) for text in (title, task_id))
    return f"{first[:MAX_SUBJECT_LENGTH] or id}\n\nTask: {id}"
