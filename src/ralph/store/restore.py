"""Bring a backup back, with what is intact in the damaged database.

Nothing is put over something else: what a restore replaces is kept, in `damaged/` or as a backup, and the copy
that takes its place is ready and checked before anything is moved. On a server the rows of one project are
replaced in one change: others see the old or the new.
"""

from __future__ import annotations

import re
import stat
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from ralph.errors import StoreError
from ralph.files import sync_folder
from ralph.records import record, replace
from ralph.store.backup import (
    AUTOMATIC,
    FOLDER,
    PART,
    Backup,
    backup_path,
    backup_paths,
    copy_database,
    copy_project_rows,
    described,
    moment_for_names,
    private_folder,
    publish,
    sync_file,
)
from ralph.store.database import is_right
from ralph.store.health import NEWER, Health, check, columns, is_of_an_index, numbered_rows, open_read_only, said
from ralph.store.sqlite import LEAST_BYTES, SIDECARS, SqliteDatabase, not_plain
from ralph.store.synced import RESTORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ralph.store import Store
    from ralph.store.database import Row

KEPT_FOLDER = "damaged"
WAIT_SECONDS = 30.0
_ABOUT_A_MEMORY = ("memory_events", "memory_links")
_COUNTED = (
    ("memory", "memories", "memory", "id", "checksum"),
    ("attempt", "attempts", "attempts", "run_id || '/' || iteration", "checksum"),
    ("task", "tasks", "tasks", "id", "checksum"),
    ("feature", "features", "features", "id", "checksum"),
    ("failure report", "failure reports", "failures", "run_id || '/' || iteration", "checksum"),
    ("session", "sessions", "sessions", "id", "checksum"),
    ("run", "runs", "runs", "id", "COALESCE(ended_at, '') || ending || iterations || options || seconds"),
    ("note on a task", "notes on tasks", "task_log", "task_id || at || message", "who"),
    ("dependency", "dependencies", "task_needs", "task_id || ' ' || needs_id", "''"),
)
"""What people would miss: its name for one and for many, its table, what tells its rows apart, and what changes."""
_READABLE = re.compile(" checksum: |a row of .* that is not there|^The definition of ")
"""So a problem is told that does not keep anybody from reading what there is."""


@record
class Gap:
    """What is lost, counted by what it is called: `memory`, `task` and so on."""

    added: dict[str, int]
    changed: dict[str, int]
    changes: int = 0
    """So many changes were lost with the write-ahead log, of whatever."""
    is_exact: bool = True
    """False when there may be more that can no longer be read."""


@record
class Restored:
    """What a restore did, or would do."""

    backup: Backup
    kept: str = ""
    """The folder the replaced database is in, or the backup of what was replaced; empty when there was none."""
    lost: str
    """What the backup does not hold, in a sentence."""
    gap: Gap
    """The same, counted."""
    is_own: bool = False
    """No backup comes back: what is left of the database is sound, and newer than all of them."""
    brought_back: int = 0
    """Memories that were taken over from the damaged database."""
    problems: tuple[str, ...] = ()
    """What was wrong with the replaced database."""
    passed_over: tuple[str, ...] = ()
    """Newer backups that are damaged, and what is wrong with each."""


# --- bringing back -----------------------------------------------------------------------


def preview_restore(database_path: str, backup: str | None = None) -> Restored:
    """Say what a restore would do, and do nothing."""
    try:
        with _prepared(Path(database_path), backup) as (_, planned):
            return planned
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing can be restored: {said(error)}") from error


def restore(database_path: str, backup: str | None = None) -> Restored:
    """Put a backup in the database's place, the newest sound one unless one is named; keep what was there.

    When the database is damaged and no backup is named, memories that are intact and newer are taken over.
    """
    path = Path(database_path)
    try:
        with _alone(path) as forget, _unchanged(path), _prepared(path, backup) as (fresh, planned):
            kept = _exchange(path, fresh)
            forget()
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {said(error)}") from error
    if problems := check(database_path).problems:
        raise StoreError(f"{database_path} was restored, but the disk gives it back damaged: {problems[0]}")
    return replace(planned, kept=str(kept) if kept else "")


