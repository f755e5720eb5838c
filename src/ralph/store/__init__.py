"""Store of a project's tasks, attempts and memories, in a SQLite file or a PostgreSQL database.

`open_store` returns a `Store` for one thread; every other thread opens its own. A write is durable when the method
that makes it returns.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading takes a millisecond to load

from ralph.core.errors import RalphError, StoreError
from ralph.core.store_url import file_path, is_postgres
from ralph.store.database import ProjectScope, split_files_mark
from ralph.store.projects import ProjectStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from ralph.store.attempts import AttemptStore
    from ralph.store.database import ChangeWatch, Database
    from ralph.store.episodes import EpisodeStore
    from ralph.store.failures import FailureStore
    from ralph.store.features import FeatureStore
    from ralph.store.held_changes import HeldChangeStore
    from ralph.store.memories import MemoryStore
    from ralph.store.projects import ProjectEntry
    from ralph.store.questions import QuestionStore
    from ralph.store.run_events import RunEventFeed
    from ralph.store.runs import RunStore
    from ralph.store.sessions import SessionStore
    from ralph.store.stats import StatsStore
    from ralph.store.tasks import TaskStore
    from ralph.store.timeline import Timeline
    from ralph.store.title_search import TitleSearch

    R = TypeVar("R")


class FigureCache:
    """Latest value of each figure. Threads may share it: one computes a figure, and the others wait for it.

    Values are shared too, so they must not be changed.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._locks: dict[str, LockType] = {}
        self._values: dict[str, tuple[object, object]] = {}

    def get(self, name: str, version: object, compute: Callable[[], R]) -> R:
        """Return a figure of a version of the data, such as the number of its latest event."""
        with self._lock:
            lock = self._locks.setdefault(name, allocate_lock())
        with lock:
            known = self._values.get(name)
            if known is None or known[0] != version:
                known = self._values[name] = version, compute()
            return known[1]  # type: ignore[return-value]


