"""`ralph watch`: a run in one terminal, seen from another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.cli.progress import LiveProgressView
from ralph.core.records import Run, timestamp
from ralph.loop import run_log
from ralph.loop.progress import ProgressEvent
from ralph.loop.workers import worker_name
from ralph.project import Project
from ralph.workspace import init_project
from tests.cli.ran import Ralph, run
from tests.cli.terminal import at_terminal
from tests.waiting import wait_until

AGENT = """
echo "I look at $RALPH_TASK_ID."
touch started-$RALPH_TASK_ID
while [ ! -e go-on ]; do sleep 0.02; done
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
SECONDS = 20.0


@pytest.fixture
def here(tmp_path: Path) -> Path:
    init_project(tmp_path)
    (tmp_path / "agent.sh").write_text(AGENT)
    with Project.open(tmp_path) as project:
        project.tasks.add("Mend the parser")
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


@pytest.fixture
def start(here: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Give a way to start the command as a process of its own, ended when the test is."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ralph", "-C", str(here), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield begin
    (here / "go-on").touch()
    for process in started:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout
        process.stdout.close()


def rest_of(process: subprocess.Popen[str]) -> str:
    """Give what a process prints until it ends."""
    assert process.stdout
    said = process.stdout.read()
    process.wait(SECONDS)
    return said


def at_work(here: Path) -> Callable[[], object]:
    return lambda: list(here.glob("started-*")) and run_log.logged_runs(here)


def latest(here: Path) -> Run:
    with Project.open(here) as project:
        return project.store.runs.latest(1)[0]


def test_it_shows_what_the_run_shows_and_ends_with_it(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    running = start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    watching = start("watch")
    assert watching.stdout
    first = watching.stdout.readline()
    (here / "go-on").touch()
    seen = first + rest_of(watching)

    shown = rest_of(running)
    assert (watching.returncode, running.returncode) == (0, 0)
    assert seen == shown
    assert "Mend the parser" in seen
    assert "Stopped: all tasks are done" in seen


def test_in_a_terminal_it_shows_what_the_agent_says_just_now(
    here: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))
    task = next(here.glob("started-*")).name.removeprefix("started-")

    code, seen = at_terminal(here, "watch", typed=[(f"I look at {task}.", "\x03")])

    assert code == 130
    assert "working" in seen
    assert latest(here).ended_at is None  # the run goes on


def test_clocks_count_from_the_start_of_the_run_and_of_the_attempt() -> None:
    run = {"done": 0, "total": 1, "waiting": 0, "cost_usd": 0, "seconds": 30.0, "next_reset": ""}
    details = {"task_id": "t-1", "attempt": 1, "model": "", "run": run}
    event = ProgressEvent(what="attempt_started", at=timestamp(time.time() - 600), details=details)
    view = LiveProgressView()

    view._status.follow(event)
    view._follow(event)

    assert "10m 0" in view._activities[0].elapsed()
    assert "10 min" in view._status.render(80)


def test_as_json_it_is_what_a_run_prints_as_json(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]]
) -> None:
    running = start("run", "--format", "json", "--", "sh", "agent.sh")
    wait_until(at_work(here))
    watching = start("watch", latest(here).id, "--format", "json")
    assert watching.stdout
    first = watching.stdout.readline()
    (here / "go-on").touch()

    seen = [json.loads(line) for line in [first, *rest_of(watching).splitlines()]]

    assert seen == [json.loads(line) for line in rest_of(running).splitlines()]
    assert [one["event"] for one in seen][:2] == ["run_started", "attempt_started"]


def test_it_begins_with_the_attempt_at_work(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]]
) -> None:
    (here / "agent.sh").write_text("[ -e go-on ] || { touch go-on; exit 3; }\nrm go-on\n" + AGENT)
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    watching = start("watch", "--format", "json")
    assert watching.stdout
    seen = [json.loads(watching.stdout.readline()) for _ in range(2)]

    assert [(one["event"], one.get("iteration")) for one in seen] == [("run_started", None), ("attempt_started", 2)]


