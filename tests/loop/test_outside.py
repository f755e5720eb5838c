"""Agents outside the loop: a task is claimed, and done only if the checks of the loop say so."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from ralph.core.actor import AGENT, Actor
from ralph.core.errors import ConflictError, NotTrustedError, UsageError
from ralph.core.records import AttemptOutcome, TaskStatus, replace
from ralph.loop import outside
from ralph.project import Project
from tests.loop.trial import SAYS_DONE, Trial

GATE = "sh check.sh"


@pytest.fixture
def checked(trial: Trial) -> Trial:
    """Give a project with a gate that passes once a file is there."""
    (trial.root / "check.sh").write_text("test -e really-done\n")
    trial.settings(f'[execution]\ngates = ["{GATE}"]\n\n[memories]\nmeaning = false\n')
    return trial


@pytest.fixture
def agent(checked: Trial) -> Iterator[Project]:
    with Project.open(checked.root, actor=AGENT) as opened:
        yield opened


def test_the_first_ready_task_is_claimed_once(checked: Trial, agent: Project) -> None:
    checked.project.tasks.add("Later")
    task = checked.project.tasks.add("Export the invoices", priority=5)
    memory = checked.project.memory.add("The export of invoices needs the gap filled.").memory

    work = agent.outside_work.claim()
    other = agent.outside_work.claim()

    assert work is not None
    assert work.task.id == task.id
    assert other is not None
    assert other.task.id != task.id
    assert agent.outside_work.claim() is None
    assert checked.status(task) is TaskStatus.IN_PROGRESS
    assert "gap filled" in work.memories
    assert memory.id in checked.project.tasks.get(task.id).attempts[0].shown


def test_work_that_passes_the_gates_is_done(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    (checked.root / "really-done").touch()

    finished = agent.outside_work.finish(task.id, "The parser has to be told about tabs before it starts.")

    assert finished.is_done
    attempt = checked.project.tasks.get(task.id).attempts[0]
    assert (attempt.outcome, attempt.checks_passed) == (AttemptOutcome.DONE, 1)
    assert "tabs" in attempt.notes
    assert checked.status(task) is TaskStatus.DONE
    assert agent.outside_work.finish(task.id).is_done, "the answer may have been lost"


def test_work_that_fails_the_gates_is_not_done_and_goes_on_until_retries_are_used_up(
    checked: Trial, agent: Project
) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    states: list[TaskStatus] = []
    while not states or states[-1] is TaskStatus.IN_PROGRESS:
        finished = agent.outside_work.finish(task.id)
        assert not finished.is_done
        assert finished.report
        assert GATE in finished.report.why
        states.append(checked.status(task))

    assert states[-1] is TaskStatus.BLOCKED
    assert len(states) == agent.config.execution.max_retries + 1
    assert len(checked.project.tasks.get(task.id).attempts) == len(states)


def test_a_failed_attempt_can_be_followed_by_one_that_passes(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    agent.outside_work.finish(task.id)
    (checked.root / "really-done").touch()

    assert agent.outside_work.finish(task.id).is_done
    outcomes = [one.outcome for one in checked.project.tasks.get(task.id).attempts]
    assert outcomes == [AttemptOutcome.DONE, AttemptOutcome.RETRIED]


@pytest.mark.parametrize("fails_first", [False, True])
def test_work_that_changes_its_gate_waits_for_a_person(checked: Trial, agent: Project, fails_first: bool) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    if fails_first:
        (checked.root / "check.sh").write_text("exit 3\n")
        agent.outside_work.finish(task.id)
    (checked.root / "check.sh").write_text("exit 0\n")

    finished = agent.outside_work.finish(task.id)

    assert not finished.is_done
    assert checked.status(task) is TaskStatus.BLOCKED
    held = checked.project.tasks.get(task.id).held
    assert held
    assert "+exit 0" in held.diff


def test_settings_that_change_after_the_claim_do_not_decide(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    checked.settings('[execution]\ngates = ["true"]\n')

    with Project.open(checked.root, actor=AGENT) as later:
        finished = later.outside_work.finish(task.id)

    assert not finished.is_done
    assert checked.status(task) is not TaskStatus.DONE


def test_a_gate_that_a_failed_claim_left_behind_is_not_the_base_of_the_next(checked: Trial, agent: Project) -> None:
    (checked.root / "tests").mkdir()
    (checked.root / "tests/test_it.py").write_text("def test_it():\n    assert False\n")
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    (checked.root / "tests/test_it.py").write_text("def test_it():\n    assert True\n")

    agent.tasks.report_failure(task.id, "A regex.", "It cannot count.")

    view = checked.project.tasks.get(task.id)
    assert view.task.status is TaskStatus.PENDING
    assert (len(view.attempts), view.attempts[0].outcome) == (1, AttemptOutcome.FAILED)
    (held,) = checked.project.store.held_changes.of_unfinished()
    assert "tests/test_it.py" in held.files


def test_work_that_was_not_claimed_is_not_finished(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    (checked.root / "really-done").touch()

    with pytest.raises(ConflictError) as caught:
        agent.outside_work.finish(task.id)

    assert caught.value.code == "task-not-claimed"
    assert checked.status(task) is TaskStatus.PENDING


def test_a_claim_ends_with_the_process_that_gave_it(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    outside._open_work.clear()  # as after a restart
    (checked.root / "really-done").touch()

    with pytest.raises(ConflictError) as caught:
        agent.outside_work.finish(task.id)

    assert caught.value.code == "task-claimed"


def test_a_claim_that_was_taken_away_finishes_nothing(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)
    checked.project.tasks.reset(task.id)
    (checked.root / "really-done").touch()

    with pytest.raises(ConflictError) as caught:
        agent.outside_work.finish(task.id)

    assert caught.value.code == "task-not-claimed"
    assert checked.status(task) is TaskStatus.PENDING


def test_a_claim_is_shown_again_and_renewed(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    agent.outside_work.claim(task.id)

    again = agent.outside_work.claim(task.id)

    assert again
    assert again.attempt.number == 1
    assert len(checked.project.tasks.get(task.id).attempts) == 1


def test_tasks_that_cannot_start_are_not_claimed(checked: Trial, agent: Project) -> None:
    first = checked.project.tasks.add("First")
    then = checked.project.tasks.add("Then", needs=[first.id])
    checked.project.tasks.block(first.id)

    for id, code in ((then.id, "task-not-ready"), (first.id, "task-closed")):
        with pytest.raises(ConflictError) as caught:
            agent.outside_work.claim(id)
        assert caught.value.code == code
    assert agent.outside_work.claim() is None


def test_without_gates_the_agent_is_believed_as_in_a_run(trial: Trial) -> None:
    tasks = [trial.project.tasks.add(title) for title in ("One", "Two")]
    with Project.open(trial.root, actor=AGENT) as agent:
        agent.outside_work.claim(tasks[0].id)

        assert all(agent.outside_work.finish(task.id).is_done for task in tasks)


def test_a_session_of_the_loop_neither_claims_nor_finishes(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    session = Project(checked.root, checked.project.store, checked.project.config, Actor(kind="agent", session="s-1"))

    for call in (session.outside_work.claim, lambda: session.outside_work.finish(task.id)):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.code == "person-required"


def test_during_a_run_nothing_is_claimed(checked: Trial, agent: Project) -> None:
    checked.project.tasks.add("Do it")
    other = checked.project.tasks.add("Another")
    store = checked.project.store
    assert store.attempts.begin(store.runs.start("command").id, "host/1/2", 60, agent="command")

    with pytest.raises(UsageError) as caught:
        agent.outside_work.claim(other.id)

    assert caught.value.code == "run-active"


def test_gates_that_nobody_trusts_are_not_left_out(checked: Trial, agent: Project) -> None:
    task = checked.project.tasks.add("Do it")
    config = replace(agent.config, untrusted=("execution.gates",))
    doubted = Project(checked.root, agent.store, config, AGENT)

    with pytest.raises(NotTrustedError):
        doubted.outside_work.claim(task.id)


@pytest.mark.parametrize(("answer", "status"), [("true", TaskStatus.DONE), ("false", TaskStatus.IN_PROGRESS)])
def test_work_is_reviewed_by_the_configured_agent(trial: Trial, answer: str, status: TaskStatus) -> None:
    reviewer = trial.root / "reviewer.py"
    reviewer.write_text(
        "import os, sys\nsys.stdin.read()\nid = os.environ['RALPH_TASK_ID']\n"
        f"print('<verify-pass>' + id + '</verify-pass>' if {answer.title()} else"
        " '<verify-fail>It is not.</verify-fail>')\n"
    )
    command = f'["{sys.executable}", "{reviewer}"]'
    trial.settings(f"[agent]\ncommand = {command}\n[execution]\nreview = true\n")
    task = trial.project.tasks.add("Do it")
    with Project.open(trial.root, actor=AGENT) as agent:
        agent.outside_work.claim(task.id)

        agent.outside_work.finish(task.id)

    assert trial.status(task) is status


def test_a_run_goes_on_beside_a_claim(checked: Trial, agent: Project) -> None:
    mine = checked.project.tasks.add("Mine")
    theirs = checked.project.tasks.add("Theirs")
    agent.outside_work.claim(mine.id)
    checked.script(f"touch really-done\n{SAYS_DONE}\n")

    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert checked.status(theirs) is TaskStatus.DONE
    assert checked.status(mine) is TaskStatus.IN_PROGRESS
