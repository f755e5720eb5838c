"""Supervisor process that makes sure nothing a program starts outlives its session.

Run as `python -I -S guard.py ORDERS NEWS PATH ARG0 ARG...`, where ORDERS and NEWS are file descriptors of pipes. A
byte on ORDERS requests termination; end of file means that Ralph is gone, which terminates everything too. NEWS
receives the lines `failed ERRNO`, `exited CODE` and `left PID...`.

This starts before every agent and gate, so every import costs startup time: there is no pathlib, and no `signal`,
which alone takes half as long as starting Python.

"""

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import SIG_IGN, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, set_wakeup_fd, signal
else:
    try:
        from _signal import SIG_IGN, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, set_wakeup_fd, signal
    except ImportError:
        pass  # Windows, where agents cannot be supervised: docs/platforms.md

TERMINATE_SECONDS = 2.0
"""Time a program has to obey SIGTERM, in seconds."""
ORPHANED_TERMINATE_SECONDS = 0.5
"""The same when Ralph is no longer there to wait for it."""
KILL_SECONDS = 5.0
"""Time SIGKILL is repeated before a process counts as impossible to kill, in seconds."""
TAG_VARIABLE = "RALPH_SESSION"
GUARD_NAME = "ralph-guard"
"""Name of the guard in process lists, by which commands know that they run in a session (core/ancestry.py)."""
MARK_RESOURCE, MARK_LIMIT = 10, 1 << 40
"""RLIMIT_LOCKS and the limit for programs of a session (core/ancestry.py)."""
IS_LINUX = sys.platform == "linux"

_PR_SET_CHILD_SUBREAPER = 36


# --- finding processes -----------------------------------------------------------

ProcessInfo = tuple[int, int, int, int]
"""A process: its id, parent, group and session."""


def adopt_orphans(enabled: bool) -> None:
    """Make this process the parent of orphaned descendants instead of init, where supported."""
    if IS_LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


def mark_session() -> None:
    """Limit a resource that the kernel does not count, so that programs are known in any namespace."""
    if IS_LINUX:
        import resource

        try:
            resource.setrlimit(MARK_RESOURCE, (MARK_LIMIT, MARK_LIMIT))
        except (ValueError, OSError):
            pass  # marked by the session that this one runs in


def rename_process(name: str) -> str:
    """Set the name of this process in process lists, where supported; return the previous one."""
    if not IS_LINUX:
        return ""
    previous = _read("/proc/self/comm").decode(errors="replace").rstrip("\n")
    try:
        file = os.open("/proc/self/comm", os.O_WRONLY)
    except OSError:
        return previous
    try:
        os.write(file, name.encode())
    finally:
        os.close(file)
    return previous


def find_descendants(root: int) -> set[ProcessInfo]:
    """Return all descendants of a process."""
    processes = _all_processes()
    return _with_children({process for process in processes if process[1] == root}, processes)


def find_strays(tag: str, sessions: set[int]) -> set[ProcessInfo]:
    """Return processes that carry the tag or belong to one of the sessions, with their descendants."""
    processes = _all_processes()
    known = {process for process in processes if process[3] in sessions or _tag_of(process[0]) == tag}
    return {process for process in _with_children(known, processes) if process[0] != os.getpid()}


def find_adopted(since: int, exclude: set[int]) -> set[ProcessInfo]:
    """Return children of this process that started after `since`, with their descendants.

    This finds orphans of a killed guard even if they hide their origin.

    """
    processes = _all_processes()
    children = {process for process in processes if process[1] == os.getpid() and process[0] not in exclude}
    return _with_children({process for process in children if process_start_time(process[0]) > since}, processes)


def process_start_time(pid: int) -> int:
    """Return the start time of a process, in clock ticks since boot; 0 where unknown."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split() if IS_LINUX else []
    return int(fields[19]) if fields else 0


def current_tick() -> int:
    """Return the time in clock ticks since boot, in which the start of processes is given."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1 if IS_LINUX else 0


def memory_of(pid: int) -> int:
    """Return the memory that only this process uses, in bytes; what a fork shares with its parent counts for both."""
    if not IS_LINUX:
        return _memory_by_psutil(pid)
    pages = _read(f"/proc/{pid}/statm").split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def terminate(processes: set[ProcessInfo]) -> None:
    """Send SIGTERM to each process."""
    for pid, *_ in processes:
        _signal_process(os.kill, pid, SIGTERM)


def kill(processes: set[ProcessInfo]) -> None:
    """Kill the processes and their groups: a group dies at once, however fast its members fork."""
    for group in {group for _, _, group, _ in processes} - {0, os.getpgrp()}:
        _signal_process(os.killpg, group, SIGKILL)
    for pid, *_ in processes:
        _signal_process(os.kill, pid, SIGKILL)


def _signal_process(send: "Callable[[int, int], None]", target: int, number: int) -> None:
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        pass


