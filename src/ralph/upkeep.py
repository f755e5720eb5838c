"""Looking after a project's store: backups, bringing one back, copying it elsewhere, and making its indexes anew.

None of this opens the project, because it has to work when a database file cannot be
opened, or is gone. What is on a server can only be looked after when that can be reached.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from pathlib import Path

from ralph.config import Config, load_config
from ralph.errors import ProjectNotFoundError, RalphError, StoreError, UsageError
from ralph.location import DATABASE, FOLDER, find_root, open_own_store, own_file, store_url, with_known_password
from ralph.records import record
from ralph.store import backup, health, open_database, restore
from ralph.store.projects import Projects
from ralph.store.url import SQLITE, file_path, is_postgres

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.store import Store
    from ralph.store.backup import Backup
    from ralph.store.copying import Copied, Tell
    from ralph.store.database import Database
    from ralph.store.health import Health
    from ralph.store.restore import Restored


@record
class Verified:
    """A backup file, and what is wrong with it."""

    path: str
    problems: tuple[str, ...]


@record
class Reindexed:
    """How much the search indexes hold now, and how long it took to make them."""

    memories: int
    journal_entries: int
    reports: int
    seconds: float


def find_project(start: Path) -> Path:
    """Give the nearest directory, from here upwards, that is a project or has the backups of one."""
    for directory in (start.absolute(), *start.absolute().parents):
        if os.path.exists(directory / FOLDER / DATABASE):  # noqa: PTH110
            break
        if os.path.isdir(directory / FOLDER / backup.FOLDER):  # noqa: PTH112
            return directory  # its database is gone; one further up is not the one that is meant
    return Path(find_root(start))


# --- backups -------------------------------------------------------------------------------


def backup_project(root: Path, reason: str = "by hand", keep: int = backup.KEEP) -> Backup:
    """Make a verified backup and keep it with the newest others."""
    if not is_on_server(root):
        return backup.make_backup(_database(root), reason, keep)
    with _store(root) as store:
        return backup.back_up(store, reason, keep)


def list_backups(root: Path) -> list[Backup]:
    """Give the backups that can be read, newest first."""
    return backup.backups(_database(root))


def count_backups(root: Path) -> int:
    """Give the number of backups, also of those that cannot be read."""
    return len(backup.backup_paths(_database(root)))


def verify_backups(root: Path, name: str | None = None) -> list[Verified]:
    """Check every backup, newest first, or one."""
    path = _database(root)
    paths = [backup.backup_path(path, name)] if name else backup.backup_paths(path)
    return [Verified(path=one, problems=health.check(one).problems) for one in paths]


def preview_restore(root: Path, name: str | None = None) -> Restored:
    """Say what a restore would do, and do nothing."""
    if not is_on_server(root):
        return restore.preview_restore(_database(root), name)
    with _store(root) as store:
        return restore.preview_rows(store, name)


def restore_project(root: Path, name: str | None = None) -> Restored:
    """Put a backup in the place of what is stored, which is kept; not while a run is at work."""
    if not is_on_server(root):
        from ralph.loop.workers import is_run_at_work

        if is_run_at_work(root):
            raise StoreError("A run is at work in this project, and what it does would be lost. Stop it first.")
        return restore.restore(_database(root), name)
    with _store(root) as store:
        return restore.restore_rows(store, name)


# --- checking ------------------------------------------------------------------------------


def check_project(root: Path, *, deep: bool = False) -> Health:
    """Say what is wrong with what is stored."""
    if not is_on_server(root):
        return health.check(_database(root), deep=deep)
    with _store(root) as store:
        return health.check_store(store, deep=deep)


def reindex_project(root: Path) -> Reindexed:
    """Make the search indexes anew from the texts, in one change."""
    from ralph.store.index import forget_worked_out, rebuild
    from ralph.store.vectors import compare_on_server

    begin = time.perf_counter()
    if is_on_server(root):
        with _store(root) as store:
            counts = rebuild(store.database, store.project_id)
            compare_on_server(store.database)
    else:
        wrong = health.worked_out_wrong(_database(root))
        with closing(open_database(_database(root))) as database, database.transaction():
            forget_worked_out(database, wrong)
            counts = rebuild(database)
    return Reindexed(
        memories=counts["memory"],
        journal_entries=counts["attempt"],
        reports=counts["failure"],
        seconds=time.perf_counter() - begin,
    )


# --- where it is ---------------------------------------------------------------------------


@record
class Place:
    """A database that something is copied from or to, and the project there that is meant."""

    url: str
    project: str = ""
    direct_url: str = ""


@record
class StoreShown:
    """Where a project is kept, and how much of it there is."""

    database: str
    """`sqlite` or `postgresql`."""
    where: str
    version: str
    schema: int
    project: str
    id: str
    pgvector: str
    """Its version; empty when it is not used."""
    rows: dict[str, int]


def show_store(root: Path) -> StoreShown:
    """Say where a project is kept, and how much of it there is."""
    from ralph.store.copying import row_counts

    with _store(root) as store:
        about = health.about(store.database)
        one = store.projects.get(store.project_id)
        return StoreShown(
            database=about.database,
            where=store.database.where,
            version=about.version,
            schema=about.schema,
            project=one.name,
            id=one.id,
            pgvector=about.pgvector,
            rows=row_counts(store.scope),
        )


def copy_store(
    source: str, target: str, project: str = "", name: str = "", tell: Tell = lambda *_: None
) -> list[Copied]:
    """Copy a project, or all there are, from one database to another; each may be a project directory."""
    from ralph.store.copying import copy_project

    ours, theirs = _place(source), _place(target)
    with closing(_opened(ours)) as reading:
        known, asked = Projects(reading), project or ours.project
        is_all = not asked and known.all()
        chosen = [*known.all(), *filter(None, [known.shared()])] if is_all else [known.named(asked)]
        with closing(_opened(theirs, create=True)) as writing:
            here = _name_there(writing, theirs, name)
            if here and len(chosen) > 1:
                raise UsageError(f"{reading.where} holds {len(chosen)} projects. Say with --project which one to copy.")
            return [copy_project(reading, one.id, writing, here, tell) for one in chosen]


def _name_there(database: Database, place: Place, name: str) -> str:
    """Give the name or id a project is to have in a database; nothing when it keeps its own."""
    if Path(place.url).parent.name != FOLDER or not (known := Projects(database).all()):
        return name or place.project
    # The file of a directory is for one project: no other one could be opened there.
    if name not in ("", known[0].name, known[0].id):
        raise UsageError(f"{place.url} is for the project of its directory, which is called {known[0].name}.")
    return known[0].id


def _place(given: str) -> Place:
    """Give the database that is meant by a URL, the path of a file, or a project directory."""
    if is_postgres(given):
        return Place(url=with_known_password(given))
    path = Path(file_path(given))
    if not path.is_dir():
        if not given.startswith(SQLITE) and "://" in given:
            raise UsageError("A store is a directory, a file or a URL that begins with sqlite:/// or postgresql://.")
        return Place(url=str(path))
    path = path.parent if path.name == FOLDER else path
    config = load_config(path)
    url = store_url(path, config)
    if not config.store.url and not os.path.exists(url):  # noqa: PTH110
        raise ProjectNotFoundError(str(path))
    return Place(url=url, project=config.store.project, direct_url=config.store.direct_url)


def _opened(place: Place, *, create: bool = False) -> Database:
    return open_database(place.url, direct_url=place.direct_url, create=create)


def is_on_server(root: Path) -> bool:
    """Say whether a project is kept on a server."""
    config = _config(root)
    return bool(config and is_postgres(config.store.url))


@contextmanager
def _store(root: Path) -> Iterator[Store]:
    with closing(open_own_store(root, load_config(root))) as store:
        yield store


def _database(root: Path) -> str:
    """Give the path of the database file; on a server that of one that would be there, where its backups are."""
    config = _config(root)
    if config and config.store.url and not is_postgres(config.store.url):
        return store_url(root, config)
    return own_file(root)


def _config(root: Path) -> Config | None:
    """Give the settings; none when they cannot be read but the file is there: then they are not needed."""
    try:
        return load_config(root)
    except RalphError:
        if os.path.exists(root / FOLDER / DATABASE):  # noqa: PTH110
            return None
        raise
