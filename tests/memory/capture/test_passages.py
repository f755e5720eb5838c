"""Passages of a transcript: an exchange each, cut where it is long, with ids that do not depend on the reading."""

from __future__ import annotations

from typing import Any

from ralph.core.records import Episode, EpisodeKind, Speaker, Turn
from ralph.memory.capture.passages import MAX_PASSAGE_CHARACTERS, Origin, to_episodes

ORIGIN = Origin(kind=EpisodeKind.SESSION, source="s1", agent="claude", at="2026-11-01T00:00:00.000Z")


def said(*turns: tuple[Speaker, str], start: int = 0, **fields: Any) -> list[Turn]:
    return [Turn(key=f"k{start + n}", speaker=speaker, text=text, **fields) for n, (speaker, text) in enumerate(turns)]


def passages(*turns: tuple[Speaker, str]) -> list[Episode]:
    return list(to_episodes(said(*turns), ORIGIN))


PERSON, AGENT, TOOL = Speaker.PERSON, Speaker.AGENT, Speaker.TOOL


def test_a_question_and_its_answer_are_one_passage() -> None:
    one, two = passages(
        (PERSON, "How many attempts fit into the window?"),
        (AGENT, "Let me measure it."),
        (TOOL, "pytest: 1 failed"),
        (AGENT, "Seven."),
        (PERSON, "Why not eight of them?"),
        (AGENT, "It trips the window."),
    )

    assert one.text == (
        "How many attempts fit into the window?\nAgent: Let me measure it.\nFailed command: pytest: 1 failed\n"
        "Agent: Seven."
    )
    assert (one.speaker, one.position, two.speaker, two.position) == (PERSON, 0, PERSON, 1)


def test_last_words_that_nobody_answers_belong_to_what_they_confirm() -> None:
    (one,) = passages((PERSON, "How many attempts fit?"), (AGENT, "Seven."), (PERSON, "Leave it at seven then."))

    assert one.text == "How many attempts fit?\nAgent: Seven.\nPerson: Leave it at seven then."


def test_a_long_answer_is_cut_at_paragraphs_and_nothing_of_it_is_lost() -> None:
    paragraphs = [f"Paragraph {n}. " + "word " * 60 for n in range(40)]

    found = passages((PERSON, "Explain all of it, please"), (AGENT, "\n\n".join(paragraphs)))

    assert all(len(one.text) <= MAX_PASSAGE_CHARACTERS + 20 for one in found)
    assert [one.position for one in found] == list(range(len(found)))
    assert len({one.id for one in found}) == len(found)
    joined = " ".join(one.text for one in found)
    assert all(f"Paragraph {n}." in joined for n in range(40))


def test_what_says_nothing_by_itself_is_left_out() -> None:
    assert passages((PERSON, "ok"), (AGENT, "Fine.")) == []


def test_a_copied_history_gives_the_same_ids() -> None:
    turns = said((PERSON, "Where do the tokens come from?"), (AGENT, "From the session cookie."))
    copy = Origin(kind=EpisodeKind.SESSION, source="s2", agent="claude", at=ORIGIN.at)

    assert [one.id for one in to_episodes(turns, ORIGIN)] == [one.id for one in to_episodes(turns, copy)]


def test_secrets_are_redacted_and_times_and_files_kept() -> None:
    key = "ghp_" + "a1B2" * 9
    turns = said((PERSON, f"Use the token {key} to push the branch"), files=("a.py",), branch="main")

    (one,) = to_episodes(turns, ORIGIN)

    assert key not in one.text
    assert (one.files, one.branch, one.at) == (("a.py",), "main", ORIGIN.at)
