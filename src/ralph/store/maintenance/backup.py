"""Backups of a SQLite database or of a project on a server.

Each is a SQLite file, made while others keep writing. A copy becomes a backup only after it was checked. Nothing is
overwritten: each backup has its own name, and only Ralph's own backups are rotated.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from contextlib import closing
from pathlib import Path

import apsw

from ralph.core.errors import NotFoundError, StoreError, StoreTooNewError
from ralph.core.files import sync_folder
from ralph.core.records import now, record, replace, timestamp
from ralph.core.text import slugify
from ralph.core.tracking import report_progress
from ralph.store.database import SCHEMA_VERSION
from ralph.store.maintenance.check import CHECKSUM_SUFFIX, check_database, error_text, file_digest, open_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.store import Store
    from ralph.store.database import ProjectScope

DEFAULT_KEEP = 10
"""Default number of backups to keep, per kind."""
AUTOMATIC_REASON = "before"
"""First word of the reason of a backup that is made before a change."""
DAILY_REASON = "daily"
"""Reason of the backup that a run makes when the newest one is old."""
BACKUP_FOLDER = "backups"
LEFTOVER_SECONDS = 24 * 3600.0
"""Age at which unfinished files of killed processes are deleted, in seconds."""
_NAME = re.compile(r"ralph-([0-9]{8})-([0-9]{6})(?:-([0-9]{1,6}))?(?:-(\D.*))?\.db")
PARTIAL_SUFFIX = ".part"
"""Suffix of unfinished files."""


@record
class Backup:
    """Backup file and its contents."""

    path: str
    made_at: str
    bytes: int
    reason: str
    memories: int
    attempts: int
    tasks: int
    schema: int


# --- making ------------------------------------------------------------------------------


def back_up_store(store: Store, reason: str, keep: int = DEFAULT_KEEP) -> Backup:
    """Back up the whole database file, or the project on a server; see `make_backup`."""
    if store.database.write_error:
        raise store.database.write_error  # a second connection would wait for the lock of this one
    if not store.is_shared:
        return make_backup(store.database.display_url, reason, keep)
    if not store.data_dir:
        raise StoreError("No backup was made: there is no working copy to store it in.")
    home = Path(store.data_dir)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"No backup was made: {error_text(error)}") from error
    return _save(home, lambda folder: copy_project_rows(store.scope, folder), store.database.display_url, reason, keep)


def make_backup(database_path: str, reason: str, keep: int = DEFAULT_KEEP) -> Backup:
    """Back up a database file, and delete the oldest backups beyond `keep`.

    Others may read and write meanwhile. A damaged database is not backed up, so that it never displaces a good backup.
    """
    path = Path(database_path)
    _refuse_newer(path)
    return _save(path.parent, lambda folder: copy_database(path, folder), database_path, reason, keep)


def _refuse_newer(path: Path) -> None:
    """Refuse a database of a newer version: it is not damaged, so `ralph restore` would be the wrong advice."""
    try:
        with closing(open_read_only(path)) as connection:
            version = int(connection.pragma("user_version"))
    except (OSError, apsw.Error, UnicodeError):
        return  # copying it reports the error
    if version > SCHEMA_VERSION:
        raise StoreTooNewError(str(path), version, SCHEMA_VERSION)


def _save(home: Path, copy_into: Callable[[Path], Path], where: str, reason: str, keep: int) -> Backup:
    """Make a copy, check it and publish it as a backup, and delete the oldest backups beyond `keep`."""
    try:
        folder = make_private_folder(home / BACKUP_FOLDER)
        copy = copy_into(folder)
        try:
            if problems := check_database(str(copy)).problems:
                raise StoreError(_refusal(where, problems[0]))
            made = read_backup(copy)
            path = publish(copy, folder, reason)
        finally:
            copy.unlink(missing_ok=True)
        _rotate(folder, max(keep, 1), path)
    except (OSError, apsw.Error) as error:
        raise StoreError(f"No backup was made: {error_text(error)}") from error
    return replace(made, path=str(path), made_at=_made_at(path), reason=_reason(path))


def _refusal(path: str, problem: str) -> str:
    return f"No backup was made, because {path} is damaged: {problem} To restore an older one: ralph restore"


def make_private_folder(folder: Path) -> Path:
    """Create a directory that only its owner can read and that git ignores."""
    if folder.is_symlink():
        raise StoreError(f"{folder} is a symbolic link. Replace it with a directory.")
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        sync_folder(folder.parent)
    return folder


def copy_database(source: Path, folder: Path) -> Path:
    """Copy a consistent snapshot of a database to a new file in a directory, and sync it to disk."""
    if not source.exists():
        raise StoreError(
            f"The database {source} does not exist. Restore a backup with: ralph restore", code="store-missing"
        )
    target = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PARTIAL_SUFFIX}"
    target.touch(mode=0o600, exist_ok=False)
    try:
        with closing(open_read_only(source)) as connection:
            report_progress("Copying the database")
            # Unlike a page-by-page copy, the result has no free pages and no write-ahead log.
            connection.execute("VACUUM INTO ?", (str(target),))
        sync_file(target)
    except (apsw.Error, UnicodeError) as error:
        target.unlink(missing_ok=True)
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            raise StoreError(_refusal(str(source), f"It cannot be read: {error_text(error)}")) from error
        raise StoreError(f"The database {source} cannot be copied: {error_text(error)}") from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def copy_project_rows(scope: ProjectScope, folder: Path, project_id: str = "") -> Path:
    """Copy a consistent snapshot of a project to a new database file, under `project_id` or its own id.

    Damaged rows are copied as they are.
    """
    from ralph.store.database import ProjectScope
    from ralph.store.maintenance.copy import copy_rows
    from ralph.store.projects import ProjectStore
    from ralph.store.sqlite.driver import open_sqlite

    temporary = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PARTIAL_SUFFIX}"
    temporary.touch(mode=0o600, exist_ok=False)
    try:
        database = open_sqlite(str(temporary), create=True)
        try:
            with scope.database.snapshot(), database.transaction():
                scope.database.extend_idle_timeout()
                project = ProjectStore(scope.database).get(scope.project_id)
                ProjectStore(database).insert(project_id or project.id, project.name, project.created_at)
                copy_rows(scope, ProjectScope(database, project_id or project.id), {})
        finally:
            database.close()
        return copy_database(temporary, folder)
    finally:
        for path in (temporary, *folder.glob(f"{temporary.name}[.-]*")):  # with its log and lock files
            path.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Sync a file to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def publish(copy: Path, folder: Path, reason: str) -> Path:
    """Rename a checked copy to a new backup, and write its checksum next to it."""
    time_part = timestamp_for_filename()
    reason_part = slugify(reason, 40).lstrip("0123456789-") or "backup"
    digest = file_digest(copy)
    number = sum(1 for _ in folder.glob(f"ralph-{time_part}*.db"))
    while True:
        number += 1
        path = folder / (
            f"ralph-{time_part}-{reason_part}.db" if number == 1 else f"ralph-{time_part}-{number}-{reason_part}.db"
        )
        sum_path = Path(f"{path}{CHECKSUM_SUFFIX}")
        if path.exists():
            continue
        try:
            sum_path.touch(mode=0o600, exist_ok=False)  # creating this file reserves the name
        except FileExistsError:
            continue
        sum_path.write_text(f"{digest}  {path.name}\n", encoding="utf-8")
        sync_file(sum_path)
        copy.rename(path)
        sync_folder(folder)
        return path


def timestamp_for_filename() -> str:
    """Return the current time as used in file names."""
    return now()[:19].replace("-", "").replace(":", "").replace("T", "-")


def _rotate(folder: Path, keep: int, newest: Path) -> None:
    """Delete the oldest backups beyond `keep`, and files left by killed processes.

    Manual backups, daily backups and those made before a change are counted separately.
    """
    same_kind = [
        path
        for path in _files(folder)
        if _NAME.fullmatch(path.name) and path != newest and _kind(path) == _kind(newest)
    ]
    leftovers = [path for path in folder.glob(f".*{PARTIAL_SUFFIX}*") if _is_leftover(path)]
    leftovers += [
        path for path in folder.glob(f"*{CHECKSUM_SUFFIX}") if not path.with_suffix("").exists() and _is_leftover(path)
    ]
    for path in (*same_kind[keep - 1 :], *leftovers):
        try:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
                continue
            path.unlink(missing_ok=True)
            Path(f"{path}{CHECKSUM_SUFFIX}").unlink(missing_ok=True)
        except OSError:
            continue  # an extra backup does no harm


def _kind(path: Path) -> str:
    first = _reason(path).partition(" ")[0]
    return first if first in (AUTOMATIC_REASON, DAILY_REASON) else ""


def _is_leftover(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > LEFTOVER_SECONDS
    except OSError:
        return False


# --- listing -----------------------------------------------------------------------------


def readable_backups(database_path: str) -> list[Backup]:
    """Return the readable backups, newest first, without checking them for damage."""
    found = []
    for path in _files(Path(database_path).parent / BACKUP_FOLDER):
        try:
            found.append(read_backup(path))
        except (apsw.Error, OSError, UnicodeError):
            continue
    return found


def backup_paths(database_path: str) -> list[str]:
    """Return the paths of all backups, newest first, including unreadable ones."""
    return [str(path) for path in _files(Path(database_path).parent / BACKUP_FOLDER)]


def backup_times(database_path: str) -> list[str]:
    """Return the times of all backups, newest first."""
    return [_made_at(path) for path in _files(Path(database_path).parent / BACKUP_FOLDER)]


def backup_path(database_path: str, name: str) -> str:
    """Return the path of a backup by its name or path, or raise `NotFoundError`."""
    folder = Path(database_path).parent / BACKUP_FOLDER
    candidates = [Path(name)] if os.sep in name else [folder / name, folder / f"{name}.db"]
    for candidate in candidates:
        try:
            if candidate.is_file():
                return str(candidate)
        except OSError:  # not a valid file name
            continue
    raise NotFoundError("Backup", name)


def _files(folder: Path) -> list[Path]:
    """Return the database files in a directory, newest first, without following symbolic links."""
    if folder.is_symlink():
        return []
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".db" and stat.S_ISREG(path.lstat().st_mode)]
    except OSError:
        return []
    return sorted(found, key=_age_order, reverse=True)


def _age_order(path: Path) -> tuple[str, int, str]:
    match = _NAME.fullmatch(path.name)
    return _made_at(path), int(match[3] or 1) if match else 0, path.name


def _made_at(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    if match:
        try:
            from calendar import timegm

            return timestamp(timegm(time.strptime(match[1] + match[2], "%Y%m%d%H%M%S")))
        except ValueError:
            pass
    return timestamp(path.lstat().st_mtime)


def _reason(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return (match[4] or "").replace("-", " ") if match else ""


def read_backup(path: Path) -> Backup:
    """Return the details of a backup, without checking it for damage."""
    with closing(open_read_only(path)) as connection:
        counts: tuple[Any, ...] = connection.execute(
            """
            SELECT (SELECT COUNT(*) FROM memory WHERE state = 'active'), (SELECT COUNT(*) FROM attempts),
                (SELECT COUNT(*) FROM tasks)
            """
        ).fetchall()[0]
        return Backup(
            path=str(path),
            made_at=_made_at(path),
            bytes=path.stat().st_size,
            reason=_reason(path),
            memories=counts[0],
            attempts=counts[1],
            tasks=counts[2],
            schema=int(connection.pragma("user_version")),
        )
