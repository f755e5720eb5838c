"""The end of a session, as the next one is told it."""

from __future__ import annotations

from ralph.core.records import Episode, EpisodeKind, Speaker, Turn
from ralph.memory.capture.passages import Origin, to_episodes
from ralph.memory.recall.last_session import last_exchanges

ORIGIN = Origin(kind=EpisodeKind.SESSION, source="s1", agent="claude", at="")
ROOM = 1_500


def passages(*said: str) -> list[Episode]:
    """Return the passages of a session in which a person and an agent speak in turns."""
    speakers = (Speaker.PERSON, Speaker.AGENT)
    turns = [
        Turn(key=f"k{n}", speaker=speakers[n % 2], text=text, at=f"2026-11-01T10:00:{n:02}.000Z")
        for n, text in enumerate(said)
    ]
    return list(to_episodes(turns, ORIGIN))


def told(*said: str) -> str:
    found = last_exchanges(passages(*said), ROOM, lambda text: text)
    assert sum(len(one.text) for one in found) <= ROOM
    return "\n".join(one.text for one in found)


DETAILS = "These are the details of what was done. " * 200
OPEN_POINTS = "Open points:\n- refresh tokens\n- clock skew must be 30 s\n- rotate the signing key"


def test_a_long_last_message_keeps_its_first_sentence_and_its_end() -> None:
    text = told(
        "Which widget is it?", "The third.", "Summarize where we are", f"We moved to JWT.\n\n{DETAILS}\n{OPEN_POINTS}"
    )

    assert text.startswith("Summarize where we are\nAgent: We moved to JWT.")
    assert " […]\n" in text
    assert text.endswith(OPEN_POINTS)
    assert len(text) > ROOM - 200


def test_a_long_question_leaves_room_for_the_answer() -> None:
    text = told(f"Here is the plan. {DETAILS}", f"Understood, all of it. {OPEN_POINTS}")

    assert text.startswith("Here is the plan.")
    assert "Agent: Understood, all of it." in text
    assert text.endswith(OPEN_POINTS)


def test_what_was_said_before_is_shortened_to_the_room_that_is_left() -> None:
    text = told(
        "Continue with the tokens", f"Tokens are done. {DETAILS}", "And is there anything else?", "No, not now."
    )

    assert text.endswith("And is there anything else?\nAgent: No, not now.")
    assert "Tokens are done." in text
    assert len(text) > ROOM - 200


def test_words_after_a_long_message_are_kept_with_its_ends() -> None:
    text = told("Continue with the tokens", f"Tokens are done. {DETAILS}{OPEN_POINTS}", "Leave it at seven", "Done.")

    assert text.endswith("rotate the signing key\nPerson: Leave it at seven\nAgent: Done.")
    assert "Tokens are done." in text


def test_a_word_without_end_is_cut() -> None:
    assert len(told("Look at this", "x" * 50_000)) <= ROOM


def test_short_exchanges_are_quoted_whole_as_long_as_they_fit() -> None:
    said = [text for n in range(20) for text in (f"What about number {n}?", f"Number {n} is fine. " * 5)]

    text = told(*said)

    assert "What about number 19?" in text
    assert "What about number 10?" in text
    assert "What about number 2?" not in text
