"""The command line as a person uses it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ralph.cli import COMMANDS, build_parser, load_command, main
from ralph.core.ancestry import enclosing_sessions
from ralph.core.records import TaskStatus
from ralph.core.text import format_usd
from ralph.loop.options import RunEnding
from ralph.project import Project
from tests.cli.ran import Ralph, run
from tests.cli.terminal import at_terminal
from tests.make import set_up_project


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one command in the test's directory."""

    return lambda *words: run(capsys, tmp_path, *words)


def add(ralph: Ralph, *words: str) -> str:
    ran = ralph("task", "add", *words, "--format", "quiet")
    assert ran.code == 0, ran.err
    return ran.out.strip()


# --- init and bad input ------------------------------------------------------------------


def test_init_sets_up_a_project_and_is_safe_to_run_twice(ralph: Ralph, tmp_path: Path) -> None:
    first = ralph("init")
    settings = tmp_path / ".ralph.toml"
    settings.write_text(settings.read_text().replace("# max_retries = 3", "max_retries = 5"))
    id = add(ralph, "Kept")

    second = ralph("init")

    assert (first.code, second.code) == (0, 0)
    assert "created .ralph.toml" in first.out
    assert "nothing was changed" in second.out
    for path in (".ralph/knowledge", ".claude/skills", ".ralph/.gitignore"):
        assert (tmp_path / path).exists()
    assert "max_retries = 5" in (tmp_path / ".ralph.toml").read_text()
    assert id in ralph("task", "list").out


