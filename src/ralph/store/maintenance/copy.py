"""Copy of a project to another database of either kind, with its row numbers and history.

A copy is a consistent snapshot of the source, which others may use meanwhile. The copy cannot be opened until every row
was compared; repeating the command continues where an interrupted copy stopped.
"""

from __future__ import annotations

import json
import os
from operator import itemgetter

from ralph.core.errors import StoreError, UsageError
from ralph.core.records import record
from ralph.store.database import CHECKED_TABLES, MEMORY_FEED, RUN_FEED, ProjectScope, checksum
from ralph.store.maintenance.migrate import schema_columns
from ralph.store.projects import ProjectStore, lock_tasks
from ralph.store.sync_state import RESTORED_MARK
from ralph.store.tables import PROJECT_TABLES, SUM_TABLES, SYNC_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.store.database import Database, Row
    from ralph.store.projects import ProjectEntry
    from ralph.store.tables import ProjectTable

    ProgressCallback = Callable[[str, int, int], None]
    """Progress callback: table, number of rows done, total number of rows."""

PAGE = 2_000
"""Number of rows to copy per transaction."""


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
    went_on: bool = False
    """Whether an interrupted copy was continued."""
    has_changed: bool = False
    """Whether the source changed during the copy; the copy does not include these changes."""


def unfinished_copy_error(database: Database, project: ProjectEntry) -> StoreError:
    """Return the error to raise when an unfinished copy is opened."""
    source = json.loads(project.copying)["source"]
    return StoreError(
        f"The project {project.name!r} in {database.display_url} is an unfinished copy. "
        f"Finish it with: ralph store copy {source} {database.display_url}",
        code="unfinished-copy",
    )


# --- copying -------------------------------------------------------------------------------


