"""The loop on a real store with a scripted agent: what each kind of answer leads to."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.agents import Agent, SessionOptions
from ralph.core.actor import PERSON
from ralph.core.config import AgentConfig, Config, ExecutionConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply, AttemptOutcome, ErrorType, SessionEnding, Task, TaskStatus, replace
from ralph.loop.options import RunEnding, RunOptions, RunSummary
from ralph.loop.outcome import NO_SIGIL
from ralph.loop.progress import ProgressEvent
from ralph.loop.run import Loop
from ralph.loop.tasks import TaskService
from ralph.project import Project
from tests.make import ScriptedAgent, a_memory, begin, claim_task, remember

DONE = "<task-done>TASK</task-done>"
FAILED = "<task-failed>TASK</task-failed>"


class Watched:
    """A run with all its events."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.events: list[ProgressEvent] = []

    def run(
        self,
        agent: Agent,
        order: RunOptions | None = None,
        ask: Callable[[Task], str] | None = None,
        **execution: object,
    ) -> RunSummary:
        loop = Loop(
            store=self.project.store,
            agent=agent,
            config=replace(Config(), execution=replace(ExecutionConfig(), **execution)),
            directory=self.project.root,
            run_options=order or RunOptions(iterations=20),
            emit=self.events.append,
            ask_feedback=ask,
        )
        return loop.run_loop()

    def outcomes(self) -> list[AttemptOutcome | None]:
        return [attempt.outcome for attempt in reversed(self.project.store.attempts.latest(100))]

    def named(self, what: str) -> list[dict[str, object]]:
        return [event.details for event in self.events if event.what == what]


@pytest.fixture
def watched(project: Project) -> Watched:
    return Watched(project)


def test_tasks_are_worked_off_in_order_until_all_are_done(watched: Watched) -> None:
    first = watched.project.tasks.add("first")
    watched.project.tasks.add("second", needs=[first.id])
    agent = ScriptedAgent(DONE)

    summary = watched.run(agent)

    assert (summary.ending, summary.done, summary.iterations) == (RunEnding.COMPLETE, 2, 2)
    assert "**Fix" not in agent.prompts[0]
    assert [event["title"] for event in watched.named("attempt_started")] == ["first", "second"]
    assert watched.project.store.runs.latest(1)[0].ending == RunEnding.COMPLETE


def test_what_one_attempt_learns_the_next_one_sees(watched: Watched) -> None:
    watched.project.tasks.add("Fix the parser")
    agent = ScriptedAgent(
        '<knowledge tags="parser" title="Tabs">The parser wants tabs.</knowledge><journal>Looked around.</journal>',
        DONE,
    )

    watched.run(agent)

    assert watched.outcomes() == [AttemptOutcome.BLOCKED, AttemptOutcome.DONE]
    assert "The parser wants tabs." in agent.prompts[1]
    assert "Looked around." in agent.prompts[1]
    assert "### Previous Attempts" in agent.prompts[1]
    attempt = watched.project.store.attempts.latest(1)[0]
    assert [watched.project.store.memories.get(id).title for id in attempt.shown] == ["Tabs"]


def test_memories_carry_over_to_a_later_run(watched: Watched) -> None:
    watched.project.tasks.add("Fix the parser")
    watched.run(ScriptedAgent(f'<learning category="pitfall" tags="parser">Tabs break it.</learning>{DONE}'))
    watched.project.tasks.add("Extend the parser")
    agent = ScriptedAgent(DONE)

    watched.run(agent)

    assert "Tabs break it." in agent.prompts[0]


def test_without_memory_an_attempt_starts_blind(watched: Watched) -> None:
    watched.project.tasks.add("Fix the parser")
    agent = ScriptedAgent(f'<knowledge tags="parser" title="Tabs">Use tabs.</knowledge>{FAILED}', DONE)

    watched.run(agent, RunOptions(iterations=2, with_memory=False))

    assert "Use tabs." not in agent.prompts[1]
    assert "### Previous Attempts" not in agent.prompts[1]
    assert "Attempt 2 at this task" in agent.prompts[1]
    assert [m.title for m in watched.project.store.memories.all()] == ["Tabs"]
    assert watched.project.store.attempts.latest(1)[0].with_memory is False