class Store:
    """One project's records in one database."""

    def __init__(self, database: Database, project_id: str, reopen: Callable[[], Store] | None = None) -> None:
        self.database = database
        self._reopen = reopen
        self.project_id = project_id
        self.is_external = False
        """Whether the database file is outside the working copy it was opened for."""
        self.data_dir = ""
        """Directory in the working copy that receives backups of a project on a server."""
        self.scope = ProjectScope(database, project_id)
        self.figures = FigureCache()
        """Figures that take long to compute; threads of a server share them."""

    # Imported on first use: a typical command needs only one or two of these, and startup time matters.

    @property
    def tasks(self) -> TaskStore:
        """Tasks, their graph, progress and claims."""
        from ralph.store.tasks import TaskStore

        return TaskStore(self.scope)

    @property
    def titles(self) -> TitleSearch:
        """Tasks and runs by parts of their names."""
        from ralph.store.title_search import TitleSearch

        return TitleSearch(self.scope)

    @property
    def timeline(self) -> Timeline:
        """Sessions, attempts and commits in order of time."""
        from ralph.store.timeline import Timeline

        return Timeline(self.scope)

    @property
    def features(self) -> FeatureStore:
        """Features that tasks belong to."""
        from ralph.store.features import FeatureStore

        return FeatureStore(self.scope)

    @property
    def runs(self) -> RunStore:
        """Runs of the loop."""
        from ralph.store.runs import RunStore

        return RunStore(self.scope)

    @property
    def attempts(self) -> AttemptStore:
        """Attempts at tasks, which make up the journal."""
        from ralph.store.attempts import AttemptStore

        return AttemptStore(self.scope)

    @property
    def failures(self) -> FailureStore:
        """Failure reports."""
        from ralph.store.failures import FailureStore

        return FailureStore(self.scope)

    @property
    def held_changes(self) -> HeldChangeStore:
        """Changes to protected files that wait for a person."""
        from ralph.store.held_changes import HeldChangeStore

        return HeldChangeStore(self.scope)

    @property
    def questions(self) -> QuestionStore:
        """What agents asked a person, with the answers."""
        from ralph.store.questions import QuestionStore

        return QuestionStore(self.scope)

    @property
    def events(self) -> RunEventFeed:
        """Event feed of runs and tasks."""
        from ralph.store.run_events import RunEventFeed

        return RunEventFeed(self.scope)

    @property
    def stats(self) -> StatsStore:
        """Statistics over attempts."""
        from ralph.store.stats import StatsStore

        return StatsStore(self.scope)

    @property
    def sessions(self) -> SessionStore:
        """Agent sessions outside the loop."""
        from ralph.store.sessions import SessionStore

        return SessionStore(self.scope)

    @property
    def memories(self) -> MemoryStore:
        """Memories, their index, history and statistics."""
        from ralph.store.memories import MemoryStore

        return MemoryStore(self.scope)

    @property
    def episodes(self) -> EpisodeStore:
        """Passages of past sessions, attempts and commits."""
        from ralph.store.episodes import EpisodeStore

        return EpisodeStore(self.scope)

    def find_texts(self, fragments: Sequence[str]) -> list[str]:
        """Return the texts of memories, tasks and features that hold one of some fragments, in lower case."""
        from ralph.store.stored_texts import find_texts

        return find_texts(self.scope, fragments)

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block in one transaction: everything is committed, or nothing."""
        return self.scope.transaction()

    @property
    def projects(self) -> ProjectStore:
        """All projects in this database."""
        return ProjectStore(self.database)

    @property
    def project_name(self) -> str:
        """Name of the project."""
        return self.projects.get(self.project_id).name

    @property
    def is_shared(self) -> bool:
        """Whether several machines may use this store."""
        return self.database.is_server

    @property
    def has_multiple_checkouts(self) -> bool:
        """Whether several working copies may use this store, each of which syncs its files separately."""
        return self.is_shared or self.is_external

    def last_file_sync(self, place: str) -> tuple[str, str, int]:
        """Return fingerprint and layout of the memory files of a working copy at the last sync, and its held entries.

        An entry is held if its file went back in time.
        """
        rows = self.scope.query(
            "SELECT files_mark FROM synced_places WHERE project_id = :project_id AND place = :place", place=place
        )
        return split_files_mark(rows[0]["files_mark"]) if rows else ("", "", 0)

    def watch(self, *topics: str) -> ChangeWatch:
        """Return a watch for changes to `tasks`, `memory_events` or `run_events` of this project."""
        return self.database.watch(self.project_id, *topics)

    def backup(self, reason: str) -> str:
        """Back up the whole file, or the project on a server, and return the path of the verified backup."""
        from ralph.store.maintenance.backup import back_up_store

        return back_up_store(self, reason).path

    def for_project(self, project_id: str) -> Store:
        """Return the store of another project in this database, on the same connection."""
        return Store(self.database, project_id, lambda: self.reopen().for_project(project_id))

    def reopen(self) -> Store:
        """Open the same store again, for another thread."""
        assert self._reopen is not None
        reopened = self._reopen()
        reopened.data_dir = self.data_dir
        reopened.is_external = self.is_external
        return reopened

    def close(self) -> None:
        """Close the database connection."""
        self.database.close()


def open_database(url: str, *, direct_url: str = "", create: bool = False, may_only_read: bool = False) -> Database:
    """Open a database by path or URL, migrating its tables first.

    If `may_only_read` is true, a file on a full or read-only disk is opened read-only instead of being refused.
    """
    if is_postgres(url):
        try:
            from ralph.store.postgres.driver import open_postgres
        except ImportError:
            from ralph.core.extras import install_hint

            raise StoreError(f"The PostgreSQL driver is not installed: {install_hint('postgres')}") from None
        return open_postgres(url, direct_url=direct_url, create=create)
    from ralph.store.sqlite.driver import open_sqlite

    return open_sqlite(file_path(url), create=create, allow_read_only=may_only_read)


def open_store(
    url: str, project: str = "", *, direct_url: str = "", is_own: bool = False, may_only_read: bool = False
) -> Store:
    """Open a project by name or id; without one, the only project in the database.

    If `is_own` is true, the file belongs to this project alone and its only project is opened whatever its name.
    """
    database = open_database(url, direct_url=direct_url, may_only_read=may_only_read)
    try:
        return _store(database, ProjectStore(database).resolve(project, is_own=is_own), url, direct_url)
    except RalphError:
        database.close()
        raise


def create_store(url: str, name: str, *, direct_url: str = "") -> Store:
    """Open a project by name, creating the database and the project if necessary.

    A file that already contains a project is opened as it is, whatever the name of that project.
    """
    database = open_database(url, direct_url=direct_url, create=True)
    try:
        with database.transaction():
            projects = ProjectStore(database)
            existing = projects.all()
            project = projects.find(name) or (existing[0] if existing and not is_postgres(url) else projects.add(name))
        return _store(database, project, url, direct_url)
    except RalphError:
        database.close()
        raise


def _store(database: Database, project: ProjectEntry, url: str, direct_url: str) -> Store:
    if project.copying:
        from ralph.store.maintenance.copy import unfinished_copy_error

        raise unfinished_copy_error(database, project)
    return Store(database, project.id, lambda: open_store(url, project.id, direct_url=direct_url))
