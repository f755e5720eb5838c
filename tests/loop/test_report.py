"""The report of a run: what came of it, whatever became of the run, in words, Markdown and HTML."""

from __future__ import annotations

import os
import subprocess
import time
from html.parser import HTMLParser
from typing import Any

import pytest

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.records import AttemptOutcome, FailureCause, MemoryState, TaskStatus
from ralph.loop.options import RunEnding, RunOptions, dump_options
from ralph.loop.report import RunReport
from ralph.loop.report_formats import RENDERERS, render_text, report_text
from ralph.loop.report_text import MAX_ITEMS, UNMEASURED, report_document, short_lines
from ralph.loop.waits import MIN_STORED_SECONDS, PAUSED, WaitTimes
from ralph.loop.workers import worker_name
from ralph.project import Project
from tests.loop.trial import SAYS_DONE, SAYS_FAILED, Trial
from tests.make import a_memory, a_report, begin, finish, remember

HOSTILE = "</p><script>alert(1)</script> **bold** [x](javascript:alert(1)) `code` | # <img src=x>"


def attempted(
    project: Project,
    run: str,
    outcome: AttemptOutcome = AttemptOutcome.DONE,
    status: TaskStatus = TaskStatus.DONE,
    why: str = "",
    title: str = "Fix it",
    **fields: Any,
) -> str:
    """Let a run make one attempt at a new task, and give its id."""
    project.tasks.add(title)
    task, attempt = begin(project.store, run)
    report = a_report(attempt, why) if why else None
    finish(project.store, task, attempt, outcome, status, report=report, **fields)
    return task.id


def started(project: Project, worker: str = "") -> str:
    return project.store.runs.start("claude", dump_options(RunOptions(), worker)).id


def words(report: RunReport) -> str:
    return " ".join(render_text(report_document(report, "shop"), 100).split())


def test_a_report_says_what_was_done_what_failed_and_what_it_cost(project: Project) -> None:
    run = started(project)
    memory = remember(project.store, a_memory("Use tabs", origin_run=run))
    remember(project.store, a_memory("Maybe", "Perhaps.", origin_run=run, state=MemoryState.STAGED))
    remember(project.store, a_memory("Refuted", "It was wrong.", origin_run=run, state=MemoryState.REJECTED))
    done = attempted(project, run, model="opus", cost_usd=0.5, tokens_in=900, seconds=60.0, shown=(memory.id, "ep-1"))
    project.tasks.add("Retry it")
    task, attempt = begin(project.store, run)
    red = a_report(attempt, "Tests are red.")
    outcome, cause = AttemptOutcome.FAILED, FailureCause.PROJECT
    finish(project.store, task, attempt, outcome, report=red, cause=cause, model="haiku", cost_usd=0.25)
    project.store.runs.end(run, RunEnding.LIMIT_COST, 7_200.0)

    report = project.runs.report()

    assert [one.id for one in report.done] == [done]
    assert [(one.id, one.why) for one in report.unfinished] == [(task.id, "Tests are red.")]
    assert [(one.model, one.attempts, one.done, one.cost_usd) for one in report.models] == [
        ("opus", 1, 1, 0.5),
        ("haiku", 1, 0, 0.25),
    ]
    assert (report.attempts, report.failed, report.cost_usd, report.seconds) == (2, 1, 0.75, 7_200.0)
    assert report.causes == {"project": 1}
    assert {(one.title, one.is_staged) for one in report.learned} == {("Use tabs", False), ("Maybe", True)}
    assert (report.memory.shown, report.memory.attempts, report.memory.done, report.memory.credited) == (1, 1, 1, 1)
    assert report.next_command == "ralph run --resume --max-cost USD"
    text = words(report)
    assert "Tests are red." in text
    assert "$0.75" in text
    assert UNMEASURED in text  # nothing is claimed that no holdout has measured


