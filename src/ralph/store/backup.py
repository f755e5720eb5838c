"""Backups of a SQLite database, or of a project on a server, made while others work on.

Each is a SQLite file. A copy counts only once it was checked, and nothing is put over something else: each
backup has a name of its own, and only our own make room for a new one.
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

from ralph.errors import NotFoundError, StoreError, StoreTooNewError
from ralph.files import sync_folder
from ralph.records import now, record, replace, timestamp
from ralph.store.database import SCHEMA_VERSION
from ralph.store.health import SUM, check, file_digest, open_read_only, said
from ralph.text import slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.store import Store
    from ralph.store.copying import Tally
    from ralph.store.database import Scope

KEEP = 10
AUTOMATIC = "before"
"""So the reason of a backup starts that nobody asked for."""
DAILY = "daily"
"""The reason of a backup that a run makes when the newest one is old."""
FOLDER = "backups"
LEFTOVER_SECONDS = 24 * 3600.0
_NAME = re.compile(r"ralph-([0-9]{8})-([0-9]{6})(?:-([0-9]{1,6}))?(?:-(\D.*))?\.db")
PART = ".part"
"""The ending of what is not finished."""


@record
class Backup:
    """A copy of the database as it once was."""

    path: str
    made_at: str
    bytes: int
    reason: str
    memories: int
    attempts: int
    tasks: int
    schema: int


# --- making ------------------------------------------------------------------------------


def back_up(store: Store, reason: str, keep: int = KEEP) -> Backup:
    """Back up what a store is in: the whole file, or its project on a server; see `make_backup`."""
    if store.database.hindrance:
        raise store.database.hindrance  # and a second connection would wait for the lock of this one
    if not store.is_shared:
        return make_backup(store.database.where, reason, keep)
    if not store.home:
        raise StoreError("No backup was made: there is no working copy to put it into.")
    home = Path(store.home)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"No backup was made: {said(error)}") from error
    return _kept(home, lambda folder: copy_project_rows(store.scope, folder)[0], store.database.where, reason, keep)


def make_backup(database_path: str, reason: str, keep: int = KEEP) -> Backup:
    """Copy the database as it is now, check the copy, and keep it along with the newest others.

    Others may read and write meanwhile. A damaged database is not backed up, so no good backup makes room for it.
    """
    path = Path(database_path)
    _refuse_newer(path)
    return _kept(path.parent, lambda folder: copy_database(path, folder), database_path, reason, keep)


def _refuse_newer(path: Path) -> None:
    """Leave a database alone that a newer program has written: it is sound, and no older one should take its place."""
    try:
        with closing(open_read_only(path)) as connection:
            version = int(connection.pragma("user_version"))
    except (OSError, apsw.Error, UnicodeError):
        return  # what is wrong with it is told when it is copied
    if version > SCHEMA_VERSION:
        raise StoreTooNewError(str(path), version, SCHEMA_VERSION)


def _kept(home: Path, copy_into: Callable[[Path], Path], where: str, reason: str, keep: int) -> Backup:
    """Have a copy made, check it, and keep it along with the newest others."""
    try:
        folder = private_folder(home / FOLDER)
        copy = copy_into(folder)
        try:
            if problems := check(str(copy)).problems:
                raise StoreError(_refusal(where, problems[0]))
            made = described(copy)
            path = publish(copy, folder, reason)
        finally:
            copy.unlink(missing_ok=True)
        _rotate(folder, max(keep, 1), path)
    except (OSError, apsw.Error) as error:
        raise StoreError(f"No backup was made: {said(error)}") from error
    return replace(made, path=str(path), made_at=_made_at(path), reason=_reason(path))


def _refusal(path: str, problem: str) -> str:
    return f"No backup was made, because {path} is not sound: {problem} To bring back an older one: ralph restore"


def private_folder(folder: Path) -> Path:
    """Make a folder for its owner alone, which git passes over."""
    if folder.is_symlink():
        raise StoreError(f"{folder} is a link to another place. Put a folder there instead.")
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        sync_folder(folder.parent)
    return folder


def copy_database(source: Path, folder: Path) -> Path:
    """Copy a database as it is at this moment to a new file in a folder, durably."""
    if not source.exists():
        raise StoreError(f"The database {source} is missing. Bring back a backup with: ralph restore")
    target = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PART}"
    target.touch(mode=0o600, exist_ok=False)
    try:
        with closing(open_read_only(source)) as connection:
            # Not page by page: so the copy has no free pages, and no write-ahead log of its own.
            connection.execute("VACUUM INTO ?", (str(target),))
        sync_file(target)
    except (apsw.Error, UnicodeError) as error:
        target.unlink(missing_ok=True)
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            raise StoreError(_refusal(str(source), f"It cannot be read: {said(error)}")) from error
        raise StoreError(f"The database {source} cannot be copied: {said(error)}") from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def copy_project_rows(scope: Scope, folder: Path, project_id: str = "") -> tuple[Path, dict[str, Tally]]:
    """Copy a project as it is at this moment to a new database file in a folder, durably, there under an id or its own.

    Gives the file, and what stands for its rows. Rows that are damaged are copied as they are.
    """
    from ralph.store.copying import copy_rows
    from ralph.store.database import Scope
    from ralph.store.projects import Projects
    from ralph.store.sqlite import open_sqlite

    filled = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PART}"
    filled.touch(mode=0o600, exist_ok=False)
    try:
        database = open_sqlite(str(filled), create=True)
        try:
            with scope.database.snapshot(), database.transaction():
                scope.database.take_time()
                one = Projects(scope.database).get(scope.project_id)
                database.execute(
                    "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)",
                    id=project_id or one.id,
                    name=one.name,
                    at=one.created_at,
                )
                tallies = copy_rows(scope, Scope(database, project_id or one.id), {})
        finally:
            database.close()
        return copy_database(filled, folder), tallies
    finally:
        for path in (filled, *folder.glob(f"{filled.name}[.-]*")):  # with its log, and the queue of its writers
            path.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Make what is in a file durable."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def publish(copy: Path, folder: Path, reason: str) -> Path:
    """Give a checked copy its name, next to the checksum of the whole file; no name is given twice."""
    moment = moment_for_names()
    why = slug(reason, 40).lstrip("0123456789-") or "backup"
    digest = file_digest(copy)
    number = sum(1 for _ in folder.glob(f"ralph-{moment}*.db"))
    while True:
        number += 1
        path = folder / (f"ralph-{moment}-{why}.db" if number == 1 else f"ralph-{moment}-{number}-{why}.db")
        noted = Path(f"{path}{SUM}")
        if path.exists():
            continue
        try:
            noted.touch(mode=0o600, exist_ok=False)  # whoever makes this file has the name
        except FileExistsError:
            continue
        noted.write_text(f"{digest}  {path.name}\n", encoding="utf-8")
        sync_file(noted)
        copy.rename(path)
        sync_folder(folder)
        return path


def moment_for_names() -> str:
    """Give the present second as names of files and folders have it."""
    return now()[:19].replace("-", "").replace(":", "").replace("T", "-")


def _rotate(folder: Path, keep: int, newest: Path) -> None:
    """Remove our older backups beyond so many, and what killed processes left.

    Those a person asked for, those made before a change and those of every day are counted apart.
    """
    ours = [
        path
        for path in _files(folder)
        if _NAME.fullmatch(path.name) and path != newest and _sort(path) == _sort(newest)
    ]
    left = [path for path in folder.glob(f".*{PART}*") if _is_left(path)]
    left += [path for path in folder.glob(f"*{SUM}") if not path.with_suffix("").exists() and _is_left(path)]
    for path in (*ours[keep - 1 :], *left):
        try:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
                continue
            path.unlink(missing_ok=True)
            Path(f"{path}{SUM}").unlink(missing_ok=True)
        except OSError:
            continue  # one too many is no harm


def _sort(path: Path) -> str:
    """Give what sort of backup it is, by its reason."""
    first = _reason(path).partition(" ")[0]
    return first if first in (AUTOMATIC, DAILY) else ""


def _is_left(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > LEFTOVER_SECONDS
    except OSError:
        return False


# --- listing -----------------------------------------------------------------------------


def backups(database_path: str) -> list[Backup]:
    """Give the backups that can be read, newest first. Whether they are sound, `check` says."""
    found = []
    for path in _files(Path(database_path).parent / FOLDER):
        try:
            found.append(described(path))
        except (apsw.Error, OSError, UnicodeError):
            continue
    return found


def backup_paths(database_path: str) -> list[str]:
    """Give the path of every backup, newest first, also of those that cannot be read."""
    return [str(path) for path in _files(Path(database_path).parent / FOLDER)]


def moments(database_path: str) -> list[str]:
    """Give when the backups were made, newest first."""
    return [_made_at(path) for path in _files(Path(database_path).parent / FOLDER)]


def backup_path(database_path: str, name: str) -> str:
    """Give the path of a backup by its name or path, or say that there is none."""
    folder = Path(database_path).parent / FOLDER
    places = [Path(name)] if os.sep in name else [folder / name, folder / f"{name}.db"]
    for place in places:
        try:
            if place.is_file():
                return str(place)
        except OSError:  # no file has such a name
            continue
    raise NotFoundError("Backup", name)


def _files(folder: Path) -> list[Path]:
    """Give the databases in a folder, newest first; what only links to one is none, nor is a folder that is a link."""
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


def described(path: Path) -> Backup:
    """Say what is in a backup; whether it is sound is not looked at."""
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
