"""The projects in a database, each with its own tasks and memories.

Memories shared by all projects are stored in a project with a reserved id. Nobody works in it, so listings omit it.
"""

from __future__ import annotations

import os

from ralph.core.errors import ConflictError, NotFoundError, StoreError, UsageError
from ralph.core.records import now, record
from ralph.store.database import ProjectScope
from ralph.store.tables import ALL_PROJECT_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import Database, Row

SHARED_ID = "p-shared"
"""Reserved id of the project with the shared memories. Generated ids have eight hex digits instead."""
SHARED_NAME = "shared"
_COUNTED_TABLES = ("tasks", "features", "runs", "attempts", "failures", "memory")
"""Tables whose row counts are reported when a project is removed."""


@record
class ProjectEntry:
    """A project in a database."""

    id: str
    name: str
    created_at: str
    copying: str = ""
    """State of an unfinished copy by an older version. Empty if the project is complete."""

    @property
    def is_shared(self) -> bool:
        """True for the project with the memories shared by all projects."""
        return self.id == SHARED_ID


@record
class ProjectSummary:
    """Summary of the contents of a project."""

    id: str
    name: str
    created_at: str
    tasks: int
    open_tasks: int
    memories: int
    """Number of active memories."""
    attempts: int
    last_activity: str
    """Time of the latest change, or of the creation of the project."""
    is_here: bool = False
    """True for the project of the current working copy."""
    is_shared: bool = False
    """True for the project with the memories shared by all projects."""


