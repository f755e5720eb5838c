"""Live event log of a run, one JSON line per event, for watching a run from another process.

The log is for display, not a record: it is bounded, never synced, and a run continues without it. Agents work in the
same directory and can write to it, so readers trust nothing in it.

Positions count from the beginning of everything ever written. The first line says how much of that was dropped, so
that a reader can continue after the file was shortened.

"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import time

from ralph.core.errors import RalphError
from ralph.core.redaction import redact
from ralph.core.text import clean
from ralph.loop.options import stored_worker
from ralph.loop.progress import ProgressEvent, ignore_output_errors, progress_event
from ralph.loop.workers import dead_workers, is_worker_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from ralph.core.records import Attempt, Run
    from ralph.loop.progress import EventHandler
    from ralph.store import Store

LIVE_FOLDER = ".ralph/ralph.db-live"
"""Folder of the logs, with a prefix that git ignores in a project."""
MAX_LOG_BYTES = 2 * 1024 * 1024
"""Approximate maximum size of a log, in bytes; then its older half is dropped."""
MAX_DROPPED_BYTES = 2**50
"""Largest plausible number of dropped bytes; anything above was not written by us."""
MAX_LOGGED_RUNS = 5
"""Maximum number of logs kept."""
MAX_EARLY_EVENTS = 1_000
"""Maximum number of events buffered before the run id is known."""
POLL_SECONDS = 0.1
"""Interval between reads, in seconds."""
LIVENESS_CHECK_SECONDS = 1.0
"""Interval between checks whether a silent run is still alive, in seconds."""
FIRST_EVENT_SECONDS = 3.0
"""Time from the start of a run to its first event, in seconds."""
MAX_SEARCHED_RUNS = 20
"""Number of latest runs searched for an active one."""
EVENTS_DROPPED_MESSAGE = "Older events of this run were dropped: its log reached the size limit."
LOG_RESET_MESSAGE = "The log of this run was reset: it is shown from its beginning."

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that JavaScript represents exactly."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_SUFFIX = ".jsonl"
_HEADER = b'{"left_out":"%016d"}\n'
_HEADER_BYTES = len(_HEADER % 0)
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


# --- files -----------------------------------------------------------------------------------


def logged_runs(root: Path | str) -> list[str]:
    """Return the ids of logged runs, latest first."""
    found = []
    try:
        with os.scandir(_folder(root)) as entries:
            for entry in entries:
                name = entry.name.removesuffix(_SUFFIX)
                if name != entry.name and _NAME.fullmatch(name) and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, name))
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]


def _folder(root: Path | str) -> str:
    """Return the log folder; raise an error if a link leads out of the project."""
    folder = os.path.join(root, LIVE_FOLDER)  # noqa: PTH118
    expected = os.path.join(os.path.realpath(root), LIVE_FOLDER)  # noqa: PTH118
    if os.path.realpath(folder) != expected:
        raise OSError(errno.ELOOP, "link leads out of the project", folder)
    return folder


def _path(root: Path | str, run_id: str) -> str:
    if not _NAME.fullmatch(run_id):
        raise FileNotFoundError(errno.ENOENT, "invalid run id", run_id)
    return os.path.join(_folder(root), run_id + _SUFFIX)  # noqa: PTH118


def _open(path: str, flags: int) -> int:
    """Open a regular file: no link, and nothing that blocks."""
    harmless = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | harmless, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


# --- writing ---------------------------------------------------------------------------------


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
        self._rate_limiter = _RateLimiter()
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
            text = str(event.details["text"])
            if not self._rate_limiter.allows(len(text)):
                redactor.leave_out(text)
            elif redacted := redactor.add(text):
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
        self._path = _path(root, run_id)
        folder = _folder(root)
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        os.chmod(folder, 0o700)  # noqa: PTH101
        _remove_old(root, run_id)
        self._dropped_bytes, self._size = 0, 0
        self._handle = _open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(self._handle, 0o600)
        dropped = _dropped_bytes(os.pread(self._handle, _HEADER_BYTES, 0))
        self._size = os.fstat(self._handle).st_size
        if dropped is None or self._size > MAX_LOG_BYTES:
            os.ftruncate(self._handle, 0)
            self._size = 0
            self._append(_HEADER % 0)
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
        newest = os.pread(self._handle, max_bytes, max(_HEADER_BYTES, self._size - max_bytes))
        newest = newest[newest.find(b"\n") + 1 :]
        note = _line(progress_event("note", message=EVENTS_DROPPED_MESSAGE))
        # The note counts as part of the dropped bytes, so that the remaining lines keep their positions.
        dropped = self._dropped_bytes + self._size - _HEADER_BYTES - len(newest) - len(note)
        new = f"{self._path}.new"
        _unlink(new)
        handle = _open(new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        os.close(self._handle)
        self._handle, self._dropped_bytes, self._size = handle, dropped, 0
        self._append(_HEADER % dropped + note + newest)
        os.replace(new, self._path)  # noqa: PTH105

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def _line(event: ProgressEvent) -> bytes:
    fields = {"what": event.what, "at": event.at, "details": event.details}
    return _encode(fields).encode("utf-8", "replace") + b"\n"


def _dropped_bytes(header: bytes) -> int | None:
    """Return the number of dropped bytes according to the header; None if it is not ours."""
    digits = header[13:-3]
    if not digits.isdigit() or header != _HEADER % int(digits):
        return None
    return int(digits) if int(digits) <= MAX_DROPPED_BYTES else None


def _remove_old(root: Path | str, run_id: str) -> None:
    """Delete the logs of the oldest runs to stay within the limit."""
    others = [one for one in logged_runs(root) if one != run_id]
    for one in others[MAX_LOGGED_RUNS - 1 :]:
        _unlink(_path(root, one))
        _unlink(f"{_path(root, one)}.new")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        pass


# --- redaction -------------------------------------------------------------------------------

MAX_PENDING_CHARACTERS = 16_000
"""Maximum length of an incomplete line or secret that is buffered, in characters."""
UNCERTAIN_CHARACTERS = 1_000
"""Characters at the end of a truncated text that may be the beginning of a secret."""
MAX_KEY_CHARACTERS = 32_000
"""Maximum length of a private key, in characters."""
KEY_LINE_LOOKBACK = 200
"""Characters at the end of a line searched for key material; other text may precede it."""
MAX_REDACTED_PER_SECOND = 100_000
"""Maximum rate of redaction, in characters per second."""
MAX_REDACTED_BURST = 500_000.0
"""Maximum burst, in characters."""
MIN_SECRET_CHARACTERS = 10
"""Strings shorter than this, in characters, are not redacted."""
MAX_MARKER_CHARACTERS = 100
"""Maximum length of the marker that ends a dropped part, in characters."""
TAIL_CHARACTERS = 100
CUT_MARKER = " […]\n"
_LINE_END = re.compile("\n")
_KEY_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_LINE = re.compile(r"[^\n]*?(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{64,76}={0,2}")
_PUTTY_END = re.compile("Private-MAC: ")
_PUTTY_OPEN = re.compile(r"Private-Lines: \d{1,4}\s+(?:[A-Za-z0-9+/=]+\s+)*\Z")
_LONG_SECRETS = (
    ("PRIVATE KEY", _KEY_BEGIN, _KEY_END),
    ("Private-Lines", re.compile(r"Private-Lines: \d"), _PUTTY_END),
)
_SECRET_NAMES = ("pass", "pwd", "secret", "token", "key")
_AWAITS_VALUE = re.compile(
    r"(?:pass|pwd|secret|token|key)[\w.-]{0,20}[\"']?\s{0,3}(?:=>|:=|=|:)?\s{0,3}\Z",
)


class _RateLimiter:
    """Rate limiter for redaction, so that a talkative agent is not slowed down by it."""

    def __init__(self) -> None:
        self._available = MAX_REDACTED_BURST
        self._refilled_at = time.monotonic()

    def allows(self, characters: int) -> bool:
        """Return whether this many more characters are within the rate."""
        at = time.monotonic()
        self._available = min(MAX_REDACTED_BURST, self._available + (at - self._refilled_at) * MAX_REDACTED_PER_SECOND)
        self._refilled_at = at
        if self._available < characters:
            return False
        self._available -= characters
        return True


class _LineRedactor:
    """Redactor for text that arrives in chunks, so that no secret slips through between two of them.

    Returns whole lines. Lines that belong together, like those of a private key, are returned together; what gets too
    long is truncated.

    """

    def __init__(self) -> None:
        self._pending = ""
        self._has_unreported_cut = False
        """Whether something was dropped that was not reported yet."""
        self._skip_until: re.Pattern[str] | None = None
        """Pattern that ends the part being dropped, if any."""
        self._skipped = 0
        self._tail = ""
        """End of the text dropped so far."""

    def add(self, text: str) -> str:
        """Add a chunk and return the lines that are complete now."""
        text = self._after_dropped(text) if self._skip_until else self._pending + text
        end = text.rfind("\n") + 1
        end = _unfinished_since(text, end) if end else 0
        whole, rest = text[:end], text[end:]
        result = redact(whole) if whole else ""
        if self._has_unreported_cut and result:
            self._has_unreported_cut, result = False, CUT_MARKER + result
        if len(rest) > MAX_PENDING_CHARACTERS:
            self._start_dropping(rest)
            # The common prefix with and without the end does not depend on how the text continues.
            return result + _common_prefix(redact(rest), redact(rest[:-UNCERTAIN_CHARACTERS])) + CUT_MARKER
        self._pending = rest
        return result

    def leave_out(self, text: str) -> None:
        """Add a chunk and drop it."""
        self._has_unreported_cut = True
        if self._skip_until not in (None, _LINE_END):
            text = self._after_dropped(text)
        if self._skip_until in (None, _LINE_END):
            self._start_dropping(self._pending + text)

    def finish(self) -> str:
        """Return the rest at the end of the stream."""
        text, self._pending = self._pending, ""
        is_cut, self._has_unreported_cut = self._has_unreported_cut, False
        self._skip_until, self._tail = None, ""
        return (CUT_MARKER if is_cut else "") + (redact(text) if text else "")

    def _start_dropping(self, text: str) -> None:
        """Drop a text and what follows, up to the end of the line or of a key that starts in it."""
        text, self._pending, self._skipped = self._tail + text, "", 0
        self._skip_until, self._tail = _LINE_END, text[-MAX_MARKER_CHARACTERS:]
        for word, begins, ends in _LONG_SECRETS:
            if word in text:
                last = max((found.end() for found in begins.finditer(text)), default=0)
                if last and not ends.search(text, last):
                    self._skip_until, self._tail = ends, text[last:][-MAX_MARKER_CHARACTERS:]

    def _after_dropped(self, text: str) -> str:
        """Return what follows the dropped part; empty while it continues."""
        while self._skip_until is _LINE_END:
            end = text.find("\n") + 1
            self._start_dropping(text[:end] if end else text)
            if not end:
                return ""
            text = text[end:]
            if self._skip_until is _LINE_END and _unfinished_since(self._tail, len(self._tail)) == len(self._tail):
                self._skip_until, self._tail = None, ""
                return text
        assert self._skip_until
        seen = self._tail + text
        if found := self._skip_until.search(seen):
            self._skip_until, self._tail = None, ""
            return seen[found.end() :]
        self._skipped += len(text)
        self._tail = seen[-MAX_MARKER_CHARACTERS:]
        if self._skipped > MAX_KEY_CHARACTERS:  # too long for a key
            self._skip_until = _LINE_END
        return ""


def _common_prefix(one: str, other: str) -> str:
    differ = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]


def _unfinished_since(text: str, end: int) -> int:
    """Return the start of the last line that may hold an unfinished secret, or `end` if there is none."""
    if "PRIVATE KEY" in text:
        begins = [found.start() for found in _KEY_BEGIN.finditer(text, 0, end)]
        if begins and not _KEY_END.search(text, begins[-1], end):
            return text.rfind("\n", 0, begins[-1]) + 1
    if "Private-Lines" in text and (found := _PUTTY_OPEN.search(text, 0, end)):
        return text.rfind("\n", 0, found.start()) + 1
    tail = text[max(0, end - TAIL_CHARACTERS) : end].lower()
    if any(name in tail for name in _SECRET_NAMES) and _AWAITS_VALUE.search(tail):
        return text.rfind("\n", 0, len(text[:end].rstrip())) + 1
    return _trailing_key_start(text, end)


def _trailing_key_start(text: str, end: int) -> int:
    """Return the start of trailing base64 lines, which may be part of an unfinished key."""
    while end:
        start = text.rfind("\n", 0, end - 1) + 1
        if not _KEY_LINE.fullmatch(text, max(start, end - 1 - KEY_LINE_LOOKBACK), end - 1):
            break
        end = start
    return end


# --- reading ---------------------------------------------------------------------------------


def read_events(root: Path | str, run_id: str, offset: int = 0) -> tuple[list[ProgressEvent], int]:
    """Return the events of a run after a position, and the next position; nothing if there is no log.

    One call returns a bounded part; there may be more. If the position no longer exists, reading restarts with what is
    left, and a note event says so.

    """
    try:
        handle = _open(_path(root, run_id), os.O_RDONLY)
    except OSError:
        return [], offset
    try:
        dropped = _dropped_bytes(os.pread(handle, _HEADER_BYTES, 0))
        if dropped is None:
            return [], offset
        end = dropped + os.fstat(handle).st_size - _HEADER_BYTES
        events = [progress_event("note", message=LOG_RESET_MESSAGE)] if offset > end else []
        start = dropped if offset > end else max(offset, dropped)
        piece = os.pread(handle, MAX_LOG_BYTES, start - dropped + _HEADER_BYTES)
    except OSError:
        return [], offset
    finally:
        os.close(handle)
    # The last line may be incomplete; a line longer than a whole log was not written by us.
    whole = piece[: piece.rfind(b"\n") + 1] or (piece if len(piece) == MAX_LOG_BYTES else b"")
    events += [one for line in whole.splitlines() if (one := _parse_event(line))]
    return events, start + len(whole)


def _parse_event(line: bytes) -> ProgressEvent | None:
    """Return the event in a line, or None."""
    try:
        fields = json.loads(line)
        what, at, details = fields["what"], fields["at"], fields["details"]
        if not (isinstance(what, str) and isinstance(at, str) and isinstance(details, dict) and _is_portable(fields)):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ProgressEvent(what=what, at=at, details=details)


def _is_portable(value: object) -> bool:
    """Return whether a value can be sent to any client: no lone surrogates, no unsafe numbers."""
    if isinstance(value, str):
        return value.isascii() or not _SURROGATES.search(value)
    if isinstance(value, dict):
        return all(_is_portable(key) and _is_portable(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_portable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= MAX_SAFE_INTEGER


def follow_events(
    root: Path | str, run_id: str, is_alive: Callable[[], bool], offset: int = 0
) -> Iterator[ProgressEvent]:
    """Yield events of a run after a position as they arrive, until it ends or its process is gone."""
    looked = time.monotonic()
    is_over = False
    while True:
        events, offset = read_events(root, run_id, offset)
        yield from events
        if events and events[-1].what == "run_ended":
            return  # a resumed run logs another event after this one
        if events:
            continue
        if is_over:
            return
        time.sleep(POLL_SECONDS)
        if time.monotonic() - looked > LIVENESS_CHECK_SECONDS:
            looked = time.monotonic()
            is_over = not is_alive()  # read once more, for final events


# --- watching --------------------------------------------------------------------------------


def is_running_here(run: Run) -> bool:
    """Return whether a process on this machine works on a run."""
    return run.ended_at is None and is_worker_alive(stored_worker(run.options))


def is_process_gone(run: Run) -> bool:
    """Return whether the run's process was on this machine and certainly no longer exists."""
    return run.ended_at is None and bool(dead_workers({stored_worker(run.options)}))


