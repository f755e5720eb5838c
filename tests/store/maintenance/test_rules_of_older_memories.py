"""The update to schema 12 finds the rules that older memories state."""

from __future__ import annotations

from ralph.project import Project
from ralph.store.maintenance.migrate import add_rules
from tests.make import a_memory, damaged_rows, remember

RULE = "From now on, end all variable names with '_n'."


def test_memories_older_than_rules_become_standing_rules(project: Project) -> None:
    store = project.store
    older = project.memory.add(RULE, type="convention").memory
    remember(store, a_memory("Parser", "The parser is in parse.py.", kind="architecture"))
    (row,) = store.scope.query("SELECT rule FROM memory WHERE project_id = :project_id AND id = :id", id=older.id)
    store.scope.update_where("memory", "rule = ''", "id = :id", id=older.id)
    assert [one.stated.id for one in project.memory.rules.standing()] == []

    add_rules(store.database)

    assert [one.stated.id for one in project.memory.rules.standing()] == [older.id]
    assert store.scope.query("SELECT rule FROM memory WHERE id = :id AND project_id = :project_id", id=older.id) == [
        row
    ]
    assert damaged_rows(store) == []
