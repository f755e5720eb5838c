"""Maintenance of a project's store: backups, restore, copies and reindexing.

Nothing here opens the project, because it has to work when a database file is damaged or missing. A database on a
server has to be reachable.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from pathlib import Path

from ralph.core.actor import current_actor
from ralph.core.config import Config, load_config
from ralph.core.errors import ProjectNotFoundError, RalphError, StoreError, UsageError
from ralph.core.records import record
from ralph.core.store_url import SQLITE_SCHEME, file_path, is_postgres
from ralph.store import open_database
from ralph.store.maintenance import backup, check, restore
from ralph.store.projects import ProjectStore
from ralph.workspace import (
    DATABASE,
    FOLDER,
    actor_at,
    actor_for_file,
    find_root,
    open_own_store,
    own_file,
    refuse_tracked,
    store_url,
    with_known_password,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.actor import Actor
    from ralph.store import Store
    from ralph.store.database import Database
    from ralph.store.maintenance.backup import Backup
    from ralph.store.maintenance.check import HealthReport
    from ralph.store.maintenance.copy import CopyResult
    from ralph.store.maintenance.restore import RestoreResult


@record
class BackupCheck:
    """Result of checking a backup file."""

    path: str
    problems: tuple[str, ...]


@record
class ReindexResult:
    """Number of indexed entries after a rebuild, and the time it took."""

    memories: int
    journal_entries: int
    reports: int
    seconds: float


def find_project(start: Path) -> Path:
    """Return the nearest directory, from `start` upwards, that is a project or has backups of one."""
    for directory in (start.absolute(), *start.absolute().parents):
        if os.path.exists(directory / FOLDER / DATABASE):  # noqa: PTH110
            break
        if os.path.isdir(directory / FOLDER / backup.BACKUP_FOLDER):  # noqa: PTH112
            return directory  # its database is missing; a project further up is a different one
    return Path(find_root(start))


# --- backups -------------------------------------------------------------------------------


def backup_project(root: Path, reason: str = "by hand", keep: int = backup.DEFAULT_KEEP) -> Backup:
    """Make a verified backup, and delete the oldest backups beyond `keep`."""
    _require("backup.create", root)
    if not is_on_server(root):
        return backup.make_backup(_database(root), reason, keep)
    with _store(root) as store:
        return backup.back_up_store(store, reason, keep)


def list_backups(root: Path) -> list[Backup]:
    """Return the readable backups, newest first."""
    return backup.readable_backups(_database(root))


def count_backups(root: Path) -> int:
    """Return the number of backups, including unreadable ones."""
    return len(backup.backup_paths(_database(root)))


def copy_folders(root: Path) -> list[str]:
    """Return the folders with copies of the database: backups, and what a restore replaced."""
    home = Path(_database(root)).parent
    folders = (home / backup.BACKUP_FOLDER, home / restore.DAMAGED_FOLDER)
    return [str(folder) for folder in folders if folder.is_dir() and any(folder.iterdir())]


def verify_backups(root: Path, name: str | None = None) -> list[BackupCheck]:
    """Check one backup, or all of them, newest first."""
    path = _database(root)
    paths = [backup.backup_path(path, name)] if name else backup.backup_paths(path)
    return [BackupCheck(path=found, problems=check.check_database(found).problems) for found in paths]


def preview_restore(root: Path, name: str | None = None) -> RestoreResult:
    """Return what a restore would do, without changing anything."""
    _refuse_tracked_backups(root, name)
    if not is_on_server(root):
        return restore.preview_restore(_database(root), name)
    with _store(root) as store:
        return restore.preview_project_restore(store, name)


def restore_project(root: Path, name: str | None = None) -> RestoreResult:
    """Replace the stored data with a backup and keep the replaced data; refuse during a run."""
    from ralph.loop.workers import is_run_active

    _refuse_tracked_backups(root, name)
    _require("backup.restore", root)
    if is_run_active(root):
        raise StoreError(
            "A run is active in this project, and its changes would be lost. Stop it first.", code="run-active"
        )
    if not is_on_server(root):
        return restore.restore(_database(root), name)
    with _store(root) as store:
        return restore.restore_project_rows(store, name)


def _refuse_tracked_backups(root: Path, name: str | None) -> None:
    """Raise `RalphError` if git tracks a backup that may be restored: it may come from somebody else."""
    path = _database(root)
    for candidate in [backup.backup_path(path, name)] if name else backup.backup_paths(path):
        refuse_tracked(candidate)


# --- checking ------------------------------------------------------------------------------


def check_project(root: Path, *, deep: bool = False) -> HealthReport:
    """Check the stored data of a project."""
    if not is_on_server(root):
        return check.check_database(_database(root), deep=deep)
    with _store(root) as store:
        return check.check_store(store, deep=deep)


def reindex_project(root: Path) -> ReindexResult:
    """Rebuild the search indexes from the texts, in one transaction."""
    from ralph.store.index import rebuild_indexes

    _require("store.reindex", root)
    started = time.perf_counter()
    if is_on_server(root):
        with _store(root) as store:
            counts = rebuild_indexes(store.database, store.project_id)
    else:
        with closing(open_database(_database(root))) as database:
            counts = rebuild_indexes(database)
    return ReindexResult(
        memories=counts["memory"],
        journal_entries=counts["attempt"],
        reports=counts["failure"],
        seconds=time.perf_counter() - started,
    )


# --- location ------------------------------------------------------------------------------


@record
class StoreLocation:
    """Database and project to copy from or to."""

    url: str
    project: str = ""
    direct_url: str = ""


@record
class StoreInfo:
    """Location and size of a project's data."""

    database: str
    """`sqlite` or `postgresql`."""
    where: str
    version: str
    schema: int
    project: str
    id: str
    rows: dict[str, int]


