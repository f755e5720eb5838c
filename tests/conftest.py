"""What all tests share. `store` runs on every database there is; a new one is added here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.project import Project, init_project
from ralph.store import Store, create_store, open_store


def new_sqlite(directory: Path) -> Callable[[], Store]:
    """Make an empty SQLite store; give the way to open it."""
    path = str(directory / "ralph.db")
    create_store(path, "tests").close()
    return lambda: open_store(path)


DATABASES = {"sqlite": new_sqlite}


@pytest.fixture(params=list(DATABASES))
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Give a way to open the same new database as often as wanted, also from other threads."""
    return DATABASES[request.param](tmp_path)


@pytest.fixture
def store(open_again: Callable[[], Store]) -> Iterator[Store]:
    """Give an empty store."""
    opened = open_again()
    yield opened
    opened.close()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Give a new project in a directory of its own."""
    directory = tmp_path / "project"
    directory.mkdir()
    init_project(directory)
    with Project.open(directory) as opened:
        yield opened
