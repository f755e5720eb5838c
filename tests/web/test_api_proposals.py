"""What reflections proposed, over HTTP and on the staging page."""

from __future__ import annotations

from ralph.core.records import MemoryState, replace
from ralph.memory.capture.reflection import Proposal, ReflectionAnswer, content_mark
from ralph.memory.reflection import read_state, save_state, stage_answer
from tests.make import a_memory, remember
from tests.web.asking import Served

ALL = "/api/staging/proposals"


def propose(served: Served) -> list[str]:
    """Let two memories wait for a removal; return their ids."""
    store = served.project.store
    memories = [
        remember(store, a_memory(text, text, kind="pattern")) for text in ("Tabs, always.", "Old parser notes.")
    ]
    proposals = tuple(
        Proposal(
            action="remove",
            ids=(one.id,),
            reason="It is outdated.",
            quotes=(("ep-1", "we use spaces now"),),
            marks=(content_mark(one),),
        )
        for one in memories
    )
    save_state(store, replace(read_state(store), proposals=proposals))
    return [one.id for one in memories]


def test_proposals_are_listed_applied_and_discarded(served: Served) -> None:
    first, second = propose(served)

    status, told = served.get(ALL)
    assert (status, [one["ids"] for one in told["items"]]) == (200, [[first], [second]])
    assert told["items"][0]["evidence"] == 'ep-1: "we use spaces now"'

    status, applied = served.post(f"{ALL}/apply", {"numbers": [1]})
    assert (status, applied["applied"], applied["skipped"]) == (200, 1, 0)
    assert served.project.store.memories.get(first).state is MemoryState.PRUNED

    assert served.post(f"{ALL}/discard", {"numbers": [1]}) == (200, {"discarded": 1})
    assert served.project.store.memories.get(second).state is MemoryState.ACTIVE
    assert served.get(ALL)[1]["items"] == []
    assert served.post(f"{ALL}/apply", {"numbers": [1]})[0] == 404


def test_proposals_that_were_applied_are_undone_as_one_change(served: Served) -> None:
    ids = propose(served)

    _, applied = served.post(f"{ALL}/apply", {"numbers": []})
    assert [served.project.store.memories.get(id).state for id in ids] == [MemoryState.PRUNED] * 2
    status, _ = served.post(f"/api/changes/{applied['change_id']}/undo")

    assert status == 200
    assert [served.project.store.memories.get(id).state for id in ids] == [MemoryState.ACTIVE] * 2


def test_what_a_reflection_adds_is_listed_approved_and_put_back(served: Served) -> None:
    quote = "Round half up, or the totals are wrong"
    addition = Proposal(action="add", kind="pitfall", content="Totals are rounded half up.", quotes=(("ep-1", quote),))
    (memory,), _, _ = stage_answer(served.project.store, ReflectionAnswer(proposals=(addition,)), "claude")

    (waiting,) = served.get("/api/staging")[1]["items"]
    assert waiting["memory"]["id"] == memory.id
    assert quote in str(waiting)
    assert quote in served.get("/staging")[1].replace("&#34;", '"')
    assert served.post(f"/api/staging/{memory.id}/approve", {})[0] == 200
    assert served.project.store.memories.get(memory.id).state is MemoryState.ACTIVE
    served.post(f"/api/memories/{memory.id}/undo")
    assert served.project.store.memories.get(memory.id).state is MemoryState.QUARANTINED
    assert served.post(f"/api/staging/{memory.id}/reject", {"reason": "obvious"})[0] == 200
    assert served.project.store.memories.get(memory.id).state is MemoryState.REJECTED


def test_the_staging_page_shows_proposals(served: Served) -> None:
    (first, _) = propose(served)

    page = served.get("/staging")[1]

    assert "Proposed by a reflection" in page
    assert first in page
