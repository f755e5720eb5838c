"""What a run came to: what each model did in it, and what it taught, at once or when it was looked through later."""

from __future__ import annotations

import pytest

from ralph.core.errors import NotFoundError
from ralph.core.records import AttemptOutcome, Memory, MemoryState, TaskStatus
from ralph.project import Project
from tests.make import a_memory, begin, finish, remember


def test_what_a_run_taught_is_given_newest_first_whatever_became_of_it(project: Project) -> None:
    store = project.store
    run, other = store.runs.start("test"), store.runs.start("test")
    first = remember(store, a_memory("First", "In an attempt.", origin_run=run.id, origin_attempt=1))
    remember(store, a_memory("Theirs", "In another run.", origin_run=other.id))
    remember(store, a_memory("Stated", "By a person."))
    drawn = remember(store, a_memory("Drawn", "Looked through later.", origin_loops=("loop-1", run.id)))
    store.runs.end(run.id, "all done")
    late = remember(store, a_memory("Late", "Long after it.", origin_run=run.id, state=MemoryState.STAGED))
    both = remember(store, a_memory("Both", "At once and later.", origin_run=run.id, origin_loops=(run.id,)))

    assert [one.id for one in project.runs.memories(run.id, 10)] == [both.id, late.id, drawn.id, first.id]
    assert [one.id for one in project.runs.memories(run.id, 2)] == [both.id, late.id]
    with pytest.raises(NotFoundError, match="Run not found"):
        project.runs.memories("run-none", 10)


def test_what_each_model_did_in_a_run_counts_all_its_attempts(project: Project) -> None:
    store = project.store
    run, other = store.runs.start("test"), store.runs.start("test")
    for n, (model, outcome, handed) in enumerate(
        [
            ("haiku", AttemptOutcome.DONE, ""),
            ("haiku", AttemptOutcome.FAILED, ""),
            ("haiku", AttemptOutcome.DONE, "creator"),
            ("opus", AttemptOutcome.DONE, ""),
        ]
    ):
        project.tasks.add(f"Task {n}")
        task, attempt = begin(store, run.id)
        finish(store, task, attempt, outcome, TaskStatus.DONE, model=model, handed_to=handed, cost_usd=0.5)
    project.tasks.add("Elsewhere")
    task, attempt = begin(store, other.id)
    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, model="sonnet")

    models = project.runs.get(run.id).models

    assert [(one.model, one.attempts, one.done, one.failed, one.cost_usd) for one in models] == [
        ("haiku", 3, 1, 1, 1.5),
        ("opus", 1, 1, 0, 0.5),
    ]
    assert sum(one.done for one in models) == project.runs.get(run.id).stats.done


def test_a_learning_that_is_decided_on_while_it_is_edited_stays_as_it_was(project: Project) -> None:
    waiting = remember(project.store, a_memory("Tabs", "Tabs, always.", state=MemoryState.STAGED))
    with Project.open(project.directory) as elsewhere:
        seen: list[MemoryState] = []

        def check(memory: Memory) -> None:
            if not seen:
                elsewhere.learnings.accept(waiting.id)
            seen.append(memory.state)
            if memory.state is not MemoryState.STAGED:
                raise NotFoundError("Staged learning", memory.id)

        with pytest.raises(NotFoundError):
            project.memory.edit(waiting.id, content="Spaces, always.", check=check)

    assert seen == [MemoryState.STAGED, MemoryState.ACTIVE]
    assert project.memory.get(waiting.id).content == "Tabs, always."
    with pytest.raises(NotFoundError, match="it is active"):
        project.learnings.edit(waiting.id, content="Spaces, always.")
