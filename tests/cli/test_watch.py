"""`ralph watch`: a run in one terminal, seen from another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ralph.cli import watch_keys
from ralph.cli.keys import Keys
from ralph.cli.live_view import LiveProgressView
from ralph.cli.progress import ProgressView
from ralph.core.records import Run, timestamp
from ralph.loop import run_log, run_watch
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
    about = {"iteration": 1, "task_id": "t-1", "title": "Mend the parser", "attempt": 1}
    details = {**about, "model": "", "hat": "creator", "with_memory": True, "run": run}
    event = ProgressEvent(what="attempt_started", at=timestamp(time.time() - 600), details=details)

    with LiveProgressView() as view:
        view.show(event)

    assert "10m 0" in view._activities["", 0].elapsed()
    assert "10 min" in view._statuses[""].render(80)


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

    shown = [json.loads(line) for line in rest_of(running).splitlines()]
    assert seen == [{**one, "run_id": latest(here).id} for one in shown]
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


# --- waiting, and several runs -----------------------------------------------------------------


def test_it_waits_for_a_run_and_shows_all_of_it(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    (here / "go-on").touch()
    with Project.open(here) as project:
        project.tasks.add("Write the printer")
    watching = start("watch")
    assert watching.stdout
    waiting = watching.stdout.readline()

    shown = rest_of(start("run", "--", "sh", "agent.sh"))

    assert waiting == "Waiting for a run. Start one with: ralph run\n"
    assert rest_of(watching) == shown
    assert watching.returncode == 0


def test_several_runs_are_followed_until_the_last_one_ends(
    here: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    with Project.open(here) as project:
        project.tasks.add("Write the printer")
    runs = [start("run", "--max-iterations", "1", "--", "sh", "agent.sh")]
    wait_until(at_work(here))
    watching = start("watch", "--format", "json")
    runs.append(start("run", "--max-iterations", "1", "--", "sh", "agent.sh"))
    wait_until(lambda: len(list(here.glob("started-*"))) == 2 and len(run_log.logged_runs(here)) == 2)
    ids = set(run_log.logged_runs(here))
    assert watching.stdout
    seen = [json.loads(watching.stdout.readline())]
    while {one["run_id"] for one in seen} != ids:
        seen.append(json.loads(watching.stdout.readline()))
    (here / "go-on").touch()

    seen += [json.loads(line) for line in rest_of(watching).splitlines()]

    assert {one["run_id"] for one in seen if one["event"] == "run_ended"} == ids
    assert watching.returncode == 0


def test_lines_name_their_run_when_there_are_several(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    with Project.open(here) as project:
        project.tasks.add("Write the printer")
    for count in (1, 2):
        start("run", "--max-iterations", "1", "--", "sh", "agent.sh")
        wait_until(lambda count=count: len(list(here.glob("started-*"))) == count)  # type: ignore[misc]
    wait_until(lambda: len(run_log.logged_runs(here)) == 2)
    watching = start("watch")
    assert watching.stdout
    first = watching.stdout.readline()
    (here / "go-on").touch()

    lines = [first, *rest_of(watching).splitlines()]

    assert {line.partition(": ")[0] for line in lines} == set(run_log.logged_runs(here))


# --- keys --------------------------------------------------------------------------------------

ASKING_AGENT = """
cat > /dev/null
echo "I look at the parser."
touch started-$RALPH_TASK_ID
while [ ! -e go-on ]; do sleep 0.02; done
rm go-on
[ -e asked ] && echo "<task-done>$RALPH_TASK_ID</task-done>"
[ -e asked ] || echo "<question>Tabs or spaces?</question>"
touch asked
"""


def answers(here: Path) -> list[str]:
    with Project.open(here) as project:
        (task,) = project.tasks.list()
        return [one.answer for one in project.tasks.get(task.id).questions]


def test_keys_pause_show_answer_and_resume(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    with Project.open(here) as project:
        project.memory.add("The parser reads tabs.")
    (here / "agent.sh").write_text(ASKING_AGENT)
    start("run", "--wait", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    code, seen = at_terminal(
        here,
        "watch",
        typed=[
            ("m memories", "m"),
            ("1 memory in its prompt", "l"),
            ("> I look at the parser.", "p"),
            ("p continue", lambda: (here / "go-on").touch()),
            ("Paused.", "a"),
            ("Answer", "Tabs.\n"),
            ("Answered: ", "p"),
            ("(attempt 2)", "s"),
            ("y / n", "y"),
            ("a person stopped it", ""),
        ],
    )

    assert code == 0
    assert "Traceback" not in seen
    assert answers(here) == ["Tabs."]
    assert latest(here).ending == "a person stopped it"


def test_an_answered_task_no_longer_counts_as_waiting(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]]
) -> None:
    (here / "agent.sh").write_text(ASKING_AGENT)
    (here / "go-on").touch()
    running = start("run", "--wait", "--format", "json", "--", "sh", "agent.sh")
    assert running.stdout

    def next_event(name: str) -> dict[str, Any]:
        assert running.stdout
        events = map(json.loads, running.stdout)
        return next(one for one in events if one["event"] == name)

    asked = next_event("attempt_ended")
    ralph("task", "answer", asked["task_id"], "Tabs.")
    again = next_event("attempt_started")

    assert [(one["run"]["waiting"], one["run"]["total"]) for one in (asked, again)] == [(1, 1), (0, 1)]


def test_q_ends_the_watching_alone(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    running = start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    code, _ = at_terminal(here, "watch", typed=[("q quit", "q")])

    assert code == 0
    assert running.poll() is None


def test_a_terminal_is_as_before_when_the_watching_is_ended_from_elsewhere(here: Path) -> None:
    def end() -> None:
        (watching,) = [one for one in psutil.Process().children(recursive=True) if "watch" in one.cmdline()]
        watching.terminate()

    script = f"{sys.executable} -m ralph -C {here} watch; stty -a; echo over"
    _, seen = at_terminal(here, program=["/bin/sh", "-c", script], typed=[("q quit", end), ("over", "")])

    assert " echo " in seen
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")


def test_keys_work_on_plain_lines_too(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    running = start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    code, seen = at_terminal(
        here, "watch", "--plain", typed=[("q quit", "m"), ("no memories in its prompt", "s"), ("y / n", "y")]
    )

    assert code == 0
    assert "\x1b" not in seen
    running.wait(SECONDS)
    assert latest(here).ending == "a person stopped it"


def test_the_run_is_followed_while_a_question_is_open(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    code, _ = at_terminal(
        here,
        "watch",
        "--plain",
        typed=[("q quit", "s"), ("y / n", lambda: (here / "go-on").touch()), ("Stopped: all tasks are done", "")],
    )

    assert code == 0


@pytest.mark.parametrize(("seconds", "request_after"), [(0.0, ""), (60.0, "stop")])
def test_a_question_is_dropped_after_a_while(
    here: Path,
    start: Callable[..., subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    request_after: str,
) -> None:
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))
    monkeypatch.setattr(watch_keys, "QUESTION_SECONDS", seconds)
    with Project.open(here) as project:
        watcher = run_watch.RunWatcher(project.store, project.directory, "")
        watcher.look()
        controls = watch_keys.WatchKeys(project, watcher, ProgressView(), Keys(is_on=False))

        controls.press("s")
        asked = controls.help
        controls.drop_old_question()
        controls.press("y")

        assert asked.endswith("y / n")
        assert controls.help == watch_keys.keys_help()
        assert latest(here).request == request_after


def test_the_keys_say_that_p_continues_a_run_that_was_paused_elsewhere(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]]
) -> None:
    start("run", "--", "sh", "agent.sh")
    wait_until(at_work(here))

    code, seen = at_terminal(
        here, "watch", typed=[("p pause", lambda: ralph("pause")), ("p continue", "p"), ("p pause", "q")]
    )

    assert code == 0
    assert "Traceback" not in seen
    assert latest(here).request == ""


def test_a_key_that_an_agent_may_not_use_says_so(here: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    """A session of the loop can open a terminal of its own, and must not steer the run that it is part of."""
    script = (
        "import pty, os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from tests.cli.terminal import at_terminal\n"
        "code, seen = at_terminal(Path('.'), 'watch', typed=[('q quit', 'p'), ('Agents cannot', 'q')])\n"
        "Path('seen').write_text(f'{code} {seen}')\n"
    )
    (here / "steer.py").write_text(script)
    (here / "agent.sh").write_text(
        f"cat > /dev/null; {sys.executable} steer.py; echo '<task-done>'$RALPH_TASK_ID'</task-done>'"
    )

    running = start("run", "--", "sh", "agent.sh")
    said = rest_of(running)

    assert (here / "seen").read_text().startswith("0 "), said
    assert latest(here).ending == "all tasks are done"


# --- nothing to watch ------------------------------------------------------------------------


def test_before_the_first_run_there_is_nothing_to_watch(ralph: Ralph) -> None:
    ran = ralph("watch", "--no-wait")

    assert (ran.code, ran.out) == (
        3,
        "Nothing is running: there are no runs yet. Start one with: ralph run\n",
    )


def test_when_nothing_runs_it_says_how_the_latest_run_ended(here: Path, ralph: Ralph) -> None:
    (here / "go-on").touch()
    ralph("run", "--", "sh", "agent.sh")
    id = latest(here).id

    for words in (("watch", "--no-wait"), ("watch", id)):
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

    ran = ralph("watch", "--no-wait")

    assert ran.code == 3
    assert "was killed. To continue it: ralph run --resume" in ran.out


def test_a_run_on_another_machine_is_watched_there(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        project.store.runs.start("test", json.dumps({"worker": "elsewhere:0:0/1/1"}))

    ran = ralph("watch", "--no-wait")

    assert (ran.code, ran.error) == (1, "run-elsewhere")


def test_a_run_of_which_nothing_is_written_down_cannot_be_watched(
    here: Path, ralph: Ralph, start: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "FIRST_EVENT_SECONDS", 0.05)
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

    ralph("watch", "--no-wait")

    assert {path: path.stat().st_mtime_ns for path in (here / run_log.LIVE_FOLDER).iterdir()} == before
    assert [path.name for path in before if path.is_file()] == [f"{latest(here).id}.jsonl"]
