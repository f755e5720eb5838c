"""Prompts about nothing in particular bring nothing, whatever everyday words memories have."""

from __future__ import annotations

import pytest
from bench.prompts.everyday import TARGET, render

from ralph.memory.recall.candidates import recall_memories
from ralph.memory.recall.episodes import SESSION_PASSAGE_CUT, recall_episodes
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.select import SESSION_CUT
from ralph.memory.sessions import session_query
from ralph.store import Store
from tests.make import a_memory, an_episode, remember

MEMORIES = (
    "Notes of a release are a list of messages, one line for each change",
    "The order of the steps in a plan is kept when the plan is edited",
    "A card with rounded corners has a border of one pixel",
)
SMALL_TALK = (
    "ten out of ten, no notes",
    "not that order please, turn it round",
    "i like the plan, carry on with the next steps",
    "you cut corners there, didn't you",
    "send me a short message when you reach the end of that list, i'm off for a walk",
)


@pytest.fixture
def filled(store: Store) -> Store:
    for text in MEMORIES:
        remember(store, a_memory(text, text, tags=()))
    return store


def shown(store: Store, prompt: str) -> list[str]:
    return [one.memory.title for one in recall_memories(store, session_query(prompt), cut=SESSION_CUT).shown]


@pytest.mark.parametrize("prompt", SMALL_TALK)
def test_small_talk_brings_nothing(filled: Store, prompt: str) -> None:
    result = recall_memories(filled, session_query(prompt), cut=SESSION_CUT)

    assert not result.shown


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("the corners of the rounded card look blurry", MEMORIES[2]),
        ("the plan editor shuffles the order of steps after a drag and drop", MEMORIES[1]),
        ("why did pixel borders get thicker?", MEMORIES[2]),
    ],
)
def test_a_subject_brings_what_is_about_it(filled: Store, prompt: str, found: str) -> None:
    assert shown(filled, prompt) == [found]


def test_a_task_and_a_search_are_about_what_they_say(filled: Store) -> None:
    titles = [one.memory.title for one in recall_memories(filled, RecallContext(title="Notes of the release")).shown]

    assert titles == [MEMORIES[0]]


def test_small_talk_brings_no_past_work(store: Store) -> None:
    store.episodes.add([an_episode(f"Commit number {n}: tidy the parser", source=f"c{n}") for n in range(50)])
    store.episodes.add([an_episode("We carry out the plan in the order of its steps, and the exporter keeps tabs")])

    def recalled(prompt: str) -> int:
        return len(recall_episodes(store, session_query(prompt), cut=SESSION_PASSAGE_CUT))

    assert recalled("did we decide whether the exporter keeps tabs?") == 1
    assert recalled("did we plan to carry on in that order of steps, or not") == 0


def test_the_list_is_made_of_the_prompts() -> None:
    assert TARGET.read_text(encoding="utf-8") == render()
