"""One fact is one memory, also when it is learned in other words."""

from __future__ import annotations

from ralph.core.records import Memory, MemorySource, MemoryState, now, replace
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from tests.make import a_memory

BY_RALPH = ChangeInfo(who="ralph", why="explorer handed over to planner")
RULE = "Run migrations before the integration tests."
SAME = "Before running integration tests, run the database migrations."


def said(text: str, **fields: object) -> Memory:
    plain = a_memory(text, text, id="", kind="pattern", source=MemorySource.AUTOMATIC, confidence=0.5)
    return replace(plain, updated_at=now(), **fields)


def test_the_same_in_other_words_supports_what_is_known(store: Store) -> None:
    first = store.memories.add(said(RULE), BY_RALPH)

    again = store.memories.add(said(SAME, kind="convention"), BY_RALPH)

    assert (again.what, again.memory.id, again.memory.content) == ("learned again", first.memory.id, RULE)
    assert again.memory.support == first.memory.support + 1
    assert SAME in store.memories.history.of(first.memory.id)[-1].why
    assert len(store.memories.all()) == 1


def test_what_says_more_is_kept_with_its_history(store: Store) -> None:
    first = store.memories.add(said("Use `with_app_context` for tests that touch `current_user`."), BY_RALPH).memory
    longer = "Use `with_app_context` for tests that touch `current_user`, a plain client raises a RuntimeError."

    refined = store.memories.add(said(longer), BY_RALPH)

    assert (refined.what, refined.memory.id, refined.memory.content) == ("refined", first.id, longer)
    store.memories.undo(first.id, ChangeInfo(who="person", why="test"))
    assert store.memories.get(first.id).content == first.content


def test_the_words_of_a_person_stay(store: Store) -> None:
    by_person = ChangeInfo(who="person", why="typed")
    known = store.memories.add(said("Line length is 100."), by_person, by_person=True).memory

    result = store.memories.add(said("Line length is 100 and ruff's E501 is an error in CI."), BY_RALPH)

    assert (result.memory.id, result.memory.content) == (known.id, "Line length is 100.")


def test_what_a_person_adds_is_always_an_entry_of_its_own(store: Store) -> None:
    store.memories.add(said(RULE), BY_RALPH)

    added = store.memories.add(said(SAME), ChangeInfo(who="person", why="typed"), by_person=True)

    assert (added.what, added.memory.content) == ("added", SAME)


def test_another_value_is_another_memory_in_its_place(store: Store) -> None:
    first = store.memories.add(said("Request bodies are limited to 64 KB by the gateway."), BY_RALPH)

    other = store.memories.add(said("Request bodies are limited to 256 KB by the gateway."), BY_RALPH)

    assert other.what == "added"
    assert store.memories.get(first.memory.id).superseded_by == other.memory.id


def test_a_warning_is_not_merged_with_a_recommendation(store: Store) -> None:
    store.memories.add(said("Use the shared cache for builds."), BY_RALPH)
    warning = said("Builds use the shared cache.", kind="pitfall", source=MemorySource.EXPLICIT)

    assert store.memories.add(warning, BY_RALPH).what == "added"


def test_what_two_sessions_said_is_no_longer_staged(store: Store) -> None:
    staged = said(RULE, state=MemoryState.STAGED, origin_session="s-1")
    assert store.memories.add(staged, BY_RALPH).memory.state is MemoryState.STAGED
    assert store.memories.add(replace(staged, content=SAME), BY_RALPH).memory.state is MemoryState.STAGED

    again = store.memories.add(said(SAME, state=MemoryState.STAGED, origin_session="s-2"), BY_RALPH)

    assert again.memory.state is MemoryState.ACTIVE
