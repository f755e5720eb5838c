"""The memory files of a large project, which the server keeps in step beside the requests."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ralph.project import Project
from ralph.store import open_database
from ralph.web import file_sync
from ralph.web.file_sync import FileSyncThread
from tests.web.asking import Served

HERE = "/api/projects/-/memories"


@pytest.fixture
def large(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Give a server on a project that counts as large."""
    monkeypatch.setattr(file_sync, "BACKGROUND_SYNC_THRESHOLD", 2)
    monkeypatch.setattr(file_sync, "MIN_SYNC_PAUSE", 0.05)
    for body in ("Money is in cents", "Ask the clock", "Read with csv.reader"):
        project.memory.add(body)
    one = Served(project.root, project)
    yield one
    one.close()


def _soon(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_what_is_added_is_in_the_file_soon_after(large: Served) -> None:
    file = large.root / ".agent" / "memories.md"

    assert large.post(HERE, {"content": "Bundle the fonts"})[0] == 201

    assert _soon(lambda: "Bundle the fonts" in file.read_text())


def test_what_a_person_wrote_into_the_file_is_found_soon_after(large: Served) -> None:
    file = large.root / ".agent" / "memories.md"
    file.write_text(file.read_text().replace("Ask the clock", "Ask billing.clock"))

    def is_found() -> bool:
        found = large.get(f"{HERE}/search?q=billing.clock")[1]
        return [one["memory"]["content"] for one in found["items"]][:1] == ["Ask billing.clock"]

    assert _soon(is_found)


def test_the_files_are_in_step_when_it_has_ended(large: Served) -> None:
    for number in range(20):
        assert large.post(HERE, {"content": f"Fact number {number} of all"})[0] == 201
    large.close()

    text = (large.root / ".agent" / "memories.md").read_text()

    assert [number for number in range(20) if f"Fact number {number} of all" not in text] == []


def test_a_fault_leaves_the_files_to_the_requests(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sync, "BACKGROUND_SYNC_THRESHOLD", -1)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    keeper = FileSyncThread(project.directory, lambda: None)
    assert keeper.is_large

    def broken(_: Project) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(keeper, "_sync", broken)
    keeper.request_sync()

    assert _soon(lambda: not keeper.is_large)
    keeper.close()


def test_a_database_that_is_away_is_tried_again_after_the_next_request(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file_sync, "BACKGROUND_SYNC_THRESHOLD", -1)
    monkeypatch.setattr(file_sync, "MIN_SYNC_PAUSE", 0.01)
    kept: list[bool] = []
    keeper = FileSyncThread(project.directory, lambda: None)

    def away(_: Project) -> None:
        kept.append(True)
        if len(kept) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(keeper, "_sync", away)
    keeper.request_sync()
    assert _soon(lambda: len(kept) == 1)
    keeper.request_sync()

    assert _soon(lambda: len(kept) > 1)
    assert "No space left on device" in capsys.readouterr().err
    keeper.close()


@pytest.mark.postgres
def test_a_server_that_nobody_asks_holds_no_connection(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sync, "SERVER_IDLE_TIMEOUT", 0.5)
    monkeypatch.setattr(file_sync, "MIN_SYNC_PAUSE", 0.05)
    one = Served(project.root, project)
    project.close()
    database = open_database(os.environ["RALPH_STORE"])
    others = "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    try:
        for _ in range(30):
            assert one.get("/api/tasks")[0] == 200
        assert database.query(others)[0]["n"] > 0

        assert _soon(lambda: database.query(others)[0]["n"] == 0)
        assert one.get("/api/tasks")[0] == 200
    finally:
        database.close()
        one.close()
