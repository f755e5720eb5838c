"""Word index of a PostgreSQL database, in `tsvector` columns."""

from __future__ import annotations

from array import array

from psycopg.rows import tuple_row

from ralph.store.database import WordMatches
from ralph.store.postings import MAX_POSTINGS, most_selective, plan_reading, top_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralph.store.database import Row
    from ralph.store.postgres.driver import PostgresDatabase

_TABLES = {"memory": "memory", "attempt": "attempts", "failure": "failures", "episode": "episodes"}
"""Table that each index covers."""
MIN_SAMPLE_ROWS, MAX_SAMPLE_ROWS, ROWS_PER_SAMPLED = 128, 1_000, 1_000
"""Number of newest rows from which word frequencies are estimated, and of rows of the table for each of them."""
MAX_UNSAMPLED_ROWS = 2_000
"""Maximum number of rows of a project that is searched without estimating word frequencies."""
MAX_LEXEME_LENGTH = 200
"""Maximum length of a search word, in characters; no indexed word is longer."""
MAX_FILTERED_POSTINGS = 100_000
"""Maximum number of postings that a search reads if a filter excludes most matches."""


class PostgresWordIndex:
    """Word index of one database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def search(
        self,
        index: str,
        words: Mapping[str, float],
        limit: int,
        where: str,
        *,
        below: int | None = None,
        max_postings: int = MAX_POSTINGS,
        **values: object,
    ) -> WordMatches:
        """Return rows that contain the words, ordered by total word weight, with the frequency of each word."""
        if not words:
            return WordMatches([], {}, 0)
        total, counts = self._estimate_counts(index, words, values)
        if not total:
            return WordMatches([], {}, 0)
        plan = plan_reading(counts, words, total, max_postings)
        read = dict.fromkeys(plan.whole, ()) | {
            word: companions for word in (plan.anchor, *plan.shared) if word and (companions := plan.companions(word))
        }
        older = "" if below is None else f" AND w.seq < {below:d}"
        source, own = f"{index}_words AS w", f"w.project_id = :project_id{older}"
        found = self._postings(source, own, read, values, plan.together)
        held_by = counts | {word: len(found[word]) for word in plan.whole}
        best = top_rows(found, held_by, words, total, 2 * limit)
        rows = self._rows(index, best[:limit], where, values)
        if len(rows) < limit < len(best):
            rows += self._rows(index, best[limit:], where, values)
        if len(rows) < limit and (len(best) == 2 * limit or len(plan.whole) < len(words)):
            # The filter excludes too many of these: search again with the filter in the query, which is slower.
            few = dict.fromkeys(most_selective(held_by, words, MAX_FILTERED_POSTINGS), ())
            source = f"{index}_words AS w JOIN {_TABLES[index]} AS r ON r.project_id = w.project_id AND r.seq = w.seq"
            found = self._postings(source, where + older, few, values)
            more = self._rows(index, top_rows(found, held_by, words, total, limit), where, values)
            rows = list({row["seq"]: row for row in (*rows, *more)}.values())
        return WordMatches(rows[:limit], held_by, total)

    def _estimate_counts(
        self, index: str, words: Mapping[str, float], values: Mapping[str, object]
    ) -> tuple[int, dict[str, int]]:
        """Return the number of rows of a project in an index, and per word, estimated from its newest rows."""
        (ends,) = self._tuples(
            f"""
            SELECT COUNT(*), MIN(seq), MAX(seq), (SELECT MIN(seq) FROM {index}_words WHERE project_id = :project_id)
            FROM (
                SELECT seq FROM {index}_words WHERE project_id = :project_id
                ORDER BY seq DESC LIMIT {MAX_UNSAMPLED_ROWS + 1}
            ) AS w
            """,
            values,
        )
        count, first, last, oldest = ends
        if count <= MAX_UNSAMPLED_ROWS:
            return count, dict.fromkeys(words, 0)
        total = max(count, (last - oldest + 1) * count // (last - first + 1))
        sampled = min(max(MIN_SAMPLE_ROWS, total // ROWS_PER_SAMPLED), MAX_SAMPLE_ROWS)
        counted = dict(
            self._tuples(
                f"""
                SELECT l.lexeme, COUNT(*) FROM (
                    SELECT found_by FROM {index}_words WHERE project_id = :project_id
                    ORDER BY seq DESC LIMIT {sampled}
                ) AS w CROSS JOIN LATERAL unnest(w.found_by) AS l
                JOIN unnest(CAST(:words AS TEXT[])) AS a (word) ON a.word = l.lexeme GROUP BY l.lexeme
                """,
                {**values, "words": [f"{values['project_id']}/{_plain(word)}" for word in words]},
            )
        )
        return total, {word: counted.get(f"{values['project_id']}/{word}", 0) * total // sampled for word in words}

    def _postings(
        self,
        source: str,
        where: str,
        words: Mapping[str, Sequence[str]],
        values: Mapping[str, object],
        together: Sequence[str] = (),
    ) -> dict[str, array[int]]:
        """Return the `seq` values of the rows that contain each word, newest first.

        If a word has companions, only of rows that contain one of them too. Those that contain all words of `together`
        are added to each of them.
        """

        def lexeme(word: str) -> str:
            return _lexeme(f"{values['project_id']}/{word}")

        asked = [
            f"{lexeme(word)} & ({' | '.join(map(lexeme, companions))})" if companions else lexeme(word)
            for word, companions in words.items()
        ]
        if together:
            asked.append(" & ".join(map(lexeme, together)))
        rows = self._tuples(
            f"""
            SELECT q.place, (
                SELECT string_agg(int8send(w.seq), CAST('' AS BYTEA) ORDER BY w.seq DESC) FROM {source}
                WHERE w.found_by @@ q.word AND {where}
            ) FROM unnest(CAST(:asked AS TSQUERY[])) WITH ORDINALITY AS q (word, place)
            """,
            {**values, "asked": asked},
            binary=True,
        )
        found = dict.fromkeys((*words, *together), array("q"))
        names = [(word,) for word in words] + [tuple(together)]
        for place, packed in rows:
            if packed:
                seqs = array("q", packed)
                seqs.byteswap()
                for word in names[place - 1]:
                    found[word] = array("q", dict.fromkeys((*found[word], *seqs))) if found[word] else seqs
        return found

    def _tuples(self, sql: str, values: Mapping[str, object], *, binary: bool = False) -> list[tuple[Any, ...]]:
        def read() -> list[tuple[Any, ...]]:
            cursor = self._database.server.run(sql, values, binary=binary)
            cursor.row_factory = tuple_row  # type: ignore[assignment]
            return cursor.fetchall()  # type: ignore[return-value]

        return self._database.server.retry_reads(sql, read)

    def _rows(self, index: str, seqs: Sequence[int], where: str, values: Mapping[str, object]) -> list[Row]:
        return self._database.query(rows_query(index, where), seqs=list(seqs), **values)

    def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
        """Return the rows of an index with these `seq` values, including the words they are indexed under."""
        return self._rows(index, seqs, where, values) if seqs else []

    def optimize(self, *, is_full: bool = False) -> None:
        """Do nothing: the server maintains its indexes."""

    def set_bulk_mode(self, index: str, is_bulk: bool) -> None:
        """Update the planner statistics after a bulk insert."""
        if not is_bulk:
            others = ", memory_files, memory_events" if index == "memory" else ""
            self._database.execute(f"ANALYZE {_TABLES[index]}, {index}_words{others}")

    def insert(self, index: str, rows: Sequence[Row]) -> None:
        """Index rows that are not indexed yet."""
        self._database.insert_many(f"{index}_words", rows)

    def clear(self, project_id: str) -> str:
        """Delete the indexed words and files of one project."""
        for table in (*(f"{index}_words" for index in _TABLES), "memory_files"):
            self._database.execute(f"DELETE FROM {table} WHERE project_id = :project_id", project_id=project_id)
        return project_id

    def rebuild(self) -> None:
        """Do nothing: the indexes are updated with the word tables."""


def rows_query(index: str, where: str) -> str:
    """Return the query of the rows with these `seq` values, in their order, with the words they are indexed under.

    `OFFSET 0` makes the server look up each row by its key. Before it has statistics of a table, it would rather read
    all rows of the project.
    """
    return f"""
        SELECT r.*, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
        FROM unnest(CAST(:seqs AS BIGINT[])) WITH ORDINALITY AS s (seq, place)
            CROSS JOIN LATERAL (
                SELECT * FROM {_TABLES[index]} WHERE project_id = :project_id AND seq = s.seq OFFSET 0
            ) AS r
            CROSS JOIN LATERAL (
                SELECT * FROM {index}_words WHERE project_id = :project_id AND seq = s.seq OFFSET 0
            ) AS w
        WHERE {where} ORDER BY s.place
    """


def _lexeme(word: str) -> str:
    """Return a word as a quoted lexeme."""
    return "'" + _plain(word).replace("\\", "\\\\").replace("'", "''") + "'"


def _plain(word: str) -> str:
    """Return a word without characters that PostgreSQL does not accept."""
    return word[:MAX_LEXEME_LENGTH].replace("\0", "").encode("utf-8", "replace").decode()
