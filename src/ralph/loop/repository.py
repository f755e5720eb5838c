"""A repository in which several work at once: what its branches and trees are like, and whose turn it is.

Every call is bounded in time, starts nothing that goes on by itself, and asks nobody.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import contextmanager
from pathlib import Path

from ralph.errors import WorktreeError
from ralph.git import run_git
from ralph.loop import checkouts
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralph.git import Ran

OLDEST_GIT = (2, 23)
GIT_SECONDS = 300.0
LOCK_SECONDS = 4 * 3600.0
"""Others may run their gates over what they merge, one after the other."""
LOCK_POLL_SECONDS = 0.005
BUSY_SECONDS = 5.0
"""So long another git command in the same tree is waited for."""
BUSY_POLL_SECONDS = 0.02
TRIES = 5
LONGEST_WORDS = 500
NOBODY = (("user.name", "Ralph"), ("user.email", "ralph@localhost"))
"""Who commits where git knows nobody."""

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
    """A branch as it is now."""

    commit: str
    tree: str
    top: str
    """Where it is checked out; empty when nowhere."""


@record
class State:
    """What git says of a tree."""

    head: str
    """The commit; empty when there is none yet."""
    branch: str
    """Empty when none is checked out."""
    changed: tuple[str, ...]
    unmerged: tuple[tuple[str, str], ...]
    """Paths with the kind of conflict, in git's letters."""


class StopRequestedError(WorktreeError):
    """Somebody wanted to stop while we waited for our turn."""


class Repository:
    """One repository, seen from one of its trees; threads may share it."""

    def __init__(self, *, top: Path, prefix: str, own: Path, common: Path, version: tuple[int, ...]) -> None:
        """Use `at`."""
        self.top = top
        self.prefix = prefix
        """The way from the top to the project, with a slash at its end if there is one."""
        self.own = own
        """What git keeps of this tree."""
        self.common = common
        """What git keeps of the repository."""
        self.version = version
        self._identity = _missing_identity(top)

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Give the repository a directory is in; refuses when there is none to work with."""
        version = _version(root)
        ran = run_git(root, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
        if not ran.ok:
            if "not a git repository" in ran.error:
                raise WorktreeError("--parallel needs a git repository: git init, and commit once.")
            raise WorktreeError(f"--parallel needs git, and it does not work in {root}: {words(ran)}")
        top, own, common, prefix = (*ran.out.split("\n"), "")[:4]
        real = Path(os.path.realpath(root / common))
        return cls(top=Path(top), prefix=prefix, own=Path(own), common=real, version=version)

    # --- ask and tell ------------------------------------------------------------------

    def attempt(self, directory: Path, *arguments: str, **environment: str) -> Ran:
        """Let git do something and give what it says, also when it would not."""
        for again in range(TRIES):
            ran = run_git(
                directory, *_OPTIONS, *self._identity, *arguments, seconds=GIT_SECONDS, environment=environment
            )
            # Git gives up, before it does anything, when it looks at a worktree that is just being made or removed.
            if ran.ok or not ("commondir" in ran.error or ("Invalid path" in ran.error and "/worktrees/" in ran.error)):
                break
            time.sleep(0.01 * 2**again)
        return ran

    def git(self, directory: Path, *arguments: str) -> str:
        """Give what git answers; refuses with its words when it does not do what it is asked."""
        ran = self.attempt(directory, *arguments)
        if not ran.ok:
            raise WorktreeError(f"git failed in {directory}: {words(ran)}")
        return ran.out.rstrip("\n")

    def when_free(self, directory: Path, *arguments: str, **environment: str) -> Ran:
        """Let git do something, again when another command was at work in the same tree."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            ran = self.attempt(directory, *arguments, **environment)
            if ran.ok or "index.lock" not in ran.error or time.monotonic() > deadline:
                return ran
            time.sleep(BUSY_POLL_SECONDS)

    def branches(self, *names: str, merged_into: str = "") -> dict[str, Ref]:
        """Give those branches that are there, of the names or folders."""
        merged = [f"--merged={ref(merged_into)}"] if merged_into else []
        ran = self.attempt(self.top, "for-each-ref", f"--format={_REF}", *merged, *map(ref, names))
        if not ran.ok:
            raise WorktreeError(f"git cannot say which branches there are: {words(ran)}")
        lines = (line.split("\0") for line in ran.out.split("\n") if line)
        return {name.removeprefix(ref("")): Ref(commit=commit, tree=tree, top=top) for name, commit, tree, top in lines}

    def state(self, top: Path, *options: str) -> State:
        """Give what is in a tree and not committed, and what it has checked out."""
        ran = self.when_free(top, *_STATUS, *options)
        if not ran.ok:
            raise WorktreeError(f"git cannot say what has changed in {top}: {words(ran)}")
        return _read_state(ran.out)

    def has(self, top: Path, commit: str) -> bool:
        """Say whether what is checked out in a tree goes on from a commit."""
        return self.attempt(top, "merge-base", "--is-ancestor", commit, "HEAD").ok

    def shown(self, path: str) -> str:
        """Give a path as seen from the project's directory."""
        if path.startswith(self.prefix):
            return path.removeprefix(self.prefix)
        return os.path.relpath(path, self.prefix)

    # --- turns -------------------------------------------------------------------------

    @contextmanager
    def alone(self, should_stop: Callable[[], bool] = lambda: False, name: str = "merge.lock") -> Iterator[None]:
        """Be the only one who merges here, or does what a lock is named for, among all threads and processes."""
        path = self.common / checkouts.ROOM / name
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise WorktreeError(f"{path} cannot be written: {error.strerror}.") from error
        deadline = time.monotonic() + LOCK_SECONDS
        try:
            while not _is_locked_by_us(handle):
                if should_stop():
                    raise StopRequestedError("It was stopped before the work was merged.")
                if time.monotonic() > deadline:
                    raise WorktreeError(f"Somebody else has been at it for {LOCK_SECONDS:.0f} s: {path} is locked.")
                time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(handle)


