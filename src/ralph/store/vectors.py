"""Store for the embeddings of memories.

`MemoryStore` deletes a vector when its text changes, and a background job creates it again. PostgreSQL with pgvector
searches for the nearest vectors itself; otherwise they are compared in this process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import Database, ProjectScope, Row
    from ralph.store.postgres.driver import PostgresDatabase

VECTORS_PER_SAMPLE = 4
"""Number of consecutive vectors read per sampled position, because seeking is slower than reading on."""


def has_vectors(scope: ProjectScope) -> bool:
    """Return whether the project has any vector."""
    rows = scope.query(
        """
        SELECT 1 AS one FROM memory_vectors WHERE project_id = :project_id LIMIT 1
        """
    )
    return bool(rows)


def enable_server_search(database: Database) -> bool:
    """Enable vector search on the server if it supports it. Return whether it does."""
    server = _server(database)
    return server is not None and server.pgvector.enable()


def _server(database: Database) -> PostgresDatabase | None:
    if not database.is_server:
        return None
    from ralph.store.postgres.driver import PostgresDatabase

    return database if isinstance(database, PostgresDatabase) else None


class VectorStore:
    """Embeddings of the memories of a project, for one model."""

    def __init__(self, scope: ProjectScope, model: str, size: int) -> None:
        """Use vectors of `size` bytes. Those of another size are damaged and count as missing."""
        self._scope = scope
        self._model = model
        self._size = size
        self._on_server = _server(scope.database)

    def missing(self, limit: int) -> list[Row]:
        """Return sequence number, title and body of active memories without a vector of this model, newest first."""
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

    def put(self, rows: Sequence[Row], vectors: Sequence[bytes]) -> None:
        """Store the vectors of rows returned by `missing`. Texts that have changed since are skipped."""
        values = [
            {**row, "vector": vector, "model": self._model, "project_id": self._scope.project_id}
            for row, vector in zip(rows, vectors, strict=True)
        ]
        with self._scope.transaction():
            self._scope.database.execute_many(
                "DELETE FROM memory_vectors WHERE project_id = :project_id AND seq = :seq",
                [{"project_id": self._scope.project_id, "seq": row["seq"]} for row in rows],
            )
            self._scope.database.execute_many(
                """
                INSERT INTO memory_vectors (project_id, seq, model, vector)
                SELECT project_id, seq, :model, :vector FROM memory
                WHERE project_id = :project_id AND seq = :seq AND title = :title AND body = :body
                """,
                values,
            )

    def created_after(self, made: int, limit: int) -> list[Row]:
        """Return vectors created after the one numbered `made`, oldest first, with the memory's sequence number."""
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

    def get_many(self, seqs: Sequence[int]) -> list[Row]:
        """Return the vectors of memories by sequence number. They match the current texts."""
        values = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not values:
            return []
        placeholders = ", ".join(f":{name}" for name in values)
        return self._scope.query(
            f"""
            SELECT seq, vector FROM memory_vectors
            WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size AND seq IN ({placeholders})
            """,
            model=self._model,
            size=self._size,
            **values,
        )

    def filter_current(self, seqs: Sequence[int]) -> set[int]:
        """Return those sequence numbers whose memories have a current vector."""
        values = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not values:
            return set()
        placeholders = ", ".join(f":{name}" for name in values)
        rows = self._scope.query(
            f"SELECT seq FROM memory_vectors WHERE project_id = :project_id AND seq IN ({placeholders})", **values
        )
        return {row["seq"] for row in rows}

    # --- search on the server --------------------------------------------------------------

    def newest_on_server(self, threshold: int) -> int:
        """Return the number of the newest vector, or 0 unless the server searches and has more than `threshold`."""
        if not self._on_server or not self._on_server.pgvector.is_enabled(self._size):
            return 0
        (row,) = self._scope.query(
            """
            SELECT COUNT(*) AS n, MAX(made) AS newest FROM (
                SELECT made FROM memory_vectors WHERE project_id = :project_id ORDER BY made DESC LIMIT :many
            ) AS v
            """,
            many=threshold + 1,
        )
        return int(row["newest"]) if row["n"] > threshold else 0

    def sample(self, limit: int) -> list[Row]:
        """Return a sample of about `limit` vectors with the sequence numbers of their memories."""
        assert self._on_server
        project_id = self._scope.project_id
        rows = self._on_server.pgvector.sample(
            project_id, self._model, self._size, limit // VECTORS_PER_SAMPLE, VECTORS_PER_SAMPLE
        )
        sample = {row["seq"]: row for row in rows}
        if len(sample) < limit // 2:
            # The vectors were created in a few bursts, so most sampled positions belong to other projects.
            latest = self._scope.query(
                """
                SELECT seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size
                ORDER BY made DESC LIMIT :most
                """,
                model=self._model,
                size=self._size,
                most=limit,
            )
            sample |= {row["seq"]: row for row in latest}
        return list(sample.values())

    def nearest(self, query: Sequence[float], limit: int) -> list[Row]:
        """Return approximately the nearest vectors, with the sequence numbers of their memories."""
        assert self._on_server
        return self._on_server.pgvector.nearest(self._scope.project_id, self._model, query, limit)
