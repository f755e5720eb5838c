"""Git repository shared by several workers: branches, working trees and locks.

Every call has a timeout, starts no background process and never prompts.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import contextmanager
from pathlib import Path

from ralph.core.errors import WorktreeError
from ralph.core.git import run_git
from ralph.core.records import record
from ralph.loop.git import worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralph.core.git import Ran

OLDEST_GIT = (2, 23)
"""Minimum supported version of git."""
GIT_SECONDS = 300.0
"""Timeout of one git command, in seconds."""
LOCK_SECONDS = 4 * 3600.0
"""Timeout for the merge lock, in seconds; long, because others run their gates while they hold it."""
LOCK_POLL_SECONDS = 0.005
"""Poll interval for the merge lock, in seconds."""
BUSY_SECONDS = 5.0
"""Time to wait for another git command in the same tree, in seconds."""
BUSY_POLL_SECONDS = 0.02
"""Poll interval while another git command holds a lock, in seconds."""
TRIES = 5
"""Number of attempts to run a git command that met a half-made worktree."""
LONGEST_WORDS = 500
"""Maximum length of a quoted git error, in characters."""
NOBODY = (("user.name", "Ralph"), ("user.email", "ralph@localhost"))
"""Identity for commits where none is configured."""

_OPTIONS = (
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "merge.autoStash=false"),
    *("-c", "core.filesRefLockTimeout=5000", "-c", "core.packedRefsTimeout=5000", "-c", "i18n.commitEncoding=UTF-8"),
)
_STATUS = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z", "--no-renames")
_REF = "%(refname)%00%(objectname)%00%(tree)%00%(worktreepath)"
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


@record
class Ref:
    """Current state of a branch."""

    commit: str
    tree: str
    top: str
    """Worktree in which it is checked out; empty if none."""


@record
class State:
    """Status of a working tree."""

    head: str
    """Commit that is checked out; empty if there is none yet."""
    branch: str
    """Empty when HEAD is detached."""
    changed: tuple[str, ...]
    unmerged: tuple[tuple[str, str], ...]
    """Paths with git's two-letter code of the conflict."""


class StopRequestedError(WorktreeError):
    """The run was stopped while waiting for a lock."""


class Repository:
    """Git repository, seen from one of its worktrees; safe to share between threads."""

    def __init__(self, *, top: Path, prefix: str, own: Path, common: Path, version: tuple[int, ...]) -> None:
        """Use `at` instead."""
        self.top = top
        self.prefix = prefix
        """Path from the top to the project, empty or with a trailing slash."""
        self.own = own
        """Git directory of this worktree."""
        self.common = common
        """Common git directory of the repository."""
        self.version = version
        self._identity = _missing_identity(top)

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Return the repository that contains a directory; raise WorktreeError if it cannot be used."""
        version = _git_version(root)
        ran = run_git(root, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
        if not ran.ok:
            if "not a git repository" in ran.error:
                raise WorktreeError(
                    "--parallel needs a git repository. Run git init and make a first commit.", code="no-repository"
                )
            raise WorktreeError(f"--parallel needs git, which failed in {root}: {words(ran)}")
        top, own, common, prefix = (*ran.out.split("\n"), "")[:4]
        real = Path(os.path.realpath(root / common))
        return cls(top=Path(top), prefix=prefix, own=Path(own), common=real, version=version)

    # --- commands and queries ----------------------------------------------------------

    def attempt(self, directory: Path, *arguments: str, **environment: str) -> Ran:
        """Run a git command and return its result, failed or not."""
        for retry in range(TRIES):
            ran = run_git(
                directory, *_OPTIONS, *self._identity, *arguments, seconds=GIT_SECONDS, environment=environment
            )
            # Git fails, before it changes anything, when it meets a worktree that is being created or removed.
            if ran.ok or not ("commondir" in ran.error or ("Invalid path" in ran.error and "/worktrees/" in ran.error)):
                break
            time.sleep(0.01 * 2**retry)
        return ran

    def git(self, directory: Path, *arguments: str) -> str:
        """Run a git command and return its output; raise WorktreeError if it fails."""
        ran = self.attempt(directory, *arguments)
        if not ran.ok:
            raise WorktreeError(f"git failed in {directory}: {words(ran)}")
        return ran.out.rstrip("\n")

    def when_free(self, directory: Path, *arguments: str, **environment: str) -> Ran:
        """Run a git command, retrying while another one holds the lock of the same tree."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            ran = self.attempt(directory, *arguments, **environment)
            if ran.ok or "index.lock" not in ran.error or time.monotonic() > deadline:
                return ran
            time.sleep(BUSY_POLL_SECONDS)

    def branches(self, *names: str, merged_into: str = "") -> dict[str, Ref]:
        """Return the existing branches among the given names or prefixes."""
        merged = [f"--merged={ref(merged_into)}"] if merged_into else []
        ran = self.attempt(self.top, "for-each-ref", f"--format={_REF}", *merged, *map(ref, names))
        if not ran.ok:
            raise WorktreeError(f"git could not list the branches: {words(ran)}")
        lines = (line.split("\0") for line in ran.out.split("\n") if line)
        return {name.removeprefix(ref("")): Ref(commit=commit, tree=tree, top=top) for name, commit, tree, top in lines}

    def state(self, top: Path, *options: str) -> State:
        """Return the status of a working tree."""
        ran = self.when_free(top, *_STATUS, *options)
        if not ran.ok:
            raise WorktreeError(f"git could not list the changes in {top}: {words(ran)}")
        return _parse_status(ran.out)

    def has(self, top: Path, commit: str) -> bool:
        """Return whether a commit is an ancestor of what is checked out in a tree."""
        return self.attempt(top, "merge-base", "--is-ancestor", commit, "HEAD").ok

    def shown(self, path: str) -> str:
        """Return a path relative to the project's directory."""
        if path.startswith(self.prefix):
            return path.removeprefix(self.prefix)
        return os.path.relpath(path, self.prefix)

    # --- locks -------------------------------------------------------------------------

    @contextmanager
    def alone(self, should_stop: Callable[[], bool] = lambda: False, name: str = "merge.lock") -> Iterator[None]:
        """Hold a lock of the repository, across threads and processes."""
        path = self.common / worktrees.ROOM / name
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise WorktreeError(f"Could not write {path}: {error.strerror}.") from error
        deadline = time.monotonic() + LOCK_SECONDS
        try:
            while not _try_lock(handle):
                if should_stop():
                    raise StopRequestedError("The run was stopped before the work was merged.")
                if time.monotonic() > deadline:
                    raise WorktreeError(f"{path} has been locked by another process for {LOCK_SECONDS:.0f} s.")
                time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(handle)


