"""The projects in a database, each with its own tasks and memories.

One is set apart: what all of them share is kept under an id of its own. Nobody works in it, so it is passed over
unless it is asked for.
"""

from __future__ import annotations

import os

from ralph.errors import ConflictError, NotFoundError, StoreError, UsageError
from ralph.records import now, record
from ralph.store.database import Scope
from ralph.store.parts import HELD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import Database, Row

SHARED_ID = "p-shared"
"""The project of what all projects share; ids that are made up have digits here."""
SHARED_NAME = "shared"
_TOLD = ("tasks", "features", "runs", "attempts", "failures", "memory")
"""Of these it is said how many went with a project."""


@record
class ProjectEntry:
    """A project, as the database lists it."""

    id: str
    name: str
    created_at: str
    copying: str = ""
    """What is needed to go on with a copy that is not finished; empty when the project is whole."""

    @property
    def is_shared(self) -> bool:
        """Say whether it is the one of what all projects share, which nobody works in."""
        return self.id == SHARED_ID


@record
class ProjectSummary:
    """What a project holds."""

    id: str
    name: str
    created_at: str
    tasks: int
    open_tasks: int
    memories: int
    """Those in use."""
    attempts: int
    last_activity: str
    """When anything last happened in it; when it was made, if nothing ever did."""
    is_here: bool = False
    """Whether it is the one of the working copy that asks."""
    is_shared: bool = False
    """Whether it is the one of what all projects share, which nobody works in."""


