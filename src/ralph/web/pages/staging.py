"""Page for reviewing staged learnings."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.core.records import Memory, State, record
from ralph.memory.lifecycle.staging import held_back, refusal, status
from ralph.project import Project
from ralph.web.endpoints import Query
from ralph.web.page_routes import Pages, View
from ralph.web.problems import InvalidValueError
from ralph.web.schemas import PublicMemory, public

MOST = 100
"""Maximum number of learnings shown at once."""
SHOWN = ("waiting", "rejected")
"""Values of the `show` parameter."""

pages = Pages()


class StagingQuery(Query):
    """Options for the staging page."""

    show: str = "waiting"
    """`waiting` or `rejected`."""


@record
class Learning:
    """Learning that needs a decision or was rejected."""

    memory: PublicMemory
    status: str
    """pending, validated, quarantined or rejected."""
    held_back: str
    """Reason it is held back; empty if nothing prevents its use."""


@pages.page("/staging")
def staging(project: Project, query: StagingQuery) -> View:
    """Show learnings that need a decision, oldest first, or rejected ones."""
    if query.show not in SHOWN:
        raise InvalidValueError(f"show: must be one of {', '.join(SHOWN)}.")
    counts = project.learnings.counts()
    waiting = counts["pending"] + counts["validated"] + counts["quarantined"]
    is_waiting = query.show == "waiting"
    found = project.learnings.list(None if is_waiting else "rejected", Page(limit=MOST), newest=not is_waiting)
    return View(
        template="staging.html",
        values={
            "show": query.show,
            "learnings": [_learning(one) for one in found],
            "total": waiting if is_waiting else counts["rejected"],
            "counts": {"waiting": waiting, "rejected": counts["rejected"]},
            "validated": counts["validated"],
            "pending": counts["pending"],
            "tasks": project.store.tasks.some(one.origin_task for one in found),
        },
    )


def _learning(memory: Memory) -> Learning:
    why = held_back(memory)
    if not why and memory.state is State.STAGED and not memory.validated_at and (refused := refusal(memory)):
        why = f"the rules would reject it ({refused})"
    return Learning(memory=public(memory), status=status(memory), held_back=why)
