"""Search for exact text in what people and agents wrote: memories, tasks and features."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import ProjectScope

MAX_FRAGMENTS = 40
"""Number of fragments searched for in one query."""
_COLUMNS = {"memory": ("title", "body"), "tasks": ("title", "body"), "features": ("name", "spec", "plan")}
"""Columns with text by table."""


def find_texts(scope: ProjectScope, fragments: Sequence[str]) -> list[str]:
    """Return the texts that hold one of some fragments of ASCII text in lower case."""
    found: dict[str, None] = {}
    for start in range(0, len(fragments), MAX_FRAGMENTS):
        patterns = {f"f{n}": _pattern(one) for n, one in enumerate(fragments[start : start + MAX_FRAGMENTS])}
        for table, columns in _COLUMNS.items():
            ilike = scope.database.ilike
            conditions = " OR ".join(f"{one} {ilike} :{name} ESCAPE '!'" for name in patterns for one in columns)
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE project_id = :project_id AND ({conditions})"
            for row in scope.query(query, **patterns):
                found |= dict.fromkeys(row[name] for name in columns)
    return list(found)


def _pattern(fragment: str) -> str:
    escaped = fragment.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"
