"""Rankers that can be chosen instead of the default ranking, by name.

The command line, HTTP and the documentation list what is here. To add a ranker, add an entry and its function.
"""

from __future__ import annotations

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Memory, RecalledMemory
    from ralph.memory.recall.query import RecallContext


@record
class Ranker:
    """A ranking formula."""

    name: str
    description: str
    function: str
    """Name of its function in `formulas`, which is only imported to rank: most commands need the names alone."""

    def rank(self, memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
        """Return the memories that the formula selects for a context, best first."""
        from ralph.memory.recall import formulas

        ranked: list[RecalledMemory] = getattr(formulas, self.function)(memories, context)
        return ranked


RANKERS = {
    ranker.name: ranker
    for ranker in (
        Ranker(name="tags", description="tags in the task, feature and file paths", function="rank_by_tags"),
        Ranker(name="weighted", description="confidence, task type, success and recency", function="rank_by_weights"),
        Ranker(name="hats", description="hat, confidence, paths, tags and recency", function="rank_by_hats"),
        Ranker(name="recent", description="date, newest first", function="rank_by_date"),
        Ranker(name="learnings", description="confidence, success and number of uses", function="rank_by_usage"),
    )
}