def ref(branch: str) -> str:
    """Return the full ref name of a branch."""
    return f"refs/heads/{branch}"


def unfinished(folder: Path) -> str:
    """Return the operation in progress (merge, rebase, ...) in a git directory, or an empty string."""
    return next((name for file, name in _UNFINISHED.items() if (folder / file).exists()), "")


def without_locks(folder: Path) -> None:
    """Remove locks left by git commands that were killed with their agent."""
    deadline = time.monotonic() + BUSY_SECONDS
    locks = [folder / "index.lock", folder / "HEAD.lock"]
    while any(lock.exists() for lock in locks) and time.monotonic() < deadline:
        time.sleep(BUSY_POLL_SECONDS)
    for lock in locks:
        lock.unlink(missing_ok=True)


def words(ran: Ran) -> str:
    """Return the error message of a git command in one line."""
    message = " ".join((ran.error.strip() or ran.out.strip() or f"exit code {ran.code}").split())
    return message if len(message) <= LONGEST_WORDS else f"{message[:LONGEST_WORDS]}…"


def _git_version(root: Path) -> tuple[int, ...]:
    """Return the version of git; raise WorktreeError if it is missing or too old."""
    ran = run_git(root, "version")
    if not ran.ok:
        raise WorktreeError(f"--parallel needs git: {words(ran)}")
    version = tuple(int(part) for part in re.findall(r"\d+", ran.out)[:2])
    if version < OLDEST_GIT:
        oldest, found = (".".join(map(str, one)) for one in (OLDEST_GIT, version))
        raise WorktreeError(
            f"--parallel needs git {oldest} or newer; this is {found}. Upgrade git.", code="git-too-old"
        )
    return version


def _missing_identity(top: Path) -> tuple[str, ...]:
    """Return git options for the parts of the committer identity that are not configured."""
    ran = run_git(top, "config", "-z", "--get-regexp", r"^user\.(name|email)$")
    known = {name for name, _, value in (entry.partition("\n") for entry in ran.out.split("\0")) if value}
    if os.environ.get("EMAIL"):
        known.add("user.email")
    return tuple(part for name, value in NOBODY if name not in known for part in ("-c", f"{name}={value}"))


def _parse_status(status: str) -> State:
    head = branch = ""
    changed, unmerged = [], []
    for field in status.split("\0"):
        if field.startswith("# branch.oid "):
            head = field.removeprefix("# branch.oid ").replace("(initial)", "")
        elif field.startswith("# branch.head "):
            branch = field.removeprefix("# branch.head ").replace("(detached)", "")
        elif field.startswith("1 "):
            changed.append(field.split(" ", 8)[8])
        elif field.startswith("? "):
            changed.append(field[2:])
        elif field.startswith("u "):
            unmerged.append((field.split(" ", 10)[10], field[2:4]))
    return State(head=head, branch=branch, changed=tuple(changed), unmerged=tuple(unmerged))


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