def test_init_moves_old_skills_and_replaces_none(ralph: Ralph, tmp_path: Path) -> None:
    for name in (".ralph/skills/deploy", ".ralph/skills/review", ".claude/skills/review"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(name)

    ran = ralph("init")

    assert (tmp_path / ".claude/skills/deploy/SKILL.md").read_text() == ".ralph/skills/deploy"
    assert (tmp_path / ".claude/skills/review/SKILL.md").read_text() == ".claude/skills/review"
    assert (tmp_path / ".ralph/skills/review/SKILL.md").exists()
    assert "moved .ralph/skills/deploy" in ran.out
    assert "left .ralph/skills/review" in ran.out


def test_a_directory_that_is_no_project_is_told_what_to_do(ralph: Ralph, tmp_path: Path) -> None:
    for words in (("status",), ("task", "add", "x"), ("run",), ("journal", "list"), ("prompt", "t-000000")):
        ran = ralph(*words)

        assert (ran.code, ran.error) == (2, "no-project")
        assert ran.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_a_project_is_found_from_below(here: Path, ralph: Ralph) -> None:
    add(ralph, "Task")
    (here / "a" / "b").mkdir(parents=True)

    assert main(["-C", str(here / "a" / "b"), "status"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("task", "show", "t-nobody"),
        ("task", "done", "t-nobody"),
        ("task", "log", "t-nobody", "x"),
        ("task", "delete", "t-nobody"),
        ("task", "add", "x", "--needs", "t-nobody"),
        ("task", "add", "x", "--parent", "t-nobody"),
        ("task", "add", "x", "--feature", "nobody"),
        ("prompt", "t-nobody"),
        ("feature", "show", "nobody"),
        ("failures", "show", "t-nobody"),
        ("journal", "show", "run-00000000/1"),
        ("run", "--task", "t-nobody", "--", "true"),
        ("journal", "list", "--task", "t-nobody"),
        ("journal", "list", "--run", "run-nobody"),
        ("failures", "list", "--task", "t-nobody"),
    ],
)
def test_unknown_ids_are_one_sentence_and_change_nothing(here: Path, ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)

    assert ran.code == 1
    assert str(ran.error).endswith("-not-found")
    assert ran.err.count("\n") == 1
    assert ralph("task", "list", "--format", "json").json == []


WRONG_USAGE = [
    ("statuss",),
    ("task",),
    ("task", "add"),
    ("task", "add", "   "),
    ("task", "add", "x", "--priority", "high"),
    ("task", "update", "t-1"),
    ("run", "--max-iterations", "0"),
    ("run", "--max-cost", "-1"),
    ("run", "--gate", "true", "--no-verify", "--", "true"),
    ("journal", "list", "--last", "0"),
    ("-C", "no-such-directory", "status"),
    ("run", "--agent", "nobody"),
    ("run", "--agent", "command"),
    ("run", "--", "no-such-program"),
    ("journal", "show", "soon"),
    ("task", "import", "no-such-file"),
    ("completion", "tcsh"),
    ("feature", "add", " "),
    ("setup", "claude", "--unistall"),
    ("task", "list", "--statu=done"),
    ("status", "--zzz", "3"),
    ("status", "now"),
    ("--verson", "status"),
    ("setup", "cloude"),
    ("task", "lst"),
    ("run", "--agent", "cluade"),
    ("journal", "list", "--outcome", "dne"),
    ("task", "list", "--status", "dne"),
    ("memory", "add"),
    ("memory", "list", "--min-confidence", "2"),
    ("memory", "list", "--after", "yesterday"),
    ("learn", "extract", "--from", "critic"),
    ("learn", "extract", "notes.txt"),
    ("learn", "review"),
]


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_is_one_sentence_and_exit_code_2(here: Path, ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)

    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert ran.out == ""


@pytest.mark.parametrize("words", [("task", "list"), ("memory", "show", "mem-1"), ("status", "--zzz")])
def test_json_output_changes_nothing_about_errors(ralph: Ralph, words: tuple[str, ...]) -> None:
    plain, json_output = ralph(*words), ralph(*words, "--format", "json")

    assert (json_output.code, json_output.err, json_output.out) == (plain.code, plain.err, "")


@pytest.mark.sqlite
def test_a_newer_database_is_refused_and_not_touched(here: Path, ralph: Ralph) -> None:
    import apsw

    path = here / ".ralph/ralph.db"
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    before = path.read_bytes()

    ran = ralph("status")

    assert (ran.code, ran.error) == (1, "store-too-new")
    assert path.read_bytes() == before


@pytest.mark.sqlite
def test_a_file_that_is_no_database_is_said_to_be_none(here: Path, ralph: Ralph) -> None:
    (here / ".ralph/ralph.db").write_bytes(b"not a database, but long enough to look like one" * 50)

    ran = ralph("status")

    assert (ran.code, ran.error) == (1, "store")


# --- config ---------------------------------------------------------------------------------


WRONG_SETTINGS = [
    "[execution\n",
    "[execution]\nverify = true\n\n[execution]\n",
    "[models.prices]\n[models.prices] # again\nx = [1, 2]\n",
    "[execution]\nverify = true\nverify = true\n",
    '[execution]\nmax_retries = "three"\n',
    "[execution]\nmax_retries = -1\n",
    "[execution]\nverify = 1\n",
    '[execution]\ngates = "make"\n',
    "execution = 3\n",
    '[memories]\ninject = "sometimes"\n',
    "[limits]\nminutes = nan\n",
]


@pytest.mark.parametrize("toml", WRONG_SETTINGS)
def test_a_wrong_setting_is_an_error_in_one_sentence(here: Path, ralph: Ralph, toml: str) -> None:
    (here / ".ralph.toml").write_text(toml)

    ran = ralph("status")

    assert (ran.code, ran.error) == (2, "invalid-config")
    assert ran.err.count("\n") == 1


def test_an_unknown_setting_is_a_warning_that_names_it(here: Path, ralph: Ralph) -> None:
    (here / ".ralph.toml").write_text("[execution]\nmax_retrys = 3\nlearn = false\n[nonsense]\n")

    ran = ralph("status")

    assert ran.code == 0
    assert "ignoring unknown key execution.max_retrys. Did you mean execution.max_retries?" in ran.err
    assert "ignoring unknown key nonsense" in ran.err
    assert "learn" not in ran.err


def test_the_memories_block_of_a_ralph_yml_is_read(here: Path, ralph: Ralph) -> None:
    (here / "ralph.yml").write_text(
        "event_loop: {max: 3}\nmemories:\n  enabled: true\n  inject: manual\n  budget: 500\n"
        "  skill_injection: true\n  filter:\n    types: [fix]\n    tags: []\n    recent: 30\n    oddity: 1\n"
    )

    ran = ralph("status")
    with Project.open(here) as project:
        memories = project.config.memories

    assert (memories.inject, memories.budget, memories.filter.types) == ("manual", 500, ("fix",))
    assert memories.filter.recent == 30
    assert "memories.filter.oddity" in ran.err
    assert "event_loop" not in ran.err


def test_the_environment_wins_over_files(here: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / ".ralph.toml").write_text("[execution]\nmax_retries = 5\n")
    monkeypatch.setenv("RALPH_EXECUTION_MAX_RETRIES", "7")
    with Project.open(here) as project:
        assert project.config.execution.max_retries == 7

    monkeypatch.setenv("RALPH_EXECUTION_MAX_RETRIES", "many")
    assert "RALPH_EXECUTION_MAX_RETRIES: execution.max_retries must be a whole number" in ralph("status").err


# --- tasks ------------------------------------------------------------------------------------


def test_tasks_are_added_listed_shown_and_updated(here: Path, ralph: Ralph) -> None:
    first = add(ralph, "First", "--body", "Do this.", "--priority", "2")
    second = add(ralph, "Second", "--needs", first)

    listed = ralph("task", "list", "--format", "json").json
    ralph("task", "update", second, "--title", "Second, better", "--priority", "9")
    shown = ralph("task", "show", second)

    assert isinstance(listed, list)
    assert [(one["id"], one["status"], one["needs"]) for one in listed] == [
        (first, "pending", []),
        (second, "pending", [first]),
    ]
    assert "Second, better" in shown.out
    assert f"Needs: {first} First (ready)" in shown.out
    assert ralph("task", "list", "--ready").out.count("t-") == 1
    assert "Do this." in ralph("task", "show", first).out


def test_a_cycle_is_refused_with_its_path(here: Path, ralph: Ralph) -> None:
    a = add(ralph, "A")
    b = add(ralph, "B", "--needs", a)

    ran = ralph("task", "deps", a, "--add", b)

    assert (ran.code, ran.error) == (2, "task-cycle")
    assert a in ran.err
    assert b in ran.err
    assert ralph("task", "deps", a, "--format", "json").json["needs"] == []


def test_deps_can_be_removed(here: Path, ralph: Ralph) -> None:
    a = add(ralph, "A")
    b = add(ralph, "B", "--needs", a)

    assert a in ralph("task", "deps", b).out
    ralph("task", "deps", b, "--remove", a)
    assert ralph("task", "deps", b, "--format", "json").json["needs"] == []


def test_statuses_change_by_hand_and_wrong_changes_are_refused(here: Path, ralph: Ralph) -> None:
    id = add(ralph, "A")

    def status() -> object:
        with Project.open(here) as project:
            return project.store.tasks.get(id).status

    assert ralph("task", "block", id, "--reason", "waits for the vendor").code == 0
    assert "waits for the vendor" in ralph("status").out
    assert ralph("task", "block", id, "--reason", "waits for the vendor").code == 0
    assert ralph("task", "fail", id).code == 0
    assert ralph("task", "block", id).code == 1
    assert status() is TaskStatus.FAILED
    assert ralph("task", "reset", id).code == 0
    assert ralph("task", "done", id).code == 0
    again = ralph("task", "done", id)
    assert (again.code, again.error) == (1, "same-status")
    assert status() is TaskStatus.DONE
    log = ralph("task", "log", id).out
    assert "Set to blocked by hand: waits for the vendor" in log


def test_the_tree_shows_parts_below_their_whole(here: Path, ralph: Ralph) -> None:
    parent = add(ralph, "Whole")
    child = add(ralph, "Part", "--parent", parent)
    add(ralph, "Crumb", "--parent", child)
    ralph("task", "done", add(ralph, "Other part", "--parent", parent))

    lines = ralph("task", "tree").out.splitlines()

    assert "Whole (1/2 done)" in lines[0]
    assert lines[1].startswith("├─ ")
    assert lines[2].startswith("│  └─ ")
    assert lines[3].startswith("└─ ")
    assert "Whole" not in ralph("task", "tree", child).out


def test_delete_says_what_went(here: Path, ralph: Ralph) -> None:
    parent = add(ralph, "Whole")
    child = add(ralph, "Part", "--parent", parent)

    ran = ralph("task", "delete", parent)

    assert ran.out.splitlines() == [f"Task deleted: {parent}", f"Task deleted: {child}"]
    assert "No tasks" in ralph("task", "list").out


def test_a_checklist_and_json_lines_are_imported_once(here: Path, ralph: Ralph) -> None:
    checklist, lines = here / "todo.md", here / "tasks.jsonl"
    checklist.write_text("# Plan\n- [ ] Whole\n  - [x] Part one\n  - [ ] Part two\n- [ ] Other\n")
    lines.write_text(
        '{"id": "task-1", "title": "One", "priority": 1, "blocked_by": []}\n'
        "not json\n"
        '{"id": "task-2", "title": "Two", "blocked_by": ["task-1", "task-9"]}\n'
    )

    first = ralph("task", "import", str(checklist))
    second = ralph("task", "import", str(checklist))
    third = ralph("task", "import", str(lines))

    assert first.out == "4 tasks added, 0 already there.\n"
    assert second.out == "0 tasks added, 4 already there.\n"
    assert third.out == "2 tasks added, 0 already there.\n"
    assert f"{lines}:2: " in third.err
    assert "'Two' needs task-9, which was not found; added as blocked." in third.err
    assert "task-1" in ralph("task", "show", "task-2").out


def test_tasks_can_be_taken_from_one_project_to_another(here: Path, ralph: Ralph) -> None:
    first = add(ralph, "First", "--priority", "3", "--body", "Two\nlines")
    add(ralph, "Second", "--needs", first)
    lines = ralph("task", "list", "--format", "jsonl").out
    there = here / "there"
    there.mkdir()
    set_up_project(there)

    with Project.open(there) as project:
        imported = project.tasks.import_(lines, "tasks")
        tasks = project.tasks.list()

    assert len(imported.added) == 2
    assert [(task.title, task.priority, task.needs) for task in tasks] == [("First", 3, ()), ("Second", 0, (first,))]


def test_a_title_that_comes_twice_in_a_checklist_is_one_task(here: Path, ralph: Ralph) -> None:
    file = here / "todo.md"
    file.write_text("- [ ] A\n  - [ ] A1\n- [ ] A\n")

    assert ralph("task", "import", str(file)).out == "2 tasks added, 1 already there.\n"
    assert ralph("task", "import", str(file)).out == "0 tasks added, 3 already there.\n"


def test_several_tasks_are_reset_at_once_or_none(here: Path, ralph: Ralph) -> None:
    ids = [add(ralph, "A"), add(ralph, "B")]
    for id in ids:
        ralph("task", "block", id)

    assert ralph("task", "reset", ids[0], "t-nobody").code == 1
    assert ralph("task", "list", "--status", "blocked").out.count("t-") == 2
    assert ralph("task", "reset", *ids).code == 0
    assert ralph("task", "list", "--ready").out.count("t-") == 2


def test_status_tells_a_worker_that_is_gone_from_one_that_works(here: Path, ralph: Ralph) -> None:
    from ralph.loop.workers import worker_name

    alive, gone = add(ralph, "A"), add(ralph, "B")
    with Project.open(here) as project:
        run = project.store.runs.start("test")
        project.store.attempts.begin(run.id, worker_name(), 600, agent="test")
        name = worker_name().rsplit("/", 2)[0] + f"/{2**22 + 1}/1.00"
        project.store.attempts.begin(run.id, name, 600, agent="test")

    out = ralph("status").out

    assert f"Working   {alive} attempt 1" in out
    assert f"Orphaned  {gone} attempt 1: its run is gone" in out


def test_an_import_with_a_cycle_adds_nothing(here: Path, ralph: Ralph) -> None:
    file = here / "t.jsonl"
    file.write_text('{"id":"a","title":"A","needs":["b"]}\n{"id":"b","title":"B","needs":["a"]}\n')

    assert ralph("task", "import", str(file)).code == 2
    assert ralph("task", "list", "--format", "json").json == []


def test_terminal_escapes_in_titles_are_not_printed(here: Path, ralph: Ralph) -> None:
    add(ralph, "Red \x1b[31malert\x07\u202e")

    assert "Red alert" in ralph("task", "list").out
    assert "\x1b" not in ralph("task", "list").out


def test_features_are_added_listed_shown_and_deleted(here: Path, ralph: Ralph) -> None:
    (here / "spec.md").write_text("It must be fast.")
    added = ralph("feature", "add", "Search", "--spec", str(here / "spec.md"), "--format", "quiet").out.strip()
    id = add(ralph, "A", "--feature", "Search")

    assert added.startswith("f-")
    assert ralph("feature", "add", "Search").code == 2
    assert "0/1" in ralph("feature", "list").out
    assert "It must be fast." in ralph("feature", "show", "Search").out
    assert "It must be fast." in ralph("prompt", id).out
    assert ralph("feature", "delete", added).code == 0
    assert ralph("task", "show", id).code == 0


# --- the loop -----------------------------------------------------------------------------------


AGENT = """
prompt=$(cat)
case "$prompt" in
  *"Previous Attempts"*) echo '<knowledge tags="greeting" title="Greet">Say hello.</knowledge>'
    echo hello > out.txt; echo "<journal>Wrote the greeting.</journal><task-done>$RALPH_TASK_ID</task-done>";;
  *) echo "<failure-report>"; echo "what_tried: nothing"; echo "why_failed: no idea where to greet"
    echo "</failure-report><task-failed>$RALPH_TASK_ID</task-failed>";;
esac
"""


def test_the_whole_path_from_a_task_to_the_journal(here: Path, ralph: Ralph) -> None:
    (here / "agent.sh").write_text(AGENT)
    id = add(ralph, "Write a greeting")

    ran = ralph("run", "--agent", "command", "--gate", "test -f out.txt", "--", "sh", "agent.sh")

    assert ran.code == 0, ran.err
    for line in (f"1. {id} Write a greeting (attempt 1)", "✗ failed: no idea where to greet", "learned: Greet"):
        assert line in ran.out
    assert "recalled: 1 failed attempt at this task" in ran.out
    assert "gate passed: test -f out.txt" in ran.out
    assert "all tasks are done. 1 done in 2 attempts" in ran.out
    journal = ralph("journal", "list").out
    assert "no idea where to greet" in journal
    assert "Wrote the greeting." in journal
    assert "Wrote the greeting." in ralph("journal", "search", "greeting?").out
    assert "### Iteration 2 [done]" in ralph("journal", "show", "2").out
    assert "no idea where to greet" in ralph("failures", "show", id).out
    assert "unknown" in ralph("failures", "stats").out
    assert id in ralph("failures", "list").out
    later = add(ralph, "Translate the greeting")
    prompt = ralph("prompt", later)
    assert "Say hello." in prompt.out
    assert "SECTION" in prompt.out
    assert "SECTION" not in ralph("prompt", later, "--raw").out
    assert "Say hello." not in ralph("prompt", later, "--no-memory").out
    status = ralph("status")
    assert "1 ready, 1 done" in status.out
    assert "Memories  1" in status.out


def test_limits_come_from_the_settings_or_the_command_line(here: Path, ralph: Ralph) -> None:
    for n in range(5):
        add(ralph, str(n))
    done = ("--", "sh", "-c", 'echo "<task-done>$RALPH_TASK_ID</task-done>"')
    (here / ".ralph.toml").write_text("[limits]\niterations = 2\n")

    assert "2 done in 2 attempts" in ralph("run", *done).out
    assert "1 done in 1 attempt," in ralph("run", "--max-iterations", "1", *done).out
    slow = ralph("run", "--max-minutes", "0.005", "--", "sleep", "30")
    assert "the time limit was reached" in slow.out
    assert "the cost limit cannot stop this run" in ralph("run", "--max-cost", "1", *done).out


def test_status_names_what_is_stuck(here: Path, ralph: Ralph) -> None:
    id = add(ralph, "A")
    ralph("run", "--max-iterations", "3", "--", "true")

    assert f"{id} failed 3 times in a row (3 of 3 retries used), stuck" in ralph("status").out


def test_in_a_terminal_status_breaks_long_lines_between_words(here: Path, ralph: Ralph) -> None:
    id = add(ralph, "A " + "lengthy " * 20 + "title")
    ralph("run", "--max-iterations", "3", "--", "true")

    code, shown = at_terminal(here, "status", environment={"NO_COLOR": "1"})

    lines = shown.splitlines()
    trouble = next(place for place, line in enumerate(lines) if line.startswith("Problems"))
    assert code == 0
    assert max(len(line) for line in lines if "Project" not in line) <= 80
    assert lines[trouble].startswith(f"Problems  {id} failed 3 times in a row")
    assert lines[trouble + 1].startswith("          ")
    assert shown.split() == ralph("status").out.split()


def test_status_says_nothing_of_an_agent_before_there_is_one(here: Path, ralph: Ralph) -> None:
    add(ralph, "A")
    before = ralph("status").out
    ralph("run", "--max-iterations", "1", "--", "true")

    assert "Models    not chosen yet\n" in before
    assert "Models    chosen by the agent itself\n" in ralph("status").out


@pytest.mark.parametrize(
    ("usd", "said"),
    [(0.0, "$0.00"), (1234.5, "$1,234.50"), (0.1, "$0.10"), (0.0028, "$0.0028"), (0.00002, "$0.000020")],
)
def test_an_amount_has_as_many_digits_as_it_takes(usd: float, said: str) -> None:
    assert format_usd(usd) == said


def test_gates_that_are_set_and_not_run_are_not_said_to_be_missing(here: Path, ralph: Ralph) -> None:
    add(ralph, "A")
    without = ralph("run", "--max-iterations", "1", "--", "true").out
    (here / ".ralph.toml").write_text('[execution]\ngates = ["true"]\n')

    left_out = ralph("run", "--max-iterations", "1", "--no-verify", "--", "true").out

    assert "No gates are configured" in without
    assert "Gates are off (--no-verify)" in left_out
    assert "No gates are configured" not in left_out


def test_options_may_stand_between_the_title_and_the_program(here: Path, ralph: Ralph) -> None:
    ran = ralph("run", "Write it", "--max-iterations", "1", "--", "sh", "-c", "cat >/dev/null", "--max-iterations")

    assert (ran.code, "Write it (attempt 1)" in ran.out) == (0, True)


def test_a_task_of_its_own_that_fails_for_good_waits_for_a_person(here: Path, ralph: Ralph) -> None:
    ran = ralph("run", "Write it", "--format", "json", "--", "true")

    assert (ran.code, str(RunEnding.WAITS) in ran.out) == (1, True)


def test_run_exit_codes_tell_how_it_ended(here: Path, ralph: Ralph) -> None:
    nothing = ralph("run", "--", "true")
    add(ralph, "A")
    limit = ralph("run", "--max-iterations", "1", "--", "true")
    waits = ralph("run", "--", "true")

    assert (nothing.code, limit.code, waits.code) == (3, 0, 1)


def test_json_events_are_one_object_a_line(here: Path, ralph: Ralph) -> None:
    add(ralph, "A")

    ran = ralph("run", "--format", "json", "--", "sh", "-c", 'echo "<task-done>$RALPH_TASK_ID</task-done>"')

    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [event["event"] for event in events] == [
        "run_started",
        "attempt_started",
        "recalled",
        "attempt_ended",
        "run_ended",
    ]
    assert events[3]["outcome"] == "done"
    assert all("at" in event for event in events)


def test_settings_and_flags_choose_the_agent(here: Path, ralph: Ralph) -> None:
    (here / ".ralph.toml").write_text(
        '[agent]\nmodel = "small"\ncommand = ["sh", "-c", "echo \\"<task-done>$RALPH_TASK_ID</task-done>\\" {model}"]\n'
    )
    add(ralph, "A")

    assert ralph("run").code == 0
    entries = ralph("journal", "list", "--format", "json").json
    assert isinstance(entries, list)
    assert (entries[0]["model"], entries[0]["model_reason"]) == ("small", "fixed in the configuration")


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_the_journal_can_be_narrowed(here: Path, ralph: Ralph, outcome: str) -> None:
    id = add(ralph, "A")
    ralph("run", "--max-iterations", "1", "--", "sh", "-c", f'echo "<task-{outcome}>$RALPH_TASK_ID</task-{outcome}>"')

    assert id in ralph("journal", "list", "--outcome", outcome, "--task", id).out
    assert "No entry matches" in ralph("journal", "list", "--outcome", "interrupted").out


# --- the program itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_explains_itself(ralph: Ralph, command: str) -> None:
    ran = ralph(command, "--help")

    assert ran.code == 0
    assert COMMANDS[command] in ran.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(ralph: Ralph, shell: str) -> None:
    assert "_ARGCOMPLETE" in ralph("completion", shell).out


def test_completion_offers_what_could_come_next(here: Path, ralph: Ralph) -> None:
    id = add(ralph, "Fix the parser")
    lines = {
        "ralph st": ["stop", "status", "stats", "store"],
        "ralph task sh": ["show "],
        f"ralph -C {here} task show t-": [f"{id} "],
        "ralph task add x --pr": ["--priority "],
        "ralph status --format ": ["table", "json"],
        "ralph run --agent c": ["command", "claude", "codex", "claude-acp", "codex-acp", "copilot", "cline"],
        "ralph task list --status=p": ["--status=pending "],
        f"ralph -C {here} journal list --run ": [],
        "ralph -C /nowhere task show ": [],
    }

    assert {line: completions(here, line) for line in lines} == lines


def completions(here: Path, line: str) -> list[str]:
    """Return what a shell would offer after this line."""
    answer = here / "answer"
    environment = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "ralph"], env=os.environ | environment, check=True)
    return answer.read_text().splitlines()


