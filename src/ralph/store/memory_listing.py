"""Lists of memories in a given order, read page by page."""

from __future__ import annotations

from ralph.core.records import MemoryState, replace
from ralph.store.memory_queries import (
    MEMORY_COLUMNS,
    PAGE,
    MemoryFilter,
    MemoryReader,
    filter_conditions,
    like_pattern,
    one_of,
    row_to_memory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.core.records import Memory
    from ralph.store.database import Row

FIRST_PAGE = 64
"""Number of rows read by the first query of a listing, because most callers need only a few."""
MAX_SEQ = 2**62
"""Sequence number above all others."""
PAGE_GROWTH = 8
"""Factor by which each page of a listing is larger than the one before."""
EXTRA_PER_KIND = 3
"""Number of additional memories read per kind, because other kinds may have few."""
MAX_SEARCH_LENGTH = 200
"""Maximum length of a search text, in characters. Databases limit the length of LIKE patterns."""


class MemoryListing(MemoryReader):
    """Lists of the memories of a project."""

    def containing(self, filter: MemoryFilter, text: str) -> Iterator[Memory]:
        """Yield matching memories that contain a text, ignoring case, last inserted first.

        Pages are read on demand, so that a caller who needs only a few does not wait for all.
        """
        condition, values = filter_conditions(filter)
        contains = f"{self.scope.database.ilike} :pattern ESCAPE '\\'"
        below, most = MAX_SEQ, FIRST_PAGE
        while True:
            rows = self.scope.query(
                f"""
                SELECT {MEMORY_COLUMNS}, r.seq FROM memory AS r
                WHERE r.project_id = :project_id AND r.seq < :below AND {condition}
                    AND (title {contains} OR body {contains} OR tags {contains})
                ORDER BY r.seq DESC LIMIT :most
                """,
                below=below,
                most=most,
                pattern=like_pattern(text[:MAX_SEARCH_LENGTH]),
                **values,
            )
            yield from map(row_to_memory, rows)
            if len(rows) < most:
                return
            below, most = rows[-1]["seq"], PAGE

    def newest(self, filter: MemoryFilter, below: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Yield matching memories, newest first, starting after the date and id in `below`."""
        return self._by_date(filter, below, "<", "DESC")

    def oldest(self, filter: MemoryFilter, above: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Yield matching memories, oldest first, starting after the date and id in `above`."""
        return self._by_date(filter, above, ">", "ASC")

    def _by_date(
        self, filter: MemoryFilter, cursor: tuple[str, str] | None, operator: str, direction: str
    ) -> Iterator[Memory]:
        """Yield matching memories ordered by date, starting after a cursor, in pages of growing size."""
        condition, values = filter_conditions(replace(filter, states=()))
        states = {f"in_state_{n}": state.value for n, state in enumerate(filter.states or tuple(MemoryState))}
        page_size = FIRST_PAGE
        while True:
            follows = f"(r.created_at, r.id) {operator} (:made_at, :id)" if cursor else "1 = 1"
            # One query per state, because each can then be read in the order of an index.
            parts = [
                f"""
                SELECT * FROM (
                    SELECT r.seq, r.created_at, r.id FROM memory AS r
                    WHERE r.project_id = :project_id AND r.state = :{state} AND {follows} AND {condition}
                    ORDER BY r.created_at {direction}, r.id {direction} LIMIT :most
                ) AS {state}
                """
                for state in states
            ]
            rows = self.scope.query(
                f"{' UNION ALL '.join(parts)} ORDER BY created_at {direction}, id {direction} LIMIT :most",
                most=page_size,
                **values,
                **states,
                **(dict(zip(("made_at", "id"), cursor, strict=True)) if cursor else {}),
            )
            yield from self._in_order([row["seq"] for row in rows])
            if len(rows) < page_size:
                return
            cursor = rows[-1]["created_at"], rows[-1]["id"]
            page_size *= PAGE_GROWTH

    def most_confident(self, filter: MemoryFilter, limit: int) -> list[Memory]:
        """Return about `limit` matching memories with the highest confidence, spread evenly over the kinds."""
        condition, values = filter_conditions(filter)
        # Steps from one kind to the next by index; DISTINCT would scan every memory.
        kinds = self.scope.query(
            f"""
            WITH RECURSIVE known (kind) AS (
                SELECT MIN(r.kind) FROM memory AS r WHERE r.project_id = :project_id AND {condition}
                UNION ALL
                SELECT (
                    SELECT MIN(r.kind) FROM memory AS r
                    WHERE r.project_id = :project_id AND r.kind > known.kind AND {condition}
                ) FROM known WHERE known.kind IS NOT NULL
            )
            SELECT kind FROM known WHERE kind IS NOT NULL
            """,
            **values,
        )
        found: list[Memory] = []
        for row in kinds:
            rows = self.scope.query(
                f"""
                SELECT {MEMORY_COLUMNS} FROM memory AS r
                WHERE r.project_id = :project_id AND r.kind = :kind AND {condition}
                ORDER BY r.confidence DESC, r.created_at DESC LIMIT :most
                """,
                kind=row["kind"],
                most=limit // len(kinds) + EXTRA_PER_KIND,
                **values,
            )
            found += map(row_to_memory, rows)
        return found

    def learned_in_attempt(self, run_id: str, task_id: str, attempt: int) -> list[Memory]:
        """Return the memories that were first learned in an attempt."""
        rows = self.rows(
            "origin_task = :task_id AND origin_run = :run_id AND origin_attempt = :attempt",
            run_id=run_id,
            task_id=task_id,
            attempt=attempt,
        )
        return [row_to_memory(row) for row in rows]

    def learned_in_run(self, run_id: str, limit: int) -> list[Memory]:
        """Return memories learned in a run, by its attempts or by later extraction, newest first."""
        rows = self.scope.query(
            """
            SELECT * FROM (
                SELECT * FROM memory WHERE project_id = :project_id AND origin_run = :run_id
                UNION
                SELECT * FROM memory WHERE project_id = :project_id AND origin_loops <> '[]' AND origin_loops LIKE :loop
            ) AS learned ORDER BY seq DESC LIMIT :most
            """,
            run_id=run_id,
            loop=f'%"{run_id}"%',
            most=limit,
        )
        return [row_to_memory(row) for row in rows]

    def texts_of_kinds(self, kinds: Sequence[str]) -> list[Row]:
        """Return id, kind, body, tags and date of active memories of these kinds, newest first."""
        condition, values = one_of("kind", kinds)
        return self.scope.query(
            f"""
            SELECT id, kind, body, tags, created_at FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {condition} ORDER BY seq DESC
            """,
            **values,
        )
