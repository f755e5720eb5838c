"""Who runs a command: a person, or an agent."""

from __future__ import annotations

import os

from ralph.config import DOOR_VARIABLE
from ralph.errors import UsageError
from ralph.records import session_of
from ralph.store.memories import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def in_session() -> bool:
    """Say whether it is an agent that runs the command: in a session of ours, or through MCP."""
    return bool(os.environ.get("RALPH_SESSION") or os.environ.get(DOOR_VARIABLE))


def who() -> str:
    """Give who is to be named in the history."""
    return "agent" if in_session() else "person"


def refuse_agents(what: str) -> None:
    """Leave a decision to people: an agent must not approve what it brought in itself."""
    if in_session():
        raise UsageError(f"{what} is for a person to decide, not for an agent in its session.")


def by(why: str) -> Change:
    """Give the change that whoever runs the command makes, and why."""
    return Change(who=who(), why=why)


def origin() -> dict[str, Any]:
    """Give where a memory comes from when an agent runs the command."""
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
    """Give what tells the session that runs the command from others, if one does."""
    return session_of(origin())