def test_a_failed_attempt_leaves_its_report_and_the_retry_reads_it(watched: Watched) -> None:
    task = watched.project.tasks.add("Fix it")
    agent = ScriptedAgent(
        "<failure-report>\nwhat_tried: a hammer\nwhy_failed: it was glass\nerror_category: logic_error\n"
        "relevant_files: src/window.py\n</failure-report>"
        f"<retry-suggestion>Use a cloth.</retry-suggestion>{FAILED}",
        DONE,
    )

    watched.run(agent)

    report = watched.project.journal.failures_of(task.id)[0]
    assert (report.tried, report.why, report.category) == ("a hammer", "it was glass", "logic_error")
    assert (report.files, report.retry_suggestion, report.made_by) == (("src/window.py",), "Use a cloth.", "agent")
    for text in ("a hammer", "it was glass", "src/window.py", "Use a cloth."):
        assert text in agent.prompts[1]
    assert watched.outcomes() == [AttemptOutcome.FAILED, AttemptOutcome.DONE]


def test_after_all_retries_a_task_waits_for_a_person(watched: Watched) -> None:
    task = watched.project.tasks.add("Impossible")
    agent = ScriptedAgent(FAILED)

    summary = watched.run(agent, max_retries=3)

    assert summary.ending is RunEnding.WAITS
    assert watched.outcomes() == [AttemptOutcome.FAILED] * 4
    blocked = watched.project.store.tasks.get(task.id)
    assert blocked.status is TaskStatus.BLOCKED
    assert "failed 4 times" in blocked.reason
    assert "### Stuck Loop Warning" not in agent.prompts[2]
    assert "### Stuck Loop Warning" in agent.prompts[3]

    watched.project.tasks.reset(task.id)
    watched.run(ScriptedAgent(DONE))
    assert watched.project.store.tasks.get(task.id).status is TaskStatus.DONE


@pytest.mark.parametrize(
    ("answer", "outcome", "error_type", "reason"),
    [
        ("Nothing to say.", AttemptOutcome.BLOCKED, ErrorType.UNKNOWN, NO_SIGIL),
        ("", AttemptOutcome.BLOCKED, ErrorType.UNKNOWN, NO_SIGIL),
        ("<task-done>t-ffffff</task-done>", AttemptOutcome.BLOCKED, ErrorType.UNKNOWN, "another task: t-ffffff"),
        ("<task-done>TASK", AttemptOutcome.BLOCKED, ErrorType.UNKNOWN, NO_SIGIL),
        (f"{FAILED} but then {DONE}", AttemptOutcome.DONE, None, ""),
        (
            AgentReply(text=DONE, ending=SessionEnding.TIMED_OUT, files=()),
            AttemptOutcome.ERROR,
            ErrorType.TIMEOUT,
            "timed out",
        ),
        (
            AgentReply(text="", ending=SessionEnding.WENT_SILENT, files=()),
            AttemptOutcome.ERROR,
            ErrorType.TIMEOUT,
            "silent",
        ),
        (
            AgentReply(text="", ending=SessionEnding.CRASHED, detail="sh exited with 3", files=()),
            AttemptOutcome.ERROR,
            ErrorType.TOOL_ERROR,
            "exited with 3",
        ),
        (
            AgentReply(text="", ending=SessionEnding.FLOODED, files=()),
            AttemptOutcome.ERROR,
            ErrorType.TOOL_ERROR,
            "flooded",
        ),
        (
            AgentReply(text="", ending=SessionEnding.REFUSED, files=()),
            AttemptOutcome.FAILED,
            ErrorType.UNKNOWN,
            "refused",
        ),
        (
            AgentReply(text="", ending=SessionEnding.OUT_OF_TURNS, files=()),
            AttemptOutcome.BLOCKED,
            ErrorType.UNKNOWN,
            "turns",
        ),
        (RuntimeError("our own fault"), AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "our own fault"),
    ],
)
def test_every_ending_is_recorded(
    watched: Watched,
    answer: str | AgentReply | Exception,
    outcome: AttemptOutcome,
    error_type: ErrorType | None,
    reason: str,
) -> None:
    watched.project.tasks.add("A")

    watched.run(ScriptedAgent(answer), RunOptions(iterations=1))

    attempt = watched.project.store.attempts.latest(1)[0]
    assert (attempt.outcome, attempt.error_type) == (outcome, error_type)
    assert reason in attempt.reason
    assert attempt.ended_at
    reports = watched.project.store.failures.latest(5)
    assert len(reports) == (0 if outcome is AttemptOutcome.DONE else 1)
    assert all(report.why and report.tried for report in reports)


