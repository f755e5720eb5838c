"""The store: tasks, attempts and memories of one project, in one database.

`open_store` gives a `Store` for one thread; another thread opens its own. What
a method acknowledges is durable when it returns.
"""

from __future__ import annotations

from ralph.errors import StoreError
from ralph.records import now
from ralph.store.database import Scope
from ralph.store.sqlite import open_sqlite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ralph.store.attempts import Attempts
    from ralph.store.database import Database
    from ralph.store.features import Features
    from ralph.store.memories import Memories
    from ralph.store.tasks import Tasks


class Store:
    """One project's records in one database."""

    def __init__(self, database: Database, project_id: str, reopen: Callable[[], Store] | None = None) -> None:
        self.database = database
        self._reopen = reopen
        self.project_id = project_id
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
    def memories(self) -> Memories:
        """What was learned, and the history of it."""
        from ralph.store.memories import Memories

        return Memories(self.scope)

    def transaction(self) -> AbstractContextManager[None]:
        """Make everything inside one durable change, or none."""
        return self.database.transaction()

    @property
    def project_name(self) -> str:
        """The name of the project."""
        rows = self.database.query("SELECT name FROM projects WHERE id = :id", id=self.project_id)
        return str(rows[0]["name"])

    def backup(self, reason: str) -> str:
        """Make a verified copy of the whole database; give where it is."""
        from ralph.store.backup import make_backup

        return make_backup(self.database.where, reason).path

    def damaged(self) -> list[tuple[str, int]]:
        """Give table and number of every row that does not match its checksum."""
        return self.scope.damaged()

    def reopen(self) -> Store:
        """Open the same store once more, for another thread."""
        assert self._reopen is not None
        return self._reopen()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def open_store(path: str) -> Store:
    """Open the project database at a path."""
    database = open_sqlite(path)
    projects = database.query("SELECT id FROM projects ORDER BY created_at, id")
    if not projects:
        database.close()
        raise StoreError(f"The database {path} has no project yet. Finish its set-up with: ralph init")
    return Store(database, projects[0]["id"], lambda: open_store(path))


def create_store(path: str, name: str) -> Store:
    """Open the database at a path, making it and its project if they are not there yet."""
    import os

    database = open_sqlite(path, create=True)
    with database.transaction():
        projects = database.query("SELECT id FROM projects ORDER BY created_at, id")
        project_id: str = projects[0]["id"] if projects else "p-" + os.urandom(4).hex()
        if not projects:
            database.execute(
                "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)",
                id=project_id,
                name=name,
                at=now(),
            )
    return Store(database, project_id, lambda: open_store(path))
