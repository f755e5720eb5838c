"""Data of other programs moves in: what came in is counted, what did not is named, and the exit code tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.ran import Ran, run
from tests.formats.progress_db import open_progress_db
from tests.make import set_up_project

ISSUES = (
    '{"id": "bd-1", "title": "First", "status": "open", "priority": 1, "issue_type": "task"}\n'
    '{"id": "bd-2", "title": "Second", "status": "open", "priority": 2, "issue_type": "task",'
    ' "dependencies": [{"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "blocks"}]}\n'
    '{"id": "bd-3", "title": "Gone", "status": "tombstone", "issue_type": "task"}\n'
    '{"_type": "memory", "key": "auth", "value": "Tokens live for 15 minutes."}\n'
)
MEMORIES = "# Memories\n\n## Patterns\n\n" + "".join(
    f"### lesson-{number} (2026-03-04)\nLesson number {number}.\n\n" for number in range(77)
)

Ralph = Callable[..., Ran]


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one command in a project."""
    here = tmp_path / "project"
    here.mkdir()
    set_up_project(here)
    return lambda *words: run(capsys, here, *words)


@pytest.fixture
def issues(tmp_path: Path) -> Path:
    path = tmp_path / "other" / ".beads" / "issues.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(ISSUES)
    return path


def fields(ran: Ran) -> dict[str, object]:
    (found,) = ran.json
    return dict(found)


def task_ids(ralph: Ralph) -> list[str]:
    return [task["id"] for task in ralph("task", "list", "--format", "json").json]


def test_issues_become_tasks_and_memories(ralph: Ralph, issues: Path) -> None:
    ran = ralph("memory", "import", str(issues), "--format", "json")

    told = fields(ran)
    assert (ran.code, told["format"], told["tasks"], told["new"]) == (0, "beads", 2, 1)
    assert task_ids(ralph) == ["bd-1", "bd-2"]
    assert len(ralph("memory", "list", "--format", "json").json) == 1


def test_a_dry_run_tells_the_same_and_changes_nothing(ralph: Ralph, issues: Path) -> None:
    rehearsed = ralph("memory", "import", str(issues), "--dry-run", "--format", "json")

    assert (task_ids(ralph), ralph("memory", "list", "--format", "json").json) == ([], [])
    imported = ralph("memory", "import", str(issues), "--format", "json")
    same = ("path", "format", "tasks", "features", "new", "known", "rejected")
    assert [fields(rehearsed)[name] for name in same] == [fields(imported)[name] for name in same]
    assert (rehearsed.code, fields(rehearsed)["dry_run"], fields(imported)["dry_run"]) == (0, True, False)


@pytest.mark.parametrize("command", [("memory", "import"), ("task", "import")])
def test_what_was_left_out_is_named_and_the_exit_code_tells(
    ralph: Ralph, issues: Path, command: tuple[str, str]
) -> None:
    issues.write_text('{"id": "bd-4", "title": "half\n' + "\n".join(ISSUES.splitlines()[:2]))

    ran = ralph(*command, str(issues))

    assert ran.code == 4
    assert ":1: " in ran.err
    assert task_ids(ralph) == ["bd-1", "bd-2"]


def test_a_database_is_imported_by_both_commands(ralph: Ralph, tmp_path: Path) -> None:
    path = tmp_path / "other" / ".ralph" / "progress.db"
    open_progress_db(path, 1).close()

    first, second = ralph("memory", "import", str(path)), ralph("task", "import", str(path))

    assert (first.code, second.code) == (0, 0)
    assert len(task_ids(ralph)) == 5


def test_memories_of_issues_are_named_by_the_import_of_tasks(ralph: Ralph, issues: Path) -> None:
    ran = ralph("task", "import", str(issues))

    assert ran.code == 4
    assert "Tokens live" in ran.err


def test_no_entry_of_a_memory_file_is_lost_whatever_its_form(ralph: Ralph, tmp_path: Path) -> None:
    path = tmp_path / "memories.md"
    path.write_text(MEMORIES + "### mem-1700000000-0a1b\n> One.\n\n### mem-1700000000-0a1c\n> Two.\n")

    ran = ralph("memory", "import", str(path), "--format", "json")

    assert (ran.code, fields(ran)["new"]) == (0, 79)


def test_one_bad_file_does_not_keep_the_others_of_a_folder_out(ralph: Ralph, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Billing\n\n## Tabs\n\nThey break the parser.\n")
    with (folder / "b.md").open("wb") as file:
        file.truncate(2 * 1024**3)  # sparse
    (folder / "c.jsonl").write_text(ISSUES)
    (folder / "d.db").write_bytes(b"SQLite format 3\0" + b"\0" * 100)

    ran = ralph("memory", "import", str(folder), "--format", "json")

    assert ran.code == 4
    assert {one["format"]: (one["new"], one["tasks"]) for one in ran.json} == {
        "notes": (1, 0),
        "unknown": (0, 0),
        "beads": (1, 2),
    }
    named = [problem["file"] for one in ran.json for problem in one["rejected"]]
    assert named == ["b.md", "d.db"]


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\x00\x00\x01\xff\xfe" * 50, b"SQLite format 3\0" + b"\0" * 5000]
)
def test_a_file_that_is_nothing_of_the_kind_is_an_error(ralph: Ralph, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)

    assert ralph("memory", "import", str(path)).code in (1, 2)
    assert json.loads(ralph("memory", "list", "--format", "json").out) == []
