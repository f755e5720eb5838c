"""Memories that agents state in their answers."""

from __future__ import annotations

from ralph.core.records import Memory, Source, State, memory_id
from ralph.core.text import paths_in, title_of
from ralph.memory.lifecycle.confidence import START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Sigils

NO_REASON = "the agent gave no reason"
"""Recorded as the reason of a failure that the agent did not explain."""


def stated(sigils: Sigils, at: str) -> list[Memory]:
    """Return the memories stated in sigils, without an origin."""
    statements = [("knowledge", one.title, one.body, one.tags) for one in sigils.knowledge]
    statements += [(one.category, title_of(one.content), one.content, one.tags) for one in sigils.learnings]
    statements += [(one.kind, one.title, one.content, ()) for one in sigils.signals]
    return [statement(kind, title, body, tags, at) for kind, title, body, tags in statements]


def statement(kind: str, title: str, body: str, tags: tuple[str, ...], at: str) -> Memory:
    """Return a memory that an agent stated explicitly."""
    return Memory(
        id=memory_id(),
        kind=kind,
        title=title,
        body=body,
        tags=tags,
        files=tuple(dict.fromkeys(paths_in(body) + tuple(tag for tag in tags if "/" in tag)))[:20],
        source=Source.EXPLICIT,
        state=State.ACTIVE,
        confidence=START[Source.EXPLICIT],
        created_at=at,
        updated_at=at,
    )