def test_what_needs_a_person_comes_with_the_command_that_continues_it(project: Project) -> None:
    run = started(project)
    attempted(project, run, AttemptOutcome.DONE)
    project.tasks.add("Ask me")
    task, attempt = begin(project.store, run)
    finish(project.store, task, attempt, AttemptOutcome.BLOCKED, TaskStatus.PENDING)
    project.tasks.block(task.id, "Which currency is meant?")
    other = project.tasks.add("From before")
    project.tasks.block(other.id, "Not now.")
    project.store.runs.end(run, RunEnding.WAITS)

    report = project.runs.report(run)

    assert [(one.id, one.question) for one in report.waiting] == [(task.id, "Which currency is meant?")]
    assert report.waiting[0].command == f"ralph task reset {task.id}"
    assert report.other_waiting == 1
    assert any("Which currency is meant?" in line for line in short_lines(report))
    assert "Which currency is meant?" in report_text(project.store, project.directory, run)


def test_a_question_comes_with_the_command_that_answers_it(trial: Trial) -> None:
    task = trial.project.tasks.add("Round prices")
    asks = "Is money in cents, or in euros?\nThe file says neither."
    trial.script(f"""cat > /dev/null; printf '<question>{asks}</question>\n'""")

    said = trial.ralph("run", "--", "sh", "agent.sh").out

    report = trial.project.runs.report()
    assert [(one.id, one.question) for one in report.waiting] == [(task.id, asks)]
    assert report.waiting[0].command == f'ralph task answer {task.id} "…"'
    assert report.waiting[0].why == ""
    assert report.waiting[0].command in said


def test_a_run_without_tasks_a_killed_and_a_running_one_are_told_apart(project: Project) -> None:
    with pytest.raises(UsageError) as nothing:
        project.runs.report()
    assert nothing.value.code == "no-run"
    with pytest.raises(NotFoundError):
        project.runs.report("run-none")

    empty = started(project)
    project.store.runs.end(empty, RunEnding.NOTHING)
    killed = started(project, f"{worker_name().rsplit('/', 2)[0]}/{2**22 + 1}/1")
    running = started(project, worker_name())

    reports = [project.runs.report(id) for id in (empty, killed, running)]

    assert [one.state for one in reports] == ["ended", "killed", "running"]
    assert [one.next_command for one in reports] == ["", f"ralph run --resume {killed}", "ralph watch"]
    assert "No task was worked on." in words(reports[0])
    assert short_lines(reports[0]) == []
    project.tasks.add("Fix it")
    begin(project.store, running)
    assert "At work" in words(project.runs.report(running))
    assert "What failed" not in words(project.runs.report(running))
    for report in reports:
        assert all(render(report_document(report)) for render in RENDERERS.values())


def test_a_long_night_fits_on_a_page(project: Project) -> None:
    run = started(project)
    for number in range(200):
        attempted(project, run, title=f"Task {number}", cost_usd=0.01, files=("a.py",))
    project.store.runs.end(run, RunEnding.COMPLETE)

    report = project.runs.report(run)
    text = render_text(report_document(report))

    assert len(report.done) == 200
    assert f"and {200 - MAX_ITEMS} more: ralph task list --status done" in text
    assert len(text.splitlines()) < 100
    assert max(map(len, text.splitlines())) <= 80


class Tags(HTMLParser):
    """The tags of an HTML file."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_whatever_an_agent_said_is_text_in_every_format(project: Project) -> None:
    run = started(project)
    remember(project.store, a_memory(HOSTILE, origin_run=run))
    attempted(project, run, title=HOSTILE, model=HOSTILE, cost_usd=1.0)
    attempted(project, run, AttemptOutcome.FAILED, TaskStatus.FAILED, HOSTILE, title=HOSTILE + "\x1b[31m")
    project.store.runs.end(run, HOSTILE)
    document = report_document(project.runs.report(run), HOSTILE)

    tags = Tags(RENDERERS["html"](document)).tags
    assert not {"script", "img"} & set(tags)
    assert tags.count("h1") == 1
    assert "\x1b" not in RENDERERS["text"](document)
    assert "<script>" not in RENDERERS["markdown"](document).replace("\\<", "")


def git(project: Project, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *words], cwd=project.directory, check=True, capture_output=True)


def test_a_task_comes_with_its_commits_and_unfinished_work_with_a_command(trial: Trial) -> None:
    project = trial.project
    git(project, "init", "-q")
    (trial.root / "agent.sh").write_text("")
    git(project, "add", "agent.sh")
    git(project, "commit", "-q", "-m", "Before")
    task, other = project.tasks.add("Write it"), project.tasks.add("Leave it")
    trial.script(
        f"""
