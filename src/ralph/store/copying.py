"""Copy a project from one database to another, of either sort, with its numbers and its history.

A copy is of one moment of the source, where others may work on meanwhile. What was copied cannot be opened until
every row was compared; who copies again goes on where the last copy stopped.
"""

from __future__ import annotations

import json
import os
from operator import itemgetter

from ralph.errors import StoreError, UsageError
from ralph.records import record
from ralph.store.database import CHECKED_TABLES, FEED, RUN_FEED, Scope, checksum
from ralph.store.migrate import own_columns
from ralph.store.parts import AGREED, PARTS, SUMS
from ralph.store.projects import Projects, lock_tasks
from ralph.store.synced import RESTORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.store.database import Database, Row
    from ralph.store.parts import Part
    from ralph.store.projects import ProjectEntry

    Tell = Callable[[str, int, int], None]
    """Is told the table, how many of its rows are done, and how many it has."""

PAGE = 2_000


@record
class CopiedTable:
    """How much of a table was copied, and what stands for all its values on both sides."""

    table: str
    rows: int
    digest: str


@record
class Copied:
    """A project that is in two databases now."""

    project: str
    id: str
    source: str
    target: str
    tables: tuple[CopiedTable, ...]
    was_there: bool = False
    """It had been copied before, and is the same."""
    went_on: bool = False
    """A copy that had been interrupted was finished."""
    has_changed: bool = False
    """Somebody wrote to the source meanwhile, which is not in the copy."""


def unfinished(database: Database, project: ProjectEntry) -> StoreError:
    """Give the error of who opens a project that is not copied to its end."""
    source = json.loads(project.copying)["source"]
    return StoreError(
        f"The project {project.name!r} in {database.where} is a copy that was not finished. "
        f"Finish it with: ralph store copy {source} {database.where}"
    )


# --- copying -------------------------------------------------------------------------------


def copy_project(
    source: Database, project: str, target: Database, name: str = "", tell: Tell = lambda *_: None
) -> Copied:
    """Copy a project, by its name or id, to another database, there under a `name` or its own; verify every row.

    A project that is there already must be the same, or empty: nothing is put over something else.
    """
    with source.snapshot():
        source.take_time()  # it waits while the other one is filled and compared
        one = Projects(source).get(project)
        if one.copying:
            raise unfinished(source, one)
        ours = Scope(source, one.id)
        newest = _newest(ours)
        refuse_damaged(ours, one)
        found = _found(target, one, name)
        was_there = found is not None and not found.copying and not is_empty(Scope(target, found.id))
        if found and was_there:
            place, tallies = found, _compared(ours, Scope(target, found.id), found)
        else:
            place, tallies = _copied(ours, one, target, found, name or one.name, tell)
    return Copied(
        project=place.name,
        id=place.id,
        source=source.where,
        target=target.where,
        tables=tuple(CopiedTable(table=table, rows=one.rows, digest=one.digest) for table, one in tallies.items()),
        was_there=was_there,
        went_on=bool(found and found.copying),
        has_changed=newest != _newest(ours),
    )


def refuse_damaged(scope: Scope, project: ProjectEntry) -> None:
    """Refuse to copy a project with rows that do not match their checksums."""
    from ralph.store.health import check_rows

    if problems := check_rows(scope).problems:
        raise StoreError(
            f"Nothing was copied, because the project {project.name!r} in {scope.database.where} is not sound: "
            f"{problems[0]} See: ralph doctor"
        )


def _found(target: Database, one: ProjectEntry, name: str) -> ProjectEntry | None:
    """Give the project to copy into, if it is there: by its name, or under another one when none was asked for."""
    projects = Projects(target)
    if one.is_shared:
        return projects.shared()
    found = projects.find(name or one.name) or (None if name else projects.find(one.id))
    if found and found.copying and json.loads(found.copying)["project_id"] != one.id:
        raise UsageError(f"In {target.where}, {found.name!r} is an unfinished copy of another project. {_ways(found)}")
    return found


def _ways(found: ProjectEntry) -> str:
    return (
        f"Copy this one under another name with --as NAME, or remove that one with: ralph project remove {found.name}"
    )


