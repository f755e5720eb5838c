from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.duplicates import find_duplicates, is_consolidation_due, merge_duplicates
from tests.make import a_memory

AT = "2026-03-01T00:00:00.000Z"


def noted(body: str, **fields: object) -> Memory:
    defaults = {"id": body, "kind": "pattern", "created_at": AT, "updated_at": AT}
    return a_memory(body, body, **{**defaults, **fields})


def are_one(one: Memory, other: Memory) -> bool:
    return bool(find_duplicates([one, other], AT))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The parser wants tabs in settings files.", "Parser wants tabs in the settings file"),
        ("Run the migrations before the integration tests", "Always run the migrations before the integration tests"),
        ("Use pnpm, not npm, to install packages", "Use pnpm not npm for installing packages"),
        ("The client retries 3 times on a timeout", "The client retries 3 times on timeouts"),
        ("Don't commit generated files to the repository", "Do not commit generated files to the repository"),
    ],
)
def test_the_same_in_other_words_is_one(one: str, other: str) -> None:
    assert are_one(noted(one), noted(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use the shared cache for builds", "Do not use the shared cache for builds"),
        ("The database listens on port 5432 in tests", "The database listens on port 5433 in tests"),
        (
            "Run the whole suite with pytest in a clean checkout",
            "Run the whole suite with unittest in a clean checkout",
        ),
        ("The formatter finds faults in src/main.rs after a change", "The formatter finds faults after a change"),
        ("Use tabs instead of spaces in settings files", "Use spaces instead of tabs in settings files"),
        ("Run the linter before the formatter in every hook", "Run the formatter before the linter in every hook"),
        ("Create the index in the migration of the users table", "Drop the index in the migration of the users table"),
        ("All handlers take the lock when they write", "Some handlers take the lock when they write"),
        ("Run the linter after the tests in the hook", "Run the linter before the tests in the hook"),
        ("The parser wants tabs", "The parser wants tabs in settings files but the lexer does not care for them"),
    ],
)
def test_what_says_something_else_is_never_merged(one: str, other: str) -> None:
    assert not are_one(noted(one), noted(other))


@pytest.mark.parametrize("field", ["kind", "task_type", "feature"])
def test_only_like_is_merged_with_like(field: str) -> None:
    one, other = noted("The parser wants tabs", id="1"), noted("The parser wants tabs", id="2", **{field: "other"})

    assert not are_one(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cache uses the database", "The database uses the cache"),
        ("Run migrate, then seed", "Seed, then run migrate"),
        ("Restart the workers if the queue is empty", "Restart the workers unless the queue is empty"),
        ("Start the workers with the queue", "Start only the workers with the queue"),
    ],
)
def test_what_says_the_opposite_in_nearly_the_same_words_stays_apart(one: str, other: str) -> None:
    assert not are_one(noted(one), noted(other))


def test_shared_tags_make_up_for_fewer_shared_words() -> None:
    long = "The parser reads settings files with tabs and reports the faulty line on errors"
    short = "The parser reads settings files with tabs and reports errors"

    assert not are_one(noted(long), noted(short))
    assert not are_one(noted(long, tags=("a", "b", "c")), noted(short, tags=("x", "c", "y")))
    assert are_one(noted(long, tags=("a", "b")), noted(short, tags=("b", "c")))


def test_the_surest_survives_then_the_best_supported_then_the_oldest() -> None:
    body = "The parser wants tabs"
    plain = noted(body, id="plain", confidence=0.6)
    sure = noted(body, id="sure", confidence=0.8)
    faded_away = noted(body, id="faded", confidence=0.9, created_at="2025-01-01T00:00:00.000Z")
    supported = noted(body, id="supported", confidence=0.6, support=3)
    older = noted(body, id="older", confidence=0.6, created_at="2026-02-27T00:00:00.000Z")

    def survivor(*memories: Memory) -> str:
        return find_duplicates(memories, AT)[0][0].id

    assert survivor(plain, sure, faded_away) == "sure"
    assert survivor(plain, supported) == "supported"
    assert survivor(plain, older) == "older"


