"""`make test-agents` runs with real agents, says that there is no npm, or fails: it never passes in silence."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.storeless

ROOT = Path(__file__).parents[2]
SKIPPED = "the tests with"


def make_agents(directory: Path, npm: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    """Have the agents installed by an npm that does this."""
    if not shutil.which("make"):
        pytest.skip("make is not installed here")
    programs, node = directory / "programs", directory / "tests" / "real_agents" / "node"
    for folder in (programs, node, directory / ".venv" / "bin"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", directory)
    (directory / ".venv" / "bin" / "python").touch()
    for name in ("package.json", "package-lock.json"):
        (node / name).touch()
    for name in ("sh", "rm", "mkdir", "cp", "mv", "touch"):
        (programs / name).symlink_to(shutil.which(name) or name)
    if npm:
        for name, code in {"npm": npm, "node": "exit 0"}.items():
            (programs / name).write_text(f"#!/bin/sh\n{code}\n")
            (programs / name).chmod(0o755)
    return subprocess.run(
        [shutil.which("make") or "make", ".venv/.agents", *words],
        cwd=directory,
        env={"PATH": str(programs), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
    )


def test_agents_that_npm_cannot_install_are_a_failure(tmp_path: Path) -> None:
    made = make_agents(tmp_path, '[ "$1" = view ]')

    assert made.returncode != 0
    assert "npm could not install the agents" in made.stderr
    assert [path.name for path in (tmp_path / ".venv").iterdir()] == ["bin"]


def test_without_them_it_goes_on_where_that_was_asked_for(tmp_path: Path) -> None:
    made = make_agents(tmp_path, "exit 1", "AGENTS=skip")

    assert (made.returncode, made.stderr) == (0, "")
    assert SKIPPED in made.stdout
    assert not (tmp_path / ".venv" / ".agents").exists()


def test_where_npm_reaches_no_packages_the_tests_are_skipped(tmp_path: Path) -> None:
    made = make_agents(tmp_path, "exit 1")

    assert (made.returncode, made.stderr) == (0, "")
    assert SKIPPED in made.stdout
    assert not (tmp_path / ".venv" / ".agents").exists()


def test_without_npm_the_tests_are_skipped(tmp_path: Path) -> None:
    made = make_agents(tmp_path, None)

    assert (made.returncode, made.stderr) == (0, "")
    assert SKIPPED in made.stdout


def test_agents_that_were_installed_are_not_installed_again(tmp_path: Path) -> None:
    made = make_agents(tmp_path, "exit 0")

    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / ".venv" / ".agents").exists()
    assert (tmp_path / ".venv" / "agents" / "package.json").exists()