def test_done_is_not_accepted_while_a_gate_fails(watched: Watched) -> None:
    task = watched.project.tasks.add("Write the file")
    root = watched.project.root

    def second(prompt: str, session: SessionOptions) -> str:
        (root / "result.txt").write_text("x")
        return DONE

    agent = ScriptedAgent("I think it is done." + DONE, second)

    watched.run(agent, gates=("echo looking; test -f result.txt || { echo AssertionError: no result >&2; exit 1; }",))

    assert watched.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    report = watched.project.journal.failures_of(task.id)[0]
    assert "AssertionError: no result" in report.why
    assert (report.category, report.made_by) == ("test_failure", "ralph")
    assert "AssertionError: no result" in agent.prompts[1]
    assert [gate["passed"] for gate in watched.named("gate_ended")] == [False, True]
    first = watched.project.store.attempts.latest(5)[1]
    assert first.error_type is ErrorType.ASSERTION_FAILURE


def test_gates_can_be_switched_off(watched: Watched) -> None:
    watched.project.tasks.add("A")

    watched.run(ScriptedAgent(DONE), gates=("false",), verify=False)

    assert watched.outcomes() == [AttemptOutcome.DONE]


def test_a_gate_that_hangs_ends_in_a_retry(watched: Watched) -> None:
    watched.project.tasks.add("A")

    watched.run(ScriptedAgent(DONE), RunOptions(iterations=1), gates=("sleep 60",), gate_seconds=0.3)

    attempt = watched.project.store.attempts.latest(1)[0]
    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.RETRIED, ErrorType.TIMEOUT)


def test_a_limit_on_iterations_stops_the_run(watched: Watched) -> None:
    for n in range(3):
        watched.project.tasks.add(str(n))

    summary = watched.run(ScriptedAgent(DONE), RunOptions(iterations=2))

    assert (summary.ending, summary.iterations) == (RunEnding.LIMIT_ITERATIONS, 2)
    assert watched.project.store.tasks.progress.counts()[TaskStatus.PENDING] == 1


def test_a_limit_on_cost_stops_the_run(watched: Watched) -> None:
    for n in range(5):
        watched.project.tasks.add(str(n))
    reply = AgentReply(text="", cost_usd=0.4, files=())

    summary = watched.run(ScriptedAgent(reply), RunOptions(cost_usd=1.0), max_retries=9)

    assert (summary.ending, summary.iterations) == (RunEnding.LIMIT_COST, 3)


def test_a_limit_on_time_stops_the_run(watched: Watched) -> None:
    watched.project.tasks.add("A")

    def work_until_stopped(prompt: str, session: SessionOptions) -> str:
        while not session.should_stop():
            time.sleep(0.02)
        return ""

    summary = watched.run(ScriptedAgent(work_until_stopped), RunOptions(minutes=1.5 / 60), max_retries=99)

    assert (summary.ending, summary.iterations) == (RunEnding.LIMIT_MINUTES, 1)