def test_all_near_duplicates_of_a_survivor_are_in_its_cluster() -> None:
    memories = [
        noted("The parser wants tabs in settings files", id="a", confidence=0.9),
        noted("the parser wants tabs in settings file.", id="b"),
        noted("Parser always wants tabs in settings files", id="c"),
        noted("The lexer has its own buffer", id="d"),
    ]

    ((survivor, others),) = find_duplicates(memories, AT)

    assert (survivor.id, [other.id for other in others]) == ("a", ["b", "c"])


def test_merging_unites_and_counts_together() -> None:
    survivor = noted(
        "x", id="a", tags=("t",), files=("f",), origin_loops=("1",), support=2, uses=1, wins=1, confidence=0.6
    )
    other = noted("x", id="b", tags=("t", "u"), files=("g",), origin_loops=("2",), support=3, uses=2, losses=4)

    merged = merge_duplicates(survivor, [other], AT)

    assert (merged.id, merged.content) == ("a", "x")
    assert (merged.tags, merged.files, merged.origin_loops) == (("t", "u"), ("f", "g"), ("1", "2"))
    assert (merged.support, merged.uses, merged.wins, merged.losses) == (5, 3, 1, 4)
    assert (merged.confidence, merged.updated_at) == (0.6, AT)


def test_the_success_rate_is_that_of_all_of_them() -> None:
    memories = [noted("x", success_rate=1.0, support=3), noted("x", success_rate=0.0), noted("x", support=9)]

    assert merge_duplicates(memories[0], memories[1:], AT).success_rate == 0.75


@given(
    st.lists(
        st.tuples(st.integers(0, 100).map(lambda n: n / 100), st.integers(1, 28), st.none() | st.integers(1, 28)),
        min_size=2,
        max_size=5,
    )
)
def test_nothing_gets_surer_by_being_merged(made: list[tuple[float, int, int | None]]) -> None:
    memories = [
        noted(
            "x",
            confidence=confidence,
            created_at=f"2026-01-{created:02}T00:00:00.000Z",
            used_at=f"2026-02-{used:02}T00:00:00.000Z" if used else None,
        )
        for confidence, created, used in made
    ]

    merged = merge_duplicates(memories[0], memories[1:], AT)

    assert current_confidence(merged, AT) <= max(current_confidence(one, AT) for one in memories) + 1e-6
    assert merged.confidence <= max(one.confidence for one in memories)


@pytest.mark.parametrize(
    ("active", "iterations", "due"), [(200, 100, False), (201, 9, False), (201, 10, True), (1000, 0, False)]
)
def test_it_is_due_when_there_are_many_and_the_last_time_is_a_while_ago(
    active: int, iterations: int, due: bool
) -> None:
    assert is_consolidation_due(active, iterations) is due


@given(st.lists(st.lists(st.sampled_from("tabs parser not 5432 wants in file".split()), max_size=6), max_size=12))
def test_every_memory_is_in_at_most_one_cluster_and_none_is_made_up(bodies: list[list[str]]) -> None:
    memories = [noted(" ".join(words), id=str(place)) for place, words in enumerate(bodies)]

    ids = [one.id for survivor, others in find_duplicates(memories, AT) for one in (survivor, *others)]

    assert len(ids) == len(set(ids))
    assert set(ids) <= {memory.id for memory in memories}
    assert all(others for _, others in find_duplicates(memories, AT))


def test_thousands_of_memories_take_no_time() -> None:
    chance = random.Random(1)
    words = [
        f"{start}{end}" for start in "par con ser ten mol lur".split() for end in "tira velo dora masi quon".split()
    ]
    bodies = [" ".join(chance.choices(words, k=15)) for _ in range(2_000)]
    memories = [noted(body, id=f"{place}") for place, body in enumerate(bodies)]
    memories += [noted(f"Always {body}", id=f"again-{place}") for place, body in enumerate(bodies[:100])]
    memories += [noted("The parser wants tabs", id=f"same-{place}") for place in range(2_000)]
    started = time.process_time()

    found = find_duplicates(memories, AT)

    assert time.process_time() - started < 5
    assert len(found) >= 101
