"""Ask git, without letting a repository's hooks run; filters that it sets for its files do."""

from __future__ import annotations

import os
import subprocess
import threading

from ralph.environment import allowed
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GIT_SECONDS = 30.0
# No hooks: they would run outside of the guard.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
"""Set while git runs a hook: they would lead away from the directory that is asked about."""

births = threading.Lock()
"""Held while a process of ours is born, so that none is taken for an agent's orphan before it is known."""
at_work: set[int] = set()
"""The gits that run just now, of all threads."""


@record
class Ran:
    """What git answered."""

    code: int
    """Its exit code; -1 when it could not be started or took too long."""
    out: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Say whether it did what it was asked."""
        return self.code == 0


def run_git(
    directory: Path | str, *arguments: str, seconds: float = GIT_SECONDS, environment: Mapping[str, str] | None = None
) -> Ran:
    """Run git in a directory and give what it says; `environment` is added to those of ours that it needs.

    Ctrl+C does not reach it: what it has begun to change it also ends. Nothing that it started outlives its time.
    """
    # A filter of the repository is a program too, and an agent may have set it.
    ours = {name: value for name, value in allowed(named=("GIT_CONFIG_*",)).items() if name not in ELSEWHERE}
    try:
        with births:
            process = subprocess.Popen(
                ["git", *_QUIET, *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
                env={**ours, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})},
            )
            at_work.add(process.pid)
    except OSError as error:
        return Ran(code=-1, error=f"git cannot be started: {error.strerror}")
    try:
        with process:
            try:
                out, said = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _end(process)
                return Ran(code=-1, error=f"git took longer than {seconds:g} s")
            except BaseException:
                _end(process)
                raise
    finally:
        at_work.discard(process.pid)
    return Ran(code=process.returncode, out=out.decode("utf-8", "replace"), error=said.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and the programs it started."""
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def ask_git(directory: Path | str, *arguments: str) -> str | None:
    """Give what git answers to a question that changes nothing; None when it cannot answer."""
    ran = run_git(directory, "--no-optional-locks", *arguments)
    return ran.out if ran.ok else None
