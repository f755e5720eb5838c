"""Golden captures: what the main commands show in a terminal of 60, 100 and 200 columns, and as plain text."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from ralph.loop import run_log
from ralph.project import Project
from tests.cli.terminal import at_terminal
from tests.golden import assert_golden
from tests.make import set_up_project
from tests.waiting import wait_until

pytestmark = [pytest.mark.once, pytest.mark.sqlite]

MAX_ROWS = 200
"""Rows of the terminal in which a capture is drawn, so that none of them scrolls away."""
AGENT = """
case "$RALPH_TASK_ID $(cat)" in
  "t-parser "*"Previous Attempts"*)
    echo "<journal>The parser reads tabs now.</journal>"
    echo "MEMORY:fix:The tokenizer has to be told about tabs before the parser sees them."
    echo "<task-done>$RALPH_TASK_ID</task-done>";;
  "t-parser "*)
    printf '<failure-report>\\nwhat_tried: spaces alone\\nwhy_failed: the parser wants tabs, and the tests use both\\n'
    echo "category: test_failure"; echo "</failure-report><task-failed>$RALPH_TASK_ID</task-failed>";;
  "t-dates "*) echo "<question>ISO 8601, or the format of the customer?</question>";;
  *) while [ -e hold ]; do sleep 0.02; done
    echo "<task-done>$RALPH_TASK_ID</task-done>";;
esac
"""
MASKS = {  # All of them keep the width, so that lines break as they did.
    r"/tmp/shop-\w{8}": "/home/me/work/shop",
    r"\bshop-\w{8}": "shop-00000000",
    r"\b\d{4}-\d\d-\d\d\b": "2026-11-18",
    r"\b\d\d-\d\d \d\d:\d\d:\d\d": "11-18 09:30:00",
    r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [ \d]\d \w\w\w \d\d:\d\d": "Wed 18 Nov 09:30",
    r"\bended \d\d:\d\d": "ended 09:30",
    r"\b\d\.\d( ?)s\b": r"0.1\1s",
    r"\brun-[0-9a-f]{8}\b": "run-00000000",
    r"\bmem-\d{10}-[0-9a-f]{4}\b": "mem-0000000000-0000",
}

ESTIMATE = re.compile(r"took: 1.5 attempts, [^()]*\(median\s+of\s+2\s+done\)")
"""An estimate, whose length and so its line breaks depend on the machine."""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a directory whose name always has the same length."""
    directory = Path(tempfile.mkdtemp(prefix="shop-", dir="/tmp"))
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLUMNS", "LINES", "RALPH_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    yield directory
    shutil.rmtree(directory)


def drawn(text: str, columns: int) -> list[str]:
    """Return what a terminal shows after a text: live lines are drawn over and erased again."""
    screen = pyte.Screen(columns, MAX_ROWS)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def masked(text: str) -> str:
    for pattern, mask in MASKS.items():
        text = re.sub(pattern, mask, text)
    return ESTIMATE.sub("took: 1.5 attempts, 0 s (median of 2 done)", text)


def set_up(directory: Path) -> None:
    set_up_project(directory)
    (directory / "agent.sh").write_text(AGENT)
    with Project.open(directory) as project:
        project.tasks.add("Mend the parser, which reads a tab as if it were one space", priority=2, id="t-parser")
        project.tasks.add("Print invoices on two pages", needs=["t-parser"], id="t-printer")
        project.tasks.add("Choose the date format of the invoices", priority=1, id="t-dates")
        project.memory.add("Use tabs in the parser, never spaces, because the printer relies on their width.")
        project.memory.add("請求書の日付は常にISO 8601で書く。パーサーは他の形式を読まない。")


class Capture:
    """Commands typed in a terminal, with what it shows."""

    def __init__(self, directory: Path, columns: int, *options: str) -> None:
        self.directory, self.columns, self.options = directory, columns, options
        self.lines: list[str] = []
        self.raw = ""

    def type(self, command: str, **more: object) -> None:
        words = command.split()
        _, seen = at_terminal(self.directory, *words, *self.options, columns=self.columns, **more)  # type: ignore[arg-type]
        self.raw += seen
        self.lines += [" ".join(["$ ralph", *words]).rstrip(), masked("\n".join(drawn(seen, self.columns))), ""]

    def watch(self) -> None:
        """Watch a run that another process has started, until it ends."""
        (self.directory / "hold").touch()
        with Project.open(self.directory) as project:
            project.tasks.add("Send invoices by mail, and log which address each of them went to", id="t-mail")
        command = [sys.executable, "-m", "ralph", "-C", str(self.directory), "run", "--task", "t-mail"]
        known = set(run_log.logged_runs(self.directory))
        running = subprocess.Popen([*command, "--", "sh", "agent.sh"], stdout=subprocess.DEVNULL, cwd=self.directory)
        wait_until(lambda: set(run_log.logged_runs(self.directory)) - known)
        self.type("watch", typed=[("t-mail", (self.directory / "hold").unlink)])
        running.wait()


def play(capture: Capture) -> None:
    """Type the main commands, outside a project and in one."""
    capture.type("")
    set_up(capture.directory)
    for command in (
        "",
        "task list",
        "memory list",
        "memory search tabs",
        "run -- sh agent.sh",
        "status",
        "",
        "task show t-dates",
    ):
        capture.type(command)
    capture.type("report")
    capture.watch()


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_what_a_terminal_shows(shop: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    capture = Capture(shop, columns)

    play(capture)

    assert_golden(f"terminal_{columns}.txt", "\n".join(capture.lines))


def test_plain_text_has_no_colors_symbols_and_moving_lines(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setenv("RALPH_PLAIN", "1")
    capture = Capture(shop, 250)

    play(capture)

    assert_golden("terminal_plain.txt", "\n".join(capture.lines))
    ours = re.sub("[\u3000-\u9fff\uff00-\uffef]", "", capture.raw)
    assert {character for character in ours if not (character.isascii() and character.isprintable())} <= {"\n", "…"}
