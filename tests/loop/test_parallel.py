"""Several workers in one run, with real repositories: nothing is done twice, nothing is lost, nobody is disturbed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ralph.agents import SessionOptions
from ralph.core.records import AgentReply, AttemptOutcome, Task, TaskStatus
from ralph.loop.options import RunEnding, RunOptions
from ralph.loop.progress import ProgressEvent
from ralph.project import Project
from tests.loop.trial import DONE, FAILED, SAYS_DONE, SOON_SECONDS, Trial
from tests.make import set_up_project
from tests.waiting import wait_until

Play = Callable[["Part"], str]

WRITES_A_FILE = f'echo "$RALPH_TASK_ID" > "$RALPH_TASK_ID.txt"\n{SAYS_DONE}\n'
SLEEPS = f"""
echo "attempt $RALPH_ATTEMPT" >> "$RALPH_TASK_ID.txt"
touch "$TOGETHER/started.$RALPH_TASK_ID"
[ -e "$TOGETHER/go" ] || sleep 300 || exit
echo whole >> "$RALPH_TASK_ID.txt"
{SAYS_DONE}
"""


class Part:
    """One session of a task, as an agent sees it."""

    def __init__(self, prompt: str, session: SessionOptions) -> None:
        self.prompt = prompt
        self.directory = session.directory
        self.should_stop = session.should_stop
        self.hat = session.environment["RALPH_HAT"]
        self.task_id = session.environment["RALPH_TASK_ID"]
        self.number = int(session.environment["RALPH_ATTEMPT"])
        self.title = prompt.split("**", 2)[1] if "**" in prompt else ""

    def write(self, name: str, text: str) -> None:
        """Write a file where the task is worked on."""
        (self.directory / name).write_text(text)

    def read(self, name: str) -> str:
        """Read a file where the task is worked on."""
        return (self.directory / name).read_text()


class Company:
    """An agent that many workers ask at once; each session plays what it is told to."""

    name = "company"
    reports_files = False
    reports_cost = True
    reports_tokens = True
    accepts_model = False

    def __init__(self, play: Play) -> None:
        self._play = play
        self.parts: list[Part] = []

    def check(self) -> None:
        pass

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        part = Part(prompt, session)
        self.parts.append(part)
        return AgentReply(text=self._play(part).replace("TASK", part.task_id), seconds=0.1)

    def part(self, task: Task, number: int) -> Part:
        """Give one attempt at a task."""
        return next(part for part in self.parts if (part.task_id, part.number) == (task.id, number))


class Together(Trial):
    """A project in a repository, worked on by several at once."""

    def work(self, agent: Company, workers: int = 3, /, **settings: object) -> RunEnding:
        """Let several workers work; give why they stopped."""
        limits = {name: settings.pop(name) for name in ("iterations", "stays") if name in settings}
        order = RunOptions(parallel=workers, **{"iterations": 50, **limits})  # type: ignore[arg-type]
        return self.run(agent, order, **settings).ending  # type: ignore[arg-type]

    def add(self, *titles: str) -> list[Task]:
        """Add tasks."""
        return [self.project.tasks.add(title) for title in titles]

    def commit(self, name: str, text: str) -> None:
        """Commit a file as the person does."""
        (self.root / name).write_text(text)
        self.git("add", name)
        self.git("commit", "-qm", f"write {name}")

    def places(self) -> list[str]:
        """Give the worktrees of tasks that are there; what a kill left half removed is none."""
        return sorted(path.name for path in (self.root / ".ralph/worktrees").glob("[!.]*"))

    def branches(self) -> list[str]:
        """Give the branches of tasks that are there."""
        return self.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/ralph/").split()

    def changes(self) -> str:
        """Give what is changed in the person's tree, but for our own files."""
        return self.git("status", "--porcelain", "--", ":/", ":(exclude).ralph", ":(exclude).agent")

    def merges(self) -> list[str]:
        """Give the subjects of the merges in the branch that is checked out, oldest first."""
        return self.git("log", "--first-parent", "--merges", "--reverse", "--format=%s").splitlines()

    def left(self) -> str:
        """Give what is left of any task, and what is changed in the person's tree."""
        _, *trees = self.git("worktree", "list").splitlines()
        return "\n".join([*self.places(), *self.branches(), *trees, self.changes()])

    def reason(self, task: Task) -> str:
        """Give why a task is where it is."""
        return self.project.store.tasks.get(task.id).reason

    def outcomes_of(self, task: Task) -> list[AttemptOutcome | None]:
        """Give how the attempts at a task ended, oldest first."""
        return [attempt.outcome for attempt in self.attempts() if attempt.task_id == task.id]


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "together").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TOGETHER", str(tmp_path / "together"))
    monkeypatch.setenv("RALPH_AGENT_ENVIRONMENT", "TOGETHER")
    monkeypatch.delenv("EMAIL", raising=False)


