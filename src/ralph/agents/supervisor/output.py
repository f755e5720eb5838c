"""Output of a program: what is kept of it, how it is shown live, and the limits it counts against."""

from __future__ import annotations

import codecs
import io
import re
import time
from typing import TYPE_CHECKING

from ralph.agents.supervisor.reaper import find_descendants, memory_of
from ralph.core.records import SessionEnding
from ralph.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.agents import Limits

HEAD_SHARE = 0.25
"""Share of the kept output taken from the start; the rest is the end, where the sigils are."""
USAGE_POLL_SECONDS = 0.2
"""Interval at which memory and processes are measured, in seconds."""
STOP_POLL_SECONDS = 0.1
"""Interval at which `should_stop` is asked, in seconds."""


class OutputBuffer:
    """Head and tail of a byte stream, and the number of bytes dropped in between."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped_bytes = 0

    def add(self, chunk: bytes) -> None:
        """Append bytes."""
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._tail_bytes:
            self._trim()

    def text(self) -> str:
        """Return the stored output as clean text, with a line that says how much was dropped."""
        self._trim()
        if not self._dropped_bytes:
            return clean((self._head + self._tail).decode("utf-8", "replace"))
        # Cleaned separately: an escape sequence cut in half must not swallow what follows.
        head, tail = (clean(part.decode("utf-8", "replace")) for part in (self._head, self._tail))
        return f"{head}\n[... {self._dropped_bytes:,} bytes left out ...]\n{tail}"

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._dropped_bytes += excess


class TextForwarder:
    """Forwards bytes as clean text, without splitting characters or terminal escapes."""

    _HALF_ESCAPE = re.compile(r"\x1b(?:\[[ -?]{0,64}|[\]PX^_][^\x07]{0,256})?\Z")

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._incomplete = ""

    def add(self, chunk: bytes) -> None:
        """Forward what is complete so far."""
        text = self._incomplete + self._decoder.decode(chunk, final=not chunk)
        last_escape = text.rfind("\x1b")
        is_half = chunk and last_escape >= 0 and self._HALF_ESCAPE.match(text, last_escape)
        whole = text[:last_escape] if is_half else text
        self._incomplete = text[len(whole) :]
        if cleaned := clean(whole):
            self._on_output(cleaned)

    def finish(self) -> None:
        """Forward the rest."""
        self.add(b"")


class LimitTracker:
    """Limits of a session and how much of them is used."""

    def __init__(self, limits: Limits, should_stop: Callable[[], bool], guard_pid: int = 0) -> None:
        """`guard_pid`: the process whose descendants are the session's."""
        self._limits = limits
        self._should_stop = should_stop
        self._guard_pid = guard_pid
        self._last_usage_check = 0.0
        self._output_bytes = 0
        self._started_at = self._last_output = self._last_stop_check = time.monotonic()

    @property
    def is_flooded(self) -> bool:
        """Whether the output limit is exceeded."""
        return self._output_bytes > self._limits.output_bytes

    def count_output(self, output_bytes: int) -> None:
        """Count printed bytes."""
        self._output_bytes += output_bytes
        self._last_output = time.monotonic()

    def exceeded_limit(self, now: float) -> SessionEnding | None:
        """Return the limit that is exceeded, if any."""
        if now - self._started_at > self._limits.seconds:
            return SessionEnding.TIMED_OUT
        if now - self._last_output > self._limits.idle_seconds:
            return SessionEnding.WENT_SILENT
        if self.is_flooded:
            return SessionEnding.FLOODED
        if now - self._last_usage_check >= USAGE_POLL_SECONDS and (limit := self._exceeded_usage()):
            return limit
        if now - self._last_stop_check >= STOP_POLL_SECONDS:
            self._last_stop_check = now
            if self._should_stop():
                return SessionEnding.STOPPED
        return None

    def _exceeded_usage(self) -> SessionEnding | None:
        """Return whether the processes of the session use too much memory, or are too many."""
        limits = self._limits
        if not self._guard_pid or not (limits.memory_bytes or limits.processes):
            return None
        pids = [pid for pid, *_ in find_descendants(self._guard_pid)]
        self._last_usage_check = time.monotonic()
        if limits.processes and len(pids) > limits.processes:
            return SessionEnding.TOO_MANY_PROCESSES
        if limits.memory_bytes and sum(map(memory_of, pids)) > limits.memory_bytes:
            return SessionEnding.OUT_OF_MEMORY
        return None

    def describe_limit(self, name: str, limit: SessionEnding) -> str:
        """Return a sentence that names the exceeded limit."""
        limits = self._limits
        description = {
            SessionEnding.TIMED_OUT: f"was still running after {limits.seconds:g} s and was terminated",
            SessionEnding.WENT_SILENT: f"printed nothing for {limits.idle_seconds:g} s and was terminated",
            SessionEnding.FLOODED: f"printed more than {limits.output_bytes:,} bytes and was terminated",
            SessionEnding.OUT_OF_MEMORY: f"used more than {limits.memory_bytes >> 20:,} MB and was terminated",
            SessionEnding.TOO_MANY_PROCESSES: f"had more than {limits.processes:,} processes and was terminated",
            SessionEnding.STOPPED: "was stopped",
        }[limit]
        return f"{name} {description}."
