"""What a run and a task may use up, and how a run that stopped goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from ralph.agents import SessionOptions
from ralph.core.errors import NotFoundError, UsageError
from ralph.core.files import state_path
from ralph.core.records import AgentReply, AttemptOutcome, SessionEnding, TaskStatus
from ralph.loop.options import RunEnding, RunOptions
from tests.loop.trial import DONE, FAILED, SAYS_DONE, SAYS_FAILED, Trial, leave
from tests.make import ScriptedAgent, damaged_rows

AGENT = '[agent]\ncommand = ["sh", "agent.sh"]\n'
DAY = 86_400.0


def costly(text: str = FAILED, **said: object) -> AgentReply:
    return AgentReply(text=text, files=(), **{"seconds": 0.1, **said})  # type: ignore[arg-type]


def tasks(trial: Trial, count: int) -> None:
    for number in range(count):
        trial.project.tasks.add(f"Task {number}")


# --- of a run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "ending", "iterations"),
    [
        (RunOptions(iterations=3), RunEnding.LIMIT_ITERATIONS, 3),
        (RunOptions(cost_usd=1.0), RunEnding.LIMIT_COST, 3),
        (RunOptions(tokens=1000), RunEnding.LIMIT_TOKENS, 4),
        (RunOptions(cost_usd=1.0, tokens=100, iterations=9), RunEnding.LIMIT_TOKENS, 1),
    ],
)
def test_a_run_stops_at_its_limit(trial: Trial, order: RunOptions, ending: RunEnding, iterations: int) -> None:
    tasks(trial, 6)
    agent = ScriptedAgent(costly(DONE, cost_usd=0.4, tokens_in=200, tokens_out=50))

    summary = trial.run(agent, order)

    assert (summary.ending, summary.iterations, summary.ending.exit_code) == (ending, iterations, 0)
    assert len(trial.attempts()) == iterations
    assert trial.project.store.tasks.progress.counts()[TaskStatus.PENDING] == 6 - iterations


def test_tokens_are_priced_when_the_agent_does_not_say_what_it_costs(trial: Trial) -> None:
    tasks(trial, 9)
    agent = ScriptedAgent(costly(DONE, tokens_in=1_000_000, tokens_out=100_000))
    agent.reports_cost = False

    summary = trial.run(agent, RunOptions(cost_usd=4.0), models={"prices": {"haiku": (1.0, 5.0)}})

    assert (summary.ending, summary.iterations, summary.cost_usd) == (RunEnding.LIMIT_COST, 3, 4.5)


def test_minutes_are_counted_by_a_clock_that_nobody_sets(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks(trial, 4)
    true_time = time.time
    jumps = iter([400 * DAY, -400 * DAY, 0.0])

    def jump(prompt: str, session: SessionOptions) -> str:
        by = next(jumps, 0.0)
        monkeypatch.setattr(time, "time", lambda: true_time() + by)
        task_id = session.environment["RALPH_TASK_ID"]
        return f'<knowledge tags="t" title="At {task_id}">Seen in {task_id} alone.</knowledge>{DONE}'

    summary = trial.run(ScriptedAgent(jump), RunOptions(minutes=5))

    assert (summary.ending, summary.done) == (RunEnding.COMPLETE, 4)
    assert trial.outcomes() == [AttemptOutcome.DONE] * 4
    assert [attempt.iteration for attempt in trial.attempts()] == [1, 2, 3, 4]
    assert 0 <= summary.seconds < 60
    assert len(trial.memories("knowledge")) == 4
    assert trial.ralph("status").code == 0
    assert damaged_rows(trial.project.store) == []


def test_a_clock_that_was_set_back_hides_no_failure(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    trial.project.tasks.add("A")
    true_time = time.time

    def fail(prompt: str, session: SessionOptions) -> str:
        back = int(session.environment["RALPH_ATTEMPT"]) * DAY
        monkeypatch.setattr(time, "time", lambda: true_time() - back)
        report = f"<failure-report>\nwhat_tried: x\nwhy_failed: reason number {back:.0f}\n</failure-report>"
        return report + FAILED

    agent = ScriptedAgent(fail)

    summary = trial.run(agent)

    assert summary.ending is RunEnding.WAITS
    assert [model for model, _ in trial.models()][:2] == ["haiku", "haiku"]
    previous = agent.prompts[3].split("### Previous Attempts")[1]
    assert previous.index("#### Attempt 3") < previous.index("#### Attempt 2") < previous.index("#### Attempt 1")


def test_limits_are_shown_as_they_are_used_up(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 3)

    ran = trial.ralph("run", "--max-iterations", "2", "--max-minutes", "60", "--max-cost", "2", "--max-tokens", "5000")

    assert "used: 1 of 2 iterations, 0.0 of 60 minutes\n" in ran.out  # the agent tells neither cost nor tokens
    assert "used: 2 of 2 iterations" in ran.out
    assert "Stopped: the limit on iterations was reached. 2 done in 2 attempts" in ran.out
    assert ran.code == 0


def test_limits_in_the_settings_count_and_the_command_line_counts_more(trial: Trial) -> None:
    trial.settings(AGENT + "[limits]\niterations = 2\n")
    trial.script(SAYS_DONE)
    tasks(trial, 6)

    first = trial.ralph("run")
    second = trial.ralph("run", "--max-iterations", "3")

    assert "2 done in 2 attempts" in first.out
    assert "3 done in 3 attempts" in second.out


@pytest.mark.parametrize(
    "words",
    [
        ("--max-iterations", "0"),
        ("--max-minutes", "-1"),
        ("--max-cost", "nan"),
        ("--max-tokens", "1.5"),
        ("--max-task-iterations", "x"),
        ("--max-task-cost", "inf"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(trial: Trial, words: tuple[str, ...]) -> None:
    ran = trial.ralph("run", *words, "--", "true")

    assert ran.code == 2
    assert words[0] in ran.err


def test_a_limit_that_cannot_be_measured_is_said_to_be_one(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    tasks(trial, 1)

    ran = trial.ralph("run", "--max-cost", "1", "--max-tokens", "9", "--", "sh", "agent.sh")

    assert "the cost limit cannot stop this run" in ran.out
    assert "the token limit cannot stop this run" in ran.out


def test_a_cost_limit_with_a_model_that_has_no_price_is_said_to_be_none(trial: Trial) -> None:
    tasks(trial, 1)
    agent = ScriptedAgent(costly(DONE, tokens_in=5, tokens_out=5))
    agent.reports_cost = False

    trial.run(agent, RunOptions(cost_usd=1.0, model="nobody-knows-9"))

    messages = [str(details["message"]) for details in trial.told("warning")]
    assert any("nobody-knows-9" in message and "cost limit" in message for message in messages)


# --- of a task ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "attempts", "spent"),
    [
        (RunOptions(task_iterations=2), 2, "its 2 iterations"),
        (RunOptions(task_cost_usd=1.0), 3, "its $1.00"),
        (RunOptions(task_tokens=500), 2, "its 500 tokens"),
        (RunOptions(task_minutes=0.005), 3, "its 0.005 minutes"),
    ],
)
def test_a_task_that_has_used_up_its_share_waits_and_the_others_go_on(
    trial: Trial, order: RunOptions, attempts: int, spent: str
) -> None:
    hungry = trial.project.tasks.add("Hungry", priority=9)
    modest = trial.project.tasks.add("Modest")

    def work(prompt: str, session: SessionOptions) -> str:
        return DONE if session.environment["RALPH_TASK_ID"] == modest.id else FAILED

    class Costly(ScriptedAgent):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            return costly(super().work(prompt, session).text, cost_usd=0.4, tokens_in=200, tokens_out=50)

    summary = trial.run(Costly(work), order, execution={"max_retries": 9})

    assert summary.ending is RunEnding.WAITS
    assert [attempt.task_id for attempt in trial.attempts()] == [*[hungry.id] * attempts, modest.id]
    assert trial.status(modest) is TaskStatus.DONE
    blocked = trial.project.store.tasks.get(hungry.id)
    assert blocked.status is TaskStatus.BLOCKED
    assert f"has used up {spent}, waits for a person" in blocked.reason


def test_a_session_ends_when_the_time_of_its_task_is_over(trial: Trial) -> None:
    trial.script("sleep 60")
    task = trial.project.tasks.add("Slow")

    ran = trial.ralph("run", "--max-task-minutes", "0.02", "--", "sh", "agent.sh")

    assert ran.code == 1
    assert trial.outcomes() == [AttemptOutcome.ERROR]
    assert trial.last().seconds < 20
    assert "has used up its 0.02 minutes" in trial.project.store.tasks.get(task.id).reason
    assert "has used up its 0.02 minutes" in trial.ralph("status").out


def test_a_task_that_a_person_resets_has_its_whole_share_again(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    trial.run(ScriptedAgent(FAILED), RunOptions(task_iterations=2))

    trial.project.tasks.reset(task.id)
    trial.run(ScriptedAgent(FAILED, DONE), RunOptions(task_iterations=2))

    assert trial.outcomes() == [AttemptOutcome.FAILED] * 3 + [AttemptOutcome.DONE]
    assert trial.status(task) is TaskStatus.DONE


def test_a_task_that_is_done_with_its_last_share_is_done(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    trial.run(ScriptedAgent(DONE), RunOptions(task_iterations=1, task_tokens=1, task_cost_usd=0.01))

    assert trial.status(task) is TaskStatus.DONE


# --- going on ----------------------------------------------------------------------------------


def test_a_run_that_is_resumed_is_the_same_run(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 5)
    first = trial.ralph("run", "--max-iterations", "2", "--holdout", "0.5", "--format", "json")

    second = trial.ralph("run", "--resume", "--max-iterations", "4")

    run = trial.attempts()[0].run_id
    assert run in first.out
    assert {attempt.run_id for attempt in trial.attempts()} == {run}
    assert [attempt.iteration for attempt in trial.attempts()] == [1, 2, 3, 4]
    assert f"{run} resumed" in second.out
    assert "Already used: 2 of 4 iterations" in second.out
    assert "50% of the iterations run without memory" in second.out
    assert "used: 3 of 4 iterations" in second.out
    assert "4 done in 4 attempts" in second.out
    assert len(trial.project.store.runs.latest(9)) == 1


def test_a_run_can_be_resumed_by_its_id(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 3)
    for _ in range(2):
        trial.ralph("run", "--max-iterations", "1")
    first = trial.attempts()[0].run_id

    trial.ralph("run", "--resume", first, "--max-iterations", "2")

    assert (trial.last().run_id, trial.last().iteration) == (first, 2)


def test_limits_count_what_was_used_before(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 3)
    trial.ralph("run", "--max-iterations", "2")

    ran = trial.ralph("run", "--resume")

    assert ran.code == 0
    assert "the limit on iterations was reached" in ran.out
    assert len(trial.attempts()) == 2


def test_cost_tokens_and_time_of_before_count_too(trial: Trial) -> None:
    tasks(trial, 9)
    project = trial.project
    trial.script(SAYS_DONE)
    trial.settings(AGENT)
    agent = ScriptedAgent(costly(DONE, cost_usd=0.4, tokens_in=20, tokens_out=5, seconds=300.0))
    trial.run(agent, RunOptions(iterations=2))
    run = trial.last().run_id
    project.store.runs.end(run, "it was stopped", seconds=600.0)

    for words, ending in (
        (("--max-cost", "0.8"), "the cost limit"),
        (("--max-tokens", "50"), "the token limit"),
        (("--max-minutes", "10"), "the time limit"),
    ):
        ran = trial.ralph("run", "--resume", run, *words, "--max-iterations", "9")
        assert ending in ran.out, words
    assert len(project.store.attempts.latest(99)) == 2


def test_a_limit_that_was_raised_in_the_settings_is_raised_for_a_run_that_goes_on(trial: Trial) -> None:
    trial.settings(AGENT + "[limits]\niterations = 2\n")
    trial.script(SAYS_DONE)
    tasks(trial, 3)
    trial.ralph("run")

    trial.settings(AGENT + "[limits]\niterations = 9\n")
    trial.ralph("run", "--resume")

    assert trial.outcomes() == [AttemptOutcome.DONE] * 3


def test_what_the_run_was_asked_is_remembered(trial: Trial) -> None:
    trial.settings('[agent]\ncommand = ["sh", "agent.sh", "{model}"]\n')
    trial.script(SAYS_DONE)
    tasks(trial, 4)
    trial.ralph("run", "--max-iterations", "1", "--model", "opus", "--no-memory", "--max-task-iterations", "1")
    trial.script(SAYS_FAILED)

    trial.ralph("run", "--resume", "--max-iterations", "2")
    trial.ralph("run", "--resume", "--max-iterations", "3", "--model", "haiku")

    assert [attempt.model for attempt in trial.attempts()] == ["opus", "opus", "haiku"]
    assert not any(attempt.with_memory for attempt in trial.attempts())
    assert trial.project.store.tasks.progress.counts()[TaskStatus.BLOCKED] == 2


@pytest.mark.sqlite
def test_gates_and_the_program_of_a_run_are_not_forgotten_when_it_goes_on(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    tasks(trial, 2)
    trial.ralph("run", "--max-iterations", "1", "--gate", "test ! -e broken", "--", "sh", "agent.sh")
    (trial.root / "broken").touch()

    ran = trial.ralph("run", "--resume", "--max-iterations", "2")

    assert ran.code == 0, ran.err
    assert trial.outcomes() == [AttemptOutcome.DONE, AttemptOutcome.RETRIED]


@pytest.mark.postgres
def test_a_database_that_others_write_to_does_not_say_which_programs_run(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    tasks(trial, 2)
    trial.ralph("run", "--max-iterations", "1", "--gate", "true", "--", "sh", "agent.sh")

    shutil.rmtree(state_path(trial.root, "runs"))  # as on another machine
    refused = trial.ralph("run", "--resume", "--max-iterations", "2")
    unverified = trial.ralph("run", "--resume", "--max-iterations", "2", "--no-verify", "--", "sh", "agent.sh")

    assert (refused.code, refused.error) == (2, "run-options-needed")
    assert unverified.code == 0, unverified.err
    assert trial.outcomes() == [AttemptOutcome.DONE] * 2


@pytest.mark.sqlite
def test_what_is_asked_now_counts_more_than_what_was_asked_before(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 3)
    trial.ralph("run", "--max-iterations", "1", "--gate", "false", "--strategy", "fixed")

    trial.ralph("run", "--resume", "--max-iterations", "2", "--no-verify", "--", "sh", "agent.sh", "{model}")
    trial.ralph("run", "--resume", "--max-iterations", "3", "--gate", "test -e nothing")

    assert trial.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE, AttemptOutcome.RETRIED]
    assert trial.models()[1:] == [("haiku", "fixed: the first model of the ladder")] * 2


def test_a_secret_on_the_command_line_is_not_remembered(trial: Trial) -> None:
    key = "-".join(["sk", "ant", "api03", "abcdefghijklmnop" * 2])
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 2)

    trial.ralph("run", "--max-iterations", "1", "--gate", "true", "--", "sh", "agent.sh", f"--key={key}")

    (run,) = trial.project.store.runs.latest(9)
    assert "abcdefghijklmnop" not in run.options
    assert "true" in run.options


def test_options_that_nobody_understands_hinder_nothing(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 3)
    trial.ralph("run", "--max-iterations", "1")
    run = trial.last().run_id

    for number, options in enumerate(('{"iterations": "many", "gates": [7], "later": 1}', "[1]", "no json"), start=2):
        trial.project.store.runs.resume(run, options)
        trial.project.store.runs.end(run, "stopped")
        assert trial.ralph("run", "--resume", "--max-iterations", str(number)).code in (0, 3)

    assert trial.outcomes() == [AttemptOutcome.DONE] * 3


def test_a_run_that_was_complete_goes_on_with_new_tasks(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 1)
    assert "all tasks are done" in trial.ralph("run").out
    tasks(trial, 1)

    ran = trial.ralph("run", "--resume")

    assert ran.code == 0
    assert [attempt.iteration for attempt in trial.attempts()] == [1, 2]
    assert trial.project.store.runs.latest(1)[0].ending == RunEnding.COMPLETE


def test_without_any_run_there_is_nothing_to_resume(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)

    ran = trial.ralph("run", "--resume")

    assert (ran.code, ran.error) == (2, "no-run")


def test_a_run_that_nobody_knows_cannot_be_resumed(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks(trial, 1)

    ran = trial.ralph("run", "--resume", "run-ffffffff")

    assert ran.code == NotFoundError.exit_code
    assert "run-ffffffff" in ran.err
    assert trial.attempts() == []


# --- processes -------------------------------------------------------------------------------------


@pytest.fixture
def started(trial: Trial) -> Iterator[list[subprocess.Popen[str]]]:
    """Give a list of processes that are ended after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        leave(process.pid)
        process.communicate()