def preview_rows(store: Store, backup: str | None = None) -> Restored:
    """Say what a restore would do to the project of a store on a server, and do nothing."""
    try:
        with _prepared_rows(store, backup) as prepared:
            return prepared.planned
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing can be restored: {said(error)}") from error


def restore_rows(store: Store, backup: str | None = None) -> Restored:
    """Put the rows of a backup in the place of those the project of a store on a server has; keep what was there.

    Which backup, and what is taken over from a damaged project, is as with `restore`.
    """
    from ralph.store.copying import replace_rows
    from ralph.store.database import Scope
    from ralph.store.projects import lock_tasks
    from ralph.store.sqlite import open_sqlite

    try:
        with _prepared_rows(store, backup) as prepared:
            file = open_sqlite(str(prepared.fresh))
            try:
                # Others wait for this: all that could be was done before.
                with store.transaction():
                    store.database.take_time()
                    lock_tasks(store.scope)
                    prepared.renew()
                    kept = _keep_rows(Path(store.home), prepared.present, is_sound=not prepared.planned.problems)
                    replace_rows(Scope(file, store.project_id), store.scope)
            finally:
                file.close()
            return replace(prepared.planned, kept=str(kept))
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {said(error)}") from error


class _Prepared:
    """Files with what a project has and with what a backup would put in its place, and what that would mean."""

    def __init__(self, store: Store, folder: Path, name: str | None) -> None:
        self._store = store
        self._folder = folder
        self._is_named = name is not None
        self._chosen, self._passed_over = _chosen(str(Path(store.home) / "ralph.db"), name)
        self.fresh = _project_in(Path(self._chosen.path), folder, store, is_named=self._is_named)
        self._brought_back = 0
        with store.database.snapshot():
            store.database.take_time()
            self._look()

    def renew(self) -> None:
        """Look again at what the project has, if that has changed."""
        from ralph.store.copying import tally

        if tally(self._store.scope) != self._tallies:
            self._look()

    def _look(self) -> None:
        self.present, self._tallies = copy_project_rows(self._store.scope, self._folder)
        health = check(str(self.present))
        if health.problems and not self._is_named:
            self._brought_back += salvage(str(self.present), str(self.fresh))
        if unsound := check(str(self.fresh)).problems:
            raise StoreError(f"The copy of {self._chosen.path} is damaged, so nothing was changed: {unsound[0]}")
        self.planned = _planned(self.present, self.fresh, health, self._chosen, self._brought_back, self._passed_over)


@contextmanager
def _prepared_rows(store: Store, name: str | None) -> Iterator[_Prepared]:
    # Out of the way of those who look for backups: a file that is opened has others beside it.
    folder = private_folder(Path(store.home) / FOLDER)
    with tempfile.TemporaryDirectory(prefix=".", suffix=PART, dir=folder) as inside:
        yield _Prepared(store, Path(inside), name)


def _project_in(backup: Path, folder: Path, store: Store, *, is_named: bool) -> Path:
    """Give a new file with the project of a store as a backup has it, brought up to what we know.

    A backup that somebody names may be of another project.
    """
    from ralph.store.database import Scope
    from ralph.store.projects import Projects
    from ralph.store.sqlite import open_sqlite

    path = copy_database(backup, folder)
    copy = open_sqlite(str(path))
    try:
        projects = Projects(copy)
        known = projects.all()
        found = projects.find(store.project_id) or projects.find(store.project_name)
        if found is None and is_named and len(known) == 1:
            found = known[0]
        if found is None:
            names = ", ".join(one.name for one in known)
            raise StoreError(
                f"The backup {backup} is of {names}, not of {store.project_name!r}, so nothing was changed. "
                f"If that is meant, name it: ralph restore {backup}"
            )
        if found.id == store.project_id:
            return path
        return copy_project_rows(Scope(copy, found.id), folder, store.project_id)[0]
    finally:
        copy.close()


