"""Running git without the repository's hooks; its filters still run."""

from __future__ import annotations

import os
import subprocess
import threading

from ralph.core.environment import allowed_environment
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GIT_TIMEOUT_SECONDS = 30.0
"""Default timeout, in seconds."""
# Hooks would run outside the guard.
_NO_HOOKS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
REDIRECTING_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
)
"""Variables set while git runs a hook; they would redirect git to another repository."""

process_start_lock = threading.Lock()
"""Held while a process is started, so that it is not taken for an agent's orphan before it is registered."""
running_git_pids: set[int] = set()
"""Ids of running git processes in all threads."""


@record
class GitResult:
    """Result of a git command."""

    exit_code: int
    """Exit code; -1 if git could not be started or timed out."""
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.exit_code == 0


def run_git(
    directory: Path | str,
    *arguments: str,
    timeout_seconds: float = GIT_TIMEOUT_SECONDS,
    environment: Mapping[str, str] | None = None,
    errors: str = "replace",
) -> GitResult:
    """Run git in a directory and return its result; `environment` is added to the variables it inherits.

    `errors` says what becomes of output that is not UTF-8; "surrogateescape" keeps its bytes.

    Ctrl+C does not reach it, so that a change it has begun is completed. Nothing it started survives the timeout.

    """
    # Filters are programs, and an agent may have configured them.
    inherited = {
        name: value
        for name, value in allowed_environment(variable_names=("GIT_CONFIG_*",)).items()
        if name not in REDIRECTING_VARIABLES
    }
    try:
        with process_start_lock:
            process = subprocess.Popen(
                ["git", *_NO_HOOKS, *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
                env={**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})},
            )
            running_git_pids.add(process.pid)
    except OSError as error:
        return GitResult(exit_code=-1, stderr=f"git cannot be started: {error.strerror}")
    try:
        with process:
            try:
                out, error_output = process.communicate(timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                return GitResult(exit_code=-1, stderr=f"git took longer than {timeout_seconds:g} s")
            except BaseException:
                _kill(process)
                raise
    finally:
        running_git_pids.discard(process.pid)
    return GitResult(
        exit_code=process.returncode,
        stdout=out.decode("utf-8", errors),
        stderr=error_output.decode("utf-8", "replace"),
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and the programs it started."""
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def query_git(directory: Path | str, *arguments: str) -> str | None:
    """Return the output of a read-only git command, or None if it fails."""
    result = run_git(directory, "--no-optional-locks", *arguments)
    return result.stdout if result.ok else None