def test_a_run_cannot_be_resumed_while_it_works(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.settings(AGENT)
    trial.script("touch .ralph/began; sleep 60")
    tasks(trial, 1)
    started.append(trial.start("run"))
    trial.soon(".ralph/began")

    ran = trial.ralph("run", "--resume")

    assert (ran.code, ran.error) == (UsageError.exit_code, "run-active")
    assert len(trial.attempts()) == 1


def test_a_run_cannot_be_resumed_while_it_waits_for_tasks(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.settings(AGENT)
    trial.script(f"{SAYS_DONE}; touch .ralph/done")
    tasks(trial, 1)
    started.append(trial.start("run", "--wait"))
    trial.soon(".ralph/done")
    deadline = time.monotonic() + 20
    while trial.last().outcome is None and time.monotonic() < deadline:
        time.sleep(0.02)

    second = trial.start("run", "--resume")
    started.append(second)

    assert second.wait(30) == UsageError.exit_code


def test_after_a_kill_the_same_run_goes_on(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.settings(AGENT)
    trial.script(f"if [ -e .ralph/killed ]; then {SAYS_DONE}; exit; fi\ntouch .ralph/began; sleep 60")
    tasks(trial, 3)
    started.append(trial.start("run", "--max-iterations", "4"))
    trial.soon(".ralph/began")

    os.kill(started[0].pid, signal.SIGKILL)
    started[0].wait()
    (trial.root / ".ralph/killed").touch()
    status = trial.ralph("status").out
    resumed = trial.start("run", "--resume")
    started.append(resumed)
    out, _ = resumed.communicate(timeout=60)

    assert "its run is gone; the next ralph run will retry it" in status
    assert resumed.returncode == 0, out
    run = trial.attempts()[0].run_id
    assert f"{run} resumed" in out
    assert "Already used: 1 of 4 iterations" in out
    assert [(attempt.run_id, attempt.iteration) for attempt in trial.attempts()] == [(run, n) for n in (1, 2, 3, 4)]
    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED, *[AttemptOutcome.DONE] * 3]
    assert trial.attempts()[1].task_id == trial.attempts()[0].task_id
    assert len(trial.project.store.runs.latest(9)) == 1


def test_after_a_kill_a_new_run_goes_on_as_well(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.settings(AGENT)
    trial.script(f"if [ -e .ralph/killed ]; then {SAYS_DONE}; exit; fi\ntouch .ralph/began; sleep 60")
    tasks(trial, 2)
    started.append(trial.start("run"))
    trial.soon(".ralph/began")

    os.kill(started[0].pid, signal.SIGKILL)
    started[0].wait()
    (trial.root / ".ralph/killed").touch()
    ran = trial.ralph("run")

    assert ran.code == 0
    assert "was abandoned by a worker that is gone" in ran.out
    assert trial.project.store.tasks.progress.counts() == {TaskStatus.DONE: 2}
    assert len({attempt.run_id for attempt in trial.attempts()}) == 2


def test_after_ctrl_c_the_same_run_goes_on(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.settings(AGENT)
    trial.script(f"if [ -e .ralph/stopped ]; then {SAYS_DONE}; exit; fi\ntouch .ralph/began; sleep 60")
    tasks(trial, 1)
    started.append(trial.start("run"))
    trial.soon(".ralph/began")

    started[0].send_signal(signal.SIGINT)
    assert started[0].wait(30) == 130
    (trial.root / ".ralph/stopped").touch()
    ran = trial.ralph("run", "--resume")

    assert ran.code == 0
    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert [attempt.iteration for attempt in trial.attempts()] == [1, 2]


def test_two_runs_in_one_directory_do_every_task_once_and_are_warned(
    trial: Trial, started: list[subprocess.Popen[str]]
) -> None:
    trial.settings(AGENT)
    trial.script(f"touch .ralph/began; sleep 0.3; {SAYS_DONE}")
    tasks(trial, 6)
    started.append(trial.start("run"))
    trial.soon(".ralph/began")

    ran = trial.ralph("run")
    first, _ = started[0].communicate(timeout=60)

    assert ran.code == 0
    assert "Another run is active in this directory" in ran.out
    assert "Another run is active in this directory" not in first
    assert trial.outcomes() == [AttemptOutcome.DONE] * 6
    assert len({attempt.task_id for attempt in trial.attempts()}) == 6
    assert len({attempt.run_id for attempt in trial.attempts()}) == 2


def test_the_time_limit_ends_a_session_and_the_run_can_go_on(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(f"if [ -e .ralph/again ]; then {SAYS_DONE}; exit; fi\nsleep 60")
    tasks(trial, 1)
    first = trial.ralph("run", "--max-minutes", "0.01")
    (trial.root / ".ralph/again").touch()

    second = trial.ralph("run", "--resume", "--max-minutes", "5")

    assert "the time limit was reached" in first.out
    assert second.code == 0
    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]


def test_a_session_that_was_stopped_uses_up_no_retry(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    stopped = AgentReply(text="", ending=SessionEnding.STOPPED, files=())

    trial.run(ScriptedAgent(stopped), RunOptions(iterations=6))

    assert trial.status(task) is TaskStatus.PENDING
    assert trial.project.store.stats.metrics(task.id).consecutive_failures == 0
