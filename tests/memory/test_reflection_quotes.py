"""Forgetting past work erases the quotes that reflections took from it."""

from __future__ import annotations

import pytest

from ralph.core.records import EpisodeKind, MemoryState, replace
from ralph.memory.capture.reflection import Proposal, ReflectionAnswer
from ralph.memory.reflection import read_state, stage_answer
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.store.memory_queries import MemoryFilter
from tests.make import an_episode, damaged_rows

QUOTE = 'the client is "Acme Corp" and wants tabs'


@pytest.mark.parametrize(
    "filter",
    [EpisodeFilter(matching="acme corp"), EpisodeFilter(within="s1"), EpisodeFilter(kinds=(EpisodeKind.SESSION,))],
    ids=["matching", "session", "kind"],
)
def test_quotes_of_forgotten_work_are_erased(project: Project, filter: EpisodeFilter) -> None:
    store = project.store
    said = replace(an_episode(QUOTE), id="ep-0123456789abcdef")
    store.episodes.add([said])
    quotes = ((said.id, QUOTE), ("run-1/2", "the build failed"))
    stage_answer(
        store,
        ReflectionAnswer(
            proposals=(
                Proposal(action="add", kind="convention", content="Use tabs in all files.", quotes=quotes),
                Proposal(action="remove", ids=("mem-1",), reason="Outdated.", quotes=quotes, marks=("x",)),
            )
        ),
        "claude",
    )

    erased = project.episodes.forget(filter)

    assert erased.quotes == 1
    (held,) = store.memories.find(MemoryFilter(states=(MemoryState.QUARANTINED,)))
    history = str([(event.why, event.was, event.became) for event in store.memories.history.of(held.id)])
    left = f"{held.state_reason} {history} {read_state(store)}"
    assert "Acme" not in left
    assert "the build failed" in left
    assert damaged_rows(store) == []
    assert project.episodes.forget(filter, dry_run=True).quotes == 0
