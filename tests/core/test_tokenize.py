from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.tokenize import MAX_WORD_LENGTH, inverse_document_frequency, search_terms, tokenize, tokenize_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the parser: it is broken", ["fix", "parser", "broken"]),
        ("getUserName get_user_name", ["user", "name", "user", "name", "getusername", "get_user_name"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("TypeError in django.db.models", ["type", "error", "django", "db", "model", "typeerror"]),
        ("connections connected connecting", ["connect", "connect", "connect"]),
        ("E501 404", ["501", "404", "e501"]),
        ("café Ünïcode naïve", ["cafe", "unicod", "naiv"]),
        ("数据库连接", ["数据", "据库", "库连", "连接"]),
        ("あ", ["あ"]),
        ("базы данных", ["баз", "дан"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("한국어 데이터", ["한국어", "데이터"]),
        ("ＦＵＬＬ width", ["full", "width"]),
        ("once <!-- please read the guide --> twice <!-- open", ["onc", "twice", "open"]),
        ("see https://example.org/docs/setup", ["see", "doc", "setup"]),
        ("", []),
        ("the of and", []),
        ("\0 * NEAR( AND", ["near"]),
    ],
)
def test_a_text_is_cut_into_words(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


def test_the_ways_to_write_a_name_meet() -> None:
    said = set(tokenize("the parse cache is stale"))

    for name in ("parseCache", "parse_cache", "ParseCache", "parser.parse_cache", "PARSE_CACHE"):
        assert len(said & set(tokenize(name))) == 2, name


def test_a_path_counts_its_name_twice_and_as_a_whole() -> None:
    parts = ["known", "memori"]
    assert tokenize_path("src/store/known_memories.py") == ("src", "store", *parts, *parts, "known_memories.py")
    assert tokenize_path("src\\a file (1).py")[-1] == "a_file__1_.py"
    assert tokenize_path("Makefile") == ("makefil", "makefil", "makefile")


@given(st.text(max_size=300))
def test_any_text_gives_words_an_index_takes_as_one_each(text: str) -> None:
    for word in (*tokenize(text), *tokenize_path(f"{text}x")):
        assert word == "".join(word.split())
        assert len(word) <= MAX_WORD_LENGTH + 4  # a stem can be longer than its word
        assert not set(word) & set("\"'*()^: \0")


@pytest.mark.parametrize("piece", ["<!--", "a", "A", "aA", "_", "a_", "a.", "数", "http://", "é", "1"])
def test_a_long_run_of_anything_takes_bounded_time(piece: str) -> None:
    began = time.process_time()
    tokenize(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5


def test_a_word_in_fewer_texts_is_worth_more() -> None:
    worth = [inverse_document_frequency(held_by, 1_000) for held_by in (0, 1, 10, 500, 1_000)]

    assert worth == sorted(worth, reverse=True)
    assert worth[-1] > 0
    assert inverse_document_frequency(5, 0) > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the parser: it is broken", ["parser", "broken"]),
        ("a an it of", []),
        ("the and for", ["the", "and", "for"]),
        ("src/parser.py session.Get()", ["src/parser.py", "session.get"]),
        ("Tabs tabs TABS", ["tabs"]),
        ('"quoted" -- AND* NEAR(', ["quoted", "near"]),
        ("", []),
    ],
)
def test_words_of_the_baseline_query(text: str, expected: list[str]) -> None:
    assert search_terms(text, 10) == expected


def test_the_baseline_query_has_at_most_so_many_words() -> None:
    assert len(search_terms(" ".join(f"word{n}" for n in range(50)), 10)) == 10
