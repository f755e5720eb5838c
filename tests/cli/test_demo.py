"""The demo shows what it says: real runs, real tests, and figures read from what the loop stored."""

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ralph.agents import SessionOptions
from ralph.agents.rehearsal import RehearsalAgent
from ralph.cli import main
from ralph.core.records import AgentReply, Attempt, AttemptOutcome, SessionEnding, TaskStatus, record
from ralph.project import Project

pytestmark = pytest.mark.storeless

RALPH = [sys.executable, "-m", "ralph"]
RUN_SECONDS = 60
WITHOUT, WITH = "without-memory", "with-memory"


@record
class Story:
    """What a demo printed and left behind."""

    directory: Path
    printed: dict[str, Any]
    prompts: dict[tuple[str, str, int], str]
    """By project, task and attempt."""

    def attempts(self, name: str) -> list[Attempt]:
        with Project.open(self.directory / name) as project:
            return project.store.attempts.latest(100)[::-1]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("demo")
    prompts: dict[tuple[str, str, int], str] = {}
    work = RehearsalAgent.work

    def listen(agent: RehearsalAgent, prompt: str, session: SessionOptions) -> AgentReply:
        known = session.environment
        prompts[session.directory.name, known["RALPH_TASK_ID"], int(known["RALPH_ATTEMPT"])] = prompt
        return work(agent, prompt, session)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as stdout:
        patch.setattr("ralph.agents.rehearsal._wait", lambda seconds, session: (SessionEnding.FINISHED, ""))
        patch.setattr(RehearsalAgent, "work", listen)
        patch.setenv("RALPH_AGENT_NAME", "command")
        patch.setenv("RALPH_MEMORIES_INJECT", "none")
        assert main(["demo", "--keep", str(directory), "--format", "json"]) == 0
    return Story(directory=directory, printed=json.loads(stdout.getvalue()), prompts=prompts)


def test_with_and_without_memory_every_task_gets_done_and_the_whole_test_suite_passes(story: Story) -> None:
    for name in (WITHOUT, WITH):
        with Project.open(story.directory / name) as project:
            assert {task.id: task.status for task in project.store.tasks.all()} == dict.fromkeys(
                ("lines", "overdue", "vat", "fees", "export"), TaskStatus.DONE
            )
        tests = subprocess.run(
            [sys.executable, "-B", "-m", "unittest"], cwd=story.directory / name, capture_output=True, text=True
        )
        assert tests.returncode == 0, tests.stderr
        assert "Ran 13 tests" in tests.stderr


def test_the_first_task_fails_its_tests_and_the_next_attempt_is_told_why(story: Story) -> None:
    first, second = [attempt for attempt in story.attempts(WITH) if attempt.task_id == "lines"]
    with Project.open(story.directory / WITH) as project:
        (report,) = project.store.failures.latest(10, task="lines")

    assert (first.outcome, second.outcome) == (AttemptOutcome.RETRIED, AttemptOutcome.DONE)
    assert first.files == second.files == ("billing/lines.py",)
    assert "Decimal('2.67') != Decimal('2.68') : money is rounded half up" in report.why
    assert "### Previous Attempts" not in story.prompts[WITH, "lines", 1]
    assert "Decimal('2.67') != Decimal('2.68')" in story.prompts[WITH, "lines", 2]


def test_a_later_run_gets_it_right_at_once_with_what_the_first_run_learned(story: Story) -> None:
    attempts = story.attempts(WITH)
    with Project.open(story.directory / WITH) as project:
        learned = {memory.title: memory for memory in project.store.memories.all() if memory.kind == "knowledge"}
    money, clock = learned["Round money half up"], learned["Ask billing.clock for today"]
    (vat,) = [attempt for attempt in attempts if attempt.task_id == "vat"]
    (fees,) = [attempt for attempt in attempts if attempt.task_id == "fees"]

    assert (money.origin_task, clock.origin_task) == ("lines", "overdue")
    assert money.origin_run == clock.origin_run == attempts[0].run_id != vat.run_id == fees.run_id
    assert vat.outcome is fees.outcome is AttemptOutcome.DONE
    assert money.id in vat.shown
    assert {money.id, clock.id} <= set(fees.shown)
    assert money.content in story.prompts[WITH, "fees", 1]
    assert clock.content in story.prompts[WITH, "fees", 1]


