"""Every reader imports each entry of a file or names it with its line: what comes in and what does not adds up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.records import MemoryState, replace
from ralph.formats.bundle import write_bundle
from ralph.formats.learnings_json import write_learnings_json
from ralph.formats.memories_csv import write_memories_csv
from ralph.formats.memories_json import write_memories_json
from ralph.formats.memories_md import write_memories_md
from ralph.formats.registry import FORMATS, import_formats
from ralph.formats.staging_json import write_staging_json
from ralph.memory.import_export import ImportResult
from ralph.project import Project
from tests.formats.claude_mem_db import ClaudeMem
from tests.formats.progress_db import TASKS, open_progress_db
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
COUNT = 9
"""Number of good entries of each file."""
LONG = "x" * 200_000
"""Longer than a memory may be."""


def sentence(number: int) -> str:
    """Give texts that are not taken for each other."""
    words = ("tabs", "invoices", "sockets", "caches", "migrations", "fonts", "queues", "locks", "tokens")
    return f"Lesson {number}: {words[number % len(words)]} need care on platform {number * 7}."


MEMORIES = [
    replace(a_memory(f"Title {n}", sentence(n), kind="pattern"), id=f"mem-{n}-000a", created_at=AT)
    for n in range(COUNT)
]
LEARNINGS = [
    replace(
        a_memory(sentence(n), sentence(n), kind="strategy", task_type="test-fix"),
        id=f"learning-{n}",
        structured_content=json.dumps({"description": sentence(n)}),
    )
    for n in range(COUNT)
]


def learnings() -> str:
    return write_learnings_json(LEARNINGS, AT)


def staging() -> str:
    return write_staging_json([replace(one, state=MemoryState.STAGED) for one in LEARNINGS], AT)


def add_json(text: str, name: str, *entries: object) -> str:
    document = json.loads(text)
    document[name] += entries
    return json.dumps(document)


def lines(*objects: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def sections(make: Callable[[int], str]) -> str:
    return "".join(make(number) for number in range(COUNT))


ISSUES = [{"id": f"bd-{n}", "title": sentence(n), "status": "open", "issue_type": "task"} for n in range(COUNT)]
BUNDLE = "".join(write_bundle([(one, ()) for one in MEMORIES], "demo", AT))

FILES: dict[str, tuple[str, int]] = {
    # By format: a text with COUNT good entries and some that cannot be imported, and the number of the latter.
    "bundle": (BUNDLE.replace("\n", '\nbroken\n{"kind": 3}\n', 1), 2),
    "loop-state": (
        json.dumps(
            {
                "loopId": "loop-1",
                "objective": "Fix tests",
                "iterations": [*({"number": n, "status": "completed", "learnings": [sentence(1)]} for n in (1, 2)), 3],
            }
        ),
        1,
    ),
    "learnings": (add_json(learnings(), "learnings", 3, {"type": "poem"}), 2),
    "staging": (add_json(staging(), "staged", 3, {"status": "odd"}), 2),
    "json": (add_json(write_memories_json(MEMORIES, "demo", AT), "memories", 3, {"type": "fix", "content": ""}), 2),
    "csv": (write_memories_csv(MEMORIES) + ",fix,,odd,,,,,x\n,,,,,,,,no type\n", 2),
    "knowledge": ("---\ntitle: Tabs\ntags: []\n---\n\nThey break the parser.\n", 1),
    "markdown": (
        write_memories_md(MEMORIES[1:])
        + f"\n### slug (2026-03-04)\n{sentence(0)}\n\n### mem-empty\n\n### Empty\n\n### Long\n{LONG}\n\n"
        + "## Fixes\nStray.\n",
        4,
    ),
    "progress": (
        "# Progress Log\n\n## Codebase Patterns\n"
        + sections(lambda n: f"- {sentence(n)}\n")
        + f"\nToo short.\n\n- {LONG}\n\n## Key files\n- `a.py`\n\n## 2026-01-12 - US-001\n- Did it.\n",
        3,
    ),
    "guardrails": (
        "# Guardrails\n\n## House rules\n- Be kind.\n\n"
        + sections(lambda n: f"### Sign: Sign {n}\n- **Trigger**: Case {n}\n- **Instruction**: {sentence(n)}\n\n")
        + f"### Sign: Long\n- **Trigger**: a\n- **Instruction**: {LONG}\n",
        2,
    ),
    "beads": (lines(*ISSUES[1:], {"_type": "memory", "key": "k", "value": sentence(0)}, 3, {"id": "bd-x"}) + "{", 3),
    "progress-db": ("", 2),
    "claude-mem": ("", 2),
    "tasks": (lines(*({"title": sentence(n)} for n in range(COUNT)), 3, {"id": "t-1"}) + "{\n", 3),
    "notes": ("# Notes\n\n" + sections(lambda n: f"## Part {n}\n\n{sentence(n)}\n\n") + f"## Long\n\n{LONG}\n", 0),
}


def counted(result: ImportResult) -> int:
    """Give the number of entries that came in, or were there already."""
    memories = result.new + result.merged + result.revived + result.known + result.again + result.refused
    return memories + result.tasks + result.episodes + result.staged


def write(path: Path, format: str) -> Path:
    """Write a file of a format; give its path."""
    if format == "claude-mem":
        return write_claude_mem(path)
    if format != "progress-db":
        path.write_text(FILES[format][0])
        return path
    connection = open_progress_db(path, 1)
    connection.execute("INSERT INTO tasks (id, title, created_at, updated_at) VALUES ('t-000000c1', '', '', '')")
    connection.execute("INSERT INTO task_logs (task_id, message, timestamp) VALUES ('t-gone', 'x', '')")
    connection.close()
    return path


def write_claude_mem(path: Path) -> Path:
    """Write observations of the project that is called like the folder of the test's project."""
    database = ClaudeMem(path)
    database.session("s1", "project")
    for n in range(COUNT):
        database.observe("s1", "project", title=sentence(n))
    database.observe("s1", "project")
    database.observe("", "project", title=sentence(COUNT))
    database.close()
    return path


