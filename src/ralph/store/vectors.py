"""Store for the embeddings of memories.

`MemoryStore` deletes a vector when its text changes, and a background job creates it again. They are compared in this
process, which reads each vector once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import ProjectScope, Row


def has_vectors(scope: ProjectScope) -> bool:
    """Return whether the project has any vector."""
    rows = scope.query(
        """
        SELECT 1 AS one FROM memory_vectors WHERE project_id = :project_id LIMIT 1
        """
    )
    return bool(rows)


class VectorStore:
    """Embeddings of the memories of a project, for one model."""

    def __init__(self, scope: ProjectScope, model: str, size: int) -> None:
        """Use vectors of `size` bytes. Those of another size are damaged and count as missing."""
        self._scope = scope
        self._model = model
        self._size = size

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
