"""The one recall, over a real store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ralph.core.records import AttemptOutcome, Memory, MemoryState, OmittedItem, RecalledMemory, now, replace
from ralph.memory.recall.candidates import find_similar_attempts, find_similar_failures, rank_memories, recall_memories
from ralph.memory.recall.query import RecallContext
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, finish, remember

NOISE = ("paint the fence", "water the plants", "walk the dog", "bake some bread", "tune the piano", "mow the lawn")


def many(store: Store, make: Callable[[int], Memory], count: int = 500) -> None:
    """Insert many memories at once."""
    store.memories.insert_all_unchecked([make(n) for n in range(count)], ChangeInfo(who="person", why=""))


def asking(title: str, **more: Any) -> RecallContext:
    return RecallContext(title=title, at=now(), **more)


def titles(store: Store, title: str, **more: Any) -> list[str]:
    return [one.memory.title for one in recall_memories(store, asking(title, **more)).shown]


@pytest.fixture
def filled(store: Store) -> Store:
    for n, text in enumerate(NOISE):
        remember(store, a_memory(f"Chore {n}", text, tags=()))
    remember(
        store, a_memory("Retries", "The HttpClient waits before each retry.", tags=(), files=("net/http_client.py",))
    )
    remember(store, a_memory("Timeouts", "Set them on the socket.", tags=(), files=("net/http_client.py",)))
    return store


@pytest.mark.parametrize(
    "title",
    [
        "http client retries",
        "HttpClient.retry",
        "the http_client retried",
        "RETRY in http-client",
        "net/http_client.py retry",
    ],
)
def test_the_ways_to_name_a_thing_find_it(filled: Store, title: str) -> None:
    assert titles(filled, title)[0] == "Retries"


def test_an_irrelevant_task_gets_nothing_rather_than_the_least_bad(filled: Store) -> None:
    found = recall_memories(filled, asking("Translate the invoice templates into Greek"))

    assert found.shown == ()
    assert all(one.why for one in found.left_out)


def test_what_touches_the_same_file_is_found_without_a_word_in_common(filled: Store) -> None:
    found = rank_memories(filled, asking("http client retries too fast"))

    assert [one.row["title"] for one in found[:2]] == ["Retries", "Timeouts"]
    assert found[1].components["files"] > 0


def test_scores_add_up_and_places_are_those_of_the_ranking(filled: Store) -> None:
    found = recall_memories(filled, asking("http client retries of the fence"))
    everything: list[RecalledMemory | OmittedItem] = [*found.shown, *found.left_out]

    for one in everything:
        assert one.score == pytest.approx(sum(share for _, share in one.because), abs=1e-9)
    places = sorted((one.place, -(one.score or 0.0)) for one in everything)
    assert [place for place, _ in places] == list(range(1, len(everything) + 1))
    assert [score for _, score in places] == sorted(score for _, score in places)


def test_the_sessions_own_and_what_was_shown_stay_out_with_the_reason(store: Store) -> None:
    own = remember(store, a_memory("Parser one", "The parser wants tabs.", origin_session="s-1"))
    seen = remember(store, a_memory("Parser two", "The parser hates spaces."))

    found = recall_memories(store, asking("Mend the parser", session="s-1", shown=frozenset({seen.id})))

    assert found.shown == ()
    assert {one.id: one.why for one in found.left_out} == {
        own.id: "comes from this session",
        seen.id: "was already shown",
    }


def test_only_active_memories_are_recalled(store: Store) -> None:
    memory = remember(store, a_memory("Parser", "The parser wants tabs."))
    store.memories.update(memory.id, "deleted", ChangeInfo(who="person", why=""), state=MemoryState.PRUNED)

    assert titles(store, "Mend the parser") == []


def test_an_edited_memory_is_found_by_its_new_words_alone(store: Store) -> None:
    memory = remember(store, a_memory("Parser", "The parser wants tabs."))
    store.memories.update(
        memory.id, "edited", ChangeInfo(who="person", why=""), title="Lexer", content="It eats commas.", tags=()
    )

    assert titles(store, "Mend the parser") == []
    assert titles(store, "commas in the lexer") == ["Lexer"]


def test_a_link_brings_what_it_names(store: Store) -> None:
    remember(store, a_memory("Release keys", "They lie in the vault.", kind="knowledge", tags=()))
    remember(store, a_memory("Deploying", "Deploy by tag; see [[Release keys]].", kind="knowledge", tags=()))

    found = {one.row["title"]: one for one in rank_memories(store, asking("deploy by tag"))}

    assert found["Release keys"].components["links"] > 0


def test_wanted_kinds_alone_are_ranked_however_many_others_there_are(store: Store) -> None:
    old = remember(store, a_memory("The fix", "parser", kind="fix"))
    many(store, lambda n: a_memory(f"Parser {n}", f"The parser wants tabs {n}.", id=f"mem-2-{n:05}", kind="pattern"))

    found = rank_memories(store, asking("parser tabs"), MemoryFilter(kinds=("fix",)))

    assert [one.row["id"] for one in found] == [old.id]


def test_journal_entries_are_found_by_notes_files_and_the_title_of_their_task(store: Store) -> None:
    store.tasks.add(TaskDraft(title="Export the ledger"))
    run = store.runs.start("test")
    finish(store, *begin(store, run.id), AttemptOutcome.DONE, notes="Used the csv module.", files=("billing/table.py",))

    for query in ("csv", "ledger export", "billing/table.py"):
        assert len(find_similar_attempts(store, asking(query), 5, minimum=0.0)) == 1, query
    assert find_similar_attempts(store, asking("csv"), 5, exclude_run=run.id) == []


def test_the_same_failure_elsewhere_is_found_whatever_the_task_says(store: Store) -> None:
    other = store.tasks.add(TaskDraft(title="Export the ledger"))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(store, task, attempt, AttemptOutcome.FAILED, report=replace(a_report(attempt), fingerprint="f-1"))

    assert [one.task_id for one in find_similar_failures(store, asking("Paint", failure="f-1"), 5)] == [other.id]
    assert find_similar_failures(store, asking("Paint", failure="f-2"), 5) == []
    assert find_similar_failures(store, asking("Paint", failure="f-1"), 5, other.id) == []


def test_reading_changes_nothing(filled: Store) -> None:
    before = filled.database.query("SELECT * FROM memory ORDER BY seq")

    recall_memories(filled, asking("http client retries"))

    assert filled.database.query("SELECT * FROM memory ORDER BY seq") == before


def test_near_duplicates_are_shown_once(store: Store) -> None:
    def memory(n: int, body: str) -> Memory:
        return a_memory(f"Rounding {n}", body, tags=())

    first = remember(store, memory(1, "Round money half up to cents with Decimal in billing."))
    remember(store, memory(2, "Round money half up to cents with Decimal in the billing."))

    found = recall_memories(store, asking("rounding of money in billing"))

    assert len(found.shown) == 1
    assert next(one.why for one in found.left_out).startswith("near-duplicate of mem-")
    assert first.id in (found.shown[0].memory.id, found.left_out[0].id)


def test_tags_that_are_asked_for_are_found_behind_any_number_of_better_matches(store: Store) -> None:
    billing = remember(store, a_memory("Old one", "zebra rounding", tags=("billing",)))
    many(store, lambda n: a_memory(f"Zebra {n}", f"zebra rounding zebra {n}", id=f"mem-2-{n:05}", tags=("other",)))

    found = rank_memories(store, asking("zebra rounding"), MemoryFilter(tags=("billing",)))

    assert [one.row["id"] for one in found] == [billing.id]


def test_links_do_not_make_a_recall_slow(store: Store) -> None:
    many(store, lambda n: a_memory(f"Common {n}", "common database connection", id=f"mem-2-{n:05}", tags=()), 3_000)
    began = time.process_time()

    recall_memories(store, asking("common database connection"))

    assert time.process_time() - began < 2


def test_what_was_merely_learned_at_about_the_same_time_is_not_shown(store: Store) -> None:
    for minute, text in enumerate(("the csv export loses umlauts", "docker needs a socket", "retries wait longer")):
        at = f"2026-01-01T10:0{minute}:00.000Z"
        remember(store, a_memory(f"Note {minute}", text, tags=(), created_at=at, updated_at=at))

    assert titles(store, "docker socket") == ["Note 1"]


def test_a_damaged_row_does_not_stop_a_recall(store: Store) -> None:
    memory = remember(store, a_memory("Parser", "The parser wants tabs."))
    store.database.execute("UPDATE memory SET files = 'oops', created_at = '2024-xx-01' WHERE id = :id", id=memory.id)

    assert len(rank_memories(store, asking("parser tabs"))) == 1
