"""Restore of a backup, merged with the intact memories of the damaged database.

Nothing is overwritten: what a restore replaces is moved to `damaged/` or saved as a backup, and its replacement is
complete and checked before anything is moved. On a server, the rows of one project are replaced in one transaction.
"""

from __future__ import annotations

import re
import stat
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from ralph.core.errors import StoreError
from ralph.core.files import sync_folder
from ralph.core.records import record, replace
from ralph.store.database import matches_checksum
from ralph.store.maintenance.backup import (
    AUTOMATIC_REASON,
    BACKUP_FOLDER,
    PARTIAL_SUFFIX,
    Backup,
    backup_path,
    backup_paths,
    copy_database,
    copy_project_rows,
    make_private_folder,
    publish,
    read_backup,
    sync_file,
    timestamp_for_filename,
)
from ralph.store.maintenance.check import (
    NEWER_VERSION,
    HealthReport,
    check_database,
    column_names,
    error_text,
    is_index_problem,
    iter_rows,
    open_read_only,
)
from ralph.store.sqlite.driver import MIN_DATABASE_BYTES, SIDECARS, SqliteDatabase, find_irregular_file
from ralph.store.sync_state import RESTORED_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.store import Store
    from ralph.store.database import Row

DAMAGED_FOLDER = "damaged"
"""Directory for databases that were replaced by a restore."""
WAIT_SECONDS = 30.0
"""Time to wait for other writers, in seconds."""
_MEMORY_TABLES = ("memory_events", "memory_links")
_COMPARED_RECORDS = (
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
"""Records to compare: singular, plural, table, SQL of the key, and SQL of the value that changes."""
_READABLE = re.compile(" checksum: |to a missing row of |^The definition of ")
"""Problems that do not prevent reading the data."""


@record
class DataLoss:
    """Number of lost records by noun: `memory`, `task` and so on."""

    added: dict[str, int]
    changed: dict[str, int]
    is_exact: bool = True
    """Whether the numbers are complete; False if some data is unreadable."""


@record
class RestoreResult:
    """Result or preview of a restore."""

    backup: Backup
    saved_to: str = ""
    """Directory or backup with the replaced data; empty if there was none."""
    loss_message: str
    """Sentence that says which data is lost."""
    loss: DataLoss
    """Number of lost records."""
    recovered: int = 0
    """Number of memories recovered from the damaged database."""
    problems: tuple[str, ...] = ()
    """Problems of the replaced database."""
    skipped: tuple[str, ...] = ()
    """Newer backups that were skipped because they are damaged, each with its problem."""


# --- restoring ---------------------------------------------------------------------------


def preview_restore(database_path: str, backup: str | None = None) -> RestoreResult:
    """Return what a restore would do, without changing anything."""
    try:
        with _prepared(Path(database_path), backup) as (_, planned):
            return planned
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing can be restored: {error_text(error)}") from error


def restore(database_path: str, backup: str | None = None) -> RestoreResult:
    """Replace a database with a backup, by default the newest intact one; keep the replaced database.

    If the database is damaged and no backup is named, its newer intact memories are merged into the backup.
    """
    path = Path(database_path)
    try:
        with _write_lock(path), _sqlite_lock(path), _prepared(path, backup) as (fresh, planned):
            kept = _swap(path, fresh)
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {error_text(error)}") from error
    if problems := check_database(database_path).problems:
        raise StoreError(f"{database_path} was restored, but reads back damaged. Check the disk: {problems[0]}")
    return replace(planned, saved_to=str(kept) if kept else "")


def preview_project_restore(store: Store, backup: str | None = None) -> RestoreResult:
    """Return what a restore would do to a project on a server, without changing anything."""
    try:
        with _prepared_rows(store, backup) as prepared:
            return prepared.planned
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing can be restored: {error_text(error)}") from error


def restore_project_rows(store: Store, backup: str | None = None) -> RestoreResult:
    """Replace the rows of a project on a server with those of a backup; keep the replaced rows.

    The backup and what is merged into it are chosen as by `restore`.
    """
    from ralph.store.database import ProjectScope
    from ralph.store.maintenance.copy import replace_rows
    from ralph.store.projects import lock_tasks
    from ralph.store.sqlite.driver import open_sqlite

    try:
        with _prepared_rows(store, backup) as prepared:
            source = open_sqlite(str(prepared.fresh))
            try:
                # Other writers wait for this transaction, so everything else was done before.
                with store.transaction():
                    store.database.extend_idle_timeout()
                    lock_tasks(store.scope)
                    prepared.renew()
                    kept = _save_replaced_rows(
                        Path(store.data_dir), prepared.present, is_intact=not prepared.planned.problems
                    )
                    replace_rows(ProjectScope(source, store.project_id), store.scope)
            finally:
                source.close()
            return replace(prepared.planned, saved_to=str(kept))
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {error_text(error)}") from error


class _Prepared:
    """Files with the current rows of a project and with those of a backup, and the plan of the restore."""

    def __init__(self, store: Store, folder: Path, name: str | None) -> None:
        self._store = store
        self._folder = folder
        self._is_named = name is not None
        self._choice, self._skipped = _choose(str(Path(store.data_dir) / "ralph.db"), name)
        self.fresh = _extract_project(Path(self._choice.path), folder, store, is_named=self._is_named)
        self._recovered = 0
        with store.database.snapshot():
            store.database.extend_idle_timeout()
            self._copy_project()

    def renew(self) -> None:
        """Copy the project again if it has changed."""
        from ralph.store.maintenance.copy import tally_rows

        if tally_rows(self._store.scope) != self._tallies:
            self._copy_project()

    def _copy_project(self) -> None:
        self.present, self._tallies = copy_project_rows(self._store.scope, self._folder)
        health = check_database(str(self.present))
        if health.problems and not self._is_named:
            self._recovered += recover_memories(str(self.present), str(self.fresh))
        if problems := check_database(str(self.fresh)).problems:
            raise StoreError(f"The copy of {self._choice.path} is damaged, so nothing was changed: {problems[0]}")
        self.planned = _plan(self.present, self.fresh, health, self._choice, self._recovered, self._skipped)


@contextmanager
def _prepared_rows(store: Store, name: str | None) -> Iterator[_Prepared]:
    # In a subdirectory, because opening a file creates others next to it that must not look like backups.
    folder = make_private_folder(Path(store.data_dir) / BACKUP_FOLDER)
    with tempfile.TemporaryDirectory(prefix=".", suffix=PARTIAL_SUFFIX, dir=folder) as inside:
        yield _Prepared(store, Path(inside), name)


def _extract_project(backup: Path, folder: Path, store: Store, *, is_named: bool) -> Path:
    """Return a new, migrated file with the project of a store as it is in a backup.

    If the backup was named explicitly, it may be one of another project.
    """
    from ralph.store.database import ProjectScope
    from ralph.store.projects import ProjectStore
    from ralph.store.sqlite.driver import open_sqlite

    path = copy_database(backup, folder)
    copy = open_sqlite(str(path))
    try:
        projects = ProjectStore(copy)
        known = projects.all()
        found = projects.find(store.project_id) or projects.find(store.project_name)
        if found is None and is_named and len(known) == 1:
            found = known[0]
        if found is None:
            names = ", ".join(project.name for project in known)
            raise StoreError(
                f"The backup {backup} contains {names}, not {store.project_name!r}, so nothing was changed. "
                f"To restore it anyway, name it: ralph restore {backup}"
            )
        if found.id == store.project_id:
            return path
        return copy_project_rows(ProjectScope(copy, found.id), folder, store.project_id)[0]
    finally:
        copy.close()


def _save_replaced_rows(home: Path, present: Path, *, is_intact: bool) -> Path:
    """Save the replaced rows of a project: as a backup, or in a separate directory if they are damaged."""
    if is_intact:
        return publish(present, home / BACKUP_FOLDER, f"{AUTOMATIC_REASON} restore")
    folder = _make_kept_folder(home / "ralph.db")
    present.rename(folder / "ralph.db")
    sync_folder(folder)
    return folder


@contextmanager
def _write_lock(path: Path) -> Iterator[None]:
    """Hold the write lock of a database."""
    try:
        from ralph.store.sqlite.write_queue import WriterQueue
    except ImportError:  # no fcntl on this platform
        yield
        return
    queue = WriterQueue(str(path))
    try:
        if not queue.acquire(WAIT_SECONDS):
            raise StoreError(f"Another process is writing to {path}. Stop it and try again.")
        yield
    finally:
        queue.close()


@contextmanager
def _sqlite_lock(path: Path) -> Iterator[None]:
    """Hold SQLite's own write lock as well, against writers that skip the queue, if the file can be locked."""
    if not path.exists() or path.stat().st_size < MIN_DATABASE_BYTES or find_irregular_file(str(path)):
        yield  # SQLite would delete the write-ahead log of an empty file, which may contain all of the data
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
            pass  # too damaged to be written by anybody
        yield


@contextmanager
def _prepared(path: Path, name: str | None) -> Iterator[tuple[Path, RestoreResult]]:
    """Yield a checked copy of the backup that is ready to replace the database, and the plan of the restore."""
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link. Run the restore where it points to.")
    health = check_database(str(path)) if path.exists() else HealthReport()
    if name is None and any(NEWER_VERSION in problem for problem in health.problems):
        raise StoreError(
            f"{path} is not damaged, but was written by a newer Ralph: upgrade ralph. "
            "To restore a backup anyway, name it: ralph restore NAME"
        )
    chosen, skipped = _choose(str(path), name)
    fresh = copy_database(Path(chosen.path), make_private_folder(path.parent / BACKUP_FOLDER))
    try:
        is_damaged = bool(health.problems) and name is None
        recovered = recover_memories(str(path), str(fresh)) if is_damaged else 0
        _reset_file_sync(fresh)
        if problems := check_database(str(fresh)).problems:
            raise StoreError(f"The copy of {chosen.path} is damaged, so nothing was changed: {problems[0]}")
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        sync_file(fresh)
        yield fresh, _plan(path, fresh, health, chosen, recovered, skipped)
    finally:
        fresh.unlink(missing_ok=True)


def _plan(
    old: Path, fresh: Path, health: HealthReport, chosen: Backup, recovered: int, skipped: Sequence[str]
) -> RestoreResult:
    gap = _gap(old, fresh, health) if old.exists() else None
    return RestoreResult(
        backup=chosen,
        loss_message=_loss_message(old, gap, chosen.made_at),
        loss=gap or DataLoss(added={}, changed={}, is_exact=False),
        recovered=recovered,
        problems=health.problems,
        skipped=tuple(skipped),
    )


def _choose(database_path: str, name: str | None) -> tuple[Backup, list[str]]:
    """Return the named backup or the newest intact one, and the problems of the newer ones."""
    skipped: list[str] = []
    for path in [backup_path(database_path, name)] if name is not None else backup_paths(database_path):
        problems = check_database(path).problems
        if not problems:
            return read_backup(Path(path)), skipped
        skipped.append(f"{Path(path).name} is damaged: {problems[0]}")
    folder = Path(database_path).parent / BACKUP_FOLDER
    if not skipped:
        raise StoreError(
            f"There is no backup in {folder}, so nothing was changed. To start over, move {database_path} away "
            "and run: ralph init. It imports .agent/memories.md and .ralph/knowledge again.",
            code="no-backup",
        )
    raise StoreError(f"No intact backup was found, so nothing was changed. {skipped[0]}", code="no-intact-backup")


def _swap(path: Path, fresh: Path) -> Path | None:
    """Move the database with its log out of the way and the fresh one in; return the directory of the old one."""
    # The database first: once it is gone, nobody can open it and create a new log.
    old = [file for file in (path, *(Path(f"{path}{suffix}") for suffix in SIDECARS)) if file.exists()]
    folder = _make_kept_folder(path) if old else None
    moved: list[tuple[Path, Path]] = []
    try:
        for file in old:
            assert folder
            file.rename(folder / file.name)
            moved.append((file, folder / file.name))
        fresh.rename(path)
    except OSError:
        for before, after in reversed(moved):
            after.rename(before)
        raise
    if folder:
        sync_folder(folder)
    sync_folder(path.parent)
    return folder


def _make_kept_folder(path: Path) -> Path:
    parent = make_private_folder(path.parent / DAMAGED_FOLDER)
    time_part = timestamp_for_filename()
    number = 0
    while True:
        number += 1
        folder = parent / (time_part if number == 1 else f"{time_part}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(parent)
        return folder


def _reset_file_sync(fresh: Path) -> None:
    """Make the next sync write the restored memories to the files, instead of importing the files over them."""
    with closing(apsw.Connection(str(fresh), flags=apsw.SQLITE_OPEN_READWRITE)) as connection, connection:
        if not column_names(connection, "synced_places"):
            return  # an older schema without synced files
        connection.execute("DELETE FROM synced_entries")
        connection.execute("DELETE FROM synced_files")
        connection.execute("UPDATE synced_places SET files_mark = ?", (RESTORED_MARK,))


def recover_memories(damaged_path: str, into_path: str) -> int:
    """Copy the intact memories that are missing in the target from a damaged database; return their number.

    Only rows that match their checksum are copied, unchanged and with their history, and they are indexed.
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
                        _copy_related_rows(source, target, row)
                        count += 1
        return count


def _index(target: apsw.Connection, memory: Row) -> None:
    from ralph.store.index import write_index

    if column_names(target, "memory_words"):  # an older schema is indexed when it is migrated
        write_index(SqliteDatabase(target, "the copy"), "memory", [memory])


def _intact_memories(source: apsw.Connection, target: apsw.Connection) -> Iterator[Row]:
    """Yield the intact memory rows of the source, with the columns that the target has."""
    try:
        names, theirs = column_names(target, "memory"), column_names(source, "memory")
        if set(names) <= set(theirs):
            rows = ({name: row[name] for name in names} for _, row in iter_rows(source, "memory") if row)
            yield from filter(
                matches_checksum, rows
            )  # the checksum also matches without columns that only the source has
    except (apsw.Error, UnicodeError):
        return


def _copy_related_rows(source: apsw.Connection, target: apsw.Connection, memory: Row) -> None:
    for table in _MEMORY_TABLES:
        try:
            names = column_names(source, table)
            rows = source.execute(
                f"SELECT * FROM {table} WHERE project_id = ? AND memory_id = ?", (memory["project_id"], memory["id"])
            ).fetchall()
        except (apsw.Error, UnicodeError):
            continue
        if names == column_names(target, table):
            for row in (dict(zip(names, values, strict=True)) for values in rows):
                if "checksum" not in row or matches_checksum(row):
                    _add(target, table, row)


def _add(target: apsw.Connection, table: str, row: Row) -> bool:
    """Insert a row unless its key exists; return whether it was inserted."""
    placeholders = ", ".join(f":{name}" for name in row)
    target.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({placeholders})", row)
    return target.changes() == 1


# --- data loss ---------------------------------------------------------------------------


def _gap(old: Path, fresh: Path, health: HealthReport) -> DataLoss | None:
    """Count the records that the old database has and the fresh one lacks; None if the old one is unreadable."""
    added: dict[str, int] = {}
    changed: dict[str, int] = {}
    is_exact = all(_READABLE.search(problem) or is_index_problem(problem) for problem in health.problems)
    is_readable = False
    try:
        with closing(open_read_only(old)) as before, closing(open_read_only(fresh)) as after:
            for one, _, table, key, value in _COMPARED_RECORDS:
                before_values, could_read_all = _values_by_key(before, table, key, value)
                after_values, _ = _values_by_key(after, table, key, value)
                is_exact &= could_read_all
                is_readable |= could_read_all or bool(before_values)
                added[one] = sum(1 for name in before_values if name not in after_values)
                changed[one] = sum(
                    1 for name in before_values if after_values.get(name, before_values[name]) != before_values[name]
                )
    except (apsw.Error, UnicodeError):
        return None
    if not is_readable:
        return None
    gained = {name: count for name, count in added.items() if count}
    other = {name: count for name, count in changed.items() if count}
    return DataLoss(added=gained, changed=other, is_exact=is_exact)


def _loss_message(old: Path, gap: DataLoss | None, made_at: str) -> str:
    """Return a sentence that says which data is lost."""
    since = f"after {made_at} ({_age(made_at)} ago)"
    if gap is None:
        why = "is unreadable" if old.exists() else "is missing"
        return f"Everything added {since} is lost. The database {why}, so nobody knows how much that is."
    names = {one: many for one, many, *_ in _COMPARED_RECORDS}
    added = [_count_phrase(count, name, names[name]) for name, count in gap.added.items()]
    changed = [_count_phrase(count, name, names[name]) for name, count in gap.changed.items()]
    parts = [f"{_join(added)} added"] if added else []
    parts += [f"changes to {_join(changed)}"] if changed else []
    parts += [] if gap.is_exact else ["unreadable data"]
    if parts:
        return f"Lost: {_join(parts)} {since}."
    return f"No readable data is lost; the backup is from {made_at} ({_age(made_at)} ago)."


def _values_by_key(connection: apsw.Connection, table: str, key: str, value: str) -> tuple[dict[bytes, bytes], bool]:
    """Return the value of each row by its key, and whether all rows could be read."""
    values: dict[bytes, bytes] = {}
    # As bytes, so that invalid UTF-8 does not hide the rows after it; from both sides of a damaged page.
    sql = f"SELECT CAST(project_id || ' ' || {key} AS BLOB), CAST({value} AS BLOB) FROM {table} NOT INDEXED"
    for order in ("ASC", "DESC"):
        try:
            for row_key, content in connection.execute(f"{sql} ORDER BY rowid {order}"):
                values.setdefault(row_key, content)
        except apsw.SQLError:  # an older schema has no such table
            return values, True
        except apsw.Error:
            continue
        return values, True
    return values, False


def _count_phrase(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _join(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _age(made_at: str) -> str:
    from calendar import timegm

    seconds = max(0, int(time.time()) - timegm(time.strptime(made_at[:19], "%Y-%m-%dT%H:%M:%S")))
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{seconds // length} {name}" + ("s" if seconds >= 2 * length else "")
    return f"{seconds} second" + ("" if seconds == 1 else "s")
