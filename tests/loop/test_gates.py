"""Whether it is true: gates and read-only sessions, and what becomes of work that they refuse."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ralph.agents import SessionOptions
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply, AttemptOutcome, ErrorType, SessionEnding, TaskStatus
from ralph.loop.options import RunEnding, RunOptions
from ralph.loop.progress import ProgressEvent
from tests.loop.trial import DONE, SAYS_DONE, Trial, is_alive
from tests.make import ScriptedAgent

PASS = "<verify-pass/>"


def fail(why: str) -> str:
    return f"<verify-fail>{why}</verify-fail>"


class ReviewedAgent(ScriptedAgent):
    """Calls everything done; answers as told when it verifies."""

    def __init__(self, *reviews: object, **said: object) -> None:
        super().__init__(AgentReply(text=DONE, seconds=0.1, files=(), **said))  # type: ignore[arg-type]
        self._reviewer = ScriptedAgent(*reviews)  # type: ignore[arg-type]
        self.sessions: list[SessionOptions] = []

    @property
    def review_prompts(self) -> list[str]:
        return self._reviewer.prompts

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        if session.should_stop():
            return AgentReply(text="", ending=SessionEnding.STOPPED, files=())
        if session.read_only:
            self.sessions.append(session)
            return self._reviewer.work(prompt, session)
        return super().work(prompt, session)


def reviewed(trial: Trial, *reviews: object, iterations: int = 2, gates: tuple[str, ...] = ()) -> ReviewedAgent:
    agent = ReviewedAgent(*reviews)
    trial.run(agent, RunOptions(iterations=iterations), execution={"review": True, "gates": gates})
    return agent


# --- gates -----------------------------------------------------------------------------------


def test_what_a_gate_printed_is_in_the_report_and_in_the_next_prompt(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    task = trial.project.tasks.add("A")
    gate = "echo 'test_upload: AssertionError: 3 != 4'; echo '1 failed, 8 passed'; test -e mended"

    ran = trial.ralph("run", "--max-iterations", "2", "--gate", gate, "--", "sh", "agent.sh")

    assert "test_upload: AssertionError: 3 != 4" in next(line for line in ran.out.splitlines() if "↻ failed" in line)
    report = trial.project.journal.failures_of(task.id)[0]
    assert "AssertionError: 3 != 4\n1 failed, 8 passed" in report.why
    assert (report.category, report.made_by) == ("test_failure", "ralph")
    prompt = trial.kept_prompt(task, 2).split("### Previous Attempts")[1]
    assert "test_upload: AssertionError: 3 != 4\n" in prompt
    assert "1 failed, 8 passed" in prompt
    assert "AssertionError: 3 != 4" in trial.ralph("failures", "show", task.id).out
    assert trial.outcomes() == [AttemptOutcome.RETRIED] * 2


def test_an_error_before_a_long_table_reaches_the_next_prompt(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    task = trial.project.tasks.add("A")
    coverage = 'for n in $(seq 400); do echo "src/package/module_$n.py    20    0   100%"; done'
    gate = f"echo start; seq 2000; echo 'E   QuotaError: QUOTA-7731'; {coverage}; echo 'TOTAL 8000 0 100%'; false"

    ran = trial.ralph("run", "--max-iterations", "2", "--gate", gate, "--", "sh", "agent.sh")

    assert "QuotaError: QUOTA-7731" in ran.out
    report = trial.project.journal.failures_of(task.id)[0]
    assert "QUOTA-7731" in report.why
    assert "QUOTA-7731" in report.trace
    prompt = trial.kept_prompt(task, 2).split("### Previous Attempts")[1]
    assert "QUOTA-7731" in prompt
    assert "TOTAL 8000" in prompt


def test_how_far_an_attempt_got_is_kept(trial: Trial) -> None:
    trial.project.tasks.add("A")

    trial.run(
        ScriptedAgent(DONE),
        RunOptions(iterations=1),
        execution={"gates": ("true", "true", "echo '3 failed, 1 passed'; false", "true")},
    )

    assert (trial.last().checks_passed, trial.last().checks_failed) == (2, 3)
    assert [details["passed"] for details in trial.told("gate_ended")] == [True, True, False]


def test_a_gate_that_hangs_is_ended_with_all_it_started(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    gate = "echo 'collecting...'; setsid sleep 301 & echo $! > .ralph/pid; sleep 302"

    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1), execution={"gates": (gate,), "gate_seconds": 1.0})

    attempt = trial.last()
    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.RETRIED, ErrorType.TIMEOUT)
    assert "timed out after 1 s" in attempt.reason
    report = trial.project.journal.failures_of(task.id)[0]
    assert report.category == "timeout"
    assert "collecting..." in report.why
    assert not is_alive(int((trial.root / ".ralph/pid").read_text()))


def test_a_gate_that_cannot_be_run_is_a_failed_one(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1), execution={"gates": ("no-such-program --at-all",)})

    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert "not found" in trial.project.journal.failures_of(task.id)[0].why


@pytest.mark.parametrize("answer", [DONE, f"{DONE}{DONE}", f"<task-failed>TASK</task-failed>{DONE}"])
def test_done_is_never_accepted_while_a_gate_fails(trial: Trial, answer: str) -> None:
    task = trial.project.tasks.add("A")

    summary = trial.run(ScriptedAgent(answer), execution={"gates": ("false",)})

    assert (summary.ending, summary.done) == (RunEnding.WAITS, 0)
    assert trial.outcomes() == [AttemptOutcome.RETRIED] * 4
    assert trial.status(task) is TaskStatus.BLOCKED


def test_without_verification_nothing_is_checked(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    trial.settings('[execution]\nreview = true\ngates = ["false"]\n')
    trial.project.tasks.add("A")

    assert trial.ralph("run", "--no-verify", "--", "sh", "agent.sh").code == 0
    assert trial.outcomes() == [AttemptOutcome.DONE]


# --- a session that only looks -----------------------------------------------------------------


def test_a_verification_that_passes_lets_the_work_be_done(trial: Trial) -> None:
    task = trial.project.tasks.add("Write the greeting", "It says hello.")

    agent = reviewed(trial, PASS)

    assert trial.outcomes() == [AttemptOutcome.DONE]
    assert trial.status(task) is TaskStatus.DONE
    (prompt,) = agent.review_prompts
    assert "It says hello." in prompt
    assert agent.sessions[0].environment["RALPH_READ_ONLY"] == "1"
    assert agent.sessions[0].model == "opus"
    assert trial.told("review_ended") == [{"passed": True, "reason": "", "seconds": 0.1}]


def test_the_sigil_that_the_prompt_asks_for_is_understood(trial: Trial) -> None:
    trial.project.tasks.add("A")

    def as_told(prompt: str, session: SessionOptions) -> str:
        asked = next(line.strip() for line in prompt.splitlines() if line.strip().startswith("<verify-pass"))
        return f"Looked at it.\n{asked.replace('TASK_ID', session.environment['RALPH_TASK_ID'])}\n"

    reviewed(trial, as_told)

    assert trial.outcomes() == [AttemptOutcome.DONE]


def test_who_only_repeats_the_prompt_has_verified_nothing(trial: Trial) -> None:
    trial.project.tasks.add("A")

    class Repeating(ReviewedAgent):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            return AgentReply(text=prompt, files=()) if session.read_only else super().work(prompt, session)

    trial.run(Repeating(""), RunOptions(iterations=1), execution={"review": True})

    assert trial.outcomes() == [AttemptOutcome.RETRIED]


def test_what_a_verification_finds_is_in_the_report_and_in_the_next_prompt(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    why = "greet() in app.py says good bye.\nThe test only checks its length."

    agent = reviewed(trial, fail(why), PASS)

    assert trial.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    assert trial.attempts()[0].reason.startswith("the verification failed: greet() in app.py says good bye.")
    report = trial.project.journal.failures_of(task.id)[0]
    assert (report.category, report.made_by) == ("verification", "ralph")
    for line in why.splitlines():
        assert line in report.why
        assert line in agent.prompts[1].split("### Previous Attempts")[1]


@pytest.mark.parametrize(
    ("review", "reason"),
    [
        ("Looks fine to me.", "neither passed nor failed"),
        ("", "neither passed nor failed"),
        (f"{PASS}{fail('but no')}", "but no"),
        (f"It said `{PASS}`, I do not know.", "neither passed nor failed"),
        (AgentReply(text=PASS, ending=SessionEnding.CRASHED, detail="sh exited with 3", files=()), "exited with 3"),
        (AgentReply(text=PASS, ending=SessionEnding.TIMED_OUT, files=()), "did not finish: timed out"),
        (AgentReply(text="", ending=SessionEnding.REFUSED, files=()), "did not finish"),
    ],
)
def test_only_a_clear_yes_verifies(trial: Trial, review: object, reason: str) -> None:
    task = trial.project.tasks.add("A")

    reviewed(trial, review, iterations=1)

    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert reason in trial.last().reason
    has_verdict = reason == "but no"
    assert trial.status(task) is (TaskStatus.PENDING if has_verdict else TaskStatus.BLOCKED)


def test_a_silent_reviewer_is_asked_once_more(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    agent = reviewed(trial, AgentReply(text="Hm.", cost_usd=0.5, files=()), PASS, iterations=1)

    assert len(agent.review_prompts) == 2
    assert trial.status(task) is TaskStatus.DONE
    assert trial.last().cost_usd == 0.5


def test_work_without_a_review_waits_for_the_person_and_costs_no_retry(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    agent = reviewed(trial, "Hm.", "Hm.", iterations=5)

    assert len(agent.review_prompts) == 2
    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert trial.project.tasks.get(task.id).metrics.failures_since_reset == 0
    assert "unreviewed" in trial.ralph("status").out
    assert "unreviewed" in trial.ralph("task", "show", task.id).out
    assert trial.ralph("task", "approve", task.id, "--yes").code == 0

    again = reviewed(trial, "Hm.", "Hm.", iterations=5)

    assert (again.prompts, again.review_prompts) == ([], [])
    assert trial.status(task) is TaskStatus.DONE


def test_a_reviewer_whose_model_fails_is_waited_for(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    overloaded = AgentReply(text="", ending=SessionEnding.MODEL_FAILED, detail="API Error: 529 overloaded", files=())
    agent = ReviewedAgent(overloaded, overloaded, overloaded, PASS)

    trial.run(agent, RunOptions(iterations=2), execution={"review": True}, agent={"outage_seconds": 0.01})

    assert trial.outcomes() == [AttemptOutcome.DONE]
    assert trial.status(task) is TaskStatus.DONE


def test_a_session_that_fails_because_of_us_is_recorded(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    reviewed(trial, RuntimeError("our own fault"), iterations=1)

    assert trial.outcomes() == [AttemptOutcome.ERROR]
    assert "our own fault" in trial.last().reason
    assert trial.status(task) is TaskStatus.PENDING


def test_an_agent_that_vanished_before_the_verification_costs_no_retry(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = ReviewedAgent(AgentUnavailableError("gone"))

    summary = trial.run(agent, execution={"review": True})

    assert summary.ending is RunEnding.NO_AGENT
    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert trial.status(task) is TaskStatus.PENDING


def test_work_that_the_gates_refuse_is_not_looked_at(trial: Trial) -> None:
    trial.project.tasks.add("A")

    agent = reviewed(trial, PASS, gates=("false",))

    assert agent.review_prompts == []


def test_what_a_verification_costs_counts(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ReviewedAgent(
        AgentReply(text=PASS, cost_usd=0.25, tokens_in=300, tokens_out=40, files=()),
        cost_usd=0.5,
        tokens_in=1000,
        tokens_out=200,
    )

    summary = trial.run(agent, execution={"review": True})

    attempt = trial.last()
    assert (attempt.cost_usd, attempt.tokens_in, attempt.tokens_out) == (0.75, 1300, 240)
    assert (summary.cost_usd, summary.tokens) == (0.75, 1540)


def test_a_verification_is_priced_by_its_own_model(trial: Trial) -> None:
    trial.project.tasks.add("A")
    million = 1_000_000
    agent = ReviewedAgent(
        AgentReply(text=PASS, tokens_in=million, tokens_out=0, files=()), tokens_in=million, tokens_out=0
    )

    trial.run(
        agent,
        execution={"review": True, "review_model": "sonnet"},
        models={"prices": {"haiku": (1.0, 5.0), "sonnet": (3.0, 15.0)}},
    )

    assert agent.sessions[0].model == "sonnet"
    assert trial.last().cost_usd == 4.0


def test_a_fixed_model_also_verifies(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ReviewedAgent(PASS)

    trial.run(agent, execution={"review": True}, agent={"model": "local-7b"})

    assert trial.models() == [("local-7b", "fixed in the configuration")]
    assert agent.sessions[0].model == "local-7b"


def test_a_model_on_the_command_line_also_verifies(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ReviewedAgent(PASS)

    trial.run(agent, RunOptions(model="local-7b"), execution={"review": True})

    assert agent.sessions[0].model == "local-7b"


def test_a_verification_by_command(trial: Trial) -> None:
    trial.script(
        'if [ "$RALPH_READ_ONLY" ]; then\n'
        "  if [ $RALPH_ATTEMPT = 1 ]\n"
        '  then echo "<verify-fail>No tests.</verify-fail>"\n'
        '  else echo "<verify-pass/>"\n'
        f"  fi\n  exit\nfi\n{SAYS_DONE}"
    )
    task = trial.project.tasks.add("A")

    ran = trial.ralph("run", "--review", "--", "sh", "agent.sh")

    assert ran.code == 0
    assert "No tests." in ran.out
    assert "review passed" in ran.out
    assert "# How to verify" in trial.kept_prompt(task, 1, "review")
    assert "No tests." in trial.kept_prompt(task, 2)
    assert trial.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]


def test_only_the_last_hat_is_verified(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ReviewedAgent(PASS)

    trial.run(agent, execution={"review": True}, hats={"order": ("planner", "creator", "editor")})

    assert len(agent.review_prompts) == 1
    assert [attempt.hat for attempt in trial.attempts()] == ["planner", "creator", "editor"]


def test_done_is_not_accepted_when_time_is_over_before_the_verification(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    class Slow(list[ProgressEvent]):
        """Time passes when a gate has ended."""

        def append(self, event: ProgressEvent) -> None:
            time.sleep(1.0 if event.what == "gate_ended" else 0.0)

    trial.events = Slow()

    summary = trial.run(ReviewedAgent(PASS), RunOptions(minutes=1 / 60), execution={"review": True, "gates": ("true",)})

    assert summary.ending is RunEnding.LIMIT_MINUTES
    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert trial.status(task) is TaskStatus.PENDING


# --- what it changes is taken back ----------------------------------------------------------------


@pytest.fixture
def repository(trial: Trial) -> Path:
    """Give a project in git with work in progress."""
    (trial.root / "src").mkdir()
    (trial.root / "src/app.py").write_text("one\n")
    (trial.root / "src/gone soon.py").write_text("two\n")
    (trial.root / ".gitignore").write_text("*.pyc\n")
    (trial.root / "run.sh").write_text("echo\n")
    trial.commit_all()
    (trial.root / "src/app.py").write_text("one, mended\n")
    (trial.root / "src/new.py").write_text("not followed yet\n")
    (trial.root / "staged.py").write_text("staged\n")
    trial.git("add", "staged.py")
    return trial.root


def state(trial: Trial) -> tuple[dict[str, str], str, str]:
    """Give all files, what git says of them, and where it stands."""
    files = {
        str(path.relative_to(trial.root)): f"{path.stat().st_mode:o} {path.read_text()}"
        for path in sorted(trial.root.rglob("*"))
        if path.is_file() and not {".git", ".ralph", ".agent"} & set(path.relative_to(trial.root).parts)
    }
    told = [line for line in trial.git("status", "--porcelain", "--branch").splitlines() if ".ralph/" not in line]
    return files, "\n".join(told), trial.git("rev-parse", "HEAD")


MEDDLING = {
    "a changed file": "echo three > src/app.py",
    "a new file": "echo three > 'src/another new.py'",
    "a new folder": "mkdir -p deep/er && echo three > deep/er/file.py",
    "a deleted file": "rm 'src/gone soon.py'",
    "a deleted file that git does not follow": "rm src/new.py",
    "a changed file that git does not follow": "echo three >> src/new.py",
    "a deleted folder": "rm -r src",
    "a file for a folder": "rm -r src && echo x > src",
    "a folder for a file": "rm src/app.py && mkdir src/app.py && echo x > src/app.py/x",
    "a link for a file": "rm src/app.py && ln -s /etc/hostname src/app.py",
    "a renamed file": "git mv src/app.py src/moved.py",
    "a mode": "chmod +x run.sh",
    "a cleaned tree": "git stash -qu && git stash drop -q",
    "a reset tree": "git reset -q --hard && git clean -qfd",
    "a commit": "git -c user.name=a -c user.email=a@example.com commit -qam three",
    "a commit of a change": "echo 3 > src/app.py; git -c user.name=a -c user.email=a@example.com commit -qam three",
    "another branch": "git checkout -q -b elsewhere",
    "another branch with another tree": "git stash -qu && git checkout -q --orphan elsewhere && git rm -rqf .",
    "a repository inside": "git clone -q . inner",
    "a detached head": "git checkout -q --detach",
    "a staged file": "git add -A",
    "an unstaged file": "git reset -q",
}


@pytest.mark.once
@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("meddling", MEDDLING.values(), ids=MEDDLING.keys())
def test_what_a_verification_changes_is_taken_back(trial: Trial, meddling: str) -> None:
    trial.script(f'if [ "$RALPH_READ_ONLY" ]; then {meddling}; echo "{PASS}"; exit; fi\n{SAYS_DONE}')
    trial.git("add", "agent.sh")
    trial.project.tasks.add("A")
    before = state(trial)

    trial.ralph("run", "--review", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert state(trial) == before


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    "which", ["a changed file", "a new file", "a deleted file", "a cleaned tree", "a commit", "another branch"]
)
def test_a_verification_that_changes_something_has_not_verified(trial: Trial, which: str) -> None:
    trial.script(f'if [ "$RALPH_READ_ONLY" ]; then {MEDDLING[which]}; echo "{PASS}"; exit; fi\n{SAYS_DONE}')
    task = trial.project.tasks.add("A")

    ran = trial.ralph("run", "--review", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert "files were changed during the verification" in trial.last().reason
    assert "and reverted" in ran.out
    assert trial.status(task) is TaskStatus.PENDING


@pytest.mark.usefixtures("repository")
def test_a_verification_that_changes_nothing_leaves_no_trace(trial: Trial) -> None:
    trial.project.tasks.add("A")
    before = state(trial)
    index = (trial.root / ".git/index").stat().st_mtime_ns

    reviewed(trial, PASS)

    assert trial.outcomes() == [AttemptOutcome.DONE]
    assert state(trial) == before
    assert index <= (trial.root / ".git/index").stat().st_mtime_ns


@pytest.mark.usefixtures("repository")
def test_what_git_ignores_and_what_ralph_keeps_may_change(trial: Trial) -> None:
    trial.project.tasks.add("A")

    def look(prompt: str, session: SessionOptions) -> str:
        (session.directory / "cache.pyc").write_text("x")
        trial.project.memory.add("Learned by a person meanwhile.")
        return PASS

    reviewed(trial, look)

    assert trial.outcomes() == [AttemptOutcome.DONE]
    assert [memory.content for memory in trial.memories()] == ["Learned by a person meanwhile."]
    assert "Learned by a person" in (trial.root / ".agent/memories.md").read_text()


def test_a_repository_without_any_commit_is_taken_back_too(trial: Trial) -> None:
    (trial.root / "app.py").write_text("one\n")
    trial.git("init", "-q")
    trial.project.tasks.add("A")

    def meddle(prompt: str, session: SessionOptions) -> str:
        (session.directory / "app.py").write_text("two\n")
        return PASS

    reviewed(trial, meddle, iterations=1)

    assert (trial.root / "app.py").read_text() == "one\n"
    assert trial.outcomes() == [AttemptOutcome.RETRIED]


def test_a_project_in_a_folder_of_a_repository_is_taken_back_too(trial: Trial) -> None:
    above = trial.root.parent
    (above / "other.py").write_text("one\n")
    (trial.root / "app.py").write_text("one\n")
    trial.git("-C", str(above), "init", "-q")
    trial.git("-C", str(above), "add", "-A")
    trial.git("-C", str(above), "commit", "-qm", "start")
    trial.project.tasks.add("A")

    def meddle(prompt: str, session: SessionOptions) -> str:
        trial.project.memory.add("Learned meanwhile.")
        (session.directory / "app.py").write_text("two\n")
        (above / "other.py").unlink()
        return PASS

    reviewed(trial, meddle, iterations=1)

    assert (trial.root / "app.py").read_text() == "one\n"
    assert (above / "other.py").read_text() == "one\n"
    assert "memories.md" not in trial.last().reason
    assert "Learned meanwhile." in (trial.root / ".agent/memories.md").read_text()


@pytest.mark.usefixtures("repository")
def test_a_repository_without_a_commit_inside_hides_nothing(trial: Trial) -> None:
    trial.git("init", "-q", "inner")
    trial.project.tasks.add("A")

    def meddle(prompt: str, session: SessionOptions) -> str:
        (session.directory / "src/app.py").write_text("three\n")
        return PASS

    reviewed(trial, meddle, iterations=1)

    assert (trial.root / "src/app.py").read_text() == "one, mended\n"
    assert trial.outcomes() == [AttemptOutcome.RETRIED]


@pytest.mark.usefixtures("repository")
def test_also_a_verification_that_crashes_is_taken_back(trial: Trial) -> None:
    trial.project.tasks.add("A")

    class Crashing(ReviewedAgent):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            if session.read_only:
                (session.directory / "src/app.py").write_text("half\n")
            return super().work(prompt, session)

    trial.run(Crashing(RuntimeError("our own fault")), RunOptions(iterations=1), execution={"review": True})

    assert (trial.root / "src/app.py").read_text() == "one, mended\n"


def test_without_git_a_verification_works_all_the_same(trial: Trial) -> None:
    trial.project.tasks.add("A")

    reviewed(trial, PASS)

    assert trial.outcomes() == [AttemptOutcome.DONE]
