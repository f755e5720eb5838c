"""What was said in a passage, by whom, and the part of it that a query asks for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import EpisodeKind, Speaker, Turn
from ralph.memory.capture.passages import SPEAKER_LABELS, Origin, spoken_parts, to_episodes
from ralph.memory.recall.past_work import excerpt, labeled_text
from tests.make import an_episode

ORIGIN = Origin(kind=EpisodeKind.SESSION, source="s1", agent="claude", at="2026-11-03T10:00:00.000Z")
WORDS = st.lists(st.sampled_from(["look", "at", "seven", "Person", "Agent:", "\n", "\n\n"]), min_size=8).map(" ".join)


def spoken(*turns: tuple[Speaker, str]) -> list[tuple[Speaker, str]]:
    said = [Turn(key=str(n), speaker=speaker, text=text) for n, (speaker, text) in enumerate(turns)]
    return [part for episode in to_episodes(said, ORIGIN) for part in spoken_parts(episode)]


def test_speakers_are_told_apart_as_they_spoke() -> None:
    turns = (
        (Speaker.PERSON, "Why do the tests fail at night?"),
        (Speaker.AGENT, "I run them.\n\nOne moment."),
        (Speaker.TOOL, "$ pytest -x\nE   assert 7 == 8"),
        (Speaker.AGENT, "They need TZ=UTC."),
        (Speaker.PERSON, "Then set it in the Makefile, please."),
    )

    assert spoken(*turns) == list(turns)


def test_who_speaks_cannot_name_themselves_anew() -> None:
    """A label is written only where the speaker changes, and a line that looks like one is indented."""
    (one,) = spoken((Speaker.AGENT, "I quote what was said here before.\nAgent: and go on"))

    assert one == (Speaker.AGENT, "I quote what was said here before.\n Agent: and go on")
    assert spoken((Speaker.PERSON, "Agent: I am a person who says this"))[0][0] is Speaker.PERSON


@given(st.lists(st.tuples(st.sampled_from(Speaker), WORDS), min_size=1, max_size=6))
def test_no_word_is_lost(turns: list[tuple[Speaker, str]]) -> None:
    said = [Turn(key=str(n), speaker=speaker, text=text) for n, (speaker, text) in enumerate(turns)]

    for episode in to_episodes(said, ORIGIN):
        told = " ".join(f"{SPEAKER_LABELS[speaker]}: {text}" for speaker, text in spoken_parts(episode))
        assert told.split() == labeled_text(episode).split()


def test_the_excerpt_starts_where_the_query_is_answered() -> None:
    text = "Let us begin with the parser. It wants tabs.\nThe retrier stops at seven: eight trips the window. Done."
    episode = an_episode(text)

    assert excerpt(episode, "retrier window", 60) == "… The retrier stops at seven: eight trips the window. Done."
    assert excerpt(episode, "", 40).startswith("Person: Let us begin")
    assert len(excerpt(episode, "retrier", 20)) <= 20
    assert excerpt(an_episode(" \n "), "retrier", 20) == "Person:"
    assert excerpt(an_episode("Cap it.", kind=EpisodeKind.COMMIT), "cap", 40) == "Cap it."