def test_nothing_to_do_is_said(watched: Watched) -> None:
    assert watched.run(ScriptedAgent(DONE)).ending is RunEnding.NOTHING


def test_one_task_alone_can_be_worked_on(watched: Watched) -> None:
    watched.project.tasks.add("urgent", priority=9)
    this = watched.project.tasks.add("this")

    summary = watched.run(ScriptedAgent(DONE), RunOptions(only=this.id))

    assert (summary.ending, summary.done) == (RunEnding.TASK_DONE, 1)
    assert watched.project.store.tasks.get(this.id).status is TaskStatus.DONE


def test_a_missing_agent_stops_the_run_and_costs_no_retry(watched: Watched) -> None:
    task = watched.project.tasks.add("A")

    summary = watched.run(ScriptedAgent(AgentUnavailableError("gone")))

    assert summary.ending is RunEnding.NO_AGENT
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert watched.project.store.tasks.get(task.id).status is TaskStatus.PENDING


def test_what_an_agent_repeats_from_its_prompt_is_not_learned_again(watched: Watched) -> None:
    remember(watched.project.store, a_memory("Parser", "MEMORY:fix:Old news about the parser", tags=("parser",)))
    watched.project.tasks.add("Fix the parser")

    watched.run(ScriptedAgent(lambda prompt, session: prompt), RunOptions(iterations=1))

    assert len(watched.project.store.memories.all()) == 1
    assert watched.outcomes() == [AttemptOutcome.BLOCKED]


def test_secrets_are_taken_out_before_anything_is_stored(watched: Watched) -> None:
    key = "-".join(["sk", "ant", "api03", "abcdefghijklmnop" * 2])
    watched.project.tasks.add("A")

    watched.run(
        ScriptedAgent(
            f'<journal>The key is {key}</journal><knowledge tags="k" title="Key">Use {key}</knowledge>'
            f"<failure-report>what_tried: {key}\nwhy_failed: {key}</failure-report>{FAILED}"
        ),
        RunOptions(iterations=1),
    )

    store = watched.project.store
    tables = ("tasks", "task_log", "attempts", "attempt_words", "failures", "failure_words", "memory", "memory_words")
    stored = str([store.database.query(f"SELECT * FROM {table}") for table in (*tables, "memory_events")])
    assert "abcdefghijklmnop" not in stored
    assert "[redacted]" in stored


def test_a_worker_that_died_leaves_its_task_to_the_next_run_at_once(watched: Watched) -> None:
    task = watched.project.tasks.add("A")
    run = watched.project.store.runs.start("test")
    from ralph.loop.workers import worker_name

    mine = worker_name()
    gone = f"{mine.rsplit('/', 2)[0]}/{2**22 + 1}/1.00"
    begin(watched.project.store, run.id, gone, lease_seconds=3600)

    summary = watched.run(ScriptedAgent(DONE))

    assert summary.done == 1
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert watched.named("recovered") == [{"task_id": task.id}]


def test_a_live_workers_claim_is_respected(watched: Watched) -> None:
    from ralph.loop.workers import worker_name

    watched.project.tasks.add("A")
    run = watched.project.store.runs.start("test")
    begin(watched.project.store, run.id, worker_name(), lease_seconds=3600)

    assert watched.run(ScriptedAgent(DONE)).ending is RunEnding.BUSY


def test_a_long_session_keeps_its_claim_by_heartbeat(watched: Watched) -> None:
    watched.project.tasks.add("A")

    def work_until_renewed(prompt: str, session: SessionOptions) -> str:
        other = watched.project.store.reopen()
        leases: set[object] = set()
        while len(leases) < 2:
            leases.add(other.database.query("SELECT lease_until FROM tasks")[0]["lease_until"])
            time.sleep(0.02)
        taken = claim_task(other, "thief", 60)
        other.close()
        assert taken is None
        return DONE

    # Long enough that the heartbeat is in time on a busy machine.
    assert watched.run(ScriptedAgent(work_until_renewed), lease_seconds=3.0).done == 1


