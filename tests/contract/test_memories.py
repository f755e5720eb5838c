"""What a memory goes through in the store: kept once, changed with a trace, brought back."""

from __future__ import annotations

import json

import pytest

from ralph.core.errors import NotFoundError, RalphError
from ralph.core.records import Memory, MemoryState, replace
from ralph.store import Store
from ralph.store.memories import AddResult, ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_memory, damaged_rows, remember
from tests.store.make import found_by

T = ChangeInfo(who="t", why="t")
PERSON = ChangeInfo(who="person", why="said so")


def a_fact(body: str, **fields: object) -> Memory:
    return a_memory(body[:40], body, kind="pattern", **fields)


def bring(store: Store, memories: list[Memory], change: ChangeInfo) -> list[AddResult]:
    return store.memories.import_memories([(memory, ()) for memory in memories], change)


def whats(store: Store, id: str) -> list[str]:
    return [event.what for event in store.memories.history.of(id)]


# --- duplicates --------------------------------------------------------------------


def test_the_same_words_learned_by_another_attempt_raise_support_and_add_no_entry(store: Store) -> None:
    first = remember(store, a_fact("Use tabs in the Makefile.", origin_run="run-1", origin_attempt=1))

    again = remember(store, a_fact("use tabs in Makefiles", origin_run="run-2", origin_attempt=1))

    assert again.id == first.id
    assert again.support == 2
    assert again.confidence > first.confidence
    assert again.verified_at
    assert len(store.memories.all()) == 1


def test_what_one_attempt_says_twice_counts_once(store: Store) -> None:
    first = remember(store, a_fact("Use tabs.", origin_run="run-1", origin_attempt=1))

    again = store.memories.add(a_fact("Use tabs.", origin_run="run-1", origin_attempt=1), T)

    assert again.what == "known"
    assert store.memories.get(first.id).support == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("Use tabs here.", "Do not use tabs here."), ("The port is 5432.", "The port is 5433.")],
)
def test_another_value_or_the_opposite_takes_the_place_of_what_was_known(store: Store, one: str, other: str) -> None:
    first, second = (remember(store, a_fact(text)) for text in (one, other))

    assert [memory.id for memory in store.memories.all()] == [second.id]
    assert store.memories.get(first.id).superseded_by == second.id


def test_what_means_something_else_is_another_memory(store: Store) -> None:
    remember(store, a_fact("A then B"))
    remember(store, a_fact("B then A"))

    assert len(store.memories.all()) == 2


def test_equal_learnings_of_many_loops_are_one_with_all_its_loops(store: Store) -> None:
    content = json.dumps({"description": "Test-driven development approach", "effectiveness": 1, "iterations": 2})
    for n in range(200):
        learning = a_memory(
            "TDD", "TDD", kind="strategy", structured_content=content, task_type="test-fix", origin_loops=(f"l{n}",)
        )
        remember(store, learning)

    (only,) = store.memories.all()
    assert len(only.origin_loops) == 200
    assert only.support == 200
    assert json.loads(only.structured_content)["iterations"] == 400


def test_the_same_loop_extracted_again_changes_nothing(store: Store) -> None:
    content = json.dumps({"description": "TDD", "effectiveness": 1, "iterations": 2})
    learning = a_memory(
        "TDD", "TDD", kind="strategy", structured_content=content, task_type="test-fix", origin_loops=("l1",)
    )
    first = remember(store, learning)

    again = store.memories.add(replace(learning, id=""), T)

    assert again.what == "known"
    assert store.memories.get(first.id) == first


def test_a_longer_title_with_the_same_tags_updates_the_entry(store: Store) -> None:
    first = remember(store, a_memory("Cargo bench", "Needs nightly.", tags=("cargo", "bench")))

    again = remember(store, a_memory("Cargo bench requires nightly", "Use rustup.", tags=("cargo", "bench", "rust")))

    assert again.id == first.id
    assert again.content == "Use rustup."
    assert again.tags == ("cargo", "bench", "rust")


def test_a_title_inside_another_with_other_tags_is_another_entry(store: Store) -> None:
    remember(store, a_memory("Cargo bench", "Needs nightly.", tags=("cargo", "bench")))

    remember(store, a_memory("Cargo bench in CI", "Skipped.", tags=("ci", "github")))

    assert len(store.memories.all()) == 2


