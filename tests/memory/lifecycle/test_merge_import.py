"""What is brought once more changes nothing, and a file takes nothing away by not saying it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, replace
from ralph.formats.learnings_json import read_learnings_json, write_learnings_json
from ralph.formats.memories_csv import read_memories_csv, write_memories_csv
from ralph.formats.memories_json import read_memories_json, write_memories_json
from ralph.memory.lifecycle.merge_import import merge_imported
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
LATER = "2026-05-02T00:00:00.000Z"

STRATEGY = a_memory(
    "Tests first",
    "Tests first. Over 3 iterations.",
    kind="strategy",
    structured_content='{"description":"Tests first","iterations":3}',
    tags=("tests",),
    files=("src/app.py",),
    origin_loops=("loop-1",),
    created_at=AT,
    updated_at=AT,
)
CONVENTION = a_memory(
    "Tabs, not spaces", "In  all of src/app.py.", kind="convention", tags=("style",), created_at=AT, updated_at=AT
)
FIX = a_memory(
    "The cache",
    "Empty the cache when the server does not start.",
    kind="fix",
    tags=("cache",),
    files=("src/cache.py",),
    created_at=AT,
    updated_at=AT,
)
KNOWN = (STRATEGY, CONVENTION, replace(CONVENTION, content=CONVENTION.title), replace(CONVENTION, content=""), FIX)


@pytest.mark.parametrize("known", KNOWN)
def test_what_was_exported_is_known_when_it_comes_back(known: Memory) -> None:
    (from_csv,), _ = read_memories_csv(write_memories_csv([known]), LATER)
    (from_json,), _ = read_memories_json(write_memories_json([known], "shop", AT), LATER)

    assert merge_imported(known, from_csv) == known
    assert merge_imported(known, from_json) == known


@pytest.mark.parametrize("known", [one for one in KNOWN if one is not FIX])
def test_exported_learnings_are_known_when_they_come_back(known: Memory) -> None:
    (back,), _ = read_learnings_json(write_learnings_json([known]), LATER)

    assert merge_imported(known, back) == known


def test_a_table_without_structured_content_takes_none_away() -> None:
    table = write_memories_csv([replace(STRATEGY, structured_content="")])
    (back,), _ = read_memories_csv(table, LATER)

    assert back.structured_content == ""
    assert merge_imported(STRATEGY, back) == STRATEGY


def test_what_a_file_does_not_say_stays_when_its_text_is_another() -> None:
    edited = replace(
        STRATEGY, content="Tests first, always. Over 3 iterations.", structured_content="", tags=(), files=()
    )

    after = merge_imported(STRATEGY, edited)

    assert after == replace(STRATEGY, content=edited.content)
    assert after is not None
    assert merge_imported(after, edited) == after


def test_a_title_of_its_own_is_not_lost_to_a_file_without_titles() -> None:
    body = "Empty the cache when the server does not start at all."

    after = merge_imported(FIX, replace(FIX, title=body.removesuffix("."), content=body))

    assert after == replace(FIX, content=body)


def test_files_that_the_old_text_mentioned_go_with_it_and_named_ones_stay() -> None:
    known = replace(FIX, content="Empty the cache in a.py when it does not start.", files=("a.py", "src/cache.py"))
    edited = replace(known, content="Empty the cache in b.py when it does not start.", files=("b.py",))

    after = merge_imported(known, edited)

    assert after is not None
    assert after.files == ("b.py", "src/cache.py")


def test_files_that_a_file_names_are_taken_over_with_the_text() -> None:
    edited = replace(FIX, content="Empty the cache when the server does not start at all.", files=("src/store.py",))

    after = merge_imported(FIX, edited)

    assert after is not None
    assert after.files == ("src/store.py",)


def test_plain_words_gain_the_structured_content_that_says_more() -> None:
    plain = replace(STRATEGY, structured_content="", origin_loops=())

    assert merge_imported(plain, replace(STRATEGY, origin_loops=())) == replace(STRATEGY, origin_loops=())


def test_a_text_that_was_changed_here_yields_only_to_a_later_one() -> None:
    ours = replace(FIX, content="Empty the cache when the server starts too slowly.", updated_at=LATER)

    assert merge_imported(ours, FIX) == ours
    assert merge_imported(ours, replace(FIX, updated_at="2026-05-03T00:00:00.000Z")) == replace(
        ours, content=FIX.content, updated_at="2026-05-03T00:00:00.000Z"
    )


def test_two_texts_under_one_id_are_two_memories() -> None:
    assert merge_imported(FIX, replace(FIX, content="Config is TOML.")) is None


def test_another_loop_that_learned_the_same_makes_it_surer() -> None:
    new = replace(STRATEGY, origin_loops=("loop-1", "loop-2"), confidence=0.9, tags=("ci",))

    after = merge_imported(STRATEGY, new)

    assert after == replace(
        STRATEGY,
        title="Tests first",
        content="Tests first. Over 6 iterations.",
        structured_content='{"description":"Tests first","iterations":6}',
        origin_loops=("loop-1", "loop-2"),
        confidence=0.9,
        support=2,
        tags=("tests", "ci"),
    )


def test_there_are_never_more_tags_than_a_memory_may_have() -> None:
    after = merge_imported(FIX, replace(FIX, tags=tuple(f"tag {number}" for number in range(50))))

    assert after is not None
    assert len(after.tags) == 50
    assert after.tags[0] == "cache"


MEMORIES = st.builds(
    lambda **fields: replace(STRATEGY, **fields),
    kind=st.sampled_from(["strategy", "convention", "fix", "knowledge"]),
    title=st.sampled_from(["Tests first", "Tests  first", "Run a.py"]),
    content=st.sampled_from(["", "Tests first", "Tests first in a.py.", "Run a.py. Then run b.py."]),
    structured_content=st.sampled_from(["", '{"description":"Tests first"}', STRATEGY.structured_content]),
    tags=st.sampled_from([(), ("a",), ("b", "c")]),
    files=st.sampled_from([(), ("a.py",), ("b.py", "c.py")]),
    origin_loops=st.sampled_from([(), ("loop-1",), ("loop-2", "loop-3")]),
    updated_at=st.sampled_from([AT, LATER]),
)


@given(MEMORIES, MEMORIES)
def test_bringing_it_again_changes_nothing_and_nothing_is_emptied(known: Memory, new: Memory) -> None:
    after = merge_imported(known, new)

    if after is not None:
        assert merge_imported(after, new) == after
        for name in ("content", "structured_content", "tags", "origin_loops"):
            assert getattr(after, name) or not getattr(known, name)
