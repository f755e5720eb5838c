"""A real server over HTTP: `served` on a new project of each test, `served_once` on one for a whole module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.project import Project
from ralph.workspace import init_project
from tests.web.asking import Served


@pytest.fixture
def served(project: Project) -> Iterator[Served]:
    """Return a server on a new project, in the database that is tested."""
    one = Served(Path(project.directory), project)
    yield one
    one.close()


@pytest.fixture(scope="module")
def served_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server for many tests that ask it nothing about the store: always on SQLite."""
    directory = tmp_path_factory.mktemp("served") / "project"
    directory.mkdir()
    init_project(directory, environment={})
    with Project.open(directory) as opened:
        one = Served(directory, opened)
        yield one
        one.close()
