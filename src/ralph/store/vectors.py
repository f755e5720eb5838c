"""Store for the embeddings of memories and episodes.

`MemoryStore` deletes a vector when its text changes, and a background job creates it again. They are compared in this
process, which reads each vector once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import ProjectScope, Row


_TITLES = {"memory": "m.title", "episode": "''"}
_TABLES = {"memory": "memory", "episode": "episodes"}
_CONDITIONS = {"memory": " AND m.state = 'active' AND NOT (m.kind = 'estimate' AND m.content <> '')", "episode": ""}
"""SQL conditions for rows of table `m` that need a vector."""


def has_vectors(scope: ProjectScope, index: str = "memory") -> bool:
    """Return whether the project has any vector of memories or episodes."""
    return bool(scope.query(f"SELECT 1 AS one FROM {index}_vectors WHERE project_id = :project_id LIMIT 1"))


class VectorStore:
    """Embeddings of the memories or episodes of a project, for one model."""

    def __init__(self, scope: ProjectScope, model: str, size: int, index: str = "memory") -> None:
        """Use vectors of `size` bytes. Those of another size are damaged and count as missing.

        `index` is `memory` or `episode`.
        """
        self._scope = scope
        self._index = index
        self._model = model
        self._size = size

    def missing(self, limit: int) -> list[Row]:
        """Return sequence number, title and body of texts in use without a vector of this model, newest first."""
        return self._missing(
            f"m.seq, {_TITLES[self._index]} AS title, m.body", "ORDER BY m.seq DESC LIMIT :limit", limit=limit
        )

    def count_missing(self) -> int:
        """Return the number of texts in use without a vector of this model."""
        return int(self._missing("COUNT(*) AS n")[0]["n"])

    def _missing(self, columns: str, order: str = "", **values: int) -> list[Row]:
        return self._scope.query(
            f"""
            SELECT {columns}
            FROM {_TABLES[self._index]} AS m LEFT JOIN {self._index}_vectors AS v
                ON v.project_id = m.project_id AND v.seq = m.seq
            WHERE m.project_id = :project_id{_CONDITIONS[self._index]}
                AND (v.seq IS NULL OR v.model <> :model OR LENGTH(v.vector) <> :size)
            {order}
            """,
            model=self._model,
            size=self._size,
            **values,
        )

    def put(self, rows: Sequence[Row], vectors: Sequence[bytes]) -> None:
        """Store the vectors of rows returned by `missing`. Texts that have changed since are skipped."""
        values = [
            {**row, "vector": vector, "model": self._model, "project_id": self._scope.project_id}
            for row, vector in zip(rows, vectors, strict=True)
        ]
        with self._scope.transaction():
            self._scope.database.execute_many(
                f"DELETE FROM {self._index}_vectors WHERE project_id = :project_id AND seq = :seq",
                [{"project_id": self._scope.project_id, "seq": row["seq"]} for row in rows],
            )
            self._scope.database.execute_many(
                f"""
                INSERT INTO {self._index}_vectors (project_id, seq, model, vector)
                SELECT m.project_id, m.seq, :model, :vector FROM {_TABLES[self._index]} AS m
                WHERE m.project_id = :project_id AND m.seq = :seq
                    AND {_TITLES[self._index]} = :title AND m.body = :body
                """,
                values,
            )

    def created_after(self, made: int, limit: int) -> list[Row]:
        """Return vectors created after the one numbered `made`, oldest first, with the sequence number of the text."""
        return self._scope.query(
            f"""
            SELECT made, seq, vector FROM {self._index}_vectors
            WHERE project_id = :project_id AND model = :model AND made > :made AND LENGTH(vector) = :size
            ORDER BY made LIMIT :limit
            """,
            model=self._model,
            size=self._size,
            made=made,
            limit=limit,
        )

    def filter_current(self, seqs: Sequence[int]) -> set[int]:
        """Return those sequence numbers whose texts have a current vector."""
        values = {f"s{n}": seq for n, seq in enumerate(seqs)}
        if not values:
            return set()
        placeholders = ", ".join(f":{name}" for name in values)
        rows = self._scope.query(
            f"SELECT seq FROM {self._index}_vectors WHERE project_id = :project_id AND seq IN ({placeholders})",
            **values,
        )
        return {row["seq"] for row in rows}
