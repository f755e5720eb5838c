"""Running a program to its end within limits, leaving no process behind.

The program runs behind a guard (reaper.py), which terminates everything it started, even if Ralph is killed. One
thread with one selector does the I/O, and only the head and tail of the output stay in memory. Callers that have to
answer a program while it runs open it with `guarded` and do their own I/O.

"""

from __future__ import annotations

import io
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ralph.agents.supervisor import reaper
from ralph.agents.supervisor.adoption import count_running, guards, is_gone
from ralph.agents.supervisor.executables import find_program, start_error_message
from ralph.agents.supervisor.output import HEAD_SHARE, LimitTracker, OutputBuffer, TextForwarder
from ralph.core.errors import AgentUnavailableError
from ralph.core.git import (
    REDIRECTING_VARIABLES,
    process_start_lock,
    running_git_pids,
)
from ralph.core.records import SessionEnding, record
from ralph.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from ralph.agents import Limits
    from ralph.agents.supervisor.sandbox import Sandbox

MAX_OUTPUT_BYTES = 2 * 1024 * 1024
"""Default amount of output kept in memory, in bytes."""
MAX_STDERR_BYTES = 16 * 1024
"""Amount of stderr kept, in bytes."""
CHUNK_BYTES = 64 * 1024
POLL_INTERVAL_SECONDS = 0.1
"""Interval at which limits are checked, in seconds."""
DRAIN_SECONDS = 0.5
"""Time descendants may keep the output of an exited program open, in seconds."""
QUIET_SECONDS = 0.1
"""Time without new strays before all count as found, in seconds; they may fork faster than we look."""
GUARD_SECONDS = reaper.TERMINATE_SECONDS + reaper.KILL_SECONDS + 2.0
"""Time the guard has to terminate everything before we do it ourselves, in seconds."""


@record
class ProcessResult:
    """Ending and output of a program."""

    text: str
    stderr: str
    """Last part of stderr; empty when it was merged into the text."""
    exit_code: int | None
    """Negative when killed by a signal, None when unknown."""
    ending: SessionEnding
    detail: str
    """One sentence for an ending other than `finished`."""
    seconds: float


