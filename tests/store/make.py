"""Databases for tests: filled, looked at, and damaged."""

from __future__ import annotations

from pathlib import Path

from ralph.records import Outcome, Status
from ralph.store import Store, create_store, open_store
from ralph.store.memories import Change
from ralph.store.tasks import NewTask
from tests.make import a_memory, a_report, begin, finish

LEARNED = Change(who="test", why="it was learned")


def a_database(folder: Path) -> Path:
    """Make a database with rows in every table that has checksums; give its path."""
    path = folder / "ralph.db"
    store = create_store(str(path), "tests")
    fill(store)
    store.close()
    return path


def fill(store: Store) -> None:
    store.features.add("Search", "It finds things.")
    store.tasks.add_all([NewTask(title=f"Task {n}", body="What has to be done. " * 8) for n in range(30)])
    run = store.attempts.start_run("test")
    for n in range(8):
        task, attempt = begin(store, run.id)
        notes = f"Looked at part {n}." if n % 2 else ""
        finish(store, task, attempt, Outcome.FAILED, Status.BLOCKED, report=a_report(attempt), notes=notes)
    learn(store, *(f"Fact {n}" for n in range(20)))


def learn(store: Store, *titles: str) -> None:
    for title in titles:
        store.memories.add(a_memory(title, f"All about {title}."), LEARNED)


def titles(path: Path) -> list[str]:
    store = open_store(str(path))
    found = [memory.title for memory in store.memories.all()]
    store.close()
    return found


def damage(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a row where they are."""
    content = path.read_bytes()
    assert len(old) == len(new)
    assert old in content
    path.write_bytes(content.replace(old, new))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(("-shm", "-wal", ".lock"))
    }