def test_bash_completes_for_real(here: Path, ralph: Ralph) -> None:
    script = ralph("completion", "bash").out
    shell = (
        f'PATH="{Path(sys.executable).parent}:$PATH"\n{script}\n'
        'COMP_LINE="ralph task sh" COMP_POINT=13 COMP_TYPE=9\n_python_argcomplete ralph\necho "${COMPREPLY[@]}"'
    )

    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "show"


def test_a_closed_pipe_is_no_error(here: Path, ralph: Ralph) -> None:
    for n in range(300):
        add(ralph, f"Task {n}") if n < 3 else None
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m ralph -C '{here}' task list | true"], capture_output=True, text=True
    )

    assert done.stderr == ""


@pytest.mark.sqlite
def test_cold_commands_load_little(here: Path) -> None:
    """Every module on this path is paid for in front of somebody's prompt."""
    code = "import sys; from ralph.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", code, "-C", str(here), "status"], capture_output=True, text=True, check=True
    )

    loaded = set(done.stderr.split())
    heavy = {"dataclasses", "inspect", "subprocess", "asyncio", "rich", "psutil", "yaml", "socket", "secrets", "click"}
    in_session = {"ctypes", "_ctypes", "ctypes._endian", "struct", "_struct"}  # the age of a project matters there only
    assert loaded & heavy == set()
    assert len(loaded - (in_session if enclosing_sessions() else set())) < 130


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("status",), ("memory", "prime", "--budget", "2000")])
def test_a_command_in_the_project_does_without_paths_searching_and_sharing(here: Path, words: tuple[str, ...]) -> None:
    code = """if True:
        import sys
        known = set(sys.modules)
        from ralph.cli import main
        main(sys.argv[1:])
        print(*set(sys.modules) - known, file=sys.stderr)
    """

    done = subprocess.run([sys.executable, "-c", code, *words], cwd=here, capture_output=True, text=True, check=True)

    loaded = set(done.stderr.split())
    unneeded = {
        "pathlib",
        "urllib.parse",
        "shutil",
        "ralph.core.tokenize",
        "ralph.memory.sharing",
        "ralph.store.postgres.driver",
    }
    assert "argparse" in loaded
    assert loaded & unneeded == set()


