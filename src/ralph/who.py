"""Who runs a command: a person, or an agent inside a session of ours."""

from __future__ import annotations

import os

from ralph.errors import WrongUsage


def in_session() -> bool:
    """Say whether it is an agent of ours that runs the command."""
    return bool(os.environ.get("RALPH_SESSION"))


def who() -> str:
    """Give who is to be named in the history."""
    return "agent" if in_session() else "person"


def refuse_agents(what: str) -> None:
    """Leave a decision to people: an agent must not approve what it brought in itself."""
    if in_session():
        raise WrongUsage(f"{what} is for a person to decide, not for an agent in its session.")