def test_what_a_person_deleted_is_not_learned_again_unless_a_person_says_it(store: Store) -> None:
    first = remember(store, a_fact("Use tabs."))
    store.memories.update(first.id, "deleted", PERSON, state=MemoryState.PRUNED)

    by_agent = store.memories.add(a_fact("Use tabs."), T)
    after_agent = store.memories.stats.count()
    by_person = store.memories.add(a_fact("Use tabs."), PERSON, by_person=True)

    assert (by_agent.what, after_agent) == ("refused", 0)
    assert by_person.memory.id == first.id
    assert by_person.memory.state is MemoryState.ACTIVE


def test_what_was_merely_pruned_comes_back_when_it_is_learned_again(store: Store) -> None:
    first = remember(store, a_fact("Use tabs."))
    store.memories.update(first.id, "pruned", ChangeInfo(who="ralph", why="cleanup"), state=MemoryState.PRUNED)

    again = remember(store, a_fact("Use tabs."))

    assert (again.id, again.state) == (first.id, MemoryState.ACTIVE)


def test_what_was_superseded_supports_the_one_in_its_place(store: Store) -> None:
    kept = remember(store, a_fact("Use tabs in Makefiles, never spaces."))
    old = remember(store, a_fact("Tabs, please."))
    store.memories.consolidate(kept, kept, [old], T)

    again = remember(store, a_fact("Tabs, please."))

    assert again.id == kept.id
    assert again.support == 2


# --- history and undo ----------------------------------------------------------------


def test_every_change_says_who_why_and_what_it_was(store: Store) -> None:
    memory = remember(store, a_fact("Old words."))

    store.memories.update(memory.id, "edited", PERSON, content="New words.", tags=("x",))

    added, edited = store.memories.history.of(memory.id)
    assert (added.what, added.was) == ("added", None)
    assert (edited.who, edited.why) == ("person", "said so")
    assert json.loads(edited.was or "") == {"body": "Old words.", "tags": "[]"}
    assert json.loads(edited.became or "") == {"body": "New words.", "tags": '["x"]'}


def test_undo_takes_back_one_change_after_the_other(store: Store) -> None:
    memory = remember(store, a_fact("Use tabs."))
    store.memories.update(memory.id, "edited", T, content="Use spaces.")
    store.memories.update(memory.id, "edited", T, content="Use braces.")
    store.memories.update(memory.id, "deleted", PERSON, state=MemoryState.PRUNED)

    steps = [store.memories.undo(memory.id, T)[0] for _ in range(3)]

    assert [(step.content, step.state) for step in steps] == [
        ("Use braces.", MemoryState.ACTIVE),
        ("Use spaces.", MemoryState.ACTIVE),
        ("Use tabs.", MemoryState.ACTIVE),
    ]
    assert [len(found_by(store, text)) for text in ("tabs", "spaces", "braces")] == [1, 0, 0]


def test_undoing_the_addition_takes_the_memory_out_of_use_and_then_there_is_nothing_left(store: Store) -> None:
    memory = remember(store, a_fact("One."))

    undone, _ = store.memories.undo(memory.id, T)

    assert undone.state is MemoryState.PRUNED
    with pytest.raises(RalphError) as raised:
        store.memories.undo(memory.id, T)
    assert raised.value.code == "nothing-to-undo"


def test_any_version_can_be_seen_again_also_one_that_was_undone(store: Store) -> None:
    memory = remember(store, a_fact("One."))
    store.memories.update(memory.id, "edited", T, content="Two.")
    store.memories.undo(memory.id, T)
    added, edited, undone = store.memories.history.of(memory.id)

    bodies = [store.memories.history.version(memory.id, event.seq).content for event in (added, edited, undone)]

    assert bodies == ["One.", "Two.", "One."]
    with pytest.raises(NotFoundError):
        store.memories.history.version(memory.id, 10_000)


