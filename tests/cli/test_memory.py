"""`ralph memory` as people, agents and other programs use it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ralph.cli import main
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.cli.ran import Ralph, Ran, run
from tests.cli.terminal import at_terminal
from tests.make import set_up_project


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "here"
    directory.mkdir()
    set_up_project(directory)
    return directory


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    """Run one `ralph memory` command in the project, or in another one, with something on standard input."""

    def memory(*words: str, at: Path = here, given: str | bytes = "") -> Ran:
        data = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run(capsys, at, "memory", *words)

    return memory


def remember(ralph: Ralph, text: str, *options: str, at: Path | None = None) -> str:
    where = {"at": at} if at else {}
    ran = ralph("add", text, *options, "--format", "quiet", **where)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def ids(ran: Ran) -> list[str]:
    return [one["id"] for one in ran.json]


def another(tmp_path: Path, name: str = "there") -> Path:
    directory = tmp_path / name
    directory.mkdir()
    set_up_project(directory)
    return directory


# --- add -------------------------------------------------------------------------------------


def test_add_prints_the_id_and_the_file_holds_the_memory(here: Path, ralph: Ralph) -> None:
    ran = ralph("add", "Uses barrel exports", "--type", "pattern", "--tags", "imports,Structure")

    assert ran.code == 0
    assert re.fullmatch(r"📝 Memory stored: mem-\d+-[0-9a-f]{4}\n", ran.out)
    file = (here / ".agent/memories.md").read_text()
    assert "> Uses barrel exports" in file
    assert "tags: imports, structure" in file


def test_add_is_quiet_or_prints_json_if_wanted(ralph: Ralph) -> None:
    quiet = ralph("add", "Chose Zod for validation", "-t", "decision", "--format", "quiet")
    told = ralph(
        "add", "Docker must run", "-t", "fix", "--files", "a.py,b.py", "--confidence", "0.9", "--format", "json"
    )

    assert re.fullmatch(r"mem-\d+-[0-9a-f]{4}\n", quiet.out)
    assert (told.json["type"], told.json["content"]) == ("fix", "Docker must run")
    assert (told.json["confidence"], told.json["file_refs"]) == (0.9, ["a.py", "b.py"])


def test_what_is_known_already_is_not_stored_twice(ralph: Ralph) -> None:
    id = remember(ralph, "Docker must run", "-t", "fix")

    ran = ralph("add", "Docker must run", "-t", "fix")

    assert ran.out == f"📝 Already known: {id} (learned 2 times)\n"
    assert ids(ralph("list", "--format", "json")) == [id]


def test_add_reads_standard_input_or_an_option(ralph: Ralph) -> None:
    ralph("add", "-", given="From a pipe.\nSecond line.")
    ralph("add", "--content", "From an option", "--title", "Named", "-t", "knowledge")

    bodies = {one["content"]: one["title"] for one in ralph("list", "--format", "json").json}
    assert bodies == {"From a pipe.\nSecond line.": "From a pipe", "From an option": "Named"}


def test_a_type_of_ones_own_is_kept(ralph: Ralph) -> None:
    id = remember(ralph, "Run the linter first", "-t", "tool_usage")

    assert ids(ralph("list", "-t", "tool_usage", "--format", "json")) == [id]


def test_an_agent_cannot_bring_back_what_a_person_deleted(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    id = remember(ralph, "Never use tabs", "-t", "fix")
    ralph("delete", id)

    monkeypatch.setenv("RALPH_SESSION", "s-1")
    said = ralph("add", "Never use tabs", "-t", "fix")
    monkeypatch.delenv("RALPH_SESSION")
    listed = ralph("list").out
    again = ralph("add", "Never use tabs", "-t", "fix")

    assert said.code == 1
    assert said.error == "deleted-by-person"
    assert "No memories yet" in listed
    assert (again.code, id in again.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("add",), "invalid-usage"),
        (("add", "x", "--content", "y"), "invalid-usage"),
        (("add", "   "), "empty-content"),
        (("add", "\u200b\x1b[31m"), "empty-content"),
        (("add", "x" * 100_001), "memory-too-long"),
        (("add", "x", "-t", "two words"), "invalid-memory-type"),
        (("edit", "mem-1-aaaa"), "invalid-usage"),
        (("import", "no-such-file"), "invalid-usage"),
        (("export", "--format", "knowledge"), "invalid-usage"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(ralph: Ralph, words: tuple[str, ...], error: str) -> None:
    ran = ralph(*words)

    assert (ran.code, ran.error, ran.out) == (2, error, "")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("add", "x", "--confidence", "nan"),
        ("add", "x", "--confidence", "1.5"),
        ("search", "x", "--after", "yesterday"),
        ("search", "x", "--before", ""),
        ("search", "x", "--min-confidence", "inf"),
        ("search", "x", "--ranker", "best"),
        ("list", "--last", "0"),
        ("list", "--state", "lost"),
        ("prime", "--budget", "-1"),
        ("import", ".", "--from", "nonsense"),
        ("watch", "--for", "soon"),
    ],
)
def test_an_invalid_value_names_its_option(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Error: {words[-2]}: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("show", "mem-1-aaaa"),
        ("edit", "mem-1-aaaa", "--content", "x"),
        ("delete", "mem-1-aaaa"),
        ("why", "mem-1-aaaa"),
        ("history", "mem-1-aaaa"),
        ("undo", "mem-1-aaaa"),
        ("undo", "chg-00000000"),
    ],
)
def test_an_unknown_id_is_one_sentence_and_exit_code_1(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)

    assert ran.code == 1
    noun = "Change" if words[1].startswith("chg-") else "Memory"
    assert ran.error == f"{noun.lower()}-not-found"


def test_the_project_may_be_named(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker must run", "--project", here.name)

    assert ids(ralph("list", "--project", here.name, "--format", "json")) == [id]


def test_another_project_of_the_database_is_worked_on_by_its_name(
    here: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Project.open(here) as project:
        project.store.projects.add("other")
    monkeypatch.setenv("RALPH_STORE_PROJECT", here.name)

    id = remember(ralph, "Only there", "--project", "other")

    assert ralph("list", "--project", "elsewhere").error == "project-not-found"
    assert ids(ralph("list", "--format", "json")) == []
    assert ids(ralph("list", "--project", "other", "--format", "json")) == [id]
    assert not (here / ".agent/memories.md").exists() or "Only there" not in (here / ".agent/memories.md").read_text()
    monkeypatch.setenv("RALPH_SESSION", "1")
    assert ralph("list", "--project", "other").error == "person-required"


def test_a_memory_of_another_project_is_changed_looked_at_deleted_and_brought_back(
    here: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Project.open(here) as project:
        project.store.projects.add("the other")
        task = project.tasks.add("Ours").id
    monkeypatch.setenv("RALPH_STORE_PROJECT", here.name)
    (here / "parser.py").write_text("x = 1\n")
    there = ("--project", "the other")
    id = remember(ralph, "Only there, about parser.py", *there)

    edited = ralph("edit", id, "--content", "Only there, about the file parser.py", *there)
    assert edited.out.endswith(f"To undo: ralph memory undo {id} --project 'the other'\n")
    assert ralph("confirm", id, *there).out == f"✓ Memory confirmed: {id}\n"
    deleted = ralph("delete", id, *there)
    assert deleted.out.endswith(f"To undo: ralph memory undo {id} --project 'the other'\n")
    assert ralph("show", id, "--format", "json", *there).json["state"] == "pruned"
    assert ralph("undo", id, *there).out.startswith(f"Undone: {id} is active")
    history = ralph("history", id, "--format", "json", *there).json
    assert [one["what"] for one in history] == ["added", "edited", "confirmed", "deleted", "undone"]
    assert "Only there" in ralph("why", id, *there).out
    assert ralph("why", id, "--task", task, *there).error == "task-not-found"
    assert ralph("stats", "--format", "json", *there).json["total"] == 1
    assert ralph("verify", *there).code == 0
    assert "Only there" in ralph("prime", *there).out
    assert "Nothing to consolidate" in ralph("consolidate", *there).out
    assert ralph("share", id, *there).code == ralph("unshare", id, *there).code == 0
    cleared = ralph("clear", "--yes", *there)
    assert cleared.out.endswith(" --project 'the other'\n"), cleared.err
    for action in ("show", "edit", "confirm", "delete", "history", "undo", "why", "share"):
        words = ("--content", "x") if action == "edit" else ()
        assert ralph(action, id, *words).error == "memory-not-found", action
    with Project.open(here) as project:
        assert project.open_other("the other").memory.get(id).seen == ""  # the file here is another one


def test_how_sure_a_memory_was_is_shown_over_time(ralph: Ralph) -> None:
    id = remember(ralph, "Docker must run", "--confidence", "0.4")
    ralph("edit", id, "--confidence", "0.9")

    table = ralph("history", id, "--confidence").out.splitlines()
    points = ralph("history", id, "--confidence", "--format", "json").json

    assert [(round(one["confidence"], 2), one["what"]) for one in points] == [
        (0.4, "added"),
        (0.9, "edited"),
        (0.9, "now"),
    ]
    assert table[0].split() == ["WHEN", "CONF", "WHAT"]
    assert [line.split()[2] for line in table[1:]] == ["0.40", "0.90", "0.90"]
    assert ralph("history", "mem-none", "--confidence").error == "memory-not-found"


def test_a_file_that_cannot_be_written_is_an_error_and_made_up_for_later(here: Path, ralph: Ralph) -> None:
    (here / ".agent").write_text("in the way")

    ran = ralph("add", "Docker must run", "-t", "fix")
    listed = ralph("list")
    (here / ".agent").unlink()
    ralph("list")

    assert ran.code == 1
    assert "Memory stored: mem-" in ran.out
    assert "Warning: Cannot write .agent/memories.md: " in ran.err
    assert "The change is stored and will be written to the files by the next command." in ran.err
    assert (listed.code, "Docker must run" in listed.out) == (0, True)
    assert listed.err == "Warning: 1 problem found in the memory files. See: ralph doctor\n"
    assert "> Docker must run" in (here / ".agent/memories.md").read_text()


# --- search and list -------------------------------------------------------------------------


def test_search_finds_text_and_tags_in_any_case(ralph: Ralph) -> None:
    by_text = remember(ralph, "Authentication uses JWT tokens")
    by_tag = remember(ralph, "Cookies expire", "--tags", "authentication")
    remember(ralph, "Learned right after a match")

    assert {*ids(ralph("search", "AUTHENTICATION", "--format", "json"))} == {by_text, by_tag}
    assert ids(ralph("search", "uthenticat", "jwt", "--format", "json"))[0] == by_text
    assert ralph("search", "nowhere").out == "No memory matches.\n"


def test_search_is_narrowed_by_type_tags_dates_and_confidence(ralph: Ralph) -> None:
    fix = remember(ralph, "Docker first", "-t", "fix", "--tags", "docker,net", "--confidence", "0.9")
    remember(ralph, "Docker image is small", "-t", "context")

    def found(*words: str) -> list[str]:
        return ids(ralph("search", *words, "--format", "json"))

    assert found("docker", "--type", "fix") == [fix]
    assert found("--tags", "NET,other") == [fix]
    assert found("docker", "--min-confidence", "0.8") == [fix]
    assert len(found("docker", "--after", "2020-01-01", "--before", "2120-01-01T12:00:00+02:00")) == 2
    assert found("docker", "--after", "2120-01-01") == []
    assert found("docker", "--before", "2020-01-01") == []


def test_the_table_shows_ten_unless_all_are_wanted(ralph: Ralph) -> None:
    for n in range(12):
        remember(ralph, f"Fact number {n} about parsers")

    ten, all_, programs = (
        ralph("search", "parsers"),
        ralph("search", "parsers", "--all"),
        ralph("search", "--format", "json"),
    )

    assert (ten.out.count("mem-"), all_.out.count("mem-"), len(programs.json)) == (10, 12, 12)
    assert "Showing the best 10. Use --all to show all." in ten.out
    assert "--all" not in all_.out


@pytest.mark.parametrize("query", ['"', "a OR (b", "* NEAR/2", "%_\\", "'; DROP TABLE memory", "é" * 500, "-", "AND"])
def test_any_text_is_safe_as_a_query(ralph: Ralph, query: str) -> None:
    remember(ralph, "Docker first")

    assert ralph("search", "--", query).code == 0


def test_list_gives_the_newest_first_whatever_the_order_in_the_file(here: Path, ralph: Ralph) -> None:
    (here / ".agent").mkdir()
    (here / ".agent/memories.md").write_text(
        "# Memories\n\n## Fixes\n\n### mem-300-cccc\n> Newest\n<!-- tags: a | created: 2025-03-01 -->\n\n"
        "### mem-100-aaaa\n> Oldest\n<!-- tags: a | created: 2025-01-01 -->\n\n"
        "### mem-200-bbbb\n> Middle\n<!-- tags: b | created: 2025-02-01 -->\n"
    )

    assert ids(ralph("list", "--format", "json")) == ["mem-300-cccc", "mem-200-bbbb", "mem-100-aaaa"]
    assert ids(ralph("list", "--last", "2", "--tags", "a", "--format", "json")) == ["mem-300-cccc", "mem-100-aaaa"]
    assert ids(ralph("list", "--after", "2025-01-15", "--before", "2025-02-15", "--format", "json")) == ["mem-200-bbbb"]


def test_list_shows_a_table_or_markdown(ralph: Ralph) -> None:
    assert "Add one with: ralph memory add" in ralph("list").out
    id = remember(ralph, "Docker first", "-t", "fix", "--tags", "docker")

    table, markdown = ralph("list"), ralph("list", "--format", "markdown")

    assert table.out.splitlines()[0].split() == ["ID", "TYPE", "CONF", "CREATED", "TAGS", "MEMORY"]
    assert table.out.splitlines()[1].split()[:3] == [id, "fix", "0.60"]
    assert f"## Fixes\n\n### {id}\n> Docker first\n<!-- tags: docker | created:" in markdown.out
    assert ralph("list", "-t", "decision").out == "No memory matches.\n"


def test_list_shows_what_is_in_another_state(ralph: Ralph) -> None:
    gone, kept = remember(ralph, "Gone"), remember(ralph, "Kept")
    ralph("delete", gone)

    assert ids(ralph("list", "--format", "json")) == [kept]
    assert ids(ralph("list", "--state", "pruned", "--format", "json")) == [gone]
    assert ids(ralph("list", "--state", "all", "--format", "json")) == [kept, gone]


# --- one memory ------------------------------------------------------------------------------


def test_show_says_all_about_a_memory(ralph: Ralph) -> None:
    id = remember(
        ralph, "See [[Money]] and [[Nothing]].\n\n    indented", "-t", "fix", "--title", "Rounding", "--tags", "a"
    )
    money = remember(ralph, "Cents, not floats.", "-t", "knowledge", "--title", "Money", "--tags", "money")

    shown, linked = ralph("show", id), ralph("show", money)

    assert shown.out.splitlines()[0] == f"{id}  fix  active  Rounding"
    assert "  Confidence: 0.60\n  Tags: a\n" in shown.out
    assert f"  Links to: Money ({money}), Nothing (no memory has this title)\n" in shown.out
    assert "\n      indented\n" in shown.out
    assert f"  Linked from: Rounding ({id})\n" in linked.out


def test_show_has_json_and_markdown(ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix")

    told, markdown = ralph("show", id, "--format", "json").json, ralph("show", id, "--format", "markdown")

    assert (told["id"], told["confidence_now"], told["shown_to"]) == (id, 0.6, [])
    assert f"### {id}\n> Docker first\n" in markdown.out


def test_control_characters_are_not_printed(ralph: Ralph) -> None:
    id = remember(ralph, "Do \x1b[2Jnot\u202e trust", "--title", "A\x07b")

    for ran in (ralph("show", id), ralph("list"), ralph("prime"), ralph("history", id)):
        assert not set("\x1b\x07\u202e") & set(ran.out)


def test_what_a_memory_was_shown_to_is_told(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "The parser wants tabs", "-t", "fix")
    with Project.open(here) as project:
        task = project.tasks.add("Mend the parser")
    main(["-C", str(here), "run", "--", "sh", "-c", 'echo "<task-done>$RALPH_TASK_ID</task-done>"'])

    shown, why = ralph("show", id), ralph("why", id)

    for ran in (shown, why):
        assert re.search(rf"run-[0-9a-f]{{8}}/1 .* {task.id}  done", ran.out)
    assert ralph("show", id, "--format", "json").json["shown_to"][0]["task_id"] == task.id


def test_edit_changes_what_is_named_and_the_history_says_so(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix", "--tags", "docker")

    ran = ralph("edit", id, "--content", "Docker compose first", "--tags", "docker,net", "--why", "more exact")
    events = ralph("history", id)

    assert ran.out == f"Memory updated: {id}\nTo undo: ralph memory undo {id}\n"
    assert "> Docker compose first" in (here / ".agent/memories.md").read_text()
    row, *changes = events.out.splitlines()[-3:]
    assert row.split()[3:] == ["person", "edited", "more", "exact"]
    assert changes == [
        "  content: Docker first → Docker compose first",
        "  tags: docker → docker, net",
    ]
    assert ralph("history", id, "--format", "json").json[-1]["changed"]["tags"] == {
        "was": "docker",
        "became": "docker, net",
    }


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (("--title", "New name"), "title", "New name"),
        (("--type", "decision"), "type", "decision"),
        (("--tags", ""), "tags", []),
        (("--files", "a.py"), "file_refs", ["a.py"]),
        (("--confidence", "0.2"), "confidence", 0.2),
        (("--content", "-"), "content", "From a pipe"),
    ],
)
def test_each_part_can_be_edited(ralph: Ralph, options: tuple[str, ...], field: str, value: object) -> None:
    id = remember(ralph, "Docker first", "-t", "fix", "--tags", "docker")

    ralph("edit", id, *options, given="From a pipe\n")

    assert ralph("show", id, "--format", "json").json[field] == value


def test_edit_opens_the_editor(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix")

    code, seen = at_terminal(here, "memory", "edit", id, environment={"VISUAL": "sed -i s/first/last/"})
    same = at_terminal(here, "memory", "edit", id, environment={"VISUAL": "true"})
    failed = at_terminal(here, "memory", "edit", id, environment={"VISUAL": "false"})
    missing = at_terminal(here, "memory", "edit", id, environment={"VISUAL": "no-such-editor -x"})

    assert (code, f"Memory updated: {id}" in seen) == (0, True)
    assert ralph("show", id, "--format", "json").json["content"] == "Docker last"
    assert (same[0], "Nothing was changed." in same[1]) == (0, True)
    assert (failed[0], "exited with status 1. Nothing was changed" in failed[1]) == (1, True)
    assert (missing[0], "Cannot start the editor" in missing[1]) == (1, True)


def test_an_emptied_text_is_refused(ralph: Ralph) -> None:
    id = remember(ralph, "Docker first")

    ran = ralph("edit", id, "--content", " ")

    assert ran.code == 2
    assert ran.error == "empty-content"


def test_delete_says_what_went_and_how_to_undo_it(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix")

    ran = ralph("delete", id, "--why", "no longer so")

    assert ran.out == f"🗑️  Memory deleted: {id}\nTo undo: ralph memory undo {id}\n"
    assert "Docker first" not in (here / ".agent/memories.md").read_text()
    assert "State: pruned: no longer so" in ralph("show", id).out
    assert ralph("delete", id).code == 1
    assert ralph("undo", id).out == f"Undone: {id} is active: Docker first\n"
    assert "> Docker first" in (here / ".agent/memories.md").read_text()


def test_several_are_deleted_and_brought_back_together_or_not_at_all(ralph: Ralph) -> None:
    first, second = remember(ralph, "First"), remember(ralph, "Second")

    refused = ralph("delete", first, "mem-1-aaaa")
    kept = ids(ralph("list", "--format", "json"))
    ran = ralph("delete", first, second)
    undone = ralph("undo", ran.out.split()[-1])

    assert (refused.code, refused.error) == (1, "memory-not-found")
    assert kept == [second, first]
    assert re.search(r"To undo: ralph memory undo chg-[0-9a-f]{8}\n$", ran.out)
    assert undone.out.count("is active") == 2
    assert ids(ralph("list", "--format", "json")) == [second, first]


def test_a_memory_goes_back_to_any_event(ralph: Ralph) -> None:
    id = remember(ralph, "One", "-t", "fix")
    first = ralph("history", id, "--format", "json").json[-1]["seq"]
    for text in ("Two", "Three"):
        ralph("edit", id, "--content", text)

    ran = ralph("undo", id, "--to", str(first))

    assert ran.out == f"Undone: {id} is active: One\n"
    assert ralph("undo", id, "--to", "99999").code == 1


def test_why_without_a_task_tells_the_origin(ralph: Ralph) -> None:
    id = remember(ralph, "The parser wants tabs", "-t", "fix")

    ran = ralph("why", id)

    assert "From: stated by" in ran.out
    assert "added by command" in ran.out
    assert "No prompt of a task has included it yet." in ran.out
    assert ralph("why", id, "--format", "json").json["history"][0]["what"] == "added"


def test_why_says_that_a_standing_rule_is_in_every_prompt(ralph: Ralph) -> None:
    id = remember(ralph, "Never commit directly to main", "-t", "constraint")

    ran = ralph("why", id)

    assert "In every prompt, because it is a standing rule." in ran.out
    assert "No prompt of a task has included it yet." not in ran.out
    assert ralph("why", id, "--format", "json").json["is_rule"]


# --- prime and init --------------------------------------------------------------------------


def test_prime_prints_nothing_when_there_is_nothing(ralph: Ralph) -> None:
    ran, told = ralph("prime"), ralph("prime", "--format", "json")

    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (told.code, told.json) == (0, [])


def test_prime_prints_raw_markdown(ralph: Ralph) -> None:
    fix = remember(ralph, "Docker first", "-t", "fix", "--tags", "docker")
    pattern = remember(ralph, "Barrel exports", "-t", "pattern")
    decision = remember(ralph, "Chose Zod", "-t", "decision")

    assert ralph("prime").out.startswith("# Memories\n\n## ")
    assert re.findall(r"^## (.*)", ralph("prime", "-t", "fix,pattern").out, re.MULTILINE) == ["Patterns", "Fixes"]
    assert ids(ralph("prime", "--tags", "docker,x", "--format", "json")) == [fix]
    assert set(ids(ralph("prime", "--recent", "1", "--format", "json"))) == {fix, pattern, decision}


def test_prime_leaves_out_what_is_old(here: Path, ralph: Ralph) -> None:
    (here / ".agent").mkdir()
    (here / ".agent/memories.md").write_text(
        "## Fixes\n### mem-1-aaaa\n> Old\n<!-- tags: a | created: 2020-01-01 -->\n"
    )

    assert "> Old" in ralph("prime").out
    assert ralph("prime", "--recent", "30").out == ""
    assert "> Old" in ralph("prime", "--recent", "999999999").out


def test_prime_keeps_to_its_budget_and_to_every_type(ralph: Ralph) -> None:
    for n in range(6):
        remember(ralph, f"Pattern {n}: " + "words " * 20, "-t", "pattern")
    remember(ralph, "One fix", "-t", "fix")

    text = ralph("prime", "--budget", "150").out

    assert 0 < len(text) <= 600
    assert "One fix" in text
    assert "Pattern" in text


def test_init_makes_the_file_once(here: Path, ralph: Ralph) -> None:
    first = ralph("init")
    (here / ".agent/memories.md").write_text("# Memories\n\nMy notes.\n\n## Fixes\n### mem-1-aaaa\n> Mine\n")
    second, forced = ralph("init"), ralph("init", "--force")

    assert first.out == "Memories file created: .agent/memories.md\n"
    assert second.code == 1
    assert second.error == "file-exists"
    assert forced.code == 0
    text = (here / ".agent/memories.md").read_text()
    assert ("My notes." in text, "> Mine" in text) == (False, True)
    assert "My notes." in (here / ".agent/memories.md.bak").read_text()


# --- upkeep ----------------------------------------------------------------------------------


def test_init_forgets_nothing(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix")

    ralph("init", "--force")
    (here / ".agent/memories.md").unlink()
    ralph("init")

    assert ids(ralph("list", "--format", "json")) == [id]
    assert (here / ".agent/memories.md").read_text().count("> Docker first") == 1


def test_verify_says_whether_all_is_undamaged(here: Path, ralph: Ralph) -> None:
    remember(ralph, "Docker first")
    fine = ralph("verify")
    with Project.open(here) as project:
        project.store.database.execute("UPDATE memory SET body = 'Podman first'")

    wrong = ralph("verify")

    assert (fine.code, fine.out) == (0, "✓ No damage found.\n")
    assert wrong.code == 1
    assert "does not match its checksum" in wrong.out
    assert "does not match its checksum" in ralph("verify", "--format", "json").json[0]


def test_stats_add_up(ralph: Ralph) -> None:
    assert ralph("stats").out.startswith("0 memories")
    remember(ralph, "A", "-t", "fix")
    remember(ralph, "B", "-t", "fix")
    ralph("delete", remember(ralph, "C"))

    ran, told = ralph("stats"), ralph("stats", "--format", "json").json

    assert ran.out.startswith("2 memories, used 0 times\n  By state: active 2, pruned 1\n  By type: fix 2\n")
    assert (told["total"], told["by_kind"], told["average_confidence"]) == (2, {"fix": 2}, 0.6)


def test_cleanup_says_what_goes_and_why_and_can_be_undone(ralph: Ralph) -> None:
    doubtful = remember(ralph, "Perhaps so", "--confidence", "0.2")
    kept = [remember(ralph, f"Sure of {n}") for n in range(3)]

    nothing = ralph("cleanup")
    dry = ralph("cleanup", "--min-confidence", "0.5", "--dry-run")
    before = ids(ralph("list", "--format", "json"))
    done = ralph("cleanup", "--min-confidence", "0.5")
    after = ids(ralph("list", "--format", "json"))
    ralph("undo", done.out.split()[-1])

    assert (nothing.code, nothing.out) == (0, "Nothing to clean up.\n")
    assert "confidence 0.20 is below 0.5" in dry.out
    assert "1 of 4 memories would be deleted. Nothing was changed." in dry.out
    assert doubtful in before
    assert "1 of 4 memories deleted. To undo: ralph memory undo chg-" in done.out
    assert sorted(after) == sorted(kept)
    assert doubtful in ids(ralph("list", "--format", "json"))


def test_a_large_cleanup_needs_a_yes(ralph: Ralph) -> None:
    for n in range(8):
        remember(ralph, f"Fact {n}")

    refused = ralph("cleanup", "--unused")
    left = len(ralph("list", "--format", "json").json)
    done = ralph("cleanup", "--unused", "--yes")

    assert refused.code == 1
    assert refused.error == "confirmation-required"
    assert left == 8
    assert "8 of 8 memories deleted" in done.out


def test_even_of_a_few_only_a_fifth_of_the_unused_goes_unasked(ralph: Ralph) -> None:
    for n in range(3):
        remember(ralph, f"Fact {n}")

    refused = ralph("cleanup", "--unused")

    assert refused.error == "confirmation-required"
    assert len(ralph("list", "--format", "json").json) == 3


def test_an_unknown_type_is_imported_as_another_one_and_said(here: Path, ralph: Ralph) -> None:
    known, unknown = ({"type": kind, "content": f"About the {kind}."} for kind in ("fix", "banana"))

    ran = ralph("import", given=json.dumps({"version": 1, "project": "x", "memories": [known, unknown]}))

    listed = {one["content"]: one for one in ralph("list", "--format", "json").json}
    assert ran.code == 0
    assert "the unknown type 'banana': imported as other" in ran.out + ran.err
    assert listed["About the fix."]["type"] == "fix"
    assert (listed["About the banana."]["type"], listed["About the banana."]["tags"]) == ("other", ["banana"])


def test_a_title_is_not_cut_at_an_exclamation_mark_in_a_name(ralph: Ralph) -> None:
    for text in (
        "Library code must not call println! because output is lost",
        "Use println! for output. It is flushed.",
    ):
        remember(ralph, text, "-t", "constraint")

    titles = {one["title"] for one in ralph("list", "--format", "json").json}
    assert titles == {"Library code must not call println! because output is lost", "Use println! for output"}


def test_what_was_deleted_is_nobodys_near_duplicate(ralph: Ralph) -> None:
    texts = (
        "Write the failing test before the fix in every module",
        "Write the failing test before the fix in each module",
    )
    first, second = (remember(ralph, text, "-t", kind) for text, kind in zip(texts, ("fix", "fix"), strict=True))
    assert f"{first}" in ralph("consolidate", "--dry-run").out

    ralph("delete", first)

    assert ralph("consolidate", "--dry-run").out.strip() == "Nothing to consolidate."
    assert [one["id"] for one in ralph("list", "--format", "json").json] == [second]


def test_knowledge_whose_text_is_replaced_is_updated_not_known(here: Path, ralph: Ralph) -> None:
    first = ralph("add", "Kept in cents.", "--type", "knowledge", "--title", "Money", "--tags", "money")
    again = ralph("add", "Kept in cents.", "--type", "knowledge", "--title", "Money", "--tags", "money")
    updated = ralph("add", "Kept in tenths of a cent.", "--type", "knowledge", "--title", "Money", "--tags", "money")

    assert "Memory stored" in first.out
    assert "Already known" in again.out
    assert "Memory updated" in updated.out


def test_consolidate_lets_one_stand_for_many(ralph: Ralph) -> None:
    remember(ralph, "Always run the database migrations before starting the test suite", "-t", "fix")
    remember(ralph, "Run the database migrations before starting the test suite", "-t", "fix")
    remember(ralph, "Bananas are yellow", "-t", "fix")

    dry, done, again = ralph("consolidate", "--dry-run"), ralph("consolidate"), ralph("consolidate")

    assert "says the same as mem-" in dry.out
    assert "1 of 3 memories would be superseded." in dry.out
    assert "1 of 3 memories superseded. To undo: ralph memory undo chg-" in done.out
    assert again.out == "Nothing to consolidate.\n"
    assert len(ralph("list", "--format", "json").json) == 2


def test_watch_shows_what_happened_and_what_is_edited_in_the_file(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, "Docker first", "-t", "fix")
    path = here / ".agent/memories.md"
    path.write_text(path.read_text().replace("> Docker first", "> Docker last"))

    seen = ralph("watch", "--since", "0", "--for", "0")
    told = [
        json.loads(line) for line in ralph("watch", "--since", "0", "--for", "0", "--format", "json").out.splitlines()
    ]

    assert f"person added {id}: Docker" in seen.out
    assert f"file edited {id}: content: Docker first → Docker last" in seen.out
    assert [(one["what"], one["memory_id"]) for one in told] == [("added", id), ("edited", id)]
    assert ralph("watch", "--for", "0").out == ""


def test_watch_goes_on_until_it_is_interrupted(here: Path, ralph: Ralph) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "ralph", "-C", str(here), "memory", "watch", "--since", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout
    id = remember(ralph, "Docker first")

    line = watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=10)

    assert id in line
    assert watching.returncode == 130
    assert err == "Interrupted.\n"


# --- import, export, merge -------------------------------------------------------------------

LEARNING = '{"approach": "tests first", "details": "Write the failing test first."}'


@pytest.fixture
def filled(here: Path) -> Path:
    """Return a project with memories of every sort."""
    with Project.open(here) as project:
        memory = project.memory
        memory.add("Barrel exports\n\n```\nexport *\n```", type="pattern", tags=["imports"], confidence=0.9)
        memory.add('Docker first: =1+1, "quoted"', type="fix", tags=["docker", "net"])
        memory.add("Cents, not floats.", type="knowledge", title="Money", tags=["money"])
        state = {
            "loopId": "loop-1",
            "objective": "Fix the failing tests",
            "status": "completed",
            "iterations": [
                {
                    "number": n,
                    "status": "completed",
                    "learnings": ["Test-driven: wrote the tests first"],
                    "duration": 1000,
                }
                for n in range(1, 6)
            ],
        }
        project.learnings.extract_state(json.dumps(state), "loop-1")
        project.learnings.promote(validate_first=True)
    return here


def contents(root: Path, kinds: tuple[str, ...] = ()) -> set[tuple[object, ...]]:
    with Project.open(root) as project:
        return {
            (m.kind, m.title, m.content, m.tags)
            for m in project.memory.list(MemoryFilter(kinds=kinds, with_figures=True))
        }


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("bundle", ()),
        ("json", ()),
        ("csv", ()),
        ("markdown", ("pattern", "fix")),
        ("learnings", ("strategy", "antipattern", "estimate", "convention")),
    ],
)
def test_what_is_exported_is_imported_once(
    filled: Path, tmp_path: Path, ralph: Ralph, form: str, kinds: tuple[str, ...]
) -> None:
    there = another(tmp_path)

    exported = ralph("export", "--format", form)
    first = ralph("import", at=there, given=exported.out)
    second = ralph("import", "-", at=there, given=exported.out)
    again = ralph("export", "--format", form, at=there)

    assert first.code == second.code == 0, first.err
    wanted = contents(filled, kinds)
    assert len(wanted) >= 2
    assert contents(there) == wanted
    assert f"({form}): {len(wanted)} new\n" in first.out
    assert re.search(r"To undo: ralph memory undo chg-\w+\n$", first.out)
    assert second.out == f"standard input ({form}): 0 new, {len(wanted)} already known\n"
    left_out = sum(kind != "estimate" for kind, *_ in contents(filled) - wanted)  # a figure is not missed
    assert (f"{left_out} memories of other types cannot be written in this format." in exported.err) == bool(left_out)
    assert again.code == 0


def test_staged_learnings_are_exported_and_imported(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    there = another(tmp_path)
    with Project.open(filled) as project:
        for memory in project.memory.list(MemoryFilter(kinds=("strategy", "estimate"))):
            project.store.memories.update(memory.id, "x", _person(), state="staged", validated_at=None)
        staged = {one.content for one in project.learnings.list()}

    ran = ralph("import", at=there, given=ralph("export", "--format", "staging").out)

    assert ran.code == 0, ran.err
    with Project.open(there) as project:
        assert {one.content for one in project.learnings.list()} == staged
    assert staged


def _person() -> Any:
    from ralph.store.memories import ChangeInfo

    return ChangeInfo(who="person", why="")


def test_knowledge_is_exported_to_a_folder_and_imported_from_one(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    there, folder = another(tmp_path), tmp_path / "notes"
    remember(ralph, "Locks are per table.", "-t", "knowledge", "--title", "Locking", "--tags", "db")

    exported = ralph("export", "--format", "knowledge", "--to", str(folder))
    first, second = ralph("import", str(folder), at=there), ralph("import", str(folder), at=there)
    refused, forced = (
        ralph("export", "--format", "knowledge", "--to", str(folder), *more) for more in ((), ("--force",))
    )

    assert sorted(path.name for path in folder.iterdir()) == ["locking.md", "money.md"]
    assert exported.out == f"2 memories written to {folder}.\n"
    assert first.out.splitlines()[0] == f"{folder} (2 knowledge files): 2 new"
    assert second.out == f"{folder} (2 knowledge files): 0 new, 2 already known\n"
    assert contents(there) == contents(filled, ("knowledge",))
    assert refused.code == 2
    assert refused.error == "file-exists"
    assert forced.code == 0


def test_an_import_is_undone_as_a_whole(tmp_path: Path, ralph: Ralph) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(12):
        (folder / f"n{n}.md").write_text(
            f"---\ntitle: Note {n}\ntags: [t{n}]\ncreated_at: 2025-01-01T00:00:00Z\n---\n\nText {n}\n"
        )

    ran = ralph("import", str(folder))
    undone = ralph("undo", ran.out.split()[-1])

    assert ran.out.count("\n") == 2
    assert undone.out.count("Undone: ") == 10
    assert undone.out.endswith("… and 2 more memories.\n")
    assert ralph("list", "--format", "json").json == []


def test_exports_go_to_files_and_replace_none_unless_forced(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "out" / "memories.csv"

    first = ralph("export", "--format", "csv", "--to", str(path))
    written = path.read_text()
    refused = ralph("export", "--format", "csv", "--to", str(path), "-t", "fix")
    forced = ralph("export", "--format", "csv", "--to", str(path), "-t", "fix", "--force")

    assert (first.code, refused.code, forced.code) == (0, 2, 0)
    assert refused.error == "file-exists"
    assert len(written.splitlines()) > len(path.read_text().splitlines())
    assert ralph("export", "--to", str(tmp_path)).code == 2
    assert ralph("export", "--to", f"{path}/x.json").error == "file-unusable"


def test_a_file_of_learnings_is_replaced_and_kept_as_a_backup(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "ralph-learnings.json"

    ralph("export", "--format", "learnings", "--to", str(path))
    first = path.read_text()
    ran = ralph("export", "--format", "learnings", "--to", str(path), "-t", "strategy")

    assert ran.code == 0
    assert path.with_name("ralph-learnings.json.bak").read_text() == first
    assert json.loads(path.read_text())["stats"]["byType"]["estimate"] == 0


def test_exports_are_narrowed(filled: Path, ralph: Ralph) -> None:
    def exported(*words: str) -> list[str]:
        return [one["type"] for one in ralph("export", "--format", "json", *words).json["memories"]]

    assert exported("-t", "fix,pattern") == ["pattern", "fix"]
    assert exported("--tags", "net") == ["fix"]
    assert exported("--min-confidence", "0.85", "-t", "pattern,fix") == ["pattern"]
    assert exported("--state", "pruned") == []
    assert ralph("export", "--format", "json").json["project"] == filled.name


def test_what_list_prints_as_json_can_be_imported(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    there = another(tmp_path)

    ralph("import", at=there, given=ralph("list", "--format", "json").out)

    assert contents(there) == {one for one in contents(filled) if one[0] != "estimate"}


def test_an_import_may_be_held_back_for_review(tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"version": 1, "memories": [{"type": "fix", "content": "Docker first"}]}')

    ralph("import", str(path), "--stage")

    assert ralph("list", "--format", "json").json == []
    assert len(ralph("list", "--state", "staged", "--format", "json").json) == 1


def test_rejected_entries_are_told_with_their_reasons(tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "m.json"
    entries = [{"type": "fix", "content": "Good"}, *({"type": "fix", "content": ""} for _ in range(25))]
    path.write_text(json.dumps({"version": 1, "memories": entries}))

    ran, told = ralph("import", str(path)), ralph("import", str(path), "--format", "json").json

    assert ran.code == 4
    assert ": 1 new, 25 rejected\n" in ran.out
    assert ran.err.splitlines()[0] == "m.json:2: Entry 2 was skipped: it is empty."
    assert ran.err.splitlines()[-1] == "… and 5 more."
    assert (told[0]["known"], len(told[0]["rejected"])) == (1, 25)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00\x01\xff\xfe" * 50),
        ("empty.md", b""),
        ("cut.json", b'{"version": 1, "memories": [{"type": "fix"'),
        ("deep.json", b"[" * 100_000),
        ("nan.json", b'{"version": 1, "memories": [{"type": "fix", "content": "x", "confidence": NaN}]}'),
        ("other.json", b'{"version": 9, "memories": []}'),
    ],
)
def test_a_file_in_which_nothing_can_be_read_is_an_error(
    tmp_path: Path, ralph: Ralph, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    ran = ralph("import", str(path))

    assert ran.code == 1
    assert ran.err.startswith(f"{name}:1: ")
    assert ran.err.count("\n") == 1
    assert ralph("list", "--format", "json").json == []


def test_nothing_is_imported_when_one_path_is_mistyped(tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "m.json"
    path.write_text('[{"type": "fix", "content": "Docker first"}]')

    ran = ralph("import", str(path), str(tmp_path / "nowhere"))

    assert ran.code == 2
    assert ralph("list", "--format", "json").json == []


def test_learnings_with_a_wrong_checksum_need_force(filled: Path, tmp_path: Path, ralph: Ralph) -> None:
    there, path = another(tmp_path), tmp_path / "l.json"
    ralph("export", "--format", "learnings", "--to", str(path))
    path.write_text(re.sub(r'"checksum": "[0-9a-f]{4}', '"checksum": "0000', path.read_text()))

    refused, forced = ralph("import", str(path), at=there), ralph("import", str(path), "--force", at=there)

    assert refused.code == 1
    assert "--force" in refused.err
    assert forced.code == 0
    assert "rejected" not in forced.out
    assert "--force" not in forced.err
    assert len(contents(there)) >= 2


def test_tasks_and_loop_states_are_taken_in_too(tmp_path: Path, ralph: Ralph, here: Path) -> None:
    tasks, state = tmp_path / "todo.md", tmp_path / "state.json"
    tasks.write_text("# Plan\n- [ ] One\n- [ ] Two\n")
    iterations = [{"number": n, "status": "completed", "learnings": ["Wrote tests first"]} for n in range(1, 6)]
    state.write_text(json.dumps({"loopId": "l", "objective": "Fix the tests", "iterations": iterations}))

    ran = ralph("import", str(tasks), str(state))

    assert ran.code == 0, ran.err
    first, second = ran.out.splitlines()
    assert first == f"{tasks} (tasks): 2 tasks added"
    assert re.match(rf"{state} \(loop-state\): \d learnings? new", second)


def test_what_an_agent_imports_is_quarantined(tmp_path: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.json"
    path.write_text('[{"type": "fix", "content": "Docker first"}]')
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    ralph("import", str(path))

    assert ralph("list", "--state", "quarantined", "--format", "json").json[0]["content"] == "Docker first"


IN_A_FILE = [pytest.param(place, marks=pytest.mark.sqlite) for place in (".ralph", ".ralph/ralph.db")]


@pytest.mark.parametrize("place", ["", *IN_A_FILE])
def test_another_project_is_merged_once(filled: Path, tmp_path: Path, ralph: Ralph, place: str) -> None:
    there = another(tmp_path)
    remember(ralph, 'Docker first: =1+1, "quoted"', "-t", "fix", "--tags", "compose", at=there)

    first = ralph("merge", str(filled / place), at=there)
    second = ralph("merge", str(filled / place), at=there)

    assert first.code == second.code == 0, first.err
    assert "(store): " in first.out
    assert " new, 1 merged\n" in first.out
    assert ": 0 new, " in second.out
    assert "merged" not in second.out.split(": ", 1)[1]
    assert {one[1] for one in contents(there)} == {one[1] for one in contents(filled)}


def test_a_file_can_be_merged_as_well(tmp_path: Path, ralph: Ralph) -> None:
    path = tmp_path / "m.json"
    path.write_text('[{"type": "fix", "content": "Docker first"}]')

    assert "(json): 1 new" in ralph("merge", str(path)).out
    assert ralph("merge", str(tmp_path / "nowhere")).code == 2


# --- in a terminal of 80 columns -------------------------------------------------------------


LONG = "The integration tests need docker compose to be up before they start, or every one of them fails at once."


def seen_at_80(here: Path, *words: str) -> list[str]:
    code, seen = at_terminal(here, "memory", *words, environment={"NO_COLOR": "1"})
    assert code == 0, seen
    lines = seen.rstrip("\n").split("\n")
    assert max(map(len, lines)) <= 80, seen
    return lines


@pytest.mark.parametrize("words", [("list",), ("list", "--state", "all"), ("search", "docker")])
def test_a_table_never_wraps(here: Path, ralph: Ralph, words: tuple[str, ...]) -> None:
    id = remember(ralph, LONG, "-t", "architecture", "--tags", "docker,compose,integration,testing")

    heading, row = seen_at_80(here, *words)

    assert heading.startswith("ID ")
    assert row.startswith(id)
    assert row.endswith("…")
    assert "The integration tes" in row


def test_near_duplicates_are_named_in_full(here: Path, ralph: Ralph) -> None:
    kept = remember(ralph, LONG, "-t", "fix", "--tags", "docker,compose")
    other = remember(ralph, LONG.replace("every one", "each one"), "-t", "fix", "--tags", "docker,compose")

    _, row, why, *_ = seen_at_80(here, "consolidate", "--dry-run")

    assert row.startswith(other)
    assert why.startswith(f"  why: says the same as {kept} (")


def test_a_change_is_shown_whole_however_long_it_is(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, LONG, "-t", "fix", "--tags", "docker")
    why = "what was said before is true of the old machines alone, which are gone"
    ralph("edit", id, "--content", LONG.replace("docker", "podman"), "-t", "pitfall", "--why", why)

    for words in (("history", id), ("why", id)):
        lines = seen_at_80(here, *words)
        assert "  type: fix → pitfall" in lines
        text = " ".join(" ".join(lines).split())
        assert f"content: {LONG} → {LONG.replace('docker', 'podman')}" in text
        assert " title: " not in text  # it is the beginning of the text
        assert f"why: {why}" in text


def test_a_text_is_wrapped_between_words(here: Path, ralph: Ralph) -> None:
    id = remember(ralph, f"{LONG} {LONG[:-1]} too.")

    text = " ".join(" ".join(seen_at_80(here, "show", id)).split())

    assert f"{LONG} {LONG[:-1]} too." in text


def test_examples_fit_80_columns() -> None:
    import importlib

    for name in ("memory", "learn", "demo"):
        epilog = importlib.import_module(f"ralph.cli.{name}").EPILOG
        assert max(map(len, epilog.splitlines())) <= 80


# --- what a newcomer stumbled over -----------------------------------------------------------


def test_the_reason_of_a_change_is_said_once(ralph: Ralph) -> None:
    id = remember(ralph, "Docker first")
    ralph("delete", id, "--why", "no longer true")

    lines = ralph("history", id).out.splitlines()

    assert lines[-2].endswith("deleted  no longer true")
    assert lines[-1] == "  state: active → pruned"


@pytest.mark.parametrize("words", [("list",), ("search", "x"), ("prime",), ("export",)])
def test_an_unknown_type_is_refused_with_a_better_one(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words, "--type", "patern")

    assert ran.code == 2
    assert ran.error == "unknown-memory-type"
    assert "pattern" in ran.err.split("?")[-2]
    assert ralph(*words, "--type", "fix,tool_usage").code == 0


def test_old_is_ninety_days_unless_a_number_is_given(ralph: Ralph) -> None:
    remember(ralph, "Docker first")

    assert ralph("cleanup", "--older-than", "--dry-run").out == "Nothing to clean up.\n"


def test_what_was_out_of_use_is_brought_back(ralph: Ralph) -> None:
    id = remember(ralph, "Docker first")
    ralph("delete", id)

    ran = ralph("add", "Docker first")

    assert ran.out == f"📝 Memory restored: {id}\n"


def test_an_import_says_what_stays_deleted_and_what_is_said_twice(tmp_path: Path, ralph: Ralph) -> None:
    ralph("delete", remember(ralph, "Docker first", "-t", "fix"))
    path = tmp_path / "m.json"
    entries = [{"type": "fix", "content": text} for text in ("Docker first", "Tabs are wanted", "Tabs are wanted")]
    path.write_text(json.dumps({"version": 1, "memories": entries}))

    ran = ralph("import", str(path))

    assert ran.out.splitlines()[0] == f"{path} (json): 1 new, 1 duplicated in the file, 1 skipped (deleted earlier)"


def test_the_undo_of_an_import_says_that_tasks_stay(tmp_path: Path, ralph: Ralph) -> None:
    tasks, memories = tmp_path / "todo.md", tmp_path / "m.json"
    tasks.write_text("# Plan\n- [ ] One\n")
    memories.write_text('[{"type": "fix", "content": "Docker first"}]')

    ran = ralph("import", str(tasks), str(memories))

    assert "\nTo undo (tasks are kept): ralph memory undo chg-" in ran.out


def test_the_bundle_is_explained_to_a_person(here: Path, ralph: Ralph) -> None:
    remember(ralph, "Docker first")

    _, seen = at_terminal(here, "memory", "export")

    assert seen.endswith("use --format json.\n")
    assert ralph("export").err == ""


def test_a_fix_is_listed_without_its_problem(here: Path, ralph: Ralph) -> None:
    body = "**Problem:** FAIL: test_x\n\n**Fix:** Start docker first."
    id = remember(ralph, body, "-t", "fix", "--title", "Fix for tests failure: FAIL: test_x")

    assert "Fix for tests failure: FAIL: test_x: Start docker first.\n" in ralph("list").out
    assert "**Problem:** FAIL: test_x" in ralph("show", id).out


def test_a_fix_whose_title_says_what_was_done_is_listed_without_repeating_it(here: Path, ralph: Ralph) -> None:
    body = "**Problem:** exited with 1 (make)\n\n**Fix:** Start docker first."
    remember(ralph, body, "-t", "fix", "--title", "make failed: Start docker first.")

    assert "  make failed: Start docker first.\n" in ralph("list").out


def test_markdown_of_one_memory_is_its_text_as_it_is(ralph: Ralph) -> None:
    id = remember(ralph, "Docker\n\n# Heading\n\x1b[31mred\x1b[0m", "-t", "fix")

    assert f"### {id}\n> Docker\n>\n> # Heading\n> red\n<!-- created: " in ralph("show", id, "--format", "markdown").out


# --- the program itself ----------------------------------------------------------------------


@pytest.mark.sqlite
def test_prime_loads_little(here: Path, ralph: Ralph) -> None:
    """Agents run it at the start of every session."""
    remember(ralph, "Docker first", "-t", "fix")
    ralph("prime")
    code = "import sys; from ralph.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", code, "-C", str(here), "memory", "prime"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    loaded = set(done.stderr.split())
    assert "> Docker first" in done.stdout
    # Changed files are looked for, but nothing is parsed.
    sync = {"ralph.formats", "ralph.formats.sync", "ralph.formats.sync.disk", "ralph.formats.sync.location"}
    assert {name for name in loaded if name.startswith(("ralph.formats", "ralph.loop"))} <= sync
    assert loaded & {"yaml", "subprocess", "dataclasses", "inspect", "csv", "tempfile"} == set()
