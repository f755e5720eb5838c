"""Whoever changes a memory is told the number of that change, and can take back exactly that."""

from __future__ import annotations

import pytest

from ralph.core.errors import ConflictError, NotFoundError, UsageError
from ralph.core.paging import Page
from ralph.core.records import MemoryState, replace, timestamp
from ralph.project import Project
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_memory, remember

T = ChangeInfo(who="t", why="t")


def last_event(project: Project, id: str) -> int:
    return project.memory.history(id)[-1].seq


def test_every_change_tells_its_number_in_the_history(project: Project) -> None:
    added = project.memory.add("Use tabs.")
    id = added.memory.id
    assert added.event == last_event(project, id)

    assert project.memory.add("Use tabs.").event == last_event(project, id)
    assert project.memory.edit(id, content="Use spaces.").event == last_event(project, id)
    ((_, confirmed),) = project.memory.confirm(id)
    assert confirmed.event == last_event(project, id)


def test_decisions_on_learnings_tell_their_number(project: Project) -> None:
    kept, refused = (
        remember(project.store, a_memory(text, text, kind="pattern", state=MemoryState.STAGED)).id
        for text in ("Tabs", "Bees")
    )

    assert project.learnings.accept(kept).event == last_event(project, kept)
    assert project.learnings.reject(refused).event == last_event(project, refused)


def test_exactly_one_change_is_taken_back(project: Project) -> None:
    id = project.memory.add("Use tabs.").memory.id
    edited = project.memory.edit(id, content="Use spaces.")

    undone = project.memory.undo(id, only=edited.event)[0]

    assert undone.content == "Use tabs."
    assert project.memory.history(id)[-1].undoes == edited.event


def test_nothing_is_taken_back_when_something_came_after(project: Project) -> None:
    id = project.memory.add("Use tabs.").memory.id
    ours = project.memory.edit(id, content="Use spaces.")
    theirs = project.memory.edit(id, tags=["style"])

    with pytest.raises(ConflictError, match=f"changed again after event {ours.event} .*event {theirs.event}"):
        project.memory.undo(id, only=ours.event)

    assert project.memory.get(id) == theirs.memory
    project.memory.undo(id, only=theirs.event)
    assert project.memory.undo(id, only=ours.event)[0].content == "Use tabs."


def test_what_was_taken_back_is_not_taken_back_twice(project: Project) -> None:
    id = project.memory.add("Use tabs.").memory.id
    edited = project.memory.edit(id, content="Use spaces.")
    project.memory.undo(id, only=edited.event)

    with pytest.raises(ConflictError) as refused:
        project.memory.undo(id, only=edited.event)
    assert refused.value.code == "not-undoable"

    assert project.memory.get(id).state is MemoryState.ACTIVE


def test_a_change_of_another_memory_is_not_found(project: Project) -> None:
    id = project.memory.add("Use tabs.").memory.id
    other = project.memory.add("Bees make honey.")

    with pytest.raises(NotFoundError):
        project.memory.undo(id, only=other.event)
    with pytest.raises(UsageError):
        project.memory.undo(id, only=1, to=1)


def test_what_a_person_states_of_a_known_memory_is_one_change_with_its_being_learned_again(project: Project) -> None:
    first = project.memory.add("Use tabs.").memory

    again = project.memory.add("Use tabs.", type="decision", title="Tabs", confidence=0.4)
    assert (again.memory.kind, again.memory.title, again.memory.confidence) == ("decision", "Tabs", 0.4)
    assert [event.what for event in project.memory.history(first.id)] == ["added", "learned again"]
    undone = project.memory.undo(first.id, only=again.event)[0]

    assert undone == replace(first, updated_at=undone.updated_at)


# --- in the order of their dates --------------------------------------------------------------


def aged(store: Store, number: int, state: MemoryState = MemoryState.ACTIVE) -> str:
    at = timestamp(1_750_000_000 + number * 60)
    memory = a_memory(
        f"Fact {number}", f"All about {number}.", kind="pattern", created_at=at, updated_at=at, state=state
    )
    return store.memories.insert_unchecked(memory, T).id


def test_the_oldest_come_first_from_any_place_on(store: Store) -> None:
    states = (MemoryState.ACTIVE, MemoryState.STAGED)
    ids = [aged(store, number, states[number % 2]) for number in range(9)]
    place = store.memories.get(ids[3])

    assert [one.id for one in store.memories.listing.oldest(MemoryFilter(states=states))] == ids
    assert [
        one.id for one in store.memories.listing.oldest(MemoryFilter(states=states), (place.created_at, place.id))
    ] == ids[4:]
    assert [one.id for one in store.memories.listing.newest(MemoryFilter(states=states))] == ids[::-1]


def test_learnings_are_counted_and_come_in_pages_by_where_they_stand(project: Project) -> None:
    staged = [aged(project.store, number, MemoryState.STAGED) for number in range(4)]
    held = aged(project.store, 4, MemoryState.QUARANTINED)
    rejected = [aged(project.store, number, MemoryState.REJECTED) for number in (5, 6)]
    project.store.memories.update(staged[1], "validated", T, validated_at=timestamp(1_750_000_000))
    learning = project.learnings

    assert learning.counts() == {"pending": 3, "validated": 1, "quarantined": 1, "rejected": 2}
    first = learning.list(page=Page(limit=3))
    second = learning.list(page=Page(limit=3, after=first.next))
    assert ([one.id for one in (*first, *second)], second.next) == ([*staged, held], None)
    for status in (None, "all", "pending", "validated", "quarantined", "rejected"):
        assert learning.list(status, Page(limit=10)) == learning.list(status)
    assert [one.id for one in learning.list("rejected", newest=True)] == rejected[::-1]
