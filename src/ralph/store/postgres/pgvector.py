"""Vector search with pgvector."""

from __future__ import annotations

from ralph.core.errors import RalphError, StoreUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import Row
    from ralph.store.postgres.driver import PostgresDatabase

VECTOR_SIZE = 384
"""Number of dimensions of the vectors that pgvector compares."""
_PGVECTOR_SETUP = (
    # Vectors are stored as bytes; damaged ones are not converted. One index covers all projects.
    "CREATE EXTENSION IF NOT EXISTS vector",
    f"""
    CREATE OR REPLACE FUNCTION ralph_direction(kept BYTEA) RETURNS halfvec
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE BEGIN ATOMIC
        SELECT CASE WHEN LENGTH(kept) = {VECTOR_SIZE} AND BTRIM(kept, decode('00', 'hex')) <> decode('', 'hex') THEN
            l2_normalize(CAST(ARRAY(
                SELECT (get_byte(kept, n) + 128) % 256 - 128 FROM generate_series(0, {VECTOR_SIZE - 1}) AS n ORDER BY n
            ) AS halfvec)) END;
    END
    """,
    f"""
    ALTER TABLE memory_vectors
        ADD COLUMN near halfvec({VECTOR_SIZE}) GENERATED ALWAYS AS (ralph_direction(vector)) STORED
    """,
    "CREATE INDEX memory_vectors_near ON memory_vectors USING hnsw (near halfvec_ip_ops)",
)
_NEAR_SETTINGS = {
    # The index covers all projects: scan on until enough rows of this one are found.
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    # Whether the index pays off depends on the number of vectors of the project.
    "plan_cache_mode": "force_custom_plan",
}


class PgVector:
    """Vector search in one database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._server = database.server

    def is_enabled(self, size: int = VECTOR_SIZE) -> bool:
        """Return whether pgvector is installed and the vectors of this size are stored for it."""
        return size == VECTOR_SIZE and bool(
            self._database.query(
                """
                SELECT 1 AS one FROM pg_attribute WHERE attrelid = to_regclass('memory_vectors') AND attname = 'near'
                    AND NOT attisdropped AND to_regtype('halfvec') IS NOT NULL
                """
            )
        )

    def enable(self) -> bool:
        """Set up pgvector if the server has it; return whether it is in use."""
        if self.is_enabled():
            return True
        from ralph.store.postgres.driver import migration_lock

        with migration_lock(self._database):
            return self.is_enabled() or self.set_up()

    def set_up(self) -> bool:
        """Set up pgvector in the current transaction, which stays usable if the server or role does not allow it."""
        self._server.send("SAVEPOINT pgvector_setup")
        try:
            for statement in _PGVECTOR_SETUP:
                self._server.send(statement)
            # Before 0.8, an index scan ends early if the nearest vectors belong to other projects.
            version = "SELECT CAST(string_to_array(extversion, '.') AS INT[]) >= '{0,8}' AS is_new_enough"
            (row,) = self._database.query(f"{version} FROM pg_extension WHERE extname = 'vector'")
            is_done = bool(row["is_new_enough"])
        except StoreUnavailableError:
            raise
        except RalphError:
            is_done = False
        self._server.send("RELEASE SAVEPOINT pgvector_setup" if is_done else "ROLLBACK TO SAVEPOINT pgvector_setup")
        return is_done

    def nearest(self, project_id: str, model: str, direction: Sequence[float], limit: int) -> list[Row]:
        """Return the `seq` and vector of the approximate nearest neighbors of `direction`, nearest first."""
        values: dict[str, object] = {
            "project_id": project_id,
            "model": model,
            "direction": f"[{','.join(map(str, direction))}]",
        }

        def select(order: str) -> list[Row]:
            rows = self._server.run(
                f"""
                SELECT seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND near IS NOT NULL ORDER BY {order} LIMIT {limit:d}
                """,
                values,
            )
            return rows.fetchall()

        def read() -> list[Row]:
            distance = "near <#> CAST(:direction AS halfvec)"
            with self._database.snapshot():
                self._server.send("".join(f"SET LOCAL {name} = '{value}'; " for name, value in _NEAR_SETTINGS.items()))
                found = select(distance)
                # An index scan may end early; the `+ 0` avoids the index and compares all vectors of the project.
                return found if len(found) == limit else select(f"({distance}) + 0")

        return read() if self._server.is_in_transaction else self._server.retry(read)

    def sample(self, project_id: str, model: str, size: int, spots: int, each: int) -> list[Row]:
        """Return a sample of a project's vectors: `each` vectors from each of `spots` evenly spread positions."""
        return self._database.query(
            """
            SELECT v.made, v.seq, v.vector
            FROM (
                SELECT MIN(made) AS first, MAX(made) AS last FROM memory_vectors WHERE project_id = :project_id
            ) AS e CROSS JOIN generate_series(0, CAST(:spots AS BIGINT) - 1) AS s (spot)
            CROSS JOIN LATERAL (
                SELECT made, seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size
                    AND made >= e.first + (e.last - e.first) * s.spot / :spots
                ORDER BY made LIMIT :each
            ) AS v
            """,
            project_id=project_id,
            model=model,
            size=size,
            spots=spots,
            each=each,
        )
