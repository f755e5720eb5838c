"""What all tests share.

Every test that touches the store runs on both databases: on SQLite, and with `--store postgres` on a server that
the tests start for themselves. There each test finds an empty database, and RALPH_STORE names it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from ralph.project import Project
from ralph.store import Store, create_store, open_database, open_store
from tests.make import put_empty_database, set_up_project

if TYPE_CHECKING:
    from tests.postgres import Server


SHARED = "tests"
NO_STORE = "postgresql:///a_test_that_is_marked_storeless?host=/nowhere"
ASKED_FOR = ("real_agents", "browser")
"""Folders of tests that need more than Python, and run only when they are asked for by name."""

# What pytest makes of all the asserts takes each worker several seconds: it is kept for the next run.
sys.dont_write_bytecode = False

# How long an example takes says more of the machine than of us, above all on a new one.
settings.register_profile("ralph", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ralph")


SLOW = (
    "tests/faults/",
    "tests/agents/test_acp.py",
    "tests/agents/supervisor/test_process.py",
    "tests/cli/test_demo.py",
    "tests/loop/test_parallel.py",
    "tests/loop/test_shutdown.py",
    "tests/store/maintenance/test_migrate.py",
    "tests/store/test_cycles.py",
    "tests/store/test_index.py",
    "::test_200_megabytes_are_read_in_150_megabytes_of_memory",
    "::test_a_sparse_file_of_two_gigabytes_is_skipped",
    "::test_what_is_said_while_the_store_is_broken",
)
"""Trials and tests of many processes, which `make check` runs and `make test` does not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", choices=("sqlite", "postgres"), default="sqlite", help="the database to test with")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what Ralph notes for a person apart from what it has noted for the one who runs the tests."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # Under nohup, or in the background of a shell, they are ignored, and every child process would inherit that.
        # A handler that does nothing has the same effect here, but a program that is executed does not inherit it.
        if signal.getsignal(number) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None)
    state = tempfile.TemporaryDirectory(prefix="ralph-state-")
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = state.name
    config.add_cleanup(state.cleanup)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests with real agents and browsers to `make test-agents` and `make test-browser`."""
    name = collection_path.name
    is_asked_for = any(name in argument for argument in config.args)
    return True if name in ASKED_FOR and not is_asked_for else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the chosen database has nothing to do with."""
    for item in items:
        if any(part in item.nodeid for part in SLOW):
            item.add_marker(pytest.mark.slow)
    other, wanted = ("sqlite", "postgres") if config.getoption("--store") == "postgres" else ("postgres", "sqlite")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        touches = wanted == "sqlite" or item.get_closest_marker(wanted) or _may_touch_the_store(item)
        (kept if touches and not item.get_closest_marker(other) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _may_touch_the_store(item: pytest.Item) -> bool:
    """Say whether a test may, and matters there; what has no directory has no store either."""
    if item.get_closest_marker("once"):
        return False
    fixtures = set(getattr(item, "fixturenames", ()))
    return "store_url" in fixtures or ("tmp_path" in fixtures and not item.get_closest_marker("storeless"))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Give the PostgreSQL server of these tests."""
    from tests.postgres import Server

    started = Server()
    started.run(f"CREATE DATABASE {SHARED}")
    open_database(started.url(SHARED), create=True).close()
    yield started
    started.remove()


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a database without any project."""
    if request.config.getoption("--store") == "sqlite":
        put_empty_database(tmp_path / "ralph.db")
        yield str(tmp_path / "ralph.db")
        return
    server: Server = request.getfixturevalue("server")
    # To make a database for each test takes ten times as long.
    server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid(); DELETE FROM projects",
        SHARED,
    )
    yield server.url(SHARED)


@pytest.fixture(autouse=True)
def chosen_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every project of a test be kept in the database that is tested."""
    monkeypatch.delenv("RALPH_STORE", raising=False)
    if request.node.get_closest_marker("storeless") and "store_url" not in request.fixturenames:
        monkeypatch.setenv("RALPH_STORE", NO_STORE)
    elif request.config.getoption("--store") == "postgres" and not request.node.get_closest_marker("own_store"):
        monkeypatch.setenv("RALPH_STORE", request.getfixturevalue("store_url"))


@pytest.fixture
def open_again(store_url: str) -> Callable[[], Store]:
    """Give a way to open the same new database as often as wanted, also from other threads."""
    create_store(store_url, "tests").close()
    return lambda: open_store(store_url, "tests")


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
    set_up_project(directory)
    with Project.open(directory) as opened:
        yield opened
