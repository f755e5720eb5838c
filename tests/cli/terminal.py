"""A person at a terminal, for tests: what they see, and what they type when they see it."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS = 20.0


def at_terminal(
    directory: Path,
    *words: str,
    typed: Sequence[tuple[str, str | Callable[[], object]]] = (),
    environment: dict[str, str] | None = None,
    program: Sequence[str] = (),
    columns: int = 80,
) -> tuple[int, str]:
    """Run one command, or another program, in a terminal; return its exit code and all that was shown.

    Each of `typed` is what to wait for and what to type, or to do, then.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (24, columns))
        command = list(program) or [sys.executable, "-m", "ralph", "-C", str(directory), *words]
        # Not `execv`: readline, once it is imported, sets COLUMNS behind the back of `os.environ`.
        os.execve(command[0], command, {**os.environ, **(environment or {})})
    seen = b""
    for awaited, keys in typed:
        start = len(seen)
        while awaited.encode() not in seen[start:]:
            more = _read(terminal)
            assert more, f"{awaited!r} was not shown: {seen.decode(errors='replace')}"
            seen += more
        if isinstance(keys, str):
            os.write(terminal, keys.encode())
        else:
            keys()
    while more := _read(terminal):
        seen += more
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen.decode(errors="replace").replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Return what is shown next; nothing when the program has ended, or is silent for too long."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                return os.read(terminal, 4096)
            except OSError:
                return b""
    return b""
