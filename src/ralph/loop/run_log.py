"""Live event log of a run: where it is, and how another process reads it.

The log has one JSON line per event. It is for display, not a record: it is bounded, never synced, and a run continues
without it. Agents work in the same directory and can write to it, so readers trust nothing in it.

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
from contextlib import suppress

from ralph.core.errors import NotFoundError
from ralph.core.records import EpisodeKind
from ralph.loop.options import stored_worker
from ralph.loop.progress import ProgressEvent, progress_event
from ralph.loop.workers import dead_workers, is_worker_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ralph.core.records import Attempt, Run
    from ralph.store import Store
    from ralph.store.episodes import EpisodeFilter

LIVE_FOLDER = ".ralph/ralph.db-live"
"""Folder of the logs, with a prefix that git ignores in a project."""
MAX_LOG_BYTES = 2 * 1024 * 1024
"""Approximate maximum size of a log, in bytes; then its older half is dropped."""
MAX_DROPPED_BYTES = 2**50
"""Largest plausible number of dropped bytes; anything above was not written by us."""
MAX_SEARCHED_RUNS = 20
"""Number of latest runs searched for an active one."""
LOG_RESET_MESSAGE = "The log of this run was reset: it is shown from its beginning."
MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that JavaScript represents exactly."""
HEADER = b'{"left_out":"%016d"}\n'
"""First line of a log, with the number of dropped bytes."""
HEADER_BYTES = len(HEADER % 0)
_SURROGATES = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_SUFFIX = ".jsonl"


# --- files -----------------------------------------------------------------------------------


def logged_runs(root: Path | str) -> list[str]:
    """Return the ids of logged runs, latest first."""
    found = []
    try:
        with os.scandir(log_folder(root)) as entries:
            for entry in entries:
                name = entry.name.removesuffix(_SUFFIX)
                if name != entry.name and _NAME.fullmatch(name) and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, name))
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]


def log_folder(root: Path | str) -> str:
    """Return the log folder; raise an error if a link leads out of the project."""
    folder = os.path.join(root, LIVE_FOLDER)  # noqa: PTH118
    expected = os.path.join(os.path.realpath(root), LIVE_FOLDER)  # noqa: PTH118
    if os.path.realpath(folder) != expected:
        raise OSError(errno.ELOOP, "link leads out of the project", folder)
    return folder


def log_path(root: Path | str, run_id: str) -> str:
    """Return the log of a run; raise FileNotFoundError for an invalid id."""
    if not _NAME.fullmatch(run_id):
        raise FileNotFoundError(errno.ENOENT, "invalid run id", run_id)
    return os.path.join(log_folder(root), run_id + _SUFFIX)  # noqa: PTH118


def open_regular(path: str, flags: int) -> int:
    """Open a regular file: no link, and nothing that blocks."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


def dropped_bytes(header: bytes) -> int | None:
    """Return the number of dropped bytes according to the header; None if it is not ours."""
    digits = header[13:-3]
    if not digits.isdigit() or header != HEADER % int(digits):
        return None
    return int(digits) if int(digits) <= MAX_DROPPED_BYTES else None


# --- reading ---------------------------------------------------------------------------------


def read_events(root: Path | str, run_id: str, offset: int = 0) -> tuple[list[ProgressEvent], int]:
    """Return the events of a run after a position, and the next position; nothing if there is no log.

    One call returns a bounded part; there may be more. If the position no longer exists, reading restarts with what is
    left, and a note event says so.

    """
    try:
        handle = open_regular(log_path(root, run_id), os.O_RDONLY)
    except OSError:
        return [], offset
    try:
        dropped = dropped_bytes(os.pread(handle, HEADER_BYTES, 0))
        if dropped is None:
            return [], offset
        end = dropped + os.fstat(handle).st_size - HEADER_BYTES
        events = [progress_event("note", message=LOG_RESET_MESSAGE)] if offset > end else []
        start = dropped if offset > end else max(offset, dropped)
        piece = os.pread(handle, MAX_LOG_BYTES, start - dropped + HEADER_BYTES)
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
        if not (isinstance(what, str) and isinstance(at, str) and isinstance(details, dict) and is_portable(fields)):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ProgressEvent(what=what, at=at, details=details)


def is_portable(value: object) -> bool:
    """Return whether a value can be sent to any client: no lone surrogates, no unsafe numbers."""
    if isinstance(value, str):
        return value.isascii() or not _SURROGATES.search(value)
    if isinstance(value, dict):
        return all(is_portable(key) and is_portable(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_portable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= MAX_SAFE_INTEGER


# --- erasing ---------------------------------------------------------------------------------


def erase_logs(root: Path | str, store: Store, filter: EpisodeFilter, *, dry_run: bool = False) -> tuple[int, str]:
    """Delete the logs of runs, and the details of attempts, that may hold what a filter of episodes matches.

    Return the number of runs, and which of them are still being written, in a sentence for people.
    """
    if filter.kinds and EpisodeKind.ATTEMPT not in filter.kinds:
        return 0, ""
    from ralph.loop.attempt_details import erase_details

    run_id = filter.within.partition("/")[0]
    others = erase_details(root, filter, dry_run=dry_run)
    found = [one for one in logged_runs(root) if run_id in ("", one) and _may_hold(root, one, filter)]
    kept = [one for one in found if not dry_run and not _delete_log(root, store, one)]
    count = len(others.union(found))
    if not kept:
        return count, ""
    place = f"The log of {' and '.join(kept)} in {LIVE_FOLDER}"
    return count, f"{place} still holds it, because the run goes on. Repeat this command when it has ended."


def _delete_log(root: Path | str, store: Store, run_id: str) -> bool:
    """Delete the log of a run unless it is being written; return whether it is gone."""
    try:
        if is_running_here(store.runs.get(run_id)):
            return False
    except NotFoundError:
        pass  # It belongs to another database.
    with suppress(OSError):
        os.unlink(log_path(root, run_id))  # noqa: PTH108
    return run_id not in logged_runs(root)


def _may_hold(root: Path | str, run_id: str, filter: EpisodeFilter) -> bool:
    events, position = read_events(root, run_id)
    output, first = "", events[0].at if events else ""
    while events:
        output += "".join(str(one.details.get("text")) for one in events if one.what == "output")
        events, position = read_events(root, run_id, position)
    is_old_enough = not filter.before or (first and first < filter.before)
    return bool(is_old_enough) and filter.matching.lower() in output.lower()


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
