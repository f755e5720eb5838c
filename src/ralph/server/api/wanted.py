"""Which memories are asked for, and of which project, as a request says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, field

from ralph.errors import NotFoundError, UsageError
from ralph.memory.limits import LONGEST_BODY, LONGEST_TAG, LONGEST_TITLE, MOST_TAGS
from ralph.project import Project
from ralph.records import Source, State
from ralph.remembering import moment_said
from ralph.server.calls import Query
from ralph.server.problems import InvalidValueError
from ralph.store.known_memories import Wanted
from ralph.text import accept

if TYPE_CHECKING:
    pass

HERE = "-"
"""The project that is served."""
LONGEST_WHY = 2_000
MOST_VALUES = 50
LONGEST_DATE = 100

StateName = Literal["staged", "active", "rejected", "superseded", "pruned", "quarantined", "all"]
Confidence = Annotated[float, Meta(ge=0, le=1)]
Content = Annotated[str, Meta(max_length=LONGEST_BODY)]
Title = Annotated[str, Meta(max_length=LONGEST_TITLE)]
TypeName = Annotated[str, Meta(max_length=LONGEST_TAG)]
Tags = Annotated[list[Annotated[str, Meta(max_length=LONGEST_TAG)]], Meta(max_length=MOST_TAGS)]
Files = Annotated[list[Annotated[str, Meta(max_length=LONGEST_TAG * 10)]], Meta(max_length=MOST_TAGS)]
Reason = Annotated[str, Meta(max_length=LONGEST_WHY, description="Goes into the history.")]
Date = Annotated[str, Meta(max_length=LONGEST_DATE)]
ProjectName = Annotated[str, Meta(min_length=1, description="Another project of the database, by its id or name.")]


class OfProject(Query):
    """The project that a memory is of."""

    project: ProjectName = HERE


class Filters(Query):
    """Which memories are asked for; what can be said several times holds for any of what is said."""

    type: Annotated[list[TypeName], Meta(max_length=MOST_VALUES, description="Only of these types.")] = field(
        default_factory=list
    )
    min_confidence: Annotated[float, Meta(ge=0, le=1, description="As sure as that by now.")] = 0.0
    after: Annotated[Date, Meta(description="Only made then (UTC) or later.")] = ""
    before: Annotated[Date, Meta(description="Only made then (UTC) or before.")] = ""
    after_date: Annotated[Date, Meta(description="The same as after.")] = ""
    before_date: Annotated[Date, Meta(description="The same as before.")] = ""
    state: Annotated[list[StateName], Meta(max_length=MOST_VALUES, description="Without any: active.")] = field(
        default_factory=list
    )
    tag: Annotated[Tags, Meta(description="Only with any of these.")] = field(default_factory=list)
    source: Annotated[list[Source], Meta(max_length=MOST_VALUES, description="Only those that came in so.")] = field(
        default_factory=list
    )
    stale: Annotated[bool, Meta(description="Only those whose files are no longer as they were.")] = False
    task_type: Annotated[TypeName, Meta(description="Only those learned from tasks of this type.")] = ""
    min_success_rate: Annotated[float, Meta(ge=0, le=1, description="Only those that did as well as that.")] = 0.0


def chosen(project: Project, name: str) -> Project:
    """Give the project that a request names; `-` is the one that is served."""
    return project if name == HERE else project.neighbour(nameable("Project", name))


def nameable(noun: str, id: str) -> str:
    """Give an id as it can be looked for; what no text may hold is in no id either."""
    if "\0" in id:
        raise NotFoundError(noun, accept(id))
    return id


def wanted_by(project: Project, asked: Filters) -> Wanted:
    """Give which memories a request asks for, by the rules of the command line."""
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
    """Give types of memory that are known in a project; refuse others."""
    try:
        return tuple(project.memory.known_kind(one) for one in types)
    except UsageError as error:
        raise InvalidValueError(f"type: {error}") from None


def tags_of(tags: list[str]) -> tuple[str, ...]:
    """Give tags to look for, as they are kept."""
    return tuple(filter(None, (" ".join(accept(tag).lower().split()) for tag in tags)))


def _states(names: list[StateName]) -> tuple[State, ...]:
    if "all" in names:
        return tuple(State)
    return tuple(map(State, dict.fromkeys(names))) or (State.ACTIVE,)


def _moment(name: str, said: str, said_too: str) -> str:
    if said and said_too:
        raise InvalidValueError(f"{name} and {name}_date mean the same: say one of them.")
    try:
        return moment_said(said or said_too) if said or said_too else ""
    except UsageError as error:
        raise InvalidValueError(f"{name if said else f'{name}_date'}: {error}.") from None
