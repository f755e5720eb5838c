"""Lazily opened project of one server thread.

A store belongs to one thread, so each thread has its own `ProjectHandle`.
"""

from __future__ import annotations

import os

from ralph.core.actor import PERSON
from ralph.core.config import TOML_NAME, YAML_NAMES
from ralph.core.errors import StoreError, SystemResourceError
from ralph.core.trust_record import record_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ralph.core.actor import Actor
    from ralph.integrations.background_sync import BackgroundSync
    from ralph.project import Project
    from ralph.store import FigureCache, Store

    R = TypeVar("R")


class ProjectHandle:
    """Project directory whose project is opened on first use."""

    def __init__(
        self,
        directory: str,
        actor: Actor = PERSON,
        background: BackgroundSync | None = None,
        figures: Callable[[tuple[float, ...]], FigureCache] | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        """`background` syncs the memory files of a large project instead of each call.

        `figures` returns the figures that handles of one project share, given its settings. With `is_read_only`, no
        call syncs the memory files.
        """
        self._directory = directory
        self.actor = actor
        self._background = background
        self._figures = figures
        self._is_read_only = is_read_only
        self.file_problems: tuple[str, ...] | None = None
        """With `is_read_only`, what is wrong with the memory files; None if that is only known from the last sync."""
        self._project: Project | None = None
        self._settings: tuple[float, ...] = ()

    def call_with_project(self, function: Callable[[Project], R]) -> R:
        """Call a function with the project, its memory files synced before and after, and return its result.

        The project is reopened after a store error and when its configuration has changed. OS errors are raised as
        `RalphError`.
        """
        try:
            if self._project is not None and self._settings != _stamps(self._project):
                self.close()
            if self._project is None:
                from ralph.project import Project

                self._project = Project.open(self._directory, actor=self.actor)
                self._settings = _stamps(self._project)
                if self._figures:
                    self._project.store.figures = self._figures(self._settings)
            self._leave_files_to_background(self._project)
            with self._project.synced() as project:
                result = function(project)
            if self._project.store.database.write_error:
                self.close()  # reopen next time: it may be writable again
            return result
        except StoreError:
            self.close()
            raise
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise SystemResourceError(f"{error.strerror or error}{where}.") from error
        finally:
            if self._background:
                self._background.request()

    def _leave_files_to_background(self, project: Project) -> None:
        background = self._background if self._background and self._background.is_active else None
        project.files.is_paused = self._is_read_only or background is not None
        project.files.problems = list(background.problems if background else self.file_problems or ())
        project.files.is_unattended = self._is_read_only and self.file_problems is None

    def release(self) -> None:
        """Release store resources until the next use."""
        if self._project is not None:
            self._project.store.database.release_connection()

    def close(self) -> None:
        """Close the project."""
        project, self._project = self._project, None
        if project is not None:
            project.close()


def open_store_for_vectors(directory: str, actor: Actor = PERSON) -> Store | None:
    """Return the store of a project for a `VectorServer`; None if the settings switch recall by meaning off."""
    from ralph.project import Project

    with Project.open(directory, actor=actor) as project:
        return project.store.reopen() if project.config.memories.meaning else None


def _stamps(project: Project) -> tuple[float, ...]:
    """Return values that change when the configuration is edited or trusted, or the database file is replaced."""
    files = [*(f"{project.directory}/{name}" for name in (TOML_NAME, *YAML_NAMES)), record_paths(project.directory)[0]]
    settings = tuple(_stat(path, "st_mtime") for path in files)
    database = project.store.database
    return settings if database.is_server else (*settings, _stat(database.display_url, "st_ino"))


def _stat(path: str, field: str) -> float:
    try:
        return float(getattr(os.stat(path), field))  # noqa: PTH116
    except OSError:
        return 0.0
