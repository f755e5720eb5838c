"""What a person asks to remember."""

from __future__ import annotations

import pytest

from ralph.core.records import now
from ralph.memory.capture.remarks import find_remarks


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("remember that clock skew must be 30 s", "Clock skew must be 30 s"),
        ("Fix the login. Please remember that tests need TZ=UTC! Then go on.", "Tests need TZ=UTC"),
        ("Remember: never push to main on Fridays.\nOk?", "Never push to main on Fridays"),
        ("Thanks. And keep in mind that the API is rate limited", "The API is rate limited"),
        ("Don't forget to run make docs after you change settings.", "Run make docs after you change settings"),
        ("From now on use tabs in the Makefile.", "Use tabs in the Makefile"),
        ("for future reference: the staging database is read-only", "The staging database is read-only"),
    ],
)
def test_a_remark_is_kept_in_the_words_of_the_person(prompt: str, kept: str) -> None:
    (memory,) = find_remarks(prompt, now())

    assert memory.content == kept
    assert memory.kind == ("decision" if "now on" in prompt else "context")


@pytest.mark.parametrize(
    "prompt",
    [
        "Do you remember that we moved to JWT?",
        "I remember that it failed yesterday",
        "remember that?",
        "Add a note that says hello to the README",
        "The note: field is missing in the form",
        "remember me",
        "Implement the remember-me checkbox of the login form",
        "Release notes, from now on, are generated",
    ],
)
def test_what_only_sounds_like_one_is_not(prompt: str) -> None:
    assert find_remarks(prompt, now()) == []


def test_secrets_are_not_kept() -> None:
    (memory,) = find_remarks("remember that the token is ghp_" + "a1B2" * 9, now())

    assert "ghp_" not in memory.content
