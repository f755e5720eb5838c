"""Git repository shared by several workers: branches, working trees and locks.

Every call has a timeout, starts no background process and never prompts.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from ralph.core.errors import WorktreeError
from ralph.core.git import MAX_GIT_ERROR_LENGTH, run_git
from ralph.core.records import record, replace
from ralph.loop.git import worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ralph.core.git import GitResult

MIN_GIT_VERSION = (2, 38)
"""Minimum version of git: the first that can merge without a working tree."""
GIT_TIMEOUT_SECONDS = 300.0
"""Timeout of one git command, in seconds."""
LOCK_TIMEOUT_SECONDS = 4 * 3600.0
"""Timeout for the merge lock, in seconds; long, because others run their gates while they hold it."""
LOCK_POLL_SECONDS = 0.005
"""Poll interval for the merge lock, in seconds."""
INDEX_LOCK_TIMEOUT_SECONDS = 5.0
"""Time to wait for another git command in the same repository, in seconds."""
INDEX_LOCK_POLL_SECONDS = 0.02
"""Poll interval while another git command holds a lock, in seconds."""
DEFAULT_IDENTITY = (("user.name", "Ralph"), ("user.email", "ralph@localhost"))
"""Identity for commits where none is configured."""

_OPTIONS = (
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "merge.autoStash=false"),
    *("-c", "core.filesRefLockTimeout=5000", "-c", "core.packedRefsTimeout=5000", "-c", "i18n.commitEncoding=UTF-8"),
)
# Git would run the programs that a nested repository configures to find out whether it has changes.
STATUS_OPTIONS = ("--porcelain=v2", "--branch", "-z", "--no-renames", "--ignore-submodules=dirty")
"""Options of `git status` for output that `parse_status` reads."""
_REF = "%(refname)%00%(objectname)%00%(tree)%00%(worktreepath)"
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


@record
class BranchRef:
    """Current state of a branch."""

    commit: str
    tree: str
    worktree: str
    """Worktree in which it is checked out; empty if none."""


@record
class WorktreeStatus:
    """Status of a working tree."""

    head: str
    """Commit that is checked out; empty if there is none yet."""
    branch: str
    """Empty when HEAD is detached."""
    changed: tuple[str, ...]
    unmerged: tuple[tuple[str, str], ...]
    """Paths with git's two-letter code of the conflict."""
    added: tuple[str, ...] = ()
    """Those of the changed files that the commit does not have, staged or not."""
    untracked: tuple[str, ...] = ()
    """Those of them that are not staged either."""
    ignored: tuple[str, ...] = ()
    """Ignored files and directories, the latter with a trailing slash, if they were asked for."""

    def after_commit(self, head: str, files: Collection[str]) -> WorktreeStatus:
        """Return the status once some of the changed files are committed as they are."""
        committed = frozenset(files)
        return replace(
            self,
            head=head,
            changed=tuple(path for path in self.changed if path not in committed),
            unmerged=tuple(one for one in self.unmerged if one[0] not in committed),
            added=tuple(path for path in self.added if path not in committed),
            untracked=tuple(path for path in self.untracked if path not in committed),
        )


class StopRequestedError(WorktreeError):
    """The run was stopped while waiting for a lock."""


