"""Wait for conditions, never for seconds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from ralph.loop.options import stored_worker
from ralph.loop.workers import is_worker_alive
from ralph.project import Project

TIMEOUT_SECONDS = 60


def wait_until(condition: Callable[[], object], seconds: float = TIMEOUT_SECONDS) -> None:
    """Return as soon as a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {seconds} s"
        time.sleep(0.02)


def end_runs(project: Project) -> None:
    """End the runs that a test has left, and wait until their processes are gone."""
    for run in project.store.runs.latest(9):
        if run.ended_at is None and is_worker_alive(worker := stored_worker(run.options)):
            os.kill(int(worker.split("/")[-2]), signal.SIGTERM)
            wait_until(lambda: not is_worker_alive(worker))
