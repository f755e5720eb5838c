"""Page for reviewing staged learnings."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.core.records import Memory, MemoryState, record
from ralph.memory.lifecycle.staging import pending_reason, rejection_reason, staging_status
from ralph.project import Project
from ralph.web.api.staging import public_proposals
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView
from ralph.web.problems import InvalidValueError
from ralph.web.schemas import PublicMemory, public_memory

MAX_LEARNINGS = 100
"""Maximum number of learnings shown at once."""
STAGING_VIEWS = ("waiting", "rejected")
"""Values of the `show` parameter."""


class StagingPageQuery(QueryParams):
    """Options for the staging page."""

    show: str = "waiting"
    """`waiting` or `rejected`."""


@record
class LearningRow:
    """Learning that needs a decision or was rejected."""

    memory: PublicMemory
    status: str
    """pending, validated, quarantined or rejected."""
    held_back: str
    """Reason it is held back; empty if nothing prevents its use."""


def show_staging(project: Project, query: StagingPageQuery) -> PageView:
    """Show learnings that need a decision, oldest first, or rejected ones."""
    if query.show not in STAGING_VIEWS:
        raise InvalidValueError(f"show: must be one of {', '.join(STAGING_VIEWS)}.")
    counts = project.learnings.counts()
    waiting = counts["pending"] + counts["validated"] + counts["quarantined"]
    is_waiting = query.show == "waiting"
    found = project.learnings.list(None if is_waiting else "rejected", Page(limit=MAX_LEARNINGS), newest=not is_waiting)
    return PageView(
        template="staging.html",
        values={
            "show": query.show,
            "learnings": [_learning(one) for one in found],
            "total": waiting if is_waiting else counts["rejected"],
            "counts": {"waiting": waiting, "rejected": counts["rejected"]},
            "validated": counts["validated"],
            "pending": counts["pending"],
            "conflicts": project.memory.rules.conflicts() if is_waiting else [],
            "proposals": public_proposals(project) if is_waiting else [],
            "tasks": project.store.tasks.get_many(one.origin_task for one in found),
        },
    )


def _learning(memory: Memory) -> LearningRow:
    why = pending_reason(memory)
    if (
        not why
        and memory.state is MemoryState.STAGED
        and not memory.validated_at
        and (refused := rejection_reason(memory))
    ):
        why = f"the rules would reject it ({refused})"
    return LearningRow(memory=public_memory(memory), status=staging_status(memory), held_back=why)