def _compared(ours: Scope, theirs: Scope, found: ProjectEntry) -> dict[str, Tally]:
    """Give what stands for the rows of both projects, or refuse to copy when they are not the same."""
    with theirs.database.snapshot():
        theirs.database.take_time()
        shifts = {}
        for part in PARTS:
            if part.number:
                shifts[part.table] = (_ends(theirs, part)[0] or 0) - (_ends(ours, part)[0] or 0)
        tallies = tally(ours)
        if tallies != tally(theirs, shifts):
            raise UsageError(
                f"There is already a project {found.name!r} in {theirs.database.where}, and it is not the same."
                f" {_ways(found)}"
            )
    return tallies


def _copied(
    ours: Scope, one: ProjectEntry, target: Database, found: ProjectEntry | None, name: str, tell: Tell
) -> tuple[ProjectEntry, dict[str, Tally]]:
    """Copy what is not there yet and compare all; when the source has changed since it was begun, begin anew.

    Nothing is deleted but what an earlier copy put there: others may have the project open, or copy it too.
    """
    is_new = found is None or not found.copying
    place = _begin(ours, one, target, found, name) if is_new or not found else _go_on(ours, target, found)
    try:
        return _copied_on(ours, target, place, one, tell)
    except CopyMismatchError:
        if not is_new:
            return _copied_on(ours, target, _begin_anew(ours, target, place), one, tell)
        _refuse_other(Scope(target, place.id), place)
        raise StoreError(
            f"Somebody changed the project {place.name!r} in {target.where} while it was being filled, so it is not "
            "finished. Stop whoever works in it, and run the command again."
        ) from None


def _copied_on(
    ours: Scope, target: Database, place: ProjectEntry, one: ProjectEntry, tell: Tell
) -> tuple[ProjectEntry, dict[str, Tally]]:
    """Copy what is not there yet, compare all, and let the project be opened."""
    theirs = Scope(target, place.id)
    tallies = copy_rows(ours, theirs, json.loads(place.copying)["shifts"], tell, lambda: _refuse_other(theirs, place))
    with theirs.transaction():
        _refuse_other(theirs, place)
        theirs.execute("UPDATE projects SET copying = '', created_at = :at WHERE id = :project_id", at=one.created_at)
    return place, tallies


def _begin(ours: Scope, one: ProjectEntry, target: Database, found: ProjectEntry | None, name: str) -> ProjectEntry:
    """Give the project to copy into, made unless it was found, and marked as not whole."""
    projects = Projects(target)
    found = projects.add_shared() if one.is_shared else found
    # In the project's turn: whoever puts something into it was either before, and is seen, or finds it marked.
    with target.transaction(found.id if found else ""):
        target.take_time()
        if found:
            _refuse_other(Scope(target, found.id), found)
            if not is_empty(Scope(target, found.id)):
                raise UsageError(f"Somebody has just begun to work in {found.name!r} in {target.where}. {_ways(found)}")
        elif projects.find(name):
            raise _taken_over(target, name)
        id = found.id if found else "p-" + os.urandom(4).hex() if projects.find(one.id) else one.id
        if not found:
            target.execute(
                "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)",
                id=id,
                name=name,
                at=one.created_at,
            )
        return _mark(ours, Scope(target, id))


def _go_on(ours: Scope, target: Database, found: ProjectEntry) -> ProjectEntry:
    """Take a copy over that was not finished: whoever still works on it stops."""
    theirs = Scope(target, found.id)
    with theirs.transaction():
        target.take_time()
        _refuse_other(theirs, found)
        _refuse_worked_in(theirs, found)
        return _mark(ours, theirs, json.loads(found.copying))


def _begin_anew(ours: Scope, target: Database, place: ProjectEntry) -> ProjectEntry:
    """Delete what an earlier copy put there."""
    theirs = Scope(target, place.id)
    with theirs.transaction():
        target.take_time()
        _refuse_other(theirs, place)
        _refuse_worked_in(theirs, place)
        delete_rows(theirs)
        return _mark(ours, theirs)


