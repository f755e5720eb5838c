"""Which postings a search reads in a large store, on both databases."""

from __future__ import annotations

from random import Random

import pytest

from ralph.core.tokenize import tokenize
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.postings import MAX_POSTINGS, MAX_SCANNED, plan_reading
from tests.make import a_memory

TOTAL = 1_000_000
SUBJECT = ("cedar", "walnut", "willow")


def test_rare_words_are_read_in_full_and_frequent_ones_beside_them() -> None:
    counts = {"seldom": 5_000, "rare": 300, "often": 20_000, "usual": 400_000}

    plan = plan_reading(counts, dict.fromkeys(counts, 1.0), TOTAL)

    assert plan.whole == ("rare", "seldom")
    assert (plan.anchor, plan.shared) == ("", ("often",))
    assert set(plan.companions("often")) == {"rare", "seldom"}


def test_a_frequent_word_is_read_with_all_others_if_the_rare_ones_are_in_few_rows() -> None:
    counts = {"typo": 3, "login": 20_000, "test": 30_000}

    plan = plan_reading(counts, dict.fromkeys(counts, 1.0), TOTAL)

    assert (plan.whole, plan.anchor, plan.shared) == (("typo",), "login", ("test",))
    assert set(plan.companions("login")) == {"typo", "test"}
    assert set(plan.companions("test")) == {"typo", "login"}


def test_what_is_read_does_not_grow_with_the_query() -> None:
    chance = Random(1)
    counts = {f"word{n}": chance.randrange(100_000) for n in range(300)}

    plan = plan_reading(counts, dict.fromkeys(counts, 1.0), TOTAL)

    assert sum(counts[word] for word in plan.whole) <= MAX_POSTINGS
    assert sum(counts[word] for word in plan.shared[:-1]) <= MAX_SCANNED


@pytest.mark.parametrize("unknown", ["", " xyzzy"])
def test_an_old_row_with_several_frequent_words_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    _read_little(monkeypatch)
    texts = ["cedar walnut willow oak"] + [f"{SUBJECT[n % 3]} tree" for n in range(2_500)]
    _add(store, texts)

    found = store.memories.index.search_words(dict.fromkeys(tokenize(f"cedar walnut willow{unknown}"), 1.0), 20)

    assert found.rows[0]["title"] == "Tree 0"
    assert len(found.rows) == 20


def test_an_old_row_with_all_words_is_found_among_many_with_two_of_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _read_little(monkeypatch)
    monkeypatch.setattr("ralph.store.postings.MAX_SCANNED", 100)
    texts = ["cedar walnut willow oak"] + [f"{SUBJECT[n % 3]} {SUBJECT[(n + 1) % 3]} tree" for n in range(2_500)]
    _add(store, texts)

    found = store.memories.index.search_words(dict.fromkeys(tokenize("cedar walnut willow"), 1.0), 20)

    assert found.rows[0]["title"] == "Tree 0"


def test_a_single_frequent_word_finds_the_newest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _read_little(monkeypatch)
    _add(store, ["cedar tree"] * 2_500)

    found = store.memories.index.search_words(dict.fromkeys(tokenize("cedar"), 1.0), 100)

    assert [row["title"] for row in found.rows[:2]] == ["Tree 2499", "Tree 2498"]
    assert len(found.rows) == 100


@pytest.mark.sqlite
def test_reading_a_small_table_at_once_finds_what_reading_word_by_word_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(3)
    _add(store, [" ".join(f"word{int(40 ** chance.random())}" for _ in range(12)) for _ in range(60)])
    asked = dict.fromkeys((*tokenize("word1 word2 word5 word11 word30"), 'un"heard'), 1.0)

    at_once = store.memories.index.search_words(asked, 20)
    monkeypatch.setattr("ralph.store.sqlite.words.SMALL_TABLE_ROWS", 0)
    one_by_one = store.memories.index.search_words(asked, 20)

    assert at_once.rows
    assert [row["id"] for row in at_once.rows] == [row["id"] for row in one_by_one.rows]
    assert at_once.word_counts == one_by_one.word_counts


def _read_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 800 postings be too many to be read, as 8,000 are."""
    monkeypatch.setattr("ralph.store.postings.MAX_POSTINGS", 200)


def _add(store: Store, texts: list[str]) -> None:
    memories = [a_memory(f"Tree {n}", text, tags=(), id=f"mem-{n}-0000") for n, text in enumerate(texts)]
    store.memories.insert_all_unchecked(memories, ChangeInfo(who="t", why="t"))
