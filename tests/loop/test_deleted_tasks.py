"""Deleting a task asks the person at a terminal first, and keeps what was noted about it findable."""

from __future__ import annotations

import pytest

from ralph.core.errors import ConflictError, NotFoundError
from ralph.core.records import Speaker
from ralph.memory.capture.passages import spoken_parts
from tests.cli.terminal import at_terminal
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent

NOTES = "The tariff file is read once per process, because reading it again takes four seconds."
NOTED = f"<journal>{NOTES}</journal>\n{DONE}"


def test_notes_of_a_deleted_task_are_found_in_past_work(trial: Trial) -> None:
    task = trial.project.tasks.add("Cache the tariffs")
    trial.run(ScriptedAgent(NOTED))

    assert trial.ralph("task", "delete", task.id).code == 0

    assert not trial.attempts()
    assert "tariff file is read once" in trial.ralph("memory", "search", "--episodes", "tariff", "process").out
    (found,) = trial.project.episodes.search("Cache the tariffs", 5)
    assert task.id in found.episode.text
    assert "ralph memory search --episodes" in trial.ralph("journal", "search", "tariff").out


def test_they_reach_the_prompt_of_a_task_like_it(trial: Trial) -> None:
    task = trial.project.tasks.add("Cache the tariffs")
    trial.run(ScriptedAgent(NOTED))
    trial.project.tasks.delete(task.id)
    trial.project.tasks.add("Read the tariff file in one process only")
    agent = ScriptedAgent(DONE)

    trial.run(agent)

    assert NOTES in " ".join(agent.prompts[0].split())


def test_questions_and_answers_are_kept_with_who_said_what(trial: Trial) -> None:
    parent = trial.project.tasks.add("Prices")
    task = trial.project.tasks.add("Round prices", parent=parent.id)
    trial.run(ScriptedAgent("<question>Is money in cents, or in euros?</question>"))
    trial.project.questions.answer(task.id, "In cents, and never use float for it.")

    trial.project.tasks.delete(parent.id)

    found = trial.project.episodes.search("money cents euros", 5)
    said = [part for one in found for part in spoken_parts(one.episode)]
    assert (Speaker.PERSON, "In cents, and never use float for it.") in said
    assert all("In cents" not in text for speaker, text in said if speaker is Speaker.AGENT)


def test_a_task_that_cannot_be_deleted_leaves_nothing(trial: Trial) -> None:
    task = trial.project.tasks.add("Cache the tariffs")
    trial.run(ScriptedAgent(NOTED))
    trial.project.tasks.add("Next", needs=[task.id])
    before = trial.project.store.episodes.counts()

    with pytest.raises(ConflictError):
        trial.project.tasks.delete(task.id)

    assert trial.project.store.episodes.counts() == before


def test_a_person_at_a_terminal_is_asked_first(trial: Trial) -> None:
    task = trial.project.tasks.add("Cache the tariffs")

    refused, seen = at_terminal(trial.root, "task", "delete", task.id, typed=[("[y/N]", "\n")])
    assert trial.project.tasks.get(task.id)
    agreed, _ = at_terminal(trial.root, "task", "delete", task.id, typed=[("[y/N]", "y\n")])

    assert (refused, agreed) == (0, 0)
    assert "Cache the tariffs" in seen
    with pytest.raises(NotFoundError):
        trial.project.tasks.get(task.id)


def test_yes_asks_nothing(trial: Trial) -> None:
    task = trial.project.tasks.add("Cache the tariffs")

    code, seen = at_terminal(trial.root, "task", "delete", task.id, "--yes")

    assert code == 0
    assert "[y/N]" not in seen
