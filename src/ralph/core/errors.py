"""Errors raised on purpose. Each has a stable `code`, an exit status and an HTTP status.

Every entry point catches `RalphError` once and prints its message. Any other exception is a bug and propagates.
"""

from __future__ import annotations

MAX_CYCLE_SHOWN = 20
"""Longest dependency cycle that is printed in full, in tasks."""

LIST_COMMANDS = {
    "Project": "ralph project list",
    "Task": "ralph task list",
    "Feature": "ralph feature list",
    "Backup": "ralph backup --list",
    "Episode": "ralph memory search --episodes",
}
"""Command that lists the valid ids, by noun."""


class RalphError(Exception):
    """Base class of all errors that users can understand and fix."""

    code = "error"
    exit_code = 1
    http_status = 400

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UsageError(RalphError):
    """A command or request has invalid arguments."""

    code = "invalid-usage"
    exit_code = 2
    http_status = 422


class NotFoundError(RalphError):
    """The project has no record with this id."""

    http_status = 404

    def __init__(self, noun: str, id: str) -> None:
        hint = f". See: {LIST_COMMANDS[noun]}" if noun in LIST_COMMANDS else ""
        super().__init__(f"{noun} not found: {id}{hint}", code=f"{noun.lower().replace(' ', '-')}-not-found")
        self.noun = noun
        self.id = id


class TranscriptNotFoundError(NotFoundError):
    """No passage of this session or attempt is kept."""

    def __init__(self, id: str) -> None:
        super().__init__("Transcript", id)
        self.args = (
            f"No transcript of {id} is kept: nothing was captured (episodes.capture), or it was deleted to stay below"
            " episodes.max_mb. To import past sessions: ralph import sessions",
        )


class ProjectNotFoundError(RalphError):
    """Neither the directory nor any of its parents contains a Ralph project."""

    code = "no-project"
    exit_code = 2

    def __init__(self, directory: str, main_worktree: str | None = None, cloned: str = "") -> None:
        """`main_worktree` is that of the linked worktree the directory is in; empty if the repository has none.

        `cloned` is the nearest directory with files of a project that has no database here, such as a clone.
        """
        message = f"No Ralph project in {directory} or above it."
        if main_worktree:
            from shlex import quote

            message += (
                " This is a linked worktree. To set up a project for all of them:"
                f" ralph -C {quote(main_worktree)} init. For one of its own: ralph init"
            )
        elif main_worktree is not None:
            message += (
                " This is a linked worktree of a repository without a main worktree, so each worktree has a project of"
                " its own. Start one with: ralph init"
            )
        elif cloned:
            place = "" if cloned == directory else f"-C {cloned} "
            message = (
                f"{cloned} has files of Ralph, but no database on this machine yet. Set it up with: ralph {place}init"
            )
        else:
            message += " Start one with: ralph init"
        super().__init__(message)
        self.directory = directory


class ConfigError(RalphError):
    """A configuration file is unreadable or has an invalid value."""

    code = "invalid-config"
    exit_code = 2


class NotTrustedError(UsageError):
    """The directory asks for something that no person has agreed to on this machine."""

    code = "not-trusted"
    http_status = 403


class ConflictError(RalphError):
    """The record is not in a state that allows this operation."""

    code = "conflict"
    http_status = 409


class DeletedByPersonError(ConflictError):
    """A person deleted this memory, so it is not added again."""

    code = "deleted-by-person"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"A person has deleted this: {memory_id} stays as it is, and nothing was stored.")
        self.memory_id = memory_id


class ConfirmationRequiredError(ConflictError):
    """The operation would remove so much that it needs an explicit confirmation."""

    code = "confirmation-required"

    def __init__(self, would: str, *, can_look: bool = False) -> None:
        look = "look at them with --dry-run, then say" if can_look else "if you mean it, say"
        super().__init__(f"This would {would}: {look} --yes. Nothing was changed.")
        self.would = would
        self.can_look = can_look


class TaskCycleError(RalphError):
    """The dependency would make a task wait for itself."""

    code = "task-cycle"
    exit_code = 2
    http_status = 409

    def __init__(self, path: list[str]) -> None:
        if len(set(path)) == 1:
            super().__init__(f"A task cannot wait for itself: {path[0]}")
        else:
            shown = path if len(path) <= MAX_CYCLE_SHOWN else [*path[:6], f"({len(path) - 11} more)", *path[-5:]]
            super().__init__("Tasks would wait for each other: " + " -> ".join(shown))
        self.path = path


class ClaimLostError(RalphError):
    """The worker no longer holds the claim on its task and may not settle it."""

    code = "claim-lost"
    http_status = 409

    def __init__(self, task_id: str) -> None:
        super().__init__(f"The claim on {task_id} was lost: its lease ran out, or somebody changed the task.")
        self.task_id = task_id


class AgentUnavailableError(RalphError):
    """The agent cannot be started on this machine."""

    code = "agent-unavailable"
    exit_code = 2


class SystemResourceError(RalphError):
    """The operating system refused: no space left, no permission, too many open files."""

    code = "system-resource"
    http_status = 503


class StoreError(RalphError):
    """The database cannot be read or written."""

    code = "store"
    http_status = 503


class StoreUnavailableError(StoreError):
    """The database is temporarily unreachable; the operation can be retried."""

    code = "store-unavailable"
    waiting_message = "Waiting for it to come back."
    """Printed when a caller starts to wait for the database."""
    recovered_message = "The database is back."
    """Printed when the wait is over."""


class StoreNotWritableError(StoreUnavailableError):
    """The disk is full, failing or read-only. Existing data can still be read."""

    code = "store-not-writable"
    waiting_message = "Waiting until it can be written."
    recovered_message = "The database can be written again."


class TooManyConnectionsError(StoreUnavailableError):
    """The database server has no free connection at the moment."""

    code = "too-many-connections"


class StatementError(RalphError):
    """The database rejected a statement: a bug in Ralph."""

    code = "statement-rejected"
    http_status = 500


class StoreTooNewError(StoreError):
    """The database was written by a newer version of Ralph and is left untouched."""

    code = "store-too-new"

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} was written by a newer Ralph (schema {found}, this program knows {known}). "
            "Nothing was changed: upgrade ralph to open it."
        )
        self.found = found
        self.known = known


class GitError(RalphError):
    """Git cannot be started, or cannot read the repository."""

    code = "git-failed"


class WorktreeError(RalphError):
    """Git cannot create, merge or remove a worktree."""

    code = "worktree"
    exit_code = 2
