"""Word index of a SQLite file, in FTS5 tables."""

from __future__ import annotations

import json

from ralph.store.database import WordMatches
from ralph.store.postings import MAX_POSTINGS, most_selective, plan_reading, top_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ralph.store.database import Row
    from ralph.store.sqlite.driver import SqliteDatabase

    ReadTuples = Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]]
    """Function that runs a statement and returns its rows as tuples."""

MERGE_PAGES = 100
"""Number of index pages to merge in one maintenance step."""
AUTOMERGE = 2
"""Number of equal-sized FTS5 segments that triggers a merge; fewer segments make searches faster."""
INDEX_BATCH = 100
"""Number of rows to index per statement. More save no time and make statements longer."""
_TABLES = {"memory": "memory", "attempt": "attempts", "failure": "failures", "episode": "episodes"}
"""Table that each index covers."""
MAX_FILTERED_POSTINGS = 100_000
"""Maximum number of postings that a search reads if a filter excludes most matches."""
MAX_SHARED = 3_000
"""Maximum number of postings of a frequent word that are read because the rows contain other words as well."""
MIN_POSTINGS = 64
"""Number of newest postings that a search reads of every word."""
SMALL_TABLE_ROWS = 1_000
"""Number of rows up to which one statement reads all postings of all words, which takes less time than one per word."""
MIN_CANDIDATES = 300
"""Number of newest postings that a search reads if all words are frequent."""


def _phrase(word: str) -> str:
    """Return a word as an FTS5 string; characters that are never indexed become underscores."""
    if word.isalnum():
        return f'"{word}"'
    plain = "".join(char if char.isalnum() or char in "_.-" or char > "\x7f" else "_" for char in word)
    return f'"{plain.encode("utf-8", "replace").decode()}"'


class _Postings:
    """The newest rows that contain a word, and how many there are."""

    __slots__ = ("count", "is_whole", "seqs")

    def __init__(self, seqs: list[int], is_whole: bool, count: int) -> None:
        self.seqs = seqs
        self.is_whole = is_whole
        """Whether these are all rows that contain the word."""
        self.count = count


def _heaviest(
    postings: Mapping[str, _Postings], counts: Mapping[str, int], words: Mapping[str, float], total: int, limit: int
) -> list[int]:
    return top_rows({word: held.seqs for word, held in postings.items()}, counts, words, total, limit)


class _PostingReader:
    """Reader of the postings of the words of one search."""

    def __init__(
        self, read_tuples: ReadTuples, source: str, total: int, span: int, values: Mapping[str, object]
    ) -> None:
        """`span` is the distance between the first and the last `seq` of the table."""
        self._tuples = read_tuples
        self._source = source
        self._sql = f"SELECT f.rowid FROM {source} ORDER BY f.rowid DESC LIMIT :most"
        self._total, self._span, self._values = total, span, values

    def read_planned(self, words: Mapping[str, float], max_postings: int = MAX_POSTINGS) -> dict[str, _Postings]:
        """Return the newest postings of each word, and more as `plan_reading` says."""
        if self._total <= SMALL_TABLE_ROWS:
            return self._read_all(words)
        postings = {word: self._read_newest(word) for word in words}
        plan = plan_reading({word: held.count for word, held in postings.items()}, words, self._total, max_postings)
        for word in plan.whole:
            if not postings[word].is_whole:
                # Twice the estimate, in case the word is more frequent among older rows.
                most = 2 * postings[word].count
                seqs = self._read(_phrase(word), most)
                is_whole = len(seqs) < most
                postings[word] = _Postings(seqs, is_whole, len(seqs) if is_whole else postings[word].count)
        if plan.anchor:
            # In case no row contains another word as well.
            postings[plan.anchor].seqs = self._read(_phrase(plan.anchor), MIN_CANDIDATES)
        for word in (plan.anchor, *plan.shared):
            if word and (companions := plan.companions(word)):
                held = postings[word]
                together = self._read(
                    f"{_phrase(word)} AND ({' OR '.join(map(_phrase, companions))})", min(MAX_SHARED, max_postings)
                )
                held.seqs = list(dict.fromkeys((*held.seqs, *together)))
        if plan.together:
            everything = self._read(" AND ".join(map(_phrase, plan.together)), MAX_SHARED)
            for word in plan.together:
                postings[word].seqs = list(dict.fromkeys((*everything, *postings[word].seqs)))
        return postings

    def _read_all(self, words: Mapping[str, float]) -> dict[str, _Postings]:
        """Return all postings of each word."""
        source = self._source.replace(":word", "asked.value")
        sql = f"""
            SELECT (SELECT GROUP_CONCAT(f.rowid) FROM {source}) FROM json_each(:words) AS asked ORDER BY asked.key
        """
        found = self._tuples(sql, {**self._values, "words": json.dumps([_phrase(word) for word in words])})
        read = ([int(seq) for seq in seqs.split(",")] if seqs else [] for (seqs,) in found)
        return {word: _Postings(seqs, True, len(seqs)) for word, seqs in zip(words, read, strict=True)}

    def _read_newest(self, word: str) -> _Postings:
        """Return the newest postings of a word, and the number of all, extrapolated from their density."""
        seqs = self._read(_phrase(word), MIN_POSTINGS)
        is_whole = len(seqs) < MIN_POSTINGS
        count = len(seqs) if is_whole else len(seqs) * self._span // (seqs[0] - seqs[-1] + 1)
        return _Postings(seqs, is_whole, min(count, self._total))

    def _read(self, expression: str, most: int) -> list[int]:
        return [seq for (seq,) in self._tuples(self._sql, {**self._values, "word": expression, "most": most})]


