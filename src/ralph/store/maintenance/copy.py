"""Copy of a project to another database of either kind, with its row numbers and history.

A copy is a consistent snapshot of the source, which others may use meanwhile. It is written and compared in one
transaction: an interrupted copy leaves nothing behind.
"""

from __future__ import annotations

import json
import os
from operator import itemgetter

from ralph.core.errors import StoreError, UsageError
from ralph.core.records import record
from ralph.core.tracking import is_tracked, report_progress
from ralph.store.database import CHECKED_TABLES, MEMORY_FEED, RUN_FEED, ProjectScope, checksum
from ralph.store.maintenance.migrate import schema_columns
from ralph.store.projects import ProjectStore, lock_tasks
from ralph.store.sync_state import RESTORED_MARK
from ralph.store.tables import PROJECT_TABLES, SUM_TABLES, SYNC_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ralph.store.database import Database, Row
    from ralph.store.projects import ProjectEntry
    from ralph.store.tables import ProjectTable

PAGE = 2_000
"""Number of rows to read and insert at once."""


@record
class CopiedTable:
    """Number of rows of a copied table, and the digest of their values, which is the same on both sides."""

    table: str
    rows: int
    digest: str


@record
class CopyResult:
    """Result of a copy."""

    project: str
    id: str
    source: str
    target: str
    tables: tuple[CopiedTable, ...]
    was_there: bool = False
    """Whether an identical copy existed already."""
    has_changed: bool = False
    """Whether the source changed during the copy; the copy does not include these changes."""


def unfinished_copy_error(database: Database, project: ProjectEntry) -> StoreError:
    """Return the error to raise when an unfinished copy by an older version is opened."""
    source = json.loads(project.copying)["source"]
    return StoreError(
        f"The project {project.name!r} in {database.display_url} is an unfinished copy. "
        f"Copy it again with: ralph store copy {source} {database.display_url}",
        code="unfinished-copy",
    )


# --- copying -------------------------------------------------------------------------------


def copy_project(
    source: Database,
    project: str,
    target: Database,
    name: str = "",
) -> CopyResult:
    """Copy a project, by name or id, to another database, there under `name` or its own, and verify every row.

    A project that exists there must be identical or empty: nothing is overwritten.
    """
    with source.snapshot():
        source.extend_idle_timeout()  # idle while the target is filled and compared
        entry = ProjectStore(source).get(project)
        if entry.copying:
            raise unfinished_copy_error(source, entry)
        ours = ProjectScope(source, entry.id)
        newest = _newest(ours)
        refuse_damaged(ours, entry)
        found = _find_target(target, entry, name)
        was_there = found is not None and not found.copying and not is_empty(ProjectScope(target, found.id))
        if found and was_there:
            place, tallies = found, _compare_existing(ours, ProjectScope(target, found.id), found)
        else:
            place, tallies = _copy_new(ours, entry, target, found, name)
    return CopyResult(
        project=place.name,
        id=place.id,
        source=source.display_url,
        target=target.display_url,
        tables=tuple(CopiedTable(table=table, rows=rows.rows, digest=rows.digest) for table, rows in tallies.items()),
        was_there=was_there,
        has_changed=newest != _newest(ours),
    )


def refuse_damaged(scope: ProjectScope, project: ProjectEntry) -> None:
    """Refuse to copy a project with rows that do not match their checksums."""
    from ralph.store.maintenance.check import check_rows

    if problems := check_rows(scope).problems:
        raise StoreError(
            f"Nothing was copied, because the project {project.name!r} in {scope.database.display_url} is damaged: "
            f"{problems[0]} See: ralph doctor"
        )


def _find_target(target: Database, entry: ProjectEntry, name: str) -> ProjectEntry | None:
    """Return the project to copy into, if it exists: by name, or by id if no other name was requested."""
    projects = ProjectStore(target)
    if entry.is_shared:
        return projects.find_shared()
    return projects.find(name or entry.name) or (None if name else projects.find(entry.id))


def _alternatives(found: ProjectEntry) -> str:
    return f"Copy it under another name with --as NAME, or delete the other one with: ralph project remove {found.name}"


