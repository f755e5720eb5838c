"""System calls of a process that fail, or at which it is ended, through strace."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache

WRITES = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate")
NAMES = ("renameat2", "rename", "link", "linkat", "unlink")
"""Calls that change which name a file has."""


@cache
def can_trace() -> bool:
    """Say whether there is an strace that may trace and inject here."""
    if not shutil.which("strace"):
        return False
    with tempfile.NamedTemporaryFile() as log:
        tried = subprocess.run(
            ["strace", "-f", "-o", log.name, "-e", "inject=fsync:error=EIO", "true"], capture_output=True, check=False
        )
    return tried.returncode == 0


@cache
def can_mount() -> bool:
    """Say whether a disk of its own can be mounted here, which goes with the process."""
    if not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        words = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


def command(call: str, fault: str, log: str = os.devnull) -> list[str]:
    """Give the words before a command whose system calls of one kind shall fail, like `error=EIO:when=3`."""
    return ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]


class Child:
    """A process that was forked, and does its work when it is told to."""

    def __init__(self, work: Callable[[int], None]) -> None:
        """`work` gets where to tell what it has done; the process ends without any ado after it."""
        self._heard, tells = os.pipe()
        waits, self._go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self._heard)
                os.close(self._go)
                os.read(waits, 1)
                work(tells)
                code = 0
            finally:
                os._exit(code)
        os.close(tells)
        os.close(waits)
        self._told = b""
        self._tracer: subprocess.Popen[bytes] | None = None

    def trace(self, calls: Sequence[str], fault: str, log: str = os.devnull) -> None:
        """Let some of its system calls have a fault from now on; the log says which had."""
        names = ",".join(f"?{call}" for call in calls)
        words = ["strace", "-f", "-o", log, "-e", f"trace={names}", "-e", f"inject={names}:{fault}"]
        self._tracer = subprocess.Popen([*words, "-p", str(self.pid)], stderr=subprocess.PIPE)
        assert self._tracer.stderr
        said = self._tracer.stderr.readline()
        assert b"attached" in said, said

    def start(self) -> None:
        """Let it do its work."""
        os.write(self._go, b"!")
        os.close(self._go)

    def await_lines(self, count: int) -> None:
        """Wait until it has told so many lines, or has ended."""
        while self._told.count(b"\n") < count and (more := os.read(self._heard, 4096)):
            self._told += more

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, 9)

    def ended(self) -> tuple[int, list[str]]:
        """Wait until it has ended; give how, as `waitpid` says, and the lines it told."""
        with os.fdopen(self._heard, "rb") as heard:
            lines = (self._told + heard.read()).decode().split("\n")
        _, status = os.waitpid(self.pid, 0)
        if self._tracer:
            self._tracer.communicate()
        return status, lines[:-1]
