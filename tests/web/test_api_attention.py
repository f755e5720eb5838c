"""What needs a person is listed in one place, with what it takes to act on it."""

from __future__ import annotations

from typing import Any

from ralph.core.records import HeldChange, MemoryState, TaskStatus, now
from ralph.loop.options import RunOptions
from tests.loop.trial import Trial
from tests.make import ScriptedAgent, a_memory, remember
from tests.web.asking import Served, refused


def attention(served: Served, limit: int = 50) -> Any:
    status, told = served.get(f"/api/attention?limit={limit}")
    assert status == 200, told
    return told


def test_nothing_needs_attention_in_a_new_project(served: Served) -> None:
    assert attention(served) == {"total": 0, "counts": {"tasks": 0, "conflicts": 0, "learnings": 0}, "items": []}


def test_all_that_needs_a_person_is_listed_most_urgent_first(served: Served, capsys: Any) -> None:
    project = served.project
    trial = Trial(project, capsys)
    asks, holds = project.tasks.add("Round prices"), project.tasks.add("Speed up the tests")
    trial.run(
        ScriptedAgent("<question>Cents or euros?</question>", "<task-failed>TASK</task-failed>"),
        RunOptions(iterations=2),
    )
    last = trial.attempts()[-1]
    assert last.task_id == holds.id
    project.store.held_changes.add(
        HeldChange(
            task_id=holds.id,
            run_id=last.run_id,
            iteration=last.iteration,
            digest="d1",
            reason="It changes Makefile.",
            diff="-test\n+true",
            created_at=now(),
        )
    )
    blocked, failed = project.tasks.add("Print labels"), project.tasks.add("Ship parcels")
    project.tasks.block(holds.id, "It changes Makefile.")
    project.tasks.block(blocked.id, "Which printer?")
    project.tasks.fail(failed.id, "No courier.")
    project.memory.add("Always use tabs in all files", type="convention")
    remember(project.store, a_memory("No tabs", "Never use tabs in all files", kind="convention", confidence=0.6))
    staged = remember(project.store, a_memory("Docker", "Start docker first.", state=MemoryState.STAGED)).id

    told = attention(served)

    tasks = [(one["kind"], one["id"]) for one in told["items"] if one["id"].startswith("t-")]
    assert tasks == [
        ("question", asks.id),
        ("approval", holds.id),
        ("blocked", blocked.id),
        ("failed", failed.id),
    ]
    by_kind = {one["kind"]: one for one in told["items"]}
    assert by_kind["question"]["text"] == "Cents or euros?"
    assert (by_kind["approval"]["digest"], by_kind["approval"]["diff"]) == ("d1", "-test\n+true")
    assert by_kind["learning"]["id"] == staged
    assert len(by_kind["conflict"]["statements"]) == 2
    assert (told["total"], told["counts"]) == (6, {"tasks": 4, "conflicts": 1, "learnings": 1})
    assert len(attention(served, 1)["items"]) == 4
    refused(served.get("/api/attention?limit=0"), 422, "limit")

    assert served.post(f"/api/memories/{by_kind['conflict']['statements'][1]['id']}/keep")[0] == 200
    assert served.post(f"/api/staging/{staged}/reject")[0] == 200
    assert served.post(f"/api/tasks/{holds.id}/approve", {"digest": "d1"})[0] == 200
    for id in (asks.id, blocked.id, failed.id):
        assert served.post(f"/api/tasks/{id}/answer", {"answer": "As you like."})[1]["status"] == TaskStatus.PENDING
    assert attention(served)["total"] == 0