def _compare_existing(ours: ProjectScope, theirs: ProjectScope, found: ProjectEntry) -> dict[str, Tally]:
    """Return the tallies of a project that exists on both sides, or raise an error if they differ."""
    with theirs.database.snapshot():
        theirs.database.extend_idle_timeout()
        shifts = {}
        for part in PROJECT_TABLES:
            if part.number:
                shifts[part.table] = (_number_range(theirs, part)[0] or 0) - (_number_range(ours, part)[0] or 0)
        tallies = tally_rows(ours)
        if tallies != tally_rows(theirs, shifts):
            raise UsageError(
                f"There is already a different project {found.name!r} in {theirs.database.display_url}."
                f" {_alternatives(found)}",
                code="project-differs",
            )
    return tallies


def _copy_new(
    ours: ProjectScope,
    entry: ProjectEntry,
    target: Database,
    found: ProjectEntry | None,
    name: str,
) -> tuple[ProjectEntry, dict[str, Tally]]:
    """Copy all rows into a new or empty project and compare them, in one transaction."""
    projects = ProjectStore(target)
    found = projects.ensure_shared() if entry.is_shared else found
    id = found.id if found else "p-" + os.urandom(4).hex() if projects.find(entry.id) else entry.id
    theirs = ProjectScope(target, id)
    with theirs.transaction():
        target.extend_idle_timeout()
        # Under the lock of the project: another writer was either first, and is seen, or waits.
        current = _find_target(target, entry, name)
        if current and (found is None or not (current.copying or is_empty(theirs))):
            raise UsageError(
                f"Somebody has just started to work in {current.name!r} in {target.display_url}. "
                + _alternatives(current),
                code="project-in-use",
            )
        if current is None:
            projects.insert(id, name or entry.name, entry.created_at)
        elif current.copying:
            delete_rows(theirs)
        shifts = _shifts(ours, theirs)
        _reserve_numbers(ours, theirs, shifts)
        tallies = copy_rows(ours, theirs, shifts)
        theirs.execute("UPDATE projects SET copying = '', created_at = :at WHERE id = :project_id", at=entry.created_at)
    return projects.get(id), tallies


def is_empty(scope: ProjectScope) -> bool:
    """Return whether a project has no rows."""
    return not any(
        scope.query(f"SELECT 1 AS one FROM {part.table} WHERE project_id = :project_id LIMIT 1")
        for part in PROJECT_TABLES
    )


def _newest(scope: ProjectScope) -> Row:
    """Return values that change whenever somebody works in a project."""
    return scope.query(
        """
        SELECT (SELECT MAX(updated_at) FROM tasks WHERE project_id = :project_id) AS task,
            (SELECT COUNT(*) FROM tasks WHERE project_id = :project_id) AS tasks,
            (SELECT MAX(seq) FROM task_log WHERE project_id = :project_id) AS log,
            (SELECT MAX(seq) FROM attempts WHERE project_id = :project_id) AS attempt,
            (SELECT MAX(ended_at) FROM attempts WHERE project_id = :project_id) AS ended,
            (SELECT MAX(seq) FROM memory_events WHERE project_id = :project_id) AS event,
            (SELECT MAX(updated_at) FROM memory WHERE project_id = :project_id) AS memory
        """
    )[0]


# --- numbers -------------------------------------------------------------------------------


def _shifts(ours: ProjectScope, theirs: ProjectScope) -> dict[str, int]:
    """Return the offset for the row numbers of each table: 0 where they are free."""
    shifts = {}
    for part in PROJECT_TABLES:
        if part.number:
            first, last = _number_range(ours, part)
            shifts[part.table] = 0
            if first is not None and last is not None and _are_numbers_taken(theirs, part, first, last):
                newest = theirs.database.query(f"SELECT MAX({part.number}) AS n FROM {part.table}")[0]["n"]
                shifts[part.table] = newest - first + 1
    return shifts