def _keep_rows(home: Path, present: Path, *, is_sound: bool) -> Path:
    """Keep what a project had: as a backup, or apart when it is damaged."""
    if is_sound:
        return publish(present, home / FOLDER, f"{AUTOMATIC} restore")
    folder = _kept_folder(home / "ralph.db")
    present.rename(folder / "ralph.db")
    sync_folder(folder)
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the writers' queue of a database: nobody is in the middle of a change.

    Gives what forgets the change that was noted last: it is not one of another file that is there then.
    """
    try:
        from ralph.store.queueing import Queue
    except ImportError:  # not on this system
        yield lambda: None
        return
    queue = Queue(str(path))
    try:
        if not queue.enter(WAIT_SECONDS):
            raise StoreError(f"Another process is writing to {path}. Stop it and try again.")
        yield queue.forget
    finally:
        queue.close()


@contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    """Keep also those from writing who go without a turn, as far as the file can be locked at all."""
    if not path.exists() or path.stat().st_size < LEAST_BYTES or not_plain(str(path)):
        yield  # SQLite would delete the log beside an empty one, which may hold all there was
        return
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(int(WAIT_SECONDS * 1000))
    except apsw.Error:
        yield
        return
    with closing(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise StoreError(f"Another process is writing to {path}. Stop it and try again.") from error
        except apsw.Error:
            pass  # damaged: nobody can write to it
        yield


@contextmanager
def _prepared(path: Path, name: str | None) -> Iterator[tuple[Path, Restored]]:
    """Give a checked copy of the backup that is ready to take the database's place, and what that would mean."""
    if path.is_symlink():
        raise StoreError(f"{path} is a link to another place. Restore it there.")
    health = check(str(path)) if path.exists() else Health()
    if name is None and any(NEWER in problem for problem in health.problems):
        raise StoreError(
            f"{path} is not damaged, but was written by a newer Ralph: upgrade ralph. "
            "To go back to a backup all the same, name it: ralph restore NAME"
        )
    # What is newer than every backup and sound is worth more than any of them.
    is_own = health.is_only_behind and name is None
    chosen, passed_over = (described(path), []) if is_own else _chosen(str(path), name)
    fresh = copy_database(Path(chosen.path), private_folder(path.parent / FOLDER))
    try:
        is_damaged = bool(health.problems) and name is None and not is_own
        brought_back = salvage(str(path), str(fresh)) if is_damaged else 0
        _forget_agreements(fresh)
        if unsound := check(str(fresh)).problems:
            raise StoreError(f"The copy of {chosen.path} is damaged, so nothing was changed: {unsound[0]}")
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        sync_file(fresh)
        yield fresh, _planned(path, fresh, health, chosen, brought_back, passed_over, is_own=is_own)
    finally:
        fresh.unlink(missing_ok=True)


def _planned(
    old: Path,
    fresh: Path,
    health: Health,
    chosen: Backup,
    brought_back: int,
    passed_over: Sequence[str],
    *,
    is_own: bool = False,
) -> Restored:
    gap = _gap(old, fresh, health) if old.exists() else None
    return Restored(
        backup=chosen,
        lost=_told(old, gap, chosen.made_at),
        gap=gap or Gap(added={}, changed={}, is_exact=False),
        is_own=is_own,
        brought_back=brought_back,
        problems=health.problems,
        passed_over=tuple(passed_over),
    )


def _chosen(database_path: str, name: str | None) -> tuple[Backup, list[str]]:
    """Give the named backup or the newest sound one, and what is wrong with the newer ones."""
    passed_over: list[str] = []
    for path in [backup_path(database_path, name)] if name is not None else backup_paths(database_path):
        problems = check(path).problems
        if not problems:
            return described(Path(path)), passed_over
        passed_over.append(f"{Path(path).name} is damaged: {problems[0]}")
    folder = Path(database_path).parent / FOLDER
    if not passed_over:
        raise StoreError(
            f"There is no backup in {folder}, so nothing was changed. To begin anew, move {database_path} away "
            "and run: ralph init. What stands in .agent/memories.md and .ralph/knowledge is taken in again."
        )
    raise StoreError(f"No sound backup was found, so nothing was changed. {passed_over[0]}")


