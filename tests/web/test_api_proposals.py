"""What reflections proposed, over HTTP and on the staging page."""

from __future__ import annotations

from ralph.core.records import MemoryState, replace
from ralph.memory.capture.reflection import Proposal, content_mark
from ralph.memory.reflection import read_state, save_state
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


def test_the_staging_page_shows_proposals(served: Served) -> None:
    (first, _) = propose(served)

    page = served.get("/staging")[1]

    assert "Proposed by a reflection" in page
    assert first in page
