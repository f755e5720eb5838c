"""The sessions of a loop that a process runs in, found by its ancestors.

The supervisor starts every agent, gate and review behind a guard that adopts whatever its program leaves behind, so no
process can leave its session: not with setsid, a double fork or an empty environment. Guards and loops are known by
their process name, which is kernel state that only the process itself can change. In a namespace of its own, a process
cannot see its guard; a resource limit that only root can lift marks it there. See docs/decisions/0042.
"""

from __future__ import annotations

import os
import sys

from ralph.core.files import is_inside
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GUARD_NAME = "ralph-guard"
"""Name of a process that guards a session, as the supervisor sets it."""
LOOP_NAME = "ralph-run"
"""Name of a process while it runs sessions. It adopts what a killed guard leaves behind."""
SANDBOX_NAME = "bwrap"
"""Name of a sandbox; in its PID namespace, the guard cannot be seen."""
SESSION_VARIABLE = "RALPH_SESSION"
MARK_RESOURCE = 10
"""RLIMIT_LOCKS, which Linux has not enforced since 2.4: unlimited for everybody but the programs of a session."""
NEVER = float("inf")
MAX_WALKS = 1_000
"""Number of times the ancestors are read again because one of them has exited meanwhile."""
IS_LINUX = sys.platform == "linux"


@record
class LoopSession:
    """A session of a loop that a process runs in."""

    variables: Mapping[str, str] = {}
    """Variables that the loop gave to the session; empty if its guard was killed."""
    started: float = NEVER
    """When its guard started, in seconds since the epoch."""

    def owns(self, root: str, place: str) -> bool:
        """Return whether a file was created in this session, and the session does not work in that project.

        A file that is not there belongs to whoever created its folder.
        """
        if not root or not place or is_inside(self.variables.get("PWD", "/"), root):
            return False
        while not os.path.lexists(place):
            place = os.path.dirname(os.path.abspath(place))  # noqa: PTH100, PTH120
        return _birth_time(place) > self.started


@record
class ProcessStat:
    """A process as the kernel describes it."""

    name: str
    parent: int
    session_id: int
    """POSIX session. A process can create one, but never join the one of another process."""
    start: int
    """Clock ticks since boot."""


class _AncestorExitedError(Exception):
    """Raised if a process got another parent while its ancestors were read."""


_known: tuple[LoopSession, ...] | None = None


def enclosing_sessions() -> tuple[LoopSession, ...]:
    """Return the sessions that this process runs in, innermost first. They stay the same while it runs."""
    global _known
    if _known is None:
        _known = sessions_of(os.getpid()) or _sessions_by_mark(0)
    return _known


def sessions_or_mark(pid: int) -> tuple[LoopSession, ...]:
    """Return the sessions that a process runs in; an unknown one if only its mark shows that there is one."""
    return sessions_of(pid) or _sessions_by_mark(pid)


def _sessions_by_mark(pid: int) -> tuple[LoopSession, ...]:
    """Return an unknown session if a process has the limit of a session's programs, which any child inherits.

    0 is this process, whatever its id is in its namespace.
    """
    if not IS_LINUX:
        return ()
    import resource

    try:
        is_marked = resource.prlimit(pid, MARK_RESOURCE)[1] != resource.RLIM_INFINITY
    except OSError:  # another user's, or gone
        is_marked = False
    return (LoopSession(),) if is_marked else ()


def sessions_of(pid: int) -> tuple[LoopSession, ...]:
    """Return the sessions that a process runs in, innermost first."""
    if not IS_LINUX:
        return _sessions_by_psutil(pid)
    for _ in range(MAX_WALKS):
        try:
            return tuple(_walk(pid))
        except _AncestorExitedError:
            pass
    return (LoopSession(),)


