"""Look-up of memories by words, files, links and fingerprints."""

from __future__ import annotations

from ralph.core.records import MemoryState
from ralph.core.text import clean
from ralph.memory.lifecycle.knowledge import links_in, title_key
from ralph.store.memory_queries import (
    PAGE,
    MemoryFilter,
    MemoryReader,
    filter_conditions,
    one_of,
    row_to_memory,
    state_rank,
)
from ralph.store.postings import MAX_POSTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ralph.core.records import Memory
    from ralph.store.database import Row, WordMatches

MAX_LINKS = 1_000
"""Maximum number of links read at once."""
LINKS = "SELECT memory_id, title_key FROM memory_links WHERE project_id = :project_id"
"""Query of the links between memories."""


class MemoryIndex(MemoryReader):
    """Look-up of the memories of a project."""

    def search_words(
        self,
        words: Mapping[str, float],
        limit: int,
        filter: MemoryFilter | None = None,
        max_postings: int = MAX_POSTINGS,
    ) -> WordMatches:
        """Return rows of memories that contain the words, highest total weight first."""
        condition, values = filter_conditions(filter or MemoryFilter())
        return self.scope.database.words.search(
            "memory",
            words,
            limit,
            f"r.project_id = :project_id AND {condition}",
            below=None,
            max_postings=max_postings,
            project_id=self.scope.project_id,
            **values,
        )

    def rows_with_words(self, seqs: Sequence[int], filter: MemoryFilter | None = None) -> list[Row]:
        """Return rows by sequence number with their indexed words, in the given order."""
        condition, values = filter_conditions(filter or MemoryFilter())
        where = f"r.project_id = :project_id AND {condition}"
        return self.scope.database.words.rows("memory", seqs, where, project_id=self.scope.project_id, **values)

    # --- files and links -------------------------------------------------------------

    def seqs_naming_files(self, paths: Sequence[str], limit: int) -> list[int]:
        """Return the sequence numbers of the newest memories that name each of these files, up to `limit` per file."""
        parts = [
            f"""
            SELECT * FROM (SELECT seq, {n} AS place FROM memory_files WHERE project_id = :project_id AND path = :p{n}
            ORDER BY seq DESC LIMIT :most) AS f{n}
            """
            for n in range(len(paths))
        ]
        if not parts:
            return []
        rows = self.scope.query(
            f"{' UNION ALL '.join(parts)} ORDER BY place, seq DESC",
            most=limit,
            **{f"p{n}": path for n, path in enumerate(paths)},
        )
        return [row["seq"] for row in rows]

    def seqs_of(self, feature: str | None, tasks: Collection[str], limit: int) -> list[int]:
        """Return the newest memories of a feature, and those learned in one of the tasks, up to `limit` each."""
        found: list[int] = []
        for column, values in (("feature", [clean(feature)] if feature else []), ("origin_task", list(tasks)[:PAGE])):
            if values:
                condition, bound = one_of(column, values)
                rows = self.scope.query(
                    f"""
                    SELECT seq FROM memory WHERE project_id = :project_id AND {condition} ORDER BY seq DESC LIMIT :most
                    """,
                    most=limit,
                    **bound,
                )
                found += [row["seq"] for row in rows]
        return list(dict.fromkeys(found))

    def file_references(self, paths: Collection[str] | None = None) -> list[Row]:
        """Return files, fingerprints and dates of active memories that name any file, or one of `paths`."""
        columns = "id, files, seen, stale, created_at, updated_at, verified_at"
        if paths is None:
            return self.scope.query(
                f"""
                SELECT {columns} FROM memory
                WHERE project_id = :project_id AND state = 'active' AND files <> '[]' ORDER BY seq
                """
            )
        unique_paths, seqs = list(dict.fromkeys(paths)), dict[int, None]()
        for start in range(0, len(unique_paths), PAGE):
            condition, values = one_of("path", unique_paths[start : start + PAGE])
            rows = self.scope.query(
                f"SELECT seq FROM memory_files WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
            )
            seqs |= {row["seq"]: None for row in rows}
        return list(self.rows_in("seq", list(seqs), columns, " AND state = 'active'"))

    def neighbor_pairs(self, seqs: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of consecutively learned active memories that include one of these sequence numbers."""
        pairs: dict[tuple[int, int], None] = {}
        if not seqs:
            return []
        values = {f"s{n}": seq for n, seq in enumerate(seqs)}
        asked = ", ".join(f"({n}, CAST(:s{n} AS BIGINT))" for n in range(len(seqs)))
        rows = self.scope.query(
            f"""
            WITH asked (place, seq) AS (VALUES {asked})
            SELECT seq, (SELECT MAX(m.seq) FROM memory AS m
                    WHERE m.project_id = :project_id AND m.state = 'active' AND m.seq < asked.seq) AS before,
                (SELECT MIN(m.seq) FROM memory AS m
                    WHERE m.project_id = :project_id AND m.state = 'active' AND m.seq > asked.seq) AS after
            FROM asked ORDER BY place
            """,
            **values,
        )
        for row in rows:
            seq = row["seq"]
            if row["before"] is not None:
                pairs[row["before"], seq] = None
            if row["after"] is not None:
                pairs[seq, row["after"]] = None
        return list(pairs)

    def linked_pairs(self, memories: Sequence[Row]) -> list[tuple[int, int]]:
        """Return pairs linked by a `[[title]]` that include one of these memories, as sequence numbers."""
        columns = "id, seq, kind, title_key, state"
        ids = [row["id"] for row in memories]
        titles = [row["title_key"] for row in memories if _is_linkable(row)]
        links = {(row["memory_id"], row["title_key"]) for row in self._links("memory_id", ids)}
        links |= {(row["memory_id"], row["title_key"]) for row in self._links("title_key", titles)}
        sources = {row["id"]: row["seq"] for row in self.rows_in("id", [id for id, _ in links], columns)}
        targets: dict[str, list[int]] = {}
        for row in self.rows_in("title_key", [key for _, key in links], columns, " AND kind = 'knowledge'"):
            if _is_linkable(row):
                targets.setdefault(row["title_key"], []).append(row["seq"])
        return [(sources[id], seq) for id, key in sorted(links) if id in sources for seq in targets.get(key, ())]

    def _links(self, column: str, values: Sequence[str]) -> list[Row]:
        bound = {f"v{n}": value for n, value in enumerate(values)}
        if not bound:
            return []
        placeholders = ", ".join(f":{name}" for name in bound)
        return self.scope.query(f"{LINKS} AND {column} IN ({placeholders}) LIMIT {MAX_LINKS}", **bound)

    def by_title(self, title: str, state: MemoryState = MemoryState.ACTIVE) -> Memory | None:
        """Return the newest knowledge entry with a title, ignoring case, or None."""
        rows = self.rows(
            "kind = 'knowledge' AND title_key = :key AND state = :state", key=title_key(title), state=state.value
        )
        return row_to_memory(rows[-1]) if rows else None

    def links(self, id: str) -> tuple[list[tuple[str, Memory | None]], list[Memory]]:
        """Return the titles a memory links to, each with its memory, and the active memories that link to it."""
        memory = self.get(id)
        out = [(title, self.by_title(title)) for title in links_in(memory.content)]
        rows = self.scope.query(
            """
            SELECT m.* FROM memory_links AS l CROSS JOIN memory AS m
            WHERE l.project_id = :project_id AND l.title_key = :key AND m.project_id = :project_id
                AND m.id = l.memory_id AND m.state = 'active' AND m.id <> :id
            ORDER BY m.seq
            """,
            key=title_key(memory.title),
            id=id,
        )
        return out, [row_to_memory(row) for row in rows]

    # --- duplicates ------------------------------------------------------------------

    def find_known(
        self, fingerprints: Sequence[str], ids: Sequence[str]
    ) -> tuple[dict[str, Memory], dict[str, tuple[Memory, str]]]:
        """Return memories by fingerprint, preferring live ones, and memories by id with their fingerprints."""
        by_mark: dict[str, Memory] = {}
        for row in self.rows_in("fingerprint", fingerprints):
            memory = row_to_memory(row)
            if row["fingerprint"] not in by_mark or state_rank(memory) < state_rank(by_mark[row["fingerprint"]]):
                by_mark[row["fingerprint"]] = memory
        by_id = {row["id"]: (row_to_memory(row), row["fingerprint"]) for row in self.rows_in("id", ids)}
        return by_mark, by_id

    def count_unknown(self, memories: Sequence[Memory]) -> int:
        """Return how many of these memories are not stored yet."""
        from ralph.memory.lifecycle.fingerprint import fingerprint

        marks = [fingerprint(memory) for memory in memories]
        known, _ = self.find_known(marks, [])
        return sum(mark not in known for mark in marks)


def _is_linkable(row: Row) -> bool:
    return bool(row["kind"] == "knowledge" and row["state"] == "active")
