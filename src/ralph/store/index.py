"""Full-text index of memories, journal entries, failure reports and episodes.

Texts are split by `memory.words`, and each row stores the version of its rules. The index can be rebuilt from the
texts at any time, which is what `ralph doctor --reindex` does.
"""

from __future__ import annotations

import json

from ralph.core.errors import RalphError, StoreUnavailableError
from ralph.core.records import record
from ralph.core.tokenize import TOKENIZER_VERSION, joined_words, tokenize_path
from ralph.core.tracking import is_tracked, report_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.store.database import Database, ProjectScope, Row

PAGE = 500
"""Number of rows indexed per transaction."""
MAX_INDEXED_FILES = 50
"""Maximum number of files indexed per row."""
REINDEX_BATCH = 2_000
"""Default number of outdated rows to reindex at once, which takes about a second."""


def memory_words(row: Row) -> dict[str, str]:
    """Return the indexed words of a memory by column."""
    return _columns(row["title"], row["body"], row["files"], " ".join(_texts(row["tags"])))


def attempt_words(row: Row) -> dict[str, str]:
    """Return the indexed words of a journal entry by column. `title` is that of its task."""
    return _columns(row["title"], row["notes"], row["files"], "")


def failure_words(row: Row) -> dict[str, str]:
    """Return the indexed words of a failure report by column."""
    body = "\n".join(map(_text, (row["tried"], row["retry_suggestion"], row["trace"])))
    return _columns(row["why"], body, row["files"], _text(row["category"]).replace("_", " "))


def episode_words(row: Row) -> dict[str, str]:
    """Return the indexed words of an episode by column. The title is the subject of a commit."""
    subject, _, rest = _text(row["body"]).partition("\n") if row["kind"] == "commit" else ("", "", row["body"])
    return _columns(subject, rest, row["files"], "")


def _columns(title: object, body: object, files: str, tags: str) -> dict[str, str]:
    return {
        "title": joined_words(_text(title)),
        "body": joined_words(_text(body)),
        "paths": " ".join(word for path in _texts(files)[:MAX_INDEXED_FILES] for word in tokenize_path(path)),
        "tags": joined_words(tags),
    }


def _files(row: Row) -> dict[str, None]:
    """Return the files under which a memory is indexed."""
    return dict.fromkeys(_texts(row["files"])[:MAX_INDEXED_FILES])


def _text(stored: object) -> str:
    """Return a stored text, or an empty string if a damaged row holds something else."""
    return stored if isinstance(stored, str) else ""


