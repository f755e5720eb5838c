"""`ralph stats`: what it came to, as tables, JSON and charts."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ralph.core.records import FAILED_OUTCOMES, Attempt, AttemptOutcome, now
from ralph.project import Project
from ralph.store.rows import to_columns
from ralph.store.tasks import TaskDraft
from tests.cli.ran import Ralph, Ran, run
from tests.cli.terminal import at_terminal
from tests.make import a_memory, remember, set_up_project

SUBJECTS = ("runs", "models", "tasks", "failures", "memory", "lift")
PLOTTED = ("runs", "models", "memory", "lift")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one `ralph stats` command."""

    def stats(*words: str) -> Ran:
        return run(capsys, here, "stats", *words)

    return stats


def work(here: Path, runs: int = 3, attempts: int = 40, **fields: object) -> None:
    """Let runs have happened: two models, a holdout of a third, memories that were shown."""
    chance = random.Random(4)
    settings: dict[str, object] = {"holdout": 0.33, "cost_usd": 0.05, "tokens_in": 900, "tokens_out": 100, "seconds": 9}
    settings["task_kind"] = "general"
    with Project.open(here) as project:
        store = project.store
        tasks = store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(runs * attempts)])
        for number in range(runs):
            started = store.runs.start("rehearsal")
            with store.transaction():
                for n in range(attempts):
                    outcome = AttemptOutcome.DONE if chance.random() < 0.6 else FAILED_OUTCOMES[n % 4]
                    one: dict[str, object] = {
                        "run_id": started.id,
                        "iteration": n + 1,
                        "task_id": tasks[number * attempts + n].id,
                        "number": 1,
                        "model": "haiku" if n % 3 else "opus",
                        "model_reason": "the cheapest that solved such tasks",
                        "outcome": outcome,
                        "with_memory": chance.random() > 0.33,
                        "started_at": now(),
                        "ended_at": now(),
                    }
                    store.scope.insert("attempts", **to_columns(Attempt(**(one | settings | fields))))  # type: ignore[arg-type]
                store.scope.execute(
                    "UPDATE runs SET iterations = :n WHERE project_id = :project_id AND id = :id",
                    n=attempts,
                    id=started.id,
                )
            store.runs.end(started.id, "all tasks are done")
        for n in range(6):
            at = f"2026-01-{n + 1:02d}T08:00:00.000Z"
            kind = "fix" if n % 2 else "pitfall"
            counts = {"wins": n, "losses": 5 - n, "uses": 5, "confidence": 0.5, "created_at": at}
            remember(store, a_memory(f"Fact {n}", f"The body of fact {n}.", kind=kind, **counts))


