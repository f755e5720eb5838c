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
from ralph.loop.git.repository import Repository, StopRequestedError, ref, unfinished, without_locks, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.core.git import Ran
    from ralph.loop.git.repository import Ref, State

FOLDER = ".ralph/worktrees"
"""Directory of the worktrees, relative to the project."""
NAMESPACE = "ralph"
"""Prefix of the branches of tasks."""
MERGES_TREES = (2, 38)
"""First version of git that can merge without a working tree."""
TRIES = 5
"""Number of attempts to merge while others move the base branch."""
MOST_NAMED = 3
"""Maximum number of paths named in a message."""
MOST_TOLD = 10
"""Maximum number of conflict lines quoted from git."""
LONGEST_TITLE = 200
"""Maximum length of a commit subject, in characters."""
LONGEST_NAME = 48
"""Maximum length of a branch name made from a task id, in characters."""

_OWN_FILES = (".ralph/", ".agent/", ".ralph.toml")
"""Paths that Ralph itself writes in the person's worktree."""
_NEVER_COMMITTED = (".ralph", ".agent/memories.md")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MARKERS = (re.compile(rb"^<{7} ", re.MULTILINE), re.compile(rb"^>{7} ", re.MULTILINE))
_WITH_MARKERS = ("UU", "AA")
"""Status codes of conflicts for which git writes both sides into the file."""


@record
class Place:
    """Worktree of one task."""

    directory: Path
    """Project directory inside the worktree, where the agent works."""
    top: Path
    branch: str
    is_new: bool = True
    """False when it holds work of an earlier attempt."""
    conflicts: tuple[str, ...] = ()
    """Files with conflict markers from merging the base branch."""
    start: str = ""
    """Commit it was created from; empty when it holds earlier work."""


@record
class Merge:
    """Result of merging finished work."""

    commit: str | None = None
    """New head of the base branch; None when nothing was merged."""
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    why: str = ""
    """Why it was not merged; empty when it was, or when there was nothing to merge."""
    waits_for_person: bool = False
    """Whether a person has to act, because the obstacle is outside of the task."""


class _MergeRefusedError(WorktreeError):
    """Finished work cannot be merged into the base branch."""

    def __init__(self, why: str, conflicts: tuple[str, ...] = (), *, waits_for_person: bool = False) -> None:
        super().__init__(why)
        self.conflicts = conflicts
        self.waits_for_person = waits_for_person


def safe_name(task_id: str) -> str:
    """Return a task id as a directory and branch name, with a hash appended if it had to be changed."""
    name = _UNSAFE.sub("-", task_id).strip("-")[:LONGEST_NAME]
    if name and name == task_id:
        return name
    suffix = hashlib.sha256(task_id.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name.strip('-') or 'task'}-{suffix}"