@pytest.fixture
def together(project: Project, capsys: pytest.CaptureFixture[str]) -> Together:
    """Give a project with a commit, and an agent to run by command in it."""
    found = Together(project, capsys)
    (found.root / "shared.txt").write_text("one\ntwo\nthree\n")
    (found.root / "agent.sh").write_text(WRITES_A_FILE)
    found.commit_all()
    return found


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    """Give a folder in which agents and tests leave each other files."""
    return tmp_path / "together"


def writes_a_file(part: Part) -> str:
    part.write(f"{part.task_id}.txt", part.task_id)
    return DONE


# --- all of it ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_eight_workers_do_each_of_many_tasks_once_and_merge_it_once(together: Together) -> None:
    tasks = together.add(*(f"Task {number}" for number in range(24)))
    agent = Company(writes_a_file)

    ending = together.work(agent, 8)

    assert ending is RunEnding.COMPLETE
    assert sorted(part.task_id for part in agent.parts) == sorted(task.id for task in tasks)
    assert together.outcomes() == [AttemptOutcome.DONE] * 24
    assert sorted(together.merges()) == sorted(task.title for task in tasks)
    assert all((together.root / f"{task.id}.txt").read_text() == task.id for task in tasks)
    assert together.left() == ""
    assert len({event["worker"] for event in together.told("attempt_started")}) > 1
    assert [event["files"] for event in together.told("merged") if len(event["files"]) != 1] == []  # type: ignore[arg-type]


def test_by_command_it_is_the_same_and_no_process_is_left(together: Together) -> None:
    tasks = together.add(*(f"Task {number}" for number in range(8)))
    before = set(psutil.Process().children(recursive=True))

    ran = together.ralph("run", "--parallel", "4", "--", "sh", "agent.sh")

    assert (ran.code, ran.err) == (0, "")
    assert "4 workers, 8 tasks ready" in ran.out
    assert "Stopped: all tasks are done. 8 done in 8 attempts" in ran.out
    assert all(together.status(task) is TaskStatus.DONE for task in tasks)
    assert sorted(together.merges()) == sorted(task.title for task in tasks)
    assert together.left() == ""
    assert set(psutil.Process().children(recursive=True)) - before == set()


def test_a_task_waits_for_those_it_needs_and_starts_from_their_work(together: Together) -> None:
    first, other = together.add("First", "Other")
    last = together.project.tasks.add("Last", needs=[first.id, other.id])
    seen: list[bool] = []

    def play(part: Part) -> str:
        if part.task_id == last.id:
            seen.extend((part.directory / f"{task.id}.txt").exists() for task in (first, other))
        return writes_a_file(part)

    ending = together.work(Company(play), 3)

    assert ending is RunEnding.COMPLETE
    assert seen == [True, True]
    assert together.left() == ""


def test_a_chain_of_tasks_never_looks_as_if_it_waited_for_a_person(together: Together) -> None:
    before: list[str] = []
    for number in range(12):
        before = [together.project.tasks.add(f"Task {number}", needs=before).id]
    began = time.monotonic()

    ending = together.work(Company(lambda _: DONE), 6)

    assert ending is RunEnding.COMPLETE
    assert time.monotonic() - began < SOON_SECONDS


@pytest.mark.parametrize("_", range(3))
def test_without_a_task_there_is_nothing_to_do(together: Together, _: int) -> None:
    ran = together.ralph("run", "--parallel", "8", "--", "sh", "agent.sh")

    assert (ran.code, ran.err) == (3, "")
    assert "Stopped: there is nothing to do." in ran.out