def is_run_over(run: Run) -> bool:
    """Return whether a run has ended or was killed, as far as this machine can tell."""
    return run.ended_at is not None or is_process_gone(run)


def is_run_active(run: Run, running: Sequence[Attempt]) -> bool:
    """Return whether somebody works on a run: here or, judging by its `running` attempts, elsewhere."""
    return not is_run_over(run) and (is_running_here(run) or bool(running))


def poll_events(root: Path | str, run: Run, offset: int = 0) -> tuple[list[ProgressEvent], int, bool]:
    """Return events of a run after a position, the next position, and whether the run is complete."""
    # Checked before reading: the last event is written after the store says that the run has ended.
    is_running = is_worker_alive(stored_worker(run.options))
    events, offset = read_events(root, run.id, offset)
    is_complete = bool(events) and events[-1].what == "run_ended"
    return events, offset, is_run_over(run) and (is_complete or not (events or is_running))


def find_run_to_watch(store: Store, run_id: str = "") -> Run | None:
    """Return the requested run, or else the latest one active here, or else the latest."""
    if run_id:
        return store.runs.get(run_id)
    latest = store.runs.latest(MAX_SEARCHED_RUNS)
    return next((run for run in latest if is_running_here(run)), latest[0] if latest else None)


def require_watchable(root: Path | str, run: Run) -> None:
    """Raise an error if a run is on another machine or has no log here."""
    if not is_running_here(run):
        raise RalphError(f"{run.id} runs on another machine or in another container. Watch it there.")
    deadline = time.monotonic() + FIRST_EVENT_SECONDS
    while run.id not in logged_runs(root):
        if time.monotonic() > deadline:
            raise RalphError(
                f"{run.id} has no log in {LIVE_FOLDER}. It can only be watched in the terminal it was started in."
            )
        time.sleep(POLL_SECONDS)


def watch_events(root: Path | str, run: Run) -> Iterator[ProgressEvent]:
    """Yield events of a run, starting with the current attempt, until it ends or its process is gone."""
    past: list[ProgressEvent] = []
    events, offset = read_events(root, run.id)
    while events:
        past += events
        events, offset = read_events(root, run.id, offset)
    if past and past[-1].what != "run_ended":  # otherwise the run was resumed and is about to log that
        yield from current_events(past)
    yield from follow_events(root, run.id, lambda: is_running_here(run), offset)


def current_events(events: Sequence[ProgressEvent]) -> list[ProgressEvent]:
    """Return the events that matter now: the start of the run, and all since the running attempts began."""
    starts = [index for index, one in enumerate(events) if one.what == "run_started"]
    first = starts[-1] if starts else 0
    running: dict[str, int] = {}
    last_start = first
    for index, one in enumerate(events[first:], first):
        attempt = str(one.details.get("iteration"))
        if one.what == "attempt_started":
            running[attempt] = last_start = index
        elif one.what == "attempt_ended":
            running.pop(attempt, None)
    since = min(running.values(), default=last_start)
    return [*events[first : first + 1], *events[max(since, first + 1) :]]
