"""Who works on a task: the name of this worker, its sign of life, and which others are gone."""

from __future__ import annotations

import os
import socket
import sys
import threading

from ralph.errors import RalphError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import IO

    from ralph.store import Store

BEATS_PER_LEASE = 3
LOCK_NAME = ".ralph/ralph.db-run.lock"
"""Git leaves alone what begins like this in a project."""


def worker_name(number: int = 0) -> str:
    """Give a worker of this process a name that no other one has or will have: `host/pid/start`, `+number`."""
    return f"{_host()}/{os.getpid()}/{_start_of(os.getpid())}" + (f"+{number}" if number else "")


def vanished(workers: Iterable[str]) -> set[str]:
    """Give those of the workers that ran on this machine and are certainly gone."""
    return {name for name in workers if _is_gone(name)}


def is_at_work(name: str) -> bool:
    """Say whether a worker is certainly there: on this machine, in another process than this one."""
    host, pid, start = _parts(name)
    is_other = host == _host() and pid.isdigit() and int(pid) != os.getpid()
    return is_other and bool(start) and _start_of(int(pid)) == start


def _is_gone(name: str) -> bool:
    host, pid, start = _parts(name)
    if host != _host() or not pid.isdigit():
        return False
    return _start_of(int(pid)) != start


def _parts(name: str) -> tuple[str, str, str]:
    """Give host, process and start of a worker."""
    host, _, pid = name.rpartition("/")[0].rpartition("/")
    return host, pid, name.rpartition("/")[2].partition("+")[0]


def _host() -> str:
    """Give the machine's name with what makes process ids unique on it: the boot, and a container's own space."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            boot = file.read(8)
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}:{boot}:{space}"


def _start_of(pid: int) -> str:
    """Give the moment a process started, as text; empty when there is none or it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        # In clock ticks since the boot, so that setting the clock changes nothing.
        return "" if fields[0] == b"Z" else fields[19].decode()
    except OSError:
        return "" if sys.platform == "linux" else _start_by_psutil(pid)


def _start_by_psutil(pid: int) -> str:
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.0f}"
    except psutil.Error:
        return ""


class Heartbeat:
    """Keeps the claim on the current task alive while the block runs, from a thread of its own."""

    def __init__(self, open_store: Callable[[], Store], lease_seconds: float) -> None:
        self._open_store = open_store
        self._lease_seconds = lease_seconds
        self._claim: tuple[str, int] | None = None
        self._lost: tuple[str, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def keep(self, task_id: str, token: int) -> None:
        """Keep this claim alive from now on, instead of the one before."""
        self._claim = (task_id, token)

    def rest(self) -> None:
        """Keep nothing alive: the claim is settled."""
        self._claim = None

    @property
    def lost(self) -> bool:
        """Say whether somebody else took the current task over."""
        return self._claim is not None and self._lost == self._claim

    def _beat(self) -> None:
        store: Store | None = None
        while not self._ended.wait(self._lease_seconds / BEATS_PER_LEASE):
            claim = self._claim
            if claim is None:
                continue
            try:
                store = store or self._open_store()
                if not store.tasks.heartbeat(*claim, self._lease_seconds):
                    self._lost = claim
                store.rest()  # until the next beat
            except RalphError:
                continue  # the database is in trouble; the lease leaves time for two more beats
        if store:
            store.close()


class OnlyRun:
    """Says whether no other run works in a directory, as long as the block runs."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        self._file: IO[str] | None = None
        self.is_alone = True

    def __enter__(self) -> OnlyRun:
        try:
            import fcntl

            self._file = self._path.open("a", encoding="utf-8")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.is_alone = False
        except (ImportError, OSError):  # where there are no locks nobody can tell
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def is_run_at_work(directory: Path) -> bool:
    """Say whether a run works in a directory, without touching anything; False where nobody can tell."""
    try:
        import fcntl

        file = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (ImportError, OSError):
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
