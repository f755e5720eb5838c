"""Request parameters that select memories and projects."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.limits import LONGEST_BODY, LONGEST_TAG, LONGEST_TITLE, MOST_TAGS
from ralph.core.records import Source, State
from ralph.core.text import accept
from ralph.memory.validation import check_type, parse_date
from ralph.project import Project
from ralph.store.memory_queries import Wanted
from ralph.web.endpoints import Query
from ralph.web.problems import InvalidValueError

HERE = "-"
"""Name of the served project in paths and queries."""
LONGEST_WHY = 2_000
"""Maximum length of a reason, in characters."""
MOST_VALUES = 50
"""Maximum number of values of a repeated filter."""
LONGEST_DATE = 100
"""Maximum length of a date, in characters."""

StateName = Literal["staged", "active", "rejected", "superseded", "pruned", "quarantined", "all"]
Confidence = Annotated[float, Meta(ge=0, le=1)]
Content = Annotated[str, Meta(max_length=LONGEST_BODY)]
Title = Annotated[str, Meta(max_length=LONGEST_TITLE)]
TypeName = Annotated[str, Meta(max_length=LONGEST_TAG)]
Tags = Annotated[list[Annotated[str, Meta(max_length=LONGEST_TAG)]], Meta(max_length=MOST_TAGS)]
Files = Annotated[list[Annotated[str, Meta(max_length=LONGEST_TAG * 10)]], Meta(max_length=MOST_TAGS)]
Reason = Annotated[str, Meta(max_length=LONGEST_WHY, description="Recorded in the history.")]
Date = Annotated[str, Meta(max_length=LONGEST_DATE)]
ProjectName = Annotated[str, Meta(min_length=1, description="Another project of the database, by ID or name.")]


class OfProject(Query):
    """Project of a memory."""

    project: ProjectName = HERE


class Filters(Query):
    """Filters for memories; of a repeated filter, any value may match."""

    type: Annotated[list[TypeName], Meta(max_length=MOST_VALUES, description="Only memories of these types.")] = field(
        default_factory=list
    )
    min_confidence: Annotated[float, Meta(ge=0, le=1, description="Minimum current confidence.")] = 0.0
    after: Annotated[Date, Meta(description="Only memories created at this time (UTC) or later.")] = ""
    before: Annotated[Date, Meta(description="Only memories created at this time (UTC) or earlier.")] = ""
    after_date: Annotated[Date, Meta(description="Alias of `after`.")] = ""
    before_date: Annotated[Date, Meta(description="Alias of `before`.")] = ""
    state: Annotated[list[StateName], Meta(max_length=MOST_VALUES, description="Default: active.")] = field(
        default_factory=list
    )
    tag: Annotated[Tags, Meta(description="Only memories with any of these tags.")] = field(default_factory=list)
    source: Annotated[list[Source], Meta(max_length=MOST_VALUES, description="Only memories from these sources.")] = (
        field(default_factory=list)
    )
    stale: Annotated[bool, Meta(description="Only memories whose files have changed.")] = False
    task_type: Annotated[TypeName, Meta(description="Only memories learned from tasks of this type.")] = ""
    min_success_rate: Annotated[float, Meta(ge=0, le=1, description="Minimum success rate.")] = 0.0


def chosen(project: Project, name: str) -> Project:
    """Return the project a request names; `-` is the served one."""
    return project if name == HERE else project.open_other(nameable("Project", name))


def nameable(noun: str, id: str) -> str:
    """Return an ID that can be looked up.

    Raises:
        NotFoundError: If it contains a NUL byte, which no ID does.
    """
    if "\0" in id:
        raise NotFoundError(noun, accept(id))
    return id


def wanted_by(project: Project, asked: Filters) -> Wanted:
    """Convert the filters of a request, by the same rules as the command line."""
    return Wanted(
        kinds=known_kinds(project, asked.type),
        states=_states(asked.state),
        tags=tags_of(asked.tag),
        sources=tuple(asked.source),
        task_type=accept(asked.task_type) or None,
        min_confidence=asked.min_confidence,
        min_success_rate=asked.min_success_rate,
        after=_moment("after", asked.after, asked.after_date),
        before=_moment("before", asked.before, asked.before_date),
        is_stale=asked.stale,
    )


def known_kinds(project: Project, types: list[str]) -> tuple[str, ...]:
    """Return the names of memory types as the project knows them.

    Raises:
        InvalidValueError: If a type is unknown.
    """
    try:
        return tuple(check_type(one, lambda: project.store.memories.counts("kind")) for one in types)
    except UsageError as error:
        raise InvalidValueError(f"type: {error}") from None


def tags_of(tags: list[str]) -> tuple[str, ...]:
    """Normalize tags for lookup."""
    return tuple(filter(None, (" ".join(accept(tag).lower().split()) for tag in tags)))


def _states(names: list[StateName]) -> tuple[State, ...]:
    if "all" in names:
        return tuple(State)
    return tuple(map(State, dict.fromkeys(names))) or (State.ACTIVE,)


def _moment(name: str, value: str, alias_value: str) -> str:
    if value and alias_value:
        raise InvalidValueError(f"{name} and {name}_date are the same; use only one of them.")
    try:
        return parse_date(value or alias_value) if value or alias_value else ""
    except UsageError as error:
        raise InvalidValueError(f"{name if value else f'{name}_date'}: {error}.") from None