def seen_at(columns: int, here: Path, *words: str) -> list[str]:
    """Return the lines `ralph stats` shows in a terminal of so many columns."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command = [sys.executable, "-m", "ralph", "-C", str(here), "stats", *words]
    seen = b""
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "NO_COLOR": "1"}):
        os.close(theirs)
        with contextlib.suppress(OSError):  # that is how a terminal ends
            while more := os.read(ours, 4096):
                seen += more
    os.close(ours)
    return seen.decode().replace("\r\n", "\n").splitlines()


# --- nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), *((subject,) for subject in SUBJECTS)])
def test_an_empty_project_gets_one_clear_sentence(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)

    assert ran.code == 0, ran.err
    assert ran.out.count("\n") == 1
    assert "ralph " in ran.out
    assert ralph(*words, "--format", "json").code == 0


# --- tables and JSON -------------------------------------------------------------------------


def test_runs_show_what_came_of_each(here: Path, ralph: Ralph) -> None:
    work(here)

    ran, told = ralph("runs"), ralph("runs", "--format", "json").json

    heading, *rows = ran.out.splitlines()
    assert heading.split() == "RUN STARTED AGENT ITER DONE RATE TIME TOKENS COST ENDING".split()
    assert [row.split()[0] for row in rows] == [one["id"] for one in told]
    first = told[0]
    assert first["done"] + first["failed"] == first["iterations"] == 40
    assert first["success_rate"] == pytest.approx(first["done"] / 40)
    assert (first["tokens"], first["cost_usd"]) == (40_000, pytest.approx(2.0))
    assert "6m 00s" in rows[0]
    assert "40.0k" in rows[0]
    assert "$2.00" in rows[0]
    assert rows[0].endswith("all tasks are done")


def test_at_most_twenty_runs_are_shown_newest_first(here: Path, ralph: Ralph) -> None:
    work(here, runs=22, attempts=2)

    told = ralph("runs", "--format", "json").json

    assert len(told) == 20
    assert told == sorted(told, key=lambda one: str(one["started_at"]), reverse=True)


def test_models_show_their_price_and_why_they_were_chosen(here: Path, ralph: Ralph) -> None:
    work(here)

    ran, told = ralph("models"), ralph("models", "--format", "json").json

    assert [one["model"] for one in told["models"]] == ["haiku", "opus"]
    opus = told["models"][1]
    assert opus["attempts"] == opus["done"] + opus["failed"] == 42
    assert opus["cost_per_done_usd"] == pytest.approx(42 * 0.05 / opus["done"])
    assert len(told["decisions"]) == 10
    assert told["decisions"][0]["reason"] == "the cheapest that solved such tasks"
    assert "Latest decisions" in ran.out
    assert ran.out.count("the cheapest that solved such tasks") == 10


def test_a_model_nobody_named_is_the_agents_own(here: Path, ralph: Ralph) -> None:
    work(here, model=None, cost_usd=0.0)

    assert "(agent default)  120" in ralph("models").out


def test_what_no_agent_told_is_not_zero(here: Path, ralph: Ralph) -> None:
    work(here, cost_usd=0.0, tokens_in=None, tokens_out=None)

    told = ralph("--format", "json").json

    assert {(run["tokens"], run["cost_usd"]) for run in told["runs"]} == {(None, None)}
    assert {(one["tokens"], one["cost_usd"], one["cost_per_done_usd"]) for one in told["models"]} == {
        (None, None, None)
    }
    assert "6m 00s  -       -     all tasks are done" in ralph("runs").out
    assert "9.0s       -       -     -\n" in ralph("models").out
    assert "tokens and cost unknown; latest run: " in ralph().out
    assert not any("$" in ralph(*words, "--chart").out for words in ((), ("runs",), ("models",)))


def test_of_tokens_and_cost_each_is_told_by_itself(here: Path, ralph: Ralph) -> None:
    work(here, cost_usd=0.0)

    told = ralph("models", "--format", "json").json["models"][0]

    assert (told["tokens"], told["cost_usd"]) == (78_000, None)
    assert "120.0k tokens, cost unknown;" in ralph().out


def test_memory_shows_kinds_growth_and_what_helped(here: Path, ralph: Ralph) -> None:
    work(here)

    ran, told = ralph("memory"), ralph("memory", "--format", "json").json

    assert (told["memories"], told["shown"], told["wins"], told["losses"]) == (6, 30, 15, 15)
    assert {one["kind"]: one["success_rate"] for one in told["kinds"]} == {"fix": 0.6, "pitfall": 0.4}
    assert [one["memories"] for one in told["growth"]] == [1, 2, 3, 4, 5, 6]
    assert [one["title"] for one in told["helpful"]] == ["Fact 5", "Fact 4", "Fact 3"]
    assert [one["title"] for one in told["doubtful"]] == ["Fact 0", "Fact 1", "Fact 2"]
    assert ran.out.index("Most helpful") < ran.out.index("Fact 5") < ran.out.index("Least helpful")


def test_a_young_memory_grows_by_the_hour(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        for n in range(3):
            remember(project.store, a_memory(f"Fact {n}", f"Body {n}", created_at=f"2026-01-01T0{n}:30:00.000Z"))

    told = ralph("memory", "--format", "json").json

    assert [one["at"] for one in told["growth"]] == ["2026-01-01T00", "2026-01-01T01", "2026-01-01T02"]


def test_lift_shows_four_measures_with_intervals_and_a_sentence(here: Path, ralph: Ralph) -> None:
    work(here)

    ran, told = ralph("lift"), ralph("lift", "--format", "json").json

    assert told["is_enough"]
    assert [one["name"] for one in told["measures"]] == [
        "success",
        "attempts per done task",
        "tokens per done task",
        "cost per done task",
    ]
    assert all(one["low"] < one["difference"] < one["high"] for one in told["measures"])
    assert told["with_memory"]["attempts"] + told["without"]["attempts"] == 120
    assert ran.out.splitlines()[-2:] == [told["says"], told["shown_says"]]
    assert told["verdict"] == "no difference"


def test_lift_says_how_many_attempts_were_really_shown_memories(here: Path, ralph: Ralph) -> None:
    work(here, with_memory=True, shown=("mem-1-0000",))
    work(here, with_memory=False)
    work(here, with_memory=True)

    ran, told = ralph("lift"), ralph("lift", "--format", "json").json

    assert (told["shown"], told["with_memory"]["attempts"]) == (120, 240)
    assert ran.out.endswith("\nMemories were in the prompt of 120 of 240 attempts with memory enabled.\n")
    assert "Memories were in the prompt" not in ralph().out


def test_memories_that_were_rarely_shown_are_told_in_short_too(here: Path, ralph: Ralph) -> None:
    work(here)

    assert "Memories were in the prompt of none of 74 attempts with memory enabled, so" in ralph().out


def test_without_a_holdout_lift_says_how_to_get_one(here: Path, ralph: Ralph) -> None:
    work(here, holdout=0.0)

    ran = ralph("lift")

    assert ran.code == 0
    assert ran.out == "Not enough data: no attempt was randomly held out. To compare, run: ralph run --holdout 0.1\n"


def test_tasks_show_what_done_ones_took(here: Path, ralph: Ralph) -> None:
    work(here, task_kind="bug-fix")

    ran, told = ralph("tasks"), ralph("tasks", "--format", "json").json

    heading, row, *_ = ran.out.splitlines()
    assert heading.split() == "TYPE DONE ATTEMPTS TIME COST".split()
    assert row.split()[0] == "bug-fix"
    assert row.split()[2:] == ["1", "9.0s", "$0.0500"]
    assert (told[0]["task_type"], told[0]["attempts"], told[0]["seconds"], told[0]["cost_usd"]) == (
        "bug-fix",
        1,
        9,
        0.05,
    )


def test_failures_are_told_by_what_they_come_from(here: Path, ralph: Ralph) -> None:
    work(here, cause="service")

    ran, told = ralph("failures"), ralph("failures", "--format", "json").json

    assert ran.out.splitlines()[0].split() == "CAUSE ATTEMPTS TASKS TIME COST LATEST".split()
    assert [one["cause"] for one in told] == ["service"]
    assert told[0]["attempts"] == told[0]["tasks"] > 0


def test_bare_stats_tell_all_in_short(here: Path, ralph: Ralph) -> None:
    work(here)

    ran, told = ralph(), ralph("--format", "json").json

    assert [line.split()[0] for line in ran.out.splitlines()] == [
        *("Runs", "Models", "Tasks", "Failures", "Memory", "Lift")
    ]
    assert "120 attempts" in ran.out
    assert set(told) == set(SUBJECTS)


def test_an_unknown_subject_is_refused(ralph: Ralph) -> None:
    ran = ralph("weather")

    assert ran.code == 2
    assert "weather" in ran.err


# --- charts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_chart_is_drawn_when_asked_for_and_fits_80_columns(here: Path, ralph: Ralph, subject: str) -> None:
    work(here)

    plain, drawn = ralph(subject).out, ralph(subject, "--chart").out

    chart = [line for line in drawn.splitlines() if line not in plain.splitlines()]
    assert any(mark in line for line in chart for mark in "█●")
    assert "\x1b" not in drawn
    assert all(len(line) <= 80 for line in chart)


def test_bars_are_as_long_as_their_values(here: Path, ralph: Ralph) -> None:
    work(here, runs=2)
    with Project.open(here) as project:
        project.store.scope.execute("UPDATE attempts SET outcome = 'done' WHERE project_id = :project_id")

    rows = [line for line in ralph("runs", "--chart").out.splitlines() if "█" in line]

    assert len(rows) == 2
    assert all(row.count("█") == 80 - len("run-00000000  100%") for row in rows)


def test_in_a_terminal_a_chart_comes_by_itself_and_nothing_is_wider(here: Path) -> None:
    work(here)

    for subject in ("", *SUBJECTS):
        code, seen = at_terminal(here, "stats", *filter(None, [subject]), environment={"NO_COLOR": "1"})

        assert code == 0, seen
        assert "█" in seen or "●" in seen
        assert all(len(line) <= 80 for line in seen.splitlines()), seen


def test_what_was_learned_at_one_time_makes_no_chart(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        for n in range(3):
            remember(project.store, a_memory(f"Fact {n}", f"Body {n}", created_at="2026-01-01T09:30:00.000Z"))

    assert ralph("memory", "--chart").out == ralph("memory").out


# --- narrow terminals --------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_number_is_cut_in_a_narrow_terminal(here: Path, subject: str, columns: int) -> None:
    work(here, model="a-model-with-a-long-name-5")

    lines = seen_at(columns, here, subject)

    assert max(map(len, lines)) <= columns
    assert not any(re.search(r"(^|\s)[A-Z\d$+.,%-]*…", line) for line in lines), lines


def test_a_narrow_table_leaves_columns_out_before_a_title_gets_short(here: Path) -> None:
    work(here)
    with Project.open(here) as project:
        said = "The parser wants tabs in its fixtures, or it fails at once"
        id = remember(project.store, a_memory(said, "Body", kind="architecture", wins=9, uses=9)).id

    assert f"{id}  9     0       The parser wants tabs in…" in seen_at(60, here, "memory")


@pytest.mark.parametrize("subject", ["", *PLOTTED])
def test_plots_are_written_as_png_and_svg(here: Path, ralph: Ralph, subject: str) -> None:
    work(here)
    png, svg = here / "plot.png", here / "plot.SVG"

    ran = ralph(*filter(None, [subject]), "--plot", str(png))
    told = ralph(*filter(None, [subject]), "--plot", str(svg), "--format", "json")

    assert ran.code == told.code == 0, ran.err
    assert ran.out.endswith(f"Plot written: {png}\n")
    assert told.json
    assert png.read_bytes().startswith(PNG)
    assert svg.read_text().startswith("<?xml")
    assert sorted(file.name for file in here.glob("*plot*")) == ["plot.SVG", "plot.png"]


def test_a_plot_says_so_when_there_is_not_enough(here: Path, ralph: Ralph) -> None:
    work(here, holdout=0.0, cost_usd=0.0)

    ran = ralph("--plot", str(here / "all.svg"))

    assert ran.code == 0, ran.err
    assert (here / "all.svg").exists()


@pytest.mark.parametrize("words", [(), *((subject,) for subject in SUBJECTS)])
def test_where_there_is_nothing_to_draw_no_plot_is_written(here: Path, ralph: Ralph, words: tuple[str, ...]) -> None:
    plot = here / "plot.png"

    ran, told = ralph(*words, "--plot", str(plot)), ralph(*words, "--plot", str(plot), "--format", "json")

    assert ran.code == told.code == 0
    assert ran.out.endswith("\nThere is no data to plot yet.\n")
    assert told.err == "There is no data to plot yet.\n"
    assert not plot.exists()


def test_what_was_learned_at_one_time_is_plotted_by_kind(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        for kind in ("fix", "fix", "pitfall"):
            remember(project.store, a_memory("Fact", "Body", kind=kind, created_at="2026-01-01T09:30:00.000Z"))
    plot = here / "plot.svg"

    ran = ralph("memory", "--plot", str(plot))

    assert ran.code == 0, ran.err
    assert "<!-- Active memories by type -->" in plot.read_text()


def test_other_files_are_refused_before_anything_is_done(here: Path, ralph: Ralph) -> None:
    ran = ralph("runs", "--plot", str(here / "plot.pdf"))

    assert ran.code == 2
    assert ran.err.endswith("plot.pdf: the name must end in .png or .svg.\n")


def test_without_the_extra_a_plot_says_how_to_get_it(here: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    work(here)
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    ran = ralph("runs", "--plot", str(here / "plot.png"))

    assert ran.code == 2
    assert ran.err.startswith("Error: Plots need an optional package: ")
    assert not (here / "plot.png").exists()


def test_a_place_that_cannot_be_written_is_named(here: Path, ralph: Ralph) -> None:
    work(here)
    (here / "file").write_text("")

    ran = ralph("runs", "--plot", str(here / "file" / "plot.png"))

    assert ran.code == 2
    assert "plot.png: " in ran.err