def _mark(ours: Scope, theirs: Scope, before: Mapping[str, Any] | None = None) -> ProjectEntry:
    """Note what is needed to go on with a copy, after the one `before`, and set the numbers of its rows apart.

    No two marks are the same: so a copy knows whether another one has taken it over.
    """
    shifts = before["shifts"] if before else _shifts(ours, theirs)
    until = dict(before["until"]) if before else {}
    for part in PARTS:
        if part.number:
            last = _ends(ours, part)[1]
            until[part.table] = max(until.get(part.table, 0), (last or 0) + shifts[part.table])
            if last is not None:
                theirs.database.reserve(part.table, part.number, until[part.table])
    copying = {
        "source": ours.database.where,
        "project_id": ours.project_id,
        "shifts": shifts,
        "until": until,
        "mark": os.urandom(8).hex(),
    }
    theirs.execute("UPDATE projects SET copying = :copying WHERE id = :project_id", copying=json.dumps(copying))
    return Projects(theirs.database).get(theirs.project_id)


def _refuse_other(theirs: Scope, place: ProjectEntry) -> None:
    """Refuse to go on with a copy that another process has finished, begun anew or removed."""
    rows = theirs.query("SELECT copying FROM projects WHERE id = :project_id")
    if [row["copying"] for row in rows] != [place.copying]:
        raise _taken_over(theirs.database, place.name)


def _taken_over(target: Database, name: str) -> StoreError:
    return StoreError(
        f"Another process copies to {name!r} in {target.where} too, or did, so this one has stopped. "
        "Run the command again to see how it stands."
    )


def _refuse_worked_in(theirs: Scope, place: ProjectEntry) -> None:
    """Refuse to delete what others added to a project that is not copied to its end."""
    if is_worked_in(theirs, place):
        raise StoreError(
            f"Somebody works in the project {place.name!r} in {theirs.database.where}, a copy that was not finished: "
            f"nothing in it was changed. {_ways(place)}"
        )


def is_worked_in(theirs: Scope, place: ProjectEntry) -> bool:
    """Say whether others added rows to a project that is not copied to its end: these have higher numbers."""
    until = json.loads(place.copying)["until"]
    return any((_ends(theirs, part)[1] or 0) > until[part.table] for part in PARTS if part.number)


def is_empty(scope: Scope) -> bool:
    """Say whether a project has no rows yet."""
    return not any(
        scope.query(f"SELECT 1 AS one FROM {part.table} WHERE project_id = :project_id LIMIT 1") for part in PARTS
    )


def _newest(scope: Scope) -> Row:
    """Give what changes when anybody works in a project."""
    return scope.query(
        """
        SELECT (SELECT MAX(updated_at) FROM tasks WHERE project_id = :project_id) AS task,
            (SELECT COUNT(*) FROM tasks WHERE project_id = :project_id) AS tasks,
            (SELECT MAX(seq) FROM task_log WHERE project_id = :project_id) AS told,
            (SELECT MAX(seq) FROM attempts WHERE project_id = :project_id) AS attempt,
            (SELECT MAX(ended_at) FROM attempts WHERE project_id = :project_id) AS ended,
            (SELECT MAX(seq) FROM memory_events WHERE project_id = :project_id) AS event,
            (SELECT MAX(updated_at) FROM memory WHERE project_id = :project_id) AS memory
        """
    )[0]


# --- numbers -------------------------------------------------------------------------------


def _shifts(ours: Scope, theirs: Scope) -> dict[str, int]:
    """Give what is added to the numbers of each table: nothing where they are free."""
    shifts = {}
    for part in PARTS:
        if part.number:
            first, last = _ends(ours, part)
            shifts[part.table] = 0
            if first is not None and last is not None and _are_taken(theirs, part, first, last):
                newest = theirs.database.query(f"SELECT MAX({part.number}) AS n FROM {part.table}")[0]["n"]
                shifts[part.table] = newest - first + 1
    return shifts


def _ends(scope: Scope, part: Part) -> tuple[int | None, int | None]:
    row = scope.query(
        f"""
        SELECT MIN({part.number}) AS first, MAX({part.number}) AS last FROM {part.table}
        WHERE project_id = :project_id
        """
    )[0]
    return row["first"], row["last"]


def _are_taken(theirs: Scope, part: Part, first: int, last: int) -> bool:
    """Say whether another project has rows with any of these numbers; on a server each has its own."""
    if theirs.database.seq_key != "seq":
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


def _shifted(part: Part, rows: list[Row], shifts: Mapping[str, int], sign: int = 1) -> list[Row]:
    """Give rows with the numbers they have in the target; with -1, those rows of the target have in the source."""
    numbered = ((part.number, part.table), *part.numbers_of) if part.number else part.numbers_of
    moves = [(column, sign * shifts[table]) for column, table in numbered if shifts.get(table)]
    if not moves:
        return rows
    moved = [dict(row) for row in rows]
    for row in moved:
        for column, by in moves:
            if row[column] is not None:
                row[column] += by
    return moved