class ProjectStore:
    """The projects of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[ProjectEntry]:
        """Return all projects except the shared one, oldest first."""
        rows = self._database.query(
            "SELECT * FROM projects WHERE id <> :shared ORDER BY created_at, id", shared=SHARED_ID
        )
        return [_entry(row) for row in rows]

    def find(self, id_or_name: str) -> ProjectEntry | None:
        """Return a project by its id or name, or None. The shared project is found only by its id."""
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
        """Return a project by its id or name, or raise `NotFoundError`."""
        project = self.find(id_or_name)
        if project is None:
            raise NotFoundError("Project", id_or_name)
        return project

    def find_shared(self) -> ProjectEntry | None:
        """Return the shared project, or None if it does not exist yet."""
        return self.find(SHARED_ID)

    def ensure_shared(self) -> ProjectEntry:
        """Return the shared project, and create it if needed."""
        with self._database.transaction():
            if known := self.find_shared():
                return known
            # A project is named after its folder, so the name may be taken.
            name = f"{SHARED_NAME} memories" if self.find(SHARED_NAME) else SHARED_NAME
            return self.insert(SHARED_ID, name, now())

    def resolve(self, id_or_name: str, *, is_own: bool = False) -> ProjectEntry:
        """Return the configured project, or the only one if none is configured or the database is not shared."""
        where = self._database.display_url
        if id_or_name and (found := self.find(id_or_name)):
            if found.is_shared:
                raise StoreError(
                    f"Project {found.name!r} in {where} is reserved for shared memories. "
                    "Set [store] project to another project.",
                    code="reserved-project",
                )
            return found
        known = self.all()
        if not known:
            raise StoreError(
                f"The database {where} has no project yet. Finish the setup with: ralph init", code="empty-database"
            )
        if len(known) == 1 and (is_own or not (id_or_name or self._database.is_server)):
            return known[0]
        names = ", ".join(project.name for project in known[:10]) + (", …" if len(known) > 10 else "")
        if not id_or_name:
            raise StoreError(
                f"No project of {where} is configured. Set [store] project to one of: {names}", code="project-not-set"
            )
        raise StoreError(
            f"The database {where} has no project {id_or_name!r}, only: {names}. "
            f"Change [store] project, or add it with: ralph init --project {id_or_name}",
            code="project-not-in-database",
        )

    def add(self, name: str) -> ProjectEntry:
        """Add a project. Names are unique within a database."""
        with self._database.transaction():
            # The first project is named after its folder, which may have the reserved name.
            if name != SHARED_NAME or self.find_shared() or self.all():
                self._check_name(name)
            return self.insert("p-" + os.urandom(4).hex(), name, now())

    def rename(self, id: str, name: str) -> ProjectEntry:
        """Rename a project. Names are unique within a database."""
        with self._database.transaction():
            before = self.get(id)
            if before.name != name:
                self._check_name(name)
                self._database.execute("UPDATE projects SET name = :name WHERE id = :id", id=before.id, name=name)
            return self.get(id)

    def set_stuck_after(self, id: str, failures: int) -> None:
        """Store after how many failures a task is stuck, for queries from outside."""
        with self._database.transaction():
            self._database.execute(
                "UPDATE projects SET stuck_after = :failures WHERE id = :id AND stuck_after <> :failures",
                id=id,
                failures=failures,
            )

    def remove(self, id: str) -> dict[str, int]:
        """Delete a project with its contents, and return the number of deleted rows by table.

        Raise `ConflictError` while one of its tasks is claimed.
        """
        with self._database.transaction(id):
            self._database.extend_idle_timeout()
            self.get(id)
            lock_tasks(ProjectScope(self._database, id))
            self.check_not_busy(id)
            counts = {table: self._count(table, id) for table in _COUNTED_TABLES}
            for table in ALL_PROJECT_TABLES:
                self._database.execute(f"DELETE FROM {table} WHERE project_id = :id", id=id)
            self._database.execute("DELETE FROM projects WHERE id = :id", id=id)
        return counts

    def check_not_busy(self, id: str) -> None:
        """Raise `ConflictError` while a task of a project is claimed."""
        rows = self._database.query(
            f"""
            SELECT id, claimed_by FROM tasks WHERE project_id = :id AND status = 'in_progress'
                AND claimed_by IS NOT NULL AND NOT {self._database.lease_expired} ORDER BY seq LIMIT 1
            """,
            id=id,
        )
        if rows:
            task, worker = rows[0]["id"], rows[0]["claimed_by"]
            raise ConflictError(
                f"{task} is claimed by {worker}. Stop that run first, then try again.", code="project-busy"
            )

    def summaries(self) -> list[ProjectSummary]:
        """Return summaries of all projects, oldest first, with the shared project last."""
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

    def insert(self, id: str, name: str, created_at: str) -> ProjectEntry:
        """Insert a project with a known id, in the open transaction."""
        project = ProjectEntry(id=id, name=name, created_at=created_at)
        self._database.execute(
            "INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :at)",
            id=id,
            name=name,
            at=project.created_at,
        )
        return project

    def _check_name(self, name: str) -> None:
        if name == SHARED_NAME:
            raise UsageError(f"{name!r} is reserved for shared memories. Choose another name.", code="reserved-name")
        # A name that equals the id of another project would be ambiguous.
        if self._database.query("SELECT 1 AS one FROM projects WHERE id = :name OR name = :name", name=name):
            raise UsageError(f"Project {name!r} already exists. See: ralph project list", code="project-exists")

    def _count(self, table: str, id: str) -> int:
        rows = self._database.query(f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :id", id=id)
        return int(rows[0]["n"])


def lock_tasks(scope: ProjectScope) -> None:
    """Block claims on the tasks of a project until the transaction ends. Claims ignore the write lock."""
    scope.query(f"SELECT id FROM tasks WHERE project_id = :project_id {scope.database.for_update}")


def _entry(row: Row) -> ProjectEntry:
    return ProjectEntry(id=row["id"], name=row["name"], created_at=row["created_at"], copying=row["copying"])


def _summary(row: Row) -> ProjectSummary:
    names = ("id", "name", "created_at", "tasks", "open_tasks", "memories", "attempts")
    times = filter(None, (row["created_at"], row["planned_at"], row["tried_at"], row["learned_at"]))
    return ProjectSummary(
        **{name: row[name] for name in names}, last_activity=max(times), is_shared=row["id"] == SHARED_ID
    )
