"""The projects of one database, seen from a working copy: list, rename, remove.

The working copy's own project need not exist: somebody may have renamed or removed it elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from ralph.core.actor import PERSON
from ralph.core.config import TOML_NAME, load_config, variable_name
from ralph.core.errors import NotFoundError, RalphError, UsageError
from ralph.core.records import record, replace
from ralph.core.text import one_line, sanitize
from ralph.core.trust_record import accept_settings
from ralph.store import Store, open_database
from ralph.store.projects import ProjectStore, ProjectSummary, lock_tasks
from ralph.workspace import FOLDER, actor_at, change_settings, find_root, store_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.store.database import Database
    from ralph.store.projects import ProjectEntry

MAX_NAME_LENGTH = 100
"""Maximum length of a name, in characters."""
REMOVED_FOLDER = "removed"
"""Folder for backups of other projects that were removed from a server."""


@record
class RenameResult:
    """Result of renaming a project."""

    id: str
    old: str
    name: str
    notes: tuple[str, ...] = ()
    """What else was changed, and what others have to change, one sentence each."""


@record
class RemoveResult:
    """Result of removing a project."""

    id: str
    name: str
    removed_rows: dict[str, int]
    """Number of deleted rows by table."""
    backup: str = ""
    """Path of the backup; empty when none was made."""
    restore_command: str = ""
    """Command that restores the backup."""


class ProjectService:
    """All projects of the database that a working copy belongs to."""

    def __init__(self, root: Path, config: Config, database: Database, actor: Actor = PERSON) -> None:
        self._actor = actor
        self._root = root
        self._config = config
        self._database = database
        self._projects = ProjectStore(database)

    @property
    def where(self) -> str:
        """The database, in a form that is safe to print."""
        return self._database.display_url

    @classmethod
    def open(cls, start: Path, *, actor: Actor = PERSON) -> ProjectService:
        """Open the database of the project a directory belongs to."""
        root = Path(find_root(start))
        config = load_config(root)
        database = open_database(store_url(root, config), direct_url=config.store.direct_url)
        return cls(root, config, database, actor_at(root, config, actor))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> ProjectService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, id_or_name: str = "") -> ProjectSummary:
        """Return one project, by default that of this working copy."""
        project_id = self._find(id_or_name).id if id_or_name else self._projects.resolve(self._configured_project()).id
        found = next((project for project in self.list() if project.id == project_id), None)
        if found is None:
            raise NotFoundError("Project", id_or_name)  # it was just removed
        return found

    def rename(self, old: str, new: str) -> RenameResult:
        """Rename a project, also in the settings of this working copy if it is its own."""
        self._actor.require("project.rename")
        before = self._find(old)
        _refuse_shared(before, "renamed")
        name = one_line(sanitize(new), len(new) + 1)
        if not name:
            raise UsageError("A project needs a name.", code="empty-name")
        if len(name) > MAX_NAME_LENGTH:
            raise UsageError(
                f"The name has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed.", code="name-too-long"
            )
        after = self._projects.rename(before.id, name)
        notes = self._change_name(before.name, after.name) if after.name != before.name else []
        return RenameResult(id=after.id, old=before.name, name=after.name, notes=tuple(notes))

    def _change_name(self, old: str, new: str) -> list[str]:
        """Write the new name into the settings; return what was done and what others have to do."""
        notes = []
        variable = variable_name("store", "project")
        # Loaded without the environment, which the file does not contain.
        if load_config(self._root, {}).store.project == old:
            change_settings(self._root, "store", {"project": new})
            accept_settings(self._root, {"store.project": new})
            notes.append(f"Set in {TOML_NAME}: store project.")
        if os.environ.get(variable, "").strip() == old:
            notes.append(f"Change {variable} in the environment to {new!r} too.")
        if self._config.store.url:
            notes.append(f"In other working copies, change [store] project = {old!r} to {new!r}, or to its id.")
        return notes

    def remove(self, id_or_name: str, *, with_backup: bool = True) -> RemoveResult:
        """Delete a project after a backup; raises while somebody works on one of its tasks."""
        entry = self.check_removal(id_or_name)
        store = Store(self._database, entry.id)
        store.data_dir = str(self._backup_folder(entry))
        backup = ""
        # One transaction: nothing can be added between the backup and the removal.
        with store.transaction():
            self._database.extend_idle_timeout()
            lock_tasks(store.scope)
            self._projects.check_not_busy(entry.id)
            if with_backup and not entry.copying:  # an unfinished copy holds nothing of its own
                backup = store.backup(f"before removing {one_line(entry.name, 30)}")
            rows = self._projects.remove(entry.id)
        command = self._restore_command(entry, backup) if backup else ""
        return RemoveResult(id=entry.id, name=entry.name, removed_rows=rows, backup=backup, restore_command=command)

    def _restore_command(self, entry: ProjectEntry, backup: str) -> str:
        command = f"ralph store copy {quote(backup)}"
        if not self._config.store.url:
            return f"{command} {quote(self._database.display_url)} --project {entry.id}"
        # The directory instead of the URL, which may contain a password.
        return f"{command} {quote(str(self._root))} --project {entry.id} --as {quote(entry.name)}"

    def _backup_folder(self, entry: ProjectEntry) -> Path:
        """Return a folder for the backup of a project, from which this project is never restored."""
        folder = self._root / FOLDER
        if entry.id != self._own_id() and self._database.is_server:
            folder /= REMOVED_FOLDER
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise RalphError(f"Cannot create {folder}: {error.strerror}.") from error
        return folder

    def check_removal(self, id_or_name: str) -> ProjectEntry:
        """Raise if a project cannot be removed, before anybody is asked to confirm; return it."""
        self._actor.require("project.remove")
        entry = self._find(id_or_name)
        _refuse_shared(entry, "removed")
        self._projects.check_not_busy(entry.id)
        return entry

    def _find(self, id_or_name: str) -> ProjectEntry:
        shared = self._projects.find_shared()
        if shared and id_or_name == shared.name:
            return shared
        return self._projects.get(id_or_name)

    def _configured_project(self) -> str:
        """Return the project in the settings; empty for a database file of its own."""
        return self._config.store.project if self._config.store.url else ""

    def _own_id(self) -> str:
        try:
            return self._projects.resolve(self._configured_project()).id
        except RalphError:
            return ""  # it was renamed or removed elsewhere

    def list(self) -> list[ProjectSummary]:
        """Return all projects, oldest first, the shared one last."""
        own = self._own_id()
        return [replace(one, is_here=one.id == own) for one in self._projects.summaries()]


def _refuse_shared(entry: ProjectEntry, done: str) -> None:
    if entry.is_shared:
        raise UsageError(
            f"{entry.name!r} has the shared memories and cannot be {done}. "
            "To stop sharing a memory, run: ralph memory unshare ID",
            code="shared-project",
        )