class Projects:
    """All projects of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[ProjectEntry]:
        """Give all projects that somebody can work in, oldest first."""
        rows = self._database.query(
            "SELECT * FROM projects WHERE id <> :shared ORDER BY created_at, id", shared=SHARED_ID
        )
        return [_entry(row) for row in rows]

    def find(self, id_or_name: str) -> ProjectEntry | None:
        """Give a project by its id or its name, if there is one; what all share only by its id."""
        rows = self._database.query(
            """
            SELECT * FROM projects WHERE id = :key OR (name = :key AND id <> :shared)
            ORDER BY CASE WHEN id = :key THEN 0 ELSE 1 END
            """,
            key=id_or_name,
            shared=SHARED_ID,
        )
        return _entry(rows[0]) if rows else None

    def get(self, id_or_name: str) -> ProjectEntry:
        """Give a project by its id or its name, or say that there is none."""
        found = self.find(id_or_name)
        if found is None:
            raise NotFoundError("Project", id_or_name)
        return found

    def shared(self) -> ProjectEntry | None:
        """Give the project of what all projects share, once there is one."""
        return self.find(SHARED_ID)

    def add_shared(self) -> ProjectEntry:
        """Give the project of what all projects share, making it if there is none yet."""
        with self._database.transaction():
            if known := self.shared():
                return known
            # Somebody's own project may have the name already: a folder can be called anything.
            name = f"{SHARED_NAME} memories" if self.find(SHARED_NAME) else SHARED_NAME
            return self._insert(SHARED_ID, name)

    def named(self, id_or_name: str, *, is_own: bool = False) -> ProjectEntry:
        """Give the project that is asked for; with nothing asked for, or in a file of its own, the only one."""
        where = self._database.where
        if id_or_name and (found := self.find(id_or_name)):
            if found.is_shared:
                raise StoreError(
                    f"The project {found.name!r} of {where} holds what all projects share, and nobody works in it. "
                    "Set [store] project to another one."
                )
            return found
        known = self.all()
        if not known:
            raise StoreError(f"The database {where} has no project yet. Finish its set-up with: ralph init")
        if len(known) == 1 and (is_own or not (id_or_name or self._database.is_server)):
            return known[0]
        names = ", ".join(one.name for one in known[:10]) + (", …" if len(known) > 10 else "")
        if not id_or_name:
            raise StoreError(f"Which project of {where} is this? Say it in [store] project: {names}.")
        raise StoreError(
            f"The database {where} has no project {id_or_name!r}: it has {names}. "
            f"Change [store] project, or add it with: ralph init --project {id_or_name}"
        )

    def add(self, name: str) -> ProjectEntry:
        """Add a project; names are unique in a database."""
        with self._database.transaction():
            # A file of its own is called as its folder is, whatever that is.
            if name != SHARED_NAME or self.shared() or self.all():
                self._refuse_name(name)
            return self._insert("p-" + os.urandom(4).hex(), name)

    def rename(self, id: str, name: str) -> ProjectEntry:
        """Give a project another name, one that no other project has."""
        with self._database.transaction():
            before = self.get(id)
            if before.name != name:
                self._refuse_name(name)
                self._database.execute("UPDATE projects SET name = :name WHERE id = :id", id=before.id, name=name)
            return self.get(id)

    def remove(self, id: str) -> dict[str, int]:
        """Delete a project with all that is in it; give how many rows of each sort that were.

        Refused while somebody works on one of its tasks.
        """
        with self._database.transaction(id):
            self._database.take_time()
            self.get(id)
            lock_tasks(Scope(self._database, id))
            self.refuse_busy(id)
            gone = {table: self._count(table, id) for table in _TOLD}
            for table in HELD:
                self._database.execute(f"DELETE FROM {table} WHERE project_id = :id", id=id)
            self._database.execute("DELETE FROM projects WHERE id = :id", id=id)
        return gone

    def refuse_busy(self, id: str) -> None:
        """Refuse while somebody works on a task of a project."""
        rows = self._database.query(
            f"""
            SELECT id, claimed_by FROM tasks WHERE project_id = :id AND status = 'in_progress'
                AND claimed_by IS NOT NULL AND NOT {self._database.lease_is_over} ORDER BY seq LIMIT 1
            """,
            id=id,
        )
        if rows:
            task, worker = rows[0]["id"], rows[0]["claimed_by"]
            raise ConflictError(f"{task} is being worked on by {worker}. Stop that run first, and try again.")

    def summaries(self) -> list[ProjectSummary]:
        """Give what every project holds, oldest first, and last what all share."""
        rows = self._database.query(
            """
            SELECT p.*, (SELECT COUNT(*) FROM tasks AS t WHERE t.project_id = p.id) AS tasks,
                (SELECT COUNT(*) FROM tasks AS t WHERE t.project_id = p.id AND t.status <> 'done') AS open_tasks,
                (SELECT COUNT(*) FROM memory AS m WHERE m.project_id = p.id AND m.state = 'active') AS memories,
                (SELECT COUNT(*) FROM attempts AS a WHERE a.project_id = p.id) AS attempts,
                (SELECT MAX(t.updated_at) FROM tasks AS t WHERE t.project_id = p.id) AS planned_at,
                (SELECT COALESCE(a.ended_at, a.started_at) FROM attempts AS a WHERE a.project_id = p.id
                    ORDER BY a.seq DESC LIMIT 1) AS tried_at,
                (SELECT e.at FROM memory_events AS e WHERE e.project_id = p.id
                    ORDER BY e.seq DESC LIMIT 1) AS learned_at
            FROM projects AS p ORDER BY CASE WHEN p.id = :shared THEN 1 ELSE 0 END, p.created_at, p.id
            """,
            shared=SHARED_ID,
        )
        return [_summary(row) for row in rows]

    def _insert(self, id: str, name: str) -> ProjectEntry:
        one = ProjectEntry(id=id, name=name, created_at=now())
        self._database.execute(
            "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)", id=id, name=name, at=one.created_at
        )
        return one

    def _refuse_name(self, name: str) -> None:
        if name == SHARED_NAME:
            raise UsageError(f"{name!r} is the name of what all projects share: choose another one.")
        # Who says it must not get another project by its id.
        if self._database.query("SELECT 1 AS one FROM projects WHERE id = :name OR name = :name", name=name):
            raise UsageError(f"There is already a project called {name!r}.")

    def _count(self, table: str, id: str) -> int:
        rows = self._database.query(f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :id", id=id)
        return int(rows[0]["n"])


def lock_tasks(scope: Scope) -> None:
    """Let nobody claim a task, nor keep or settle a claim, before the transaction ends: claims wait for no turn."""
    scope.query(f"SELECT id FROM tasks WHERE project_id = :project_id {scope.database.for_update}")


def _entry(row: Row) -> ProjectEntry:
    return ProjectEntry(id=row["id"], name=row["name"], created_at=row["created_at"], copying=row["copying"])


def _summary(row: Row) -> ProjectSummary:
    names = ("id", "name", "created_at", "tasks", "open_tasks", "memories", "attempts")
    moments = filter(None, (row["created_at"], row["planned_at"], row["tried_at"], row["learned_at"]))
    return ProjectSummary(
        **{name: row[name] for name in names}, last_activity=max(moments), is_shared=row["id"] == SHARED_ID
    )
