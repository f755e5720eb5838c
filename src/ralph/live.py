"""A run while it works, for those who watch it from elsewhere: its events, one JSON line each, in a file of its own.

The file is for looking on, not a record: it is bounded, nothing waits for the disk, and a run goes on without it.
Agents work in the same directory and can write there too, so who reads takes nothing in it for granted.

Positions are counted from the beginning of all that was ever written. The first line says how much of that is gone,
so that who reads on knows where to go on, whatever was left out meanwhile.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import time

from ralph.errors import RalphError
from ralph.loop.order import worker_of
from ralph.loop.progress import Event, event, forgiving
from ralph.loop.workers import is_at_work, vanished
from ralph.text import clean, redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from ralph.loop.progress import Tell
    from ralph.records import Attempt, Run
    from ralph.store import Store

FOLDER = ".ralph/ralph.db-live"
"""Git leaves alone what begins like this in a project."""
MOST_BYTES = 2 * 1024 * 1024
"""So much of a run is kept, about; then the older half goes."""
MOST_LEFT_OUT = 2**50
"""No run says more: what says so is none of ours, and a position beyond it could not be told to everybody."""
MOST_RUNS = 5
"""So many runs are kept."""
MOST_EARLY = 1_000
POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""So often it is looked whether a silent run is still there."""
START_SECONDS = 3.0
"""So long it may take a run from its beginning to its first word."""
LATEST = 20
"""Among so many runs the one at work is looked for."""
LEFT_OUT = "The beginning of this run was left out: it said too much to keep all."
BEGAN_ANEW = "What this run said is not there any more up to here: it is shown from its beginning."

MOST_NUMBER = 2**53 - 1
_HALVES = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_ENDING = ".jsonl"
_HEADER = b'{"left_out":"%016d"}\n'
_HEADER_BYTES = len(_HEADER % 0)
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


# --- where -----------------------------------------------------------------------------------


def runs(root: Path | str) -> list[str]:
    """Give the runs that were written down here, the latest first."""
    found = []
    try:
        with os.scandir(_folder(root)) as entries:
            for entry in entries:
                name = entry.name.removesuffix(_ENDING)
                if name != entry.name and _NAME.fullmatch(name) and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, name))
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]


def _folder(root: Path | str) -> str:
    """Give the folder, or refuse when a link leads out of the project."""
    folder = os.path.join(root, FOLDER)  # noqa: PTH118
    expected = os.path.join(os.path.realpath(root), FOLDER)  # noqa: PTH118
    if os.path.realpath(folder) != expected:
        raise OSError(errno.ELOOP, "a link leads elsewhere", folder)
    return folder


def _path(root: Path | str, run_id: str) -> str:
    if not _NAME.fullmatch(run_id):
        raise FileNotFoundError(errno.ENOENT, "no run has such a name", run_id)
    return os.path.join(_folder(root), run_id + _ENDING)  # noqa: PTH118


def _open(path: str, flags: int) -> int:
    """Open a file that is one: no link, and nothing that makes who opens it wait."""
    harmless = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | harmless, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file", path)
    return handle


# --- writing ---------------------------------------------------------------------------------


class Recording:
    """Tells of a run, and writes what it tells into the run's file; whatever goes wrong there, the run goes on."""

    def __init__(self, root: Path | str, tell: Tell) -> None:
        self._root = root
        self._tell = forgiving(tell)  # a closed terminal must not end what others watch
        self._file: _File | None = None
        self._early: list[Event] = []
        """What was told before the run had a name."""
        self._lines: dict[object, _Lines] = {}
        """What each worker's agent has said of a line that is not whole yet."""
        self._pace = _Pace()
        self._is_broken = False

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def __call__(self, event: Event) -> None:
        """Tell of an event, and write it down."""
        if not self._is_broken:
            try:
                self._record(event)
            except (OSError, ValueError) as error:
                self._give_up(error)
        self._tell(event)

    def _give_up(self, error: Exception) -> None:
        self._is_broken = True
        self._early.clear()
        why = getattr(error, "strerror", None) or str(error)
        self._tell(event("warning", message=f"This run cannot be watched from elsewhere, {FOLDER}: {why}."))

    def _record(self, event: Event) -> None:
        if self._file is None:
            run_id = event.details.get("run_id")
            if not (event.what in ("run_started", "run_ended") and isinstance(run_id, str)):
                if len(self._early) < MOST_EARLY:
                    self._early.append(event)
                return
            self._file = _File(self._root, run_id)
            early, self._early = self._early, []
            for one in early:
                self._write(one)
        self._write(event)

    def _write(self, event: Event) -> None:
        assert self._file
        worker = event.details.get("worker")
        lines = self._lines.get(worker)
        if event.what == "output":
            if lines is None:
                lines = self._lines[worker] = _Lines()
            said = str(event.details["text"])
            if not self._pace.allows(len(said)):
                lines.leave_out(said)
            elif text := lines.add(said):
                self._file.add(Event(what="output", at=event.at, details={**event.details, "text": text}))
            return
        for one in (lines,) if event.what != "run_ended" else tuple(self._lines.values()):
            if one and (text := one.finish()):
                named = {"worker": worker} if worker else {}
                self._file.add(Event(what="output", at=event.at, details={"text": text, **named}))
        self._file.add(Event(what=event.what, at=event.at, details=_safe(event.details)))


