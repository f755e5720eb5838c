"""Failures that are reported of work outside the loop."""

from __future__ import annotations

import pytest

from ralph.core.errors import ConflictError, NotFoundError, UsageError
from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome, TaskStatus, replace
from ralph.project import Project
from tests.make import as_agent, begin


def test_it_is_a_failed_attempt_that_the_next_one_is_told_of(project: Project) -> None:
    task = project.tasks.add("Fix the parser")

    attempt, after = project.tasks.report_failure(
        task.id,
        "A regular expression.",
        "It cannot count brackets.",
        category="Wrong approach",
        files=["src/parser.py", "src/parser.py"],
        trace="Error: unbalanced",
    )

    assert (attempt.number, attempt.outcome, attempt.reason) == (1, AttemptOutcome.FAILED, "It cannot count brackets.")
    assert (after.status, after.claimed_by) == (TaskStatus.PENDING, None)
    (report,) = project.journal.failures_of(task.id)
    assert (report.tried, report.why) == ("A regular expression.", "It cannot count brackets.")
    assert (report.category, report.files) == ("wrong_approach", ("src/parser.py",))
    assert (report.trace, report.made_by) == ("Error: unbalanced", "agent")
    told = project.prompts.preview(task.id).text.partition("Previous Attempts")[2]
    assert "It cannot count brackets." in told
    assert "Attempt 1 failed" in project.tasks.read_log(task.id)[-1].message


def test_it_uses_up_the_retries_of_the_task(project: Project) -> None:
    project.config = replace(project.config, execution=replace(project.config.execution, max_retries=1))
    task = project.tasks.add("Fix the parser")

    _, first = project.tasks.report_failure(task.id, "One way.", "It broke.")
    _, second = project.tasks.report_failure(task.id, "Another way.", "It broke as well.")

    assert first.status is TaskStatus.PENDING
    assert second.status is TaskStatus.BLOCKED
    assert "failed 2 times" in second.reason
    assert [one.number for one in project.journal.attempts(Page(limit=5), task=task.id)] == [2, 1]


def test_it_is_no_run_of_the_loop(project: Project) -> None:
    task = project.tasks.add("Fix the parser")

    attempt, _ = project.tasks.report_failure(task.id, "One way.", "It broke.")

    assert project.store.runs.latest(5) == []
    assert project.overview().last_run is None
    run = project.store.runs.get(attempt.run_id)
    assert (run.agent, run.iterations, run.ended_at is not None) == ("outside", 1, True)


def test_secrets_stay_out_of_it(project: Project) -> None:
    task = project.tasks.add("Fix the parser")

    project.tasks.report_failure(task.id, "password = 'hunter2secret99'", "It broke.", trace="token=abc123def456ghi")

    (report,) = project.journal.failures_of(task.id)
    assert "hunter2" not in report.tried
    assert "abc123" not in report.trace


@pytest.mark.parametrize("status", [TaskStatus.DONE, TaskStatus.BLOCKED, TaskStatus.FAILED])
def test_a_task_that_is_not_open_is_left_alone(project: Project, status: TaskStatus) -> None:
    task = project.tasks.add("Fix the parser")
    {
        TaskStatus.DONE: project.tasks.done,
        TaskStatus.BLOCKED: project.tasks.block,
        TaskStatus.FAILED: project.tasks.fail,
    }[status](task.id)

    with pytest.raises(ConflictError, check=lambda error: error.code == "task-closed"):
        project.tasks.report_failure(task.id, "One way.", "It broke.")

    assert project.tasks.get(task.id).task.status is status
    assert project.journal.failures_of(task.id) == []


def test_what_somebody_else_works_on_is_left_to_them(project: Project) -> None:
    project.tasks.add("Fix the parser")
    task, attempt = begin(project.store, project.store.runs.start("test").id, worker="other/1/1")

    with pytest.raises(ConflictError, check=lambda error: error.code == "task-claimed"):
        project.tasks.report_failure(task.id, "One way.", "It broke.")

    assert project.store.attempts.get(attempt.run_id, attempt.iteration).outcome is None


def test_what_a_vanished_worker_left_can_be_reported_on(project: Project) -> None:
    from ralph.loop.workers import worker_name

    host, _, _ = worker_name().rpartition("/")[0].rpartition("/")
    project.tasks.add("Fix the parser")
    task, _ = begin(project.store, project.store.runs.start("test").id, worker=f"{host}/999999999/1")

    attempt, after = project.tasks.report_failure(task.id, "One way.", "It broke.")

    assert attempt.number == 2
    assert after.status is TaskStatus.PENDING


def test_what_cannot_start_yet_cannot_have_failed(project: Project) -> None:
    first = project.tasks.add("First")
    second = project.tasks.add("Second", needs=[first.id])
    project.tasks.add("A part", parent=first.id)

    with pytest.raises(ConflictError, check=lambda error: error.code == "task-not-ready"):
        project.tasks.report_failure(second.id, "One way.", "It broke.")
    with pytest.raises(ConflictError, check=lambda error: error.code == "task-has-parts"):
        project.tasks.report_failure(first.id, "One way.", "It broke.")

    assert {task.status for task in project.tasks.list()} == {TaskStatus.PENDING}


def test_a_report_needs_a_task_and_words(project: Project) -> None:
    task = project.tasks.add("Fix the parser")

    with pytest.raises(NotFoundError):
        project.tasks.report_failure("t-000000", "One way.", "It broke.")
    with pytest.raises(UsageError, check=lambda error: error.code == "incomplete-report"):
        project.tasks.report_failure(task.id, " \x00", "It broke.")
    with pytest.raises(UsageError, check=lambda error: error.code == "incomplete-report"):
        project.tasks.report_failure(task.id, "One way.", "")


def test_a_session_of_the_loop_writes_its_report_in_its_answer(project: Project) -> None:
    task = project.tasks.add("Fix the parser")
    agent = as_agent(project, session="s-1")

    with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
        agent.tasks.report_failure(task.id, "One way.", "It broke.")