# --- rows ----------------------------------------------------------------------------------


class CopyMismatchError(StoreError):
    """What was copied is not what the source has now."""

    def __init__(self, where: str) -> None:
        super().__init__(f"Not all rows arrived in {where} as they were.")


_encode = json.JSONEncoder(ensure_ascii=False, default=bytes.hex).encode


class Tally:
    """How many rows there were, and what stands for all their values: without their project and their checksum."""

    def __init__(self, table: str) -> None:
        import hashlib

        self.rows = 0
        self._hash = hashlib.sha256()
        self._values = itemgetter(*(name for name in own_columns()[table] if name not in ("project_id", "checksum")))

    def add(self, rows: Iterable[Row]) -> None:
        """Count rows."""
        values = [*map(self._values, rows)]
        self.rows += len(values)
        self._hash.update(_encode(values)[1:-1].encode() + b", ")  # the same however many come at once

    @property
    def digest(self) -> str:
        """The SHA-256 of all values so far."""
        return self._hash.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.digest == other.digest

    __hash__ = None  # type: ignore[assignment]


def copy_rows(
    ours: Scope,
    theirs: Scope,
    shifts: Mapping[str, int],
    tell: Tell = lambda *_: None,
    look: Callable[[], None] = lambda: None,
) -> dict[str, Tally]:
    """Copy all rows of a project that are not there yet, a page at a time, and compare both sides at the end.

    Each page is a change of its own, which `look` can refuse. When something else is there, or the numbers have been
    taken by others, `CopyMismatchError` is raised.
    """
    tallies = {}
    for part in PARTS:
        total = _count(ours, part.table)
        counted = tallies[part.table] = Tally(part.table)
        missing = _missing(ours, theirs, part, shifts, counted)
        for rows in _parents_first(missing, _ids(theirs)) if part.table == "tasks" else missing:
            if rows:
                with theirs.transaction():
                    look()
                    theirs.database.insert_many(part.table, rows)
            tell(part.table, counted.rows, total)
    if tally(theirs, shifts) != tallies:
        raise CopyMismatchError(theirs.database.where)
    return tallies


def _missing(ours: Scope, theirs: Scope, part: Part, shifts: Mapping[str, int], counted: Tally) -> Iterator[list[Row]]:
    """Give the rows of a table that are not in the target yet, as they will be there; all are counted."""
    is_begun = _count(theirs, part.table) > 0
    if part.number:
        first, last = _ends(ours, part)
        shift = shifts.get(part.table, 0)
        if first is None or last is None:
            if is_begun:
                raise CopyMismatchError(theirs.database.where)
        elif _are_taken(theirs, part, first + shift, last + shift):
            raise CopyMismatchError(theirs.database.where)
    for page in pages(ours, part):
        counted.add(page)
        moved = _moved(part, page, theirs.project_id, shifts)
        yield _left(theirs, part, moved) if is_begun else moved


def pages(scope: Scope, part: Part) -> Iterator[list[Row]]:
    """Give all rows of a table that a project has, in the order of their key."""
    keys = ", ".join(part.key)
    after = f"AND ({keys}) > ({', '.join(f':{name}' for name in part.key)})"
    last: dict[str, object] = {}
    while rows := scope.query(
        f"""
        SELECT {", ".join(own_columns()[part.table])} FROM {part.table}
        WHERE project_id = :project_id {after if last else ""} ORDER BY {keys} LIMIT {PAGE}
        """,
        **last,
    ):
        yield rows
        last = {name: rows[-1][name] for name in part.key}


def tally(scope: Scope, shifts: Mapping[str, int] | None = None) -> dict[str, Tally]:
    """Give what stands for all rows of a project, table by table, as if their numbers were those of the source."""
    found = {}
    for part in PARTS:
        counted = found[part.table] = Tally(part.table)
        for page in pages(scope, part):
            counted.add(_shifted(part, page, shifts or {}, -1))
    return found


