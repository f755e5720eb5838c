"""Messages of the Agent Client Protocol over the pipes of an agent."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
from typing import TYPE_CHECKING, Any

from ralph.agents.acp_updates import INTERNAL_ERROR
from ralph.agents.streams import JsonLinesParser, text_at, value_at
from ralph.agents.supervisor.output import OutputBuffer
from ralph.agents.supervisor.process import CHUNK_BYTES, DRAIN_SECONDS, MAX_STDERR_BYTES
from ralph.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from ralph.agents.supervisor.output import LimitTracker
    from ralph.agents.supervisor.process import GuardedProcess

MAX_MESSAGE_CHARACTERS = 16 * 1024 * 1024
"""Maximum length of a message, in characters."""


class AcpTransport:
    """Transport between the SDK and the agent's pipes.

    Nothing here raises for what the agent does: the SDK would log it to the user's terminal.

    """

    def __init__(self, program: GuardedProcess, allowance: LimitTracker, updated: Callable[[object], None]) -> None:
        self.stderr = OutputBuffer(0, MAX_STDERR_BYTES)
        self.is_closed = False
        """Whether no more messages will arrive."""
        self.is_guard_gone = False
        self._program = program
        self._allowance = allowance
        self._updated = updated
        self._lines = JsonLinesParser(MAX_MESSAGE_CHARACTERS)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incoming: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._unsent = bytearray()
        self._is_gone = asyncio.Event()
        self._watched_fds: set[int] = set()

    @property
    def stray(self) -> str:
        """Last line on stdout that was not a message, shortened."""
        return self._lines.last_skipped

    def last_stderr_line(self) -> str:
        """Return the last line on stderr, shortened."""
        return one_line(self.stderr.text().rstrip().rpartition("\n")[2])

    # Transport interface of the SDK.

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, or drop it if the agent no longer reads."""
        stdin = self._program.stdin
        if stdin and not stdin.closed:
            self._unsent += json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
            self._watch(stdin, self._write, to_write=True)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end of the stream."""
        return await self._incoming.get()

    async def close(self) -> None:
        """Close the agent's stdin."""
        self.close_stdin()

    # Used by the session.

    def start_reading(self) -> None:
        """Start reading."""
        self._watch(self._program.status_pipe, self._read_news)
        self._watch(self._program.stdout, self._read_stdout)
        self._watch(self._program.stderr, self._read_stderr)
        if self._program.stdin:
            os.set_blocking(self._program.stdin.fileno(), False)

    def close_stdin(self) -> None:
        """Close the agent's stdin and discard unsent data."""
        self._unsent.clear()
        self._close_pipe(self._program.stdin)

    async def wait_until_gone(self, seconds: float) -> None:
        """Wait until the agent and all its descendants are gone, up to a timeout in seconds."""
        try:
            await asyncio.wait_for(self._is_gone.wait(), seconds)
        except TimeoutError:
            pass

    def stop_reading(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop reading."""
        for fd in self._watched_fds:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
        self._watched_fds.clear()

    def _watch(self, pipe: IO[bytes] | None, react: Callable[[], None], *, to_write: bool = False) -> None:
        if pipe:
            loop = asyncio.get_running_loop()
            os.set_blocking(pipe.fileno(), False)
            (loop.add_writer if to_write else loop.add_reader)(pipe.fileno(), react)
            self._watched_fds.add(pipe.fileno())

    def _close_pipe(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            loop = asyncio.get_running_loop()
            loop.remove_reader(pipe.fileno())
            loop.remove_writer(pipe.fileno())
            self._watched_fds.discard(pipe.fileno())
            pipe.close()

    def _read(self, pipe: IO[bytes] | None) -> bytes | None:
        """Return available bytes, or None if there are none yet; close the pipe at its end."""
        if not pipe or pipe.closed:
            return b""
        try:
            chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return None
        if not chunk:
            self._close_pipe(pipe)
        return chunk

    def _read_stdout(self) -> None:
        chunk = self._read(self._program.stdout)
        if chunk is None:
            return
        self._allowance.count_output(len(chunk))
        messages = self._lines.add(self._decoder.decode(chunk, final=not chunk))
        for message in messages if chunk else [*messages, *self._lines.finish()]:
            self._dispatch(message)
        if not chunk or self._allowance.is_flooded:
            self._close()

    def _read_stderr(self) -> None:
        chunk = self._read(self._program.stderr)
        if chunk:
            self.stderr.add(chunk)
            self._allowance.count_output(len(chunk))
            if self._allowance.is_flooded:
                self._close_pipe(self._program.stderr)

    def _read_news(self) -> None:
        chunk = self._read(self._program.status_pipe)
        if chunk is None:
            return
        self._program.handle_status(chunk)
        if not chunk or self._program.exit_code is not None:
            # Descendants may keep the output open, or the agent itself if its guard was killed.
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._close)
        if not chunk:
            self.is_guard_gone = True
            self._is_gone.set()

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._close_pipe(self._program.stdout)
            self._incoming.put_nowait(None)

    def _dispatch(self, message: dict[str, Any]) -> None:
        """Handle updates immediately, in order, and pass other valid messages to the SDK."""
        method, id = message.get("method"), message.get("id")
        if method == "session/update":
            self._updated(message.get("params"))
        elif "id" in message and isinstance(id, int | str) and isinstance(method, str | None):
            if "error" in message:
                message = {**message, "error": _error(message["error"])}
            self._incoming.put_nowait(message)

    def _write(self) -> None:
        stdin = self._program.stdin
        if not stdin or stdin.closed:
            return
        try:
            del self._unsent[: os.write(stdin.fileno(), self._unsent[:CHUNK_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # The agent closed its stdin.
            self.close_stdin()
            return
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(stdin.fileno())


def _error(error: object) -> dict[str, Any]:
    """Return an error object in the form the SDK expects."""
    code = value_at(error, "code")
    return {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": text_at(error, "message") or "no reason given",
        "data": value_at(error, "data"),
    }
