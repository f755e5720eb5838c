"""What matches a search: words in any form, marked where they stand, and nothing if nothing does."""

from __future__ import annotations

import pytest

from ralph.memory.recall import embeddings
from ralph.memory.recall.matching import matched_pattern, matched_words, matching_excerpt
from ralph.project import Project


def test_forms_of_a_word_match_and_parts_of_other_words_do_not() -> None:
    words = matched_words(["Rounding is half up, all around. We rounded `round_half`."], "round")

    assert words == ["Rounding", "rounded", "round_half"]
    pattern = matched_pattern(words)
    assert pattern is not None
    assert [match[0] for match in pattern.finditer("Rounding all around, rounded")] == ["Rounding", "rounded"]


def test_words_that_occur_anywhere_match_only_if_there_are_no_others() -> None:
    assert matched_words(["Run the tests of the parser"], "parser tests") == ["parser"]
    assert matched_words(["Run the tests of the parser"], "tests") == ["tests"]


def test_the_beginning_of_a_word_matches_literally() -> None:
    assert matched_words(["Only the ledger touches SQL"], "ledg") == []
    assert matched_words(["Only the ledger touches SQL"], "ledg", literally=True) == ["ledger"]
    assert matched_pattern([]) is None


def test_an_excerpt_shows_the_first_match() -> None:
    text = "Nothing of interest. " * 30 + "The mainframe speaks EBCDIC. " + "More of the same. " * 30

    excerpt = matching_excerpt(text, ["mainframe"], 200)

    assert excerpt.startswith("…")
    assert "mainframe" in excerpt
    assert len(excerpt) <= 200
    assert matching_excerpt(text, [], 50).startswith("Nothing of interest.")
    assert matching_excerpt("Short.", ["Short"], 50) == "Short."


def test_a_search_for_a_subject_nobody_mentions_finds_nothing(project: Project) -> None:
    project.memory.add("Tests need a running database.")
    project.memory.add("Run the tests before a commit.")

    assert project.memory.search("kubernetes ingress tests") == []
    assert len(project.memory.search("tests")) == 2
    assert project.memory.facets("kubernetes ingress tests").total == 0


@pytest.mark.skipif(not embeddings.is_installed(), reason="no embedding model installed")
def test_by_meaning_a_search_finds_paraphrases_and_nothing_else(project: Project) -> None:
    texts = (
        "The login form drops the session when cookies are blocked",
        "Invoice numbers have no gaps",
        "Format code with ruff",
    )
    for text in texts:
        project.memory.add(text)
    project.memory.maintenance.embed()

    for other in ("kubernetes ingress", "quantum entanglement", "guitar tuning", "football league"):
        assert project.memory.search(other) == []
        assert project.memory.facets(other).total == 0
    (found,) = project.memory.search("users get signed out all the time")
    assert found.memory.content == texts[0]
