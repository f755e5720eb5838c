"""A worktree and a branch for each task, and the one way back into the branch that people use.

An agent's tree is its own. The person's tree is touched by one command alone,
which either moves it on to finished work or leaves it as it was: whether work
conflicts is found out before, and elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from pathlib import Path

from ralph.config import TOML_NAME
from ralph.errors import WorktreeError
from ralph.loop import checkouts
from ralph.loop.repository import Repository, StopRequestedError, ref, unfinished, without_locks, words
from ralph.records import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.git import Ran
    from ralph.loop.repository import Ref, State

FOLDER = ".ralph/worktrees"
NAMESPACE = "ralph"
MERGES_TREES = (2, 38)
"""From this version on git can merge without a working tree."""
TRIES = 5
MOST_NAMED = 3
MOST_TOLD = 10
LONGEST_TITLE = 200
LONGEST_NAME = 48

_OWN = (".ralph/", ".agent/", ".ralph.toml")
"""What we write in the person's tree ourselves."""
_NEVER_COMMITTED = (".ralph", ".agent/memories.md")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MARKERS = (re.compile(rb"^<{7} ", re.MULTILINE), re.compile(rb"^>{7} ", re.MULTILINE))
_WITH_MARKERS = ("UU", "AA")
"""Both sides have the file, so that git writes both into it."""


@record
class Place:
    """Where one task is worked on."""

    directory: Path
    """The project's directory there: where the agent works."""
    top: Path
    branch: str
    is_new: bool = True
    """False when there is work of an earlier attempt in it."""
    conflicts: tuple[str, ...] = ()
    """Files in which that work and what others did meanwhile do not go together; git's marks are in them."""
    start: str = ""
    """The commit it began with; empty when there is earlier work in it."""


@record
class Merge:
    """What became of finished work."""

    commit: str | None = None
    """The new end of the base branch; None when nothing was merged."""
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    why: str = ""
    """Why it was not merged. Empty when it was, or when there was nothing to merge."""
    waits_for_person: bool = False
    """Another attempt would meet the same: something outside of the task stands in the way."""


class _NotMerged(WorktreeError):
    """Finished work does not get into the base branch."""

    def __init__(self, why: str, conflicts: tuple[str, ...] = (), *, waits_for_person: bool = False) -> None:
        super().__init__(why)
        self.conflicts = conflicts
        self.waits_for_person = waits_for_person


def safe_name(task_id: str) -> str:
    """Give a task's id as the name of a folder and a branch; one that cannot be that gets a mark of its own."""
    name = _UNSAFE.sub("-", task_id).strip("-")[:LONGEST_NAME]
    if name and name == task_id:
        return name
    mark = hashlib.sha256(task_id.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name.strip('-') or 'task'}-{mark}"