class Branches:
    """Worktrees and branches of a project's tasks; safe to use from several threads and processes."""

    def __init__(self, repository: Repository, base: str) -> None:
        """`base` is the branch that work starts from and is merged into."""
        self.base = base
        self._repository = repository
        self._common = repository.common
        self._folder = repository.top / repository.prefix / FOLDER
        self._excluded = tuple(repository.prefix + name for name in _NEVER_COMMITTED)

    @classmethod
    def open(cls, root: Path) -> Branches:
        """Open the project in a directory; raise WorktreeError where work could not be merged later."""
        repository = Repository.at(root)
        branches = cls(repository, "")
        branches._create_directories()
        # While another process merges, the tree briefly looks modified.
        with repository.alone():
            branches.base = _mergeable_branch(repository)
        return branches

    def _create_directories(self) -> None:
        """Create the directories for worktrees and locks, ignored by git."""
        try:
            (self._common / worktrees.ROOM).mkdir(exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorktreeError(f"Could not create worktrees: {error.strerror}: {error.filename}.") from error

    # --- worktrees -------------------------------------------------------------------

    def work_on(self, task_id: str, title: str) -> Place:
        """Return the worktree of a task, up to date with the base branch.

        Work of an earlier attempt is kept. If it conflicts with the base branch, the conflict markers are left in the
        tree for the agent to resolve.
        """
        name = safe_name(task_id)
        branch, top = f"{NAMESPACE}/{name}", self._folder / name
        refs = self._repository.branches(self.base, branch)
        if self.base not in refs:
            raise WorktreeError(f"The branch {self.base} no longer exists, so there is nothing to start from.")
        try:
            if self._is_worktree(top):
                if branch in refs:
                    return self._continue_work(self._place(top, branch, is_new=False), _commit_message(title, task_id))
                worktrees.forget(self._common, top)
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
            self._repository.attempt(self._repository.top, "worktree", "repair", str(top))
            if self._is_registered(top):
                return True
        raise WorktreeError(f"{top} exists but is not a worktree of this repository. Move it away.")

    def _is_registered(self, top: Path) -> bool:
        folder = worktrees.registered(top)
        return folder is not None and folder.resolve().parent == self._common / "worktrees"

    def _place(self, top: Path, branch: str, *, is_new: bool, start: str = "") -> Place:
        directory = top / self._repository.prefix
        directory.mkdir(parents=True, exist_ok=True)
        return Place(directory=directory, top=top, branch=branch, is_new=is_new, start=start)

    def _create_worktree(self, top: Path, branch: str, refs: dict[str, Ref], message: str) -> Place:
        """Create a worktree, on the branch of an earlier attempt if there is one."""
        earlier = refs.get(branch)
        if earlier and earlier.top:
            _refuse_checked_out(branch, earlier)
            worktrees.forget(self._common, Path(earlier.top))
        self._create_directories()
        commit = (earlier or refs[self.base]).commit
        worktrees.register(self._common, top, branch)
        self._check_out(top, commit)
        if not earlier:
            return self._place(top, branch, is_new=True, start=commit)
        return self._continue_work(self._place(top, branch, is_new=False), message)

    def _check_out(self, top: Path, commit: str = "HEAD") -> None:
        self._repository.git(top, "reset", "-q", "--hard", "--no-recurse-submodules", commit)

    def _continue_work(self, place: Place, message: str) -> Place:
        """Continue the work of an earlier attempt on top of the current base branch."""
        folder = self._git_directory(place)
        if not (folder / "index").exists():
            # Killed before the checkout: to git it looks as if all files had been deleted.
            self._check_out(place.top)
        if unfinished(folder) == "rebase":
            self._repository.git(place.top, "rebase", "--abort")
        try:
            self._commit(place, f"wip: {message}")
        except _MergeRefusedError as error:
            if error.conflicts:
                return replace(place, conflicts=error.conflicts)
            # Work that cannot be committed stays in the tree for the agent to look at.
            if not self._repository.attempt(place.top, "checkout", "-q", place.branch).ok:
                raise
        merging = ("merge", "-q", "--ff", "--no-edit", "--no-stat", "--no-verify-signatures")
        ran = self._repository.attempt(place.top, *merging, ref(self.base))
        conflicts = () if ran.ok else self._unmerged(place)
        if not ran.ok and not conflicts:
            raise WorktreeError(f"Could not merge {self.base} into {place.branch}: {words(ran)}")
        return replace(place, conflicts=conflicts)

    def _git_directory(self, place: Place) -> Path:
        """Return the git directory of a worktree, after removing stale locks."""
        folder = worktrees.registered(place.top)
        if folder is None:
            raise WorktreeError(f"The worktree {place.top} no longer exists.")
        without_locks(folder)
        return folder

    def _unmerged(self, place: Place) -> tuple[str, ...]:
        return tuple(self._repository.shown(path) for path, _ in self._repository.state(place.top).unmerged)

    def is_behind(self, place: Place) -> bool:
        """Return whether the base branch has commits that a worktree lacks."""
        base = self._repository.branches(self.base).get(self.base)
        return base is not None and base.commit != place.start and not self._repository.has(place.top, base.commit)

    # --- merging -----------------------------------------------------------------------

    def has_base(self) -> bool:
        """Return whether the base branch still exists."""
        try:
            return self.base in self._repository.branches(self.base)
        except WorktreeError:
            return False

    @contextmanager
    def alone_with(self, task_id: str, should_stop: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock of a task: a session that lost its claim may still be running."""
        name = f"{safe_name(task_id)}.lock"
        with self._repository.alone(should_stop, name):
            yield
            if not self._top_of(f"{NAMESPACE}/{safe_name(task_id)}").exists():
                (self._common / worktrees.ROOM / name).unlink(missing_ok=True)

    def finish(
        self,
        place: Place,
        task_id: str,
        title: str,
        should_stop: Callable[[], bool] = lambda: False,
        recheck: Callable[[], bool] | None = None,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> Merge:
        """Commit the work in a worktree, merge it into the base branch and remove the worktree.

        Work that cannot be merged stays in its worktree. If the base branch has moved, it is merged into the worktree
        first, and `recheck` must pass on the result. `is_ours` is asked right before the merge, because another
        worker may have taken over the task.
        """
        message = _commit_message(title, task_id)
        try:
            files = self._commit(place, message)
            # Without a change since the worktree was created there is nothing to merge.
            merge = Merge() if files == () else self._merge(place, message, files, should_stop, recheck, is_ours)
            self._remove(place.top, place.branch)
        except _MergeRefusedError as error:
            return Merge(conflicts=error.conflicts, why=str(error), waits_for_person=error.waits_for_person)
        except WorktreeError as error:
            return Merge(why=str(error), waits_for_person=not isinstance(error, StopRequestedError))
        return merge

    def leave(self, place: Place) -> None:
        """Commit the work in a worktree for the next attempt, in case its directory is deleted."""
        try:
            self._commit(place, f"wip: {place.branch}")
        except WorktreeError:
            return  # the work stays in the tree

    def _commit(self, place: Place, message: str) -> tuple[str, ...] | None:
        """Commit the work; return the changed files, or None if there are earlier commits on the branch."""
        folder = self._git_directory(place)
        state = self._repository.state(place.top, "--untracked-files=all")
        if state.branch != place.branch:
            self._reset_branch(place, folder)
        if unresolved := self._unresolved(place, state):
            raise _MergeRefusedError(f"The merge conflict is not resolved in {_few(unresolved)}.", unresolved)
        changed = [path for path in state.changed if not _is_in(path, self._excluded)]
        if nested := [self._repository.shown(path) for path in changed if path.endswith("/")]:
            why = "is a nested git repository, whose files would be lost. Delete its .git directory."
            raise _MergeRefusedError(f"The work cannot be committed: {_few(nested)} {why}")
        if changed or state.unmerged or unfinished(folder):
            self._git_or_refuse(
                place, "add", "-A", "--", ":/", *(f":(top,exclude,literal){name}" for name in self._excluded)
            )
            if state.unmerged:
                self._git_or_refuse(place, "add", "-A", "--", *(f":(top,literal){path}" for path, _ in state.unmerged))
            self._git_or_refuse(place, "commit", "-q", "--cleanup=whitespace", "-m", message)
        return tuple(map(self._repository.shown, changed)) if state.head == place.start else None

    def _git_or_refuse(self, place: Place, *arguments: str) -> None:
        ran = self._repository.attempt(place.top, *arguments)
        # A file may look changed without a difference for git, for example with other line endings.
        is_empty_commit = arguments[0] == "commit" and not ran.ok and self._has_nothing_staged(place)
        if not ran.ok and not is_empty_commit:
            raise _MergeRefusedError(f"The work in {place.directory} cannot be committed: {words(ran)}")

    def _has_nothing_staged(self, place: Place) -> bool:
        return self._repository.attempt(place.top, "diff", "--cached", "--quiet").ok

    def _reset_branch(self, place: Place, folder: Path) -> None:
        """Move the task's branch to what the agent has checked out, if that descends from the branch."""
        if unfinished(folder) == "rebase":
            raise _MergeRefusedError(f"A rebase was left unfinished in {place.directory}.")
        if not self._repository.has(place.top, ref(place.branch)):
            raise _MergeRefusedError(
                f"What is checked out in {place.directory} does not descend from {place.branch}. "
                f"Return to the branch with: git checkout {place.branch}"
            )
        self._repository.git(place.top, "checkout", "-q", "--no-track", "-B", place.branch)

    def _unresolved(self, place: Place, state: State) -> tuple[str, ...]:
        """Return the files with unresolved conflicts."""
        found = [
            self._repository.shown(path)
            for path, kind in state.unmerged
            if kind not in _WITH_MARKERS or _has_both_sides(place.top / path, is_binary_too=True)
        ]
        marked = (path for path in place.conflicts if _has_both_sides(place.directory / path))
        return tuple(dict.fromkeys((*found, *marked)))

    def _merge(
        self,
        place: Place,
        message: str,
        files: tuple[str, ...] | None,
        should_stop: Callable[[], bool],
        recheck: Callable[[], bool] | None,
        is_ours: Callable[[], bool],
    ) -> Merge:
        repository = self._repository
        with repository.alone(should_stop):
            if recheck and self.is_behind(place):
                if conflicts := self._continue_work(place, message).conflicts:
                    raise self._conflict(conflicts, ())
                if not recheck():
                    raise _MergeRefusedError(f"The work does not pass the gates together with the current {self.base}.")
            if not is_ours():
                raise StopRequestedError("Another worker has taken over the task, so the work was not merged.")
            for _ in range(TRIES):
                refs = repository.branches(self.base, place.branch)
                if self.base not in refs:
                    why = f"The branch {self.base} no longer exists; the work is on {place.branch}."
                    raise _MergeRefusedError(why, waits_for_person=True)
                before, work = refs[self.base], refs[place.branch]
                tree = self._merged_tree(place, before.commit, work.commit)
                if tree == before.tree:
                    return Merge()
                files = files or self._changed_files(before.commit, tree)
                self._refuse_protected_files(files, place)
                parents = ("-p", before.commit, "-p", work.commit)
                commit = repository.git(place.top, "commit-tree", tree, *parents, "-m", message)
                if self._move_base(before, commit, place.branch):
                    return Merge(commit=commit, files=files)
        raise _MergeRefusedError(f"{self.base} kept changing, so nothing could be merged.", waits_for_person=True)

    def _refuse_protected_files(self, files: Sequence[str], place: Place) -> None:
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
        output = self._repository.git(self._repository.top, *command)
        return tuple(self._repository.shown(path) for path in output.split("\0") if path)

    def _merged_tree(self, place: Place, base: str, work: str) -> str:
        """Return the tree of the merge of both commits; raise if they conflict."""
        if self._repository.version < MERGES_TREES:
            return self._merged_in_place(place, base)
        ran = self._repository.attempt(place.top, "merge-tree", "--write-tree", "--name-only", "-z", base, work)
        tree, *rest = ran.out.split("\0")
        if ran.ok:
            return tree
        if ran.code != 1 or "" not in rest:
            raise _MergeRefusedError(f"The work cannot be merged: {words(ran)}")
        conflicts = tuple(self._repository.shown(path) for path in rest[: rest.index("")])
        raise self._conflict(conflicts, rest)

    def _merged_in_place(self, place: Place, base: str) -> str:
        """Merge in the worktree of the task, as older versions of git require, and abort that merge."""
        ran = self._repository.attempt(place.top, "merge", "--no-ff", "--no-commit", "--no-stat", base)
        try:
            if ran.ok:
                return self._repository.git(place.top, "write-tree")
            if conflicts := self._unmerged(place):
                raise self._conflict(conflicts, ran.out.split("\n"))
            raise _MergeRefusedError(f"The work cannot be merged: {words(ran)}")
        finally:
            self._repository.attempt(place.top, "merge", "--abort")

    def _conflict(self, conflicts: tuple[str, ...], output: Collection[str]) -> _MergeRefusedError:
        why = f"The work conflicts with the current {self.base}, in {_few(conflicts)}."
        details = [line.strip() for line in output if line.startswith("CONFLICT") and ":" in line][:MOST_TOLD]
        return _MergeRefusedError("\n".join([why, *details]), conflicts)

    def _move_base(self, before: Ref, commit: str, branch: str) -> bool:
        """Move the base branch to a commit; return False if another process has moved it."""
        if operation := unfinished(self._repository.own):
            why = f"A {operation} is in progress in {self._repository.top}: finish it first."
            raise _MergeRefusedError(f"The work is on {branch} and not merged. {why}", waits_for_person=True)
        ran = self._advance(before, commit, f"merge {branch}")
        if ran.ok:
            return True
        current = self._repository.branches(self.base).get(self.base)
        if current and current.commit != before.commit:
            return False
        blocking = [line.strip() for line in ran.error.split("\n") if line.startswith("\t")]
        why = f"commit or stash the changes to {_few(blocking)} in {before.top}."
        raise _MergeRefusedError(
            f"The work on {branch} is not merged into {self.base}: {why if blocking else words(ran)}",
            waits_for_person=True,
        )

    def _advance(self, before: Ref, commit: str, why: str) -> Ran:
        """Fast-forward the base branch, together with the worktree that has it checked out, if any."""
        if before.top and Path(before.top).is_dir():
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
            return self._repository.when_free(Path(before.top), *merging, GIT_REFLOG_ACTION=why)
        updating = ("update-ref", "-m", why, ref(self.base), commit, before.commit)
        return self._repository.attempt(self._repository.top, *updating)

    # --- cleanup -----------------------------------------------------------------------

    def tidy(self, keep: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Remove merged worktrees and branches of tasks not in `keep`; return the removed branches.

        Unmerged work always stays. `keep` is called after the branches are listed, because others may start new
        tasks meanwhile.
        """
        worktrees.sweep(self._common, self._folder)
        if not self._repository.branches(self.base):
            return ()
        merged = self._repository.branches(f"{NAMESPACE}/", merged_into=self.base)
        kept_branches = {f"{NAMESPACE}/{safe_name(task_id)}" for task_id in keep()}
        removable = tuple(
            branch for branch, found in merged.items() if branch not in kept_branches and self._is_idle(branch, found)
        )
        for branch in removable:
            self._remove(self._top_of(branch), branch)
        return removable

    def _top_of(self, branch: str) -> Path:
        return self._folder / branch.removeprefix(f"{NAMESPACE}/")

    def _is_idle(self, branch: str, found: Ref) -> bool:
        """Return whether a merged branch is unused and its worktree has no uncommitted changes."""
        top = self._top_of(branch)
        if not found.top:
            return not os.path.lexists(top)
        if not _is_same(found.top, top) or not top.is_dir():
            return not os.path.lexists(found.top)
        state = self._repository.state(top, "--untracked-files=all")
        return not state.unmerged and all(_is_in(path, self._excluded) for path in state.changed)

    def _remove(self, top: Path, branch: str) -> bool:
        """Remove a worktree and its branch; return False if that failed. `tidy` tries again."""
        try:
            worktrees.forget(self._common, top)
        except OSError:
            return False
        return self._repository.attempt(self._repository.top, "update-ref", "-d", ref(branch)).ok


def _mergeable_branch(repository: Repository) -> str:
    """Return the branch that is checked out; raise WorktreeError if work cannot be merged into it."""
    if operation := unfinished(repository.own):
        message = f"A {operation} is in progress in {repository.top}. Finish it before a parallel run."
        raise WorktreeError(message, code="git-operation-in-progress")
    state = repository.state(repository.top, "--untracked-files=normal", "--ignore-submodules=dirty")
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
    if NAMESPACE in repository.branches(NAMESPACE):
        message = "A branch named ralph prevents branches named ralph/…. Rename it: git branch -m ralph NEW-NAME"
        raise WorktreeError(message, code="reserved-branch-name")
    return state.branch


def _refuse_checked_out(branch: str, found: Ref) -> None:
    if os.path.lexists(found.top):
        raise WorktreeError(f"The branch {branch} is checked out in {found.top}. Switch to another branch there.")


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
    named = list(paths)[:MOST_NAMED]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _commit_message(title: str, task_id: str) -> str:
    """Return the commit message for a task."""
    first, id = (" ".join(text.split()) for text in (title, task_id))
    return f"{first[:LONGEST_TITLE] or id}\n\nTask: {id}"