def _texts(stored: str) -> list[str]:
    """Return a stored list of strings, or an empty list if it is damaged."""
    if stored == "[]":
        return []
    try:
        found = json.loads(stored)
    except (TypeError, ValueError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


_WORDS = {"memory": memory_words, "attempt": attempt_words, "failure": failure_words, "episode": episode_words}
INDEXES = tuple(_WORDS)

_COLUMNS = {
    "memory": "r.seq, r.project_id, r.title, r.body, r.tags, r.files",
    "attempt": "r.seq, r.project_id, r.notes, r.files, t.title",
    "failure": "r.seq, r.project_id, r.why, r.tried, r.retry_suggestion, r.trace, r.category, r.files",
    "episode": "r.seq, r.project_id, r.kind, r.body, r.files",
}
_TABLES = {"memory": "memories", "attempt": "journal entries", "failure": "failures", "episode": "episodes"}
"""What the rows of each index are called."""
_ROWS = {
    "memory": "memory AS r",
    "attempt": "attempts AS r LEFT JOIN tasks AS t ON t.project_id = r.project_id AND t.id = r.task_id",
    "failure": "failures AS r",
    "episode": "episodes AS r",
}
_IS_INDEXED = {"memory": "1 = 1", "attempt": "r.notes <> ''", "failure": "1 = 1", "episode": "1 = 1"}
"""SQL conditions for rows that belong in an index. Journal entries without notes do not."""
_SAME_ROW = "w.project_id = r.project_id AND w.seq = r.seq"
_WORD_COLUMNS = """
    w.version, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
"""
_WORD_COLUMN_NAMES = {"title": "title_words", "body": "body_words", "paths": "path_words", "tags": "tag_words"}


# --- updating ------------------------------------------------------------------------------


def index_rows(scope: ProjectScope, index: str, condition: str, **values: object) -> None:
    """Index the rows of a project that match an SQL condition on table `r`."""
    rows = scope.query(
        f"""
        SELECT {_COLUMNS[index]} FROM {_ROWS[index]}
        WHERE r.project_id = :project_id AND {_IS_INDEXED[index]} AND {condition}
        """,
        **values,
    )
    write_index(scope.database, index, rows)


def write_index(database: Database, index: str, rows: Sequence[Row], *, is_new: bool = False) -> None:
    """Index rows, replacing what is indexed for them.

    `is_new` means that none of them is indexed yet, which is faster.
    """
    indexed = [
        {"project_id": row["project_id"], "seq": row["seq"], "version": TOKENIZER_VERSION, **_WORDS[index](row)}
        for row in rows
    ]
    if is_new and len(rows) > 1:
        database.words.insert(index, indexed)
    else:
        on_conflict = (
            ""
            if is_new
            else (
                f"ON CONFLICT ({database.word_key}) DO UPDATE SET version = excluded.version, title = excluded.title,"
                " body = excluded.body, paths = excluded.paths, tags = excluded.tags"
            )
        )
        database.execute_many(
            f"""
            INSERT INTO {index}_words (project_id, seq, version, title, body, paths, tags)
            VALUES (:project_id, :seq, :version, :title, :body, :paths, :tags) {on_conflict}
            """,
            indexed,
        )
    if index == "memory":
        if not is_new:
            database.execute_many(
                "DELETE FROM memory_files WHERE project_id = :project_id AND seq = :seq",
                [{"project_id": row["project_id"], "seq": row["seq"]} for row in rows],
            )
        file_rows = [
            {"project_id": row["project_id"], "path": path, "seq": row["seq"]}
            for row in rows
            if row["files"] != "[]"
            for path in _files(row)
        ]
        if file_rows:
            database.execute_many(
                "INSERT INTO memory_files (project_id, path, seq) VALUES (:project_id, :path, :seq)", file_rows
            )


# --- rebuilding ----------------------------------------------------------------------------


def reindex_outdated(scope: ProjectScope, most: int = REINDEX_BATCH) -> int:
    """Reindex rows that were indexed by other rules, newest first, and return their number."""
    done = 0
    for index in INDEXES:
        found = scope.query(
            f"""
            SELECT seq FROM {index}_words WHERE project_id = :project_id AND version <> {TOKENIZER_VERSION}
            ORDER BY seq DESC LIMIT :most
            """,
            most=most - done,
        )
        seqs = [row["seq"] for row in found]
        for start in range(0, len(seqs), PAGE):
            with scope.transaction():  # no concurrent change between reading and writing
                rows = _read(scope.database, index, seqs[start : start + PAGE], scope.project_id)
                write_index(scope.database, index, rows)
        done += len(seqs)
    return done


def rebuild_indexes(database: Database, project_id: str = "") -> dict[str, int]:
    """Rebuild every index from the texts in one transaction, and return the number of rows by index.

    On a server, only one project is rebuilt; in a file, all are. Rows that cannot be read are skipped: their damage
    is reported by the checksums.
    """
    counts = dict.fromkeys(INDEXES, 0)
    with database.transaction(project_id):
        affected_project = database.words.clear(project_id)
        total = sum(_count(database, index, affected_project) for index in INDEXES) if is_tracked() else 0
        for index in INDEXES:
            for seqs in _pages(database, index, affected_project):
                rows = _read(database, index, seqs, affected_project)
                write_index(database, index, rows, is_new=True)
                counts[index] += len(rows)
                report_progress("Indexing entries", sum(counts.values()), total)
        report_progress("Writing the search indexes")
        database.words.rebuild()
    return counts


def _in_project(project_id: str) -> str:
    """Return the SQL condition that table `r` belongs to a project. An empty id matches all projects."""
    return "r.project_id = :project_id" if project_id else ":project_id = ''"


def _count(database: Database, index: str, project_id: str) -> int:
    """Return the number of rows that belong in an index."""
    sql = f"SELECT COUNT(*) AS n FROM {_ROWS[index]} WHERE {_in_project(project_id)} AND {_IS_INDEXED[index]}"
    return int(database.query(sql, project_id=project_id)[0]["n"])


def _pages(database: Database, index: str, project_id: str) -> Iterator[list[int]]:
    """Yield pages of sequence numbers of all rows that belong in an index."""
    last = 0
    while rows := database.query(
        f"""
        SELECT r.seq FROM {_ROWS[index]} WHERE {_in_project(project_id)} AND {_IS_INDEXED[index]} AND r.seq > :last
        ORDER BY r.seq LIMIT :page
        """,
        project_id=project_id,
        last=last,
        page=PAGE,
    ):
        yield [row["seq"] for row in rows]
        last = rows[-1]["seq"]


def _read(
    database: Database, index: str, seqs: Sequence[int], project_id: str, *, with_words: bool = False
) -> list[Row]:
    """Return rows by sequence number, optionally with their indexed words. Unreadable rows are skipped."""
    values = {f"s{n}": seq for n, seq in enumerate(seqs)}
    placeholders = ", ".join(f":{name}" for name in values)
    indexed = f", {_WORD_COLUMNS}" if with_words else ""
    joined = f"LEFT JOIN {index}_words AS w ON {_SAME_ROW}" if with_words else ""
    try:
        return database.query(
            f"""
            SELECT {_COLUMNS[index]} {indexed} FROM {_ROWS[index]} {joined}
            WHERE {_in_project(project_id)} AND {_IS_INDEXED[index]} AND r.seq IN ({placeholders})
            """,
            project_id=project_id,
            **values,
        )
    except StoreUnavailableError:
        raise
    except RalphError:
        if len(seqs) <= 1:
            return []
        middle = len(seqs) // 2  # bisect, so that one damaged row does not hide the others
        return [
            row
            for half in (seqs[:middle], seqs[middle:])
            for row in _read(database, index, half, project_id, with_words=with_words)
        ]


# --- comparing -----------------------------------------------------------------------------


@record
class IndexComparison:
    """Differences between an index and its texts, as numbers of rows."""

    missing: int = 0
    outdated: int = 0
    """Rows indexed by other rules."""
    wrong: int = 0
    """Rows indexed by wrong words."""
    wrong_files: int = 0
    """Memories indexed by wrong files."""


def compare_index(database: Database, index: str, project_id: str = "") -> IndexComparison:
    """Compare an index with its texts, for one project or all. Unreadable rows are skipped."""
    missing = outdated = misfiled = 0
    wrong = int(
        database.query(
            f"""
            SELECT COUNT(*) AS n FROM {_ROWS[index]} JOIN {index}_words AS w ON {_SAME_ROW}
            WHERE {_in_project(project_id)} AND NOT ({_IS_INDEXED[index]})
            """,
            project_id=project_id,
        )[0]["n"]
    )
    done, total = 0, _count(database, index, project_id) if is_tracked() else 0
    for seqs in _pages(database, index, project_id):
        report_progress(f"Comparing the index of {_TABLES[index]}", done, total)
        done += len(seqs)
        rows = _read(database, index, seqs, project_id, with_words=True)
        for row in rows:
            if row["version"] is None:
                missing += 1
            elif row["version"] != TOKENIZER_VERSION:
                outdated += 1
            elif any(row[_WORD_COLUMN_NAMES[name]] != value for name, value in _WORDS[index](row).items()):
                wrong += 1
        if index == "memory":
            indexed_files = _indexed_files(database, seqs, project_id)
            for row in rows:
                expected = {(row["project_id"], path) for path in _files(row)}
                misfiled += indexed_files.get(row["seq"], set()) != expected
    return IndexComparison(missing=missing, outdated=outdated, wrong=wrong, wrong_files=misfiled)


def _indexed_files(database: Database, seqs: Sequence[int], project_id: str) -> dict[int, set[tuple[str, str]]]:
    """Return the files under which memories are indexed, each with its project, by sequence number."""
    found: dict[int, set[tuple[str, str]]] = {}
    for row in database.query(
        f"SELECT r.seq, r.project_id, r.path FROM memory_files AS r WHERE {_in_project(project_id)}"
        " AND r.seq BETWEEN :first AND :last",
        project_id=project_id,
        first=seqs[0],
        last=seqs[-1],
    ):
        found.setdefault(row["seq"], set()).add((row["project_id"], row["path"]))
    return found