def test_every_format_is_counted_here() -> None:
    assert set(FILES) == set(import_formats())


@pytest.mark.parametrize("format", FILES)
def test_what_comes_in_and_what_is_named_is_all_there_is(project: Project, tmp_path: Path, format: str) -> None:
    path = write(tmp_path / "file", format)
    good = {"knowledge": 0, "loop-state": 2, "progress-db": len(TASKS)}.get(format, COUNT)

    (result,) = project.transfer.import_path(path, force=True)

    assert result.format == format
    rejected = [problem for problem in result.problems if not problem.was_read]
    named = [problem.line for problem in rejected]
    if format == "notes":  # a long section is split, so that nothing has to be left out
        assert (result.new > good, named) == (True, []) or (result.new, len(named)) == (good, 1)
        return
    assert (counted(result), len(named)) == (good, FILES[format][1])
    assert all(line > 0 for line in named)
    assert all(problem.why for problem in rejected)


@pytest.mark.parametrize("format", FILES)
def test_a_second_import_adds_nothing_and_names_the_same(project: Project, tmp_path: Path, format: str) -> None:
    path = write(tmp_path / "file", format)
    (first,) = project.transfer.import_path(path, force=True)

    (second,) = project.transfer.import_path(path, force=True)

    assert (second.new, second.tasks, second.features, second.episodes, second.staged) == (0, 0, 0, 0, 0)
    assert second.rejected == first.rejected
    assert counted(second) == counted(first)


def test_formats_of_files_are_read_by_content_alone() -> None:
    assert {FORMATS[name].content for name in FILES} == {"memories", "tasks", "loop-state", "project", "episodes"}
