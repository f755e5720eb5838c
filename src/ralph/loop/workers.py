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

    from ralph.store import Store

BEATS_PER_LEASE = 3


def worker_name() -> str:
    """Give this process a name that no other one has or will have: `host/pid/start`."""
    return f"{_host()}/{os.getpid()}/{_start_of(os.getpid())}"


def vanished(workers: Iterable[str]) -> set[str]:
    """Give those of the workers that ran on this machine and are certainly gone."""
    return {name for name in workers if _is_gone(name)}


def _is_gone(name: str) -> bool:
    host, _, rest = name.rpartition("/")[0].rpartition("/")
    start = name.rpartition("/")[2]
    if host != _host() or not rest.isdigit():
        return False
    return _start_of(int(rest)) != start


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
