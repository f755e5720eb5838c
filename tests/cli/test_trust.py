"""The question about trust, as a person at a terminal sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.trust import review_trust
from ralph.workspace import init_project
from tests.cli.ran import run
from tests.cli.terminal import at_terminal
from tests.trusting import make_clone

pytestmark = pytest.mark.sqlite
QUESTION = "Trust this directory on this machine? [y/N] "
GATES = '[execution]\ngates = ["make lint", "touch gate"]\n[agent]\ncommand = ["sh", "-c", "touch ran"]\n'


@pytest.fixture(autouse=True)
def nobody_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RALPH_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "clone", GATES)


@pytest.mark.parametrize("answer", ["\n", "n\n", "\x04"])
def test_a_run_asks_and_anything_but_yes_runs_nothing(clone: Path, answer: str) -> None:
    init_project(clone)

    code, seen = at_terminal(clone, "run", typed=[(QUESTION, answer)])

    assert code == 2
    assert "+ sh -c 'touch ran'" in seen
    assert "+ make lint" in seen
    assert not (clone / "ran").exists()


def test_a_run_goes_on_after_yes_and_asks_again_with_the_difference(clone: Path) -> None:
    init_project(clone)
    at_terminal(clone, "task", "add", "Something")

    first, _ = at_terminal(clone, "run", "--max-iterations", "1", typed=[(QUESTION, "y\n")])
    ran = (clone / "ran").exists()
    again, quiet = at_terminal(clone, "run", "--max-iterations", "1")
    (clone / ".ralph.toml").write_text(GATES.replace("touch gate", "true"))
    changed, seen = at_terminal(clone, "run", typed=[(QUESTION, "n\n")])

    assert (first, ran, again, changed) == (0, True, 0, 2)
    assert QUESTION not in quiet
    assert "- touch gate" in seen
    assert "+ true" in seen
    assert "has changed since it was trusted" in seen


@pytest.mark.parametrize(("answer", "is_trusted"), [("y\n", True), ("n\n", False)])
def test_init_asks_in_a_clone_that_brings_something(clone: Path, answer: str, is_trusted: bool) -> None:
    offered = [("Import them? [Y/n]", "n\n")] if is_trusted else []  # commits of somebody else are not past work
    code, seen = at_terminal(clone, "init", typed=[(QUESTION, answer), *offered])

    assert code == 0
    assert f"{clone} is not trusted" in seen.replace("\r\n", "")
    assert "1 memory" in seen
    assert (clone / ".ralph/ralph.db").exists()
    assert review_trust(clone).is_trusted == is_trusted
    assert ("Review it with: ralph trust" in seen) != is_trusted


def test_an_agent_at_a_terminal_is_not_asked(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init_project(clone)
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    code, seen = at_terminal(clone, "run")

    assert code == 2
    assert QUESTION not in seen


def test_other_commands_warn_and_do_not_ask(clone: Path) -> None:
    init_project(clone)

    code, seen = at_terminal(clone, "status")

    assert code == 0
    assert "execution.gates" in seen
    assert QUESTION not in seen


def test_without_a_terminal_a_refused_run_says_why_once(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(clone)

    ran = run(capsys, clone, "run")

    assert (ran.code, ran.error) == (2, "not-trusted")
    assert ran.err.count("execution.gates") == 1
