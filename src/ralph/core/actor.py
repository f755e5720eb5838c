"""The actor on whose behalf a project is opened: a person, or an agent in its session."""

from __future__ import annotations

from ralph.core.errors import UsageError
from ralph.core.records import record, session_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SESSION_VARIABLE = "RALPH_SESSION"
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

    def require_person(self, action: str) -> None:
        """Raise `UsageError` unless a person is asking."""
        if self.is_agent:
            raise UsageError(f"Agents cannot {action}; ask a person to run this.", code="person-required")


PERSON = Actor()
AGENT = Actor(kind="agent")
"""An agent outside the loop, as MCP clients and hooks are."""


def actor_from_environment(environment: Mapping[str, str], *, is_agent: bool = False) -> Actor:
    """Return the actor that a process was started for; only entry points call this."""
    session = environment.get(SESSION_VARIABLE) or None
    if not session and not is_agent:
        return PERSON
    attempt = environment.get(ATTEMPT_VARIABLE, "")
    return Actor(
        kind="agent",
        session=session,
        task_id=environment.get(TASK_VARIABLE) or None,
        run_id=environment.get(RUN_VARIABLE) or None,
        attempt=int(attempt) if attempt.isdecimal() else None,
    )
