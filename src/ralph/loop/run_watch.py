"""Following the runs of a project from another process, as their events arrive in their logs."""

from __future__ import annotations

import time

from ralph.core.errors import RalphError
from ralph.loop import run_log, steering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ralph.core.records import Run
    from ralph.loop.progress import ProgressEvent
    from ralph.store import Store

FIRST_EVENT_SECONDS = 3.0
"""Time from the start of a run to its first event, in seconds."""
LIVENESS_CHECK_SECONDS = 1.0
"""Interval between checks whether a silent run is still alive, in seconds."""
MAX_SEARCHED_RUNS = 20
"""Number of latest runs searched for active ones."""


class FollowedRun:
    """A run whose events are read as they arrive, until it ends or its process is gone."""

    def __init__(self, root: Path | str, run: Run, *, from_start: bool) -> None:
        """`from_start`: with all events; otherwise with those of the current attempts."""
        self.run = run
        self.has_ended = False
        """Whether the run has logged its end."""
        self.is_over = False
        self._root = root
        self._from_start = from_start
        self._offset = -1
        self._is_gone = False
        self._looked = self._found = time.monotonic()

    def poll(self) -> Sequence[ProgressEvent]:
        """Return the events since the last call; raise an error if the run has no log here."""
        if self._offset < 0:
            return self._begin()
        events, self._offset = run_log.read_events(self._root, self.run.id, self._offset)
        if events:
            # A resumed run logs another event after its end.
            self.has_ended = self.is_over = events[-1].what == "run_ended"
        elif self._is_gone:
            self.is_over = True
        elif time.monotonic() - self._looked > LIVENESS_CHECK_SECONDS:
            self._looked = time.monotonic()
            self._is_gone = not run_log.is_running_here(self.run)  # read once more, for final events
        return events

    def _begin(self) -> Sequence[ProgressEvent]:
        if self.run.id not in run_log.logged_runs(self._root):
            if time.monotonic() - self._found > FIRST_EVENT_SECONDS:
                raise RalphError(
                    f"{self.run.id} has no log in {run_log.LIVE_FOLDER}. It can only be watched in the terminal it was"
                    " started in.",
                    code="run-not-logged",
                )
            return []
        past: list[ProgressEvent] = []
        events, self._offset = run_log.read_events(self._root, self.run.id)
        while events:
            past += events
            events, self._offset = run_log.read_events(self._root, self.run.id, self._offset)
        if self._from_start:
            self.has_ended = self.is_over = bool(past) and past[-1].what == "run_ended"
            return past
        # After its end, a run that was resumed is about to log that.
        return run_log.current_events(past) if past and past[-1].what != "run_ended" else []


class RunWatcher:
    """Follows one run, or all active ones of this machine and those that start meanwhile."""

    def __init__(self, store: Store, root: Path | str, run_id: str = "") -> None:
        self.followed: dict[str, FollowedRun] = {}
        self.ended: list[FollowedRun] = []
        self._store = store
        self._root = root
        self._run_id = run_id
        self._known: set[str] | None = None
        """Runs that were over, or elsewhere, when they were seen."""
        self._looked = 0.0

    def look(self) -> None:
        """Start to follow runs that are active here; those that began after the first look even if they have ended."""
        self._looked = time.monotonic()
        runs = self._store.runs
        latest = [runs.get(self._run_id)] if self._run_id else runs.latest(MAX_SEARCHED_RUNS)
        self._store.database.release_connection()  # watching may take hours
        is_first, known = self._known is None, self._known or set()
        for run in reversed(latest):
            is_new = not is_first and run.id not in known
            is_missed = is_new and run_log.is_run_over(run) and run.id in run_log.logged_runs(self._root)
            if run.id not in self.followed and (is_missed or run_log.is_running_here(run)):
                self.followed[run.id] = FollowedRun(self._root, run, from_start=is_new)
        self._known = known | {run.id for run in latest if run.id not in self.followed}

    def poll(self) -> list[tuple[str, ProgressEvent]]:
        """Return new events, each with the id of its run; look for new runs from time to time."""
        interval = steering.SHARED_POLL_SECONDS if self._store.is_shared else LIVENESS_CHECK_SECONDS
        if not self._run_id and time.monotonic() - self._looked > interval:
            self.look()
        events = [(id, event) for id, one in self.followed.items() for event in one.poll()]
        for id in [id for id, one in self.followed.items() if one.is_over]:
            self.ended.append(self.followed.pop(id))
            self._known = {*(self._known or ()), id}
        return events