def _reserve_numbers(ours: ProjectScope, theirs: ProjectScope, shifts: Mapping[str, int]) -> None:
    """Reserve the row numbers that a copy will use."""
    for part in PROJECT_TABLES:
        if part.number and (last := _number_range(ours, part)[1]):
            theirs.database.reserve_numbers(part.table, part.number, last + shifts.get(part.table, 0))


def _number_range(scope: ProjectScope, part: ProjectTable) -> tuple[int | None, int | None]:
    row = scope.query(
        f"""
        SELECT MIN({part.number}) AS first, MAX({part.number}) AS last FROM {part.table}
        WHERE project_id = :project_id
        """
    )[0]
    return row["first"], row["last"]


def _are_numbers_taken(theirs: ProjectScope, part: ProjectTable, first: int, last: int) -> bool:
    """Return whether another project uses any of these numbers; on a server each project has its own."""
    if theirs.database.word_key != "seq":
        return False
    return bool(
        theirs.query(
            f"""
            SELECT 1 AS one FROM {part.table}
            WHERE project_id <> :project_id AND {part.number} BETWEEN :first AND :last LIMIT 1
            """,
            first=first,
            last=last,
        )
    )


def _shifted(part: ProjectTable, rows: list[Row], shifts: Mapping[str, int], sign: int = 1) -> list[Row]:
    """Return rows with their numbers in the target; with a `sign` of -1, target rows with those in the source."""
    numbered = ((part.number, part.table), *part.references) if part.number else part.references
    offsets = [(column, sign * shifts[table]) for column, table in numbered if shifts.get(table)]
    if not offsets:
        return rows
    shifted = [dict(row) for row in rows]
    for row in shifted:
        for column, offset in offsets:
            if row[column] is not None:
                row[column] += offset
    return shifted


# --- rows ----------------------------------------------------------------------------------


_encode = json.JSONEncoder(ensure_ascii=False, default=bytes.hex).encode


