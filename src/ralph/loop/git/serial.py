"""Work of one task after another in the person's own working tree: a commit for each task that is done.

Work that is not done is saved as a checkpoint, a commit under `refs/ralph/attempts`. It stays in the tree for the next
attempt at its task; before another task begins, it is set aside, and put back when its own task goes on. What others
changed (a person, or a gate) is neither committed nor touched.
"""

from __future__ import annotations

import time
from posixpath import relpath
from typing import TYPE_CHECKING

from ralph.core.errors import WorktreeError
from ralph.core.git import find_git_directories
from ralph.core.git_index import current_branch
from ralph.core.records import record, replace
from ralph.loop.git.commits import NEVER_COMMITTED, OWN_FILES, commit_message, is_inside, name_few, printable_path
from ralph.loop.git.left_out import is_own_repository, is_secret_file
from ralph.loop.git.obstacles import find_obstacle
from ralph.loop.git.owner import OwnerFile, WorkOwner
from ralph.loop.git.repository import Repository, full_ref, operation_problem, quit_operations
from ralph.loop.git.snapshots import EMPTY_TREE, file_stamp, file_system_time, is_written_since
from ralph.loop.git.working_tree import WorkingTree
from ralph.loop.git.worktrees import is_commit_made

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ralph.loop.git.repository import WorktreeStatus

CHECKPOINT_REFS = "refs/ralph/attempts"
"""Refs of unfinished work, by run and iteration."""
PUT_BACK = "-start"
"""Suffix of the ref of an attempt for earlier work that was put back on top of what was committed since."""
REWRITTEN_REFS = "refs/ralph/rewritten"
"""Refs of commits that a session put into the place of others."""
AUTO, NEVER = "auto", "never"
NOT_COMMITTED = "Work is not committed"
MAX_STATUS_AGE_SECONDS = 2.0
"""Time for which the status of the tree is taken as known while only Ralph itself works in it, in seconds."""


@record
class RecordedWork:
    """What became of the work of an attempt."""

    commits: tuple[str, ...] = ()
    """Commits of a task that is done, oldest first."""
    checkpoint: str = ""
    """Commit with unfinished work."""
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the person."""
    not_committed: str = ""
    """Why work is not committed from now on; empty if it is."""


def checkpoint_ref(run_id: str, iteration: int) -> str:
    """Return the ref of an attempt's unfinished work."""
    return f"{CHECKPOINT_REFS}/{run_id}/{iteration}"


