"""The terminal during a run: how far it is stays at the bottom, and lines above it break between words."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ralph.cli.status_line import RunStatusLine, format_minutes, wrap_words
from ralph.core.records import timestamp
from ralph.loop.progress import ProgressEvent, progress_event
from ralph.project import Project
from ralph.workspace import init_project
from tests.cli.terminal import at_terminal

NOW = time.mktime((2026, 11, 18, 1, 0, 0, 0, 0, -1))
AGENT = """
cat > /dev/null
sleep 0.5 # the line is drawn eight times a second
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


def how_far(what: str = "attempt_ended", **changes: object) -> ProgressEvent:
    run = {"done": 4, "total": 12, "waiting": 0, "cost_usd": 0.42, "seconds": 370.0, "next_reset": ""}
    return ProgressEvent(what=what, at=timestamp(NOW), details={"run": {**run, **changes}})


def test_it_says_how_far_the_run_is() -> None:
    line = RunStatusLine(lambda: NOW)
    assert line.render(80) == ""

    line.follow(how_far(next_reset=timestamp(NOW + 2 * 3600)))
    assert line.render(80) == "4/12 done · $0.42 · 6 min · next reset 03:00"

    line.follow(how_far(waiting=1, cost_usd=0, seconds=7_500))
    assert line.render(80) == "4/12 done · 1 needs you · 2 h 05 min"

    line.follow(progress_event("waiting_for_limit", agent="claude", until=timestamp(NOW + 3600), seconds=3600.0))
    assert line.render(80).endswith("next reset 02:00")

    line.follow(progress_event("paused"))
    assert line.render(80).startswith("4/12 done · paused · ")

    line.follow(how_far("attempt_started"))
    assert "paused" not in line.render(80)

    line.follow(progress_event("run_ended"))
    assert line.render(80) == ""


@pytest.mark.parametrize("width", [60, 30, 20, 12, 9, 4])
def test_what_does_not_fit_is_left_out_as_a_whole(width: int) -> None:
    line = RunStatusLine(lambda: NOW)
    line.follow(how_far(next_reset=timestamp(NOW + 60)))

    shown = line.render(width)

    assert len(shown) <= width
    assert "4/12 done · $0.42 · 6 min · next reset 01:01".startswith(shown)


def test_a_malformed_event_is_refused_before_it_is_drawn() -> None:
    line = RunStatusLine(lambda: NOW)
    malformed: tuple[object, ...] = ({}, [], {"done": "many"}, "text")
    for run in malformed:
        with pytest.raises((LookupError, TypeError, ValueError)):
            line.follow(progress_event("attempt_ended", run=run))
    assert line.render(80) == ""


def test_durations_are_in_minutes() -> None:
    assert [format_minutes(one) for one in (0.4, 59, 60, 3_599, 3_600, 90_000)] == [
        *("0 s", "59 s", "1 min", "59 min", "1 h 00 min", "25 h 00 min")
    ]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_lines_break_between_words_and_lose_none(width: int) -> None:
    line = "[2]    ✗ t-1 failed: the parser of the tariffs 料金表 cannot read umlauts in the last column of the file"

    rows = wrap_words(line, width)

    assert " ".join(" ".join(rows).split()) == " ".join(line.split())
    assert rows[0].startswith("[2]    ✗")
    assert all(row.startswith("    ") for row in rows[1:])
    assert all(len(row) <= width for row in rows)
    path = "/a/very/long/path/that/is/one/word/and/stays/so.py"
    assert path in "".join(wrap_words(f"   merged: {path} and more", width))


@pytest.mark.parametrize("columns", ["60", "140"])
def test_it_stays_below_the_lines_of_a_run(tmp_path: Path, columns: str) -> None:
    init_project(tmp_path)
    (tmp_path / "agent.sh").write_text(AGENT)
    with Project.open(tmp_path) as project:
        for number in range(3):
            project.tasks.add(f"Repair number {number} of the parsers so that umlauts and long sentences survive it")

    environment = {"COLUMNS": columns, "NO_COLOR": "1"}
    code, seen = at_terminal(tmp_path, "run", "--", "sh", "agent.sh", environment=environment)

    assert code == 0
    assert "0/3 done · " in seen
    assert "2/3 done · " in seen
    for word in "Repair umlauts sentences survive".split():
        assert seen.count(word) >= 3  # never broken in two
    assert "\x1b[1m" in seen  # bold is no color


def test_a_log_file_gets_plain_lines(tmp_path: Path) -> None:
    init_project(tmp_path)
    code, seen = at_terminal(tmp_path, "run", "--", "true", environment={"TERM": "dumb"})

    assert code == 3
    assert "\x1b" not in seen