def test_a_session_ends_when_its_claim_is_lost(watched: Watched) -> None:
    task = watched.project.tasks.add("A")

    def taken_away(prompt: str, session: SessionOptions) -> str:
        other = watched.project.store.reopen()
        TaskService(other, watched.project.config, PERSON).done(task.id)
        other.close()
        deadline = time.monotonic() + 60
        while not session.should_stop() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.should_stop()
        return FAILED

    watched.run(ScriptedAgent(taken_away), lease_seconds=0.3)

    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert watched.project.store.tasks.get(task.id).status is TaskStatus.DONE


def interrupting(times: int) -> Callable[[str, SessionOptions], AgentReply]:
    def work(prompt: str, session: SessionOptions) -> AgentReply:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)
        assert session.should_stop()
        return AgentReply(text="", ending=SessionEnding.STOPPED, files=())

    return work


class InterruptedAgent(ScriptedAgent):
    """Presses Ctrl+C in its first session."""

    def __init__(self, times: int, *answers: str) -> None:
        super().__init__(*answers)
        self._times = times

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        if not self.prompts:
            self.prompts.append(prompt)
            return interrupting(self._times)(prompt, session)
        return super().work(prompt, session)


@pytest.fixture
def main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals arrive in the main thread only")


@pytest.mark.usefixtures("main_thread")
def test_ctrl_c_asks_and_the_answer_reaches_the_next_attempt(watched: Watched) -> None:
    task = watched.project.tasks.add("A")
    agent = InterruptedAgent(1, DONE)

    summary = watched.run(agent, ask=lambda task: "Leave the lexer alone.")

    assert summary.ending is RunEnding.COMPLETE
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert watched.project.store.attempts.get(summary.run_id, 1).notes == "Leave the lexer alone."
    assert "Leave the lexer alone." in agent.prompts[1]
    assert watched.project.store.stats.metrics(task.id).consecutive_failures == 0


@pytest.mark.usefixtures("main_thread")
def test_a_second_ctrl_c_stops_the_run_and_loses_nothing(watched: Watched) -> None:
    task = watched.project.tasks.add("A")

    summary = watched.run(InterruptedAgent(2, DONE), ask=lambda task: pytest.fail("must not ask"))

    assert summary.ending is RunEnding.INTERRUPTED
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert watched.project.store.tasks.get(task.id).status is TaskStatus.PENDING


@pytest.mark.usefixtures("main_thread")
def test_ctrl_c_at_the_question_stops_the_run(watched: Watched) -> None:
    watched.project.tasks.add("A")

    def ask(task: Task) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
        return "too late"

    summary = watched.run(InterruptedAgent(1, DONE), ask=ask)

    assert summary.ending is RunEnding.INTERRUPTED
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED]


@pytest.mark.usefixtures("main_thread")
def test_without_anybody_to_ask_ctrl_c_stops_the_run(watched: Watched) -> None:
    watched.project.tasks.add("A")

    assert watched.run(InterruptedAgent(1, DONE), ask=None).ending is RunEnding.INTERRUPTED


def test_files_an_agent_changed_are_asked_of_git(watched: Watched) -> None:
    import subprocess

    root = watched.project.root
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    (root / "mine.txt").write_text("a person's own work in progress")
    watched.project.tasks.add("A")

    class GitAgent(ScriptedAgent):
        reports_files = False

        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            (session.directory / "src").mkdir()
            (session.directory / "src" / "a b.py").write_text("x")
            (session.directory / ".gitignore").write_text("y")
            subprocess.run(["git", "add", ".gitignore"], cwd=root, check=True)
            commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "y"]
            subprocess.run(commit, cwd=root, check=True)
            return replace(super().work(prompt, session), files=None)

    watched.run(GitAgent(DONE))

    assert watched.project.store.attempts.latest(1)[0].files == (".gitignore", "src/a b.py")


