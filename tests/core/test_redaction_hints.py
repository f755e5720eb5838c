"""What is not searched because no word hints at a secret would not have been found either."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.redaction import hints, redact, redact_all
from tests.faults.secret_contexts import hard, ordinary
from tests.faults.secret_corpus import all_secrets, innocent_lines
from tests.faults.secret_lookalikes import lookalikes

SECRETS = [secret.text for secret in (*all_secrets(1), *ordinary(False), *hard(False))]
BETWEEN = ("\n", "\t", "\u00a0", "\\n", "\\u0026", "\\u003d", "[0m", "[31m", "%3D", "%2B", "İ", "K", "ſ", "ß", '"', "=")


def redact_with_all_steps(text: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hints, "find_hints", lambda texts: [hints.ALL] * len(texts))
        return redact(text)


@pytest.fixture(autouse=True)
def forget_words() -> None:
    """Begin without remembered words."""
    hints._harmless.clear()
    hints._known.clear()


@pytest.mark.parametrize("times", [1, 2], ids=["new words", "known words"])
def test_hints_change_nothing(times: int) -> None:
    texts = [*SECRETS, *innocent_lines(1), *lookalikes(False)]
    for _ in range(times):
        redacted = [redact(text) for text in texts]
    assert redacted == [redact_with_all_steps(text) for text in texts]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SECRETS), st.sampled_from(SECRETS), st.sampled_from(BETWEEN), st.integers(0, 400), st.booleans())
def test_hints_change_nothing_in_broken_secrets(text: str, other: str, between: str, at: int, is_colored: bool) -> None:
    at %= len(text)
    broken = f"{text[:at]}{between}{text[at:]}\n{other[at % len(other) :]}{'[0m' if is_colored else ''}"
    assert redact(broken) == redact_with_all_steps(broken)


def test_a_name_and_its_value_are_seen_in_different_words() -> None:
    assert redact("the password for staging is") == "the password for staging is"
    assert redact("the password for staging is hunter2hunter2") == "the password for staging is [redacted]"


def test_harmless_text_has_no_hints() -> None:
    text = "Make the parser faster, because spaces broke the build.\n\nSee docs/parser.md."
    assert hints.find_hints([text]) == [hints.ANY]


def test_the_number_of_remembered_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MAX_WORDS", 100)
    for number in range(50):
        redact(" ".join(f"w{number}x{n} key{number}x{n}" for n in range(10)))
    assert len(hints._harmless) + len(hints._known) <= 100 + 20


def test_a_hint_of_a_known_word_holds_when_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MAX_WORDS", 100)
    secret = "the password for staging is hunter2hunter2"
    for number in range(300):
        assert redact(f"n{number} {secret}").endswith("[redacted]")


def test_many_texts_at_once_are_redacted_as_one_by_one() -> None:
    texts = [*SECRETS, *innocent_lines(1), *lookalikes(False)]
    assert redact_all(texts) == [redact_with_all_steps(text) for text in texts]


def test_long_words_are_not_remembered() -> None:
    word = "x" * (hints.MAX_WORD_CHARACTERS + 1)
    redact(f"short {word}")
    assert hints._harmless == {"short"}
