"""Every error Ralph raises on purpose: one sentence that says what to do.

Doors catch `RalphError` once. Anything else is a fault of ours and crashes.
"""

from __future__ import annotations

LONGEST_PATH = 20


class RalphError(Exception):
    """Something a person can understand and put right."""

    exit_code = 1
    http_status = 400


class WrongUsage(RalphError):
    """What was asked for makes no sense as asked."""

    exit_code = 2
    http_status = 422


class NotFound(RalphError):
    """There is no such thing in this project."""

    http_status = 404

    def __init__(self, noun: str, id: str) -> None:
        hints = {
            "Project": "ralph project list",
            "Task": "ralph task list",
            "Feature": "ralph feature list",
            "Backup": "ralph backup --list",
        }
        hint = f". See: {hints[noun]}" if noun in hints else ""
        super().__init__(f"{noun} not found: {id}{hint}")
        self.noun = noun
        self.id = id


class NotAProject(RalphError):
    """The directory, and all above it, have no Ralph project."""

    exit_code = 2

    def __init__(self, directory: str) -> None:
        super().__init__(f"No Ralph project in {directory} or above it. Start one with: ralph init")
        self.directory = directory


class ConfigError(RalphError):
    """A configuration file cannot be read or holds a wrong value."""

    exit_code = 2


class WrongStatus(RalphError):
    """The task is not in a state that allows this."""

    http_status = 409


class StaysDeleted(WrongStatus):
    """A person has deleted what somebody else would have kept again."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"A person has deleted this: {memory_id} stays as it is, and nothing was stored.")
        self.memory_id = memory_id


class NeedsYes(WrongStatus):
    """So much would go that somebody has to say that it is meant; each door says how."""

    def __init__(self, would: str, *, can_look: bool = False) -> None:
        look = "look at them with --dry-run, then say" if can_look else "if you mean it, say"
        super().__init__(f"This would {would}: {look} --yes. Nothing was changed.")
        self.would = would
        self.can_look = can_look


class TaskCycle(RalphError):
    """Adding this would make a task wait for itself."""

    exit_code = 2
    http_status = 409

    def __init__(self, path: list[str]) -> None:
        if len(set(path)) == 1:
            super().__init__(f"A task cannot wait for itself: {path[0]}")
        else:
            shown = path if len(path) <= LONGEST_PATH else [*path[:6], f"({len(path) - 11} more)", *path[-5:]]
            super().__init__("Tasks would wait for each other: " + " -> ".join(shown))
        self.path = path


class ClaimLost(RalphError):
    """Another worker took the task over; this one may no longer settle it."""

    http_status = 409

    def __init__(self, task_id: str) -> None:
        super().__init__(f"The claim on {task_id} was lost: its lease ran out, or somebody changed the task.")
        self.task_id = task_id


class AgentMissing(RalphError):
    """The agent cannot be started at all."""

    exit_code = 2


class Hindered(RalphError):
    """The machine does not let us: no room left, no permission, too many open files."""

    http_status = 503


class StoreError(RalphError):
    """The database cannot be read or written."""

    http_status = 503


class StoreAway(StoreError):
    """The database cannot be reached at the moment; what was asked for can be asked again."""

    meanwhile = "Waiting for it to come back."
    """What who waits for it says, then and when the wait is over."""
    afterwards = "The database is back."


class StoreUnwritable(StoreAway):
    """The disk takes nothing more: it is full, fails, or is read-only. What is there can be read."""

    meanwhile = "Waiting until it can be written."
    afterwards = "The database can be written again."


class StoreCrowded(StoreAway):
    """The server has no connection left for us at the moment."""


class StatementRefused(RalphError):
    """The database works, but would not take what we wrote: a fault of ours."""

    http_status = 500


class StoreTooNew(StoreError):
    """The database was written by a newer Ralph; it is left untouched."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} was written by a newer Ralph (schema {found}, this program knows {known}). "
            "Nothing was changed: upgrade ralph to open it."
        )
        self.found = found
        self.known = known


class WorktreeError(RalphError):
    """Git cannot give a task a working tree of its own, or cannot take its work."""

    exit_code = 2