def test_a_feature_goes_into_its_tasks_prompts(watched: Watched, tmp_path: Path) -> None:
    watched.project.features.add("Search", spec="It must be fast.", plan="Use an index.")
    watched.project.tasks.add("A", feature="Search")
    agent = ScriptedAgent(DONE)

    watched.run(agent)

    assert "## Feature: Search" in agent.prompts[0]
    assert "It must be fast." in agent.prompts[0]
    assert "Use an index." in agent.prompts[0]


def test_the_time_limit_also_ends_a_session_and_costs_no_retry(watched: Watched) -> None:
    task = watched.project.tasks.add("A")
    from ralph.agents.command import CommandAgent

    agent = CommandAgent(AgentConfig(command=("sleep", "60")), watched.project.root)

    summary = watched.run(agent, RunOptions(minutes=2 / 60))

    assert summary.ending is RunEnding.LIMIT_MINUTES
    assert summary.seconds < 50
    attempt = watched.project.store.attempts.latest(1)[0]
    assert (attempt.outcome, attempt.reason) == (AttemptOutcome.INTERRUPTED, "the time limit was reached")
    assert watched.project.store.tasks.get(task.id).status is TaskStatus.PENDING


def test_an_agent_that_crashes_whatever_the_task_does_not_use_up_the_backlog(watched: Watched) -> None:
    for n in range(10):
        watched.project.tasks.add(str(n))
    why = "sh exited with 1: Invalid API key"
    crash = AgentReply(text="Hello.", ending=SessionEnding.CRASHED, detail=why, files=())

    summary = watched.run(ScriptedAgent(crash), RunOptions())

    assert summary.ending is RunEnding.AGENT_FAILS
    assert summary.iterations == 5
    counts = watched.project.store.tasks.progress.counts()
    assert counts == {TaskStatus.PENDING: 10}


def test_different_crashes_are_the_tasks_own(watched: Watched) -> None:
    for n in range(3):
        watched.project.tasks.add(str(n))
    count = iter(range(100))

    class Crashing(ScriptedAgent):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            return AgentReply(text="", ending=SessionEnding.CRASHED, detail=f"crash {next(count)}", files=())

    assert watched.run(Crashing("")).ending is RunEnding.WAITS


def test_when_the_last_task_is_done_the_limit_does_not_matter(watched: Watched) -> None:
    watched.project.tasks.add("A")

    assert watched.run(ScriptedAgent(DONE), RunOptions(iterations=1)).ending is RunEnding.COMPLETE


def test_a_cost_limit_that_cannot_work_is_said_to_be_one(watched: Watched) -> None:
    watched.project.tasks.add("A")
    agent = ScriptedAgent(DONE)
    agent.reports_cost = agent.reports_tokens = False

    watched.run(agent, RunOptions(cost_usd=1.0))

    assert "cost limit cannot stop this run" in str(watched.named("warning")[0]["message"])


def test_a_session_without_a_sigil_is_not_called_a_mistake(watched: Watched) -> None:
    task = watched.project.tasks.add("A")
    agent = ScriptedAgent("I have done all of it.", DONE)

    watched.run(agent)

    report = watched.project.journal.failures_of(task.id)[0]
    assert (report.category, report.tried) == ("no_sigil", "I have done all of it.")
    assert "Its work may be complete" in agent.prompts[1]
    assert "doing the same again" not in agent.prompts[1]


def test_sigils_that_were_not_understood_are_named(watched: Watched) -> None:
    task = watched.project.tasks.add("A")

    watched.run(ScriptedAgent(f'<knowledge title="No tags">x</knowledge>{DONE}'))

    assert "without tags" in str(watched.named("ignored")[0]["problem"])
    assert any("without tags" in line.message for line in watched.project.store.tasks.read_log(task.id))


