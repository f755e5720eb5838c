"""What memories mean, as vectors of one model, kept beside their texts.

A vector goes when its text changes (`Memories` sees to that) and is made anew when there is time for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import Row, Scope


def any_made(scope: Scope) -> bool:
    """Say whether there is any vector at all."""
    rows = scope.query(
        """
        SELECT 1 AS one FROM memory_vectors AS v JOIN memory AS m ON m.seq = v.seq
        WHERE m.project_id = :project_id LIMIT 1
        """
    )
    return bool(rows)


class Vectors:
    """The vectors of a project's memories."""

    def __init__(self, scope: Scope, model: str, size: int) -> None:
        """A vector of another size than `size` bytes is damaged, and counts as missing."""
        self._scope = scope
        self._model = model
        self._size = size

    def missing(self, limit: int) -> list[Row]:
        """Give number, title and text of active memories that have no vector of this model, newest first."""
        return self._scope.query(
            """
            SELECT m.seq, m.title, m.body FROM memory AS m LEFT JOIN memory_vectors AS v ON v.seq = m.seq
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
            SELECT COUNT(*) AS n FROM memory AS m LEFT JOIN memory_vectors AS v ON v.seq = m.seq
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
                "DELETE FROM memory_vectors WHERE seq = :seq", [{"seq": row["seq"]} for row in rows]
            )
            self._scope.database.execute_all(
                """
                INSERT INTO memory_vectors (seq, model, vector)
                SELECT seq, :model, :vector FROM memory
                WHERE project_id = :project_id AND seq = :seq AND title = :title AND body = :body
                """,
                made,
            )

    def after(self, made: int, limit: int) -> list[Row]:
        """Give vectors made after a number, oldest first: `made`, the memory's number, the vector."""
        return self._scope.query(
            """
            SELECT v.made, v.seq, v.vector FROM memory_vectors AS v JOIN memory AS m ON m.seq = v.seq
            WHERE m.project_id = :project_id AND v.model = :model AND v.made > :made
                AND LENGTH(v.vector) = :size
            ORDER BY v.made LIMIT :limit
            """,
            model=self._model,
            size=self._size,
            made=made,
            limit=limit,
        )

    def current(self, seqs: Sequence[int]) -> set[int]:
        """Give those of the numbers whose vectors are still those of their texts."""
        marks = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not marks:
            return set()
        among = ", ".join(f":{name}" for name in marks)
        rows = self._scope.database.query(f"SELECT seq FROM memory_vectors WHERE seq IN ({among})", **marks)
        return {row["seq"] for row in rows}