def copy_project(
    source: Database,
    project: str,
    target: Database,
    name: str = "",
    report_progress: ProgressCallback = lambda *_: None,
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
            place, tallies = _copy_new(ours, entry, target, found, name or entry.name, report_progress)
    return CopyResult(
        project=place.name,
        id=place.id,
        source=source.display_url,
        target=target.display_url,
        tables=tuple(CopiedTable(table=table, rows=rows.rows, digest=rows.digest) for table, rows in tallies.items()),
        was_there=was_there,
        went_on=bool(found and found.copying),
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
    found = projects.find(name or entry.name) or (None if name else projects.find(entry.id))
    if found and found.copying and json.loads(found.copying)["project_id"] != entry.id:
        raise UsageError(
            f"In {target.display_url}, {found.name!r} is an unfinished copy of another project. {_alternatives(found)}",
            code="unfinished-copy",
        )
    return found


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
    tell: ProgressCallback,
) -> tuple[ProjectEntry, dict[str, Tally]]:
    """Copy the missing rows and compare all; start over if the source has changed since an interrupted copy.

    Only rows of an earlier copy are deleted: others may have the project open, or be copying it too.
    """
    is_new = found is None or not found.copying
    place = _begin(ours, entry, target, found, name) if is_new or not found else _resume(ours, target, found)
    try:
        return _copy_and_finish(ours, target, place, entry, tell)
    except CopyMismatchError:
        if not is_new:
            return _copy_and_finish(ours, target, _restart(ours, target, place), entry, tell)
        _refuse_taken_over(ProjectScope(target, place.id), place)
        raise StoreError(
            f"Somebody changed the project {place.name!r} in {target.display_url} during the copy, so it is unfinished. "
            "Stop whoever works in it, and run the command again.",
            code="copy-target-changed",
        ) from None


def _copy_and_finish(
    ours: ProjectScope, target: Database, place: ProjectEntry, entry: ProjectEntry, tell: ProgressCallback
) -> tuple[ProjectEntry, dict[str, Tally]]:
    """Copy the missing rows, compare all, and mark the project as complete."""
    theirs = ProjectScope(target, place.id)
    tallies = copy_rows(
        ours, theirs, json.loads(place.copying)["shifts"], tell, lambda: _refuse_taken_over(theirs, place)
    )
    with theirs.transaction():
        _refuse_taken_over(theirs, place)
        theirs.execute("UPDATE projects SET copying = '', created_at = :at WHERE id = :project_id", at=entry.created_at)
    return place, tallies


def _begin(
    ours: ProjectScope, entry: ProjectEntry, target: Database, found: ProjectEntry | None, name: str
) -> ProjectEntry:
    """Return the project to copy into, created if necessary and marked as incomplete."""
    projects = ProjectStore(target)
    found = projects.ensure_shared() if entry.is_shared else found
    # Under the lock of the project: another writer was either first, and is seen, or finds the project marked.
    with target.transaction(found.id if found else ""):
        target.extend_idle_timeout()
        if found:
            _refuse_taken_over(ProjectScope(target, found.id), found)
            if not is_empty(ProjectScope(target, found.id)):
                raise UsageError(
                    f"Somebody has just started to work in {found.name!r} in {target.display_url}. {_alternatives(found)}",
                    code="project-in-use",
                )
        elif projects.find(name):
            raise _taken_over(target, name)
        id = found.id if found else "p-" + os.urandom(4).hex() if projects.find(entry.id) else entry.id
        if not found:
            target.execute(
                "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)",
                id=id,
                name=name,
                at=entry.created_at,
            )
        return _mark(ours, ProjectScope(target, id))


def _resume(ours: ProjectScope, target: Database, found: ProjectEntry) -> ProjectEntry:
    """Take over an unfinished copy; another process that works on it stops."""
    theirs = ProjectScope(target, found.id)
    with theirs.transaction():
        target.extend_idle_timeout()
        _refuse_taken_over(theirs, found)
        _refuse_in_use(theirs, found)
        return _mark(ours, theirs, json.loads(found.copying))


def _restart(ours: ProjectScope, target: Database, place: ProjectEntry) -> ProjectEntry:
    """Delete the rows of an earlier copy and start over."""
    theirs = ProjectScope(target, place.id)
    with theirs.transaction():
        target.extend_idle_timeout()
        _refuse_taken_over(theirs, place)
        _refuse_in_use(theirs, place)
        delete_rows(theirs)
        return _mark(ours, theirs)


def _mark(ours: ProjectScope, theirs: ProjectScope, before: Mapping[str, Any] | None = None) -> ProjectEntry:
    """Record the state of a copy in its project, continuing that of `before`, and reserve its row numbers.

    Every mark is unique, so that a process notices when another one has taken over its copy.
    """
    shifts = before["shifts"] if before else _shifts(ours, theirs)
    until = dict(before["until"]) if before else {}
    for part in PROJECT_TABLES:
        if part.number:
            last = _number_range(ours, part)[1]
            until[part.table] = max(until.get(part.table, 0), (last or 0) + shifts[part.table])
            if last is not None:
                theirs.database.reserve_numbers(part.table, part.number, until[part.table])
    copying = {
        "source": ours.database.display_url,
        "project_id": ours.project_id,
        "shifts": shifts,
        "until": until,
        "mark": os.urandom(8).hex(),
    }
    theirs.execute("UPDATE projects SET copying = :copying WHERE id = :project_id", copying=json.dumps(copying))
    return ProjectStore(theirs.database).get(theirs.project_id)


def _refuse_taken_over(theirs: ProjectScope, place: ProjectEntry) -> None:
    """Refuse to continue a copy that another process has finished, restarted or deleted."""
    rows = theirs.query("SELECT copying FROM projects WHERE id = :project_id")
    if [row["copying"] for row in rows] != [place.copying]:
        raise _taken_over(theirs.database, place.name)


def _taken_over(target: Database, name: str) -> StoreError:
    return StoreError(
        f"Another process is copying or has copied to {name!r} in {target.display_url}, so this one has stopped. "
        "Run the command again to see the result.",
        code="copy-taken-over",
    )


def _refuse_in_use(theirs: ProjectScope, place: ProjectEntry) -> None:
    """Refuse to delete rows that others added to an unfinished copy."""
    if is_copy_in_use(theirs, place):
        raise StoreError(
            f"Somebody works in the project {place.name!r} in {theirs.database.display_url}, which is an unfinished copy: "
            f"nothing in it was changed. {_alternatives(place)}",
            code="project-in-use",
        )


def is_copy_in_use(theirs: ProjectScope, place: ProjectEntry) -> bool:
    """Return whether others added rows to an unfinished copy; these have higher numbers."""
    until = json.loads(place.copying)["until"]
    return any((_number_range(theirs, part)[1] or 0) > until[part.table] for part in PROJECT_TABLES if part.number)


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


class CopyMismatchError(StoreError):
    """The copied rows differ from those of the source."""

    def __init__(self, where: str) -> None:
        super().__init__(f"The rows in {where} differ from those of the source.")


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


def copy_rows(
    ours: ProjectScope,
    theirs: ProjectScope,
    shifts: Mapping[str, int],
    report_progress: ProgressCallback = lambda *_: None,
    check_page: Callable[[], None] = lambda: None,
) -> dict[str, Tally]:
    """Copy the missing rows of a project page by page, then compare both sides.

    Each page is a transaction of its own, in which `look` is called first and may refuse it. Raise `CopyMismatchError`
    if the target has other rows, or the row numbers are in use.
    """
    tallies = {}
    for part in PROJECT_TABLES:
        total = _count(ours, part.table)
        table_tally = tallies[part.table] = Tally(part.table)
        missing = _missing_pages(ours, theirs, part, shifts, table_tally)
        for rows in _parents_first(missing, _ids(theirs)) if part.table == "tasks" else missing:
            if rows:
                with theirs.transaction():
                    check_page()
                    theirs.database.insert_many(part.table, rows)
            report_progress(part.table, table_tally.rows, total)
    if tally_rows(theirs, shifts) != tallies:
        raise CopyMismatchError(theirs.database.display_url)
    return tallies


def _missing_pages(
    ours: ProjectScope, theirs: ProjectScope, part: ProjectTable, shifts: Mapping[str, int], table_tally: Tally
) -> Iterator[list[Row]]:
    """Yield the missing rows of a table as they will be in the target; add all rows to the tally."""
    is_begun = _count(theirs, part.table) > 0
    if part.number:
        first, last = _number_range(ours, part)
        shift = shifts.get(part.table, 0)
        if first is None or last is None:
            if is_begun:
                raise CopyMismatchError(theirs.database.display_url)
        elif _are_numbers_taken(theirs, part, first + shift, last + shift):
            raise CopyMismatchError(theirs.database.display_url)
    for page in iter_pages(ours, part):
        table_tally.add(page)
        moved = _to_target_rows(part, page, theirs.project_id, shifts)
        yield _missing_in_page(theirs, part, moved) if is_begun else moved


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
        for page in iter_pages(scope, part):
            table_tally.add(_shifted(part, page, shifts or {}, -1))
    return tallies


def _count(scope: ProjectScope, table: str) -> int:
    return int(scope.query(f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :project_id")[0]["n"])


def row_counts(scope: ProjectScope) -> dict[str, int]:
    """Return the number of rows of a project per table."""
    return {part.table: _count(scope, part.table) for part in PROJECT_TABLES}


def _ids(scope: ProjectScope) -> set[str]:
    return {row["id"] for row in scope.query("SELECT id FROM tasks WHERE project_id = :project_id")}


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


def _missing_in_page(theirs: ProjectScope, part: ProjectTable, page: Sequence[Row]) -> list[Row]:
    """Return the rows of a page that are missing in the target; the others must be identical."""
    keys = ", ".join(part.key)
    first = {f"{name}_1": page[0][name] for name in part.key}
    last = {f"{name}_2": page[-1][name] for name in part.key}
    in_target = theirs.query(
        f"""
        SELECT {", ".join(schema_columns()[part.table])} FROM {part.table} WHERE project_id = :project_id
            AND ({keys}) >= ({", ".join(f":{name}" for name in first)})
            AND ({keys}) <= ({", ".join(f":{name}" for name in last)})
        """,
        **first,
        **last,
    )
    existing = {tuple(row[name] for name in part.key): row for row in in_target}
    missing = []
    for row in page:
        found = existing.pop(tuple(row[name] for name in part.key), None)
        if found is None:
            missing.append(row)
        elif found != row:
            raise CopyMismatchError(theirs.database.display_url)
    if existing:
        raise CopyMismatchError(theirs.database.display_url)
    return missing


def _parents_first(pages: Iterable[list[Row]], existing: set[str]) -> Iterator[list[Row]]:
    """Yield tasks in an order in which each comes after its parent, which may have a higher number."""
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
        held = theirs.query(
            "SELECT id, status, claim_token FROM tasks WHERE project_id = :project_id AND claim_token > 0"
        )
        vectors = next(part for part in PROJECT_TABLES if part.table == "memory_vectors")
        # Processes that cache vectors ask only for those with higher numbers than the last one they have seen.
        shifts = {vectors.table: _number_range(theirs, vectors)[1] or 0}
        delete_rows(theirs)
        for part in PROJECT_TABLES:
            if part.number and (last := _number_range(ours, part)[1]):
                theirs.database.reserve_numbers(part.table, part.number, last + shifts.get(part.table, 0))
        copy_rows(ours, theirs, shifts)
        _invalidate_claims(theirs, held)
        theirs.execute("UPDATE synced_places SET files_mark = :mark WHERE project_id = :project_id", mark=RESTORED_MARK)
        for topic in ("tasks", MEMORY_FEED, RUN_FEED):
            theirs.announce(topic)


def delete_rows(scope: ProjectScope) -> None:
    """Delete all rows of a project and its sync state, but not the project itself."""
    for table in (*SYNC_TABLES, *SUM_TABLES, *(part.table for part in reversed(PROJECT_TABLES))):
        scope.execute(f"DELETE FROM {table} WHERE project_id = :project_id")


def _invalidate_claims(scope: ProjectScope, held: Sequence[Row]) -> None:
    """Invalidate claims from before the replacement, also if the same task is claimed equally often again."""
    for row in held:
        least = row["claim_token"] + (row["status"] == "in_progress")
        scope.update_where(
            "tasks", "claim_token = :least", "id = :id AND claim_token < :least", id=row["id"], least=least
        )