def test_a_task_without_changes_is_done_without_a_merge(together: Together) -> None:
    (task,) = together.add("Look at it")

    together.work(Company(lambda _: DONE), 2)

    assert together.status(task) is TaskStatus.DONE
    assert together.merges() == []
    assert together.left() == ""


def test_two_runs_in_one_repository_share_the_tasks(together: Together) -> None:
    tasks = together.add(*(f"Task {number}" for number in range(10)))

    runs = [together.start("run", "--parallel", "2", "--format", "json", "--", "sh", "agent.sh") for _ in range(2)]
    told = [json.loads(line) for run in runs for line in run.communicate(timeout=60)[0].splitlines()]

    assert {run.returncode for run in runs} <= {0, 3}
    assert [event for event in told if event["event"] == "warning"] == []
    assert together.outcomes() == [AttemptOutcome.DONE] * 10
    assert sorted(together.merges()) == sorted(task.title for task in tasks)
    assert together.left() == ""


# --- conflicts -------------------------------------------------------------------------------------


def test_of_two_tasks_that_change_one_line_the_second_resolves_the_conflict(together: Together) -> None:
    tasks = together.add("Uno", "Due")
    both = threading.Barrier(2, timeout=SOON_SECONDS)

    def play(part: Part) -> str:
        if part.number == 1:
            both.wait()
            part.write("shared.txt", f"{part.task_id}\ntwo\nthree\n")
            both.wait()
        else:
            lines = part.read("shared.txt").splitlines()
            part.write("shared.txt", "".join(f"{line}\n" for line in lines if line[:7] not in MARKS))
        return DONE

    agent = Company(play)

    ending = together.work(agent, 2)

    assert ending is RunEnding.COMPLETE
    (second,) = (task for task in tasks if len(together.outcomes_of(task)) == 2)
    assert together.outcomes_of(second) == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    (report,) = together.project.journal.failures_of(second.id)
    assert (report.category, report.files) == ("merge_conflict", ("shared.txt",))
    assert "The work conflicts with the current main, in shared.txt." in report.why
    prompt = agent.part(second, 2).prompt
    assert "shared.txt" in prompt.split("### Merge Conflicts")[1].split("###")[0]
    assert "conflicts with the current main" in prompt.split("### Previous Attempts")[1]
    assert set((together.root / "shared.txt").read_text().splitlines()) >= {task.id for task in tasks}
    assert together.left() == ""


MARKS = ("<<<<<<<", "=======", ">>>>>>>")


def test_a_conflict_nobody_resolves_waits_for_a_person_in_the_end(together: Together) -> None:
    (task,) = together.add("Mine")

    def play(part: Part) -> str:
        if part.number == 1:
            part.write("shared.txt", "mine\n")
            together.commit("shared.txt", "theirs\n")
        return DONE

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.WAITS
    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED] * 4
    assert "The merge conflict is not resolved in shared.txt." in together.reason(task)
    assert (together.root / "shared.txt").read_text() == "theirs\n"
    assert together.changes() == ""
    assert together.git("show", f"ralph/{task.id}:shared.txt") == "mine\n"


