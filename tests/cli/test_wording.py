"""What the command line says, word by word: errors, tables and messages are in golden files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.ran import Ralph, Ran, run
from tests.cli.test_cli import WRONG_SETTINGS, WRONG_USAGE
from tests.golden import assert_golden
from tests.make import set_up_project
from tests.trusting import git

pytestmark = pytest.mark.once

UNKNOWN_IDS = [
    ("task", "show", "t-nobody"),
    ("task", "add", "x", "--feature", "nobody"),
    ("feature", "show", "nobody"),
    ("memory", "show", "mem-nobody"),
    ("memory", "list", "--project", "nobody"),
    ("journal", "show", "run-00000000/1"),
    ("journal", "show", "session/nobody"),
    ("journal", "show", "session/nobody", "--transcript"),
    ("memory", "show", "ep-0000000000000000"),
    ("memory", "search", "parser", "--kind", "commit"),
    ("memory", "search", "parser", "--episodes", "--type", "fix"),
    ("learn", "promote", "mem-nobody"),
    ("project", "show", "nobody"),
    ("restore", "nothing"),
]
SESSION = """
init
task list
feature list
journal list
failures list
failures stats
memory list
memory search parser
learn list
learn promote
stats
status
backup --list
feature add Import --format quiet
task add Parser --feature Import --priority 2 --body Accept-tabs. --id t-parser
task add Printer --needs t-parser --id t-printer
task add Part --parent t-parser --id t-part
task list
task tree
task show t-parser
task deps t-printer
task deps t-printer --remove t-parser
task block t-part --reason waiting
task reset t-part
task done t-part
task log t-part
task delete t-part
feature list
feature show Import
run --max-iterations 2 -- sh agent.sh
journal list
journal search parser
failures list
failures show t-parser
failures stats
failures stats --by fingerprint
stats runs
stats models
status
memory add Use-tabs-in-the-parser. --type convention --tags parser
memory add Use-tabs-in-the-parser. --type convention
memory list
memory search parser
memory stats
memory cleanup --dry-run --min-confidence 0.99 --yes
memory consolidate --dry-run
memory verify
memory clear
memory clear --yes
project list
project show
backup
backup --list
backup --verify
restore --dry-run
setup cursor --yes
setup cursor --yes
setup cursor --uninstall --yes
"""
AGENT = """
case "$(cat)" in
  *"Previous Attempts"*) echo "<journal>The parser reads tabs.</journal><task-done>$RALPH_TASK_ID</task-done>";;
  *) printf '<failure-report>\\nwhat_tried: spaces\\nwhy_failed: the parser wants tabs\\ncategory: test_failure\\n'
     echo "</failure-report><task-failed>$RALPH_TASK_ID</task-failed>";;
esac
"""
MASKS = {
    r"\d\d\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?": "<time>",
    r"\b\d\d-\d\d \d\d:\d\d:\d\d": "<time>",
    r"\d\d\d\d-\d\d-\d\d": "<date>",
    r"<date>T[\d:.]+Z \(\d+ seconds? ago\)": "<time>",
    r"\b\d+\.\d+s\b": "<seconds>",
    r"\b\d+(\.\d+)? [KM]B\b": "<size>",
    r"\b(run|mem|f|p|chg|prj|proj)-[0-9a-f]{6,}(-[0-9a-f]{4})?\b": r"\1-<id>",
    r"\b[0-9a-f]{12,}\b": "<hash>",
    r"ralph-[\w.-]+\.db": "<backup>",
    r"\s+$": "",
    r"  +": "  ",
}


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    set_up_project(tmp_path / "project")
    return lambda *words: run(capsys, tmp_path / "project", *words)


def transcript(ralph: Ralph, tmp_path: Path, *words: str) -> str:
    """Return a command as typed, what it printed and its exit status if it failed, without what differs every time."""
    ran = ralph(*words)
    shown = (ran.out + ran.err).replace(str(tmp_path), "<directory>")
    lines = [f"$ ralph {' '.join(words)}", *shown.splitlines()]
    for pattern, mask in MASKS.items():
        lines = [re.sub(pattern, mask, line) for line in lines]
    return "\n".join([*lines, *[f"[{ran.code} {ran.error or 'usage'}]"] * bool(ran.code), ""])


def test_help_of_the_program(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    assert_golden("cli_help.txt", ralph("--help").out)


def test_errors(ralph: Ralph, tmp_path: Path) -> None:
    said = [transcript(ralph, tmp_path, *words) for words in (*WRONG_USAGE, *UNKNOWN_IDS)]
    for toml in WRONG_SETTINGS:
        (tmp_path / "project/.ralph.toml").write_text(toml)
        said.append(f"{toml.strip()}\n{transcript(ralph, tmp_path, 'status')}")

    assert_golden("cli_errors.txt", "\n".join(said))


@pytest.mark.sqlite
def test_linked_worktrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main").mkdir()
    git(tmp_path / "main", "init", "-q")
    git(tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "One")
    git(tmp_path / "main", "worktree", "add", "-q", "../linked")
    git(tmp_path, "clone", "-q", "--bare", "main", "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", "../of-bare")

    def ralph(*words: str) -> Ran:
        return run(capsys, tmp_path / words[1], *words[2:])

    said = [transcript(ralph, tmp_path, *words) for words in (("-C", "of-bare", "status"), ("-C", "linked", "status"))]
    set_up_project(tmp_path / "main")
    ways = ("status", "init", "run -- true", "init --separate", "status")
    said += [transcript(ralph, tmp_path, "-C", "linked", *words.split()) for words in ways]

    assert_golden("cli_worktrees.txt", "\n".join(said))


@pytest.mark.sqlite
def test_tables_and_messages(ralph: Ralph, tmp_path: Path) -> None:
    (tmp_path / "project/agent.sh").write_text(AGENT)

    said = [transcript(ralph, tmp_path, *line.split()) for line in SESSION.strip().splitlines()]

    assert_golden("cli_session.txt", "\n".join(said))
