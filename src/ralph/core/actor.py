"""The actor on whose behalf a project is opened: a person, or an agent in its session."""

from __future__ import annotations

import os

from ralph.core.ancestry import SESSION_VARIABLE, enclosing_sessions
from ralph.core.records import record, session_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ralph.core.ancestry import LoopSession

TASK_VARIABLE = "RALPH_TASK_ID"
RUN_VARIABLE = "RALPH_RUN_ID"
ATTEMPT_VARIABLE = "RALPH_ATTEMPT"


@record
class Actor:
    """The person or agent on whose behalf a project is opened."""

    kind: str = "person"
    """`person` or `agent`, as the history records it."""
    session: str | None = None
    """Session the loop started this agent in; None outside the loop."""
    task_id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    doubt: str = ""
    """Why this could be a person after all, and what to do then; ends refusals."""

    @property
    def is_agent(self) -> bool:
        """Whether an agent is asking."""
        return self.kind != "person"  # an unknown kind gets no rights of a person

    @property
    def is_loop_session(self) -> bool:
        """Whether the loop started the session that is asking."""
        return self.is_agent and bool(self.session)

    @property
    def origin(self) -> dict[str, Any]:
        """Origin fields of a memory that this actor adds."""
        if not self.is_agent:
            return {}
        return {
            "origin_task": self.task_id,
            "origin_run": self.run_id,
            "origin_attempt": self.attempt,
            "origin_session": self.session,
        }

    @property
    def session_key(self) -> str | None:
        """Identity of the session, if an agent is asking in one."""
        return session_key(self.origin)

    def require(self, operation: str) -> None:
        """Raise `UsageError` unless this actor may do an operation of the table in permissions.py."""
        if self.is_agent:
            from ralph.core.permissions import check_agent

            check_agent(self, operation)


PERSON = Actor()
AGENT = Actor(kind="agent")
"""An agent outside the loop, as MCP clients and hooks are."""


UNKNOWN_SESSION = Actor(kind="agent", session="unknown")
"""An agent in a session that cannot be told, such as one whose guard was killed."""

UNKNOWN_CLIENT = Actor(
    kind="agent",
    session="unknown",
    doubt=" The server cannot tell the process that sent this from an agent's: retry when the run has ended, or use the"
    " command line.",
)
"""A client of the server that may be an agent, such as one whose process cannot be found while a session runs."""


def current_actor(actor: Actor = PERSON, root: str = "", find_file: Callable[[], str] = str) -> Actor:
    """Return the agent in whose session of the loop this process runs, or else the given actor.

    `root` and `find_file` are as for `session_agent`. A variable can only take rights away.
    """
    sessions = enclosing_sessions()
    if agent := session_agent(sessions, root, find_file):
        return agent
    tag = os.environ.get(SESSION_VARIABLE)
    if tag and not any(session.variables.get(SESSION_VARIABLE) == tag for session in sessions):
        return agent_of_session(os.environ)
    return actor


def session_agent(sessions: Sequence[LoopSession], root: str = "", find_file: Callable[[], str] = str) -> Actor | None:
    """Return the agent that a process in these sessions acts for; None if it is not bound by any of them.

    `find_file` returns the file that the project in `root` is stored in, if any: a project that was created inside a
    session is that session's own.
    """
    if not sessions:
        return None
    file = find_file()
    # The outermost one: a session can start what looks like another session, but not put it above itself.
    for session in reversed(sessions):
        if not session.owns(root, file):
            return agent_of_session(session.variables or os.environ)
    return None


def agent_of_session(variables: Mapping[str, str]) -> Actor:
    """Return the agent of a session, given the variables of that session."""
    attempt = variables.get(ATTEMPT_VARIABLE, "")
    return Actor(
        kind="agent",
        session=variables.get(SESSION_VARIABLE) or UNKNOWN_SESSION.session,
        task_id=variables.get(TASK_VARIABLE) or None,
        run_id=variables.get(RUN_VARIABLE) or None,
        attempt=int(attempt) if attempt.isdecimal() else None,
    )
