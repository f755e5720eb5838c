"""The project that one thread of a server works on, opened when something first needs it.

A store belongs to one thread: each has an `Opened` of its own.
"""

from __future__ import annotations

import os

from ralph.config import TOML_NAME, YAML_NAMES
from ralph.errors import StoreError, SystemResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ralph.project import Project

    R = TypeVar("R")


class Opened:
    """A project directory, and the project in it as soon as one was needed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._project: Project | None = None
        self._settings: tuple[float, ...] = ()

    def use(self, work: Callable[[Project], R]) -> R:
        """Give what comes of working with the project; every trouble a person can mend is a `RalphError`.

        After trouble with the store, or when a person has changed the settings, it is opened anew.
        """
        try:
            if self._project is not None and self._settings != _stamps(self._project):
                self.close()
            if self._project is None:
                from ralph.project import Project

                self._project = Project.open(self._directory)
                self._settings = _stamps(self._project)
            done = work(self._project)
            if self._project.store.database.hindrance:
                self.close()  # once there is room it can be written again
            return done
        except StoreError:
            self.close()
            raise
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise SystemResourceError(f"{error.strerror or error}{where}.") from error

    def rest(self) -> None:
        """Let go of what others could use, until something is needed again."""
        if self._project is not None:
            self._project.store.rest()

    def close(self) -> None:
        """Let go of the project."""
        project, self._project = self._project, None
        if project is not None:
            project.close()


def _stamps(project: Project) -> tuple[float, ...]:
    """Give what tells whether the settings of a project were changed, or a backup took the place of its file."""
    settings = tuple(_changed_at(f"{project.directory}/{name}") for name in (TOML_NAME, *YAML_NAMES))
    database = project.store.database
    return settings if database.is_server else (*settings, _number_of(database.where))


def _number_of(path: str) -> int:
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return 0


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116
    except OSError:
        return 0.0
