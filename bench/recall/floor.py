"""What anything should beat: plain full text, the newest, the order of the file."""

from __future__ import annotations

import re
from collections.abc import Callable

import apsw

from bench.recall.rankers import Ranker
from bench.recall.texts import Memory, Query, memory_text, query_text

MANY = 100
MOST_WORDS = 400
"""SQLite's parser takes no expression a thousand deep."""


class PorterWords:
    """Every word of the query, any may match, BM25 over Porter stems: what SQLite does by itself."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._connection = apsw.Connection(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = 'porter unicode61')")

    def add(self, memories: list[Memory]) -> None:
        """Index title, content, files and tags as one text."""
        first = len(self._ids) + 1
        self._ids.extend(memory["id"] for memory in memories)
        self._connection.executemany(
            "INSERT INTO t (rowid, body) VALUES (?, ?)",
            [(first + n, memory_text(memory)) for n, memory in enumerate(memories)],
        )

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Match any word."""
        words = list(dict.fromkeys(re.findall(r"\w+", query_text(query).lower())))[:MOST_WORDS]
        if not words:
            return []
        rows = self._connection.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank, rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), MANY),
        )
        return [self._ids[row[0] - 1] for row in rows]

    def close(self) -> None:
        """Drop the index."""
        self._connection.close()


class FileOrder:
    """The memories as they stand in the file, whatever is asked."""

    def __init__(self) -> None:
        self._memories: list[Memory] = []

    def add(self, memories: list[Memory]) -> None:
        """Append them."""
        self._memories.extend(memories)

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return the first ones."""
        return [memory["id"] for memory in self._memories[:MANY]]

    def close(self) -> None:
        """Nothing is open."""


class NewestFirst(FileOrder):
    """The last ones written, whatever is asked."""

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return the newest; of two as old, the one added later."""
        dated = [(str(memory["created_at"]), place) for place, memory in enumerate(self._memories)]
        return [self._memories[place]["id"] for _, place in sorted(dated, reverse=True)[:MANY]]


RANKERS: dict[str, Callable[[], Ranker]] = {
    "fts5_porter": PorterWords,
    "newest first": NewestFirst,
    "file order": FileOrder,
}
