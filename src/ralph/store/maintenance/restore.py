"""Restore of a backup, merged with the intact memories of the damaged database.

Nothing is overwritten: what a restore replaces is moved to `damaged/` or saved as a backup, and its replacement is
complete and checked before anything is moved. On a server, the rows of one project are replaced in one transaction.
"""

from __future__ import annotations

import stat
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from ralph.core.errors import StoreError
from ralph.core.files import sync_folder
from ralph.core.records import record, replace
from ralph.store.database import ProjectScope
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
)
from ralph.store.maintenance.copy import replace_rows
from ralph.store.maintenance.loss import DataLoss, compute_loss, loss_message
from ralph.store.maintenance.recovery import recover_memories
from ralph.store.projects import ProjectStore, lock_tasks
from ralph.store.sqlite.driver import MIN_DATABASE_BYTES, SIDECARS, find_irregular_file, open_sqlite
from ralph.store.sync_state import RESTORED_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.store import Store

DAMAGED_FOLDER = "damaged"
"""Directory for databases that were replaced by a restore."""
WAIT_SECONDS = 30.0
"""Time to wait for other writers, in seconds."""


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
            saved_to = _swap(path, fresh)
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {error_text(error)}") from error
    if problems := check_database(database_path).problems:
        raise StoreError(f"{database_path} was restored, but reads back damaged. Check the disk: {problems[0]}")
    return replace(planned, saved_to=str(saved_to) if saved_to else "")


def preview_project_restore(store: Store, backup: str | None = None) -> RestoreResult:
    """Return what a restore would do to a project on a server, without changing anything."""
    try:
        with store.database.snapshot(), _prepared_rows(store, backup) as (_, _, planned):
            return planned
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing can be restored: {error_text(error)}") from error


def restore_project_rows(store: Store, backup: str | None = None) -> RestoreResult:
    """Replace the rows of a project on a server with those of a backup; keep the replaced rows.

    The backup and what is merged into it are chosen as by `restore`. Other writers of the project wait.
    """
    try:
        with store.transaction():
            lock_tasks(store.scope)
            with _prepared_rows(store, backup) as (present, fresh, planned):
                saved_to = _save_replaced_rows(Path(store.data_dir), present, is_intact=not planned.problems)
                with closing(open_sqlite(str(fresh))) as source:
                    replace_rows(ProjectScope(source, store.project_id), store.scope)
            return replace(planned, saved_to=str(saved_to))
    except (OSError, apsw.Error) as error:
        raise StoreError(f"Nothing was restored: {error_text(error)}") from error


@contextmanager
def _prepared_rows(store: Store, name: str | None) -> Iterator[tuple[Path, Path, RestoreResult]]:
    """Yield files with the current rows of a project and with those of a backup, and the plan of the restore."""
    store.database.extend_idle_timeout()
    # In a subdirectory, because opening a file creates others next to it that must not look like backups.
    parent = make_private_folder(Path(store.data_dir) / BACKUP_FOLDER)
    with tempfile.TemporaryDirectory(prefix=".", suffix=PARTIAL_SUFFIX, dir=parent) as inside:
        folder = Path(inside)
        chosen, skipped = _choose(str(Path(store.data_dir) / "ralph.db"), name)
        fresh = _extract_project(Path(chosen.path), folder, store, is_named=name is not None)
        present = copy_project_rows(store.scope, folder)
        health = check_database(str(present))
        recovered = recover_memories(str(present), str(fresh)) if health.problems and name is None else 0
        if problems := check_database(str(fresh)).problems:
            raise StoreError(f"The copy of {chosen.path} is damaged, so nothing was changed: {problems[0]}")
        yield present, fresh, _plan(present, fresh, health, chosen, recovered, skipped)


def _extract_project(backup: Path, folder: Path, store: Store, *, is_named: bool) -> Path:
    """Return a new, migrated file with the project of a store as it is in a backup.

    If the backup was named explicitly, it may be one of another project.
    """
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
        return copy_project_rows(ProjectScope(copy, found.id), folder, store.project_id)
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
    from ralph.store.sqlite.write_queue import WriterQueue

    try:
        queue = WriterQueue(str(path))
    except ImportError:  # no fcntl on this platform
        yield
        return
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
    gap = compute_loss(old, fresh, health) if old.exists() else None
    return RestoreResult(
        backup=chosen,
        loss_message=loss_message(old, gap, chosen.made_at),
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
