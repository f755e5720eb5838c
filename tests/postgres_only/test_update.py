"""Tables of an older version on a server are brought up to date by the first program that opens them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.records import AttemptOutcome, MemorySource, MemoryState
from ralph.project import Project
from ralph.store.database import SCHEMA_VERSION
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project
from tests.make import a_memory, a_report, begin, damaged_rows, finish
from tests.postgres import Server

pytestmark = [pytest.mark.postgres, pytest.mark.own_store]


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.remove()


def test_schema_11_classifies_failures_and_retires_what_they_taught(server: Server, tmp_path: Path) -> None:
    server.run("CREATE DATABASE team")
    init_project(tmp_path, url=server.url("team"), name="shop")
    with Project.open(tmp_path) as project:
        project.tasks.add("Fix it")
        run = project.store.runs.start("test").id
        task, attempt = begin(project.store, run)
        reason = "claude exited with 1: Not logged in"
        report = a_report(attempt, reason, category="crash")
        finish(project.store, task, attempt, AttemptOutcome.ERROR, report=report, reason=reason)
        wrong = a_memory(
            f"Avoid: {reason}",
            kind="antipattern",
            structured_content='{"occurrences":2}',
            source=MemorySource.AUTOMATIC,
            origin_loops=(run,),
        )
        project.store.memories.insert_unchecked(wrong, ChangeInfo(who="ralph", why="extracted"))
    added = {
        "attempts": "cause feedback start_commit commits checkpoint",
        "memory": "pinned_at rule",
        "episodes": "rules",
        "features": "written_by",
        "projects": "stuck_after",
    }
    server.run("DROP TABLE questions", "team")
    server.run("DROP VIEW strategy_metrics", "team")
    server.run("CREATE VIEW strategy_metrics AS SELECT 1 AS replaced", "team")
    for table, columns in {**added, "runs": "request waits_until waits_for waited"}.items():
        for column in columns.split():
            server.run(f"ALTER TABLE {table} DROP COLUMN {column}", "team")
    server.run("UPDATE ralph_schema SET version = 10", "team")

    with Project.open(tmp_path) as project:
        assert project.store.attempts.latest(1)[0].cause == "service"
        assert project.store.memories.get(wrong.id).state is MemoryState.PRUNED
        assert damaged_rows(project.store) == []
    assert server.run("SELECT version FROM ralph_schema", "team") == [(SCHEMA_VERSION,)]