def _count(scope: Scope, table: str) -> int:
    return int(scope.query(f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :project_id")[0]["n"])


def row_counts(scope: Scope) -> dict[str, int]:
    """Give how many rows of each table a project has."""
    return {part.table: _count(scope, part.table) for part in PARTS}


def _ids(scope: Scope) -> set[str]:
    return {row["id"] for row in scope.query("SELECT id FROM tasks WHERE project_id = :project_id")}


def _moved(part: Part, page: list[Row], project_id: str, shifts: Mapping[str, int]) -> list[Row]:
    """Give rows as they will be in the target."""
    moved = _shifted(part, page, shifts)
    if moved[0]["project_id"] == project_id:
        return moved
    moved = [{**row, "project_id": project_id} for row in moved]
    if part.table in CHECKED_TABLES:
        for row in moved:
            row["checksum"] = checksum(row)
    return moved


def _left(theirs: Scope, part: Part, page: Sequence[Row]) -> list[Row]:
    """Give those rows of a page that are not in the target yet; the others must be the same there."""
    keys = ", ".join(part.key)
    first = {f"{name}_1": page[0][name] for name in part.key}
    last = {f"{name}_2": page[-1][name] for name in part.key}
    there = theirs.query(
        f"""
        SELECT {", ".join(own_columns()[part.table])} FROM {part.table} WHERE project_id = :project_id
            AND ({keys}) >= ({", ".join(f":{name}" for name in first)})
            AND ({keys}) <= ({", ".join(f":{name}" for name in last)})
        """,
        **first,
        **last,
    )
    known = {tuple(row[name] for name in part.key): row for row in there}
    left = []
    for row in page:
        found = known.pop(tuple(row[name] for name in part.key), None)
        if found is None:
            left.append(row)
        elif found != row:
            raise CopyMismatchError(theirs.database.where)
    if known:
        raise CopyMismatchError(theirs.database.where)
    return left


def _parents_first(pages: Iterable[list[Row]], there: set[str]) -> Iterator[list[Row]]:
    """Give tasks so that each comes after its parent, which may have been added later."""
    waiting: dict[str, list[Row]] = {}
    for page in pages:
        ready = []
        for row in page:
            if row["parent_id"] and row["parent_id"] not in there:
                waiting.setdefault(row["parent_id"], []).append(row)
                continue
            found = [row]
            while found:
                one = found.pop()
                ready.append(one)
                there.add(one["id"])
                found += waiting.pop(one["id"], [])
        yield ready
    if waiting:
        raise StoreError(f"Tasks name a parent that is not there: {', '.join(waiting)}. See: ralph doctor")


# --- putting in the place of another -------------------------------------------------------


def replace_rows(ours: Scope, theirs: Scope) -> None:
    """Put the rows of a project in the place of those another one has, in one change; working copies follow it."""
    with theirs.transaction():
        theirs.database.take_time()
        lock_tasks(theirs)
        held = theirs.query(
            "SELECT id, status, claim_token FROM tasks WHERE project_id = :project_id AND claim_token > 0"
        )
        vectors = next(part for part in PARTS if part.table == "memory_vectors")
        # Who keeps vectors at hand asks for those with higher numbers than the last one seen.
        shifts = {vectors.table: _ends(theirs, vectors)[1] or 0}
        delete_rows(theirs)
        for part in PARTS:
            if part.number and (last := _ends(ours, part)[1]):
                theirs.database.reserve(part.table, part.number, last + shifts.get(part.table, 0))
        copy_rows(ours, theirs, shifts)
        _outdate_claims(theirs, held)
        theirs.execute("UPDATE synced_places SET files_mark = :mark WHERE project_id = :project_id", mark=RESTORED)
        for topic in ("tasks", FEED, RUN_FEED):
            theirs.announce(topic)


def delete_rows(scope: Scope) -> None:
    """Delete all rows of a project, and what working copies agreed on; not the project itself."""
    for table in (*AGREED, *SUMS, *(part.table for part in reversed(PARTS))):
        scope.execute(f"DELETE FROM {table} WHERE project_id = :project_id")


def _outdate_claims(scope: Scope, held: Sequence[Row]) -> None:
    """Let nobody settle a task by a claim from before, also when it is claimed as often again."""
    for row in held:
        least = row["claim_token"] + (row["status"] == "in_progress")
        scope.change("tasks", "claim_token = :least", "id = :id AND claim_token < :least", id=row["id"], least=least)
