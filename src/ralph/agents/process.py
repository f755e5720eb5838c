"""Run one program to its end within limits, and leave no process behind.

The program runs behind a guard (guard.py), which ends all that it started, also
when Ralph is killed. One thread and one selector do the talking; whatever the
program prints, only its first and last words stay in memory. Who has to answer a
program while it runs opens it with `guarded`, and listens for itself.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ralph.agents import guard
from ralph.errors import AgentUnavailableError
from ralph.git import ELSEWHERE, at_work, births
from ralph.records import Ending, record
from ralph.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from ralph.agents import Limits

KEEP_BYTES = 2 * 1024 * 1024
HEAD_SHARE = 0.25
"""Of the bytes kept; the rest is the tail, where the sigils are."""
STDERR_BYTES = 16 * 1024
CHUNK_BYTES = 64 * 1024
TICK_SECONDS = 0.1
DRAIN_SECONDS = 0.5
"""How long others may hold the output of a program open that has exited."""
QUIET_SECONDS = 0.1
"""How long nothing must turn up before all strays count as found: they may fork faster than we look."""
GUARD_SECONDS = guard.POLITE_SECONDS + guard.KILL_SECONDS + 2.0
"""How long the guard may take to end everything before we do it ourselves."""


@record
class Ended:
    """How a program ended, and what it said."""

    text: str
    stderr: str
    """Its last words there; empty when they were merged into the text."""
    exit_code: int | None
    """Negative when a signal ended it, None when nobody was left to tell."""
    ending: Ending
    detail: str
    """One sentence for an ending that is not `finished`."""
    seconds: float


def run_program(
    argv: Sequence[str],
    *,
    directory: Path,
    limits: Limits,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    heard: Callable[[str], None] | None = None,
    merge_stderr: bool = False,
    keep_bytes: int = KEEP_BYTES,
) -> Ended:
    """Run a program to its end; when this returns, no process that it started is left.

    `environment` is all that the program gets, ours when None, but for what would lead git elsewhere. Raises
    `AgentUnavailableError` when it cannot be started; whatever happens later is told by the ending.
    """
    began = time.monotonic()
    with guarded(
        argv, directory=directory, environment=environment, with_stdin=bool(stdin), merge_stderr=merge_stderr
    ) as program:
        watch = _Watch(program, stdin, limits, should_stop, heard, keep_bytes)
        watch.until_the_end()
    program.check_started()
    stderr = watch.stderr.text()
    ending, detail = watch.verdict(stderr)
    return Ended(
        text=watch.stdout.text(),
        stderr=stderr,
        exit_code=program.exit_code,
        ending=ending,
        detail=detail,
        seconds=time.monotonic() - began,
    )


@contextmanager
def guarded(
    argv: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    with_stdin: bool = True,
    merge_stderr: bool = False,
) -> Iterator[Guarded]:
    """Give a program that runs, with its pipes open; when the block is left, no process that it started is left.

    `environment` is as for `run_program`. Raises `AgentUnavailableError` when the program does not exist; whether the
    system could start it is known when its status pipe closes.
    """
    given = os.environ if environment is None else environment
    variables = {name: value for name, value in given.items() if name not in ELSEWHERE}
    path = find_program(argv[0], directory, variables.get("PATH", os.defpath))
    _count_running(+1)
    try:
        program = Guarded(path, argv, directory, variables, with_stdin=with_stdin, merge_stderr=merge_stderr)
        try:
            yield program
        finally:
            program.end()
            program.close()
    finally:
        _count_running(-1)


# --- what can be started -----------------------------------------------------------


def find_program(name: str, directory: Path, search_path: str) -> Path:
    """Give the file that a program's name stands for; raise `AgentUnavailableError` when none can be run.

    A name with a slash is relative to the directory; any other is looked up in the search path.
    """
    if "/" in name:
        places = [directory / name]
    else:
        places = [directory / place / name for place in search_path.split(os.pathsep)]
    files = [place for place in places if place.is_file()]
    for file in files:
        if os.access(file, os.X_OK):
            return file.absolute()
    if files:
        raise AgentUnavailableError(f"{files[0]} is not executable. Make it so with: chmod +x {files[0]}")
    if "/" not in name and (directory / name).is_file():
        raise AgentUnavailableError(f"{name} is not in the PATH, but in {directory}. To run that one, write: ./{name}")
    if "/" not in name:
        raise AgentUnavailableError(f"{name} was not found in the PATH. Install it, or give its full path.")
    if places[0].is_dir():
        raise AgentUnavailableError(f"{places[0]} is a directory, not a program. Give the path of a program.")
    raise AgentUnavailableError(f"There is no program {places[0]}. Check the path.")


def _why_not_started(program: Path, error: int) -> str:
    if error == errno.ENOENT:
        with program.open("rb") as file:
            first_line = one_line(clean(file.readline(200).decode("utf-8", "replace")))
        missing = first_line[2:].strip() if first_line.startswith("#!") else "the loader it was built for"
        return f"{program} cannot be started: {missing} was not found. Install it, or correct the program."
    if error == errno.ENOEXEC:
        return f"{program} is no program for this machine. A script has to begin with a line like #!/bin/sh"
    return f"{program} cannot be started: {os.strerror(error)}."


# --- the program behind its guard ----------------------------------------------------

_guards: set[int] = set()
"""The guards at work, of all threads: whatever else is handed to us is an orphan."""


class Guarded:
    """A program behind its guard: the pipes to both, and the means to end them."""

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
        read_orders, write_orders = os.pipe()
        read_news, write_news = os.pipe()
        self._orders = io.FileIO(write_orders, "w")
        self.news = io.FileIO(read_news)
        try:
            with births:
                self._guard = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", guard.__file__, str(read_orders), str(write_news)),
                        *(str(program), *argv),
                    ],
                    stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
                    bufsize=0,
                    cwd=directory,
                    # Some programs take PWD for where they are, which would be where we are.
                    env={**environment, "PWD": str(directory.absolute()), guard.TAG: self._tag},
                    start_new_session=True,
                    pass_fds=(read_orders, write_news),
                )
                _guards.add(self._guard.pid)
        except OSError as error:
            self._orders.close()
            self.news.close()
            raise AgentUnavailableError(f"{program} cannot be started in {directory}: {error.strerror}.") from error
        finally:
            os.close(read_orders)
            os.close(write_news)
        self._path = program
        self.name = program.name
        self.exit_code: int | None = None
        """Negative when a signal ended it, None as long as nobody has told."""
        self.survivors = ""
        """Ids of processes that could not be ended."""
        self._start_error = 0
        self._is_given_up = False
        self._told = b""
        self._started = guard.started(self._guard.pid)
        self.stdin = self._guard.stdin
        self.stdout = self._guard.stdout
        self.stderr = self._guard.stderr

    def hear_news(self, chunk: bytes) -> None:
        """Take what was read from the news."""
        *lines, self._told = (self._told + chunk).split(b"\n")
        for line in lines:
            what, _, rest = line.decode().partition(" ")
            if what == "exited":
                self.exit_code = int(rest)
            elif what == "failed":
                self._start_error = int(rest)
            elif what == "left":
                self.survivors = rest.replace(" ", ", ")

    def check_started(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when the news was that it cannot be started."""
        if self._start_error:
            raise AgentUnavailableError(_why_not_started(self._path, self._start_error))

    def death(self, stderr: str) -> str:
        """Give a sentence about the exit of a program that should not have ended like that."""
        if self.exit_code is None:
            return f"{self.name} was ended because its guard, a process of Ralph's, was killed."
        if self.exit_code < 0:
            how = f"{self.name} was killed by signal {_signal_name(-self.exit_code)}"
        else:
            how = f"{self.name} exited with {self.exit_code}"
        last_line = one_line(stderr.rstrip().rpartition("\n")[2])
        return f"{how}: {last_line}" if last_line else f"{how}."

    def ask_to_end(self) -> None:
        """Have everything ended, politely at first; the news closes when that is done."""
        try:
            self._orders.write(b".")
        except BrokenPipeError:
            pass  # The guard is done already.

    def kill_guard(self) -> None:
        """Give the guard up; `end` does its work then."""
        self._is_given_up = True
        self._guard.kill()

    def end(self) -> None:
        """Return when every process of this program is gone."""
        if self._orders.closed:
            return
        self._orders.close()
        try:
            self._guard.wait(DRAIN_SECONDS if self._is_given_up else GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill_guard()
            # A program that traces its guard keeps the guard's end from us for as long as it lives.
            _sweep(self._tag, self._guard.pid, self._started)
            self._guard.wait()
        if self._guard.returncode != 0:
            _sweep(self._tag, self._guard.pid, self._started)
        _guards.discard(self._guard.pid)

    def close(self) -> None:
        """Close all pipes."""
        for pipe in (self.news, self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()


def _sweep(tag: str, session_id: int, since: int) -> None:
    """Kill what was left by a guard that was killed."""
    sessions = {session_id}
    dying: set[int] = set()
    now = time.monotonic()
    deadline, quiet_at = now + guard.KILL_SECONDS, now + QUIET_SECONDS
    while (now := time.monotonic()) < deadline:
        with births:
            found = guard.strays(tag, sessions) | (guard.adopted(since, besides=_guards | at_work) if since else set())
            guard.kill(found)
        sessions |= {session for _, _, _, session in found} - {0, os.getsid(0)}
        dying = {pid for pid in dying | {pid for pid, *_ in found} if not _is_gone(pid)}
        if found or dying:
            # A look may take longer than the time it must be quiet, on a machine that has much to do.
            quiet_at = time.monotonic() + QUIET_SECONDS
        elif now >= quiet_at:
            return
        time.sleep(0.002)


def _is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


_running = 0
_running_lock = threading.Lock()


def _count_running(change: int) -> None:
    """Let orphans come to us for as long as any program runs: it may kill its guard."""
    global _running
    with _running_lock:
        _running += change
        guard.adopt_orphans(_running > 0)


# --- listening ---------------------------------------------------------------------


class Kept:
    """The head and the tail of a stream of bytes, and how much was between them."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._tail_bytes:
            self._cut()

    def text(self) -> str:
        """Give what was kept as clean text, with a line that tells how much is missing."""
        self._cut()
        if not self._left_out:
            return clean((self._head + self._tail).decode("utf-8", "replace"))
        # Each by itself: an escape that was cut in half must not swallow what follows.
        head, tail = (clean(part.decode("utf-8", "replace")) for part in (self._head, self._tail))
        return f"{head}\n[... {self._left_out:,} bytes left out ...]\n{tail}"

    def _cut(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess


class _Broadcast:
    """Passes bytes on as clean text, whole characters and whole terminal escapes at a time."""

    _HALF_ESCAPE = re.compile(r"\x1b(?:\[[ -?]{0,64}|[\]PX^_][^\x07]{0,256})?\Z")

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._held_back = ""

    def add(self, chunk: bytes) -> None:
        """Pass on what is whole so far."""
        text = self._held_back + self._decoder.decode(chunk, final=not chunk)
        last_escape = text.rfind("\x1b")
        is_half = chunk and last_escape >= 0 and self._HALF_ESCAPE.match(text, last_escape)
        whole = text[:last_escape] if is_half else text
        self._held_back = text[len(whole) :]
        if said := clean(whole):
            self._heard(said)

    def finish(self) -> None:
        """Pass on what was held back."""
        self.add(b"")


class Allowance:
    """What a session may take, and whether it has taken more."""

    def __init__(self, limits: Limits, should_stop: Callable[[], bool]) -> None:
        self._limits = limits
        self._should_stop = should_stop
        self._output_bytes = 0
        self._began = self._last_output = self._last_asked = time.monotonic()

    @property
    def is_flooded(self) -> bool:
        """Whether more was printed than may be."""
        return self._output_bytes > self._limits.output_bytes

    def took(self, output_bytes: int) -> None:
        """Count what was printed."""
        self._output_bytes += output_bytes
        self._last_output = time.monotonic()

    def passed(self, now: float) -> Ending | None:
        """Give the limit that is passed, if any is."""
        if now - self._began > self._limits.seconds:
            return Ending.TIMED_OUT
        if now - self._last_output > self._limits.idle_seconds:
            return Ending.WENT_SILENT
        if self.is_flooded:
            return Ending.FLOODED
        if now - self._last_asked >= TICK_SECONDS:
            self._last_asked = now
            if self._should_stop():
                return Ending.STOPPED
        return None

    def sentence(self, name: str, limit: Ending) -> str:
        """Say which limit a program passed."""
        limits = self._limits
        what = {
            Ending.TIMED_OUT: f"was still running after {limits.seconds:g} s and was ended",
            Ending.WENT_SILENT: f"printed nothing for {limits.idle_seconds:g} s and was ended",
            Ending.FLOODED: f"printed more than {limits.output_bytes:,} bytes and was ended",
            Ending.STOPPED: "was stopped",
        }[limit]
        return f"{name} {what}."


class _Watch:
    """Listens to a program, and decides when it has to end."""

    def __init__(
        self,
        program: Guarded,
        stdin: str,
        limits: Limits,
        should_stop: Callable[[], bool],
        heard: Callable[[str], None] | None,
        keep_bytes: int,
    ) -> None:
        head_bytes = int(keep_bytes * HEAD_SHARE)
        self.stdout = Kept(head_bytes, keep_bytes - head_bytes)
        self.stderr = Kept(0, STDERR_BYTES)

        self._program = program
        self._allowance = Allowance(limits, should_stop)
        self._should_stop = should_stop
        self._broadcast = _Broadcast(heard) if heard else None
        self._unsent = memoryview(stdin.encode("utf-8", "replace"))
        self._limit: Ending | None = None
        self._exited_at: float | None = None
        self._ending_since: float | None = None

        self._selector = selectors.DefaultSelector()
        self._attend(program.news, selectors.EVENT_READ, self._read_news)
        self._attend(program.stdin, selectors.EVENT_WRITE, self._write_stdin)
        self._attend(program.stdout, selectors.EVENT_READ, self._read_stdout)
        self._attend(program.stderr, selectors.EVENT_READ, self._read_stderr)

    def until_the_end(self) -> None:
        """Listen until the program and all that it started are gone."""
        with self._selector:
            while not self._program.news.closed:
                for key, _ in self._selector.select(TICK_SECONDS):
                    key.data()
                self._decide(time.monotonic())
            self._program.end()
            while not self._allowance.is_flooded and (self._read_stdout() or self._read_stderr()):
                pass
        if self._broadcast:
            self._broadcast.finish()

    def verdict(self, stderr: str) -> tuple[Ending, str]:
        """Give how it ended, and a sentence about that."""
        ending, detail = self._judge(stderr)
        if self._program.survivors:
            detail = f"{detail} These processes could not be ended: {self._program.survivors}.".lstrip()
        return ending, detail

    def _judge(self, stderr: str) -> tuple[Ending, str]:
        program = self._program
        if self._limit:
            return self._limit, self._allowance.sentence(program.name, self._limit)
        if program.exit_code == 0:
            return Ending.FINISHED, ""
        if program.exit_code is None and self._should_stop():
            # Ctrl+C reaches a guard that has not yet left our session; that is a stop like any other.
            return Ending.STOPPED, self._allowance.sentence(program.name, Ending.STOPPED)
        return Ending.CRASHED, program.death(stderr)

    # The pipes.

    def _attend(self, pipe: IO[bytes] | None, events: int, react: Callable[[], object]) -> None:
        if pipe:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events, react)

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()

    def _read(self, pipe: IO[bytes] | None) -> bytes:
        """Give what there is to read now, if anything; close the pipe at its end."""
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
        if chunk and self._broadcast:
            self._broadcast.add(chunk)
        return self._keep(chunk, self.stdout)

    def _read_stderr(self) -> bool:
        return self._keep(self._read(self._program.stderr), self.stderr)

    def _keep(self, chunk: bytes, kept: Kept) -> bool:
        if chunk:
            kept.add(chunk)
            self._allowance.took(len(chunk))
        return bool(chunk)

    def _write_stdin(self) -> None:
        stdin = self._program.stdin
        assert stdin
        try:
            self._unsent = self._unsent[os.write(stdin.fileno(), self._unsent[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # It does not want to hear more.
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(stdin)

    def _read_news(self) -> None:
        self._program.hear_news(self._read(self._program.news))
        if self._program.exit_code is not None and self._exited_at is None:
            self._exited_at = time.monotonic()

    # The end.

    def _decide(self, now: float) -> None:
        stdout = self._program.stdout
        if self._ending_since is not None:
            if now - self._ending_since > GUARD_SECONDS:
                self._program.kill_guard()
        elif self._exited_at is not None:
            if not stdout or stdout.closed or now - self._exited_at > DRAIN_SECONDS:
                self._ask_to_end(now)
        elif limit := self._allowance.passed(now):
            self._limit = limit
            if limit is Ending.FLOODED:
                self._close(stdout)
                self._close(self._program.stderr)
            self._ask_to_end(now)

    def _ask_to_end(self, now: float) -> None:
        self._ending_since = now
        self._program.ask_to_end()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
