"""The text of a memory and of a query, for rankers that take one text each."""

from __future__ import annotations

from typing import Any

Memory = dict[str, Any]
Query = dict[str, Any]


def memory_text(memory: Memory) -> str:
    """Return title, content, files and tags, each on its line."""
    parts = [memory["title"], memory["content"], " ".join(memory["file_refs"]), " ".join(memory["tags"])]
    return "\n".join(filter(None, parts))


def query_text(query: Query) -> str:
    """Return title, description, errors and files, each on its line."""
    return "\n".join(filter(None, [query["title"], query["description"], *query["errors"], *query["files"]]))