def test_changes_made_together_are_undone_together(store: Store) -> None:
    memories = [remember(store, a_fact(f"Number {n}.")) for n in range(3)]
    change = replace(T, id=change_id())
    store.memories.update_unmodified(
        [(one, replace(one, state=MemoryState.PRUNED)) for one in memories], "pruned", change
    )

    undone = store.memories.undo_change(change.id, T)

    assert len(undone) == 3
    assert store.memories.stats.count() == 3
    with pytest.raises(NotFoundError):
        store.memories.undo_change(change.id, T)


def test_the_events_of_all_memories_are_one_feed(store: Store) -> None:
    one = remember(store, a_fact("One."))
    seen = store.memories.history.last_event_seq()
    two = remember(store, a_fact("Two."))
    store.memories.update(one.id, "edited", T, content="One!")

    feed = store.memories.history.since(seen, 10)

    assert [(event.memory_id, event.what) for event in feed] == [(two.id, "added"), (one.id, "edited")]


# --- bringing ----------------------------------------------------------------------


def test_bringing_the_same_again_changes_nothing(store: Store) -> None:
    memories = [a_fact(f"Fact number {n} of many.", id=f"mem-{n}-0000") for n in range(1200)]
    first = bring(store, memories, T)
    before = store.memories.history.last_event_seq()

    again = bring(store, memories, T)

    assert {one.what for one in first} == {"added"}
    assert {one.what for one in again} == {"known"}
    assert store.memories.history.last_event_seq() == before
    assert damaged_rows(store) == []


def test_two_texts_under_one_id_are_both_kept(store: Store) -> None:
    brought = bring(
        store,
        [a_fact("The mock provider must be updated.", id="mem-1-aaaa"), a_fact("Config is TOML.", id="mem-1-aaaa")],
        T,
    )

    assert [one.what for one in brought] == ["added", "added"]
    assert len({one.memory.id for one in brought}) == 2
    again = bring(store, [a_fact("Config is TOML.", id="mem-1-aaaa")], T)
    assert again[0].what == "known"


def test_an_edited_text_under_a_known_id_is_taken_over_and_the_old_one_stays_in_the_history(store: Store) -> None:
    (first,) = bring(store, [a_fact("The config file is read at the start.", id="mem-1-aaaa")], T)

    (again,) = bring(store, [a_fact("The config file is read once at the start.", id="mem-1-aaaa")], T)

    assert (again.what, again.memory.id) == ("merged", first.memory.id)
    assert "read at the start" in (store.memories.history.of(first.memory.id)[-1].was or "")


def test_the_same_words_under_another_id_only_add_what_is_new(store: Store) -> None:
    bring(store, [a_fact("Use tabs.", id="mem-1-aaaa", tags=("a",))], T)

    (again,) = bring(store, [a_fact("Use tabs.", id="mem-2-bbbb", tags=("b",))], T)

    assert again.what == "merged"
    assert [(one.id, one.tags, one.support) for one in store.memories.all()] == [("mem-1-aaaa", ("a", "b"), 1)]


def test_what_was_deleted_here_is_not_brought_back_by_an_import(store: Store) -> None:
    bring(store, [a_fact("Use tabs.", id="mem-1-aaaa")], T)
    store.memories.update("mem-1-aaaa", "deleted", PERSON, state=MemoryState.PRUNED)

    (again,) = bring(store, [a_fact("Use tabs.", id="mem-1-aaaa")], T)

    assert again.what == "refused"
    assert store.memories.stats.count() == 0


def test_an_import_that_was_undone_can_be_made_again(store: Store) -> None:
    change = replace(PERSON, id=change_id())
    bring(store, [a_fact("Use tabs.", id="mem-1-aaaa")], change)
    store.memories.undo_change(change.id, PERSON)

    (again,) = bring(store, [a_fact("Use tabs.", id="mem-1-aaaa")], T)

    assert again.what == "revived"
    assert store.memories.get("mem-1-aaaa").state is MemoryState.ACTIVE


def test_what_an_agent_brings_changes_nothing_that_is_here(store: Store) -> None:
    bring(store, [a_fact("The config file is read at the start.", id="mem-1-aaaa", tags=("a",))], T)

    held = a_fact("The config file is read at the start.", tags=("b",), state=MemoryState.QUARANTINED)
    (again,) = bring(store, [held], T)

    assert again.what == "known"
    assert store.memories.get("mem-1-aaaa").tags == ("a",)


