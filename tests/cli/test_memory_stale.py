"""`ralph memory` and the files that memories name: what is stale, why, and how it is confirmed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.records import now
from ralph.memory.freshness import check_staleness
from ralph.project import Project
from tests.cli.ran import Ralph, Ran, run
from tests.make import set_up_project

TEXT = "The parser in src/parser.py wants tabs"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "here"
    (directory / "src").mkdir(parents=True)
    (directory / "src/parser.py").write_text("tabs = True\n")
    set_up_project(directory)
    return directory


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    def memory(*words: str) -> Ran:
        return run(capsys, here, "memory", *words)

    return memory


@pytest.fixture
def id(ralph: Ralph) -> str:
    """Return the memory of a file."""
    return ralph("add", TEXT, "-t", "fix", "--format", "quiet").out.strip()


def check(here: Path) -> None:
    """Mark what is stale, as a run of the loop does."""
    with Project.open(here) as project:
        check_staleness(project.store, here)


def change(here: Path) -> str:
    """Change the file; give what is told of it then."""
    (here / "src/parser.py").write_text("tabs = False\n")
    return f"src/parser.py has changed since {now()[:10]}"


def test_list_stale_looks_at_the_files_and_says_what_became_of_them(ralph: Ralph, here: Path, id: str) -> None:
    ralph("add", "Bananas are yellow", "-t", "fix")
    assert ralph("list", "--stale").out == "No stale memories: none of their files have changed.\n"

    told = change(here)
    listed = ralph("list", "--stale").out

    assert f"\n  stale: {told}\n" in listed
    assert id in listed
    assert "Bananas" not in listed
    assert listed.endswith("To confirm a memory that still holds: ralph memory confirm ID\n")


def test_list_stale_goes_with_the_other_options(ralph: Ralph, here: Path, id: str) -> None:
    told = change(here)

    assert [one["stale"] for one in ralph("list", "--stale", "-t", "fix", "--format", "json").json] == [told]
    assert ralph("list", "--stale", "-t", "pattern", "--format", "json").json == []
    assert ralph("list", "--stale", "-t", "pattern").out == "No memory matches.\n"
    assert f"| check first: {told} -->" in ralph("list", "--stale", "--format", "markdown").out


def test_once_marked_it_is_shown_wherever_the_memory_is(ralph: Ralph, here: Path, id: str) -> None:
    assert "(stale)" not in ralph("list").out
    told = change(here)
    check(here)

    assert f"(stale) {TEXT}" in ralph("list").out
    assert f"(stale) {TEXT}" in ralph("search", "parser", "tabs").out
    assert f"Stale: {told}" in " ".join(ralph("show", id).out.split())
    assert ralph("show", id, "--format", "json").json["stale"] == told
    assert f"| check first: {told} -->" in ralph("prime").out


def test_its_score_says_so(ralph: Ralph, here: Path, id: str, capsys: pytest.CaptureFixture[str]) -> None:
    task = run(capsys, here, "task", "add", "Parser: tabs", "--format", "quiet").out.strip()
    change(here)
    check(here)

    explained = ralph("search", "parser", "tabs", "--explain").out

    assert "stale -0.15" in explained
    assert "files it names have changed or are gone" in explained
    assert ralph("search", "parser", "--format", "json").json[0]["because"]["stale"] == pytest.approx(-0.15)
    assert "  stale       -0.15  " in ralph("why", id, "--task", task, "--explain").out


def test_confirm_says_that_it_still_holds(ralph: Ralph, here: Path, id: str) -> None:
    told = change(here)
    check(here)

    confirmed = ralph("confirm", id, id, "--why", "looked")

    assert (confirmed.code, confirmed.out) == (0, f"✓ Memory confirmed: {id}, although {told}\n")
    assert ralph("list", "--stale", "--format", "json").json == []
    last = ralph("history", id, "--format", "json").json[-1]
    assert (last["what"], last["who"], last["why"]) == ("confirmed", "person", "looked")
    history = ralph("history", id).out
    assert f"check first: {told} → none" in history
    assert "seen" not in history


def test_what_is_fresh_can_be_confirmed_too(ralph: Ralph, id: str) -> None:
    assert ralph("confirm", id).out == f"✓ Memory confirmed: {id}\n"
    assert ralph("show", id, "--format", "json").json["verified_at"]


def test_an_agent_may_confirm(ralph: Ralph, here: Path, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change(here)
    monkeypatch.setenv("RALPH_SESSION", "s")

    assert ralph("confirm", id).code == 0
    assert ralph("history", id, "--format", "json").json[-1]["who"] == "agent"


def test_an_undone_confirmation_brings_the_doubt_back(ralph: Ralph, here: Path, id: str) -> None:
    told = change(here)
    check(here)
    ralph("confirm", id)

    ralph("undo", id)

    assert [one["stale"] for one in ralph("list", "--stale", "--format", "json").json] == [told]


def test_all_or_none_are_confirmed_and_only_what_is_in_use(ralph: Ralph, here: Path, id: str) -> None:
    told = change(here)
    other = ralph("add", "Bananas are yellow", "--format", "quiet").out.strip()
    check(here)
    ralph("delete", other)

    refused = ralph("confirm", id, other)
    unknown = ralph("confirm", "mem-0-none")

    assert refused.error == "memory-not-found"
    assert unknown.code == refused.code
    assert ralph("show", id, "--format", "json").json["stale"] == told


def test_an_edited_text_or_other_files_make_it_fresh(ralph: Ralph, here: Path, id: str) -> None:
    change(here)
    check(here)

    ralph("edit", id, "--tags", "parser")
    assert ralph("show", id, "--format", "json").json["stale"]
    ralph("edit", id, "--content", "The parser in src/parser.py wants no tabs")

    assert ralph("show", id, "--format", "json").json["stale"] == ""
    assert ralph("list", "--stale", "--format", "json").json == []


def test_to_say_it_again_makes_it_fresh(ralph: Ralph, here: Path, id: str) -> None:
    change(here)
    check(here)

    assert ralph("add", TEXT, "-t", "fix", "--format", "quiet").out.strip() == id
    assert ralph("list", "--stale", "--format", "json").json == []


def test_an_entry_edited_in_the_file_is_fresh(ralph: Ralph, here: Path, id: str) -> None:
    change(here)
    check(here)
    file = here / ".agent/memories.md"
    file.write_text(file.read_text().replace("wants tabs", "takes blanks"))

    assert ralph("list", "--stale", "--format", "json").json == []


def test_the_marks_stay_here(ralph: Ralph, here: Path, id: str) -> None:
    told = change(here)
    check(here)

    for form in ("bundle", "json", "csv"):
        exported = ralph("export", "--format", form).out
        memory = exported.split('"event"', maxsplit=1)[0]
        assert id in memory
        assert told not in memory
        assert '"seen"' not in memory


def test_the_files_of_another_project_are_not_looked_for_here(
    ralph: Ralph, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Project.open(here) as project:
        project.store.projects.add("other")
    monkeypatch.setenv("RALPH_STORE_PROJECT", here.name)
    ralph("add", "About src/parser.py and src/none.py", "--project", "other")
    change(here)

    assert len(ralph("list", "--project", "other", "--format", "json").json) == 1
    assert ralph("list", "--stale", "--project", "other", "--format", "json").json == []


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("prime", "--budget", "500"), ("search", "parser")])
def test_to_show_what_is_stale_no_file_is_looked_at(ralph: Ralph, here: Path, id: str, words: tuple[str, ...]) -> None:
    change(here)
    check(here)
    code = "import sys; from ralph.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", code, "-C", str(here), "memory", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )

    assert id in done.stdout
    assert set(done.stderr.split()) & {"ralph.memory.freshness", "ralph.core.git", "subprocess"} == set()