def run_program(
    argv: Sequence[str],
    *,
    directory: Path,
    limits: Limits,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_output: Callable[[str], None] | None = None,
    merge_stderr: bool = False,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> ProcessResult:
    """Run a program to its end; no process it started is left when this returns.

    `environment` is the full environment of the program, by default our own without the variables that would redirect
    git. Raises `AgentUnavailableError` if the program cannot be started; everything later is reported in the ending.

    """
    started = time.monotonic()
    with guarded_process(
        argv,
        directory=directory,
        environment=environment,
        sandbox=limits.sandbox,
        with_stdin=bool(stdin),
        merge_stderr=merge_stderr,
    ) as program:
        monitor = _ProcessMonitor(program, stdin, limits, should_stop, on_output, max_output_bytes)
        monitor.until_the_end()
    program.check_started()
    stderr = monitor.stderr.text()
    ending, detail = monitor.verdict(stderr)
    return ProcessResult(
        text=monitor.stdout.text(),
        stderr=stderr,
        exit_code=program.exit_code,
        ending=ending,
        detail=detail,
        seconds=time.monotonic() - started,
    )


@contextmanager
def guarded_process(
    argv: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    sandbox: Sandbox | None = None,
    with_stdin: bool = True,
    merge_stderr: bool = False,
) -> Iterator[GuardedProcess]:
    """Yield a running program with open pipes; no process it started is left when the block exits.

    `environment` is as for `run_program`. Raises `AgentUnavailableError` if the program does not exist; whether the
    system could start it is known when its status pipe closes.

    """
    inherited = os.environ if environment is None else environment
    variables = {name: value for name, value in inherited.items() if name not in REDIRECTING_VARIABLES}
    search_path = variables.get("PATH", os.defpath)
    path = find_program(argv[0], directory, search_path)
    name = path.name
    if sandbox:
        argv = sandbox.command(path, argv, directory, variables)
        path = find_program(argv[0], directory, search_path)
    count_running(+1)
    try:
        program = GuardedProcess(path, argv, directory, variables, with_stdin=with_stdin, merge_stderr=merge_stderr)
        program.name = name
        try:
            yield program
        finally:
            program.wait_for_end()
            program.close()
    finally:
        count_running(-1)


# --- guarded programs ----------------------------------------------------------------


class GuardedProcess:
    """A program behind its guard: pipes to both, and methods to terminate them."""

    def __init__(
        self,
        program: Path,
        argv: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        *,
        with_stdin: bool,
        merge_stderr: bool,
    ) -> None:
        self._tag = os.urandom(16).hex()
        control_read, control_write = os.pipe()
        status_read, status_write = os.pipe()
        self._control_pipe = io.FileIO(control_write, "w")
        self.status_pipe = io.FileIO(status_read)
        try:
            with process_start_lock:
                self._guard = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", reaper.__file__, str(control_read), str(status_write)),
                        *(str(program), *argv),
                    ],
                    stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
                    bufsize=0,
                    cwd=directory,
                    # Some programs trust PWD, which would otherwise be our own directory.
                    env={**environment, "PWD": str(directory.absolute()), reaper.TAG_VARIABLE: self._tag},
                    start_new_session=True,
                    pass_fds=(control_read, status_write),
                )
                guards.add(self._guard.pid)
        except OSError as error:
            self._control_pipe.close()
            self.status_pipe.close()
            message = f"{program} cannot be started in {directory}: {error.strerror}."
            raise AgentUnavailableError(message, code="program-not-started") from error
        finally:
            os.close(control_read)
            os.close(status_write)
        self._path = program
        self.name = program.name
        self.exit_code: int | None = None
        """Negative when killed by a signal, None until it is known."""
        self.survivors = ""
        """Ids of processes that could not be terminated, separated by commas."""
        self._start_error = 0
        self._is_guard_killed = False
        self._partial_status = b""
        self._started = reaper.process_start_time(self._guard.pid)
        self.stdin = self._guard.stdin
        self.stdout = self._guard.stdout
        self.stderr = self._guard.stderr

    @property
    def guard_pid(self) -> int:
        """Id of the guard, whose descendants are the processes of the program."""
        return self._guard.pid

    def handle_status(self, chunk: bytes) -> None:
        """Process status lines from the guard."""
        *lines, self._partial_status = (self._partial_status + chunk).split(b"\n")
        for line in lines:
            status, _, value = line.decode().partition(" ")
            if status == "exited":
                self.exit_code = int(value)
            elif status == "failed":
                self._start_error = int(value)
            elif status == "left":
                self.survivors = value.replace(" ", ", ")

    def check_started(self) -> None:
        """Raise `AgentUnavailableError` if the guard reported that the program cannot be started."""
        if self._start_error:
            raise AgentUnavailableError(start_error_message(self._path, self._start_error), code="program-not-started")

    def describe_exit(self, stderr: str) -> str:
        """Return a sentence about an unexpected exit."""
        if self.exit_code is None:
            return f"{self.name} was terminated because its Ralph guard process was killed."
        if self.exit_code < 0:
            description = f"{self.name} was killed by signal {_signal_name(-self.exit_code)}"
        else:
            description = f"{self.name} exited with {self.exit_code}"
        last_line = one_line(stderr.rstrip().rpartition("\n")[2])
        return f"{description}: {last_line}" if last_line else f"{description}."

    def request_termination(self) -> None:
        """Request termination of all processes; the status pipe closes when that is done."""
        try:
            self._control_pipe.write(b".")
        except BrokenPipeError:
            pass  # The guard has exited.

    def kill_guard(self) -> None:
        """Kill an unresponsive guard; `end` then cleans up in its place."""
        self._is_guard_killed = True
        self._guard.kill()

    def wait_for_end(self) -> None:
        """Return when every process of this program is gone."""
        if self._control_pipe.closed:
            return
        self._control_pipe.close()
        try:
            self._guard.wait(DRAIN_SECONDS if self._is_guard_killed else GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill_guard()
            # A program that ptraces its guard hides the guard's exit from us while it lives.
            _kill_strays(self._tag, self._guard.pid, self._started)
            self._guard.wait()
        if self._guard.returncode != 0:
            _kill_strays(self._tag, self._guard.pid, self._started)
        guards.discard(self._guard.pid)

    def close(self) -> None:
        """Close all pipes."""
        for pipe in (self.status_pipe, self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()


def _kill_strays(tag: str, session_id: int, since: int) -> None:
    """Kill the processes left by a guard that was killed."""
    sessions = {session_id}
    dying: set[int] = set()
    now = time.monotonic()
    deadline, quiet_at = now + reaper.KILL_SECONDS, now + QUIET_SECONDS
    while (now := time.monotonic()) < deadline:
        with process_start_lock:
            found = reaper.find_strays(tag, sessions) | (
                reaper.find_adopted(since, exclude=guards | running_git_pids) if since else set()
            )
            reaper.kill(found)
        sessions |= {session for _, _, _, session in found} - {0, os.getsid(0)}
        dying = {pid for pid in dying | {pid for pid, *_ in found} if not is_gone(pid)}
        if found or dying:
            # On a busy machine one search may take longer than the quiet time.
            quiet_at = time.monotonic() + QUIET_SECONDS
        elif now >= quiet_at:
            return
        time.sleep(0.002)


# --- input and output --------------------------------------------------------------


class _ProcessMonitor:
    """Reads a program's output and decides when it must end."""

    def __init__(
        self,
        program: GuardedProcess,
        stdin: str,
        limits: Limits,
        should_stop: Callable[[], bool],
        on_output: Callable[[str], None] | None,
        keep_bytes: int,
    ) -> None:
        head_bytes = int(keep_bytes * HEAD_SHARE)
        self.stdout = OutputBuffer(head_bytes, keep_bytes - head_bytes)
        self.stderr = OutputBuffer(0, MAX_STDERR_BYTES)

        self._program = program
        self._allowance = LimitTracker(limits, should_stop, program.guard_pid)
        self._should_stop = should_stop
        self._forwarder = TextForwarder(on_output) if on_output else None
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._limit: SessionEnding | None = None
        self._exited_at: float | None = None
        self._termination_requested_at: float | None = None

        self._selector = selectors.DefaultSelector()
        self._watch_pipe(program.status_pipe, selectors.EVENT_READ, self._read_status)
        self._watch_pipe(program.stdin, selectors.EVENT_WRITE, self._write_stdin)
        self._watch_pipe(program.stdout, selectors.EVENT_READ, self._read_stdout)
        self._watch_pipe(program.stderr, selectors.EVENT_READ, self._read_stderr)

    def until_the_end(self) -> None:
        """Process I/O until the program and all its descendants are gone."""
        with self._selector:
            while not self._program.status_pipe.closed:
                for key, _ in self._selector.select(POLL_INTERVAL_SECONDS):
                    key.data()
                self._check_limits(time.monotonic())
            self._program.wait_for_end()
            while not self._allowance.is_flooded and (self._read_stdout() or self._read_stderr()):
                pass
        if self._forwarder:
            self._forwarder.finish()

    def verdict(self, stderr: str) -> tuple[SessionEnding, str]:
        """Return the ending and a sentence about it."""
        ending, detail = self._classify(stderr)
        if self._program.survivors:
            detail = f"{detail} These processes could not be terminated: {self._program.survivors}.".lstrip()
        return ending, detail

    def _classify(self, stderr: str) -> tuple[SessionEnding, str]:
        program = self._program
        if self._limit:
            return self._limit, self._allowance.describe_limit(program.name, self._limit)
        if program.exit_code == 0:
            return SessionEnding.FINISHED, ""
        if program.exit_code is None and self._should_stop():
            # Ctrl+C also reaches a guard that has not left our session yet.
            return SessionEnding.STOPPED, self._allowance.describe_limit(program.name, SessionEnding.STOPPED)
        return SessionEnding.CRASHED, program.describe_exit(stderr)

    def _watch_pipe(self, pipe: IO[bytes] | None, events: int, react: Callable[[], object]) -> None:
        if pipe:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events, react)

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()

    def _read(self, pipe: IO[bytes] | None) -> bytes:
        """Return available bytes, if any; close the pipe at its end."""
        if not pipe or pipe.closed:
            return b""
        try:
            chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not chunk:
            self._close(pipe)
        return chunk

    def _read_stdout(self) -> bool:
        chunk = self._read(self._program.stdout)
        if chunk and self._forwarder:
            self._forwarder.add(chunk)
        return self._store(chunk, self.stdout)

    def _read_stderr(self) -> bool:
        return self._store(self._read(self._program.stderr), self.stderr)

    def _store(self, chunk: bytes, output: OutputBuffer) -> bool:
        if chunk:
            output.add(chunk)
            self._allowance.count_output(len(chunk))
        return bool(chunk)

    def _write_stdin(self) -> None:
        stdin = self._program.stdin
        assert stdin
        try:
            self._unsent = self._unsent[os.write(stdin.fileno(), self._unsent[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # The program closed its stdin.
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(stdin)

    def _read_status(self) -> None:
        self._program.handle_status(self._read(self._program.status_pipe))
        if self._program.exit_code is not None and self._exited_at is None:
            self._exited_at = time.monotonic()

    def _check_limits(self, now: float) -> None:
        stdout = self._program.stdout
        if self._termination_requested_at is not None:
            if now - self._termination_requested_at > GUARD_SECONDS:
                self._program.kill_guard()
        elif self._exited_at is not None:
            if not stdout or stdout.closed or now - self._exited_at > DRAIN_SECONDS:
                self._request_end(now)
        elif limit := self._allowance.exceeded_limit(now):
            self._limit = limit
            if limit is SessionEnding.FLOODED:
                self._close(stdout)
                self._close(self._program.stderr)
            self._request_end(now)

    def _request_end(self, now: float) -> None:
        self._termination_requested_at = now
        self._program.request_termination()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