def _safe(value: Any) -> Any:
    """Give what an event tells, with all texts in it clean and without secrets."""
    if isinstance(value, str):
        return value if len(value) < SHORTEST_SECRET and value.isprintable() else redact(clean(value))
    if isinstance(value, dict):
        return {name: _safe(one) for name, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list | tuple) else value


class _File:
    """The file of one run, bounded, while it is written."""

    def __init__(self, root: Path | str, run_id: str) -> None:
        """Go on with it if the run goes on; what is left of the oldest runs is removed."""
        self._path = _path(root, run_id)
        folder = _folder(root)
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        os.chmod(folder, 0o700)  # noqa: PTH101
        _remove_old(root, run_id)
        self._left_out, self._size = 0, 0
        self._handle = _open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(self._handle, 0o600)
        left_out = _left_out(os.pread(self._handle, _HEADER_BYTES, 0))
        self._size = os.fstat(self._handle).st_size
        if left_out is None or self._size > MOST_BYTES:
            os.ftruncate(self._handle, 0)
            self._size = 0
            self._put(_HEADER % 0)
        else:
            self._left_out = left_out
            if os.pread(self._handle, 1, self._size - 1) != b"\n":  # whoever wrote before was killed in the middle
                self._put(b"\n")

    def add(self, event: Event) -> None:
        """Write an event down."""
        line = _line(event)
        if self._size + len(line) > MOST_BYTES:
            self._shorten(max(0, MOST_BYTES // 2 - len(line)))
        self._put(line)

    def _put(self, line: bytes) -> None:
        if os.write(self._handle, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)

    def _shorten(self, kept_bytes: int) -> None:
        """Let a file with only the newest lines take the place of this one."""
        self._size = os.fstat(self._handle).st_size  # others may have written there
        newest = os.pread(self._handle, kept_bytes, max(_HEADER_BYTES, self._size - kept_bytes))
        newest = newest[newest.find(b"\n") + 1 :]
        note = _line(event("note", message=LEFT_OUT))
        # The note stands in the place of what is gone, so that all that stays keeps its position.
        left_out = self._left_out + self._size - _HEADER_BYTES - len(newest) - len(note)
        new = f"{self._path}.new"
        _unlink(new)
        handle = _open(new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        os.close(self._handle)
        self._handle, self._left_out, self._size = handle, left_out, 0
        self._put(_HEADER % left_out + note + newest)
        os.replace(new, self._path)  # noqa: PTH105

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


def _line(event: Event) -> bytes:
    told = {"what": event.what, "at": event.at, "details": event.details}
    return _encode(told).encode("utf-8", "replace") + b"\n"


def _left_out(header: bytes) -> int | None:
    """Give how much is gone from the beginning, by a file's first line; None when that is none of ours."""
    digits = header[13:-3]
    if not digits.isdigit() or header != _HEADER % int(digits):
        return None
    return int(digits) if int(digits) <= MOST_LEFT_OUT else None


def _remove_old(root: Path | str, run_id: str) -> None:
    """Remove what the oldest runs left, so that with this one no more than so many are there."""
    others = [one for one in runs(root) if one != run_id]
    for one in others[MOST_RUNS - 1 :]:
        _unlink(_path(root, one))
        _unlink(f"{_path(root, one)}.new")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        pass


# --- what an agent says, without its secrets -------------------------------------------------

LONGEST_LINE = 16_000
"""More characters of a line, or of what hangs together, are not waited for."""
UNSURE = 1_000
"""What stands in the last so many characters may be the beginning of a secret that goes on."""
LONGEST_KEY = 32_000
KEY_LINE_SIGHT = 200
"""So far before the end of a line the line of a key is looked for: other words may stand before it."""
MOST_A_SECOND = 100_000
"""So many characters are looked through in a second, which takes a small part of it; and so many at once."""
MOST_AT_ONCE = 500_000.0
SHORTEST_SECRET = 10
MARK_CHARACTERS = 100
"""As long as a mark may be that ends what is left out."""
NEAR_THE_END = 100
CUT = " […]\n"
_LINE_ENDS = re.compile("\n")
_KEY_BEGINS = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_ENDS = re.compile(r"-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_LINE = re.compile(r"[^\n]*?(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{64,76}={0,2}")
_PUTTY_ENDS = re.compile("Private-MAC: ")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\s+(?:[A-Za-z0-9+/=]+\s+)*\Z")
_LONG_SECRETS = (
    ("PRIVATE KEY", _KEY_BEGINS, _KEY_ENDS),
    ("Private-Lines", re.compile(r"Private-Lines: \d"), _PUTTY_ENDS),
)
_NAMES = ("pass", "pwd", "secret", "token", "key")
_AWAITS_VALUE = re.compile(
    r"(?:pass|pwd|secret|token|key)[\w.-]{0,20}[\"']?\s{0,3}(?:=>|:=|=|:)?\s{0,3}\Z",
)


class _Pace:
    """Says how much may be looked through for secrets: who says very much must not have to wait for that."""

    def __init__(self) -> None:
        self._left = MOST_AT_ONCE
        self._at = time.monotonic()

    def allows(self, characters: int) -> bool:
        """Say whether so many more are not too many just now."""
        at = time.monotonic()
        self._left = min(MOST_AT_ONCE, self._left + (at - self._at) * MOST_A_SECOND)
        self._at = at
        if self._left < characters:
            return False
        self._left -= characters
        return True


class _Lines:
    """Gives text that comes in pieces as whole lines without secrets: a key must not slip through between two pieces.

    Lines that hang together, like those of a private key, are given together. Of what gets too long, the rest is
    left out.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_cut = False
        """Whether something was left out that was not told of yet."""
        self._skips_to: re.Pattern[str] | None = None
        """Where what is left out ends, while something is."""
        self._skipped = 0
        self._tail = ""
        """The end of what was left out so far."""

    def add(self, text: str) -> str:
        """Take the next piece; give the lines that are whole now."""
        text = self._after_left_out(text) if self._skips_to else self._held + text
        end = text.rfind("\n") + 1
        end = _open_since(text, end) if end else 0
        whole, held = text[:end], text[end:]
        given = redact(whole) if whole else ""
        if self._is_cut and given:
            self._is_cut, given = False, CUT + given
        if len(held) > LONGEST_LINE:
            self._leave_out(held)
            # What is the same, with and without the end, does not depend on how it goes on.
            return given + _same_beginning(redact(held), redact(held[:-UNSURE])) + CUT
        self._held = held
        return given

    def leave_out(self, text: str) -> None:
        """Take the next piece, and give nothing of it."""
        self._is_cut = True
        if self._skips_to not in (None, _LINE_ENDS):
            text = self._after_left_out(text)
        if self._skips_to in (None, _LINE_ENDS):
            self._leave_out(self._held + text)

    def finish(self) -> str:
        """Give what is left, when nothing more comes."""
        text, self._held = self._held, ""
        is_cut, self._is_cut = self._is_cut, False
        self._skips_to, self._tail = None, ""
        return (CUT if is_cut else "") + (redact(text) if text else "")

    def _leave_out(self, text: str) -> None:
        """Leave out a text and what follows: up to the end of the line, or of a key that has begun in it."""
        text, self._held, self._skipped = self._tail + text, "", 0
        self._skips_to, self._tail = _LINE_ENDS, text[-MARK_CHARACTERS:]
        for word, begins, ends in _LONG_SECRETS:
            if word in text:
                last = max((found.end() for found in begins.finditer(text)), default=0)
                if last and not ends.search(text, last):
                    self._skips_to, self._tail = ends, text[last:][-MARK_CHARACTERS:]

    def _after_left_out(self, text: str) -> str:
        """Give what comes after that which is left out; nothing as long as it goes on."""
        while self._skips_to is _LINE_ENDS:
            end = text.find("\n") + 1
            self._leave_out(text[:end] if end else text)
            if not end:
                return ""
            text = text[end:]
            if self._skips_to is _LINE_ENDS and _open_since(self._tail, len(self._tail)) == len(self._tail):
                self._skips_to, self._tail = None, ""
                return text
        assert self._skips_to
        seen = self._tail + text
        if found := self._skips_to.search(seen):
            self._skips_to, self._tail = None, ""
            return seen[found.end() :]
        self._skipped += len(text)
        self._tail = seen[-MARK_CHARACTERS:]
        if self._skipped > LONGEST_KEY:  # then it is none
            self._skips_to = _LINE_ENDS
        return ""


def _same_beginning(one: str, other: str) -> str:
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]


def _open_since(text: str, end: int) -> int:
    """Give where a line begins, before the end, that may hold a secret which goes on after it; else the end."""
    if "PRIVATE KEY" in text:
        begins = [found.start() for found in _KEY_BEGINS.finditer(text, 0, end)]
        if begins and not _KEY_ENDS.search(text, begins[-1], end):
            return text.rfind("\n", 0, begins[-1]) + 1
    if "Private-Lines" in text and (found := _PUTTY.search(text, 0, end)):
        return text.rfind("\n", 0, found.start()) + 1
    tail = text[max(0, end - NEAR_THE_END) : end].lower()
    if any(name in tail for name in _NAMES) and _AWAITS_VALUE.search(tail):
        return text.rfind("\n", 0, len(text[:end].rstrip())) + 1
    return _before_lines_of_key(text, end)


def _before_lines_of_key(text: str, end: int) -> int:
    """Give where lines of base64 begin that lead up to the end: the rest of a key, if its last line comes yet."""
    while end:
        start = text.rfind("\n", 0, end - 1) + 1
        if not _KEY_LINE.fullmatch(text, max(start, end - 1 - KEY_LINE_SIGHT), end - 1):
            break
        end = start
    return end


# --- reading ---------------------------------------------------------------------------------


def read(root: Path | str, run_id: str, offset: int = 0) -> tuple[list[Event], int]:
    """Give what a run told after a position, and the position to go on from; nothing where nothing is kept of it.

    One call gives a bounded part: there may be more at once. When what was at the position is gone, it begins with
    what is still there, and an event says so.
    """
    try:
        handle = _open(_path(root, run_id), os.O_RDONLY)
    except OSError:
        return [], offset
    try:
        left_out = _left_out(os.pread(handle, _HEADER_BYTES, 0))
        if left_out is None:
            return [], offset
        end = left_out + os.fstat(handle).st_size - _HEADER_BYTES
        told = [event("note", message=BEGAN_ANEW)] if offset > end else []
        start = left_out if offset > end else max(offset, left_out)
        piece = os.pread(handle, MOST_BYTES, start - left_out + _HEADER_BYTES)
    except OSError:
        return [], offset
    finally:
        os.close(handle)
    # Of a line that is being written only the beginning may be there; one longer than a whole file is none of ours.
    whole = piece[: piece.rfind(b"\n") + 1] or (piece if len(piece) == MOST_BYTES else b"")
    told += [one for line in whole.splitlines() if (one := _event_in(line))]
    return told, start + len(whole)


def _event_in(line: bytes) -> Event | None:
    """Give the event in a line; None when it is none."""
    try:
        found = json.loads(line)
        what, at, details = found["what"], found["at"], found["details"]
        if not (isinstance(what, str) and isinstance(at, str) and isinstance(details, dict) and _is_plain(found)):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Event(what=what, at=at, details=details)


def _is_plain(found: object) -> bool:
    """Say whether everybody can be told this: no half of a character, no number that others read otherwise."""
    if isinstance(found, str):
        return found.isascii() or not _HALVES.search(found)
    if isinstance(found, dict):
        return all(_is_plain(name) and _is_plain(value) for name, value in found.items())
    if isinstance(found, list):
        return all(map(_is_plain, found))
    if isinstance(found, float):
        return math.isfinite(found)
    return not isinstance(found, int) or abs(found) <= MOST_NUMBER


def follow(root: Path | str, run_id: str, is_there: Callable[[], bool], offset: int = 0) -> Iterator[Event]:
    """Give what a run tells after a position, as it comes, until it ends or whoever works on it is gone."""
    looked = time.monotonic()
    is_over = False
    while True:
        told, offset = read(root, run_id, offset)
        yield from told
        if told and told[-1].what == "run_ended":
            return  # with a run that goes on later, another event follows
        if told:
            continue
        if is_over:
            return
        time.sleep(POLL_SECONDS)
        if time.monotonic() - looked > LOOK_SECONDS:
            looked = time.monotonic()
            is_over = not is_there()  # then there may be a last word


# --- what to watch ---------------------------------------------------------------------------


def is_here(run: Run) -> bool:
    """Say whether a process of this machine works on a run."""
    return run.ended_at is None and is_at_work(worker_of(run.options))


def is_gone(run: Run) -> bool:
    """Say whether a run was worked on by a process of this machine that is certainly gone."""
    return run.ended_at is None and bool(vanished({worker_of(run.options)}))


def is_over(run: Run) -> bool:
    """Say whether nobody works on a run any more, as far as that can be known here: it has ended, or was killed."""
    return run.ended_at is not None or is_gone(run)


def goes_on(run: Run, running: Sequence[Attempt]) -> bool:
    """Say whether somebody works on a run: here, or as its `running` attempts tell, elsewhere."""
    return not is_over(run) and (is_here(run) or bool(running))


def listen(root: Path | str, run: Run, offset: int = 0) -> tuple[list[Event], int, bool]:
    """Give what a run told after a position, the position to go on from, and whether nothing comes after it."""
    # Before what it told is read, or its end could be missed: its last word comes after the store says it has ended.
    may_say_more = is_at_work(worker_of(run.options))
    events, offset = read(root, run.id, offset)
    has_said_all = bool(events) and events[-1].what == "run_ended"
    return events, offset, is_over(run) and (has_said_all or not (events or may_say_more))


def to_watch(store: Store, run_id: str = "") -> Run | None:
    """Give the run to watch: the one that is asked for, or the latest at work here, or else the latest."""
    if run_id:
        return store.attempts.run(run_id)
    latest = store.attempts.runs(LATEST)
    return next((run for run in latest if is_here(run)), latest[0] if latest else None)


def require(root: Path | str, run: Run) -> None:
    """Refuse to watch a run that is worked on elsewhere, or of which nothing is written down here."""
    if not is_here(run):
        raise RalphError(f"{run.id} is worked on by another machine, or out of another container: watch it there.")
    deadline = time.monotonic() + START_SECONDS
    while run.id not in runs(root):
        if time.monotonic() > deadline:
            raise RalphError(
                f"Nothing of {run.id} is written down in {FOLDER}: only the terminal it was started in shows it."
            )
        time.sleep(POLL_SECONDS)


def watch(root: Path | str, run: Run) -> Iterator[Event]:
    """Give what a run tells, from the attempt at work on, as it comes, until it ends or its process does."""
    past: list[Event] = []
    told, offset = read(root, run.id)
    while told:
        past += told
        told, offset = read(root, run.id, offset)
    if past and past[-1].what != "run_ended":  # else it goes on after it had stopped, and is about to say so
        yield from current(past)
    yield from follow(root, run.id, lambda: is_here(run), offset)


def current(events: Sequence[Event]) -> list[Event]:
    """Give the events of a run that matter now: how it was started, and all since the attempts at work began."""
    starts = [place for place, one in enumerate(events) if one.what == "run_started"]
    first = starts[-1] if starts else 0
    begun: dict[str, int] = {}
    latest = first
    for place, one in enumerate(events[first:], first):
        attempt = str(one.details.get("iteration"))
        if one.what == "attempt_started":
            begun[attempt] = latest = place
        elif one.what == "attempt_ended":
            begun.pop(attempt, None)
    since = min(begun.values(), default=latest)
    return [*events[first : first + 1], *events[max(since, first + 1) :]]
