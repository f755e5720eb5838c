from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.memory.lifecycle.fingerprint import EchoDetector, fingerprint, normalized_words
from tests.make import a_memory


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The parser wants tabs.", "parser wants tab"),
        ("Use `pytest` for tests", "use pytest for the test"),
        ("Don't use the cache", "Do not use the cache."),
        ("It can't be empty", "it cannot be empty"),
        ("**Settings:** tabs, not spaces", "Settings - tabs not spaces"),
        ("session.Get() returns nil", "The `session.Get()` returns nil!"),
        ("The parser’s error", "the parser's error"),
        ("one,two (three)", "one, two three"),
        ("It isn't ready", "it is not ready"),
    ],
)
def test_two_ways_to_say_the_same_have_the_same_words(one: str, other: str) -> None:
    assert normalized_words(one) == normalized_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use X", "Do not use X"),
        ("port 5432", "port 5433"),
        ("getItem is slow", "getItems is slow"),
        ("see src/app.py", "see src/apps.py"),
        ("read .env first", "read env first"),
        ("a != b", "a == b"),
        ("it is !ready", "it is ready"),
        ("always http", "always https"),
        ("use --force", "use force"),
        ("the `tests` table", "the `test` table"),
        ("with -1", "with 1"),
        ("A before B", "B before A"),
        ("this is it", "that is"),
    ],
)
def test_what_changes_the_meaning_changes_the_words(one: str, other: str) -> None:
    assert normalized_words(one) != normalized_words(other)


@given(st.text(max_size=200))
def test_case_and_space_never_matter(text: str) -> None:
    assert normalized_words(f"  {text}\n") == normalized_words(text)
    assert normalized_words(text.replace(" ", "  \t")) == normalized_words(text)


@given(st.text(alphabet="ab.,`'*- \n", max_size=60))
def test_any_text_with_words_has_some(text: str) -> None:
    assert bool(normalized_words(text)) == bool(text.replace("**", " ").split())


def test_a_word_of_a_megabyte_takes_no_time() -> None:
    started = time.process_time()

    for piece in ("x", "a,", "'s", "n't", "`", "**", "it's "):
        normalized_words(piece * (1_000_000 // len(piece)))

    assert time.process_time() - started < 5


def test_memories_that_say_the_same_share_a_fingerprint_whatever_their_title() -> None:
    one = a_memory("Tabs", "The parser wants tabs.", kind="pattern")
    other = a_memory("Spaces", "Parser wants tabs", kind="pattern")

    assert fingerprint(one) == fingerprint(other)
    assert len(fingerprint(one)) == 16
    assert int(fingerprint(one), 16) >= 0
    assert fingerprint(a_memory("x", "The parser wants spaces.", kind="pattern")) != fingerprint(one)


def test_knowledge_goes_by_its_title() -> None:
    one = a_memory("Cargo  Bench", "needs nightly")
    other = a_memory("cargo bench", "needs the nightly toolchain")

    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(a_memory("cargo test", "needs nightly")) != fingerprint(one)


def test_a_structured_learning_goes_by_what_it_is_about() -> None:
    few = a_memory(
        "x",
        "y",
        kind="strategy",
        task_type="test-fix",
        structured_content='{"description":"Small steps","iterations":1}',
    )
    many = a_memory(
        "x",
        "z",
        kind="strategy",
        task_type="test-fix",
        structured_content='{"description":"small steps","iterations":9}',
    )
    other = a_memory(
        "x",
        "y",
        kind="strategy",
        task_type="feature",
        structured_content='{"description":"Small steps","iterations":1}',
    )

    assert fingerprint(few) == fingerprint(many)
    assert fingerprint(few) != fingerprint(other)


def test_a_memory_without_a_body_goes_by_its_title() -> None:
    assert fingerprint(a_memory("one", kind="fix")) != fingerprint(a_memory("two", kind="fix"))


SHOWN = """## Project Knowledge
- The parser wants tabs, not spaces, in settings files. _(2026-01-01, t-000001)_
- Use port 5432.
"""


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("The parser wants tabs, not spaces, in settings files.", True),
        ("the parser wants tabs not spaces in settings files!", True),
        ("Parser wants tabs, not spaces, in settings files", True),
        ("Use port 5432", True),
        ("port use 5432", False),
        ("The parser wants spaces in a few files of ours.", False),
        ("The parser wants tabs, and the lexer wants to know about every one of them as well.", False),
        ("", False),
        ("...", False),
    ],
)
def test_what_was_shown_is_recognised_when_it_comes_back(text: str, repeats: bool) -> None:
    assert EchoDetector(SHOWN).is_copied(text) is repeats


@given(st.lists(st.sampled_from(["tabs", "port", "5432", "Parser", "not"]), min_size=1, max_size=30))
def test_a_text_always_repeats_itself(words: list[str]) -> None:
    text = " ".join(words)

    assert EchoDetector(f"before {text} after").is_copied(text)
    assert not EchoDetector("").is_copied(text)


def test_a_long_text_is_compared_in_no_time() -> None:
    text = "the same words again and " * 40_000
    started = time.process_time()

    assert EchoDetector(text).is_copied(text)

    assert time.process_time() - started < 3
