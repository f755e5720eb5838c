"""What memories, journal entries and failure reports are found by, kept in step with their texts.

The words are cut by `memory.words`; a row says by which version of its rules. Everything here can be made anew
from the texts, and `ralph doctor --reindex` does that.
"""

from __future__ import annotations

import json

from ralph.errors import RalphError, StoreUnavailableError
from ralph.memory.words import VERSION, path_words, words
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.store.database import Database, Row, Scope

PAGE = 500
MOST_FILES = 50
"""A memory that names more files than this is about none of them."""
RENEWED = 2_000
"""So many rows a bit of upkeep indexes anew: about a second's work."""


def memory_words(row: Row) -> dict[str, str]:
    """Give the words of a memory by the place they stand in."""
    return _columns(row["title"], row["body"], row["files"], " ".join(_texts(row["tags"])))


def attempt_words(row: Row) -> dict[str, str]:
    """Give the words of a journal entry; `title` is the title of its task."""
    return _columns(row["title"], row["notes"], row["files"], "")


def failure_words(row: Row) -> dict[str, str]:
    """Give the words of a failure report."""
    said = "\n".join(map(_text, (row["tried"], row["retry_suggestion"], row["trace"])))
    return _columns(row["why"], said, row["files"], _text(row["category"]).replace("_", " "))


def _columns(title: object, body: object, files: str, tags: str) -> dict[str, str]:
    return {
        "title": " ".join(words(_text(title))),
        "body": " ".join(words(_text(body))),
        "paths": " ".join(word for path in _texts(files)[:MOST_FILES] for word in path_words(path)),
        "tags": " ".join(words(tags)) if tags else "",
    }


def _files(row: Row) -> dict[str, None]:
    """Give the files a memory is found by."""
    return dict.fromkeys(_texts(row["files"])[:MOST_FILES])


def _text(stored: object) -> str:
    """Give a text; damage can make something else of it, which then has no words."""
    return stored if isinstance(stored, str) else ""


