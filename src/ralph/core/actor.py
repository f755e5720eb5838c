"""Actor that runs a command: a person or an agent."""

from __future__ import annotations

import os

from ralph.core.config import DOOR_VARIABLE
from ralph.core.errors import UsageError
from ralph.core.records import session_of
from ralph.store.memories import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def in_session() -> bool:
    """Return whether an agent runs the command: in a session of the loop or through MCP."""
    return bool(os.environ.get("RALPH_SESSION") or os.environ.get(DOOR_VARIABLE))


def who() -> str:
    """Return the actor to record in the history."""
    return "agent" if in_session() else "person"


def refuse_agents(what: str) -> None:
    """Raise `UsageError` if an agent runs the command, so that it cannot approve its own work."""
    if in_session():
        raise UsageError(f"{what} is for a person to decide. Agents cannot do this; ask a person to run the command.")


def by(why: str) -> Change:
    """Return the change record for the current actor, with a reason."""
    return Change(who=who(), why=why)


def origin() -> dict[str, Any]:
    """Return the origin fields of a memory that an agent adds."""
    if not in_session():
        return {}
    number = os.environ.get("RALPH_ATTEMPT", "")
    return {
        "origin_task": os.environ.get("RALPH_TASK_ID") or None,
        "origin_run": os.environ.get("RALPH_RUN_ID") or None,
        "origin_attempt": int(number) if number.isdecimal() else None,
        "origin_session": os.environ.get("RALPH_SESSION") or None,
    }


def session() -> str | None:
    """Return the id of the agent session that runs the command, if any."""
    return session_of(origin())
