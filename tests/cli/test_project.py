"""`ralph project`, and sharing memories between projects, as a person sees them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.project import Project
from ralph.workspace import init_project
from tests.cli.ran import Ran, run
from tests.cli.terminal import at_terminal
from tests.make import claim_task

Ralph = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, store_url: str) -> Path:
    """Set up two projects in one database and return the working copy of the first."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        init_project(tmp_path / name, url=store_url, name=name)
    return tmp_path / "first"


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words, at="first": run(capsys, here.parent / at, *words)


def names(ralph: Ralph) -> list[str]:
    return [one["name"] for one in ralph("project", "list", "--format", "json").json]


# --- list and show ------------------------------------------------------------------------------


def test_the_list_says_what_each_holds_and_which_one_is_here(ralph: Ralph) -> None:
    ralph("task", "add", "One")
    ralph("task", "done", ralph("task", "add", "Two", "--format", "quiet").out.strip())
    ralph("memory", "add", "Use uv.", at="second")

    ran = ralph("project", "list")

    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == ["ID", "OPEN", "MEMORIES", "ATTEMPTS", "ACTIVE", "NAME"]
    assert [(row[1], row[2], row[3], row[6:]) for row in rows[1:]] == [
        ("1/2", "0", "0", ["first", "(current)"]),
        ("0/0", "1", "0", ["second"]),
    ]


def test_programs_get_the_same_as_json(ralph: Ralph) -> None:
    first, second = ralph("project", "list", "--format", "json", at="second").json

    assert (first["name"], first["is_here"]) == ("first", False)
    assert (second["name"], second["is_here"], second["tasks"], second["open_tasks"]) == ("second", True, 0, 0)
    assert (second["memories"], second["attempts"], second["is_shared"]) == (0, 0, False)
    assert second["last_activity"] == second["created_at"]


def test_one_is_shown_by_name_or_id_or_because_it_is_here(ralph: Ralph) -> None:
    second = ralph("project", "show", "second", "--format", "json").json

    assert ralph("project", "show", second["id"]).out.startswith(f"{second['id']}  second\n")
    assert "first (current)" in ralph("project", "show").out
    ran = ralph("project", "show", "third")
    assert (ran.code, ran.out, ran.error) == (1, "", "project-not-found")


@pytest.mark.sqlite
def test_a_project_in_a_file_of_its_own_is_the_only_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(tmp_path)

    ran = run(capsys, tmp_path, "project", "list")

    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert f"{tmp_path.name} (current)" in ran.out
    assert run(capsys, tmp_path, "project", "rename", tmp_path.name, "Other").code == 0
    assert run(capsys, tmp_path, "status").code == 0
    assert "Other (current)" in run(capsys, tmp_path, "project", "show").out


# --- rename -------------------------------------------------------------------------------------


def test_a_renamed_project_is_still_the_one_of_this_working_copy(here: Path, ralph: Ralph) -> None:
    ralph("task", "add", "One")

    ran = ralph("project", "rename", "first", " New \n name ")

    assert ran.code == 0
    assert "is now called New name" in ran.out
    assert "other working copies" in ran.out
    assert 'project = "New name"' in (here / ".ralph.toml").read_text(encoding="utf-8")
    assert "One" in ralph("task", "list").out
    assert "New name (current)" in ralph("project", "list").out


def test_the_settings_of_another_project_are_left_alone(here: Path, ralph: Ralph) -> None:
    before = (here / ".ralph.toml").read_bytes()

    ran = ralph("project", "rename", "second", "Other")

    assert ran.code == 0
    assert (here / ".ralph.toml").read_bytes() == before
    assert ".ralph.toml" not in ran.out
    assert ralph("status", at="second").error == "project-not-in-database"
    assert [line.split()[6:] for line in ralph("project", "list", at="second").out.splitlines()[1:]] == [
        ["first"],
        ["Other"],
    ]