@pytest.mark.parametrize(
    ("ending", "category"),
    [
        (SessionEnding.TIMED_OUT, "timeout"),
        (SessionEnding.WENT_SILENT, "timeout"),
        (SessionEnding.FLOODED, "output_flood"),
        (SessionEnding.CRASHED, "crash"),
        (SessionEnding.REFUSED, "refusal"),
    ],
)
def test_how_a_session_ended_is_the_category_of_its_report(
    watched: Watched, ending: SessionEnding, category: str
) -> None:
    task = watched.project.tasks.add("A")

    watched.run(ScriptedAgent(AgentReply(text="", ending=ending, files=())), RunOptions(iterations=1))

    assert watched.project.journal.failures_of(task.id)[0].category == category


def test_what_the_agent_says_of_itself_is_kept(watched: Watched) -> None:
    watched.project.features.add("Search")
    watched.project.tasks.add("A", feature="Search")
    said = (
        "<difficulty-estimate>hard</difficulty-estimate>MEMORY line follows\n"
        "MEMORY:pattern:Tests use tables. Always.\n"
        '<learning category="my_own" tags="a,src/x.py">Look in src/y.py.</learning>'
        '<knowledge title="Index" tags="search">The index is rebuilt at night.</knowledge>'
    )

    watched.run(ScriptedAgent(f"{said}{DONE}"))

    attempt = watched.project.store.attempts.latest(1)[0]
    assert attempt.difficulty == "hard"
    assert attempt.feature_id == watched.project.store.features.get("Search").id
    memories = {memory.kind: memory for memory in watched.project.store.memories.all()}
    assert memories["pattern"].title == "Tests use tables"
    assert {memory.feature for memory in memories.values()} == {"Search"}
    assert 'feature: "Search"' in (watched.project.root / ".ralph/knowledge/index.md").read_text(encoding="utf-8")
    assert memories["my_own"].files == ("src/y.py", "src/x.py")
    assert {memory.confidence for memory in memories.values()} == {0.6}
    assert {memory.source for memory in memories.values()} == {"explicit"}


def test_a_watcher_that_breaks_does_not_break_the_run(watched: Watched) -> None:
    watched.project.tasks.add("A")

    class Broken(list[ProgressEvent]):
        def append(self, event: ProgressEvent) -> None:
            raise BrokenPipeError

    watched.events = Broken()

    assert watched.run(ScriptedAgent(DONE)).done == 1


def test_learned_events_name_memories_that_exist(watched: Watched) -> None:
    knowledge = '<knowledge tags="a" title="Same">text</knowledge>'
    for n in range(2):
        watched.project.tasks.add(str(n))

    watched.run(ScriptedAgent(f"{knowledge}{DONE}"))

    ids = [str(details["id"]) for details in watched.named("learned")]
    assert len(set(ids)) == 1
    assert watched.project.store.memories.get(ids[0]).title == "Same"


def test_the_word_timeout_in_a_tests_output_is_no_timeout(watched: Watched) -> None:
    watched.project.tasks.add("A")

    gate = "echo 'timeout: 120.0s'; echo 'AssertionError: 1 != 2'; false"
    watched.run(ScriptedAgent(DONE), RunOptions(iterations=1), gates=(gate,))

    attempt = watched.project.store.attempts.latest(1)[0]
    assert attempt.error_type is ErrorType.ASSERTION_FAILURE
    assert attempt.reason.endswith("failed: AssertionError: 1 != 2")


def test_the_attempt_of_a_dead_worker_is_closed_also_when_a_person_settled_its_task(watched: Watched) -> None:
    task = watched.project.tasks.add("A")
    run = watched.project.store.runs.start("test")
    begin(watched.project.store, run.id, "host/1/1", lease_seconds=3600)
    watched.project.tasks.done(task.id)

    assert watched.run(ScriptedAgent(DONE)).ending is RunEnding.NOTHING

    assert watched.project.store.attempts.running() == []
    assert watched.outcomes() == [AttemptOutcome.INTERRUPTED]