def _walk(pid: int) -> list[LoopSession]:
    sessions: list[LoopSession] = []
    child, is_guard = process_stat(pid), False
    while child is not None and child.parent:
        pid = child.parent
        parent = process_stat(pid)
        if parent is None:
            if _is_alive(pid):
                break  # another user's process in a /proc that hides those
            raise _AncestorExitedError
        if parent.start > child.start:
            raise _AncestorExitedError  # a new process has got the id of the parent
        # What the loop starts itself shares its POSIX session; what it adopts cannot. Its git may run what a session
        # has put into hooks or filters.
        is_foreign = child.session_id != parent.session_id or child.name == "git"
        is_orphan = parent.name == LOOP_NAME and is_foreign and not is_guard
        is_guard = parent.name == GUARD_NAME
        if is_orphan:
            sessions.append(LoopSession())
        elif is_guard or (parent.name == SANDBOX_NAME and _is_sandbox(pid)):
            sessions.append(LoopSession(variables=_variables(pid) or {}, started=_unix_time(parent.start)))
        child = parent
    return sessions


def find_session_processes() -> list[int]:
    """Return the processes of this machine that run in any session."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if IS_LINUX else []  # noqa: PTH208
    processes = {pid: found for pid in pids if (found := process_stat(pid))}
    if not any(one.name in (GUARD_NAME, LOOP_NAME) for one in processes.values()):
        return [pid for pid in processes if _sessions_by_mark(pid)]  # their guard and loop may have been killed
    return [pid for pid in processes if sessions_or_mark(pid)]


def is_session_in(root: str) -> bool:
    """Return whether a session works in a directory now, or in one inside it."""
    sessions = (session for pid in find_session_processes() for session in sessions_of(pid)[-1:])
    return any(is_inside(session.variables.get("PWD", "/"), root) for session in sessions)


def process_stat(pid: int) -> ProcessStat | None:
    """Return a process, or None if it cannot be seen."""
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    # The name is in parentheses and may itself contain parentheses and spaces.
    head, _, tail = content.rpartition(b")")
    fields = tail.split()
    return ProcessStat(
        name=head.partition(b"(")[2].decode("utf-8", "replace"),
        parent=int(fields[1]),
        session_id=int(fields[3]),
        start=int(fields[19]),
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_sandbox(pid: int) -> bool:
    """Return whether a sandbox belongs to a session; people use them for other programs, too."""
    variables = _variables(pid)
    return variables is None or SESSION_VARIABLE in variables


def _variables(pid: int) -> dict[str, str] | None:
    """Return the environment that a process was started with, or None if it cannot be read."""
    content = _read(f"/proc/{pid}/environ")
    if not content:
        return None
    pairs = (os.fsdecode(pair).partition("=") for pair in content.split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = b""
        while part := os.read(file, 65536):
            content += part
            if len(part) < 4096:  # it is shorter than a page: there is no more
                break
        return content
    except OSError:
        return b""
    finally:
        os.close(file)


def _unix_time(ticks: int) -> float:
    """Return the time of a clock tick, in seconds since the epoch."""
    import time

    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _birth_time(path: str) -> float:
    """Return when a file was created, in seconds since the epoch; 0 if unknown. Unlike others, nobody can set it."""
    if not IS_LINUX:
        try:
            return float(getattr(os.stat(path), "st_birthtime", 0.0))  # noqa: PTH116
        except OSError:
            return 0.0
    import ctypes
    import struct

    at_current_directory, birth_time, size = -100, 0x800, 256
    buffer = ctypes.create_string_buffer(size)
    try:
        failed = ctypes.CDLL(None).statx(at_current_directory, os.fsencode(path), 0, birth_time, buffer)
    except AttributeError:  # an old C library
        return 0.0
    mask, seconds, nanoseconds = struct.unpack_from("=I76xqI", buffer.raw)
    return seconds + nanoseconds / 1e9 if not failed and mask & birth_time else 0.0


def _sessions_by_psutil(pid: int) -> tuple[LoopSession, ...]:
    """Return the sessions where there is no /proc; a guard is known by its command."""
    import psutil

    sessions = []
    try:
        for process in psutil.Process(pid).parents():
            if any(word.endswith("/ralph/agents/supervisor/reaper.py") for word in process.cmdline()[:5]):
                sessions.append(LoopSession(variables=process.environ(), started=process.create_time()))
    except (psutil.Error, OSError):
        pass  # another user's process: a guard runs as the same user
    return tuple(sessions)
