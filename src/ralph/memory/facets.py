"""Counts of memories by type, state, source and tag: of all of them, or of those that match a query and a filter."""

from __future__ import annotations

from collections import Counter

from ralph.core.records import MemoryState, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ralph.core.records import Memory
    from ralph.store.database import Row
    from ralph.store.memory_queries import MemoryFilter
    from ralph.store.memory_stats import MemoryStatistics

MAX_TAGS = 30
"""Number of tags that are counted."""


@record
class Facets:
    """Number of memories by type, state, source and tag, most frequent first.

    Each facet counts what the other filters leave, whatever is chosen of the facet itself.
    """

    type: dict[str, int]
    state: dict[str, int]
    source: dict[str, int]
    tag: dict[str, int]
    """The most frequent tags."""
    stale: int
    """Memories whose files have changed since, as of the last check."""
    total: int = 0
    """Number of memories that match the query and all filters."""
    unfiltered: int = 0
    """Number of active memories that match the query, whatever the filters."""
    is_partial: bool = False
    """Whether more memories match the query than were counted."""


def count_matches(memories: Sequence[Memory], filter: MemoryFilter, *, is_partial: bool) -> Facets:
    """Return the facets of the memories that match a query, in any state."""
    checks = _checks(filter)

    def left_by_others(facet: str) -> list[Memory]:
        return [one for one in memories if all(check(one) for name, check in checks.items() if name != facet)]

    return Facets(
        type=_counted(one.kind for one in left_by_others("type")),
        state=_counted(one.state.value for one in left_by_others("state")),
        source=_counted(one.source.value for one in left_by_others("source")),
        tag=_top_tags(Counter(tag for one in left_by_others("tag") for tag in one.tags)),
        stale=sum(1 for one in left_by_others("stale") if one.stale),
        total=len(left_by_others("")),
        unfiltered=sum(1 for one in memories if one.state is MemoryState.ACTIVE),
        is_partial=is_partial,
    )


def _checks(filter: MemoryFilter) -> dict[str, Callable[[Memory], bool]]:
    return {
        "type": lambda one: not filter.kinds or one.kind in filter.kinds,
        "state": lambda one: not filter.states or one.state in filter.states,
        "source": lambda one: not filter.sources or one.source in filter.sources,
        "tag": lambda one: not filter.tags or not set(filter.tags).isdisjoint(one.tags),
        "stale": lambda one: not filter.is_stale or bool(one.stale),
    }


def count_filtered(stats: MemoryStatistics, filter: MemoryFilter) -> Facets:
    """Return the facets of the memories that a filter matches."""
    types = stats.counts_of("kind", replace(filter, kinds=()))
    states = stats.counts_of("state", replace(filter, states=()))
    by_tags = stats.counts_of("tags", replace(filter, tags=()))
    return Facets(
        type=types,
        state=states,
        source=stats.counts_of("source", replace(filter, sources=())),
        tag=_top_tags(_by_tag({"tags": tags, "n": count} for tags, count in by_tags.items())),
        stale=sum(stats.counts_of("state", replace(filter, is_stale=True)).values()),
        total=sum(count for state, count in states.items() if not filter.states or state in filter.states),
    )


def count_all(stats: MemoryStatistics) -> Facets:
    """Return the facets of all memories; all but `state` count active ones."""
    rows = stats.counts_by_origin()
    sources: Counter[str] = Counter()
    for row in rows:
        sources[row["source"]] += row["n"]
    return Facets(
        type=stats.counts("kind"),
        state=stats.counts("state"),
        source=dict(sources.most_common()),
        tag=_top_tags(_by_tag(rows)),
        stale=0,
    )


def _by_tag(rows: Iterable[Row]) -> Counter[str]:
    from ralph.store.rows import from_json

    tags: Counter[str] = Counter()
    for row in rows:
        for tag in from_json(row["tags"]):
            tags[tag] += row["n"]
    return tags


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda one: (-one[1], one[0])))


def _top_tags(tags: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(tags.items(), key=lambda one: (-one[1], one[0]))[:MAX_TAGS])
