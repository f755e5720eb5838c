"""The update to schema 11 classifies past failures and retires what was wrongly learned from them."""

from __future__ import annotations

import json

import pytest

from ralph.core.records import AttemptOutcome, Memory, MemorySource, MemoryState, TaskStatus
from ralph.project import Project
from ralph.store.maintenance.causes import classify_past_failures, retire_wrong_learnings
from ralph.store.memories import ChangeInfo
from tests.make import a_memory, a_report, begin, damaged_rows, finish


def attempt(project: Project, run: str, outcome: AttemptOutcome, reason: str, category: str = "") -> None:
    """Make an attempt as an older version would have left it: without a cause."""
    store = project.store
    task, attempt = begin(store, run)
    report = a_report(attempt, reason, category=category) if category else None
    status = TaskStatus.DONE if outcome is AttemptOutcome.DONE else TaskStatus.PENDING
    finish(store, task, attempt, outcome, status, report=report, reason=reason)


def learn(project: Project, kind: str, run: str, content: dict[str, object], **fields: object) -> Memory:
    title = str(content.get("pattern", content.get("description", "Estimate for feature tasks")))
    text = json.dumps(content)
    memory = a_memory(
        title,
        title,
        kind=kind,
        structured_content=text,
        task_type="feature",
        origin_loops=(run,),
        **{"source": MemorySource.AUTOMATIC, "confidence": 0.8, **fields},
    )
    return project.store.memories.insert_unchecked(memory, ChangeInfo(who="ralph", why=f"extracted from {run}"))


@pytest.fixture
def run(project: Project) -> str:
    for title in ("Implement the importer", "Implement the exporter"):
        project.tasks.add(title)
    run = project.store.runs.start("test").id
    error, retried = AttemptOutcome.ERROR, AttemptOutcome.RETRIED
    attempt(project, run, error, "claude exited with 1: Not logged in · Please run /login", "crash")
    attempt(project, run, error, "claude exited with 1: Not logged in · Please run /login", "crash")
    attempt(project, run, AttemptOutcome.BLOCKED, "no sigil", "no_sigil")
    for _ in range(2):
        attempt(project, run, retried, "FileNotFoundError: rates.csv", "missing_file")
        attempt(project, run, AttemptOutcome.DONE, "")
    return run


def upgrade(project: Project) -> None:
    store = project.store
    with store.transaction():
        classify_past_failures(store.database)
        retire_wrong_learnings(store.database)


def test_past_failures_get_their_cause(project: Project, run: str) -> None:
    upgrade(project)

    causes = [str(one.cause) if one.cause else "" for one in project.store.attempts.recent(run, 10)]
    assert causes == ["service", "service", "agent", "project", "", "project", ""]
    assert damaged_rows(project.store) == []


def test_wrong_learnings_are_retired_with_the_reason_and_sound_ones_stay(project: Project, run: str) -> None:
    network = {"description": "Avoid: Network failures - do not depend on an outside service", "occurrences": 2}
    login = {"description": "Avoid: claude exited with 1: Not logged in · Please run /login", "occurrences": 2}
    files = {"description": "Avoid: Missing files - look whether a path exists before using it", "occurrences": 2}
    many = [f"tests/test_{n}.py" for n in range(3)]
    wrong = [
        learn(project, "antipattern", run, network, tags=("network",)),
        learn(project, "antipattern", run, login),
        learn(project, "strategy", run, {"description": "ok", "effectiveness": 1, "iterations": 1}),
        learn(project, "estimate", run, {"complexity": "low", "totalIterations": 1, "avgIterationTime": 300}),
        learn(project, "convention", run, {"pattern": "Modules are Python (.py)", "examples": many}),
        learn(project, "convention", run, {"pattern": "Tests are next to the source as *.spec.ts", "examples": ["a"]}),
    ]
    sound = [
        learn(project, "antipattern", run, files, tags=("missing-file",)),
        learn(project, "convention", run, {"pattern": "Tests are in tests/ as test_*.py", "examples": many}),
        learn(project, "strategy", run, {"description": "Tests before code, always", "iterations": 6}),
        learn(project, "estimate", "ralph-001", {"complexity": "low", "totalIterations": 3, "avgIterationTime": 42000}),
    ]

    upgrade(project)

    memories = project.store.memories
    assert [memories.get(one.id).state for one in wrong] == [MemoryState.PRUNED] * len(wrong)
    assert [memories.get(one.id).state for one in sound] == [MemoryState.ACTIVE] * len(sound)
    assert [round(memories.get(one.id).confidence, 2) for one in sound] == [0.34, 0.8, 0.61, 0.8]
    last = [memories.history.of(one.id)[-1] for one in wrong]
    assert all(event.why.startswith("Retired by the update to schema 11: ") for event in last)
    assert "service" in last[1].why
    assert damaged_rows(project.store) == []


def test_one_undo_brings_all_of_them_back(project: Project, run: str) -> None:
    login = {"description": "Avoid: Not logged in", "occurrences": 2}
    wrong = [learn(project, "antipattern", run, login), learn(project, "estimate", run, {"complexity": "low"})]
    upgrade(project)
    (change,) = {project.store.memories.history.of(one.id)[-1].change_id for one in wrong}

    project.memory.undo(change)

    assert {project.store.memories.get(one.id).state for one in wrong} == {MemoryState.ACTIVE}


def test_what_a_person_said_is_never_retired(project: Project, run: str) -> None:
    said = learn(project, "convention", run, {"pattern": "Modules are Python (.py)"}, source=MemorySource.EXPLICIT)

    upgrade(project)

    assert project.store.memories.get(said.id).state is MemoryState.ACTIVE
