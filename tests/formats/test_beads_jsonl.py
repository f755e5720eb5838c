"""The issues and memories of beads move in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import TaskStatus
from ralph.formats.beads_jsonl import read_beads_jsonl
from ralph.formats.planned import PlannedProject, PlannedTask
from ralph.formats.registry import detect_format
from ralph.project import Project

AT = "2026-05-01T00:00:00.000Z"


def issue(id: str, title: str = "", **fields: Any) -> dict[str, Any]:
    moments = {"created_at": "2026-02-04T16:38:05.103037-08:00", "updated_at": "2026-02-04T16:38:05.103037-08:00"}
    return {"id": id, "title": title or id, "status": "open", "priority": 2, "issue_type": "task", **moments, **fields}


def link(id: str, needed: str, type: str = "blocks") -> dict[str, str]:
    return {"issue_id": id, "depends_on_id": needed, "type": type, "created_at": "2026-02-04T16:38:05Z"}


EPIC = issue("bd-a1", "Reset the batches", issue_type="epic", priority=1)
PART = issue(
    "bd-a1.1",
    "Add the fields",
    description="To both types.",
    design="An option.",
    acceptance_criteria="- It works.",
    notes="See the plan.",
    status="closed",
    priority=0,
    labels=["api"],
    closed_at="2026-02-05T17:22:17-08:00",
    close_reason="Merged.",
    dependencies=[link("bd-a1.1", "bd-a1", "parent-child")],
    comments=[{"id": 1, "author": "Kim", "text": "Share the code.", "created_at": "2026-02-05T01:32:02Z"}],
)
NEXT = issue(
    "bd-a1.2",
    "Use the fields",
    status="in_progress",
    assignee="Kim",
    dependencies=[
        link("bd-a1.2", "bd-a1", "parent-child"),
        link("bd-a1.2", "bd-a1.1"),
        link("bd-a1.2", "bd-9", "discovered-from"),
    ],
)
MEMORY = {"_type": "memory", "key": "auth-jwt", "value": "Tokens live for 15 minutes."}


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def read(*objects: dict[str, Any]) -> PlannedProject:
    return read_beads_jsonl(lines(*objects), AT)


def one(**fields: Any) -> PlannedTask:
    (task,) = read(issue("bd-1", **fields)).tasks
    return task


@pytest.mark.parametrize(
    "text",
    [
        lines(EPIC, PART),
        lines({"_schema": "beads-jsonl/1"}, {"_type": "issue", **EPIC}),
        lines(MEMORY),
        '{"id": "bd-1", "tit\n' + lines(EPIC),
        lines(issue("bd-1")).replace("\n", "\r\n"),
    ],
)
def test_a_file_is_detected_whatever_its_name_even_if_its_first_line_is_damaged(text: str) -> None:
    format = detect_format(text, "x")

    assert format is not None
    assert format.name == "beads"


def test_tasks_of_other_programs_are_not_beads() -> None:
    text = '{"id":"task-1776372596-dd48","title":"a","status":"closed","priority":1,"blocked_by":[],"loop_id":"x"}\n'

    format = detect_format(text, "tasks.jsonl")

    assert format is not None
    assert format.name == "tasks"


def test_an_issue_becomes_a_task_with_all_that_it_says() -> None:
    epic, part, following = read(EPIC, PART, NEXT).tasks

    assert (epic.priority, part.priority, following.priority) == (4, 5, 3)
    assert (part.status, part.parent_key, part.dependency_keys) == (TaskStatus.DONE, "bd-a1", ())
    assert (following.status, following.parent_key, following.dependency_keys) == (
        TaskStatus.PENDING,
        "bd-a1",
        ("bd-a1.1",),
    )
    assert part.body == (
        "To both types.\n\n## Design\n\nAn option.\n\n## Acceptance criteria\n\n- It works.\n\n## Notes\n\n"
        "See the plan.\n\n## Comments\n\nKim, 2026-02-05: Share the code."
    )
    assert following.body == "Related: bd-9 (discovered-from)"
    assert [(entry.message, entry.at) for entry in part.log] == [
        ("Imported from beads: type task; labels api.", "2026-02-05T00:38:05.103Z"),
        ("Closed: Merged.", "2026-02-06T01:22:17.000Z"),
    ]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("open", TaskStatus.PENDING),
        ("in_progress", TaskStatus.PENDING),
        ("hooked", TaskStatus.PENDING),
        ("closed", TaskStatus.DONE),
        ("blocked", TaskStatus.BLOCKED),
        ("deferred", TaskStatus.BLOCKED),
        ("pinned", TaskStatus.BLOCKED),
        ("of-our-own", TaskStatus.BLOCKED),
        ("", TaskStatus.PENDING),
    ],
)
def test_every_status_has_its_meaning(word: str, status: TaskStatus) -> None:
    task = one(status=word)

    assert task.status is status
    assert task.reason == (f"{word} in beads" if status is TaskStatus.BLOCKED else "")


def test_a_blocked_issue_that_waits_for_others_starts_when_they_are_done() -> None:
    _, waiting = read(issue("bd-1"), issue("bd-2", status="blocked", dependencies=[link("bd-2", "bd-1")])).tasks

    assert (waiting.status, waiting.dependency_keys) == (TaskStatus.PENDING, ("bd-1",))


def test_deleted_issues_are_counted_and_nobody_waits_for_them() -> None:
    project = read(issue("bd-1", status="tombstone"), issue("bd-2", dependencies=[link("bd-2", "bd-1")]))

    assert [(task.key, task.dependency_keys) for task in project.tasks] == [("bd-2", ())]
    assert project.problems == ()
    assert "1" in project.note


def test_an_epic_that_waits_for_its_own_part_is_imported_without_that_link(project: Project) -> None:
    text = lines({**EPIC, "dependencies": [link("bd-a1", "bd-a1.1")]}, PART)

    result = project.transfer.import_text(text, "issues.jsonl")

    assert (result.tasks, result.rejected, len(result.problems)) == (2, 0, 1)
    assert project.store.tasks.get("bd-a1").needs == ()


def test_memories_are_imported_as_memories(project: Project) -> None:
    result = project.transfer.import_text(lines(EPIC, MEMORY), "issues.jsonl")

    (memory,) = project.store.memories.all()
    assert (memory.kind, memory.content) == ("context", "Tokens live for 15 minutes.")
    assert (result.tasks, result.new, result.problems) == (1, 1, ())


def test_every_line_that_is_not_imported_is_named(project: Project) -> None:
    text = lines(
        EPIC,
        {"id": "bd-2", "status": "open"},
        {"_type": "memory", "key": "x"},
        {"_type": "poem", "id": "bd-3", "title": "c"},
        issue("bd-a1", "the same id"),
        issue("bd-4", status="odd", priority=9, dependencies="bd-1", comments=[None, {"text": 3}]),
    )

    result = project.transfer.import_text(f'{text}[1]\n"\x00"\n{{"id": "bd-5", "title": "half', "issues.jsonl")

    assert result.tasks == 2
    assert [problem.line for problem in result.problems if not problem.was_read] == [2, 3, 4, 5, 7, 8, 9]
    assert {problem.line for problem in result.problems if problem.was_read} == {6}


def test_importing_it_again_changes_nothing(project: Project) -> None:
    text = lines(EPIC, PART, NEXT, MEMORY)
    project.transfer.import_text(text, "issues.jsonl")
    log = project.tasks.read_log("bd-a1.1")

    again = project.transfer.import_text(text, "issues.jsonl")

    assert (again.tasks, again.new, again.known, again.problems) == (0, 0, 4, ())
    assert project.tasks.read_log("bd-a1.1") == log


@pytest.mark.parametrize("name", ["issues.jsonl", "beads.jsonl"])
def test_a_folder_of_a_project_has_its_issues(project: Project, tmp_path: Path, name: str) -> None:
    path = tmp_path / "other" / ".beads" / name
    path.parent.mkdir(parents=True)
    path.write_text(lines(EPIC, PART, NEXT))

    (result,) = project.transfer.import_path(tmp_path / "other")

    assert (result.format, result.tasks) == ("beads", 3)
    assert project.store.tasks.get("bd-a1.2").needs == ("bd-a1.1",)
