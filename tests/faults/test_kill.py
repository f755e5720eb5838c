"""`kill -9` of `ralph run`, at many moments: nothing acknowledged is lost, and the next run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ralph.core.errors import UsageError
from ralph.core.files import TEMPORARY_FILE_SECONDS
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from tests.faults import kill
from tests.faults.traced import can_trace
from tests.make import damaged_rows, set_up_project

AGENT = """
echo "$RALPH_TASK_ID" >> started.txt
sleep 0.05
echo "<knowledge tags=\\"task\\" title=\\"About $RALPH_TASK_ID\\">It was $RALPH_TASK_ID.</knowledge>"
echo "<journal>Did $RALPH_TASK_ID.</journal><task-done>$RALPH_TASK_ID</task-done>"
"""
TASKS = 25
KILLS = 12


def start(directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--format", "json", "--", "sh", "agent.sh"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_a_run_killed_again_and_again_loses_nothing_and_ends_well(tmp_path: Path) -> None:
    set_up_project(tmp_path)
    (tmp_path / "agent.sh").write_text(AGENT)
    with Project.open(tmp_path) as project:
        ids = [project.tasks.add(f"Task {n}").id for n in range(TASKS)]
    acknowledged: set[str] = set()

    for turn in range(KILLS):
        run = start(tmp_path)
        time.sleep(0.25 + 0.07 * turn)
        os.kill(run.pid, signal.SIGKILL)
        output, _ = run.communicate()
        for line in output.splitlines():
            if line.endswith(b"}"):
                event = json.loads(line)
                if event["event"] == "attempt_ended" and event["outcome"] == "done":
                    acknowledged.add(event["task_id"])
        with Project.open(tmp_path) as project:
            done = {task.id for task in project.store.tasks.all() if task.status is TaskStatus.DONE}
            assert acknowledged <= done
            assert damaged_rows(project.store) == []
    last = start(tmp_path)
    last.communicate(timeout=60)

    assert last.returncode in (0, 3)
    with Project.open(tmp_path) as project:
        attempts = project.store.attempts.latest(1000)
        assert {task.id for task in project.store.tasks.all() if task.status is TaskStatus.DONE} == set(ids)
        assert project.store.attempts.running() == []
        for id in ids:
            mine = [attempt.outcome for attempt in attempts if attempt.task_id == id]
            assert mine.count(AttemptOutcome.DONE) == 1
            assert set(mine) <= {AttemptOutcome.DONE, AttemptOutcome.INTERRUPTED}
        titles = [memory.title for memory in project.store.memories.all() if memory.kind == "knowledge"]
        assert sorted(titles) == sorted(f"About {id}" for id in ids)
        assert damaged_rows(project.store) == []


def test_an_agent_does_not_outlive_a_killed_run(tmp_path: Path) -> None:
    set_up_project(tmp_path)
    (tmp_path / "agent.sh").write_text("setsid sleep 301 & sleep 302 & echo $$ > agent.pid; sleep 303\n")
    with Project.open(tmp_path) as project:
        project.tasks.add("A")
    run = start(tmp_path)
    deadline = time.monotonic() + 10
    while not (tmp_path / "agent.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    family = psutil.Process(run.pid).children(recursive=True)
    assert len(family) >= 4

    os.kill(run.pid, signal.SIGKILL)
    run.communicate()

    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


@pytest.mark.sqlite
def test_what_a_killed_writer_acknowledged_is_there_and_the_rest_wholly_or_not_at_all(tmp_path: Path) -> None:
    shown = kill.run(tmp_path, 16, 5)

    assert shown.lost == 0
    assert shown.tried >= 12
    acknowledged, at_calls, any_moment, cut_off, _ = kill.figures(shown)
    assert min(acknowledged, any_moment, cut_off) > 0
    assert at_calls > 0 or not can_trace()


@pytest.mark.once
def test_a_task_that_is_added_again_under_the_same_id_is_one_task(project: Project) -> None:
    first = project.tasks.add("Mend the parser", "It fails on tabs.", id="mend-parser")
    project.tasks.done("mend-parser")

    again = project.tasks.add("Mend the parser", "It fails on tabs.", id="mend-parser")

    assert (again.id, again.status) == (first.id, TaskStatus.DONE)
    assert len(project.tasks.list()) == 1
    with pytest.raises(UsageError, check=lambda error: error.code == "task-exists"):
        project.tasks.add("Something else", id="mend-parser")
    with pytest.raises(UsageError):
        project.tasks.add("Mend the parser", id="../parser")


@pytest.mark.once
def test_what_a_killed_writer_left_half_made_is_removed_once_nobody_can_be_at_work_on_it(project: Project) -> None:
    with project.synced():
        project.memory.add("The parser wants tabs.")
    folder = project.root / ".agent"
    old, young = folder / ".memories.md.77.0a1b2c.new", folder / ".memories.md.78.0a1b2d.new"
    for path in (old, young, folder / "mine.new"):
        path.write_text("half")
    at = time.time() - TEMPORARY_FILE_SECONDS - 1
    os.utime(old, (at, at))

    with project.synced():
        project.memory.add("The lexer wants spaces.")

    assert sorted(one.name for one in folder.iterdir()) == [young.name, "memories.md", "mine.new"]
