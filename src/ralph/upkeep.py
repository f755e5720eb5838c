"""Looking after a project's database: backups, bringing one back, and making its indexes anew.

None of this opens the project, because it has to work when the database cannot be
opened, or is gone.
"""

from __future__ import annotations

import os
import time

from ralph.project import DATABASE, FOLDER, find_root
from ralph.records import record
from ralph.store import backup, health, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store.backup import Backup
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
    return find_root(start)


def backup_project(root: Path, reason: str = "by hand", keep: int = backup.KEEP) -> Backup:
    """Make a verified backup and keep it with the newest others."""
    return backup.make_backup(_database(root), reason, keep)


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


def check_project(root: Path, *, deep: bool = False) -> Health:
    """Say what is wrong with the database."""
    return health.check(_database(root), deep=deep)


def reindex_project(root: Path) -> Reindexed:
    """Make the search indexes anew from the texts, in one change."""
    from ralph.store.index import rebuild
    from ralph.store.sqlite import open_sqlite

    begin = time.perf_counter()
    database = open_sqlite(_database(root))
    try:
        counts = rebuild(database)
    finally:
        database.close()
    return Reindexed(
        memories=counts["memory"],
        journal_entries=counts["attempt"],
        reports=counts["failure"],
        seconds=time.perf_counter() - begin,
    )


def preview_restore(root: Path, name: str | None = None) -> Restored:
    """Say what a restore would do, and do nothing."""
    return restore.preview_restore(_database(root), name)


def restore_project(root: Path, name: str | None = None) -> Restored:
    """Put a backup in the place of the database, which is kept."""
    return restore.restore(_database(root), name)


def _database(root: Path) -> str:
    return str(root / FOLDER / DATABASE)
