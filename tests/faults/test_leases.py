"""Workers that die, and workers that come back too late."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ralph.core.errors import ClaimLostError
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from ralph.store import Store
from ralph.store.tasks import TaskDraft
from tests.faults.leases import LOST, Worker, disturb
from tests.make import a_memory, begin, finish, set_up_project


def test_each_task_is_done_once_whatever_happens_to_its_workers(tmp_path: Path) -> None:
    left = disturb(tmp_path, 12, 3)

    assert left.wrong == 0, left
    assert left.killed >= 2
    assert left.paused >= 2
    assert left.done >= 12


def test_a_worker_that_was_paused_for_too_long_cannot_complete_its_task(store: Store) -> None:
    task_id = store.tasks.add(TaskDraft(title="A")).id
    run = store.runs.start("test").id
    task, attempt = begin(store, run, "paused", lease_seconds=-1)
    again, second = begin(store, run, "quick")
    learned = a_memory("What the paused one learned", "It is worth keeping.", id="mem-1-0001")

    with pytest.raises(ClaimLostError) as refused:
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, memories=(learned,), notes="What I did.")

    assert str(refused.value) == LOST.format(task_id)
    assert store.tasks.get(task_id).claimed_by == "quick"
    assert not store.tasks.claims.heartbeat(task_id, task.claim_token, 60)
    assert [memory.title for memory in store.memories.all()] == [learned.title]
    kept = store.attempts.get(run, attempt.iteration)
    assert (kept.outcome, kept.notes) == (AttemptOutcome.INTERRUPTED, "What I did.")
    finish(store, again, second, AttemptOutcome.DONE, TaskStatus.DONE)
    assert store.tasks.get(task_id).status is TaskStatus.DONE


def test_the_tasks_of_several_dead_workers_are_taken_back_also_after_their_leases(store: Store) -> None:
    ids = [store.tasks.add(TaskDraft(title=f"Task {n}")).id for n in range(3)]
    run = store.runs.start("test").id
    for worker in ("first", "second", "third"):
        begin(store, run, worker, lease_seconds=-1)

    assert sorted(store.attempts.release_vanished({"first", "second", "third"})) == sorted(ids)

    assert {task.status for task in store.tasks.all()} == {TaskStatus.PENDING}
    assert store.attempts.running() == []


@pytest.mark.slow
@pytest.mark.sqlite
def test_a_heartbeat_keeps_a_task_far_beyond_its_lease_and_a_pause_loses_it(tmp_path: Path) -> None:
    set_up_project(tmp_path)
    with Project.open(tmp_path) as project:
        tasks = project.store.tasks
        task_id = project.tasks.add("A long one").id
        # Long enough that a heartbeat is not a whole lease late on a busy machine.
        worker = Worker(tmp_path, 1, work_seconds=600, lease_seconds=3.0)
        try:
            _until_claimed(project.store)
            token = tasks.get(task_id).claim_token
            leases: set[str] = set()
            while len(leases) < 3:
                assert not tasks.claims.release_expired()
                leases.add(str(project.store.database.query("SELECT * FROM tasks")[0]["lease_until"]))
                time.sleep(0.05)

            os.kill(worker.pid, signal.SIGSTOP)
            while not tasks.claims.release_expired():
                time.sleep(0.05)

            assert not tasks.claims.heartbeat(task_id, token, 60)
        finally:
            worker.kill()
        assert [entry.message for entry in project.tasks.read_log(task_id)] == ["Released: the lease ran out."]


def _until_claimed(store: Store) -> None:
    deadline = time.monotonic() + 20
    while not store.tasks.claims.claimed():
        assert time.monotonic() < deadline
        time.sleep(0.02)
