"""The prompt of each role asks for what the role may do, once, and for nothing else."""

from __future__ import annotations

import pytest

from ralph.core.records import AttemptOutcome, TaskMetrics
from ralph.loop.hats import hat_instructions, session_role
from ralph.loop.prompt import build_prompt
from ralph.loop.strategy import ModelChoice
from tests.loop.test_hats import PLAIN_CONFIG
from tests.loop.test_prompt import everything, known, trouble_after
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent

ORDER = ("explorer", "planner", "creator", "critic", "editor")
FINISHES = ("Complete the task below", "When the task is finished, end with this sigil")
CHANGES = (
    "before you change it",
    "If this project has a CLAUDE.md",
    "Resolve\nthe conflicts",
    "undo what is not",
    "reverting",
)


def prompt_of(hat: str, *, can_split: bool = True) -> str:
    return build_prompt(
        everything(),
        iteration=1,
        choice=ModelChoice(model="sonnet", reason="fixed"),
        stuck_state=trouble_after(3),
        budget_tokens=16_000,
        hat_instructions=hat_instructions(hat, ORDER, PLAIN_CONFIG, can_split=can_split),
        conflicts=("a.py",),
        can_split=can_split,
        role=session_role(hat, ORDER),
    ).text


@pytest.mark.parametrize("hat", ["explorer", "planner", "critic"])
def test_who_changes_nothing_is_not_asked_to(hat: str) -> None:
    text = prompt_of(hat)

    assert "Do your part of the task below, which Your Hat describes, and nothing else." in text
    assert not [phrase for phrase in (*FINISHES, *CHANGES) if phrase in text]
    assert "If you cannot do your part, explain why" in text


@pytest.mark.parametrize("hat", ["creator", "editor"])
def test_who_changes_files_is_told_how(hat: str) -> None:
    text = prompt_of(hat)

    assert [phrase for phrase in CHANGES if phrase in text] == [one for one in CHANGES if one != "undo what is not"]
    assert text.count("Check your work the way the project does") == 1
    assert ("before you hand it over" in text) == (hat == "creator")
    assert (FINISHES[1] in text) == (hat == "editor")


@pytest.mark.parametrize("hat", ORDER)
def test_nothing_is_said_twice(hat: str) -> None:
    text = prompt_of(hat)
    sentences = [line.strip() for line in text.splitlines() if len(line) > 40 and not line.startswith("- **")]

    assert len(sentences) == len(set(sentences))
    assert text.count("<subtask title=") == 1
    assert text.count("3 times in a row") == 1
    assert "3 failed in a row" not in text


def test_a_planner_that_cannot_split_is_not_asked_to() -> None:
    assert "<subtask" not in prompt_of("planner", can_split=False)


def test_a_run_with_hats_tells_each_session_its_part(trial: Trial) -> None:
    trial.project.tasks.add("Count columns")
    agent = ScriptedAgent('<hand-over to="creator">See columns.py.</hand-over>', DONE)

    trial.run(agent, hats={"order": ("explorer", "creator")})

    explorer, creator = agent.prompts
    assert not [phrase for phrase in (*FINISHES, *CHANGES) if phrase in explorer]
    assert FINISHES[1] in creator
    assert creator.count("See columns.py.") == 1
    assert trial.outcomes() == [AttemptOutcome.DONE, AttemptOutcome.DONE]


def test_without_hats_one_session_completes_the_task() -> None:
    text = build_prompt(
        known(metrics=TaskMetrics(task_id="t-00000a")),
        iteration=1,
        choice=ModelChoice(model=None, reason="none"),
        stuck_state=trouble_after(0),
        budget_tokens=16_000,
    ).text

    assert all(phrase in text for phrase in FINISHES)
    assert "Your Hat" not in text