class Repository:
    """Git repository, seen from one of its worktrees; safe to share between threads."""

    def __init__(self, *, top: Path, prefix: str, git_directory: Path, common_git_directory: Path) -> None:
        """Use `open` instead."""
        self.top = top
        self.prefix = prefix
        """Path from the top to the project, empty or with a trailing slash."""
        self.git_directory = git_directory
        """Git directory of this worktree."""
        self.common_git_directory = common_git_directory
        """Common git directory of the repository."""
        self._identity = _missing_identity(top)
        self._held = threading.local()
        self._last_tree = "", ""
        """Commit that was last looked at, and its tree."""
        # Where a session has deleted the repository, git would take the one around it.
        self._environment = {"GIT_CEILING_DIRECTORIES": str(top.parent)}

    @property
    def lacks_identity(self) -> bool:
        """Whether git knows no name or address to commit with, so that Ralph's own is used."""
        return bool(self._identity)

    @classmethod
    def open(cls, root: Path, purpose: str = "--parallel") -> Repository:
        """Return the repository that contains a directory; raise WorktreeError if it cannot be used.

        `purpose` is what needs it, for the message of the error.
        """
        _check_git_version(root, purpose)
        ran = run_git(root, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
        if not ran.ok:
            if "not a git repository" in ran.stderr:
                raise WorktreeError(
                    f"{purpose} needs a git repository. Run git init and make a first commit.", code="no-repository"
                )
            raise WorktreeError(f"{purpose} needs git, which failed in {root}: {git_error(ran)}")
        top, own, common, prefix = (*ran.stdout.split("\n"), "")[:4]
        real = Path(os.path.realpath(root / common))
        return cls(top=Path(top), prefix=prefix, git_directory=Path(own), common_git_directory=real)

    # --- commands and queries ----------------------------------------------------------

    def try_git(self, directory: Path, *arguments: str, errors: str = "replace", **environment: str) -> GitResult:
        """Run a git command and return its result, failed or not; see `run_git` for `errors`.

        It waits for other commands in the same repository, such as one whose run was killed.
        """
        deadline = time.monotonic() + INDEX_LOCK_TIMEOUT_SECONDS
        while True:
            ran = run_git(
                directory,
                *_OPTIONS,
                *self._identity,
                *arguments,
                timeout_seconds=GIT_TIMEOUT_SECONDS,
                environment={**self._environment, **environment},
                errors=errors,
                locks=self._locks(),
            )
            if ran.ok or not _met_another_command(ran.stderr) or time.monotonic() > deadline:
                return ran
            time.sleep(INDEX_LOCK_POLL_SECONDS)

    def run_git_checked(self, directory: Path, *arguments: str) -> str:
        """Run a git command and return its output; raise WorktreeError if it fails."""
        ran = self.try_git(directory, *arguments)
        if not ran.ok:
            raise WorktreeError(f"git failed in {directory}: {git_error(ran)}")
        return ran.stdout.rstrip("\n")

    def find_branches(self, *names: str, merged_into: str = "") -> dict[str, BranchRef]:
        """Return the existing branches among the given names or prefixes."""
        merged = [f"--merged={full_ref(merged_into)}"] if merged_into else []
        ran = self.try_git(self.top, "for-each-ref", f"--format={_REF}", *merged, *map(full_ref, names))
        if not ran.ok:
            raise WorktreeError(f"git could not list the branches: {git_error(ran)}")
        lines = (line.split("\0") for line in ran.stdout.split("\n") if line)
        return {
            name.removeprefix(full_ref("")): BranchRef(commit=commit, tree=tree, worktree=top)
            for name, commit, tree, top in lines
        }

    def status(self, top: Path, *options: str, errors: str = "replace") -> WorktreeStatus:
        """Return the status of a working tree; see `run_git` for `errors`."""
        command = ("--no-optional-locks", "status", *STATUS_OPTIONS, *options)
        ran = self.try_git(top, *command, errors=errors)
        if not ran.ok:
            raise WorktreeError(f"git could not list the changes in {top}: {git_error(ran)}")
        return parse_status(ran.stdout)

    def is_ancestor(self, top: Path, commit: str, descendant: str = "HEAD") -> bool:
        """Return whether a commit is an ancestor of another, by default of what is checked out in a tree."""
        return self.try_git(top, "merge-base", "--is-ancestor", commit, descendant).ok

    def read_head_log(self) -> list[tuple[str, str]]:
        """Return the commits that HEAD was moved to, oldest first, and what moved it."""
        return worktrees.read_log(self.git_directory)

    def relative_path(self, path: str) -> str:
        """Return a path relative to the project's directory."""
        if path.startswith(self.prefix):
            return path.removeprefix(self.prefix)
        return os.path.relpath(path, self.prefix)

    # --- locks -------------------------------------------------------------------------

    @contextmanager
    def lock(self, should_stop: Callable[[], bool] = lambda: False, name: str = "merge.lock") -> Iterator[None]:
        """Hold a lock of the repository, across threads and processes.

        The git commands of this thread hold it, too: they outlive a run that is killed.
        """
        path = self.common_git_directory / worktrees.ADMIN_DIRECTORY / name
        try:
            path.parent.mkdir(exist_ok=True)  # a session may have deleted it
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise WorktreeError(f"Could not write {path}: {error.strerror}.") from error
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        try:
            while not _try_lock(handle):
                if should_stop():
                    raise StopRequestedError("The run was stopped before the work was merged.")
                if time.monotonic() > deadline:
                    raise WorktreeError(f"{path} has been locked by another process for {LOCK_TIMEOUT_SECONDS:.0f} s.")
                time.sleep(LOCK_POLL_SECONDS)
            self._locks().append(handle)
            try:
                yield
            finally:
                self._locks().remove(handle)
        finally:
            os.close(handle)

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit; empty if it is not there."""
        last = self._last_tree
        if last[0] != commit:
            ran = self.try_git(self.top, "rev-parse", "-q", "--verify", f"{commit}^{{tree}}")
            self._last_tree = last = commit, ran.stdout.strip()
        return last[1]

    def merged_tree(self, one: str, other: str) -> str:
        """Return the tree that merging two commits gives; empty if they conflict."""
        ran = self.try_git(self.top, "merge-tree", "--write-tree", "--name-only", "-z", one, other)
        return ran.stdout.split("\0")[0].strip() if ran.ok else ""

    def _locks(self) -> list[int]:
        """Return the descriptors of the locks that this thread holds."""
        held: list[int] = self._held.__dict__.setdefault("locks", [])
        return held


def full_ref(branch: str) -> str:
    """Return the full ref name of a branch."""
    return f"refs/heads/{branch}"


def operation_in_progress(folder: Path) -> str:
    """Return the operation in progress (merge, rebase, ...) in a git directory, or an empty string."""
    return next((name for file, name in _UNFINISHED.items() if (folder / file).exists()), "")


def operation_problem(folder: Path) -> str:
    """Say that an operation in progress must end before work is committed; an empty string if there is none."""
    operation = operation_in_progress(folder)
    return f"a {operation} is in progress. Finish it before the next run." if operation else ""


def quit_operations(repository: Repository, started_ns: int) -> None:
    """Forget operations that began after a time, as a session leaves them; files and index stay as they are.

    A merge that stayed in progress would make the next commit of the person one of its conclusion.
    """
    for file, name in _UNFINISHED.items():
        path = repository.git_directory / file
        if path.exists() and path.lstat().st_ctime_ns >= started_ns:
            repository.try_git(repository.top, name, "--quit")


def remove_stale_locks(folder: Path) -> None:
    """Remove locks left by git commands that were killed with their agent."""
    deadline = time.monotonic() + INDEX_LOCK_TIMEOUT_SECONDS
    locks = [folder / "index.lock", folder / "HEAD.lock"]
    while any(lock.exists() for lock in locks) and time.monotonic() < deadline:
        time.sleep(INDEX_LOCK_POLL_SECONDS)
    for lock in locks:
        lock.unlink(missing_ok=True)


def _met_another_command(stderr: str) -> bool:
    """Return whether a command failed, before it changed anything, because of another one that was not finished."""
    is_half_made = "commondir" in stderr or ("Invalid path" in stderr and "/worktrees/" in stderr)
    return is_half_made or (".lock': File exists" in stderr)


def git_error(ran: GitResult) -> str:
    """Return the error message of a git command in one line."""
    message = " ".join((ran.stderr.strip() or ran.stdout.strip() or f"exit code {ran.exit_code}").split())
    return message if len(message) <= MAX_GIT_ERROR_LENGTH else f"{message[:MAX_GIT_ERROR_LENGTH]}…"


def _check_git_version(root: Path, purpose: str) -> None:
    """Raise WorktreeError if git is missing or too old."""
    ran = run_git(root, "version")
    if not ran.ok:
        raise WorktreeError(f"{purpose} needs git: {git_error(ran)}")
    version = tuple(int(part) for part in re.findall(r"\d+", ran.stdout)[:2])
    if version < MIN_GIT_VERSION:
        oldest, found = (".".join(map(str, one)) for one in (MIN_GIT_VERSION, version))
        raise WorktreeError(f"{purpose} needs git {oldest} or newer; this is {found}. Upgrade git.", code="git-too-old")


def _missing_identity(top: Path) -> tuple[str, ...]:
    """Return git options for the parts of the committer identity that are not configured."""
    ran = run_git(top, "config", "-z", "--get-regexp", r"^user\.(name|email)$")
    known = {name for name, _, value in (entry.partition("\n") for entry in ran.stdout.split("\0")) if value}
    if os.environ.get("EMAIL"):
        known.add("user.email")
    return tuple(part for name, value in DEFAULT_IDENTITY if name not in known for part in ("-c", f"{name}={value}"))


def parse_status(status: str) -> WorktreeStatus:
    """Parse the output of `git status --porcelain=v2 --branch -z --no-renames`."""
    head = branch = ""
    changed, unmerged, added, untracked, ignored = [], [], [], [], []
    for field in status.split("\0"):
        if field.startswith("# branch.oid "):
            head = field.removeprefix("# branch.oid ").replace("(initial)", "")
        elif field.startswith("# branch.head "):
            branch = field.removeprefix("# branch.head ").replace("(detached)", "")
        elif field.startswith("1 "):
            changed.append(field.split(" ", 8)[8])
            if "A" in field[2:4]:  # the second letter stands for `git add --intent-to-add`
                added.append(changed[-1])
        elif field.startswith("? "):
            changed.append(field[2:])
            added.append(field[2:])
            untracked.append(field[2:])
        elif field.startswith("! "):
            ignored.append(field[2:])
        elif field.startswith("u "):
            unmerged.append((field.split(" ", 10)[10], field[2:4]))
    return WorktreeStatus(
        head=head,
        branch=branch,
        changed=tuple(changed),
        unmerged=tuple(unmerged),
        added=tuple(added),
        untracked=tuple(untracked),
        ignored=tuple(ignored),
    )


def _try_lock(handle: int) -> bool:
    import fcntl  # does not exist on Windows

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
