"""Memory files of a large project, which the server syncs in the background."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ralph.integrations import background_sync
from ralph.integrations.background_sync import BackgroundSync
from ralph.project import Project
from tests.waiting import wait_until
from tests.web.asking import Served

MEMORIES = "/api/projects/-/memories"


@pytest.fixture
def large(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Return a server of a project that counts as large."""
    monkeypatch.setattr(background_sync, "BACKGROUND_SYNC_THRESHOLD", 2)
    monkeypatch.setattr(background_sync, "MIN_SYNC_PAUSE", 0.05)
    for content in ("Money is in cents", "Ask the clock", "Read with csv.reader"):
        project.memory.add(content)
    server = Served(project.root, project)
    yield server
    server.close()


def test_added_memories_are_written_to_the_file(large: Served) -> None:
    file = large.root / ".agent" / "memories.md"

    assert large.post(MEMORIES, {"content": "Bundle the fonts"})[0] == 201

    wait_until(lambda: "Bundle the fonts" in file.read_text())


def test_edits_of_the_file_are_found_after_a_request(large: Served) -> None:
    file = large.root / ".agent" / "memories.md"
    file.write_text(file.read_text().replace("Ask the clock", "Ask billing.clock"))

    def is_found() -> bool:
        found = large.get(f"{MEMORIES}/search?q=billing.clock")[1]
        return [one["memory"]["content"] for one in found["items"]][:1] == ["Ask billing.clock"]

    wait_until(is_found)


def test_everything_is_in_the_file_after_shutdown(large: Served) -> None:
    for number in range(5):
        assert large.post(MEMORIES, {"content": f"Fact number {number} of all"})[0] == 201
    large.close()

    text = (large.root / ".agent" / "memories.md").read_text()

    assert [number for number in range(5) if f"Fact number {number} of all" not in text] == []


def test_problems_with_the_files_are_reported_until_they_are_fixed(large: Served) -> None:
    (large.root / ".ralph/knowledge").mkdir(exist_ok=True)
    note = large.root / ".ralph/knowledge/notes.md"
    note.write_text("Just some words.\n")

    def warnings() -> list[str]:
        found: list[str] = large.get("/api/status")[1]["warnings"]
        return found

    wait_until(lambda: any("notes.md" in one for one in warnings()))
    note.unlink()
    wait_until(lambda: warnings() == [])


def test_a_failed_sync_is_retried_after_the_next_request(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(background_sync, "MIN_SYNC_PAUSE", 0.01)
    calls: list[bool] = []
    sync = BackgroundSync(project.directory)

    def fail_once(_: Project) -> None:
        calls.append(True)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sync, "_update", fail_once)
    sync.request()
    wait_until(lambda: len(calls) == 1)
    sync.request()
    wait_until(lambda: len(calls) > 1)
    sync.close()

    assert "No space left on device" in capsys.readouterr().err