cat > /dev/null
printf '1\\n2\\n' > $RALPH_TASK_ID.txt
if [ $RALPH_TASK_ID = {other.id} ]; then {SAYS_FAILED}; else {SAYS_DONE}; fi
"""
    )
    git(project, "commit", "-q", "-a", "-m", "Script")

    said = trial.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh").out

    report = project.runs.report()
    assert [(one.id, [(c.subject, c.files, c.added) for c in one.commits]) for one in report.done] == [
        (task.id, [("Write it", 1, 2)])
    ]
    assert report.other_commits == 0  # those just before the run are not counted, whatever their second
    assert [(one.id, one.has_checkpoint) for one in report.unfinished] == [(other.id, True)]
    assert f"ralph task diff {other.id}" in words(report)
    assert "Changed: 1 commit, 1 file, +2 −0 lines." in said
    assert f"Full report: ralph report {report.run.id}" in said


def test_a_file_that_two_commits_change_counts_once(trial: Trial) -> None:
    trial.project.tasks.add("First"), trial.project.tasks.add("Second")
    trial.script(f"cat > /dev/null; echo x >> log.txt; echo x > $RALPH_TASK_ID.txt; {SAYS_DONE}")
    trial.commit_all()

    said = trial.ralph("run", "--", "sh", "agent.sh").out

    assert "Changed: 2 commits, 3 files, +4 −0 lines." in said
    assert "In all: 2 commits, 3 files" in trial.ralph("report").out


def test_work_that_is_not_committed_is_said_at_the_end_and_in_the_report(trial: Trial) -> None:
    trial.project.tasks.add("Write")
    trial.script(f"cat > /dev/null; echo x > x.txt; {SAYS_DONE}")
    trial.commit_all()
    (trial.root / "agent.sh").write_text((trial.root / "agent.sh").read_text() + "\n")

    said = trial.ralph("run", "--", "sh", "agent.sh").out

    report = trial.project.runs.report()
    assert "agent.sh" in report.not_committed
    assert said.count(report.not_committed) == 2  # at the start and at the end
    assert report.not_committed in words(report)
    assert "Nothing is left to do." not in words(report)
    assert "git status" in words(report).partition(" Next ")[2]


def test_waiting_together_counts_once_and_is_kept_with_the_run(project: Project) -> None:
    run = started(project)
    waits = WaitTimes(lambda seconds: project.store.runs.add_waits(run, seconds))
    began = time.monotonic() - 3 * MIN_STORED_SECONDS

    waits.add(PAUSED, began)
    waits.add(PAUSED, began)  # a second worker
    waits.add("outage of claude", time.monotonic())  # too short to tell
    waits.flush()
    project.store.runs.add_waits(run, {PAUSED: 2.0, "usage limit of claude": 60.0})

    report = project.runs.report(run)
    assert list(report.waits) == ["usage limit of claude", PAUSED]
    assert report.waits[PAUSED] == pytest.approx(5.0, abs=0.5)
    assert "Waited 1m 05s" in words(report)


def test_waiting_has_its_reason(project: Project) -> None:
    run = started(project)
    attempted(project, run)
    project.store.runs.add_waits(run, {PAUSED: 2.8})
    project.store.runs.end(run, RunEnding.COMPLETE, 18.7)

    assert "in pauses" in words(project.runs.report(run))


def test_files_and_formats_by_command(trial: Trial) -> None:
    assert trial.ralph("report").error == "no-run"
    run = started(trial.project)
    attempted(trial.project, run)
    trial.project.store.runs.end(run, RunEnding.COMPLETE)

    assert trial.ralph("report", run, "--format", "json").json["run"]["id"] == run
    assert trial.ralph("report", "--format", "markdown").out.startswith("# ")
    target = trial.root / "night.html"
    assert trial.ralph("report", "--format", "html", "--output", os.fspath(target)).code == 0
    assert target.read_text().startswith("<!doctype html>")
    assert trial.ralph("report", "--output", os.fspath(trial.root / "no" / "where")).code == 2


def test_a_question_that_was_answered_is_no_failure(trial: Trial) -> None:
    task = trial.project.tasks.add("Round prices")
    trial.script("cat > /dev/null; echo '<question>Cents?</question>'")
    trial.ralph("run", "--", "sh", "agent.sh")
    trial.ralph("task", "answer", task.id, "Cents.")

    report = trial.project.runs.report()

    assert [(one.id, one.asked, one.why) for one in report.unfinished] == [(task.id, "Cents?", "")]
    assert "What failed" not in words(report)
    assert "Ready again" in words(report)


def test_a_task_that_was_done_since_is_not_unfinished(project: Project) -> None:
    run = started(project)
    task = attempted(project, run, AttemptOutcome.FAILED, TaskStatus.PENDING, "Red.")
    project.store.runs.end(run, RunEnding.LIMIT_ITERATIONS)
    project.tasks.done(task)

    report = project.runs.report(run)

    assert ([one.id for one in report.done_since], report.unfinished, report.done) == ([task], (), ())
    assert "not done yet" not in words(report)


def test_tasks_that_a_run_did_not_work_on_are_named_while_they_wait(project: Project) -> None:
    run = started(project)
    attempted(project, run)
    other = project.tasks.add("Ask me")
    project.tasks.block(other.id, "Not now.")
    project.store.runs.end(run, RunEnding.WAITS)

    report = project.runs.report(run)

    assert [(one.id, one.question) for one in report.others] == [(other.id, "Not now.")]
    assert any(other.id in line for line in short_lines(report))
    assert "from before" not in words(report)
    assert "Nothing is left to do." not in words(report)


def test_a_stop_is_no_decision_that_was_needed(project: Project) -> None:
    run = started(project)
    attempted(
        project,
        run,
        AttemptOutcome.INTERRUPTED,
        TaskStatus.PENDING,
        cause=FailureCause.PERSON,
        reason=RunEnding.STOPPED,
    )
    project.store.runs.end(run, RunEnding.STOPPED)

    report = project.runs.report(run)
    assert report.causes == {"stopped": 1}
    assert "failed" not in words(report)
    assert "A person stopped 1 attempt." in words(report)


def test_a_held_change_is_no_failure_and_is_told_once_without_its_diff(trial: Trial) -> None:
    (trial.root / "Makefile").write_text("test:\n\tgrep -q x x.txt\n")
    task = trial.project.tasks.add("Write x")
    trial.project.tasks.add("Needs it", needs=[task.id])
    trial.script(f"cat > /dev/null; printf 'test:\\n\\ttrue\\n' > Makefile; {SAYS_DONE}")
    trial.commit_all()

    trial.ralph("run", "--gate", "make test", "--", "sh", "agent.sh")

    report = trial.project.runs.report()
    assert [(one.id, one.is_held, one.why) for one in report.waiting] == [(task.id, True, "")]
    assert report.causes == {}
    assert report.next_command == ""  # nothing can start before a person decides
    text = words(report)
    assert text.count("changes a protected file: Makefile") == 1
    assert "+++" not in text
    assert "What failed" not in text
    assert f"ralph task reset {task.id}" in text
    assert text.endswith("Once you have dealt with what needs attention: ralph run")
    assert f"ralph task reset {task.id}" in trial.ralph("task", "show", task.id).out


def test_what_kept_a_done_task_from_being_done_is_named(trial: Trial) -> None:
    task = trial.project.tasks.add("Write x")
    trial.script(f"cat > /dev/null; printf $RALPH_ATTEMPT > x.txt; {SAYS_DONE}")
    trial.commit_all()
    gate = "grep -q 2 x.txt || { echo 'AssertionError: 127 != 128'; exit 1; }"

    trial.ralph("run", "--gate", gate, "--", "sh", "agent.sh")

    report = trial.project.runs.report()
    assert [(one.id, len(one.failures)) for one in report.done] == [(task.id, 1)]
    failed = words(report).partition("What failed")[2]
    assert f"{task.id} Write x" in failed
    assert "AssertionError: 127 != 128" in failed


def test_after_an_agent_that_always_fails_its_errors_come_first(project: Project) -> None:
    run = started(project)
    attempted(project, run, AttemptOutcome.ERROR, TaskStatus.PENDING, "It crashed.")
    project.store.runs.end(run, RunEnding.AGENT_FAILS)

    assert f"ralph journal list --run {run}" in words(project.runs.report(run))
