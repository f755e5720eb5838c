"""A run that is told to stop ends soon, however busy the machine is and whatever runs in its background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from ralph.memory.recall import vector_search
from ralph.memory.recall.embeddings import is_installed
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from tests.loop.trial import Trial
from tests.make import a_memory

MEMORIES = 600
BUSY_PROCESSES = 8
MAX_CPU_SECONDS = 4.0
"""CPU time from the signal to the end. To compute the missing vectors takes 15 to 30 seconds."""


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Keep every core busy with processes of the same priority."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_PROCESSES)]
    yield
    for process in busy:
        process.kill()
        process.wait()


def vector_count(project: Project) -> int:
    return int(project.store.scope.query("SELECT COUNT(*) AS n FROM memory_vectors")[0]["n"])


@pytest.mark.sqlite
@pytest.mark.skipif(not is_installed(), reason="the extra is not installed")
def test_a_terminated_run_computes_no_more_embeddings(trial: Trial, busy_machine: None) -> None:
    text = " ".join(f"word{number}" for number in range(60))
    memories = [
        a_memory(f"Fact {number}", f"Fact {number}: {text}", id=f"mem-{number}-0000", kind="pattern")
        for number in range(MEMORIES)
    ]
    trial.project.store.memories.insert_all_unchecked(memories, ChangeInfo(who="t", why="t"))
    trial.project.store.tasks.add_all([TaskDraft(title="Sleep")])
    run = trial.start("run", "--format", "json", "--", "sh", "-c", "exec sleep 3600")
    while not (computed := vector_count(trial.project)):
        assert run.poll() is None
        time.sleep(0.02)
    before = psutil.Process(run.pid).cpu_times()

    run.send_signal(signal.SIGTERM)
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)

    assert run.returncode == 130
    assert vector_count(trial.project) - computed <= 2 * vector_search.STORE_BATCH_SIZE
    assert used.ru_utime + used.ru_stime - before.user - before.system < MAX_CPU_SECONDS
