"""Setting a project up on a server, and which directories are meant by RALPH_STORE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.errors import RalphError, UsageError
from ralph.maintenance import copy_store
from ralph.project import Project
from ralph.store import open_database, open_store
from ralph.store.projects import ProjectStore
from ralph.store.tasks import TaskDraft
from ralph.workspace import find_root, init_project
from tests.postgres import Server

pytestmark = [pytest.mark.postgres, pytest.mark.own_store]
SCRAM = "local all postgres trust\nlocal all all scram-sha-256\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """Give a server that wants passwords."""
    started = Server(hba=SCRAM)
    started.run("CREATE ROLE ralph LOGIN PASSWORD 'p@ss/w#1'")
    yield started
    started.remove()


@pytest.fixture
def url(guarded: Server) -> str:
    """Give the URL of a new database, without a password."""
    guarded.run("DROP DATABASE IF EXISTS team WITH (FORCE)")
    guarded.run("CREATE DATABASE team OWNER ralph")
    return guarded.url("team", "ralph")


def with_password(url: str) -> str:
    return url.replace("ralph@", "ralph:p%40ss%2Fw%231@")


def a_directory(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    directory.mkdir()
    return directory


def test_the_password_of_ralph_store_is_used_for_the_url_that_is_noted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, clone = a_directory(tmp_path, "shop"), a_directory(tmp_path, "clone")
    monkeypatch.setenv("RALPH_STORE", with_password(url))

    done = init_project(shop, url=url, name="shop")

    assert f"created project 'shop' in {url}" in done
    settings = (shop / ".ralph.toml").read_text()
    assert url in settings
    assert "p%40ss" not in settings
    (clone / ".ralph.toml").write_text(settings)
    assert f"joined project 'shop' in {url}" in init_project(clone)
    assert init_project(clone) == []


def test_a_project_with_a_file_of_its_own_is_not_moved_by_ralph_store(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = a_directory(tmp_path, "alone")
    init_project(alone)
    with Project.open(alone) as project:
        project.tasks.add("Mine")
    init_project(a_directory(tmp_path, "shop"), url=with_password(url), name="shop")
    monkeypatch.setenv("RALPH_STORE", with_password(url))

    init_project(alone)

    with Project.open(alone) as project:
        assert [task.title for task in project.tasks.list()] == ["Mine"]
        assert not project.store.is_shared
    assert open_store(with_password(url), "shop").tasks.all() == []


def test_to_start_on_a_server_beside_a_file_is_refused_until_it_was_taken_along(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = a_directory(tmp_path, "alone")
    init_project(alone)

    with pytest.raises(UsageError) as refused:
        init_project(alone, url=with_password(url))
    assert refused.value.code == "project-has-data"

    with Project.open(alone) as project:
        project.tasks.add("Taken along")
    monkeypatch.setenv("RALPH_STORE", with_password(url))
    copy_store(str(alone), url)
    assert any(line.startswith("joined") for line in init_project(alone, url=url, name="alone"))
    with Project.open(alone) as project:
        assert [task.title for task in project.tasks.list()] == ["Taken along"]
        assert project.store.is_shared


def test_a_server_is_never_asked_for_its_only_project(url: str) -> None:
    database = open_database(with_password(url), create=True)
    ProjectStore(database).add("shop")
    database.close()

    with pytest.raises(RalphError, match=r"Set \[store\] project to one of: shop"):
        open_store(with_password(url))


def test_an_older_branch_without_settings_is_still_the_same_project(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = a_directory(tmp_path, "shop")
    monkeypatch.setenv("RALPH_STORE", with_password(url))
    init_project(shop)
    with Project.open(shop) as project:
        project.store.tasks.add(TaskDraft(title="Known"))

    (shop / ".ralph.toml").unlink()

    with Project.open(shop) as project:
        assert [task.title for task in project.tasks.list()] == ["Known"]


def test_another_name_makes_it_that_project(url: str, tmp_path: Path) -> None:
    shop = a_directory(tmp_path, "shop")
    init_project(shop, url=with_password(url), name="alpha")

    init_project(shop, url=with_password(url), name="beta")

    assert 'project = "beta"' in (shop / ".ralph.toml").read_text()


def test_a_schema_of_its_own_is_enough_in_a_database_with_other_tables(guarded: Server, url: str) -> None:
    guarded.run("CREATE TABLE public.tasks (id INT)", "team")
    guarded.run("CREATE SCHEMA ralph AUTHORIZATION ralph", "team")

    open_database(with_password(url), create=True).close()

    assert guarded.run("SELECT schemaname FROM pg_tables WHERE tablename = 'memory_words'", "team") == [("ralph",)]


def test_a_folder_above_is_not_found_by_ralph_store(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_STORE", with_password(url))
    (tmp_path / ".ralph").mkdir()

    with pytest.raises(RalphError, match="No Ralph project"):
        find_root(tmp_path)