def _with_children(roots: set[ProcessInfo], processes: list[ProcessInfo]) -> set[ProcessInfo]:
    children: dict[int, list[ProcessInfo]] = {}
    for process in processes:
        children.setdefault(process[1], []).append(process)
    found = set(roots)
    pending = list(roots)
    while pending:
        new = [child for child in children.get(pending.pop()[0], ()) if child not in found]
        found.update(new)
        pending += new
    return found


def _all_processes() -> list[ProcessInfo]:
    """Return all processes, newest first."""
    if not IS_LINUX:
        return _all_processes_by_psutil()
    found = []
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int, reverse=True):  # noqa: PTH208
        # The program name is in parentheses and may itself contain parentheses and spaces.
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if fields:
            found.append((int(name), int(fields[1]), int(fields[2]), int(fields[3])))
    return found


def _tag_of(pid: int) -> str | None:
    if not IS_LINUX:
        return _tag_by_psutil(pid)
    for variable in _read(f"/proc/{pid}/environ").split(b"\0"):
        if variable.startswith(TAG_VARIABLE.encode() + b"="):
            return variable.partition(b"=")[2].decode(errors="replace")
    return None


def _read(path: str) -> bytes:
    """Return the content of a file under /proc; empty if the process is gone or not ours."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(file)


def _all_processes_by_psutil() -> list[ProcessInfo]:
    _enable_site_packages()
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            found.append((process.pid, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid)))
        except (psutil.Error, OSError):
            pass
    return found


def _tag_by_psutil(pid: int) -> str | None:
    _enable_site_packages()
    import psutil

    try:
        return psutil.Process(pid).environ().get(TAG_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _memory_by_psutil(pid: int) -> int:
    _enable_site_packages()
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return 0


def _enable_site_packages() -> None:
    if "site" not in sys.modules:  # The guard process runs with -S.
        import site

        site.main()


# --- the guard -------------------------------------------------------------------


class ProcessGuard:
    """Starts one program and terminates all its descendants."""

    def __init__(self, orders: int, news: int) -> None:
        self._orders = orders
        self._news = news
        self._main = 0
        self._wakeup_fd, waker = os.pipe()
        for fd in (orders, news):
            os.set_inheritable(fd, False)
        os.set_blocking(waker, False)
        set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        # A `pkill python` by the agent must not end the guard.
        for number in (SIGHUP, SIGINT, SIGTERM):
            signal(number, SIG_IGN)

    def supervise(self, path: str, argv: list[str]) -> None:
        """Start the program and return when it and all its descendants have ended."""
        adopt_orphans(True)
        mark_session()
        try:
            self._main = os.posix_spawn(
                path,
                argv,
                os.environ,
                setpgroup=0,
                setsigmask=(),
                setsigdef=(SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ),
            )
        except OSError as error:
            self._report(f"failed {error.errno}")
            return
        self._release_stdio()

        grace_seconds = TERMINATE_SECONDS
        while self._reap():
            ready, _, _ = select.select([self._orders, self._wakeup_fd], [], [])
            if self._wakeup_fd in ready:
                os.read(self._wakeup_fd, 4096)
            if self._orders in ready:
                grace_seconds = TERMINATE_SECONDS if os.read(self._orders, 1) else ORPHANED_TERMINATE_SECONDS
                break
        self._terminate_all(grace_seconds)

    def _release_stdio(self) -> None:
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(devnull, fd)

    def _reap(self) -> bool:
        """Reap children that exited and return whether others remain."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main:
                    self._main = 0
                    self._report(f"exited {os.waitstatus_to_exitcode(status)}")
        except ChildProcessError:
            return False

    def _terminate_all(self, grace_seconds: float) -> None:
        if self._has_descendants():
            terminate(self._find_descendants())
        self._wait(grace_seconds)
        deadline = time.monotonic() + KILL_SECONDS
        while self._has_descendants():
            kill(self._find_descendants())
            if time.monotonic() > deadline:
                self._report("left " + " ".join(str(pid) for pid, *_ in sorted(self._find_descendants())[:20]))
                return
            self._wait(0.002)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._has_descendants() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _has_descendants(self) -> bool:
        # As the subreaper, we have no descendants once we have no children; other systems need a search.
        return self._reap() or (not IS_LINUX and bool(self._find_descendants()))

    def _find_descendants(self) -> set[ProcessInfo]:
        found = find_descendants(os.getpid())
        return found if IS_LINUX else found | find_strays(os.environ[TAG_VARIABLE], {os.getpid()})

    def _report(self, line: str) -> None:
        try:
            os.write(self._news, line.encode() + b"\n")
        except BrokenPipeError:
            pass


def main() -> None:
    """Guard the program named on the command line."""
    orders, news, path, *argv = sys.argv[1:]
    rename_process(GUARD_NAME)
    ProcessGuard(int(orders), int(news)).supervise(path, argv)
    os._exit(0)  # Skipping interpreter shutdown saves milliseconds.


if __name__ == "__main__":
    main()
