"""Recorder of the live event log of a run, without the secrets that agents print."""

from __future__ import annotations

import errno
import json
import os
import re

from ralph.core.redaction import redact
from ralph.core.text import clean
from ralph.loop.progress import ProgressEvent, ignore_output_errors, progress_event
from ralph.loop.run_log import (
    HEADER,
    HEADER_BYTES,
    LIVE_FOLDER,
    MAX_LOG_BYTES,
    dropped_bytes,
    log_folder,
    log_path,
    logged_runs,
    open_regular,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from ralph.loop.progress import EventHandler

MAX_LOGGED_RUNS = 5
"""Maximum number of logs kept."""
MAX_EARLY_EVENTS = 1_000
"""Maximum number of events buffered before the run id is known."""
MAX_PENDING_CHARACTERS = 8_000
"""Maximum length of an unfinished line or key that is buffered, and of output logged at once, in characters."""
MIN_SECRET_CHARACTERS = 10
"""Strings shorter than this, in characters, are not redacted."""
EVENTS_DROPPED_MESSAGE = "Older events of this run were dropped: its log reached the size limit."
CUT_MARKER = " […]\n"
_KEY_BEGIN = re.compile(r"BEGIN [A-Z0-9 ]*PRIVATE KEY|Private-Lines: \d")
_KEY_END = re.compile(r"END [A-Z0-9 ]*PRIVATE KEY|Private-MAC: ")
_KEY_LINES = re.compile(r"(?m)(?:^[ \t\"'+>|]{0,12}[A-Za-z0-9+/]{64,76}={0,2}\n)+\Z")
_AWAITS_VALUE = re.compile(r"(?i)(?:pass|pwd|secret|token|key)[\w.-]{0,20}[\"']?\s{0,3}(?:=>|:=|=|:)?\s{0,3}\Z")
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


class RunRecorder:
    """Event listener that forwards events and logs them; the run continues if logging fails."""

    def __init__(self, root: Path | str, listener: EventHandler) -> None:
        self._root = root
        self._forward = ignore_output_errors(listener)  # a closed terminal must not stop the log
        self._file: _LogFile | None = None
        self._early_events: list[ProgressEvent] = []
        """Events emitted before the run id was known."""
        self._redactors: dict[object, _LineRedactor] = {}
        """Incomplete output by worker."""
        self._is_disabled = False

    def __enter__(self) -> RunRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def __call__(self, event: ProgressEvent) -> None:
        """Log an event and forward it."""
        if not self._is_disabled:
            try:
                self._record(event)
            except (OSError, ValueError) as error:
                self._disable(error)
        self._forward(event)

    def _disable(self, error: Exception) -> None:
        self._is_disabled = True
        self._early_events.clear()
        reason = getattr(error, "strerror", None) or str(error)
        self._forward(
            progress_event(
                "warning", message=f"This run cannot be watched from another terminal: {LIVE_FOLDER}: {reason}."
            )
        )

    def _record(self, event: ProgressEvent) -> None:
        if self._file is None:
            run_id = event.details.get("run_id")
            if not (event.what in ("run_started", "run_ended") and isinstance(run_id, str)):
                if len(self._early_events) < MAX_EARLY_EVENTS:
                    self._early_events.append(event)
                return
            self._file = _LogFile(self._root, run_id)
            early, self._early_events = self._early_events, []
            for one in early:
                self._write(one)
        self._write(event)

    def _write(self, event: ProgressEvent) -> None:
        assert self._file
        worker = event.details.get("worker")
        redactor = self._redactors.get(worker)
        if event.what == "output":
            if redactor is None:
                redactor = self._redactors[worker] = _LineRedactor()
            if redacted := redactor.add(str(event.details["text"])):
                self._file.add(ProgressEvent(what="output", at=event.at, details={**event.details, "text": redacted}))
            return
        for one in (redactor,) if event.what != "run_ended" else tuple(self._redactors.values()):
            if one and (text := one.finish()):
                named = {"worker": worker} if worker else {}
                self._file.add(ProgressEvent(what="output", at=event.at, details={"text": text, **named}))
        self._file.add(ProgressEvent(what=event.what, at=event.at, details=_safe(event.details)))


def _safe(value: Any) -> Any:
    """Return event details with all strings cleaned and redacted."""
    if isinstance(value, str):
        return value if len(value) < MIN_SECRET_CHARACTERS and value.isprintable() else redact(clean(value))
    if isinstance(value, dict):
        return {name: _safe(one) for name, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list | tuple) else value


class _LogFile:
    """Bounded log file of one run, open for writing."""

    def __init__(self, root: Path | str, run_id: str) -> None:
        """Open the log, appending if the run is resumed, and delete the logs of the oldest runs."""
        self._path = log_path(root, run_id)
        folder = log_folder(root)
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        os.chmod(folder, 0o700)  # noqa: PTH101
        _remove_old(root, run_id)
        self._dropped_bytes, self._size = 0, 0
        self._handle = open_regular(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        os.fchmod(self._handle, 0o600)
        dropped = dropped_bytes(os.pread(self._handle, HEADER_BYTES, 0))
        self._size = os.fstat(self._handle).st_size
        if dropped is None or self._size > MAX_LOG_BYTES:
            os.ftruncate(self._handle, 0)
            self._size = 0
            self._append(HEADER % 0)
        else:
            self._dropped_bytes = dropped
            # The previous writer may have been killed in the middle of a line.
            if os.pread(self._handle, 1, self._size - 1) != b"\n":
                self._append(b"\n")

    def add(self, event: ProgressEvent) -> None:
        """Append an event."""
        line = _line(event)
        if self._size + len(line) > MAX_LOG_BYTES:
            self._shorten(max(0, MAX_LOG_BYTES // 2 - len(line)))
        self._append(line)

    def _append(self, line: bytes) -> None:
        if os.write(self._handle, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)

    def _shorten(self, max_bytes: int) -> None:
        """Replace the file by one with only the newest lines."""
        self._size = os.fstat(self._handle).st_size  # other processes may have written to it
        newest = os.pread(self._handle, max_bytes, max(HEADER_BYTES, self._size - max_bytes))
        newest = newest[newest.find(b"\n") + 1 :]
        note = _line(progress_event("note", message=EVENTS_DROPPED_MESSAGE))
        # The note counts as part of the dropped bytes, so that the remaining lines keep their positions.
        dropped = self._dropped_bytes + self._size - HEADER_BYTES - len(newest) - len(note)
        new = f"{self._path}.new"
        _unlink(new)
        handle = open_regular(new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        os.close(self._handle)
        self._handle, self._dropped_bytes, self._size = handle, dropped, 0
        self._append(HEADER % dropped + note + newest)
        os.replace(new, self._path)  # noqa: PTH105

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def _line(event: ProgressEvent) -> bytes:
    fields = {"what": event.what, "at": event.at, "details": event.details}
    return _encode(fields).encode("utf-8", "replace") + b"\n"


def _remove_old(root: Path | str, run_id: str) -> None:
    """Delete the logs of the oldest runs to stay within the limit."""
    others = [one for one in logged_runs(root) if one != run_id]
    for one in others[MAX_LOGGED_RUNS - 1 :]:
        _unlink(log_path(root, one))
        _unlink(f"{log_path(root, one)}.new")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        pass


class _LineRedactor:
    """Redactor for text that arrives in chunks, which returns whole lines.

    A private key is returned as one piece, and so is a line that ends with a name like `password:` with its value.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._skips_line = False
        """Whether the rest of the current line is dropped."""

    def add(self, text: str) -> str:
        """Add a chunk and return the lines that are complete now; of a large chunk, only the end is used."""
        if len(text) > MAX_PENDING_CHARACTERS:
            self._pending, text, self._skips_line = "", text[-MAX_PENDING_CHARACTERS:], True
        cut = ""
        if self._skips_line:
            _, newline, text = text.partition("\n")
            self._skips_line = not newline
            cut = CUT_MARKER if newline else ""
        text = self._pending + text
        end = _complete_until(text)
        self._pending = text[end:]
        if len(self._pending) > MAX_PENDING_CHARACTERS:
            self._skips_line = not self._pending.endswith("\n")
            self._pending = ""
        return cut + (redact(text[:end]) if end else "")

    def finish(self) -> str:
        """Return the rest at the end of the stream."""
        text, self._pending, self._skips_line = self._pending, "", False
        return redact(text) if text else ""


def _complete_until(text: str) -> int:
    """Return the end of the last line after which no secret continues."""
    end = text.rfind("\n") + 1
    begins = [found.start() for found in _KEY_BEGIN.finditer(text, 0, end)]
    if begins and not _KEY_END.search(text, begins[-1], end):
        end = text.rfind("\n", 0, begins[-1]) + 1
    elif found := _KEY_LINES.search(text, 0, end):
        end = found.start()  # the end of a key whose beginning was not printed
    elif _AWAITS_VALUE.search(text, max(0, end - 100), end):
        end = text.rfind("\n", 0, len(text[:end].rstrip())) + 1
    return end
