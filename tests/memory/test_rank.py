from __future__ import annotations

import pytest

from ralph.config import FilterConfig
from ralph.memory.rank import FLOOR, MOST, allowed, path_words, rank
from ralph.memory.words import query_words
from tests.make import a_memory


@pytest.mark.parametrize(
    ("text", "words"),
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
def test_words_worth_searching_for(text: str, words: list[str]) -> None:
    assert query_words(text, 10) == words


def test_at_most_so_many_words_are_searched_for() -> None:
    assert len(query_words(" ".join(f"word{n}" for n in range(50)), 10)) == 10


def test_a_score_is_the_sum_of_its_shares_and_the_best_comes_first() -> None:
    found = [
        (a_memory("weak", id="mem-1", confidence=0.5), 0.5),
        (a_memory("strong", id="mem-2", tags=("parser", "tabs"), confidence=0.9), 0.9),
    ]

    kept, _ = rank(found, "Fix the parser")

    assert [one.memory.title for one in kept] == ["strong", "weak"]
    for one in kept:
        assert one.score == pytest.approx(sum(share for _, share in one.because))
    assert dict(kept[0].because)["tags"] > 0 == dict(kept[1].because)["tags"]


def test_what_has_hardly_a_word_in_common_is_left_out_with_a_reason() -> None:
    kept, left = rank([(a_memory("Far off", confidence=0.1), FLOOR - 0.1)], "Fix the parser")

    assert kept == []
    assert [(one.what, "too low" in one.why) for one in left] == [("Far off", True)]


def test_only_a_handful_is_kept_and_the_rest_has_a_reason() -> None:
    found = [(a_memory(f"m{n}", id=f"mem-{n:02}"), 0.9) for n in range(12)]

    kept, left = rank(found, "x")

    assert len(kept) == MOST == 8
    assert {one.why for one in left} == {"not among the best 8"}


def test_words_of_paths_help() -> None:
    assert path_words(["src/my-config.test_x.rs"]) == {"src", "config", "test"}
    plain, _ = rank([(a_memory("m", tags=("config",)), 0.5)], "x")
    helped, _ = rank([(a_memory("m", tags=("config",)), 0.5)], "x", path_words(["src/config.rs"]))

    assert helped[0].score > plain[0].score


def test_only_the_tags_a_project_allows_are_shown_and_it_says_why() -> None:
    found = [(a_memory("good", tags=("a",)), 1.0), (a_memory("other", tags=("b",)), 1.0)]

    kept, left = allowed(found, FilterConfig(tags=("a",)))

    assert [memory.title for memory, _ in kept] == ["good"]
    assert [one.what for one in left] == ["other"]
    assert allowed(found, FilterConfig()) == (found, [])