def test_work_is_brought_up_to_date_before_the_gates_look_at_it(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        if part.number == 1:
            together.commit("rule.txt", "No made.txt.\n")
        part.write("other.txt" if part.number > 1 else "made.txt", "made\n")
        if part.number > 1:
            (part.directory / "made.txt").unlink()
        return DONE

    together.work(Company(play), 2, execution={"gates": ("! [ -e rule.txt -a -e made.txt ]",)})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    assert not (together.root / "made.txt").exists()
    assert together.left() == ""


# --- what is learned ---------------------------------------------------------------------------------


def test_what_one_worker_learns_is_in_the_next_prompt_of_another(together: Together) -> None:
    teacher, pupil = together.add("Teach the parser", "Learn the parser")

    def play(part: Part) -> str:
        if part.task_id == teacher.id:
            return f'<knowledge tags="parser" title="Tabs only">The parser wants tabs.</knowledge>{DONE}'
        if part.number == 1:
            wait_until(lambda: together_knows("Tabs only"))
            return FAILED
        return DONE

    def together_knows(title: str) -> bool:
        return any(event.details.get("title") == title for event in together.events if event.what == "learned")

    agent = Company(play)

    together.work(agent, 2)

    assert "The parser wants tabs." not in agent.part(pupil, 1).prompt
    assert "The parser wants tabs." in agent.part(pupil, 2).prompt
    workers = {event["task_id"]: event["worker"] for event in reversed(together.told("attempt_started"))}
    heard = [event for event in together.told("heard") if "Tabs only" in event["titles"]]  # type: ignore[operator]
    assert [event["worker"] for event in heard] == [workers[pupil.id]]


def test_watching_prints_what_workers_learn_as_they_learn_it(together: Together, meeting: Path) -> None:
    (together.root / "agent.sh").write_text(f"""
if [ "$RALPH_ATTEMPT" = 1 ]; then
    echo "<knowledge tags=a title=\\"Of $RALPH_TASK_ID\\">It is $RALPH_TASK_ID.</knowledge>"
    echo "<task-failed>$RALPH_TASK_ID</task-failed>"
    exit
fi
while [ ! -e "$TOGETHER/go" ]; do sleep 0.05; done
{SAYS_DONE}
""")
    together.git("commit", "-qam", "another agent")
    tasks = together.add("A", "B")
    watch = together.start("memory", "watch", "--since", "0", "--for", "60", "--format", "json")
    assert watch.stdout

    run = together.start("run", "--parallel", "2", "--", "sh", "agent.sh")
    titles = {json.loads(watch.stdout.readline())["title"] for _ in tasks}
    is_at_work = run.poll() is None
    (meeting / "go").touch()
    said, _ = run.communicate(timeout=60)
    watch.terminate()
    watch.communicate(timeout=10)

    assert titles == {f"Of {task.id}" for task in tasks}
    assert is_at_work
    assert run.returncode == 0
    assert "learned by another worker: Of t-" in said


# --- killed and stopped ------------------------------------------------------------------------------


@pytest.fixture
def asleep(together: Together, meeting: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a run of three workers whose agents have begun, and sleep until a file tells them to go on."""
    (together.root / "agent.sh").write_text(SLEEPS)
    together.git("commit", "-qam", "another agent")
    together.add("A", "B", "C", "D")
    run = together.start("run", "--parallel", "3", "--format", "json", "--", "sh", "agent.sh")
    wait_until(lambda: len(list(meeting.glob("started.*"))) == 3)
    yield run
    if run.poll() is None:
        run.kill()
        run.communicate()


def test_after_a_kill_the_next_run_goes_on_with_the_work_at_once(
    together: Together, meeting: Path, asleep: subprocess.Popen[str]
) -> None:
    family = psutil.Process(asleep.pid).children(recursive=True)

    asleep.kill()
    asleep.communicate()

    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    left = [path.suffix[1:] for path in meeting.glob("started.*")]
    assert together.places() == sorted(left)
    assert all((together.root / f".ralph/worktrees/{id}/{id}.txt").read_text() == "attempt 1\n" for id in left)
    (meeting / "go").touch()
    began = time.monotonic()
    ran = together.ralph("run", "--parallel", "3", "--", "sh", "agent.sh")
    assert (ran.code, ran.err) == (0, "")
    assert time.monotonic() - began < SOON_SECONDS
    assert ran.out.count("was abandoned by a worker that is gone") == 3
    tasks = together.project.store.tasks.all()
    assert [together.outcomes_of(task) for task in tasks if task.id in left] == [
        [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    ] * 3
    assert [together.outcomes_of(task) for task in tasks if task.id not in left] == [[AttemptOutcome.DONE]]
    assert all((together.root / f"{id}.txt").read_text() == "attempt 1\nattempt 2\nwhole\n" for id in left)
    assert together.left() == ""


@pytest.mark.slow
def test_a_run_killed_again_and_again_loses_nothing_that_it_merged(together: Together) -> None:
    tasks = together.add(*(f"Task {number}" for number in range(24)))
    acknowledged: set[str] = set()

    for kill in range(8):
        run = together.start("run", "--parallel", "3", "--format", "json", "--", "sh", "agent.sh")
        time.sleep(0.5 + 0.11 * kill)
        run.kill()
        said, _ = run.communicate()
        whole = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
        acknowledged |= {event["task_id"] for event in whole if event["event"] == "merged"}
        assert all((together.root / f"{id}.txt").exists() for id in acknowledged)
        wait_until(lambda: together.changes() == "")
    ran = together.ralph("run", "--parallel", "3", "--", "sh", "agent.sh")

    assert ran.code in (0, 3), ran.out
    assert all(together.outcomes_of(task).count(AttemptOutcome.DONE) == 1 for task in tasks)
    assert set(together.outcomes()) <= {AttemptOutcome.DONE, AttemptOutcome.INTERRUPTED}
    assert sorted(together.merges()) == sorted(task.title for task in tasks)
    assert all((together.root / f"{task.id}.txt").read_text() == f"{task.id}\n" for task in tasks)
    assert together.left() == ""
    assert together.git("fsck", "--no-dangling") == ""


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_sessions_and_the_run(
    together: Together, meeting: Path, asleep: subprocess.Popen[str], kind: signal.Signals
) -> None:
    family = psutil.Process(asleep.pid).children(recursive=True)

    asleep.send_signal(kind)
    said, _ = asleep.communicate(timeout=SOON_SECONDS)

    assert asleep.returncode == 130
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    assert together.outcomes() == [AttemptOutcome.INTERRUPTED] * 3
    assert {task.status for task in together.project.store.tasks.all()} == {TaskStatus.PENDING}
    assert json.loads(said.splitlines()[-1])["ending"] == "it was interrupted"
    left = [path.suffix[1:] for path in meeting.glob("started.*")]
    assert all(together.git("show", f"ralph/{id}:{id}.txt") == "attempt 1\n" for id in left)
    assert together.changes() == ""


def test_a_run_that_was_stopped_goes_on_with_as_many_workers(
    together: Together, meeting: Path, asleep: subprocess.Popen[str]
) -> None:
    asleep.send_signal(signal.SIGINT)
    asleep.communicate(timeout=SOON_SECONDS)
    (meeting / "go").touch()

    ran = together.ralph("run", "--resume", "--", "sh", "agent.sh")

    assert ran.code == 0
    assert "resumed: command agent, 3 workers" in ran.out
    assert len(together.project.store.runs.latest(10)) == 1
    assert {task.status for task in together.project.store.tasks.all()} == {TaskStatus.DONE}
    assert together.left() == ""


def test_one_task_of_a_run_that_goes_on_has_one_worker(together: Together) -> None:
    first, second = together.add("A", "B")
    together.work(Company(lambda _: FAILED), 2, iterations=2)

    ran = together.ralph("run", "--resume", "--max-iterations", "9", "--task", first.id, "--", "sh", "agent.sh")

    assert (ran.code, ran.err) == (0, "")
    assert "Stopped: the task is done; others are not." in ran.out
    assert (together.status(first), together.status(second)) == (TaskStatus.DONE, TaskStatus.PENDING)


# --- refused ------------------------------------------------------------------------------------------


def refused(together: Together, *words: str) -> str:
    """Give why a run is refused; nothing has happened then."""
    ran = together.ralph("run", *words, "--", "sh", "agent.sh")
    assert (ran.code, ran.out) == (2, "")
    assert together.attempts() == []
    assert together.project.store.runs.latest(1) == []
    assert {task.status for task in together.project.store.tasks.all()} == {TaskStatus.PENDING}
    assert "Traceback" not in ran.err
    return ran.err.strip().removeprefix("ralph: ")


def test_without_a_repository_nothing_starts(trial: Trial) -> None:
    trial.project.tasks.add("A")
    (trial.root / "agent.sh").write_text(SAYS_DONE)

    ran = trial.ralph("run", "--parallel", "2", "--", "sh", "agent.sh")

    assert ran.code == 2
    assert ran.error == "no-repository"
    assert ran.err.count("\n") == 1
    assert trial.project.store.runs.latest(1) == []


def test_without_a_commit_nothing_starts(trial: Trial) -> None:
    trial.project.tasks.add("A")
    (trial.root / "agent.sh").write_text(SAYS_DONE)
    trial.git("init", "-q")

    ran = trial.ralph("run", "--parallel", "2", "--", "sh", "agent.sh")

    assert ran.code == 2
    assert ran.error == "no-commit"
    assert trial.project.store.runs.latest(1) == []


def test_without_a_branch_nothing_starts(together: Together) -> None:
    together.add("A")
    together.git("checkout", "-q", "--detach")

    why = refused(together, "--parallel", "2")

    assert f"No branch is checked out in {together.root}." in why


def test_with_changes_that_are_not_committed_nothing_starts(together: Together) -> None:
    together.add("A")
    (together.root / "shared.txt").write_text("changed\n")
    (together.root / "new.txt").write_text("new\n")

    why = refused(together, "--parallel", "2")

    assert ": shared.txt, new.txt. Commit, stash or ignore" in why
    assert (together.root / "shared.txt").read_text() == "changed\n"
    assert together.branches() == []


@pytest.mark.parametrize("number", ["0", "1000", "-1", "x", "2.5", "", "٣"])
def test_a_number_of_workers_that_is_none_is_refused(together: Together, number: str) -> None:
    together.add("A")

    why = refused(together, f"--parallel={number}")

    assert f"--parallel: must be a number from 1 to 64, not {number!r}." in why


def test_one_task_and_several_workers_do_not_go_together(together: Together) -> None:
    (task,) = together.add("A")

    why = refused(together, "--parallel", "2", "--task", task.id)

    assert why.endswith("Use either --task or --parallel, not both: one task has one worker.")


# --- what gets in the way -------------------------------------------------------------------------------


def test_a_worktree_that_cannot_be_made_is_an_error_of_its_task_alone(together: Together) -> None:
    bad, *good = together.add("A", "B", "C")
    folder = together.root / ".ralph/worktrees"
    folder.mkdir()
    (folder / bad.id).write_text("mine\n")

    ending = together.work(Company(writes_a_file), 2)

    assert ending is RunEnding.WAITS
    assert [together.status(task) for task in good] == [TaskStatus.DONE] * 2
    attempts = [attempt for attempt in together.attempts() if attempt.task_id == bad.id]
    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.ERROR}
    sentence = f"{folder / bad.id} exists but is not a worktree of this repository. Move it away."
    assert {attempt.reason for attempt in attempts} == {sentence}
    assert together.status(bad) is TaskStatus.BLOCKED
    assert sentence in together.reason(bad)
    assert (folder / bad.id).read_text() == "mine\n"


def test_when_the_branch_vanishes_the_work_stays_and_waits(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        together.git("checkout", "-qb", "other")
        together.git("branch", "-qD", "main")
        return writes_a_file(part)

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.WAITS
    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED]
    assert together.reason(task).endswith(f"The branch main no longer exists; the work is on ralph/{task.id}.")
    assert together.git("show", f"ralph/{task.id}:{task.id}.txt") == task.id


def test_tasks_that_find_no_branch_to_start_from_say_so(together: Together) -> None:
    tasks = together.add("A", "B", "C")
    gone = threading.Event()

    def play(part: Part) -> str:
        if not gone.is_set():
            gone.set()
            together.git("checkout", "-qb", "other")
            together.git("branch", "-qD", "main")
        return writes_a_file(part)

    ending = together.work(Company(play), 2)

    assert ending.exit_code == 1
    assert all(together.status(task) is not TaskStatus.DONE for task in tasks)
    reasons = {attempt.reason for attempt in together.attempts() if attempt.outcome is AttemptOutcome.ERROR}
    assert reasons == {"The branch main no longer exists, so there is nothing to start from."}


def test_what_the_person_commits_meanwhile_is_kept(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        together.commit("mine.txt", "mine\n")
        return writes_a_file(part)

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.COMPLETE
    assert (together.root / "mine.txt").read_text() == "mine\n"
    assert (together.root / f"{task.id}.txt").exists()
    assert together.git("log", "--first-parent", "--format=%s").splitlines() == ["A", "write mine.txt", "start"]
    assert together.left() == ""


def test_a_person_who_switches_branches_is_not_disturbed(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        together.git("checkout", "-qb", "other")
        (together.root / "shared.txt").write_text("half done\n")
        part.write("shared.txt", "done\n")
        return DONE

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.COMPLETE
    assert together.git("show", "main:shared.txt") == "done\n"
    assert (together.root / "shared.txt").read_text() == "half done\n"
    assert together.git("branch", "--show-current") == "other\n"
    assert together.status(task) is TaskStatus.DONE


def test_changes_of_the_person_in_the_way_are_named_and_the_work_waits(together: Together) -> None:
    blocked, free = together.add("A", "B")

    def play(part: Part) -> str:
        if part.task_id == free.id:
            return writes_a_file(part)
        (together.root / "shared.txt").write_text("mine, not committed\n")
        part.write("shared.txt", "done\n")
        return DONE

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.WAITS
    assert together.outcomes_of(blocked) == [AttemptOutcome.RETRIED]
    assert together.status(blocked) is TaskStatus.BLOCKED
    for words in (
        f"The work on ralph/{blocked.id} is not merged into main",
        "commit or stash the changes to shared.txt",
    ):
        assert words in together.reason(blocked)
    assert together.git("show", f"ralph/{blocked.id}:shared.txt") == "done\n"
    assert (together.root / "shared.txt").read_text() == "mine, not committed\n"
    assert together.status(free) is TaskStatus.DONE

    together.git("checkout", "-q", "shared.txt")
    together.project.tasks.reset(blocked.id)
    together.work(Company(lambda _: DONE), 2)
    assert (together.root / "shared.txt").read_text() == "done\n"
    assert together.left() == ""


def test_a_place_that_vanishes_under_the_agent_is_told(together: Together) -> None:
    (task,) = together.add("A")

    def play(part: Part) -> str:
        if part.number == 1:
            together.git("worktree", "remove", "--force", str(part.directory))
        else:
            part.write("made.txt", "made\n")
        return DONE

    ending = together.work(Company(play), 2)

    assert ending is RunEnding.WAITS
    assert f"The worktree {together.root}/.ralph/worktrees/{task.id} no longer exists." in together.reason(task)


def test_a_repository_that_an_agent_makes_does_not_swallow_its_work(together: Together) -> None:
    (task,) = together.add("Start a new site")

    def play(part: Part) -> str:
        site = part.directory / "site"
        if part.number == 1:
            site.mkdir()
            (site / "index.html").write_text("hello\n")
            who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
            for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "new")):
                subprocess.run(["git", "-C", str(site), *words], check=True)
        else:
            shutil.rmtree(site / ".git")
        return DONE

    agent = Company(play)

    ending = together.work(agent, 2)

    assert ending is RunEnding.COMPLETE
    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    assert "site/ is a nested git repository" in agent.part(task, 2).prompt
    assert (together.root / "site/index.html").read_text() == "hello\n"
    assert together.left() == ""


# --- hats, gates and limits ---------------------------------------------------------------------------------


def test_hats_hand_over_in_one_place_and_gates_look_there(together: Together) -> None:
    tasks = together.add("A", "B", "C")

    def play(part: Part) -> str:
        if part.hat == "planner":
            part.write(f"plan-{part.task_id}.txt", "the plan\n")
            return '<hand-over to="creator">The plan is written.</hand-over>'
        assert part.read(f"plan-{part.task_id}.txt") == "the plan\n"
        earlier = part.directory / f"half-{part.task_id}.txt"
        name = "made" if earlier.exists() else "half"
        part.write(f"{name}-{part.task_id}.txt", "work\n")
        return DONE

    gate = "test -f plan-$RALPH_TASK_ID.txt && test -f made-$RALPH_TASK_ID.txt"
    agent = Company(play)
    ending = together.work(agent, 3, hats={"order": ("planner", "creator")}, execution={"gates": (gate,)})

    assert ending is RunEnding.COMPLETE
    for task in tasks:
        assert together.outcomes_of(task) == [AttemptOutcome.DONE, AttemptOutcome.RETRIED, AttemptOutcome.DONE]
        assert {part.directory.name for part in agent.parts if part.task_id == task.id} == {task.id}
        assert all((together.root / f"{name}-{task.id}.txt").exists() for name in ("plan", "half", "made"))
    assert together.left() == ""


def test_a_limit_on_iterations_holds_for_all_workers_together(together: Together) -> None:
    together.add(*(f"Task {number}" for number in range(9)))
    agent = Company(writes_a_file)

    ending = together.work(agent, 4, iterations=5)

    assert ending is RunEnding.LIMIT_ITERATIONS
    assert len(agent.parts) == len(together.attempts()) == 5
    assert together.left() == ""


def test_workers_without_a_task_do_not_use_up_a_limit(together: Together) -> None:
    together.add("A", "B")
    both = threading.Barrier(2, timeout=SOON_SECONDS)

    def play(part: Part) -> str:
        both.wait()
        time.sleep(0.5)
        return writes_a_file(part)

    ending = together.work(Company(play), 8, iterations=3)

    assert ending is RunEnding.COMPLETE
    assert together.outcomes() == [AttemptOutcome.DONE] * 2


def test_money_spent_by_all_stops_all(together: Together) -> None:
    together.add(*(f"Task {number}" for number in range(9)))

    class Dear(Company):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            reply = super().work(prompt, session)
            return AgentReply(text=reply.text, seconds=0.1, cost_usd=1.0, files=())

    summary = together.run(Dear(lambda _: DONE), RunOptions(parallel=3, cost_usd=4.0))

    assert summary.ending is RunEnding.LIMIT_COST
    assert 4.0 <= summary.cost_usd <= 6.0
    assert summary.cost_usd == len(together.attempts())


# --- what is merged ----------------------------------------------------------------------------------------


def test_gates_have_the_last_word_on_what_is_merged(together: Together) -> None:
    tasks = together.add("A", "B")
    both = threading.Barrier(2, timeout=SOON_SECONDS)

    def play(part: Part) -> str:
        if part.number == 1:
            both.wait()  # neither sees what the other does
        part.write(f"only-{part.task_id}.txt", "one is enough")
        return DONE

    gates = ('[ "$(ls only-*.txt | wc -l)" -le 1 ]',)
    together.work(Company(play), 2, execution={"gates": gates, "max_retries": 1})

    assert sorted(together.status(task) for task in tasks) == [TaskStatus.BLOCKED, TaskStatus.DONE]
    assert len(list(together.root.glob("only-*.txt"))) == 1
    assert together.outcomes().count(AttemptOutcome.RETRIED) == 2
    assert together.changes() == ""


# --- faults of our own ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_leaves_its_task_to_the_others(together: Together) -> None:
    tasks = together.add(*(f"Task {number}" for number in range(6)))
    dies = threading.Lock()

    def play(part: Part) -> str:
        if dies.acquire(blocking=False):
            raise SystemExit  # which nobody catches
        return writes_a_file(part)

    began = time.monotonic()
    ending = together.work(Company(play), 3)

    assert ending is RunEnding.WORKER_DIED

    assert time.monotonic() - began < SOON_SECONDS
    assert all(together.status(task) is TaskStatus.DONE for task in tasks)
    assert sorted(together.outcomes(), key=str) == [AttemptOutcome.DONE] * 6 + [AttemptOutcome.INTERRUPTED]
    assert together.left() == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_when_all_workers_die_the_run_ends(together: Together) -> None:
    together.add("A")

    def play(_: Part) -> str:
        raise SystemExit

    ending = together.work(Company(play), 3)

    assert ending is RunEnding.WORKER_DIED

    assert {task.status for task in together.project.store.tasks.all()} == {TaskStatus.PENDING}
    assert together.project.store.attempts.running() == []


def test_who_watches_and_fails_does_not_stop_the_work(together: Together) -> None:
    tasks = together.add("A", "B", "C")

    class Closed(list[ProgressEvent]):
        def append(self, event: ProgressEvent) -> None:
            if event.what == "merged":
                raise BrokenPipeError

    together.events = Closed()
    together.work(Company(writes_a_file), 2)

    assert all(together.status(task) is TaskStatus.DONE for task in tasks)


# --- a project in a part of a repository ------------------------------------------------------------------------


def test_a_project_in_a_subdirectory_is_worked_on_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top = tmp_path / "repository"
    sub = top / "services" / "web"
    sub.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    set_up_project(sub)
    with Project.open(sub) as project:
        together = Together(project, capsys)
        (sub / "shared.txt").write_text("one\n")
        (top / "outside.txt").write_text("one\n")
        (sub / "agent.sh").write_text(WRITES_A_FILE + 'echo more >> "../../outside-$RALPH_TASK_ID.txt"\n')
        together.git("add", "-A", ":/")
        together.git("commit", "-qm", "start")
        tasks = together.add("A", "B", "C")

        ran = together.ralph("run", "--parallel", "2", "--gate", "test -f shared.txt", "--", "sh", "agent.sh")

        assert (ran.code, ran.err) == (0, "")
        assert all((sub / f"{task.id}.txt").exists() for task in tasks)
        assert all((top / f"outside-{task.id}.txt").exists() for task in tasks)
        assert together.left() == ""