class Branches:
    """The places of one project's tasks; all workers share it, and other processes may have one too."""

    def __init__(self, repository: Repository, base: str) -> None:
        """`base` is the branch that work starts from and is merged into."""
        self.base = base
        self._repository = repository
        self._common = repository.common
        self._folder = repository.top / repository.prefix / FOLDER
        self._never = tuple(repository.prefix + name for name in _NEVER_COMMITTED)

    @classmethod
    def open(cls, root: Path) -> Branches:
        """Give the branches of the project in a directory; refuses where work could not be merged later."""
        repository = Repository.at(root)
        found = cls(repository, "")
        found._make_room()
        # Others may be merging: for a moment the tree looks as if somebody had changed it.
        with repository.alone():
            found.base = _base_of(repository)
        return found

    def _make_room(self) -> None:
        """Make the folders for worktrees and locks; git leaves them alone."""
        try:
            (self._common / checkouts.ROOM).mkdir(exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorktreeError(f"Worktrees cannot be made: {error.strerror}: {error.filename}.") from error

    # --- a place to work -------------------------------------------------------------

    def work_on(self, task_id: str, title: str) -> Place:
        """Give the place where a task is worked on, up to date with the base branch.

        Work of an earlier attempt is kept. Where it does not go together with the base branch, the conflict is left
        in the tree for the agent.
        """
        name = safe_name(task_id)
        branch, top = f"{NAMESPACE}/{name}", self._folder / name
        refs = self._repository.branches(self.base, branch)
        if self.base not in refs:
            raise WorktreeError(f"The branch {self.base} is gone: there is nothing to start from.")
        try:
            if self._is_worktree(top):
                if branch in refs:
                    return self._take_up(self._place(top, branch, is_new=False), _message(title, task_id))
                checkouts.forget(self._common, top)
            return self._set_up(top, branch, refs, _message(title, task_id))
        except OSError as error:
            raise WorktreeError(f"{top} cannot be made: {error.strerror}: {error.filename}.") from error

    def _is_worktree(self, top: Path) -> bool:
        """Say whether there is a worktree of ours at a path; refuses when there is something else."""
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
        raise WorktreeError(f"{top} is in the way: it is no worktree of this repository. Move it away.")

    def _is_registered(self, top: Path) -> bool:
        folder = checkouts.registered(top)
        return folder is not None and folder.resolve().parent == self._common / "worktrees"

    def _place(self, top: Path, branch: str, *, is_new: bool, start: str = "") -> Place:
        directory = top / self._repository.prefix
        directory.mkdir(parents=True, exist_ok=True)
        return Place(directory=directory, top=top, branch=branch, is_new=is_new, start=start)

    def _set_up(self, top: Path, branch: str, refs: dict[str, Ref], message: str) -> Place:
        """Make a worktree, on the branch of an earlier attempt if there is one."""
        earlier = refs.get(branch)
        if earlier and earlier.top:
            _refuse_elsewhere(branch, earlier)
            checkouts.forget(self._common, Path(earlier.top))
        self._make_room()
        commit = (earlier or refs[self.base]).commit
        checkouts.register(self._common, top, branch)
        self._check_out(top, commit)
        if not earlier:
            return self._place(top, branch, is_new=True, start=commit)
        return self._take_up(self._place(top, branch, is_new=False), message)

    def _check_out(self, top: Path, commit: str = "HEAD") -> None:
        self._repository.git(top, "reset", "-q", "--hard", "--no-recurse-submodules", commit)

    def _take_up(self, place: Place, message: str) -> Place:
        """Go on with what an earlier attempt left, on top of what others did meanwhile."""
        folder = self._folder_of(place)
        if not (folder / "index").exists():
            # Killed before a file was there: to git it looks as if all of them had been deleted.
            self._check_out(place.top)
        if unfinished(folder) == "rebase":
            self._repository.git(place.top, "rebase", "--abort")
        try:
            self._commit(place, f"wip: {message}")
        except _NotMerged as error:
            if error.conflicts:
                return replace(place, conflicts=error.conflicts)
            # What cannot be committed stays in the tree, for the agent to look at.
            if not self._repository.attempt(place.top, "checkout", "-q", place.branch).ok:
                raise
        merging = ("merge", "-q", "--ff", "--no-edit", "--no-stat", "--no-verify-signatures")
        ran = self._repository.attempt(place.top, *merging, ref(self.base))
        conflicts = () if ran.ok else self._unmerged(place)
        if not ran.ok and not conflicts:
            raise WorktreeError(f"{place.branch} cannot be brought up to date with {self.base}: {words(ran)}")
        return replace(place, conflicts=conflicts)

    def _folder_of(self, place: Place) -> Path:
        """Give what git keeps of a worktree, free for the next command."""
        folder = checkouts.registered(place.top)
        if folder is None:
            raise WorktreeError(f"The worktree {place.top} is gone.")
        without_locks(folder)
        return folder

    def _unmerged(self, place: Place) -> tuple[str, ...]:
        return tuple(self._repository.shown(path) for path, _ in self._repository.state(place.top).unmerged)

    def is_behind(self, place: Place) -> bool:
        """Say whether the base branch has work that a place has not."""
        base = self._repository.branches(self.base).get(self.base)
        return base is not None and base.commit != place.start and not self._repository.has(place.top, base.commit)

    # --- back again --------------------------------------------------------------------

    def has_base(self) -> bool:
        """Say whether the base branch is still there."""
        try:
            return self.base in self._repository.branches(self.base)
        except WorktreeError:
            return False

    @contextmanager
    def alone_with(self, task_id: str, should_stop: Callable[[], bool]) -> Iterator[None]:
        """Be the only one who works on a task here: a session that lost its claim may not have noticed yet."""
        name = f"{safe_name(task_id)}.lock"
        with self._repository.alone(should_stop, name):
            yield
            if not self._top_of(f"{NAMESPACE}/{safe_name(task_id)}").exists():
                (self._common / checkouts.ROOM / name).unlink(missing_ok=True)

    def finish(
        self,
        place: Place,
        task_id: str,
        title: str,
        should_stop: Callable[[], bool] = lambda: False,
        recheck: Callable[[], bool] | None = None,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> Merge:
        """Commit what is in a place and merge it into the base branch; then the place is gone.

        What cannot be merged stays where it is, and the base branch as it was. With `recheck`, work that the base
        branch has gone on from is brought up to date in its place first and merged only if that passes. `is_ours` has
        the last word, right before the merge: somebody else may have the task by then.
        """
        message = _message(title, task_id)
        try:
            files = self._commit(place, message)
            # Without a change since the place was made there is nothing to merge.
            merge = Merge() if files == () else self._merge(place, message, files, should_stop, recheck, is_ours)
            self._remove(place.top, place.branch)
        except _NotMerged as error:
            return Merge(conflicts=error.conflicts, why=str(error), waits_for_person=error.waits_for_person)
        except WorktreeError as error:
            return Merge(why=str(error), waits_for_person=not isinstance(error, StopRequestedError))
        return merge

    def leave(self, place: Place) -> None:
        """Keep what is in a place for the next attempt, also if its directory should vanish."""
        try:
            self._commit(place, f"wip: {place.branch}")
        except WorktreeError:
            return  # it stays in the tree

    def _commit(self, place: Place, message: str) -> tuple[str, ...] | None:
        """Commit what is in a tree; give the files if these are all changes since the place was made."""
        folder = self._folder_of(place)
        state = self._repository.state(place.top, "--untracked-files=all")
        if state.branch != place.branch:
            self._bring_back(place, folder)
        if unresolved := self._unresolved(place, state):
            raise _NotMerged(f"The conflict is not resolved in {_few(unresolved)}.", unresolved)
        changed = [path for path in state.changed if not _is_in(path, self._never)]
        if nested := [self._repository.shown(path) for path in changed if path.endswith("/")]:
            why = "is a repository of its own, and git would keep none of its files. Delete its .git folder."
            raise _NotMerged(f"The work cannot be committed: {_few(nested)} {why}")
        if changed or state.unmerged or unfinished(folder):
            self._stage(place, "add", "-A", "--", ":/", *(f":(top,exclude,literal){name}" for name in self._never))
            if state.unmerged:
                self._stage(place, "add", "-A", "--", *(f":(top,literal){path}" for path, _ in state.unmerged))
            self._stage(place, "commit", "-q", "--cleanup=whitespace", "-m", message)
        return tuple(map(self._repository.shown, changed)) if state.head == place.start else None

    def _stage(self, place: Place, *arguments: str) -> None:
        ran = self._repository.attempt(place.top, *arguments)
        # A file may look changed without being another one for git, as one with other line ends.
        is_needless = arguments[0] == "commit" and not ran.ok and self._has_nothing_staged(place)
        if not ran.ok and not is_needless:
            raise _NotMerged(f"The work in {place.directory} cannot be committed: {words(ran)}")

    def _has_nothing_staged(self, place: Place) -> bool:
        return self._repository.attempt(place.top, "diff", "--cached", "--quiet").ok

    def _bring_back(self, place: Place, folder: Path) -> None:
        """Put the branch of a task where the agent has gone on, if it has gone on from it."""
        if unfinished(folder) == "rebase":
            raise _NotMerged(f"A rebase was left half done in {place.directory}.")
        if not self._repository.has(place.top, ref(place.branch)):
            raise _NotMerged(
                f"What is checked out in {place.directory} does not go on from {place.branch}. "
                f"Go back there with: git checkout {place.branch}"
            )
        self._repository.git(place.top, "checkout", "-q", "--no-track", "-B", place.branch)

    def _unresolved(self, place: Place, state: State) -> tuple[str, ...]:
        """Give the files with a conflict that nobody has resolved."""
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
                if conflicts := self._take_up(place, message).conflicts:
                    raise self._conflict(conflicts, ())
                if not recheck():
                    raise _NotMerged(f"The work does not pass together with what is in {self.base} now.")
            if not is_ours():
                raise StopRequestedError("The task is somebody else's by now: its work was not merged.")
            for _ in range(TRIES):
                refs = repository.branches(self.base, place.branch)
                if self.base not in refs:
                    why = f"The branch {self.base} is gone; the work is on {place.branch}."
                    raise _NotMerged(why, waits_for_person=True)
                before, work = refs[self.base], refs[place.branch]
                tree = self._merged_tree(place, before.commit, work.commit)
                if tree == before.tree:
                    return Merge()
                files = files or self._between(before.commit, tree)
                self._refuse_ours(files, place)
                parents = ("-p", before.commit, "-p", work.commit)
                commit = repository.git(place.top, "commit-tree", tree, *parents, "-m", message)
                if self._move_base(before, commit, place.branch):
                    return Merge(commit=commit, files=files)
        raise _NotMerged(f"{self.base} changes all the time: nothing could be merged.", waits_for_person=True)

    def _refuse_ours(self, files: Sequence[str], place: Place) -> None:
        """Refuse work that changes what Ralph itself works by: agents must not decide how they are checked."""
        paths = [os.path.normpath(f"{self._repository.prefix}{file}") for file in files]
        if kept := [path for path in paths if _is_in(path, self._never)]:
            why = (
                f"The work changes {_few(kept)}, which is Ralph's own: take that out of the commits on {place.branch}."
            )
            raise _NotMerged(why)
        settings = f"{self._repository.prefix}{TOML_NAME}"
        if settings in paths:
            why = (
                f"The work changes {settings}, which says how work is checked. Look at it, and git merge {place.branch}"
            )
            raise _NotMerged(why, waits_for_person=True)

    def _between(self, before: str, after: str) -> tuple[str, ...]:
        asked = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
        found = self._repository.git(self._repository.top, *asked)
        return tuple(self._repository.shown(path) for path in found.split("\0") if path)

    def _merged_tree(self, place: Place, base: str, work: str) -> str:
        """Give the tree in which both are; refuses when they do not go together."""
        if self._repository.version < MERGES_TREES:
            return self._merged_in_place(place, base)
        ran = self._repository.attempt(place.top, "merge-tree", "--write-tree", "--name-only", "-z", base, work)
        tree, *rest = ran.out.split("\0")
        if ran.ok:
            return tree
        if ran.code != 1 or "" not in rest:
            raise _NotMerged(f"The work cannot be merged: {words(ran)}")
        conflicts = tuple(self._repository.shown(path) for path in rest[: rest.index("")])
        raise self._conflict(conflicts, rest)

    def _merged_in_place(self, place: Place, base: str) -> str:
        """Merge in the tree of the task, as older gits must, and take it back."""
        ran = self._repository.attempt(place.top, "merge", "--no-ff", "--no-commit", "--no-stat", base)
        try:
            if ran.ok:
                return self._repository.git(place.top, "write-tree")
            if conflicts := self._unmerged(place):
                raise self._conflict(conflicts, ran.out.split("\n"))
            raise _NotMerged(f"The work cannot be merged: {words(ran)}")
        finally:
            self._repository.attempt(place.top, "merge", "--abort")

    def _conflict(self, conflicts: tuple[str, ...], said: Collection[str]) -> _NotMerged:
        why = f"The work does not go together with what is in {self.base} now, in {_few(conflicts)}."
        told = [line.strip() for line in said if line.startswith("CONFLICT") and ":" in line][:MOST_TOLD]
        return _NotMerged("\n".join([why, *told]), conflicts)

    def _move_base(self, before: Ref, commit: str, branch: str) -> bool:
        """Let the base branch end in a commit; False when somebody else has moved it."""
        if doing := unfinished(self._repository.own):
            why = f"A {doing} is in progress in {self._repository.top}: nothing is merged until it has ended."
            raise _NotMerged(f"The work is on {branch}. {why}", waits_for_person=True)
        ran = self._advance(before, commit, f"merge {branch}")
        if ran.ok:
            return True
        now = self._repository.branches(self.base).get(self.base)
        if now and now.commit != before.commit:
            return False
        in_the_way = [line.strip() for line in ran.error.split("\n") if line.startswith("\t")]
        why = f"changes in {before.top} are in the way, in {_few(in_the_way)}. Commit or stash them."
        raise _NotMerged(
            f"The work is on {branch} and not in {self.base}: {why if in_the_way else words(ran)}",
            waits_for_person=True,
        )

    def _advance(self, before: Ref, commit: str, why: str) -> Ran:
        """Move the base branch on, together with the tree that has it checked out, if one has."""
        if before.top and Path(before.top).is_dir():
            # Git overwrites what it ignores without a word, unless it is told not to.
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

    # --- tidiness ----------------------------------------------------------------------

    def tidy(self, keep: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Remove what is left of tasks that are not to be kept; give the branches that are gone.

        Work that is not in the base branch stays, whoever's it is. Which are kept is asked once it is known what
        there is: others may begin new tasks meanwhile.
        """
        checkouts.sweep(self._common, self._folder)
        if not self._repository.branches(self.base):
            return ()
        merged = self._repository.branches(f"{NAMESPACE}/", merged_into=self.base)
        kept = {f"{NAMESPACE}/{safe_name(task_id)}" for task_id in keep()}
        gone = tuple(branch for branch, found in merged.items() if branch not in kept and self._is_idle(branch, found))
        for branch in gone:
            self._remove(self._top_of(branch), branch)
        return gone

    def _top_of(self, branch: str) -> Path:
        return self._folder / branch.removeprefix(f"{NAMESPACE}/")

    def _is_idle(self, branch: str, found: Ref) -> bool:
        """Say whether nothing would be lost with a branch that is merged, and nobody uses it."""
        top = self._top_of(branch)
        if not found.top:
            return not os.path.lexists(top)
        if not _is_same(found.top, top) or not top.is_dir():
            return not os.path.lexists(found.top)
        state = self._repository.state(top, "--untracked-files=all")
        return not state.unmerged and all(_is_in(path, self._never) for path in state.changed)

    def _remove(self, top: Path, branch: str) -> bool:
        """Remove a worktree and its branch; False when it has to stay. What is merged is merged: `tidy` tries again."""
        try:
            checkouts.forget(self._common, top)
        except OSError:
            return False
        return self._repository.attempt(self._repository.top, "update-ref", "-d", ref(branch)).ok


def _base_of(repository: Repository) -> str:
    """Give the branch that is checked out, if finished work can be merged into it."""
    if doing := unfinished(repository.own):
        raise WorktreeError(f"A {doing} is in progress in {repository.top}: end it before tasks run in parallel.")
    state = repository.state(repository.top, "--untracked-files=normal", "--ignore-submodules=dirty")
    if not state.head:
        raise WorktreeError("--parallel needs something to start from: commit once.")
    if not state.branch:
        raise WorktreeError(f"No branch is checked out in {repository.top}: switch to the one that takes the work.")
    own = tuple(repository.prefix + name for name in _OWN)
    changed = [path for path in state.changed if not path.startswith(own)]
    if changed:
        raise WorktreeError(f"Not committed: {_few(changed)}. Commit, stash or ignore that before a parallel run.")
    if NAMESPACE in repository.branches(NAMESPACE):
        raise WorktreeError("A branch is called ralph, so none can be called ralph/…: git branch -m ralph NEW-NAME")
    return state.branch


def _refuse_elsewhere(branch: str, found: Ref) -> None:
    if os.path.lexists(found.top):
        raise WorktreeError(f"The branch {branch} is checked out in {found.top}: switch to another one there.")


def _is_in(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _is_same(one: Path | str, other: Path | str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _has_both_sides(path: Path, *, is_binary_too: bool = False) -> bool:
    """Say whether a file still has the marks of a conflict; what is no text cannot have any."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return (is_binary_too and b"\0" in content) or all(marker.search(content) for marker in _MARKERS)


def _few(paths: Collection[str]) -> str:
    named = list(paths)[:MOST_NAMED]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _message(title: str, task_id: str) -> str:
    """Give the message of a commit for a task."""
    first, id = (" ".join(text.split()) for text in (title, task_id))
    return f"{first[:LONGEST_TITLE] or id}\n\nTask: {id}"
