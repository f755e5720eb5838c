"""What a recall asks the database does not grow with the memories."""

from __future__ import annotations

from typing import Any

import pytest

from ralph.memory.recall.candidates import rank_memories
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter

COUNT = 30


@pytest.fixture
def filled(project: Project) -> Project:
    """Give a project with memories about one subject."""
    for number in range(COUNT):
        project.memory.add(f"The parser of file format {number} reads {number * 7} lines at a time", tags=["parser"])
    return project


def test_statements_of_a_recall_do_not_grow_with_the_memories(filled: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    context = RecallContext(title="Change how the parser reads lines")
    asked: list[str] = []
    query = type(filled.store.database).query

    def counted(database: Any, sql: str, **values: object) -> list[dict[str, Any]]:
        asked.append(sql)
        return query(database, sql, **values)

    monkeypatch.setattr(type(filled.store.database), "query", counted)
    rank_memories(filled.store, context, MemoryFilter())
    few = len(asked)
    for number in range(COUNT):
        filled.memory.add(f"The lexer of file format {number} reads {number * 3} lines before the parser")
    asked.clear()
    rank_memories(filled.store, context, MemoryFilter())

    assert len(asked) <= few + 1
