"""Whatever an agent does, it ends within its limits, nobody of it is left, and the run says what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.records import TaskStatus
from ralph.project import Project
from tests.faults.agents import CLAUDE, COMMON, EXPECTED, GIGABYTES, LOUD, SLOW, hostile_run, judged, run, survivors
from tests.make import set_up_project

pytestmark = [pytest.mark.sqlite, pytest.mark.skipif(sys.platform != "linux", reason="looks for survivors in /proc")]

AT_ONCE = ("daemons", "escapes", "kills_guard", "other_namespace", "locks_the_database", "dies")


@pytest.mark.slow
def test_hostile_agents_leave_nobody_behind_and_the_run_goes_on(tmp_path: Path) -> None:
    ended = hostile_run(tmp_path, AT_ONCE)

    assert judged(ended, EXPECTED) == []
    assert sorted(session.what for session in ended.sessions) == sorted(AT_ONCE)
    assert 15 < ended.peak_mb < 100
    assert (tmp_path / "project" / ".ralph").is_dir()


@pytest.mark.slow
def test_the_trial_runs_small(tmp_path: Path) -> None:
    shown = run(tmp_path, 2, 5)

    assert (shown.tried, shown.lost) == (2, 0)
    assert len({*COMMON, *LOUD, *SLOW, *GIGABYTES, *CLAUDE}) >= 45


def test_a_survivor_would_be_found_by_its_task_and_by_its_id(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    tagged = subprocess.Popen(["sleep", "60"], env={**os.environ, "RALPH_TASK_ID": "t-0a0b0c"})
    noted = subprocess.Popen(["sleep", "60"], env={}, cwd=tmp_path / "project", executable="/bin/sleep")
    (tmp_path / "t-0a0b0c.pids").write_text(f"{noted.pid}\n")
    try:
        found = {int(one.split()[0]) for one in survivors(tmp_path, "t-0a0b0c")}
    finally:
        for process in (tagged, noted):
            process.kill()
            process.wait()

    assert found == {tagged.pid, noted.pid}
    assert list(survivors(tmp_path, "t-0a0b0c")) == []


@pytest.fixture
def two_tasks(tmp_path: Path) -> Path:
    """Give the directory of a project with two tasks."""
    directory = tmp_path / "project"
    directory.mkdir()
    set_up_project(directory)
    with Project.open(directory) as project:
        project.tasks.add("A")
        project.tasks.add("B")
    return directory


def ran(directory: Path, does: str) -> tuple[int, str]:
    """Run an agent that does something once, and says that its task is done; give how that ended."""
    program = directory.parent / "agent.sh"
    program.write_text(f'#!/bin/sh\n{does}\necho "<task-done>$RALPH_TASK_ID</task-done>"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "ralph", "run", "--", "../agent.sh"], cwd=directory, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("does", ['rm -rf "$PWD"', "rm -f .ralph/ralph.db*"])
def test_an_agent_that_removes_the_project_ends_the_run_with_a_sentence(two_tasks: Path, does: str) -> None:
    code, said = ran(two_tasks, does)

    assert code == 1
    assert f"The database {two_tasks}/.ralph/ralph.db was moved or deleted while it was in use.\n" in said
    assert "Stopped: the database could not be written. 0 done in 1 attempt" in said
    assert "Traceback" not in said


def test_an_agent_that_ruins_itself_loses_no_task(two_tasks: Path) -> None:
    code, said = ran(two_tasks, "chmod -x ../agent.sh")

    assert code == 2
    assert f"{two_tasks}/../agent.sh is not executable. Run: chmod +x {two_tasks}/../agent.sh" in said
    with Project.open(two_tasks) as project:
        assert [task.status for task in project.store.tasks.all()] == [TaskStatus.DONE, TaskStatus.PENDING]


def test_an_agent_that_leaves_a_rebase_in_the_middle_does_not_stop_the_next_one(two_tasks: Path) -> None:
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    conflict = f"""if [ ! -d .git ]; then
        {git} init -q; echo 1 > a; {git} add a; {git} commit -qm 1
        {git} checkout -qb b; echo 2 > a; {git} commit -qam 2
        {git} checkout -q main; echo 3 > a; {git} commit -qam 3; {git} rebase -q b >/dev/null 2>&1
    fi"""

    code, said = ran(two_tasks, conflict)

    assert code == 0, said
    assert (two_tasks / ".git" / "rebase-merge").is_dir()
    with Project.open(two_tasks) as project:
        assert {task.status for task in project.store.tasks.all()} == {TaskStatus.DONE}


def test_an_agent_that_edits_the_settings_is_told_of_and_changes_nothing_for_this_run(two_tasks: Path) -> None:
    code, said = ran(two_tasks, "printf '[execution]\\ngates = [\"false\"]\\n' > .ralph.toml")

    assert code == 0, said
    assert said.count(".ralph.toml changed during the session.") == 1
    with Project.open(two_tasks) as project:
        assert project.config.execution.gates == ("false",)
        assert {task.status for task in project.store.tasks.all()} == {TaskStatus.DONE}
