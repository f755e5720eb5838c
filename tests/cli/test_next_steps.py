"""What commands say to do next: one way for each situation, and none that leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.project import Project
from tests.cli.ran import Ralph, run
from tests.make import set_up_project

ASKS = ("sh", "-c", "cat > /dev/null; echo '<question>Tabs or spaces?</question>'")
CRASHES = ("sh", "-c", "cat > /dev/null; echo working; echo change >> work; exit 3")
WORKS = ("sh", "-c", 'cat > /dev/null; echo "<task-done>$RALPH_TASK_ID</task-done>"')


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def add(ralph: Ralph, *words: str) -> str:
    return ralph("task", "add", *words, "--format", "quiet").out.strip()


def steps(ralph: Ralph, task: str) -> list[set[str]]:
    """Return which commands each view offers for a task that waits for a person."""
    views = (("task", "list"), ("task", "show", task), ("status",), ())
    ways = ("answer", "approve", "reset")
    return [{way for way in ways if f"ralph task {way} {task}" in ralph(*words).out} for words in views]


# --- tasks that wait for a person --------------------------------------------------------


def test_a_question_is_answered_everywhere(ralph: Ralph) -> None:
    task = add(ralph, "Mend the parser")
    ralph("run", "--", *ASKS)

    assert steps(ralph, task) == [{"answer"}] * 4


@pytest.mark.parametrize("status", ["block", "fail"])
def test_what_did_not_work_is_reset_everywhere(ralph: Ralph, status: str) -> None:
    task = add(ralph, "Mend the parser")
    ralph("task", status, task, "--reason", "failed 4 times, waits for a person; last: crashed")

    listed, *others = steps(ralph, task)

    assert others == [{"reset"}] * 3
    assert listed == ({"reset"} if status == "block" else set())


def test_status_names_each_way_to_go_on_once(ralph: Ralph) -> None:
    asking = add(ralph, "Mend the parser")
    ralph("run", "--", *ASKS)
    first, second = (add(ralph, title) for title in ("Write the printer", "Print the writer"))
    for task in (first, second):
        ralph("task", "block", task, "--reason", "waits for the vendor")

    out = ralph("status").out

    assert out.count("ralph task answer") == out.count("ralph task reset") == 1
    assert f"ralph task answer {asking}" in out


def test_an_answer_to_a_task_that_is_done_is_not_sent_to_its_agent(ralph: Ralph) -> None:
    done, ready = add(ralph, "Mend the parser"), add(ralph, "Write the printer")
    ralph("task", "done", done)

    to_done, to_ready = ralph("task", "answer", done, "Tabs."), ralph("task", "answer", ready, "Tabs.")

    assert {to_done.error, to_ready.error} == {"nothing-to-answer"}
    assert "ralph task update" not in to_done.err
    assert "pending" not in to_ready.err


def test_the_tree_says_what_a_task_waits_for(ralph: Ralph) -> None:
    first = add(ralph, "Mend the parser")
    add(ralph, "Write the printer", "--needs", first)

    before = ralph("task", "tree").out
    ralph("task", "done", first)

    assert before.count(f"waiting for {first}") == 1
    assert "waiting for" not in ralph("task", "tree").out


# --- runs and attempts -------------------------------------------------------------------


def test_stop_with_nothing_running_does_not_offer_to_start_something(ralph: Ralph) -> None:
    ran = ralph("stop")

    assert (ran.code, ran.error) == (2, "no-active-run")
    assert "--resume" not in ran.err


def test_outcomes_in_status_add_up(ralph: Ralph, here: Path) -> None:
    add(ralph, "Mend the parser")
    ralph("run", "--", *ASKS)
    add(ralph, "Write the printer")
    ralph("run", "--", *WORKS)

    with Project.open(here) as project:
        count = project.overview().attempts

    (line,) = [one for one in ralph("status").out.splitlines() if one.startswith("Attempts")]
    total, _, outcomes = line.removeprefix("Attempts").partition(";")[0].partition(":")
    assert (
        int(total) == count == sum(int(part.split()[0]) for part in outcomes.split(", ") if part.strip()[0].isdigit())
    )


def test_the_prompt_of_the_next_task_needs_no_id(ralph: Ralph) -> None:
    assert ralph("prompt").error == "no-ready-task"

    add(ralph, "Write the printer")
    urgent = add(ralph, "Mend the parser", "--priority", "5")

    assert ralph("prompt", "--raw").out == ralph("prompt", urgent, "--raw").out


# --- commands ----------------------------------------------------------------------------


def test_a_typo_in_an_action_is_answered_by_the_one_that_was_meant(ralph: Ralph) -> None:
    ran = ralph("memory", "serch", "parser")

    assert ran.code == 2
    assert "Did you mean search?" in ran.err
    assert "consolidate" not in ran.err
    assert "consolidate" in ralph("memory", "zzz").err  # nothing is close, so all are listed


def test_an_action_without_its_noun_is_found(ralph: Ralph) -> None:
    assert "Did you mean ralph memory search" in ralph("search", "parser").err
    assert "ralph task answer" in ralph("answer", "t-1").err
    assert "Did you mean status?" in ralph("statuss").err


def test_setup_without_an_agent_lists_them(ralph: Ralph, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    before = ralph("setup")
    ralph("setup", "gemini", "--yes")
    after = ralph("setup")

    assert before.code == 0
    assert [line.split()[0] for line in before.out.splitlines()[1:3]] == ["claude", "codex"]
    assert not [line for line in before.out.splitlines() if ", not in the PATH" in line]
    assert [line.split()[0] for line in after.out.splitlines() if "connected, not in the PATH" in line] == ["gemini"]
    assert ralph("setup", "--uninstall").error == "no-agent"


def test_setup_of_an_agent_that_is_not_installed_says_so(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert "Install claude" in ralph("setup", "claude", "--yes").out
    assert "warn   claude" in ralph("doctor").out


def test_an_agent_that_is_connected_is_not_offered_to_be(ralph: Ralph) -> None:
    before = ralph().out
    ralph("setup", "claude", "--yes")

    assert "ralph setup claude" in before
    assert "ralph setup" not in ralph().out
