"""Stand between Ralph and one program, so that nothing it starts outlives its session.

Run as `python -I -S guard.py ORDERS NEWS PATH ARG0 ARG...`, where ORDERS and NEWS are
pipes. A byte on ORDERS means "end it"; its closing means that Ralph is gone, which ends
everything too. NEWS gets `failed ERRNO`, `exited CODE` and `left PID...`, a line each.

This starts before every agent and gate: an import here is paid for each time, so there
is no pathlib, and no `signal`, which alone costs half as much as starting Python.
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
    from _signal import SIG_IGN, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, set_wakeup_fd, signal

POLITE_SECONDS = 2.0
HASTY_SECONDS = 0.5
"""How long a program may take to obey SIGTERM when Ralph is no longer there to wait for it."""
KILL_SECONDS = 5.0
"""How long SIGKILL is repeated before a process counts as one we cannot end."""
TAG = "RALPH_SESSION"
LINUX = sys.platform == "linux"

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


# --- finding processes -----------------------------------------------------------

Seen = tuple[int, int, int, int]
"""A process: its id, its parent's, its group's and its session's."""


def adopt_orphans(yes: bool) -> None:
    """Have orphaned descendants handed to this process instead of to init, where the system can do that."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


def descendants(root: int) -> set[Seen]:
    """Give all processes below this one."""
    everyone = _everyone()
    return _with_children({seen for seen in everyone if seen[1] == root}, everyone)


def strays(tag: str, sessions: set[int]) -> set[Seen]:
    """Give all processes that have the tag in their environment or are in one of the sessions, and those below."""
    everyone = _everyone()
    known = {seen for seen in everyone if seen[3] in sessions or _tag_of(seen[0]) == tag}
    return {seen for seen in _with_children(known, everyone) if seen[0] != os.getpid()}


def adopted(since: int, besides: set[int]) -> set[Seen]:
    """Give the children of this process that started after `since`, and those below them.

    An orphan that hides its origin is handed to us all the same when its guard is gone.
    """
    everyone = _everyone()
    ours = {seen for seen in everyone if seen[1] == os.getpid() and seen[0] not in besides}
    return _with_children({seen for seen in ours if started(seen[0]) > since}, everyone)


def started(pid: int) -> int:
    """Give when a process started, in clock ticks since the machine did; 0 where nobody can tell."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split() if LINUX else []
    return int(fields[19]) if fields else 0


def terminate(processes: set[Seen]) -> None:
    """Ask each of them to end."""
    for pid, *_ in processes:
        _send(os.kill, pid, SIGTERM)


def kill(processes: set[Seen]) -> None:
    """Kill them and their groups: a group dies at one stroke, however fast its members fork."""
    for group in {group for _, _, group, _ in processes} - {0, os.getpgrp()}:
        _send(os.killpg, group, SIGKILL)
    for pid, *_ in processes:
        _send(os.kill, pid, SIGKILL)


def _send(how: "Callable[[int, int], None]", target: int, number: int) -> None:
    try:
        how(target, number)
    except (ProcessLookupError, PermissionError):
        pass


def _with_children(roots: set[Seen], everyone: list[Seen]) -> set[Seen]:
    children: dict[int, list[Seen]] = {}
    for seen in everyone:
        children.setdefault(seen[1], []).append(seen)
    found = set(roots)
    waiting = list(roots)
    while waiting:
        new = [child for child in children.get(waiting.pop()[0], ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def _everyone() -> list[Seen]:
    """Give all processes, newest first: the oldest can wait."""
    if not LINUX:
        return _everyone_by_psutil()
    found = []
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int, reverse=True):  # noqa: PTH208
        # The program's name stands in brackets and may itself hold brackets and spaces.
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if fields:
            found.append((int(name), int(fields[1]), int(fields[2]), int(fields[3])))
    return found


def _tag_of(pid: int) -> str | None:
    if not LINUX:
        return _tag_by_psutil(pid)
    for variable in _read(f"/proc/{pid}/environ").split(b"\0"):
        if variable.startswith(TAG.encode() + b"="):
            return variable.partition(b"=")[2].decode(errors="replace")
    return None


def _read(path: str) -> bytes:
    """Give what a file under /proc says; nothing when its process is gone or not ours."""
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


def _everyone_by_psutil() -> list[Seen]:
    _show_site_packages()
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            found.append((process.pid, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid)))
        except (psutil.Error, OSError):
            pass
    return found


def _tag_by_psutil(pid: int) -> str | None:
    _show_site_packages()
    import psutil

    try:
        return psutil.Process(pid).environ().get(TAG)
    except (psutil.Error, OSError):
        return None


def _show_site_packages() -> None:
    if "site" not in sys.modules:  # As a program we run with -S.
        import site

        site.main()


# --- the guard -------------------------------------------------------------------


class Guard:
    """Starts one program and ends all that comes of it."""

    def __init__(self, orders: int, news: int) -> None:
        self._orders = orders
        self._news = news
        self._main = 0
        self._woken, waker = os.pipe()
        for fd in (orders, news):
            os.set_inheritable(fd, False)
        os.set_blocking(waker, False)
        set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        # Who tidies up with `pkill python` means other programs than this one.
        for number in (SIGHUP, SIGINT, SIGTERM):
            signal(number, SIG_IGN)

    def watch(self, path: str, argv: list[str]) -> None:
        """Start the program and return when it and all that it started have ended."""
        adopt_orphans(True)
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
            self._tell(f"failed {error.errno}")
            return
        self._let_go_of_its_pipes()

        grace_seconds = POLITE_SECONDS
        while self._reap():
            ready, _, _ = select.select([self._orders, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
            if self._orders in ready:
                grace_seconds = POLITE_SECONDS if os.read(self._orders, 1) else HASTY_SECONDS
                break
        self._end_all(grace_seconds)

    def _let_go_of_its_pipes(self) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)

    def _reap(self) -> bool:
        """Take in the children that ended; say whether there are others."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main:
                    self._main = 0
                    self._tell(f"exited {os.waitstatus_to_exitcode(status)}")
        except ChildProcessError:
            return False

    def _end_all(self, grace_seconds: float) -> None:
        if self._anyone_left():
            terminate(self._relatives())
        self._wait(grace_seconds)
        deadline = time.monotonic() + KILL_SECONDS
        while self._anyone_left():
            kill(self._relatives())
            if time.monotonic() > deadline:
                self._tell("left " + " ".join(str(pid) for pid, *_ in sorted(self._relatives())[:20]))
                return
            self._wait(0.002)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._anyone_left() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _anyone_left(self) -> bool:
        # With orphans handed to us, no child means no descendant; elsewhere one has to look.
        return self._reap() or (not LINUX and bool(self._relatives()))

    def _relatives(self) -> set[Seen]:
        found = descendants(os.getpid())
        return found if LINUX else found | strays(os.environ[TAG], {os.getpid()})

    def _tell(self, line: str) -> None:
        try:
            os.write(self._news, line.encode() + b"\n")
        except BrokenPipeError:
            pass


def _show_a_name() -> None:
    """Be called ralph-guard in process lists."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_NAME, b"ralph-guard", 0, 0, 0)


def main() -> None:
    """Guard the program named on the command line."""
    orders, news, path, *argv = sys.argv[1:]
    _show_a_name()
    Guard(int(orders), int(news)).watch(path, argv)
    os._exit(0)  # Nothing to tidy up, and it saves milliseconds.


if __name__ == "__main__":
    main()
