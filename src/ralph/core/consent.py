"""Whether a person lets Ralph read past agent sessions on this machine, which are outside of every project.

The decision is recorded in the user's state directory, once for all projects.
"""

from __future__ import annotations

import json
import os

from ralph.core.errors import RalphError
from ralph.core.files import state_directory, write_atomically

_NAME = "consent.json"
_SESSIONS = "read_sessions"


def may_read_sessions() -> bool | None:
    """Return whether past sessions may be read; None if nobody has decided."""
    try:
        with open(_path(), encoding="utf-8") as file:  # noqa: PTH123
            decided = json.load(file).get(_SESSIONS)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return decided if isinstance(decided, bool) else None


def record_session_consent(is_allowed: bool) -> None:
    """Record that a person allows, or no longer allows, that past sessions are read.

    This is for all projects, so what an agent may do in a project of its own does not count.
    """
    from pathlib import Path

    from ralph.core.actor import current_actor

    current_actor().require("episodes.import")
    path = Path(_path())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps({_SESSIONS: is_allowed}).encode())
    except OSError as error:
        raise RalphError(f"Cannot record the decision: {error.strerror}: {path}.", code="trust-not-recorded") from error


def _path() -> str:
    return os.path.join(state_directory(), _NAME)  # noqa: PTH118