def test_without_memory_no_prompt_tells_of_what_came_before(story: Story) -> None:
    attempts = story.attempts(WITHOUT)

    assert not any(attempt.shown or attempt.with_memory for attempt in attempts)
    for (name, task, number), prompt in story.prompts.items():
        if name == WITHOUT:
            assert not re.search(r"half up|billing\.clock|Previous Attempts|Run Journal$", prompt, re.MULTILINE)
            assert f"- Attempt {number} at this task" in prompt, task


def test_the_figures_are_those_of_the_stored_attempts_and_memory_saves_attempts_and_tokens(story: Story) -> None:
    for name, key in ((WITHOUT, "without_memory"), (WITH, "with_memory")):
        attempts, printed = story.attempts(name), story.printed[key]
        tokens = sum((attempt.tokens_in or 0) + (attempt.tokens_out or 0) for attempt in attempts)

        assert (printed["attempts"], printed["tokens"]) == (len(attempts), tokens)
        assert (printed["tasks"], printed["done"]) == (5, 5)
        for field in ("attempts", "tokens", "done", "done_at_first"):
            assert printed[field] == sum(task[key][field] for task in story.printed["tasks"])
        assert printed["seconds"] >= sum(attempt.seconds for attempt in attempts)

    before, after = story.printed["without_memory"], story.printed["with_memory"]
    assert before["attempts"] > after["attempts"]
    assert before["tokens"] > after["tokens"]
    assert before["done_at_first"] < after["done_at_first"]


def test_memory_does_not_help_with_a_trap_nobody_has_met(story: Story) -> None:
    (export,) = [task for task in story.printed["tasks"] if task["id"] == "export"]

    assert export["without_memory"]["attempts"] == export["with_memory"]["attempts"] == 2
    assert export["without_memory"]["tokens"] < export["with_memory"]["tokens"]


def test_what_is_kept_is_a_git_project_with_a_commit_for_each_run(story: Story) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=story.directory / WITH, capture_output=True, text=True, check=True
        ).stdout

    assert git("log", "--format=%an %s").splitlines() == ["Ralph Later run", "Ralph First run", "Ralph Start"]
    assert git("status", "--porcelain") == ""
    assert "ralph.db" not in git("ls-files")


def test_the_command_tells_the_story_in_time_and_leaves_nothing_behind(tmp_path: Path) -> None:
    began = time.monotonic()

    told = subprocess.run(
        [*RALPH, "demo"], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, cwd=tmp_path
    )

    assert (told.returncode, told.stderr) == (0, "")
    assert time.monotonic() - began < RUN_SECONDS
    assert list(tmp_path.iterdir()) == []
    lines = told.stdout.splitlines()
    assert "\x1b" not in told.stdout
    assert max(len(line) for line in lines) < 100
    assert lines.index(next(line for line in lines if line.startswith("Without memory"))) < lines.index(
        next(line for line in lines if line.startswith("With memory"))
    )
    assert "    ✗ Charge late fees    try 1  " in told.stdout
    assert "    ✓ Charge late fees    try 1  tests pass" in lines
    fees = next(line for line in lines if "Ask billing.clock for today" in line and "recalled" in line)
    assert "Round money half up" in fees
    assert "learned   Round money half up" in told.stdout
    assert "With memory: 8 attempts instead of 13 (38% fewer)" in told.stdout
    assert "-C demo/with-memory journal list" in lines[-2]


def test_in_a_terminal_it_shows_what_goes_on_and_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        [*RALPH, "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm", "NO_COLOR": "1"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    seen = ""
    with contextlib.suppress(OSError):  # how the end of a terminal's output is told
        while more := os.read(ours, 4096).decode():
            seen += more
            if "try 2  thinking" in more:
                demo.send_signal(signal.SIGINT)
    os.close(ours)

    assert demo.wait(timeout=10) == 130
    assert "    … Add up a line       try 1  thinking\r\x1b[K" in seen
    assert "    … Add up a line       try 1  running the tests\r\x1b[K    ✗ Add up a line" in seen
    assert "\x1b[3" not in seen
    assert seen.rstrip().endswith("Interrupted.")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("x")

    assert main(["-C", str(tmp_path.parent), "demo", "--keep", tmp_path.name]) == 2
    assert main(["demo", "--keep", str(tmp_path / "mine.txt")]) == 2

    assert f"{tmp_path} is not empty. Use --keep with a new or empty directory." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_without_git_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["demo"]) == 1

    assert "needs git" in capsys.readouterr().err