def _exchange(path: Path, fresh: Path) -> Path | None:
    """Move the database and what belongs to it out of the way, and the fresh one in; give the folder of the old."""
    # First the database: from then on nobody opens it, and nobody makes a new log for it.
    old = [one for one in (path, *(Path(f"{path}{end}") for end in SIDECARS)) if one.exists()]
    folder = _kept_folder(path) if old else None
    moved: list[tuple[Path, Path]] = []
    try:
        for one in old:
            assert folder
            one.rename(folder / one.name)
            moved.append((one, folder / one.name))
        fresh.rename(path)
    except OSError:
        for was, became in reversed(moved):
            became.rename(was)
        raise
    if folder:
        sync_folder(folder)
    sync_folder(path.parent)
    return folder


def _kept_folder(path: Path) -> Path:
    above = private_folder(path.parent / KEPT_FOLDER)
    moment = moment_for_names()
    number = 0
    while True:
        number += 1
        folder = above / (moment if number == 1 else f"{moment}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(above)
        return folder


def _forget_agreements(fresh: Path) -> None:
    """Let the files that mirror memories follow what is restored, instead of undoing it."""
    with closing(apsw.Connection(str(fresh), flags=apsw.SQLITE_OPEN_READWRITE)) as connection, connection:
        if not columns(connection, "synced_places"):
            return  # of an older version, that knew no such files
        connection.execute("DELETE FROM synced_entries")
        connection.execute("DELETE FROM synced_files")
        connection.execute("UPDATE synced_places SET files_mark = ?", (RESTORED,))


def salvage(damaged_path: str, into_path: str) -> int:
    """Take intact memories that are missing there over from a damaged database; give their number.

    A row comes as it is, with its history, and only when it matches its checksum. It is found by its words at once.
    """
    try:
        source = open_read_only(Path(damaged_path))
    except (apsw.Error, UnicodeError):
        return 0
    with closing(source), closing(apsw.Connection(into_path, flags=apsw.SQLITE_OPEN_READWRITE)) as target:
        known = set(target.execute("SELECT project_id, id FROM memory"))
        projects = {id for (id,) in target.execute("SELECT id FROM projects")}
        count = 0
        with target:
            for row in _intact_memories(source, target):
                if (row["project_id"], row["id"]) not in known and row["project_id"] in projects:
                    del row["seq"]
                    if _add(target, "memory", row):
                        _index(target, row | {"seq": target.last_insert_rowid()})
                        _take_along(source, target, row)
                        count += 1
        return count


def _index(target: apsw.Connection, memory: Row) -> None:
    from ralph.store.index import write

    if columns(target, "memory_words"):  # an older version is indexed when it is brought up to date
        write(SqliteDatabase(target, "the copy"), "memory", [memory])


def _intact_memories(source: apsw.Connection, target: apsw.Connection) -> Iterator[Row]:
    """Give the rows of memories that are whole, with the columns the other database has."""
    try:
        names, theirs = columns(target, "memory"), columns(source, "memory")
        if set(names) <= set(theirs):
            rows = ({name: row[name] for name in names} for _, row in numbered_rows(source, "memory") if row)
            yield from filter(is_right, rows)  # also without what only the newer one has
    except (apsw.Error, UnicodeError):
        return


def _take_along(source: apsw.Connection, target: apsw.Connection, memory: Row) -> None:
    for table in _ABOUT_A_MEMORY:
        try:
            names = columns(source, table)
            rows = source.execute(
                f"SELECT * FROM {table} WHERE project_id = ? AND memory_id = ?", (memory["project_id"], memory["id"])
            ).fetchall()
        except (apsw.Error, UnicodeError):
            continue
        if names == columns(target, table):
            for row in (dict(zip(names, values, strict=True)) for values in rows):
                if "checksum" not in row or is_right(row):
                    _add(target, table, row)


def _add(target: apsw.Connection, table: str, row: Row) -> bool:
    """Add a row unless its place is taken; say whether it was added."""
    marks = ", ".join(f":{name}" for name in row)
    target.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
    return target.changes() == 1


# --- what is lost ------------------------------------------------------------------------


def _gap(old: Path, fresh: Path, health: Health) -> Gap | None:
    """Count what the old database has and the fresh one does not; None when nobody can know."""
    added: dict[str, int] = {}
    changed: dict[str, int] = {}
    is_exact = all(_READABLE.search(one) or is_of_an_index(one) for one in _other_problems(health))
    is_readable = False
    try:
        with closing(open_read_only(old)) as before, closing(open_read_only(fresh)) as after:
            for one, _, table, key, value in _COUNTED:
                was, could_read_all = _marks(before, table, key, value)
                became, _ = _marks(after, table, key, value)
                is_exact &= could_read_all
                is_readable |= could_read_all or bool(was)
                added[one] = sum(1 for name in was if name not in became)
                changed[one] = sum(1 for name in was if became.get(name, was[name]) != was[name])
    except (apsw.Error, UnicodeError):
        return None
    if not is_readable:
        return None
    gained = {name: count for name, count in added.items() if count}
    other = {name: count for name, count in changed.items() if count}
    return Gap(added=gained, changed=other, changes=health.lost_changes, is_exact=is_exact)


def _other_problems(health: Health) -> Sequence[str]:
    return health.problems[1:] if health.lost_changes else health.problems


def _told(old: Path, gap: Gap | None, made_at: str) -> str:
    """Say what is lost, in a sentence."""
    since = f"after {made_at} ({_age(made_at)} ago)"
    if gap is None:
        why = "cannot be read" if old.exists() else "is gone"
        return f"What came {since} is lost; the database {why}, so nobody knows how much."
    names = {one: many for one, many, *_ in _COUNTED}
    added = [_counted(count, name, names[name]) for name, count in gap.added.items()]
    changed = [_counted(count, name, names[name]) for name, count in gap.changed.items()]
    parts = [f"{_listed(added)} added"] if added else []
    parts += [f"changes to {_listed(changed)}"] if changed else []
    parts += [] if gap.is_exact else ["what can no longer be read"]
    last = f"the last {_counted(gap.changes, 'change', 'changes')}, with the write-ahead log" if gap.changes else ""
    if parts:
        return f"Lost: {_listed(parts)} {since}{f'; and {last}' if last else ''}."
    if last:
        return f"Lost: {last}."
    return f"Nothing that can be read is lost; the backup is from {made_at} ({_age(made_at)} ago)."


def _marks(connection: apsw.Connection, table: str, key: str, value: str) -> tuple[dict[bytes, bytes], bool]:
    """Give what changes of each row by what tells the rows apart, and whether all of them could be read."""
    found: dict[bytes, bytes] = {}
    # As bytes: text that is none must not hide the rows after it. Round a damaged page, from both sides.
    sql = f"SELECT CAST(project_id || ' ' || {key} AS BLOB), CAST({value} AS BLOB) FROM {table} NOT INDEXED"
    for order in ("ASC", "DESC"):
        try:
            for name, mark in connection.execute(f"{sql} ORDER BY rowid {order}"):
                found.setdefault(name, mark)
        except apsw.SQLError:  # an older version has no such table
            return found, True
        except apsw.Error:
            continue
        return found, True
    return found, False


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _age(made_at: str) -> str:
    from calendar import timegm

    seconds = max(0, int(time.time()) - timegm(time.strptime(made_at[:19], "%Y-%m-%dT%H:%M:%S")))
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{seconds // length} {name}" + ("s" if seconds >= 2 * length else "")
    return f"{seconds} second" + ("" if seconds == 1 else "s")
