"""Learnings that wait for a decision, over HTTP."""

from __future__ import annotations

import threading
from typing import Any

from ralph.core.records import AttemptOutcome, MemorySource, MemoryState, TaskStatus, timestamp
from tests.make import a_memory, begin, finish, remember
from tests.web.asking import Served, refused

ALL = "/api/staging"


def stage(served: Served, content: str = "Tabs, always.", number: int = 0, **fields: Any) -> str:
    """Stage a learning that is in order; return its id."""
    at = timestamp(1_750_000_000 + number * 60)
    whole: dict[str, Any] = {"kind": "pattern", "state": MemoryState.STAGED, "source": MemorySource.AUTOMATIC, **fields}
    return remember(served.project.store, a_memory(content, content, created_at=at, updated_at=at, **whole)).id


def waiting(served: Served, asked: str = "") -> list[dict[str, Any]]:
    status, told = served.get(f"{ALL}{asked}")
    assert status == 200, told
    items: list[dict[str, Any]] = told["items"]
    return items


def test_what_waits_is_listed_oldest_first_with_why_it_is_held_back(served: Served) -> None:
    stage(served, "First.", 1)
    stage(served, "Second.", 2, state=MemoryState.QUARANTINED, state_reason="brought in by an agent")

    found = waiting(served)

    assert [(one["memory"]["content"], one["status"], one["reason"]) for one in found] == [
        ("First.", "pending", ""),
        ("Second.", "quarantined", "brought in by an agent"),
    ]
    assert len(waiting(served, "?status=quarantined")) == 1
    assert waiting(served, "?status=validated") == []
    assert len(waiting(served, "?status=all")) == 2


def test_pages_go_on_where_the_one_before_ended_though_something_was_decided(served: Served) -> None:
    ids = [stage(served, f"Number {number} counts.", number) for number in range(5)]
    _, first = served.get(f"{ALL}?limit=2")
    served.post(f"{ALL}/{ids[1]}/approve")

    _, second = served.get(f"{ALL}?limit=2&cursor={first['next']}")
    _, last = served.get(f"{ALL}?limit=2&cursor={second['next']}")

    assert [one["memory"]["id"] for one in (*second["items"], *last["items"])] == ids[2:]
    assert last["next"] is None


def test_a_learning_is_approved_in_other_words_and_that_is_taken_back(served: Served) -> None:
    id = stage(served)

    status, told = served.post(f"{ALL}/{id}/approve", {"content": "Spaces, always. <b>"})
    assert (status, told["state"], told["content"]) == (200, "active", "Spaces, always. <b>")
    refused(served.post(f"{ALL}/{id}/approve"), 404, "staged-learning-not-found")
    refused(served.post(f"{ALL}/{id}/reject"), 404, "staged-learning-not-found")
    refused(served.put(f"{ALL}/{id}", {"content": "x"}), 404, "staged-learning-not-found")
    _, undone = served.post(f"/api/memories/{id}/undo")

    assert (undone["state"], undone["content"]) == ("staged", "Tabs, always.")
    assert len(waiting(served)) == 1


def test_a_learning_is_rejected_with_a_reason_and_that_is_taken_back(served: Served) -> None:
    id = stage(served)

    status, told = served.post(f"{ALL}/{id}/reject", {"reason": "It is not so."})
    assert (status, told["state"], told["state_reason"]) == (200, "rejected", "It is not so.")
    assert waiting(served) == []
    assert waiting(served, "?status=rejected")[0]["reason"] == "It is not so."
    served.post(f"/api/memories/{id}/undo")

    assert len(waiting(served)) == 1


def test_a_learning_that_is_edited_goes_on_waiting(served: Served) -> None:
    id = stage(served)

    status, told = served.put(f"{ALL}/{id}", {"content": "Spaces.", "tags": ["style"]})

    assert (status, told["state"], told["content"], told["tags"]) == (200, "staged", "Spaces.", ["style"])
    refused(served.put(f"{ALL}/{id}", {}), 422, "content")
    refused(served.put(f"{ALL}/{id}", {"type": "nonsense"}), 422, "type")


def test_one_of_two_who_decide_at_once_is_told_that_it_is_decided(served: Served) -> None:
    ids = [stage(served, f"Number {number} counts.", number) for number in range(6)]
    answers: dict[str, list[int]] = {id: [] for id in ids}

    def decide(how: str) -> None:
        for id in ids:
            answers[id].append(served.post(f"{ALL}/{id}/{how}")[0])

    threads = [threading.Thread(target=decide, args=(how,)) for how in ("approve", "reject")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(sorted(both) == [200, 404] for both in answers.values())


def test_what_is_in_order_is_validated_and_promoted(served: Served) -> None:
    ids = [stage(served, f"Number {number} counts.", number) for number in range(2)]
    stage(served, "Weak.", 3, kind="strategy")

    refused(served.post(f"{ALL}/promote", {"ids": ids}), 422, "not-validated")
    assert served.post(f"{ALL}/validate") == (200, {"validated": 2, "rejected": 1, "waiting": 0})
    assert served.post(f"{ALL}/promote", {"ids": ids[:1]}) == (200, {"promoted": 1, "left": 1})
    assert served.post(f"{ALL}/promote") == (200, {"promoted": 1, "left": 0})
    assert waiting(served, "?status=rejected")[0]["reason"] == "Missing required fields"


def test_what_a_run_taught_is_staged(served: Served) -> None:
    refused(served.post(f"{ALL}/extract"), 400, "no-run")
    store = served.project.store
    served.project.tasks.add("Mend the parser")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE)

    status, told = served.post(f"{ALL}/extract", {"run": run.id})

    assert (status, told["source"]) == (200, run.id)
    assert told["extracted"] >= told["merged"] >= 0
    assert served.post(f"{ALL}/extract")[1]["source"] == run.id
    refused(served.post(f"{ALL}/extract", {"run": "run-none"}), 404, "run-not-found")
    refused(served.post(f"{ALL}/extract", {"run": "\0"}), 422, "run")


def test_an_unknown_learning_is_not_found(served: Served) -> None:
    for id in ("mem-none", "%00", "%F0%9F%90%B3", "'--"):
        refused(served.put(f"{ALL}/{id}", {"content": "x"}), 404)
        refused(served.post(f"{ALL}/{id}/approve"), 404)
        refused(served.post(f"{ALL}/{id}/reject"), 404)


def test_a_wrong_value_is_named(served: Served) -> None:
    refused(served.get(f"{ALL}?status=asleep"), 422, "status")
    refused(served.get(f"{ALL}?limit=0"), 422, "limit")
    refused(served.get(f"{ALL}?cursor=garbage"), 422, "cursor")
    refused(served.post(f"{ALL}/promote", {"ids": "all"}), 422, "ids")
    refused(served.post(f"{ALL}/promote", {"ids": ["mem-none"]}), 404)
    refused(served.post(f"{ALL}/promote", {"ids": ["\0"]}), 422)
    refused(served.post(f"{ALL}/{stage(served)}/approve", {"content": "x" * 100_001}), 422, "content")