class SerialWork:
    """Work of the tasks of a serial run in the person's working tree."""

    def __init__(self, repository: Repository, *, commits: bool) -> None:
        """`commits` says whether tasks that are done are committed; else failed work can only be taken back."""
        self.commits = commits
        self._repository = repository
        self._top = repository.top
        self._excluded = tuple(repository.prefix + name for name in NEVER_COMMITTED)
        self._own = tuple(repository.prefix + name for name in OWN_FILES)
        self._pathspecs = (":/", *(f":(exclude,top,literal){name}" for name in self._excluded))
        self._tree = WorkingTree(self._top, self._pathspecs)
        self._owner_file = OwnerFile(repository.git_directory)
        self._owner: WorkOwner | None = None
        """Owner of the tree during the present attempt."""
        self._start = ""
        """Commit that the present attempt started from."""
        self._stamps: dict[str, tuple[int, int]] = {}
        """Size and time of what others had changed before the present attempt."""
        self.state_at_start: WorktreeStatus | None = None
        """Status of the tree at the start of the present attempt, if it is known."""
        self._added: frozenset[str] | None = None
        """New files before the gates, which may leave others."""
        self._known: WorktreeStatus | None = None
        """Status of the tree as Ralph last saw or left it; None if something ran since."""
        self._known_at = 0.0

    @classmethod
    def open(cls, root: Path, mode: str, *, resets: bool, is_only_run: bool) -> tuple[SerialWork | None, str]:
        """Return the work of a project's tasks, or None, and why nothing is committed, or an empty string.

        `mode` is the setting, and `resets` says whether failed work is taken back.
        """
        if mode == NEVER and not resets:
            return None, f'{NOT_COMMITTED}: [execution] commit is "never".'
        if not find_git_directories(root):
            return None, f"{NOT_COMMITTED}: this is not a git repository. For a commit per task, run git init first."
        if not is_only_run:
            return None, f"{NOT_COMMITTED}: another run is active in this directory."
        try:
            work = cls(Repository.open(root, "Committing work"), commits=True)
            why = work._why_not_committed(mode)
        except WorktreeError as error:
            return None, f"{NOT_COMMITTED}: {error}"
        work.commits = not why
        return (work if work.commits or resets else None), why

    def _why_not_committed(self, mode: str) -> str:
        if mode == NEVER:
            return f'{NOT_COMMITTED}: [execution] commit is "never".'
        if problem := operation_problem(self._repository.git_directory):
            return f"{NOT_COMMITTED}: {problem}"
        state = self._status()
        if not state.branch:
            return f"{NOT_COMMITTED}: no branch is checked out. Switch to one before the next run: git switch BRANCH"
        new = set(map(_without_slash, state.untracked)) if state.head else ()  # before the first commit, all is new
        changed = [path for path in self._changed(state) if path not in new]
        if mode == AUTO and changed and not self._is_left_by_ralph(state):
            return (
                f"{NOT_COMMITTED}: you have uncommitted changes ({name_few(changed)}). Commit or stash them before the"
                ' next run, or set [execution] commit = "always", which leaves these files out.'
            )
        return ""

    @property
    def identity_note(self) -> str:
        """Sentence about a missing identity; empty if git knows one."""
        if not self.commits or not self._repository.lacks_identity:
            return ""
        return (
            "Git knows no user.name or user.email, so Ralph <ralph@localhost> is the author. Set: git config user.email"
        )

    def _is_left_by_ralph(self, state: WorktreeStatus) -> bool:
        """Return whether changes are unfinished work of a task: of a killed attempt, or just as it was saved."""
        owner = self._owner_file.read()
        if owner is None or owner.branch != state.branch:
            return False
        return not owner.checkpoint or self._write_tree(owner.foreign, state)[0] == self._tree_of(owner.checkpoint)

    def read_status(self) -> WorktreeStatus:
        """Return the status of the tree, and remember it until something else runs in the tree."""
        self._known = None
        options = ("--untracked-files=all", "--", *self._pathspecs)
        self._known = state = self._repository.status(self._top, *options, errors="surrogateescape")
        self._known_at = time.monotonic()
        return state

    def forget_status(self) -> None:
        """Take note that something runs that may change the tree."""
        self._known = None

    def _status(self) -> WorktreeStatus:
        """Return the status of the tree; git, which looks at every file, is not asked if it is known."""
        is_recent = time.monotonic() - self._known_at <= MAX_STATUS_AGE_SECONDS
        return self._known if self._known and is_recent else self.read_status()

    def _changed(self, state: WorktreeStatus) -> tuple[str, ...]:
        """Return the changed files without Ralph's own."""
        return tuple(path for path in _paths(state) if not path.startswith(self._own))

    # --- the beginning of an attempt -----------------------------------------------------

    def recover(self) -> WorkOwner | None:
        """Save what a killed attempt left in the tree; return it with its checkpoint, or None if there is nothing."""
        owner = self._owner_file.read()
        if owner is None or owner.checkpoint:
            return None
        state = self._status()
        if state.head not in ("", owner.head):  # killed between a commit and its way into the index
            self._tree.reset_index([path for _, path in self._tree.changed_paths(owner.head or EMPTY_TREE, state.head)])
            state = self.read_status()
        tree, changed = self._write_tree((*owner.foreign, *self._left_out(owner, state)), state)
        if tree and (changed or state.head != owner.head):
            ref = checkpoint_ref(owner.run_id, owner.iteration)
            saved = self._tree.save(tree, ref, commit_message("Interrupted work", owner.task_id), _parents(state.head))
            owner = replace(owner, checkpoint=saved)
        self._owner_file.write(owner if owner.checkpoint else None)
        return owner if owner.checkpoint else None

    def _read_owner(self) -> WorkOwner | None:
        """Return whose work is in the tree; nobody's if its checkpoint was deleted, so that it counts as a person's."""
        owner = self._owner_file.read()
        return None if owner and owner.checkpoint and not self._tree_of(owner.checkpoint) else owner

    def files_before_unfinished(self) -> dict[str, tuple[bytes, bool] | None]:
        """Return content and executability of the files that unfinished work in the tree has changed, before it.

        Paths are relative to the project. None stands for a file that was not there.
        """
        owner = self._owner or self._read_owner()
        unfinished = self._start if self._owner else owner.checkpoint if owner else ""
        if owner is None or not unfinished or unfinished == owner.head:
            return {}
        found: dict[str, tuple[bytes, bool] | None] = {}
        for status, path in self._tree.changed_paths(owner.head or EMPTY_TREE, unfinished):
            if path not in owner.foreign and not path.startswith(self._own):
                name = relpath(path, self._repository.prefix) if self._repository.prefix else path
                found[name] = None if status == "A" else self._tree.read(owner.head, path)
        return found

    def begin(self, task_id: str, run_id: str, iteration: int, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """Prepare the tree for an attempt; return the commit it starts from, and sentences for the person.

        `checkpoint` is unfinished work of the same task to go on with, if it is not in the tree.
        """
        notes: tuple[str, ...] = ()
        if self._tree.retry_reset():
            self.forget_status()
        started_ns = file_system_time(self._top / self._repository.prefix)
        owner = self._read_owner() if self.commits else None
        if owner and owner.task_id != task_id:
            if not self._set_aside(owner) and self._changed(self._status()):
                notes = (f"The unfinished work of {owner.task_id} stays in the tree and out of this task's commit.",)
            owner = None
        moves = self._repository.read_head_log()
        if owner or not self._known or not self._is_head(self._known, moves):
            self.forget_status()
        state = self._status()
        began = WorkOwner(
            task_id=task_id,
            run_id=run_id,
            iteration=iteration,
            head=state.head,
            branch=state.branch,
            foreign=tuple(path for path in _paths(state) if not is_inside(path, self._excluded)),
            started_ns=owner.started_ns if owner else started_ns,
        )
        self._start = state.head
        if owner:
            self._start = owner.checkpoint or state.head
            began = replace(began, head=owner.head, foreign=self._foreign(owner, state), moves=owner.moves)
        else:
            began = replace(began, moves=len(moves))
            if checkpoint and self.commits:
                ref = checkpoint_ref(run_id, iteration) + PUT_BACK
                if applied := self._apply(checkpoint, state, began.foreign, ref):
                    self._start = applied
                else:
                    notes = (f"Earlier work on this task does not fit any more; it is in {checkpoint[:12]}.",)
        self._owner, self._added = began, None
        self.state_at_start = state if self._start == state.head else None
        self._stamps = {path: file_stamp(self._top / path) for path in began.foreign}
        if self.commits:
            self._owner_file.write(began)
        self.forget_status()  # of the session that follows
        return self._start, notes

    def _is_head(self, state: WorktreeStatus, moves: Sequence[tuple[str, str]]) -> bool:
        """Return whether a status is of what is checked out; `moves` is the log of HEAD."""
        return bool(moves) and moves[-1][0] == state.head and current_branch(str(self._top)) == state.branch

    def _foreign(self, owner: WorkOwner, state: WorktreeStatus) -> tuple[str, ...]:
        """Return the paths that were changed by others than the task that owns the tree."""
        now = self._write_tree(owner.foreign, state)[0] if owner.checkpoint else ""
        others = self._tree.changed_paths(owner.checkpoint, now) if now else []
        return tuple(dict.fromkeys((*owner.foreign, *(path for _, path in others))))

    def _apply(self, checkpoint: str, state: WorktreeStatus, foreign: Collection[str], ref: str) -> str:
        """Put unfinished work into the tree, on top of what was committed since; return a commit with both.

        It is empty if the work is gone, or conflicts with what was committed since or with what others have there.
        """
        saved = self._tree_of(checkpoint)
        tree = self._repository.merged_tree(state.head, checkpoint) if state.head else saved
        if not saved or not tree:
            return ""
        changes = self._tree.changed_paths(tree, state.head or EMPTY_TREE)
        removed = [path for status, path in changes if status == "A"]
        written = [path for status, path in changes if status == "D"]
        if any(path in foreign for _, path in changes) or find_obstacle(self._top, written, removed):
            return ""
        self._tree.restore(tree, changes)
        return checkpoint if tree == saved else self._tree.save(tree, ref, "Earlier work", _parents(state.head))

    def note_added(self) -> None:
        """Remember the new files before gates run: what they leave behind is not work."""
        if self.commits:
            self._added = frozenset(map(_without_slash, self._status().added))
        self.forget_status()

    # --- the end of an attempt -----------------------------------------------------------

    def finish(self, title: str, trailers: str) -> RecordedWork:
        """Commit the work of a task that is done, on top of what its agent has committed itself."""
        assert self._owner
        owner, message = self._owner, commit_message(title, self._owner.task_id, trailers)
        try:
            if problem := operation_problem(self._repository.git_directory):
                raise WorktreeError(problem)  # a commit would have the conflicts, and one parent
            state = self._status()
            if notes := self._return_to_branch(owner, state):
                state = self.read_status()
            left_out = self._left_out(owner, state)
            tree, files = self._write_tree((*owner.foreign, *left_out), state)
            if not tree:
                raise WorktreeError("git could not read the working tree.")
            commits = by_session = self._session_commits(owner, state.head)
            if files:
                commit, is_indexed = self._commit(tree, state.head, message, files)
                self._known = state.after_commit(commit, files) if is_indexed else None
                commits, notes = (*commits, commit), (*notes, *([] if is_indexed else [self._tree.lock_note()]))
            if by_session:
                files = [path for _, path in self._tree.changed_paths(owner.head or EMPTY_TREE, commits[-1])]
        except WorktreeError as error:
            return self._stop_committing(str(error))
        self._owner_file.write(None)
        mixed = [path for path, stamp in self._stamps.items() if file_stamp(self._top / path) != stamp]
        if mixed:
            notes += (f"{name_few(mixed)} had changes of others before the task and is not committed.",)
        return RecordedWork(commits=commits, files=tuple(files), notes=(*notes, *filter(None, left_out.values())))

    def leave(self, title: str, trailers: str, *, resets: bool) -> RecordedWork:
        """Save the work of an attempt that did not get its task done; with `resets`, take it out of the tree."""
        assert self._owner
        owner = self._owner
        try:
            state = self._status()
            tree, changed = self._write_tree((*owner.foreign, *self._left_out(owner, state)), state)
            start, checkpoint = self._start, ""
            is_at_start = start == state.head and not changed
            if tree and not is_at_start and (state.head != owner.head or tree != self._tree_of(start)):
                message = commit_message(f"Unfinished: {title}", owner.task_id, trailers)
                ref = checkpoint_ref(owner.run_id, owner.iteration)
                checkpoint = self._tree.save(tree, ref, message, _parents(state.head))
            owner = replace(owner, checkpoint=checkpoint or (start if start != owner.head else ""))
            self._owner_file.write(owner if owner.checkpoint and self.commits else None)
            if not resets or not owner.checkpoint:
                return RecordedWork(checkpoint=checkpoint)
            if self._set_aside(owner):
                return RecordedWork(checkpoint=checkpoint, notes=("The working tree is as it was before the task.",))
        except WorktreeError as error:
            return RecordedWork(notes=(str(error),))
        return RecordedWork(checkpoint=checkpoint, notes=("Others changed HEAD, so the work stays in the tree.",))

    def _left_out(self, owner: WorkOwner, state: WorktreeStatus) -> dict[str, str]:
        """Return new files that are not committed, each with a sentence if a person should know."""
        found = {}
        for path in map(_without_slash, state.added):
            if path in owner.foreign or is_inside(path, self._excluded):
                continue
            name = printable_path(path)
            if is_own_repository(self._top / path):
                found[path] = f"{name} is a git repository of its own and is not committed."
            elif self._added is not None and path not in self._added:
                found[path] = ""  # a gate has left it
            elif is_secret_file(path):
                found[path] = f"{name} may hold secrets and is not committed. Commit or ignore it yourself."
            elif not is_written_since(self._top / path, owner.started_ns):
                found[path] = f"{name} was ignored before the task and is not committed. Commit or ignore it yourself."
        return found

    def _write_tree(self, skipped: Collection[str], state: WorktreeStatus) -> tuple[str, list[str]]:
        """Write a tree with the work, and return it with the paths that differ from HEAD.

        Paths that are skipped are as HEAD has them. The tree is empty if git could not write it.
        """
        left = frozenset(skipped)
        work = [path for path in _paths(state) if path not in left and not is_inside(path, self._excluded)]
        if not work:
            return self._tree_of(state.head), []
        index = self._tree.read_index()
        tree = self._tree.write_tree(index, skipped, changed=work)
        changed = [path for _, path in self._tree.changed_paths(state.head or EMPTY_TREE, tree)] if tree else []
        # An agent, or the person, may have staged them.
        staged = {path for path in changed if path in left or is_inside(path, self._excluded)}
        if staged:
            tree = self._tree.write_tree(index, skipped, unstaged=staged, changed=work)
        return tree, [path for path in changed if path not in staged]

    def _tree_of(self, commit: str) -> str:
        """Return the tree of a commit, which is empty before the first one; an empty string if it is not there."""
        return self._repository.tree_of(commit) if commit else EMPTY_TREE

    def _commit(self, tree: str, head: str, message: str, files: Sequence[str]) -> tuple[str, bool]:
        """Commit a tree on the branch that is checked out; return the commit, and whether the index has it, too."""
        repository = self._repository
        parents = (word for parent in _parents(head) for word in ("-p", parent))
        commit = repository.run_git_checked(self._top, "commit-tree", tree, *parents, "-m", message)
        subject = message.partition("\n")[0]
        repository.run_git_checked(self._top, "update-ref", "-m", f"ralph: {subject}", "HEAD", commit, head or "0" * 40)
        return commit, self._tree.reset_index(files)

    def _stop_committing(self, why: str) -> RecordedWork:
        """Go on without commits, because the work of tasks can no longer be told apart."""
        self.commits = False
        self.forget_status()
        self._owner_file.write(None)
        note = f"{NOT_COMMITTED} from now on: {why} The work is in the tree."
        return RecordedWork(notes=(note,), not_committed=f"{NOT_COMMITTED}: {why}")

    # --- what moved HEAD -----------------------------------------------------------------

    def _session_commits(self, owner: WorkOwner, head: str) -> tuple[str, ...]:
        """Return the commits that sessions of the task have made, oldest first."""
        if head == owner.head:
            return ()
        moves = [move for move in self._repository.read_head_log()[owner.moves :] if is_by_ralph(move[1])]
        listed = self._new_commits(owner, head)
        made = {commit for commit, what in moves if commit in listed and is_commit_made(what, listed[commit])}
        return tuple(commit for commit in listed if commit in made)

    def _new_commits(self, owner: WorkOwner, head: str) -> dict[str, str]:
        """Return the commits since the work began with their subjects, oldest first."""
        since = ["--not", owner.head] if owner.head else []
        log = self._repository.run_git_checked(self._top, "log", "--reverse", "--format=%H %s", head, *since, "--")
        return {commit: subject for commit, _, subject in (line.partition(" ") for line in log.split("\n") if line)}

    def _has_commits_of_others(self, owner: WorkOwner, head: str) -> bool:
        return bool(head) and len(self._session_commits(owner, head)) < len(self._new_commits(owner, head))

    def _is_moved_by_others(self, owner: WorkOwner, state: WorktreeStatus) -> bool:
        moves = self._repository.read_head_log()[owner.moves :]
        is_moved = (state.head, state.branch) != (owner.head, owner.branch)
        return is_moved and not (moves and all(is_by_ralph(what) for _, what in moves))

    def _return_to_branch(self, owner: WorkOwner, state: WorktreeStatus) -> tuple[str, ...]:
        """Go back to the branch of the run if a session has left it or rewrote it; return sentences for the person."""
        repository = self._repository
        contains = owner.head in ("", state.head) or repository.is_ancestor(self._top, owner.head, state.head or "HEAD")
        if (state.branch == owner.branch and contains) or self._is_moved_by_others(owner, state):
            return ()
        what = f"the branch {state.branch}" if state.branch else "no branch"
        if not contains and state.branch != owner.branch:
            raise WorktreeError(f"the session switched from {owner.branch} to {what}, which does not contain it.")
        if contains and self._has_commits_of_others(owner, state.head):
            raise WorktreeError(f"the session switched from {owner.branch} to {what}, which has commits of others.")
        branch = full_ref(owner.branch)
        if contains:
            repository.run_git_checked(self._top, "update-ref", "-m", "ralph: moved on", branch, state.head, owner.head)
            note = f"The session switched to {what}; its commits are on {owner.branch}."
        else:
            saved = f"{REWRITTEN_REFS}/{state.head[:12]}"
            repository.run_git_checked(self._top, "update-ref", saved, state.head)
            moved_back = ("update-ref", "-m", "ralph: moved back", branch, owner.head, state.head)
            repository.run_git_checked(self._top, *moved_back)
            note = f"The session rewrote commits of {owner.branch}, which are back. Its own are in {saved}."
        if state.branch != owner.branch:
            repository.run_git_checked(self._top, "symbolic-ref", "-m", "ralph: moved back", "HEAD", branch)
        return (note,)

    def _set_aside(self, owner: WorkOwner) -> bool:
        """Take unfinished work, which is saved, out of the tree; return False if others have moved HEAD since."""
        state = self._status()
        if self._is_moved_by_others(owner, state):
            return False
        tree, before = self._write_tree(owner.foreign, state)[0], owner.head or EMPTY_TREE
        if not tree or not self._tree_of(owner.checkpoint):
            return False
        others = {path for _, path in self._tree.changed_paths(owner.checkpoint, tree)}
        changes = [change for change in self._tree.changed_paths(before, tree) if change[1] not in others]
        # A file from before that a session has added was ignored.
        own = [one for one in changes if one[0] != "A" or is_written_since(self._top / one[1], owner.started_ns)]
        self._tree.restore(before, own)
        self._restore_head(owner, state)
        self._tree.reset_index([path for _, path in changes])
        quit_operations(self._repository, owner.started_ns)
        self._owner_file.write(None)
        self.forget_status()
        return True

    def _restore_head(self, owner: WorkOwner, state: WorktreeStatus) -> None:
        """Move HEAD to where it was before the work; commits that the checkpoint does not contain are saved."""
        repository, why = self._repository, ("-m", "ralph: set aside")
        at = state.head
        if state.branch != owner.branch:
            repository.run_git_checked(self._top, "symbolic-ref", *why, "HEAD", full_ref(owner.branch))
            at = repository.try_git(self._top, "rev-parse", "-q", "--verify", "HEAD").stdout.strip()
        if at == owner.head:
            return
        if at and not repository.is_ancestor(self._top, at, owner.checkpoint):
            repository.run_git_checked(self._top, "update-ref", f"{REWRITTEN_REFS}/{at[:12]}", at)
        target = ("HEAD", owner.head, *([at] if at else [])) if owner.head else ("-d", "HEAD", at)
        repository.run_git_checked(self._top, "update-ref", *why, *target)


def is_by_ralph(what: str) -> bool:
    """Return whether an entry of git's log was made by Ralph, a session or a gate."""
    return what.startswith("ralph")


def _paths(state: WorktreeStatus) -> tuple[str, ...]:
    return tuple(map(_without_slash, (*state.changed, *(path for path, _ in state.unmerged))))


def _without_slash(path: str) -> str:
    """Return a path as trees have it: git's status marks a nested repository by a slash."""
    return path.removesuffix("/")


def _parents(head: str) -> tuple[str, ...]:
    return (head,) if head else ()