class SqliteWordIndex:
    """Word index of one SQLite file."""

    def __init__(self, database: SqliteDatabase, read_tuples: ReadTuples) -> None:
        self._database = database
        self._tuples = read_tuples

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
        table = _TABLES[index]
        # In two subqueries, because MIN and MAX in one SELECT would scan the whole table.
        ends = f"""
            SELECT (SELECT MIN(seq) FROM {index}_words), (SELECT MAX(seq) FROM {index}_words),
                EXISTS (SELECT 1 FROM projects WHERE id <> :project_id)
        """
        first, newest, has_others = self._tuples(ends, values)[0]
        total = newest - first + 1 if newest is not None else 0
        source, own = f"{index}_index AS f", ""
        if has_others:
            # The index covers all projects, but word frequencies have to be those of this project.
            ends = f"SELECT MIN(seq), MAX(seq), COUNT(*) FROM {table} WHERE project_id = :project_id"
            first, newest, total = self._tuples(ends, values)[0]
            source, own = f"{source} CROSS JOIN {table} AS r ON r.seq = f.rowid", "AND r.project_id = :project_id"
        if below is not None and newest is not None and newest >= below:
            total -= min(total, newest - below + 1)
            newest, own = below - 1, f"{own} AND f.rowid < {below:d}"
        if not total or not words:
            return WordMatches([], {}, 0)
        span = newest - first + 1
        reader = _PostingReader(self._tuples, f"{source} WHERE {index}_index MATCH :word {own}", total, span, values)
        postings = reader.read_planned(words, max_postings)
        held_by = {word: held.count for word, held in postings.items()}
        best = _heaviest(postings, held_by, words, total, 2 * limit)
        rows = self._rows(index, table, best[:limit], where, values)
        if len(rows) < limit < len(best):
            rows += self._rows(index, table, best[limit:], where, values)
        is_whole = len(best) < 2 * limit and all(held.is_whole for held in postings.values())
        if len(rows) < limit and not is_whole:
            # The filter excludes too many of these: search again with the filter in the query, which is slower.
            source = f"{index}_index AS f CROSS JOIN {table} AS r ON r.seq = f.rowid"
            few = most_selective(held_by, words, MAX_FILTERED_POSTINGS)
            source = f"{source} WHERE {index}_index MATCH :word {own} AND {where}"
            postings = _PostingReader(self._tuples, source, total, span, values).read_planned(few)
            more = self._rows(index, table, _heaviest(postings, held_by, few, total, limit), where, values)
            rows = list({row["seq"]: row for row in (*rows, *more)}.values())
        return WordMatches(rows[:limit], held_by, total)

    def _rows(self, index: str, table: str, seqs: Sequence[int], where: str, values: Mapping[str, object]) -> list[Row]:
        """Return the rows with these `seq` values, in that order, including the words they are indexed under."""
        return self._database.query(
            f"""
            SELECT r.*, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
            FROM json_each(:seqs) AS s CROSS JOIN {table} AS r ON r.seq = s.value
                CROSS JOIN {index}_words AS w ON w.seq = r.seq
            WHERE {where} ORDER BY s.key
            """,
            seqs=f"[{','.join(map(str, seqs))}]",
            **values,
        )

    def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
        """Return the rows of an index with these `seq` values, including the words they are indexed under."""
        return self._rows(index, _TABLES[index], seqs, where, values) if seqs else []

    def clear(self, project_id: str) -> str:
        """Drop the indexes, even damaged ones, for all projects: they share them."""
        from ralph.store.maintenance.migrate import create_index_tables, drop_indexes

        drop_indexes(self._database)
        create_index_tables(self._database)
        return ""

    def insert(self, index: str, rows: Sequence[Row]) -> None:
        """Index rows that are not indexed yet.

        FTS5 flushes its buffer before each statement, so one statement for several rows takes half the time.
        """
        columns = ("project_id", "seq", "version", "title", "body", "paths", "tags")
        for start in range(0, len(rows), INDEX_BATCH):
            batch = rows[start : start + INDEX_BATCH]
            placeholders = ", ".join(f"({', '.join(f':{name}{n}' for name in columns)})" for n in range(len(batch)))
            self._database.execute(
                f"INSERT INTO {index}_words ({', '.join(columns)}) VALUES {placeholders}",
                **{f"{name}{n}": row[name] for n, row in enumerate(batch) for name in columns},
            )

    def rebuild(self) -> None:
        """Rebuild the full-text indexes after `clear`."""
        from ralph.store.maintenance.migrate import create_indexes

        create_indexes(self._database)
        for index in _TABLES:
            self._database.execute(f"INSERT INTO {index}_index ({index}_index) VALUES ('rebuild')")

    def set_bulk_mode(self, index: str, is_bulk: bool) -> None:
        """Suspend automatic merging of an index during a bulk insert (`is_bulk`), or resume it."""
        merge = 0 if is_bulk else AUTOMERGE
        name = f"{index}_index"
        self._database.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('automerge', :merge)", merge=merge)

    def optimize(self, *, is_full: bool = False) -> None:
        """Merge a bounded number of index segments, or all if `is_full` is true: every search reads each segment."""
        with self._database.transaction():
            for name in (f"{index}_index" for index in _TABLES):
                if is_full:
                    self._database.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
                    continue
                self._database.execute(
                    f"INSERT INTO {name} ({name}, rank) VALUES ('merge', :pages)", pages=-MERGE_PAGES
                )