class Tally:
    """Number of rows of a table, and a digest of their values without project and checksum."""

    def __init__(self, table: str) -> None:
        import hashlib

        self.rows = 0
        self._hash = hashlib.sha256()
        self._values = itemgetter(*(name for name in schema_columns()[table] if name not in ("project_id", "checksum")))

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows to the count and the digest."""
        values = [*map(self._values, rows)]
        self.rows += len(values)
        self._hash.update(_encode(values)[1:-1].encode() + b", ")  # independent of the page size

    @property
    def digest(self) -> str:
        """SHA-256 of all values."""
        return self._hash.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.digest == other.digest

    __hash__ = None  # type: ignore[assignment]


def copy_rows(ours: ProjectScope, theirs: ProjectScope, shifts: Mapping[str, int]) -> dict[str, Tally]:
    """Copy the rows of a project into an empty one page by page, then compare both sides, in the open transaction."""
    tallies = {}
    for part in PROJECT_TABLES:
        total = _count(ours, part.table)
        table_tally = tallies[part.table] = Tally(part.table)
        pages = _target_pages(ours, theirs.project_id, part, shifts, table_tally)
        for rows in _parents_first(pages) if part.table == "tasks" else pages:
            theirs.database.insert_many(part.table, rows)
            report_progress(f"Copying {part.table}", table_tally.rows, total)
    if tally_rows(theirs, shifts) != tallies:
        raise StoreError(f"The rows in {theirs.database.display_url} differ from those of the source. Try again.")
    return tallies


def _target_pages(
    ours: ProjectScope, project_id: str, part: ProjectTable, shifts: Mapping[str, int], table_tally: Tally
) -> Iterator[list[Row]]:
    """Yield the rows of a table as they will be in the target, and add them to the tally."""
    for page in iter_pages(ours, part):
        table_tally.add(page)
        yield _to_target_rows(part, page, project_id, shifts)


def iter_pages(scope: ProjectScope, part: ProjectTable) -> Iterator[list[Row]]:
    """Yield all rows of a project in a table, in key order."""
    keys = ", ".join(part.key)
    after = f"AND ({keys}) > ({', '.join(f':{name}' for name in part.key)})"
    last: dict[str, object] = {}
    while rows := scope.query(
        f"""
        SELECT {", ".join(schema_columns()[part.table])} FROM {part.table}
        WHERE project_id = :project_id {after if last else ""} ORDER BY {keys} LIMIT {PAGE}
        """,
        **last,
    ):
        yield rows
        last = {name: rows[-1][name] for name in part.key}


def tally_rows(scope: ProjectScope, shifts: Mapping[str, int] | None = None) -> dict[str, Tally]:
    """Return the tally of each table of a project, with the row numbers of the source."""
    tallies = {}
    for part in PROJECT_TABLES:
        table_tally = tallies[part.table] = Tally(part.table)
        total = _count(scope, part.table) if is_tracked() else 0
        for page in iter_pages(scope, part):
            report_progress(f"Comparing {part.table}", table_tally.rows, total)
            table_tally.add(_shifted(part, page, shifts or {}, -1))
    return tallies


def _count(scope: ProjectScope, table: str) -> int:
    return int(scope.query(f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :project_id")[0]["n"])


def row_counts(scope: ProjectScope) -> dict[str, int]:
    """Return the number of rows of a project per table."""
    return {part.table: _count(scope, part.table) for part in PROJECT_TABLES}


def _to_target_rows(part: ProjectTable, page: list[Row], project_id: str, shifts: Mapping[str, int]) -> list[Row]:
    """Return rows as they will be in the target."""
    moved = _shifted(part, page, shifts)
    if moved[0]["project_id"] == project_id:
        return moved
    moved = [{**row, "project_id": project_id} for row in moved]
    if part.table in CHECKED_TABLES:
        for row in moved:
            row["checksum"] = checksum(row)
    return moved


def _parents_first(pages: Iterable[list[Row]]) -> Iterator[list[Row]]:
    """Yield tasks in an order in which each comes after its parent, which may have a higher number."""
    existing: set[str] = set()
    waiting: dict[str, list[Row]] = {}
    for page in pages:
        ready = []
        for row in page:
            if row["parent_id"] and row["parent_id"] not in existing:
                waiting.setdefault(row["parent_id"], []).append(row)
                continue
            found = [row]
            while found:
                task = found.pop()
                ready.append(task)
                existing.add(task["id"])
                found += waiting.pop(task["id"], [])
        yield ready
    if waiting:
        raise StoreError(f"Tasks refer to missing parents: {', '.join(waiting)}. See: ralph doctor")


# --- replacing -----------------------------------------------------------------------------


def replace_rows(ours: ProjectScope, theirs: ProjectScope) -> None:
    """Replace the rows of a project with those of another in one transaction; working copies sync to the result."""
    with theirs.transaction():
        theirs.database.extend_idle_timeout()
        lock_tasks(theirs)
        claims = theirs.query(
            "SELECT id, status, claim_token FROM tasks WHERE project_id = :project_id AND claim_token > 0"
        )
        # Processes that cache vectors ask only for those with higher numbers than the last one they have seen.
        shifts = {part.table: _number_range(theirs, part)[1] or 0 for part in PROJECT_TABLES if part.number == "made"}
        delete_rows(theirs)
        _reserve_numbers(ours, theirs, shifts)
        copy_rows(ours, theirs, shifts)
        _invalidate_claims(theirs, claims)
        theirs.execute("UPDATE synced_places SET files_mark = :mark WHERE project_id = :project_id", mark=RESTORED_MARK)
        for topic in ("tasks", MEMORY_FEED, RUN_FEED):
            theirs.announce(topic)


def delete_rows(scope: ProjectScope) -> None:
    """Delete all rows of a project and its sync state, but not the project itself."""
    for table in (*SYNC_TABLES, *SUM_TABLES, *(part.table for part in reversed(PROJECT_TABLES))):
        scope.execute(f"DELETE FROM {table} WHERE project_id = :project_id")


def _invalidate_claims(scope: ProjectScope, claims: Sequence[Row]) -> None:
    """Invalidate claims from before the replacement, also if the same task is claimed equally often again."""
    for row in claims:
        least = row["claim_token"] + (row["status"] == "in_progress")
        scope.update_where(
            "tasks", "claim_token = :least", "id = :id AND claim_token < :least", id=row["id"], least=least
        )
