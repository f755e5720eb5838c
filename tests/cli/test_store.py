"""`ralph store`: where a project is kept, and how it gets elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.ancestry import enclosing_sessions
from ralph.project import Project
from ralph.store import Store, create_store, open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.workspace import init_project
from tests.cli.ran import Ralph, run
from tests.cli.terminal import at_terminal
from tests.store.make import fill, learn


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    """Give a filled project in a file."""
    store = create_store(str(tmp_path / "file.db"), "alpha")
    fill(store)
    yield store
    store.close()


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, tmp_path, *words)


def test_a_project_is_copied_and_both_sides_are_counted(file: Store, store_url: str, ralph: Ralph) -> None:
    ran = ralph("store", "copy", file.database.display_url, store_url)

    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0].split() == ["TABLE", "ROWS", "SHA-256"]
    assert [line.split()[:2] for line in lines if line.startswith(("tasks ", "memory "))] == [
        ["tasks", "30"],
        ["memory", "20"],
    ]
    assert lines[-1].startswith("Copied alpha to ")
    assert lines[-1].endswith(" rows, verified.")
    with_copy = open_store(store_url, "alpha")
    assert len(with_copy.memories.all()) == 20
    with_copy.close()


def test_copying_twice_is_no_fault_and_a_different_one_is_refused(file: Store, store_url: str, ralph: Ralph) -> None:
    first = ralph("store", "copy", file.database.display_url, store_url, "--format", "json")
    again = ralph("store", "copy", file.database.display_url, store_url)
    learn(file, "Learned since")

    ran = ralph("store", "copy", f"sqlite://{file.database.display_url}", store_url, "--project", "alpha")
    other = ralph("store", "copy", file.database.display_url, store_url, "--as", "beta", "--format", "json")

    assert first.json[0]["was_there"] is False
    assert again.code == 0
    assert " and identical: " in again.out
    assert ran.code == 2
    assert "Copy it under another name with --as NAME" in ran.err
    assert other.json[0]["project"] == "beta"
    assert {one["table"]: one["rows"] for one in other.json[0]["tables"]}["memory"] == 21


def test_all_projects_of_a_database_are_copied_unless_one_is_named(
    file: Store, store_url: str, tmp_path: Path, ralph: Ralph
) -> None:
    file.projects.add("beta")

    ran = ralph("store", "copy", file.database.display_url, store_url, "--format", "json")
    renamed = ralph("store", "copy", file.database.display_url, store_url, "--as", "gamma")
    missing = ralph("store", "copy", file.database.display_url, store_url, "--project", "none")

    assert [one["project"] for one in ran.json] == ["alpha", "beta"]
    assert (renamed.code, renamed.error) == (2, "invalid-usage")
    assert (missing.code, missing.error) == (1, "project-not-in-database")


def test_the_project_of_a_directory_is_filled_and_no_second_one_put_beside_it(
    file: Store, tmp_path: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    init_project(there)

    ran = ralph("store", "copy", file.database.display_url, str(there))
    again = ralph("store", "copy", file.database.display_url, str(there))
    with Project.open(there) as project:
        project.tasks.add("Added there")
    differs = ralph("store", "copy", file.database.display_url, str(there))

    assert ran.code == again.code == 0, ran.err + again.err
    assert "and identical: " in again.out
    assert differs.code == 2
    with Project.open(there) as project:
        assert len(project.tasks.list()) == 31
        assert len(project.store.projects.all()) == 1


@pytest.mark.postgres
def test_a_project_moves_to_a_server_and_its_directory_joins_it_there(
    store_url: str, tmp_path: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.delenv("RALPH_STORE")
    init_project(here)
    with Project.open(here) as project:
        memory = project.memory.add("Docker first", type="fix").memory

    ran = ralph("store", "copy", str(here), store_url)
    monkeypatch.setenv("RALPH_STORE", store_url)
    init_project(here, name="here")

    assert ran.code == 0, ran.err
    with Project.open(here) as project:
        assert project.store.is_shared
        project.files.sync()
        assert [one.id for one in project.store.memories.all()] == [memory.id]
        assert project.files.problems == []
    assert (here / ".agent/memories.md").read_text().count("> Docker first") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none.db", "does not exist"),
        ("mysql://host/db", "begins with sqlite:/// or postgresql://"),
        (".", "No Ralph project in "),
    ],
)
def test_what_cannot_be_copied_is_said_in_a_sentence(
    tmp_path: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    monkeypatch.delenv("RALPH_STORE", raising=False)
    monkeypatch.chdir(tmp_path)

    ran = ralph("store", "copy", source, "to.db")

    assert ran.code in (1, 2)
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "to.db").exists()


@pytest.mark.skipif(bool(enclosing_sessions()), reason="a session copies nothing to a server")
def test_a_password_is_never_printed(file: Store, ralph: Ralph) -> None:
    ran = ralph("store", "copy", file.database.display_url, "postgresql://me:secret@127.0.0.1:1/none")

    assert ran.code == 1
    assert "cannot be reached" in ran.err
    assert "secret" not in ran.out + ran.err


def test_the_bar_of_a_copy_is_gone_before_its_result_is_shown(file: Store, tmp_path: Path) -> None:
    code, shown = at_terminal(tmp_path, "store", "copy", file.database.display_url, str(tmp_path / "to.db"))

    assert code == 0
    before = shown.partition("TABLE")[0].removesuffix("\x1b[1m")
    assert before == "" or before.endswith("\r\x1b[K")  # a quick copy shows none
    assert " rows, verified." in shown


def test_where_a_project_is_kept_is_shown(tmp_path: Path, ralph: Ralph, request: pytest.FixtureRequest) -> None:
    init_project(tmp_path)
    with Project.open(tmp_path) as project:
        project.tasks.add("One")
        id = project.store.project_id

    ran, told = ralph("store", "show"), ralph("store", "show", "--format", "json").json

    is_file = request.config.getoption("--store") == "sqlite"
    assert ran.code == 0
    assert f"{tmp_path.name} ({id})" in ran.out
    assert told["database"] == ("sqlite" if is_file else "postgresql")
    assert told["rows"]["tasks"] == 1
    assert told["schema"] == SCHEMA_VERSION