def show_store(root: Path) -> StoreInfo:
    """Return the location and size of a project's data."""
    from ralph.store.maintenance.copy import row_counts

    with _store(root) as store:
        about = check.database_info(store.database)
        project = store.projects.get(store.project_id)
        return StoreInfo(
            database=about.database,
            where=store.database.display_url,
            version=about.version,
            schema=about.schema,
            project=project.name,
            id=project.id,
            rows=row_counts(store.scope),
        )


def copy_store(source: str, target: str, project: str = "", name: str = "") -> list[CopyResult]:
    """Copy one project or all of them from one database to another; either may be given as a project directory."""
    from ralph.store.maintenance.copy import copy_project

    source_place, target_place = _place(source), _place(target)
    for place in (source_place, target_place):
        _actor_for(place).require("store.copy")
    with closing(_opened(source_place)) as reading:
        known, asked = ProjectStore(reading), project or source_place.project
        is_all = not asked and known.all()
        chosen = [*known.all(), *filter(None, [known.find_shared()])] if is_all else [known.resolve(asked)]
        with closing(_opened(target_place, create=True)) as writing:
            target_name = _name_in_target(writing, target_place, name)
            if target_name and len(chosen) > 1:
                raise UsageError(
                    f"{reading.display_url} has {len(chosen)} projects. Choose the one to copy with --project."
                )
            return [copy_project(reading, entry.id, writing, target_name) for entry in chosen]


def _actor_for(place: StoreLocation) -> Actor:
    """Return on whose behalf this process copies from or to a database."""
    return current_actor() if is_postgres(place.url) else actor_for_file(file_path(place.url))


def _name_in_target(database: Database, place: StoreLocation, name: str) -> str:
    """Return the name or id of the project in the target; empty if it keeps its own."""
    if Path(place.url).parent.name != FOLDER or not (known := ProjectStore(database).all()):
        return name or place.project
    # The file of a project directory has one project: no other one could be opened there.
    if name not in ("", known[0].name, known[0].id):
        raise UsageError(f"{place.url} belongs to the project of its directory, which is called {known[0].name}.")
    return known[0].id


def _place(location: str) -> StoreLocation:
    """Return the database for a URL, the path of a file, or a project directory."""
    if is_postgres(location):
        return StoreLocation(url=with_known_password(location))
    path = Path(file_path(location))
    if not path.is_dir():
        if not location.startswith(SQLITE_SCHEME) and "://" in location:
            raise UsageError(
                "A store must be a directory, a file, or a URL that begins with sqlite:/// or postgresql://."
            )
        return StoreLocation(url=str(path))
    path = path.parent if path.name == FOLDER else path
    config = load_config(path)
    url = store_url(path, config)
    if not config.store.url and not os.path.exists(url):  # noqa: PTH110
        raise ProjectNotFoundError(str(path))
    return StoreLocation(url=url, project=config.store.project, direct_url=config.store.direct_url)


def _opened(place: StoreLocation, *, create: bool = False) -> Database:
    return open_database(place.url, direct_url=place.direct_url, create=create)


def is_on_server(root: Path) -> bool:
    """Return whether the data of a project is on a server."""
    config = _config(root)
    return bool(config and is_postgres(config.store.url))


def _require(operation: str, root: Path) -> None:
    actor_at(root, _config(root)).require(operation)


@contextmanager
def _store(root: Path) -> Iterator[Store]:
    with closing(open_own_store(root, load_config(root))) as store:
        yield store


def _database(root: Path) -> str:
    """Return the path of the database file; for a project on a server, of the default one, next to its backups."""
    config = _config(root)
    if config and config.store.url and not is_postgres(config.store.url):
        return store_url(root, config)
    return own_file(root)


def _config(root: Path) -> Config | None:
    """Return the configuration, or None if it is unreadable but not needed because the default file exists."""
    try:
        return load_config(root)
    except RalphError:
        if os.path.exists(root / FOLDER / DATABASE):  # noqa: PTH110
            return None
        raise