def test_a_person_who_says_what_is_staged_makes_it_active(store: Store) -> None:
    staged = remember(store, a_fact("Use tabs.", state=MemoryState.STAGED))

    said = store.memories.add(a_fact("Use tabs."), PERSON, by_person=True)

    assert (said.what, said.memory.id, said.memory.state) == ("revived", staged.id, MemoryState.ACTIVE)


def test_what_somebody_changed_meanwhile_is_left_alone_by_a_change_of_many(store: Store) -> None:
    one, other = remember(store, a_fact("One.")), remember(store, a_fact("Other."))
    store.memories.update(one.id, "edited", PERSON, content="One, edited.")

    pairs = [(memory, replace(memory, state=MemoryState.PRUNED)) for memory in (one, other)]
    changed = store.memories.update_unmodified(pairs, "pruned", T)

    assert [memory.id for memory in changed] == [other.id]
    assert store.memories.get(one.id).content == "One, edited."


def test_an_event_cannot_turn_one_memory_into_another(store: Store) -> None:
    victim, other = remember(store, a_fact("Victim.")), remember(store, a_fact("Other."))
    store.memories.update(other.id, "edited", T, content="Changed.")
    forged = json.dumps({"id": victim.id, "body": "Owned."})
    store.database.execute("UPDATE memory_events SET was = :was WHERE what = 'edited'", was=forged)

    store.memories.undo(other.id, T)

    assert store.memories.get(victim.id).content == "Victim."
    assert store.memories.get(other.id).content == "Owned."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Separate tags with `,`", "Separate tags with `;`"),
        ("Do not check in generated files", "Do not check generated files"),
    ],
)
def test_signs_in_code_and_small_words_make_a_difference(store: Store, one: str, other: str) -> None:
    remember(store, a_fact(one))
    remember(store, a_fact(other))

    assert len(store.memories.all()) == 2


def test_what_is_warned_of_is_not_what_is_recommended(store: Store) -> None:
    remember(store, a_memory("Globals", "Use global state.", kind="pattern"))
    remember(store, a_memory("Globals", "Use global state.", kind="pitfall"))

    assert len(store.memories.all()) == 2


# --- finding -----------------------------------------------------------------------


def test_memories_are_listed_newest_first_by_kind_state_tag_and_confidence(store: Store) -> None:
    remember(store, a_fact("One.", tags=("x",), confidence=0.9))
    remember(store, a_fact("Two.", tags=("y",), confidence=0.2))
    remember(store, a_memory("Three", "Three.", tags=("x",)))

    def found(**wanted: object) -> list[str]:
        return [one.content for one in store.memories.find(replace(MemoryFilter(), **wanted))]

    assert found() == ["Three.", "Two.", "One."]
    assert found(kinds=("pattern",)) == ["Two.", "One."]
    assert found(tags=("x", "z")) == ["Three.", "One."]
    assert found(min_confidence=0.6) == ["One."]
    assert found(states=(MemoryState.STAGED,)) == []


def test_a_text_is_found_in_any_case_and_its_signs_mean_nothing(store: Store) -> None:
    remember(store, a_fact("Authentication is done by 100% of handlers_here."))
    remember(store, a_fact("Something else."))

    def found(text: str) -> int:
        return len(list(store.memories.listing.containing(MemoryFilter(), text)))

    assert found("AUTHENT") == 1
    assert found("100%") == 1
    assert found("10%0") == 0
    assert found("handlers_here") == 1
    assert found("handlersxhere") == 0
    assert found("\\") == 0


def test_links_lead_both_ways_and_follow_the_text(store: Store) -> None:
    hub = remember(store, a_memory("Run Loop", "See [[Sigils]] and [[Nowhere]].", tags=("x",)))
    sigils = remember(store, a_memory("Sigils", "Read in [[run loop]].", tags=("y",)))

    out, back = store.memories.index.links(hub.id)
    assert [(title, one.id if one else None) for title, one in out] == [("Sigils", sigils.id), ("Nowhere", None)]
    assert [one.id for one in back] == [sigils.id]

    store.memories.update(sigils.id, "edited", T, content="Read elsewhere.")
    assert store.memories.index.links(hub.id)[1] == []