def test_a_run_that_is_killed_is_told_of(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    running = start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))
    watching = start("watch")
    assert watching.stdout
    watching.stdout.readline()

    running.kill()
    running.wait(SECONDS)
    seen = rest_of(watching)

    assert watching.returncode == 1
    assert f"The run has ended: {latest(here).id} was killed. To continue it: ralph run --resume" in seen


def test_ctrl_c_ends_the_watching_alone(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    running = start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))
    watching = start("watch")
    assert watching.stdout
    watching.stdout.readline()

    watching.send_signal(signal.SIGINT)
    rest_of(watching)

    assert watching.returncode == 130
    assert running.poll() is None


# --- nothing to watch ------------------------------------------------------------------------


def test_before_the_first_run_there_is_nothing_to_watch(ralph: Ralph) -> None:
    ran = ralph("watch")

    assert (ran.code, ran.out) == (
        3,
        "Nothing is running: there are no runs yet. Start one with: ralph run\n",
    )


def test_when_nothing_runs_it_says_how_the_latest_run_ended(here: Path, ralph: Ralph) -> None:
    (here / "go-on").touch()
    ralph("run", "--", "sh", "agent.sh")
    id = latest(here).id

    for words in (("watch",), ("watch", id)):
        ran = ralph(*words)
        assert ran.code == 3
        assert ran.out.startswith(f"Nothing is running: {id} ended ")
        assert ran.out.endswith(": all tasks are done.\n")


def test_an_unknown_run_is_not_found(ralph: Ralph) -> None:
    ran = ralph("watch", "run-ffffffff")

    assert (ran.code, ran.error) == (1, "run-not-found")


def test_a_run_that_was_killed_before_is_not_running(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        name = f"{worker_name().rsplit('/', 2)[0]}/{2**22 + 1}/1"
        project.store.runs.start("test", json.dumps({"worker": name}))

    ran = ralph("watch")

    assert ran.code == 3
    assert "was killed. To continue it: ralph run --resume" in ran.out


def test_a_run_on_another_machine_is_watched_there(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        project.store.runs.start("test", json.dumps({"worker": "elsewhere:0:0/1/1"}))

    ran = ralph("watch")

    assert (ran.code, ran.error) == (1, "run-elsewhere")


def test_a_run_of_which_nothing_is_written_down_cannot_be_watched(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "FIRST_EVENT_SECONDS", 0.05)
    (here / run_log.LIVE_FOLDER).touch()
    start("run", "--", "sh", "agent.sh")
    wait_until(lambda: list(here.glob("started-*")))

    ran = ralph("watch")

    assert (ran.code, ran.error) == (1, "run-not-logged")


def test_events_that_an_agent_made_up_do_no_harm(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]]
) -> None:
    made_up = [
        {"what": what, "at": "", "details": details}
        for what in ("run_started", "attempt_started", "attempt_ended", "gate_ended", "note", "learned")
        for details in ({}, {"worker": "x"}, {"message": "\x1b]0;title\x07 red"}, {"iteration": [1]})
    ]
    lines = "\n".join(json.dumps(one) for one in made_up)
    (here / "made-up").write_text(f"{lines}\n")
    (here / "agent.sh").write_text(f"cat made-up >> .ralph/ralph.db-live/$RALPH_RUN_ID.jsonl\n{AGENT}")
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    for words in (("watch",), ("watch", "--format", "json")):
        watching = start(*words)
        assert watching.stdout
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        seen = rest_of(watching)
        assert watching.returncode in (0, 130)
        assert "Traceback" not in seen
        assert "\x1b]0" not in seen


def test_it_does_not_look_like_a_change_to_the_project(here: Path, ralph: Ralph) -> None:
    (here / "go-on").touch()
    ralph("run", "--", "sh", "agent.sh")
    before = {path: path.stat().st_mtime_ns for path in (here / run_log.LIVE_FOLDER).iterdir()}

    ralph("watch")

    assert {path: path.stat().st_mtime_ns for path in (here / run_log.LIVE_FOLDER).iterdir()} == before
    assert [path.name for path in before if path.is_file()] == [f"{latest(here).id}.jsonl"]
