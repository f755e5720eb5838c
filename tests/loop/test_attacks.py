"""What hostile or confused agents try: nothing of it finishes a task, hides from the gates or takes others' work."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ralph.core.actor import AGENT
from ralph.core.errors import UsageError
from ralph.core.records import AttemptOutcome, SubtaskSigil, TaskStatus
from ralph.loop.git.checkouts import untracked_files
from ralph.loop.options import RunEnding, RunOptions
from ralph.project import Project
from tests.loop.test_parallel import Company, Part, Together, together
from tests.loop.trial import Trial
from tests.make import ScriptedAgent, damaged_rows

__all__ = ["together"]

DONE = "<task-done>TASK</task-done>"
BOTH = "<task-done>TASK</task-done><task-failed>TASK</task-failed>"
RALPH = f"{shlex.quote(sys.executable)} -m ralph"
SAYS_DONE = 'echo "<task-done>$RALPH_TASK_ID</task-done>"'


@pytest.mark.parametrize("order", [("planner", "creator"), ("creator", "critic"), ("explorer", "planner", "creator")])
def test_done_and_failed_in_one_answer_lead_past_no_gate(trial: Trial, order: tuple[str, ...]) -> None:
    task = trial.project.tasks.add("A")

    execution = {"gates": ("false",), "max_retries": 1}
    trial.run(ScriptedAgent(BOTH), RunOptions(iterations=8), hats={"order": order}, execution=execution)

    assert trial.project.tasks.get(task.id).task.status is TaskStatus.BLOCKED
    assert AttemptOutcome.DONE not in trial.outcomes()


@pytest.mark.parametrize("titles", [("Fix the Straße", "Fix the STRASSE"), ("İstanbul", "i̇stanbul"), ("A", "a")])
def test_parts_with_titles_that_are_nearly_the_same_are_one_part(trial: Trial, titles: tuple[str, str]) -> None:
    task = trial.project.tasks.add("Too large")
    answer = "".join(f'<subtask title="{title}">do it</subtask>' for title in titles)

    summary = trial.run(ScriptedAgent(answer), RunOptions(iterations=1), hats={"order": ("planner", "creator")})

    assert summary.iterations == 1
    assert len(trial.project.tasks.get(task.id).parts) == 1


def test_a_session_finishes_no_task_by_command_not_even_one_that_it_has_added(trial: Trial) -> None:
    trial.script(f"mine=$({RALPH} task add mine --format quiet)\n{RALPH} task done $mine 2> said\n{SAYS_DONE}")
    task = trial.project.tasks.add("A")

    trial.ralph("run", "--gate", "false", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert trial.project.tasks.get(task.id).task.status is not TaskStatus.DONE
    assert "the loop does, once the gates pass" in (trial.root / "said").read_text()


@pytest.mark.parametrize("target", ["$RALPH_TASK_ID", "OTHER", "PART"])
@pytest.mark.parametrize(
    "add",
    [
        """echo '{"title": "part", "parent": "'TARGET'", "status": "done"}' | COMMAND task import -""",
        """echo '{"title": "part", "parent": "'TARGET'", "status": "failed"}' | COMMAND memory import -""",
        "COMMAND task add part --parent TARGET",
    ],
)
def test_a_session_gives_no_task_of_a_person_a_part_that_decides_its_status(
    trial: Trial, add: str, target: str
) -> None:
    task, other = trial.project.tasks.add("A"), trial.project.tasks.add("B", priority=-1)
    (part,) = trial.project.store.tasks.split(
        trial.project.tasks.add("C", priority=-1).id, [SubtaskSigil(title="part of C", body="")]
    )
    target = target.replace("OTHER", other.id).replace("PART", part.id)
    trial.script(f"{add.replace('TARGET', target).replace('COMMAND', RALPH)} 2> said; echo $? > code\n")

    trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert (trial.root / "code").read_text().strip() == "2"
    assert [trial.status(one) for one in (task, other, part)] == [TaskStatus.PENDING] * 3
    assert len(trial.project.tasks.list()) == 4


def test_what_a_session_imports_is_pending_and_may_have_parts(trial: Trial) -> None:
    trial.project.tasks.add("A")
    trial.script(f"{RALPH} task import plan.md; {SAYS_DONE}")
    (trial.root / "plan.md").write_text("- [ ] Whole\n  - [x] Part\n")

    trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert {one.title: one.status for one in trial.project.tasks.list()} == {
        "A": TaskStatus.DONE,
        "Whole": TaskStatus.PENDING,
        "Part": TaskStatus.PENDING,
    }


def test_an_agent_outside_the_loop_plans_parts_only_while_no_run_is_active(trial: Trial) -> None:
    agents = Project(trial.root, trial.project.store, trial.project.config, AGENT)
    whole = trial.project.tasks.add("A")
    trial.project.tasks.add("B", priority=1)

    agents.tasks.add("Part", parent=whole.id)
    trial.project.store.tasks.claims.claim("worker", 60, None, lambda task: task)

    with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
        agents.tasks.add("Another part", parent=whole.id)


@pytest.mark.parametrize(
    "verdict", ["<verify-pass>t-other</verify-pass>", "I would say <verify-pass/> but I could not run the tests."]
)
def test_to_speak_of_passing_is_not_to_pass(trial: Trial, verdict: str) -> None:
    trial.script(f'if [ "$RALPH_READ_ONLY" ]; then echo "{verdict}"; exit; fi\n{SAYS_DONE}')
    trial.project.tasks.add("A")

    trial.ralph("run", "--review", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert trial.outcomes() == [AttemptOutcome.RETRIED]


@pytest.mark.parametrize(
    "trick",
    [
        "git update-index --assume-unchanged a.txt; echo bad > a.txt",
        "git update-index --skip-worktree a.txt; echo bad > a.txt",
        "echo junk > .git/index; echo bad > a.txt",
        "echo new.txt >> .git/info/exclude; echo bad > new.txt",
        "git config filter.x.clean false; git config filter.x.required true;"
        ' echo "*.txt filter=x" > .git/info/attributes; echo bad > a.txt',
    ],
)
def test_a_verification_cannot_hide_what_it_changes(together: Together, trick: str) -> None:
    together.commit("a.txt", "good\n")
    together.script(f'if [ "$RALPH_READ_ONLY" ]; then {trick}; echo "<verify-pass/>"; exit; fi\n{SAYS_DONE}')
    together.add("A")

    together.ralph("run", "--review", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert together.outcomes() == [AttemptOutcome.RETRIED]
    assert (together.root / "a.txt").read_text() == "good\n"
    assert not (together.root / "new.txt").exists()


# --- several at once -----------------------------------------------------------------------------


def committing(part: Part, name: str, text: str) -> None:
    """Commit a file as an agent that wants it in at any price."""
    path = part.directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(part.directory, "add", "-f", name)
    git(part.directory, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=directory, check=True)


def test_work_that_would_replace_what_ralph_keeps_is_not_merged(together: Together) -> None:
    together.add("A")

    def play(part: Part) -> str:
        committing(part, ".ralph/ralph.db", "junk")
        return DONE

    together.work(Company(play), 2, iterations=1)

    assert together.outcomes() == [AttemptOutcome.RETRIED]
    assert "a file of Ralph" in together.last().reason
    assert damaged_rows(together.project.store) == []


def test_files_that_git_ignores_are_not_replaced(together: Together) -> None:
    together.commit(".gitignore", "local.cfg\n")
    (together.root / "local.cfg").write_text("mine\n")
    (task,) = together.add("A")

    def play(part: Part) -> str:
        part.write(".gitignore", "")
        part.write("local.cfg", "the agent's\n")
        return DONE

    together.work(Company(play), 2, iterations=1)

    assert (together.root / "local.cfg").read_text() == "mine\n"
    assert together.status(task) is TaskStatus.BLOCKED


def test_settings_that_an_agent_changes_wait_for_a_person(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        committing(part, ".ralph.toml", "[execution]\ngates = []\n")
        return DONE

    together.work(Company(play), 2, iterations=1)

    assert together.status(task) is TaskStatus.BLOCKED
    assert "which defines the gates" in together.reason(task)


def test_a_task_that_was_taken_away_is_not_merged(together: Together) -> None:
    task, _ = together.add("A", "B")

    def play(part: Part) -> str:
        part.write(f"{part.task_id}.txt", "done")
        if part.task_id == task.id:
            together.project.store.reopen().tasks.set_status(task.id, TaskStatus.BLOCKED, tuple(TaskStatus))
        return DONE

    together.work(Company(play), 2)

    assert not (together.root / f"{task.id}.txt").exists()
    assert together.status(task) is TaskStatus.BLOCKED


def test_a_task_that_is_reset_has_one_session_at_a_time(together: Together) -> None:
    (task,) = together.add("A")
    at_work = threading.Semaphore(1)
    overlaps: list[int] = []

    def play(part: Part) -> str:
        if not at_work.acquire(blocking=False):
            overlaps.append(part.number)
        if part.number == 1:
            together.project.store.reopen().tasks.set_status(task.id, TaskStatus.PENDING, tuple(TaskStatus))
            threading.Event().wait(1.0)
        at_work.release()
        part.write("a.txt", f"{part.number}")
        return DONE

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.COMPLETE
    assert overlaps == []
    assert (together.root / "a.txt").read_text() == "2"


def test_an_agent_that_deletes_its_place_stops_nobody_else(together: Together) -> None:
    first, second = together.add("A", "B")

    def play(part: Part) -> str:
        if part.task_id == first.id:
            remove(part.directory)
        else:
            part.write("b.txt", "b")
        return DONE

    together.work(Company(play), 2, execution={"gates": ("true",), "max_retries": 0})

    assert together.status(second) is TaskStatus.DONE
    assert together.status(first) is TaskStatus.BLOCKED


def test_what_a_session_said_is_kept_though_its_place_is_a_mess(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        together.commit("meanwhile.txt", "by a person\n")
        remove(part.directory)
        part.directory.write_text("in the way")
        return f"MEMORY:pattern:Results go to files named out.ID\n{DONE}"

    together.work(Company(play), 2, iterations=1, execution={"gates": ("true",)})

    assert together.status(task) is TaskStatus.BLOCKED
    assert [memory.title for memory in together.project.store.memories.all()] == ["Results go to files named out.ID"]


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


COMMIT = "git -c user.name=a -c user.email=a@b commit -qam x"


@pytest.mark.parametrize("by", ["session", "gate"])
def test_a_commit_to_the_base_branch_in_the_checkout_of_a_person_is_taken_back(together: Together, by: str) -> None:
    together.commit("check.sh", "sh work.sh; sh tests/test_it.sh\n")
    together.commit("work.sh", ":\n")
    (together.root / "tests").mkdir()
    together.commit("tests/test_it.sh", "exit 1\n")
    (task,) = together.add("A")
    before = together.git("rev-parse", "HEAD")
    moving = f"cd {together.root} && echo exit 0 > tests/test_it.sh && {COMMIT}; echo >> work.sh; {COMMIT}"
    work = moving if by == "session" else f'echo "({moving})" > work.sh'
    (together.root / ".ralph/agent.sh").write_text(f"({work})\necho x >> other.txt\n{SAYS_DONE}\n")

    words = ("run", "--parallel", "2", "--max-iterations", "2", "--gate", "sh check.sh")
    ran = together.ralph(*words, "--", "sh", str(together.root / ".ralph/agent.sh"))

    assert together.status(task) is not TaskStatus.DONE
    assert together.git("rev-parse", "HEAD") == before
    assert "during a session and is back at" in ran.out + ran.err


@pytest.mark.parametrize(
    ("planted", "outcome"),
    [
        ("conftest.py", AttemptOutcome.RETRIED),
        ("sitecustomize.py", AttemptOutcome.RETRIED),
        ("unittest.py", AttemptOutcome.RETRIED),
        ("build/out.py", AttemptOutcome.DONE),
    ],
)
def test_files_that_change_what_runs_do_not_appear_in_a_checkout(
    together: Together, planted: str, outcome: AttemptOutcome
) -> None:
    (task,) = together.add("A")
    checkout = together.root / f".ralph/worktrees/.check-{task.id}"
    gate = f"mkdir -p {checkout}/build; echo > {checkout}/{planted}"

    def play(part: Part) -> str:
        part.write("a.txt", "a")
        return DONE

    together.work(Company(play), 2, iterations=1, execution={"gates": (gate,)})

    assert together.outcomes() == [outcome]


def test_a_checkout_holds_nothing_that_its_commit_lacks(together: Together) -> None:
    together.commit(".gitignore", "*.log\nnode_modules\n")
    assert untracked_files(together.root, "HEAD", (".ralph", ".agent", ".ralph.toml", "node_modules")) == []

    for name in ("a.py", "b.log"):
        (together.root / name).touch()
    (together.root / "node_modules").mkdir()
    (together.root / "node_modules/c.js").touch()

    assert untracked_files(together.root, "HEAD", (".ralph", ".agent", "node_modules")) == ["a.py", "b.log"]
