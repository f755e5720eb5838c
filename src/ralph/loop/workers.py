"""Worker identity, heartbeats and detection of dead workers."""

from __future__ import annotations

import os
import sys
import threading

from ralph.core.errors import RalphError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import IO

    from ralph.store import Store

HEARTBEATS_PER_LEASE = 3
"""Number of heartbeats within one lease."""
RUN_LOCK_PATH = ".ralph/ralph.db-run.lock"
"""Path of the run lock; matches a pattern in the .gitignore that Ralph writes."""


def worker_name(number: int = 0, *, pid: int = 0) -> str:
    """Return a globally unique name for a worker of a process: `host/pid/start`, then `+number` if not 0.

    By default it is one of this process.
    """
    pid = pid or os.getpid()
    return f"{_host()}/{pid}/{_start_time(pid)}" + (f"+{number}" if number else "")


def dead_workers(workers: Iterable[str]) -> set[str]:
    """Return the workers that ran on this machine and are certainly dead."""
    return {name for name in workers if _is_dead(name)}


def is_worker_alive(name: str) -> bool:
    """Return whether a worker is certainly alive on this machine, in a process other than this one."""
    host, pid, start = _split_name(name)
    is_other = host == _host() and pid.isdigit() and int(pid) != os.getpid()
    return is_other and bool(start) and _start_time(int(pid)) == start


def release_dead_claims(store: Store) -> list[str]:
    """Release the claims of workers that were killed, close their attempts, and return the ids of their tasks.

    Nothing is written if there are none.
    """
    dead = dead_workers({task.claimed_by for task in store.tasks.claims.claimed() if task.claimed_by})
    released = store.attempts.release_vanished(dead) if dead else []
    store.tasks.claims.release_expired()  # of workers on other machines, or from before a reboot
    store.attempts.close_vanished()
    return released


def is_loop_at_work(store: Store) -> bool:
    """Return whether a run has claimed a task; claims of agents outside the loop do not count."""
    from ralph.store.stats import OUTSIDE_AGENT

    claimed = {task.id for task in store.tasks.claims.claimed()}
    outside = {one.task_id for one in store.attempts.running() if one.agent == OUTSIDE_AGENT} if claimed else set()
    return bool(claimed - outside)


def _is_dead(name: str) -> bool:
    host, pid, start = _split_name(name)
    if host != _host() or not pid.isdigit():
        return False
    return _start_time(int(pid)) != start


def _split_name(name: str) -> tuple[str, str, str]:
    """Split a worker name into host, process id and start time."""
    host, _, pid = name.rpartition("/")[0].rpartition("/")
    return host, pid, name.rpartition("/")[2].partition("+")[0]


def _host() -> str:
    """Return the host name with boot id and PID namespace, within which process ids are unique."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            boot_id = file.read(8)
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115
    except OSError:
        return os.uname().nodename
    return f"{os.uname().nodename}:{boot_id}:{namespace}"


def _start_time(pid: int) -> str:
    """Return the start time of a process as text, or an empty string if it is not running."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        # In clock ticks since boot, so that setting the clock does not matter.
        return "" if fields[0] == b"Z" else fields[19].decode()
    except OSError:
        return "" if sys.platform == "linux" else _psutil_start_time(pid)


def _psutil_start_time(pid: int) -> str:
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.0f}"
    except psutil.Error:
        return ""


class Heartbeat:
    """Background thread that renews the claim on the current task."""

    def __init__(self, open_store: Callable[[], Store], lease_seconds: float) -> None:
        self._open_store = open_store
        self._lease_seconds = lease_seconds
        self._claim: tuple[str, int] | None = None
        self._lost: tuple[str, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_periodically, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def watch_claim(self, task_id: str, token: int) -> None:
        """Renew this claim from now on, instead of the previous one."""
        self._claim = (task_id, token)

    def release_claim(self) -> None:
        """Stop renewing: the claim is settled."""
        self._claim = None

    @property
    def has_lost_claim(self) -> bool:
        """Whether another worker has taken over the current task."""
        return self._claim is not None and self._lost == self._claim

    def _renew_periodically(self) -> None:
        store: Store | None = None
        while not self._ended.wait(self._lease_seconds / HEARTBEATS_PER_LEASE):
            claim = self._claim
            if claim is None:
                continue
            try:
                store = store or self._open_store()
                if not store.tasks.claims.heartbeat(*claim, self._lease_seconds):
                    self._lost = claim
                store.database.release_connection()  # until the next beat
            except RalphError:
                continue  # database error: the lease leaves time for two more heartbeats
        if store:
            store.close()


class RunLock:
    """Lock that tells whether another run uses the same directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / RUN_LOCK_PATH
        self._file: IO[str] | None = None
        self.is_acquired = True

    def __enter__(self) -> RunLock:
        import fcntl

        try:
            self._file = self._path.open("a", encoding="utf-8")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.is_acquired = False
        except OSError:  # no file locks here: assume to be alone
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def is_run_active(directory: Path) -> bool:
    """Return whether a run is active in a directory; False where that cannot be determined. Writes nothing."""
    import fcntl

    try:
        file = os.open(directory / RUN_LOCK_PATH, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
