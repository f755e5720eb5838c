"""Request parameters that select memories and projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, field

from ralph.core.errors import UsageError
from ralph.core.limits import MAX_BODY_LENGTH, MAX_TAG_LENGTH, MAX_TAGS, MAX_TITLE_LENGTH
from ralph.core.records import MemorySource, MemoryState
from ralph.core.text import sanitize
from ralph.memory.lifecycle.staging import STATUSES
from ralph.memory.recall.rankers import RANKERS
from ralph.memory.validation import check_type, parse_date
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.endpoints import QueryParams
from ralph.web.paging import Name
from ralph.web.problems import InvalidValueError

SERVED_PROJECT = "-"
"""Name of the served project in paths and queries."""
MAX_REASON_CHARS = 2_000
"""Maximum length of a reason, in characters."""
MAX_FILTER_VALUES = 50
"""Maximum number of values of a repeated filter."""
MAX_DATE_CHARS = 100
"""Maximum length of a date, in characters."""

if TYPE_CHECKING:
    StateName = str
    RankerName = str
    LearningStatus = str
else:  # the names come from the registries, which type checkers cannot evaluate
    StateName = Literal[(*map(str, MemoryState), "all")]
    RankerName = Literal[tuple(RANKERS)]
    LearningStatus = Literal[(*STATUSES, "all")]
Confidence = Annotated[float, Meta(ge=0, le=1)]
Content = Annotated[str, Meta(max_length=MAX_BODY_LENGTH)]
Title = Annotated[str, Meta(max_length=MAX_TITLE_LENGTH)]
TypeName = Annotated[str, Meta(max_length=MAX_TAG_LENGTH)]
Tags = Annotated[list[Annotated[str, Meta(max_length=MAX_TAG_LENGTH)]], Meta(max_length=MAX_TAGS)]
Files = Annotated[list[Annotated[str, Meta(max_length=MAX_TAG_LENGTH * 10)]], Meta(max_length=MAX_TAGS)]
Reason = Annotated[str, Meta(max_length=MAX_REASON_CHARS, description="Recorded in the history.")]
Date = Annotated[str, Meta(max_length=MAX_DATE_CHARS)]
ProjectName = Annotated[Name, Meta(min_length=1, description="Another project of the database, by ID or name.")]


class ProjectQuery(QueryParams):
    """Project of a memory."""

    project: ProjectName = SERVED_PROJECT


class MemoryFilters(QueryParams):
    """Filters for memories; of a repeated filter, any value may match."""

    type: Annotated[list[TypeName], Meta(max_length=MAX_FILTER_VALUES, description="Only memories of these types.")] = (
        field(default_factory=list)
    )
    min_confidence: Annotated[float, Meta(ge=0, le=1, description="Minimum current confidence.")] = 0.0
    after: Annotated[Date, Meta(description="Only memories created at this time (UTC) or later.")] = ""
    before: Annotated[Date, Meta(description="Only memories created at this time (UTC) or earlier.")] = ""
    after_date: Annotated[Date, Meta(description="Alias of `after`.")] = ""
    before_date: Annotated[Date, Meta(description="Alias of `before`.")] = ""
    state: Annotated[list[StateName], Meta(max_length=MAX_FILTER_VALUES, description="Default: active.")] = field(
        default_factory=list
    )
    tag: Annotated[Tags, Meta(description="Only memories with any of these tags.")] = field(default_factory=list)
    source: Annotated[
        list[MemorySource], Meta(max_length=MAX_FILTER_VALUES, description="Only memories from these sources.")
    ] = field(default_factory=list)
    stale: Annotated[bool, Meta(description="Only memories whose files have changed.")] = False
    task_type: Annotated[TypeName, Meta(description="Only memories learned from tasks of this type.")] = ""
    min_success_rate: Annotated[float, Meta(ge=0, le=1, description="Minimum success rate.")] = 0.0


def selected_project(project: Project, name: str) -> Project:
    """Return the project a request names; `-` is the served one."""
    return project if name == SERVED_PROJECT else project.open_other(name)


def memory_filter_from(project: Project, filters: MemoryFilters) -> MemoryFilter:
    """Convert the filters of a request, by the same rules as the command line."""
    return MemoryFilter(
        kinds=resolve_types(project, filters.type),
        states=_states(filters.state),
        tags=normalize_tags(filters.tag),
        sources=tuple(filters.source),
        task_type=sanitize(filters.task_type) or None,
        min_confidence=filters.min_confidence,
        min_success_rate=filters.min_success_rate,
        after=moment("after", filters.after, filters.after_date),
        before=moment("before", filters.before, filters.before_date),
        is_stale=filters.stale,
    )


def resolve_types(project: Project, types: list[str]) -> tuple[str, ...]:
    """Return the names of memory types as the project knows them.

    Raises:
        InvalidValueError: If a type is unknown.
    """
    try:
        return tuple(check_type(one, lambda: project.store.memories.stats.counts("kind")) for one in types)
    except UsageError as error:
        raise InvalidValueError(f"type: {error}") from None


def normalize_tags(tags: list[str]) -> tuple[str, ...]:
    """Normalize tags for lookup."""
    return tuple(filter(None, (" ".join(sanitize(tag).lower().split()) for tag in tags)))


def _states(names: list[StateName]) -> tuple[MemoryState, ...]:
    if "all" in names:
        return tuple(MemoryState)
    return tuple(map(MemoryState, dict.fromkeys(names))) or (MemoryState.ACTIVE,)


def moment(name: str, value: str, alias_value: str = "") -> str:
    """Return the timestamp of a date parameter, which may have an alias; empty if neither is given."""
    if value and alias_value:
        raise InvalidValueError(f"{name} and {name}_date are the same; use only one of them.")
    try:
        return parse_date(value or alias_value) if value or alias_value else ""
    except UsageError as error:
        raise InvalidValueError(f"{name if value else f'{name}_date'}: {error}.") from None