def subcommands(parser: Any) -> dict[str, Any]:
    return next(action.choices for action in parser._actions if action.dest in ("command", "action"))


def test_every_memory_action_has_its_handler() -> None:
    actions = subcommands(subcommands(build_parser("memory"))["memory"])
    handlers = [action.get_default("do").split(".") for action in actions.values()]

    assert [name for name in handlers if not callable(getattr(load_command(name[0]), name[1], None))] == []


def test_an_action_that_is_not_asked_for_has_no_parser_yet() -> None:
    actions = subcommands(subcommands(build_parser("memory"))["memory"])

    assert actions["prime"].parse_args(["--budget", "7"]).budget == 7
    assert [name for name, one in actions.items() if one._parser is not None] == ["prime"]


def read_until(fd: int, text: str, seconds: float = 15) -> str:
    seen = b""
    deadline = time.monotonic() + seconds
    while text.encode() not in seen:
        assert time.monotonic() < deadline, seen.decode(errors="replace")
        try:
            seen += os.read(fd, 4096)
        except OSError:
            break
    return seen.decode(errors="replace")


def test_a_person_at_a_terminal_can_interrupt_and_give_advice(here: Path, ralph: Ralph) -> None:
    (here / "agent.sh").write_text(
        'case "$(cat)" in *"Leave the lexer"*) echo "<task-done>$RALPH_TASK_ID</task-done>";; *) sleep 60;; esac\n'
    )
    add(ralph, "A")
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(
            sys.executable, [sys.executable, "-m", "ralph", "-C", str(here), "run", "--", "sh", str(here / "agent.sh")]
        )
    read_until(fd, "working")
    os.write(fd, b"\x03")
    read_until(fd, "> ")
    os.write(fd, b"Leave the lexer alone\n")
    seen = read_until(fd, "all tasks are done")
    _, status = os.waitpid(pid, 0)
    os.close(fd)

    assert os.waitstatus_to_exitcode(status) == 0, seen
    entries = ralph("journal", "list", "--format", "json").json
    assert isinstance(entries, list)
    assert [entry["outcome"] for entry in entries] == ["interrupted", "done"]
    assert entries[0]["notes"] == "Leave the lexer alone"
