"""Reading never writes: the database and the memory files stay as they are, byte for byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.cli import main
from ralph.core.records import now
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.web.api import ENDPOINTS
from ralph.web.pages import PAGES
from tests.make import set_up_project
from tests.web.asking import Served

pytestmark = pytest.mark.sqlite  # a server has no file to look at

Snapshot = dict[str, tuple[str, int]]
RUN_ID = "run-00000001"
QUERIES = {"search": "q=parser", "why": "task=t-000000"}


def snapshot(root: Path) -> Snapshot:
    """Return a hash and the modification time of the database and all memory files."""
    paths = [root / ".ralph/ralph.db", root / ".agent/memories.md", *(root / ".ralph/knowledge").glob("*.md")]
    found = {str(path): (_hash(path), path.stat().st_mtime_ns) for path in paths}
    # While a connection is open, what is written is in the log first.
    log = root / ".ralph/ralph.db-wal"
    return {**found, str(log): (_hash(log) if log.exists() else _hash(Path(os.devnull)), 0)}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with memories, tasks, a run and a stale memory, whose files are in sync."""
    directory = tmp_path_factory.mktemp("reading") / "project"
    directory.mkdir()
    set_up_project(directory)
    (directory / "parser.py").write_text("tabs = True\n")
    with Project.open(directory) as project, project.synced():
        project.memory.add("The parser in parser.py wants tabs.", type="fix", tags=["parser"])
        project.memory.add("Round half up.", type="knowledge", title="Money", tags=["money"])
        project.memory.add("Staged.", type="pattern")
        task = project.tasks.add("Accept tabs in the parser")
        project.tasks.add("Write the migrations", needs=[task.id])
        project.features.add("billing")
    (directory / "parser.py").write_text("tabs = False\n")
    return directory


@pytest.fixture(scope="module")
def ids(root: Path) -> dict[str, str]:
    with Project.open(root) as project:
        return {
            "memory": project.memory.list()[0].id,
            "task": project.tasks.list()[0].id,
            "feature": project.features.list()[0].feature.id,
        }


COMMANDS = [
    "memory list",
    "memory list --stale",
    "memory list --format json",
    "memory show {memory}",
    "memory search parser",
    "memory search parser --explain",
    "memory stats",
    "memory history {memory}",
    "memory history {memory} --confidence",
    "memory why {memory}",
    "memory why {memory} --task {task}",
    "memory verify",
    "memory prime",
    "memory prime --budget 500 --for tabs",
    "memory export --format json",
    "memory export",
    "memory cleanup --dry-run --unused",
    "memory consolidate --dry-run",
    "learn list",
    "task list",
    "task show {task}",
    "task log {task}",
    "feature list",
    "journal list",
    "journal search parser",
    "failures list",
    "stats",
    "status",
    "prompt {task}",
    "project list",
    "store show",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_reads_writes_nothing(root: Path, ids: dict[str, str], command: str) -> None:
    before = snapshot(root)

    code = main(["-C", str(root), *command.format(**ids).split()])

    assert code in (0, 3), command
    assert snapshot(root) == before


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Served]:
    with Project.open(root) as project:
        one = Served(root, project)
        yield one
        one.close()


def paths() -> list[str]:
    """Return the paths of everything that can be read over HTTP."""
    calls = [call.path for call in ENDPOINTS if call.method == "GET"]
    return sorted({*calls, *(page.path for page in PAGES)} - {"/api/docs"})  # which reads nothing of a project


@pytest.mark.parametrize("path", paths())
def test_a_get_request_writes_nothing(served: Served, root: Path, ids: dict[str, str], path: str) -> None:
    before = snapshot(root)
    noun = "task" if "/tasks/" in path else "feature" if "/features/" in path else "memory"
    values = {"project": "-", "id": ids[noun], "run": RUN_ID, "iteration": "1"}

    answer = served.ask("GET", f"{path.format(**values)}?{QUERIES.get(path.rpartition('/')[2], '')}".rstrip("?"))

    assert answer.status in (200, 404), answer.text[:1000]
    assert snapshot(root) == before


def edit(root: Path, old: str, new: str) -> None:
    path = root / ".agent/memories.md"
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("door", ["bracket", "command", "http"])
def test_a_hand_edit_is_imported_exactly_once(project: Project, capsys: pytest.CaptureFixture[str], door: str) -> None:
    with project.synced():
        id = project.memory.add("Old text.").memory.id
    edit(project.root, "> Old text.", f"> New text of {now()}.")

    for _ in range(3):
        read_through(project, door, id)

    assert "New text" in project.store.memories.get(id).content
    assert [event.what for event in project.store.memories.history.of(id)] == ["added", "edited"]
    assert (sync(project.store, project.root).imported_count, sync(project.store, project.root).written) == (0, 0)


def read_through(project: Project, door: str, id: str) -> None:
    def over_http() -> None:
        one = Served(project.root, project)
        try:
            assert one.get(f"/api/memories/{id}")[0] == 200
        finally:
            one.close()

    def in_the_bracket() -> None:
        with project.synced():
            project.memory.show(id)

    doors: dict[str, Callable[[], object]] = {
        "bracket": in_the_bracket,
        "command": lambda: main(["-C", str(project.root), "memory", "show", id]),
        "http": over_http,
    }
    doors[door]()


def test_a_write_is_noticed(served: Served, root: Path) -> None:
    before = snapshot(root)

    served.post("/api/projects/-/memories", {"content": "Docker first."})

    assert snapshot(root) != before
