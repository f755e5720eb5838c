"""`ralph` without a command: one screen that says what to do next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ralph.project import Project
from tests.cli.ran import Ralph, run
from tests.cli.terminal import at_terminal
from tests.make import set_up_project

ROWS = 24


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, tmp_path, *words)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    set_up_project(tmp_path)
    return Project.open(tmp_path)


def first_command(ralph: Ralph) -> str:
    """Return the command that the summary puts first."""
    ran = ralph()
    assert ran.code == 0
    return str(next(line for line in ran.out.splitlines() if line.startswith("Next"))[11:].partition("  ")[0])


def test_outside_a_project_it_says_what_this_is_and_how_to_start(ralph: Ralph, tmp_path: Path) -> None:
    ran = ralph()

    assert ran.code == 0
    for command in ("ralph init", "ralph setup claude", "ralph task add", "ralph run --agent claude", "ralph --help"):
        assert command in ran.out
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_follows_from_the_state_of_the_project(ralph: Ralph, project: Project) -> None:
    assert first_command(ralph) == 'ralph task add "Describe the task"'

    task = project.tasks.add("Mend the parser")
    assert first_command(ralph) == "ralph run --agent claude"

    asked = ralph("run", "--", "sh", "-c", "cat > /dev/null; echo '<question>Tabs or spaces?</question>'")
    assert asked.code == 1
    assert first_command(ralph) == f'ralph task answer {task.id} "…"'
    assert f"{task.id} Mend the parser: asks: Tabs or spaces?" in ralph().out

    ralph("task", "answer", task.id, "Tabs.")
    ralph("run", "--", "sh", "-c", 'cat > /dev/null; echo "<task-done>$RALPH_TASK_ID</task-done>"')
    assert first_command(ralph) == "ralph report"
    project.close()


def test_what_failed_for_good_is_reset(ralph: Ralph, project: Project) -> None:
    task = project.tasks.add("Mend the parser")
    project.tasks.fail(task.id, "it cannot be done")

    assert first_command(ralph) == f"ralph task reset {task.id}"
    project.close()


def test_it_fits_on_one_screen_of_any_width(project: Project, tmp_path: Path) -> None:
    for number in range(12):
        task = project.tasks.add(f"Task {number} with a title that is much longer than a narrow terminal is wide")
        if number % 2:
            project.tasks.block(task.id, "a reason that is much longer than a narrow terminal is wide, and then some")
    project.close()

    for width in (40, 60, 200):
        code, seen = at_terminal(tmp_path, columns=width)
        lines = seen.splitlines()
        assert code == 0
        assert len(lines) <= ROWS
        assert max(map(len, lines)) <= width + len("\x1b[1m\x1b[0m") * 3  # what is bold or colored


@pytest.mark.sqlite
def test_it_loads_as_little_as_status(project: Project, tmp_path: Path) -> None:
    project.tasks.add("Mend the parser")
    project.close()
    code = "import sys; from ralph.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"

    def loaded(*words: str) -> set[str]:
        command = [sys.executable, "-c", code, "-C", str(tmp_path), *words]
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())

    assert loaded() - loaded("status") == {"ralph.cli.summary"}
