"""The project that one thread of the server works on, opened when something first needs it.

A store belongs to one thread: each has an `Opened` of its own.
"""

from __future__ import annotations

from ralph.errors import RalphError, StoreError

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

    def use(self, work: Callable[[Project], R]) -> R:
        """Give what comes of working with the project; every trouble a person can mend is a `RalphError`.

        After trouble with the store the next call opens it anew: it may be another one by then.
        """
        try:
            if self._project is None:
                from ralph.project import Project

                self._project = Project.open(self._directory)
            return work(self._project)
        except StoreError:
            self.close()
            raise
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise RalphError(f"{error.strerror or error}{where}.") from error

    def rest(self) -> None:
        """Let go of what others could use, until something is needed again."""
        if self._project is not None:
            self._project.store.rest()

    def close(self) -> None:
        """Let go of the project."""
        project, self._project = self._project, None
        if project is not None:
            project.close()
