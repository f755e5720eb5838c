"""What memories mean, as vectors of one model, kept beside their texts.

A vector goes when its text changes (`Memories` sees to that) and is made anew when there is time for it. A server
that compares vectors by itself (PostgreSQL with pgvector) is asked for the nearest; all arithmetic is on this side.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import Database, Row, Scope
    from ralph.store.postgres import PostgresDatabase

EACH = 4
"""Of a spot so many vectors are taken: to find one takes longer than to read on."""


def any_made(scope: Scope) -> bool:
    """Say whether there is any vector at all."""
    rows = scope.query(
        """
        SELECT 1 AS one FROM memory_vectors WHERE project_id = :project_id LIMIT 1
        """
    )
    return bool(rows)


def compare_on_server(database: Database) -> bool:
    """Let the server compare vectors by itself from now on, if it can; say whether it does."""
    server = _server(database)
    return server is not None and server.add_vectors()


def _server(database: Database) -> PostgresDatabase | None:
    if not database.is_server:
        return None
    from ralph.store.postgres import PostgresDatabase

    return database if isinstance(database, PostgresDatabase) else None


class Vectors:
    """The vectors of a project's memories."""

    def __init__(self, scope: Scope, model: str, size: int) -> None:
        """A vector of another size than `size` bytes is damaged, and counts as missing."""
        self._scope = scope
        self._model = model
        self._size = size
        self._on_server = _server(scope.database)

    def missing(self, limit: int) -> list[Row]:
        """Give number, title and text of active memories that have no vector of this model, newest first."""
        return self._scope.query(
            """
            SELECT m.seq, m.title, m.body FROM memory AS m LEFT JOIN memory_vectors AS v
                ON v.project_id = m.project_id AND v.seq = m.seq
            WHERE m.project_id = :project_id AND m.state = 'active'
                AND (v.seq IS NULL OR v.model <> :model OR LENGTH(v.vector) <> :size)
            ORDER BY m.seq DESC LIMIT :limit
            """,
            model=self._model,
            size=self._size,
            limit=limit,
        )

    def count_missing(self) -> int:
        """Give how many active memories have no vector of this model."""
        rows = self._scope.query(
            """
            SELECT COUNT(*) AS n FROM memory AS m LEFT JOIN memory_vectors AS v
                ON v.project_id = m.project_id AND v.seq = m.seq
            WHERE m.project_id = :project_id AND m.state = 'active'
                AND (v.seq IS NULL OR v.model <> :model OR LENGTH(v.vector) <> :size)
            """,
            model=self._model,
            size=self._size,
        )
        return int(rows[0]["n"])

    def put(self, rows: Sequence[Row], vectors: Sequence[bytes]) -> None:
        """Keep the vectors of rows that `missing` gave; a text that has changed since gets none yet."""
        made = [
            {**row, "vector": vector, "model": self._model, "project_id": self._scope.project_id}
            for row, vector in zip(rows, vectors, strict=True)
        ]
        with self._scope.transaction():
            self._scope.database.execute_all(
                "DELETE FROM memory_vectors WHERE project_id = :project_id AND seq = :seq",
                [{"project_id": self._scope.project_id, "seq": row["seq"]} for row in rows],
            )
            self._scope.database.execute_all(
                """
                INSERT INTO memory_vectors (project_id, seq, model, vector)
                SELECT project_id, seq, :model, :vector FROM memory
                WHERE project_id = :project_id AND seq = :seq AND title = :title AND body = :body
                """,
                made,
            )

    def after(self, made: int, limit: int) -> list[Row]:
        """Give vectors made after a number, oldest first: `made`, the memory's number, the vector."""
        return self._scope.query(
            """
            SELECT made, seq, vector FROM memory_vectors
            WHERE project_id = :project_id AND model = :model AND made > :made AND LENGTH(vector) = :size
            ORDER BY made LIMIT :limit
            """,
            model=self._model,
            size=self._size,
            made=made,
            limit=limit,
        )

    def of(self, seqs: Sequence[int]) -> list[Row]:
        """Give number and vector of those of the numbers that have one; it is that of their text as it is now."""
        marks = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not marks:
            return []
        among = ", ".join(f":{name}" for name in marks)
        return self._scope.query(
            f"""
            SELECT seq, vector FROM memory_vectors
            WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size AND seq IN ({among})
            """,
            model=self._model,
            size=self._size,
            **marks,
        )

    def current(self, seqs: Sequence[int]) -> set[int]:
        """Give those of the numbers whose vectors are still those of their texts."""
        marks = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not marks:
            return set()
        among = ", ".join(f":{name}" for name in marks)
        rows = self._scope.query(
            f"SELECT seq FROM memory_vectors WHERE project_id = :project_id AND seq IN ({among})", **marks
        )
        return {row["seq"] for row in rows}

    # --- on a server that compares vectors by itself -------------------------------------

    def newest(self, most: int) -> int:
        """Give the number of the newest vector, if the server compares them and has more than so many; else 0."""
        if not self._on_server or not self._on_server.compares_vectors(self._size):
            return 0
        (row,) = self._scope.query(
            """
            SELECT COUNT(*) AS n, MAX(made) AS newest FROM (
                SELECT made FROM memory_vectors WHERE project_id = :project_id ORDER BY made DESC LIMIT :many
            ) AS v
            """,
            many=most + 1,
        )
        return int(row["newest"]) if row["n"] > most else 0

    def some(self, most: int) -> list[Row]:
        """Give about so many vectors from all over the project: the memories' numbers and the vectors."""
        assert self._on_server
        project_id = self._scope.project_id
        rows = self._on_server.some_vectors(project_id, self._model, self._size, most // EACH, EACH)
        found = {row["seq"]: row for row in rows}
        if len(found) < most // 2:
            # They were made at a few moments, far apart: most spots are where this project has none.
            last = self._scope.query(
                """
                SELECT seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size
                ORDER BY made DESC LIMIT :most
                """,
                model=self._model,
                size=self._size,
                most=most,
            )
            found |= {row["seq"]: row for row in last}
        return list(found.values())

    def nearest(self, direction: Sequence[float], most: int) -> list[Row]:
        """Give number and vector of about those that point most the same way."""
        assert self._on_server
        return self._on_server.nearest_vectors(self._scope.project_id, self._model, direction, most)