def test_who_names_its_project_by_id_need_not_change_anything(here: Path, ralph: Ralph) -> None:
    second = ralph("project", "show", "second", "--format", "json").json["id"]
    toml = here.parent / "second" / ".ralph.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace('"second"', f'"{second}"'), encoding="utf-8")

    ralph("project", "rename", "second", "Other", at="second")

    assert f'project = "{second}"' in toml.read_text(encoding="utf-8")
    assert "Other (current)" in ralph("project", "list", at="second").out


def test_a_name_from_the_environment_is_told_of(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_STORE_PROJECT", "first")

    ran = ralph("project", "rename", "first", "Other")

    assert "Change RALPH_STORE_PROJECT" in ran.out


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("second", "project-exists"),
        ("shared", "reserved-name"),
        ("  \n ", "empty-name"),
        ("\x1b\x07", "empty-name"),
        ("x" * 101, "name-too-long"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(ralph: Ralph, name: str, error: str) -> None:
    ran = ralph("project", "rename", "first", name)

    assert (ran.code, ran.error) == (2, error)
    assert names(ralph) == ["first", "second"]


# --- remove -------------------------------------------------------------------------------------


def test_a_removed_project_is_gone_with_all_it_held_and_a_copy_is_kept(here: Path, ralph: Ralph) -> None:
    ralph("task", "add", "One", at="second")
    ralph("memory", "add", "Use uv.", at="second")
    ralph("memory", "add", "Ours stays.")

    ran = ralph("project", "remove", "second", "--yes")

    assert ran.code == 0
    assert "second (1 task, 1 memory)." in ran.out
    assert names(ralph) == ["first"]
    assert "Ours stays." in ralph("memory", "list").out
    assert "Backup: " in ran.out


def test_a_removed_project_comes_back_with_the_command_that_is_told(here: Path, ralph: Ralph) -> None:
    ralph("task", "add", "One", at="second")
    ralph("memory", "add", "Use uv.", at="second")
    ralph("memory", "add", "Ours stays.")
    removed = ralph("project", "remove", "second", "--yes")
    told = removed.out.split("To restore it: ralph ")[1]

    ran = ralph(*shlex.split(told))

    assert ran.code == 0
    assert names(ralph) == ["first", "second"]
    assert "Use uv." in ralph("memory", "list", at="second").out
    assert "One" in ralph("task", "list", at="second").out
    assert "Ours stays." in ralph("memory", "list").out


@pytest.mark.postgres
def test_the_newest_backup_of_a_project_is_never_that_of_another_one(here: Path, ralph: Ralph) -> None:
    ralph("project", "remove", "second", "--yes")

    assert ralph("backup", "--list", "--format", "json").json == []


def test_nothing_is_removed_when_there_is_nobody_to_ask(ralph: Ralph) -> None:
    ran = ralph("project", "remove", "second")

    assert (ran.code, ran.error) == (2, "no-terminal")
    assert names(ralph) == ["first", "second"]


def test_a_person_is_asked(here: Path, ralph: Ralph) -> None:
    environment = {"RALPH_STORE": os.environ["RALPH_STORE"]} if "RALPH_STORE" in os.environ else {}

    code, said = at_terminal(here, "project", "remove", "second", typed=[("[y/N]", "n\n")], environment=environment)
    kept = names(ralph)
    yes, _ = at_terminal(here, "project", "remove", "second", typed=[("[y/N]", "y\n")], environment=environment)

    assert (code, kept, yes, names(ralph)) == (1, ["first", "second"], 0, ["first"])
    assert "Nothing was changed." in said


def test_a_project_somebody_works_on_stays(here: Path, ralph: Ralph) -> None:
    ralph("task", "add", "One", at="second")
    with Project.open(here.parent / "second") as project:
        claim_task(project.store, "machine/7", 60)

    ran = ralph("project", "remove", "second", "--yes")

    assert (ran.code, ran.error) == (1, "project-busy")
    assert names(ralph) == ["first", "second"]
    assert not list(here.parent.rglob("*removing*"))


def test_no_project_is_removed_without_a_backup_unless_that_is_said(here: Path, ralph: Ralph, store_url: str) -> None:
    (here / ".ralph" / "removed").mkdir()
    for folder in (here / ".ralph" / "removed" / "backups", here.parent / "backups"):
        folder.symlink_to(here.parent)  # where no backup goes

    refused = ralph("project", "remove", "second", "--yes")
    before = names(ralph)
    done = ralph("project", "remove", "second", "--yes", "--no-backup")

    assert (refused.code, before) == (1, ["first", "second"])
    assert (done.code, names(ralph)) == (0, ["first"])
    assert "Backup: " not in done.out


def test_the_own_project_can_be_removed_and_made_anew(ralph: Ralph) -> None:
    assert ralph("project", "remove", "first", "--yes").code == 0

    assert ralph("status").error == "project-not-in-database"
    assert names(ralph) == ["second"]
    assert ralph("init").code == 0
    assert names(ralph) == ["second", "first"]


def test_an_agent_neither_renames_nor_removes(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    assert ralph("project", "rename", "second", "Other").error == "person-required"
    assert ralph("project", "remove", "second", "--yes").error == "person-required"
    assert names(ralph) == ["first", "second"]


# --- memories that all share ----------------------------------------------------------------------


def add(ralph: Ralph, text: str) -> str:
    return ralph("memory", "add", text, "--format", "quiet").out.strip()


def test_a_memory_is_shared_listed_and_unshared(ralph: Ralph) -> None:
    id = add(ralph, "Use uv instead of pip.")

    shared = ralph("memory", "share", id)

    assert (shared.code, f"Memory shared: {id}" in shared.out) == (0, True)
    assert "Use uv instead of pip." in ralph("memory", "search", "uv", at="second").out
    assert ralph("memory", "list", "--shared", at="second").out.splitlines()[1].split()[2] == "first"
    (listed,) = ralph("memory", "list", "--shared", "--format", "json").json
    assert (listed["id"], listed["shared_from"]) == (id, "first")
    assert "Already shared" in ralph("memory", "share", id).out
    assert f"No longer shared: {id}" in ralph("memory", "unshare", id).out
    assert "No memories yet" in ralph("memory", "list", at="second").out
    assert "No shared memory" in ralph("memory", "list", "--shared").out
    assert id in ralph("memory", "list").out


def test_the_shared_project_is_listed_as_such_and_left_alone(ralph: Ralph) -> None:
    ralph("memory", "share", add(ralph, "Use uv instead of pip."))

    assert ralph("project", "list").out.splitlines()[-1].endswith("shared (shared memories)")
    assert "p-shared  shared" in ralph("project", "show", "shared").out
    for words in (("rename", "shared", "Other"), ("remove", "shared", "--yes"), ("remove", "p-shared", "--yes")):
        ran = ralph("project", *words)
        assert (ran.code, ran.error) == (2, "shared-project")
    assert len(ralph("memory", "list", "--shared", "--format", "json").json) == 1


def test_an_agent_is_told_that_sharing_is_for_people(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    id = add(ralph, "Use uv instead of pip.")
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    ran = ralph("memory", "share", id)

    assert (ran.code, ran.error) == (2, "person-required")


@pytest.mark.sqlite
def test_who_shares_in_a_file_of_its_own_goes_on_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(tmp_path)
    id = run(capsys, tmp_path, "memory", "add", "Use uv.", "--format", "quiet").out.strip()

    assert run(capsys, tmp_path, "memory", "share", id).code == 0

    assert "Use uv." in run(capsys, tmp_path, "memory", "list").out
    assert run(capsys, tmp_path, "status").code == 0
    assert run(capsys, tmp_path, "init").code == 0
