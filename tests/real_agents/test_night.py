"""A night with the real Claude Code, from `ralph init` to the morning report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_agents.model_server import ModelServer, calls, says

QUESTION = "Should prices be rounded half up or half even?"
ANSWER = "Half even, as the tax office wants it."
FACT = "Prices are integers of a cent everywhere."

pytestmark = pytest.mark.usefixtures("claude")


@pytest.fixture
def shop(tmp_path: Path, agent_environment: dict[str, str]) -> Path:
    """Give a repository with one commit, in which Ralph is not set up."""
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "README.md").write_text("# Shop\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "Start")):
        subprocess.run(["git", *words], cwd=directory, check=True)
    return directory


def ralph(directory: Path, *words: str, code: int = 0) -> str:
    """Run a command as a person would, without a terminal, and return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "ralph", *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def commits(directory: Path) -> list[str]:
    """Return the commits after the first, oldest first, with their trailers."""
    told = subprocess.run(
        ["git", "log", "--reverse", "--format=%B%x00", "HEAD~2..HEAD"],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [one.strip() for one in told.split("\0") if one.strip()]


def test_a_night_ends_with_commits_an_answer_and_a_report(shop: Path, model: ModelServer) -> None:
    ralph(shop, "init")
    subprocess.run(["git", "add", "-A"], cwd=shop, check=True)
    subprocess.run(["git", "commit", "-qm", "Set up Ralph"], cwd=shop, check=True)
    ids = [
        json.loads(ralph(shop, "task", "add", title, "--format", "json"))["id"]
        for title in ("Write the price list", "Round the prices")
    ]
    model.play(
        calls("Write", {"file_path": str(shop / "prices.py"), "content": "PRICES = {'tea': 250}\n"}),
        says(f"Written.\nMEMORY:convention:{FACT}\n<task-done>{ids[0]}</task-done>", when=ids[0]),
        says(f"Only you can decide that.\n<question>{QUESTION}</question>", when=ids[1]),
    )

    ralph(shop, "run", "--agent", "claude", code=1)
    evening = ralph(shop, "report")
    model.play(
        calls("Write", {"file_path": str(shop / "rounding.py"), "content": "ROUNDING = 'half even'\n"}, when=ANSWER),
        says(f"Done as you said.\n<task-done>{ids[1]}</task-done>", when=ANSWER),
    )
    ralph(shop, "task", "answer", ids[1], ANSWER)
    ralph(shop, "run", "--agent", "claude")
    morning = ralph(shop, "report")

    first, second = commits(shop)
    assert first.startswith("Write the price list\n")
    assert second.startswith("Round the prices\n")
    assert f"Ralph-Task: {ids[0]}" in first
    assert f"Ralph-Task: {ids[1]}" in second
    assert not subprocess.run(["git", "status", "--porcelain"], cwd=shop, capture_output=True, check=True).stdout
    assert QUESTION in evening
    assert f"ralph task answer {ids[1]}" in evening
    assert FACT.rstrip(".") in evening
    assert "Round the prices" in morning
    assert QUESTION not in morning
    assert all("1 commit" in told and "no commit" not in told for told in (evening, morning))
