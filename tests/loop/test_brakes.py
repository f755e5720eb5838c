"""Brakes of a run: agents that fail politely, and retries that let other tasks go first."""

from __future__ import annotations

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import AgentReply, AttemptOutcome, TaskStatus
from ralph.loop.options import RunEnding, RunOptions
from tests.loop.trial import DONE, FAILED, SAYS_DONE, Trial
from tests.make import ScriptedAgent


class PoliteAgent(ScriptedAgent):
    """Names its task in an answer that is of no use."""

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        self.prompts.append(prompt)
        text = f"I am sorry, I cannot work on {session.environment['RALPH_TASK_ID']} (request {len(self.prompts)})."
        return AgentReply(text=text, files=())


def test_an_agent_that_fails_politely_stops_the_run_and_costs_no_retry(trial: Trial) -> None:
    tasks = [trial.project.tasks.add(f"Task {n}") for n in range(10)]

    summary = trial.run(PoliteAgent(DONE), RunOptions(), execution={"max_retries": 0})

    assert (summary.ending, summary.iterations) == (RunEnding.AGENT_FAILS, 5)
    assert trial.project.store.tasks.progress.counts() == {TaskStatus.PENDING: 10}
    assert all(trial.project.tasks.get(task.id).metrics.failures_since_reset == 0 for task in tasks)
    assert all(attempt.excused for attempt in trial.attempts())
    assert "count against no task" in str(trial.told("note"))


def test_different_answers_without_a_sigil_are_the_tasks_own(trial: Trial) -> None:
    for n in range(3):
        trial.project.tasks.add(f"Task {n}")
    answers = [f"I changed {word}." for word in ("a", "b", "c", "d", "e", "f")]

    summary = trial.run(ScriptedAgent(*answers, DONE), RunOptions(iterations=9))

    assert summary.ending is RunEnding.COMPLETE


def test_one_task_that_gets_no_sigil_is_its_own_problem(trial: Trial) -> None:
    task = trial.project.tasks.add("Alone")

    summary = trial.run(ScriptedAgent("Hm."), RunOptions(iterations=9))

    assert summary.ending is RunEnding.WAITS
    assert trial.status(task) is TaskStatus.BLOCKED


def test_the_tag_that_is_missing_is_said_to_the_letter(trial: Trial) -> None:
    task = trial.project.tasks.add("Alone")
    trial.script("cat > /dev/null; echo All done.")

    said = trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh").out

    assert f"<task-done>{task.id}</task-done>" in said


@pytest.mark.parametrize("program", [("sh", "nosuch.sh"), ("python3", "nosuch.py"), ("sh", "-c", "nosuch-agent")])
def test_a_command_that_cannot_run_stops_the_run_at_once_and_costs_no_retry(
    trial: Trial, program: tuple[str, ...]
) -> None:
    task = trial.project.tasks.add("Alone")

    ran = trial.ralph("run", "--", *program)

    assert ran.code == 1
    assert [attempt.excused for attempt in trial.attempts()] == [True]
    assert trial.status(task) is TaskStatus.PENDING
    assert ran.out.count("nosuch") >= 2  # in the result of the attempt and in the reason to stop
    trial.script(SAYS_DONE)
    assert trial.ralph("run", "--", "sh", "agent.sh").code == 0
    assert "Previous Attempts" not in trial.kept_prompt(task, 2)
    assert "nosuch" not in trial.kept_prompt(task, 2)


def test_crashes_without_a_word_or_a_change_are_the_agents_and_others_the_tasks(trial: Trial) -> None:
    task = trial.project.tasks.add("Alone")
    trial.script("echo 'no key is set' >&2; exit 3")

    assert trial.ralph("run", "--", "sh", "agent.sh").code == 1
    assert [attempt.excused for attempt in trial.attempts()] == [True] * 3
    assert trial.status(task) is TaskStatus.PENDING

    trial.script("echo 'I looked at it.'; exit 3")
    trial.ralph("run", "--", "sh", "agent.sh")
    assert [attempt.excused for attempt in trial.attempts()[3:]] == [False] * 4
    assert trial.status(task) is TaskStatus.BLOCKED


def test_another_ready_task_comes_before_a_retry_and_more_before_the_next(trial: Trial) -> None:
    first, second, third, fourth = (trial.project.tasks.add(title) for title in ("First", "Second", "Third", "Fourth"))
    urgent = trial.project.tasks.add("Urgent", priority=5)

    trial.run(ScriptedAgent(FAILED, DONE, FAILED, DONE, FAILED, DONE, DONE, DONE), RunOptions(iterations=9))

    order = [attempt.task_id for attempt in trial.attempts()]
    assert order == [urgent.id, urgent.id, first.id, second.id, first.id, third.id, fourth.id, first.id]
    assert trial.outcomes()[-1] is AttemptOutcome.DONE
