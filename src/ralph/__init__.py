"""Ralph runs coding agents in a loop and remembers what they learn.

    import ralph

    with ralph.open(".") as project:
        project.memory.add("Login tests need TZ=UTC", type="fix", tags=["login"])
        for found in project.memory.search("login tests"):
            print(found.memory.title)

Everything in `__all__`, and the public methods of the services of a `Project`, is stable. See docs/python.md.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "AgentUnavailableError",
    "ConfigError",
    "ConflictError",
    "Memory",
    "MemoryFilter",
    "MemoryState",
    "NotFoundError",
    "NotTrustedError",
    "Page",
    "Project",
    "ProjectNotFoundError",
    "RalphError",
    "RecalledMemory",
    "ResultList",
    "RunEnding",
    "RunOptions",
    "RunSummary",
    "StoreError",
    "Task",
    "TaskStatus",
    "UsageError",
    "__version__",
    "open",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from ralph.core.actor import Actor
    from ralph.core.errors import (
        AgentUnavailableError,
        ConfigError,
        ConflictError,
        NotFoundError,
        NotTrustedError,
        ProjectNotFoundError,
        RalphError,
        StoreError,
        UsageError,
    )
    from ralph.core.paging import Page, ResultList
    from ralph.core.records import Memory, MemoryState, RecalledMemory, Task, TaskStatus
    from ralph.loop.options import RunEnding, RunOptions, RunSummary
    from ralph.project import Project, SyncedProject
    from ralph.store.memory_queries import MemoryFilter

# Every command imports this module, so the names are imported when they are first used.
_MODULES = {
    "ralph.core.actor": ("Actor",),
    "ralph.core.errors": (
        "AgentUnavailableError",
        "ConfigError",
        "ConflictError",
        "NotFoundError",
        "NotTrustedError",
        "ProjectNotFoundError",
        "RalphError",
        "StoreError",
        "UsageError",
    ),
    "ralph.core.paging": ("Page", "ResultList"),
    "ralph.core.records": ("Memory", "MemoryState", "RecalledMemory", "Task", "TaskStatus"),
    "ralph.loop.options": ("RunEnding", "RunOptions", "RunSummary"),
    "ralph.project": ("Project",),
    "ralph.store.memory_queries": ("MemoryFilter",),
}


def open(path: str | os.PathLike[str] = ".", *, actor: Actor | None = None) -> SyncedProject:
    """Open the project that a directory belongs to, for use in a `with` block.

    The block starts and, if it succeeds, ends by syncing the memory files; then the project is closed. Without a
    `with` block, call `close()` when done. `actor` is on whose behalf it is opened, by default a person; in a session
    of the loop it is always the agent of that session.

    Raises `ProjectNotFoundError` if neither the directory nor any of its parents contains a project, and
    `NotTrustedError` if it keeps its data elsewhere and no person has agreed to that.
    """
    import os

    from ralph.core.actor import PERSON
    from ralph.project import SyncedProject

    return SyncedProject.open(os.fspath(path), actor=actor or PERSON)


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