def ref(branch: str) -> str:
    """Give the full name of a branch."""
    return f"refs/heads/{branch}"


def unfinished(folder: Path) -> str:
    """Give what somebody has begun in a tree and not ended, by what git keeps of it; empty when nothing."""
    return next((name for file, name in _UNFINISHED.items() if (folder / file).exists()), "")


def without_locks(folder: Path) -> None:
    """Take away the locks of commands that were killed with their agent."""
    deadline = time.monotonic() + BUSY_SECONDS
    locks = [folder / "index.lock", folder / "HEAD.lock"]
    while any(lock.exists() for lock in locks) and time.monotonic() < deadline:
        time.sleep(BUSY_POLL_SECONDS)
    for lock in locks:
        lock.unlink(missing_ok=True)


def words(ran: Ran) -> str:
    """Give what git said went wrong, in one line."""
    said = " ".join((ran.error.strip() or ran.out.strip() or f"it ended with {ran.code}").split())
    return said if len(said) <= LONGEST_WORDS else f"{said[:LONGEST_WORDS]}…"


def _version(root: Path) -> tuple[int, ...]:
    """Give the version of git; refuses when there is none, or an old one."""
    ran = run_git(root, "version")
    if not ran.ok:
        raise WorktreeError(f"--parallel needs git: {words(ran)}")
    version = tuple(int(part) for part in re.findall(r"\d+", ran.out)[:2])
    if version < OLDEST_GIT:
        oldest, found = (".".join(map(str, one)) for one in (OLDEST_GIT, version))
        raise WorktreeError(f"--parallel needs git {oldest} or newer; this is {found}.")
    return version


def _missing_identity(top: Path) -> tuple[str, ...]:
    """Give options for git that say who commits, as far as it does not know."""
    ran = run_git(top, "config", "-z", "--get-regexp", r"^user\.(name|email)$")
    known = {name for name, _, value in (entry.partition("\n") for entry in ran.out.split("\0")) if value}
    if os.environ.get("EMAIL"):
        known.add("user.email")
    return tuple(part for name, value in NOBODY if name not in known for part in ("-c", f"{name}={value}"))


def _read_state(status: str) -> State:
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


def _is_locked_by_us(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
