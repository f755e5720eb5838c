"""The store: tasks, attempts and memories of a project, in a database that may hold several.

A database is a SQLite file or on a PostgreSQL server, told apart by where it is. `open_store` gives a `Store` for
one thread; another thread opens its own. What a method acknowledges is durable when it returns.
"""

from __future__ import annotations

from ralph.errors import RalphError, StoreError
from ralph.store.database import Scope
from ralph.store.projects import Projects
from ralph.store.url import file_path, is_postgres

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ralph.store.attempts import Attempts
    from ralph.store.database import Database, Watch
    from ralph.store.features import Features
    from ralph.store.memories import Memories
    from ralph.store.projects import ProjectEntry
    from ralph.store.run_events import RunEvents
    from ralph.store.sessions import Sessions
    from ralph.store.sums import Sums
    from ralph.store.tasks import Tasks


class Store:
    """One project's records in one database."""

    def __init__(self, database: Database, project_id: str, reopen: Callable[[], Store] | None = None) -> None:
        self.database = database
        self._reopen = reopen
        self.project_id = project_id
        self.is_elsewhere = False
        """Whether it is a file that is not in the working copy it was opened for."""
        self.home = ""
        """The folder of the working copy where backups of a server's records go."""
        self.scope = Scope(database, project_id)

    # Each part is loaded when it is first used: a cold command touches one or two of them.

    @property
    def tasks(self) -> Tasks:
        """The tasks and who works on them."""
        from ralph.store.tasks import Tasks

        return Tasks(self.scope)

    @property
    def features(self) -> Features:
        """The features tasks belong to."""
        from ralph.store.features import Features

        return Features(self.scope)

    @property
    def attempts(self) -> Attempts:
        """Runs, attempts, the journal and failure reports."""
        from ralph.store.attempts import Attempts

        return Attempts(self.scope)

    @property
    def events(self) -> RunEvents:
        """What happened in runs and to tasks, for those who follow it."""
        from ralph.store.run_events import RunEvents

        return RunEvents(self.scope)

    @property
    def sums(self) -> Sums:
        """What all attempts add up to."""
        from ralph.store.sums import Sums

        return Sums(self.scope)

    @property
    def sessions(self) -> Sessions:
        """Sessions of agents outside the loop."""
        from ralph.store.sessions import Sessions

        return Sessions(self.scope)

    @property
    def memories(self) -> Memories:
        """What was learned, and the history of it."""
        from ralph.store.memories import Memories

        return Memories(self.scope)

    def transaction(self) -> AbstractContextManager[None]:
        """Make everything inside one durable change, or none."""
        return self.scope.transaction()

    @property
    def projects(self) -> Projects:
        """All projects in the same database."""
        return Projects(self.database)

    @property
    def project_name(self) -> str:
        """The name of the project."""
        return self.projects.get(self.project_id).name

    @property
    def is_shared(self) -> bool:
        """Say whether several machines may use the same store."""
        return self.database.is_server

    @property
    def has_copies(self) -> bool:
        """Say whether several working copies may use the same store: each agrees with it on its own."""
        return self.is_shared or self.is_elsewhere

    def watch(self, *topics: str) -> Watch:
        """Give what waits until anybody changes something: `tasks`, `memory_events` or `run_events` of this project."""
        return self.database.watch(self.project_id, *topics)

    def rest(self) -> None:
        """Let go of what others could use, until the store is needed again."""
        self.database.rest()

    def backup(self, reason: str) -> str:
        """Make a verified copy, of the whole file or of the project on a server; give where it is."""
        from ralph.store.backup import back_up

        return back_up(self, reason).path

    def since(self, moment: str) -> tuple[str, int, int]:
        """Give when the first thing came after a moment, and how many memories and attempts came after it."""
        firsts, counts = [], []
        for table, at in (("memory", "created_at"), ("attempts", "started_at")):
            sql = f"SELECT MIN({at}) AS first, COUNT(*) AS n FROM {table} WHERE project_id = :project_id"
            row = self.scope.query(f"{sql} AND {at} > :moment", moment=moment)[0]
            firsts.append(row["first"])
            counts.append(int(row["n"]))
        return min(filter(None, firsts), default=""), counts[0], counts[1]

    def damaged(self) -> list[tuple[str, int]]:
        """Give table and number of every row that does not match its checksum."""
        return self.scope.damaged()

    def beside(self, project_id: str) -> Store:
        """Give another project of the same database, on the same connection."""
        return Store(self.database, project_id, lambda: self.reopen().beside(project_id))

    def reopen(self) -> Store:
        """Open the same store once more, for another thread."""
        assert self._reopen is not None
        again = self._reopen()
        again.home = self.home
        again.is_elsewhere = self.is_elsewhere
        return again

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def open_database(url: str, *, direct_url: str = "", create: bool = False, may_only_read: bool = False) -> Database:
    """Open a database by its path or URL, bringing its tables up to date first.

    A file on a disk that takes nothing is opened all the same if it `may_only_read`.
    """
    if is_postgres(url):
        try:
            from ralph.store.postgres import open_postgres
        except ImportError:
            from ralph.extras import how_to_install

            raise StoreError(f"PostgreSQL needs a driver that is not there: {how_to_install('postgres')}") from None
        return open_postgres(url, direct_url=direct_url, create=create)
    from ralph.store.sqlite import open_sqlite

    return open_sqlite(file_path(url), create=create, may_only_read=may_only_read)


def open_store(
    url: str, project: str = "", *, direct_url: str = "", is_own: bool = False, may_only_read: bool = False
) -> Store:
    """Open a project in the database at a path or URL, by its name or id; the only one there is if none is named.

    In a file of the project's own the only one is meant, whatever it is called.
    """
    database = open_database(url, direct_url=direct_url, may_only_read=may_only_read)
    try:
        return _store(database, Projects(database).named(project, is_own=is_own), url, direct_url)
    except RalphError:
        database.close()
        raise


def create_store(url: str, name: str, *, direct_url: str = "") -> Store:
    """Open a project in the database at a path or URL, making both if they are not there yet.

    A file of its own that holds a project already is opened as it is, whatever that is called.
    """
    database = open_database(url, direct_url=direct_url, create=True)
    try:
        with database.transaction():
            projects = Projects(database)
            known = projects.all()
            one = projects.find(name) or (known[0] if known and not is_postgres(url) else projects.add(name))
        return _store(database, one, url, direct_url)
    except RalphError:
        database.close()
        raise


def _store(database: Database, project: ProjectEntry, url: str, direct_url: str) -> Store:
    if project.copying:
        from ralph.store.copying import unfinished

        raise unfinished(database, project)
    return Store(database, project.id, lambda: open_store(url, project.id, direct_url=direct_url))