def _texts(stored: str) -> list[str]:
    """Give a stored list, as far as it is one."""
    if stored == "[]":
        return []
    try:
        found = json.loads(stored)
    except (TypeError, ValueError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


_WORDS = {"memory": memory_words, "attempt": attempt_words, "failure": failure_words}
INDEXES = tuple(_WORDS)

_COLUMNS = {
    "memory": "r.seq, r.project_id, r.title, r.body, r.tags, r.files",
    "attempt": "r.seq, r.project_id, r.notes, r.files, t.title",
    "failure": "r.seq, r.project_id, r.why, r.tried, r.retry_suggestion, r.trace, r.category, r.files",
}
_ROWS = {
    "memory": "memory AS r",
    "attempt": "attempts AS r LEFT JOIN tasks AS t ON t.project_id = r.project_id AND t.id = r.task_id",
    "failure": "failures AS r",
}
_BELONGS = {"memory": "1 = 1", "attempt": "r.notes <> ''", "failure": "1 = 1"}
"""Which rows are in an index: a journal entry without notes is in none."""
_SAME_ROW = "w.project_id = r.project_id AND w.seq = r.seq"
_INDEXED = """
    w.version, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
"""
_INDEXED_AS = {"title": "title_words", "body": "body_words", "paths": "path_words", "tags": "tag_words"}


# --- keeping in step -----------------------------------------------------------------------


def put(scope: Scope, index: str, condition: str, **values: object) -> None:
    """Index the rows of this project, known as `r`, that meet a condition, in the transaction that wrote them."""
    rows = scope.query(
        f"""
        SELECT {_COLUMNS[index]} FROM {_ROWS[index]}
        WHERE r.project_id = :project_id AND {_BELONGS[index]} AND {condition}
        """,
        **values,
    )
    write(scope.database, index, rows)


def write(database: Database, index: str, rows: Sequence[Row], *, is_new: bool = False) -> None:
    """Index rows of the table behind an index, or index them anew.

    `is_new` says that none of them is indexed yet, which is quicker.
    """
    indexed = [
        {"project_id": row["project_id"], "seq": row["seq"], "version": VERSION, **_WORDS[index](row)} for row in rows
    ]
    if is_new and len(rows) > 1:
        database.add_words(index, indexed)
    else:
        renewed = (
            ""
            if is_new
            else (
                f"ON CONFLICT ({database.seq_key}) DO UPDATE SET version = excluded.version, title = excluded.title,"
                " body = excluded.body, paths = excluded.paths, tags = excluded.tags"
            )
        )
        database.execute_all(
            f"""
            INSERT INTO {index}_words (project_id, seq, version, title, body, paths, tags)
            VALUES (:project_id, :seq, :version, :title, :body, :paths, :tags) {renewed}
            """,
            indexed,
        )
    if index == "memory":
        if not is_new:
            database.execute_all(
                "DELETE FROM memory_files WHERE project_id = :project_id AND seq = :seq",
                [{"project_id": row["project_id"], "seq": row["seq"]} for row in rows],
            )
        filed = [
            {"project_id": row["project_id"], "path": path, "seq": row["seq"]}
            for row in rows
            if row["files"] != "[]"
            for path in _files(row)
        ]
        if filed:
            database.execute_all(
                "INSERT INTO memory_files (project_id, path, seq) VALUES (:project_id, :path, :seq)", filed
            )


# --- making anew ---------------------------------------------------------------------------


def renew(scope: Scope, most: int = RENEWED) -> int:
    """Index rows of a project anew that are indexed by other rules, the newest first; give how many there were."""
    done = 0
    for index in INDEXES:
        found = scope.query(
            f"""
            SELECT seq FROM {index}_words WHERE project_id = :project_id AND version <> {VERSION}
            ORDER BY seq DESC LIMIT :most
            """,
            most=most - done,
        )
        seqs = [row["seq"] for row in found]
        for start in range(0, len(seqs), PAGE):
            with scope.transaction():  # what is read here is still so when it is written
                rows = _read(scope.database, index, seqs[start : start + PAGE], scope.project_id)
                write(scope.database, index, rows)
        done += len(seqs)
    return done


def rebuild(database: Database, project_id: str = "") -> dict[str, int]:
    """Make every index anew from the texts, in one change and whatever is wrong with it; give how many rows each holds.

    On a server of one project, in a file of all. A row that cannot be read is left out: it is damaged, and the
    checksums tell of it.
    """
    counts = dict.fromkeys(INDEXES, 0)
    with database.transaction(project_id):
        whose = database.clear_indexes(project_id)
        for index in INDEXES:
            for seqs in _pages(database, index, whose):
                rows = _read(database, index, seqs, whose)
                write(database, index, rows, is_new=True)
                counts[index] += len(rows)
        database.renew_indexes()
    return counts


_DEPENDENT = {
    "attempt_sums": ("attempt_sums", "attempt_summed"),
    "attempt_summed": ("attempt_sums", "attempt_summed"),
    "synced_places": ("synced_entries", "synced_files", "synced_places"),
    "synced_files": ("synced_entries", "synced_files", "synced_places"),
    "synced_entries": ("synced_entries", "synced_files", "synced_places"),
}
"""What says nothing without the others."""


def forget_worked_out(database: Database, tables: set[str]) -> None:
    """Take away what is worked out anew by itself: vectors, sums over attempts, what files and store agreed on.

    The values in the tables are not those of their twins, so the twins are made anew.
    """
    from ralph.store.migrate import own_definitions
    from ralph.store.synced import RESTORED

    for table in {name for one in tables for name in _DEPENDENT.get(one, (one,))}:
        database.execute(f"DROP INDEX {table}_twin")
        if table == "synced_places":  # the working copies stay, and follow the store
            database.execute("UPDATE synced_places SET files_mark = :mark", mark=RESTORED)
        else:
            database.execute(f"DELETE FROM {table}")
        database.execute(own_definitions()[f"{table}_twin"])


def _of(project_id: str) -> str:
    """Give the condition that a row, known as `r`, is of one project; without one, any is."""
    return "r.project_id = :project_id" if project_id else ":project_id = ''"


def _pages(database: Database, index: str, project_id: str) -> Iterator[list[int]]:
    """Give the numbers of all rows that belong in an index, a page at a time."""
    last = 0
    while rows := database.query(
        f"""
        SELECT r.seq FROM {_ROWS[index]} WHERE {_of(project_id)} AND {_BELONGS[index]} AND r.seq > :last
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
    """Give rows by their numbers, as far as they can be read; `with_words` with what they are indexed by."""
    marks = {f"s{n}": seq for n, seq in enumerate(seqs)}
    indexed = f", {_INDEXED}" if with_words else ""
    joined = f"LEFT JOIN {index}_words AS w ON {_SAME_ROW}" if with_words else ""
    try:
        return database.query(
            f"""
            SELECT {_COLUMNS[index]} {indexed} FROM {_ROWS[index]} {joined}
            WHERE {_of(project_id)} AND {_BELONGS[index]} AND r.seq IN ({", ".join(f":{mark}" for mark in marks)})
            """,
            project_id=project_id,
            **marks,
        )
    except StoreUnavailableError:
        raise
    except RalphError:
        if len(seqs) <= 1:
            return []
        middle = len(seqs) // 2  # so that one damaged row does not hide the others
        return [
            row
            for half in (seqs[:middle], seqs[middle:])
            for row in _read(database, index, half, project_id, with_words=with_words)
        ]


# --- comparing -----------------------------------------------------------------------------


@record
class Compared:
    """How an index stands to the texts it is made from, in numbers of rows."""

    missing: int = 0
    outdated: int = 0
    """Indexed by other rules, and found by those."""
    wrong: int = 0
    """Indexed by words that are not theirs."""
    misfiled: int = 0
    """Found by files that are not theirs."""


def compare(database: Database, index: str, project_id: str = "") -> Compared:
    """Say how an index stands to its texts, of one project or of all; rows that cannot be read are passed over."""
    missing = outdated = misfiled = 0
    wrong = int(
        database.query(
            f"""
            SELECT COUNT(*) AS n FROM {_ROWS[index]} JOIN {index}_words AS w ON {_SAME_ROW}
            WHERE {_of(project_id)} AND NOT ({_BELONGS[index]})
            """,
            project_id=project_id,
        )[0]["n"]
    )
    for seqs in _pages(database, index, project_id):
        rows = _read(database, index, seqs, project_id, with_words=True)
        for row in rows:
            if row["version"] is None:
                missing += 1
            elif row["version"] != VERSION:
                outdated += 1
            elif any(row[_INDEXED_AS[name]] != value for name, value in _WORDS[index](row).items()):
                wrong += 1
        if index == "memory":
            filed = _filed(database, seqs, project_id)
            misfiled += sum(
                filed.get(row["seq"], set()) != {(row["project_id"], path) for path in _files(row)} for row in rows
            )
    return Compared(missing=missing, outdated=outdated, wrong=wrong, misfiled=misfiled)


def _filed(database: Database, seqs: Sequence[int], project_id: str) -> dict[int, set[tuple[str, str]]]:
    """Give the files that memories are found by, each with its project."""
    found: dict[int, set[tuple[str, str]]] = {}
    for row in database.query(
        f"SELECT r.seq, r.project_id, r.path FROM memory_files AS r WHERE {_of(project_id)}"
        " AND r.seq BETWEEN :first AND :last",
        project_id=project_id,
        first=seqs[0],
        last=seqs[-1],
    ):
        found.setdefault(row["seq"], set()).add((row["project_id"], row["path"]))
    return found
