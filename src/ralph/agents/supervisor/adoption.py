"""Adopting what programs leave behind, so that it can be ended: orphans of a killed guard, and of programs of git."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

from ralph.agents.supervisor import reaper
from ralph.core.ancestry import LOOP_NAME
from ralph.core.git import end_strays, process_start_lock, running_git_pids, stray_enders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

guards: set[int] = set()
"""Process ids of running guards in all threads; any other process handed to us is an orphan."""
_running = 0
_named = 0
"""Number of runs and programs for which this process has the name of a loop."""
_own_name = ""
"""Name of this process at other times."""
_running_lock = threading.Lock()


def count_running(change: int) -> None:
    """Adopt orphans while any program runs, in case it kills its guard, and be known as what adopts them."""
    global _running
    with _running_lock:
        _running += change
        reaper.adopt_orphans(_running > 0)
        _count_named(change)


@contextmanager
def named_as_loop() -> Iterator[None]:
    """Name this process a loop in the block, by which programs that its own git runs are recognized.

    What these leave behind is adopted and ended.
    """
    since = reaper.current_tick()
    count_running(+1)
    stray_enders.append(lambda: _kill_adopted(since))
    try:
        yield
    finally:
        end_strays()
        stray_enders.pop()
        count_running(-1)


def _kill_adopted(since: int) -> None:
    """Kill processes that were adopted since a clock tick: they have process groups of their own."""
    with process_start_lock:
        adopted = reaper.find_adopted(since, exclude=guards | running_git_pids)
        strays = {one for one in adopted if one[2] != os.getpgrp()}
        reaper.kill(strays)
    for pid, *_ in strays:
        is_gone(pid)  # so that it is no zombie


def _count_named(change: int) -> None:
    global _named, _own_name
    _named += change
    if _named == change:
        _own_name = reaper.rename_process(LOOP_NAME)
    elif not _named:
        reaper.rename_process(_own_name)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; a child is reaped."""
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
