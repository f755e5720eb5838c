"""The memories: found by words and by what tells them apart, and one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ralph.meaning import is_installed
from ralph.memory.meanings import FIELDS, MEANINGS, UNTOLD
from ralph.memory.timeline import changed_fields
from ralph.project import Project
from ralph.records import KINDS, State, record
from ralph.server.api.memories import CursorPart
from ralph.server.api.wanted import HERE, Filters, chosen, nameable, wanted_by
from ralph.server.calls import Query
from ralph.server.paging import cursor_to, place_in
from ralph.server.rendering import state_words
from ralph.server.shapes import PublicMemory, public
from ralph.server.views import Pages, View
from ralph.sharing import is_shared
from ralph.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.records import MemoryEvent

A_PAGE = 50
MOST_CHOICES = 300
"""So many tasks are offered to choose from."""

pages = Pages()


class MemoriesPage(Filters):
    """Which memories to show; the names are those of the API."""

    q: str = ""
    cursor: str = ""
    project: str = ""


class MemoryQuery(Query):
    """What else to show of a memory."""

    project: str = ""
    task: str = ""
    """The task its score is explained for."""


@record
class Row:
    """A memory in a list."""

    memory: PublicMemory
    score: float | None = None
    because: tuple[tuple[str, float], ...] = ()


@record
class Option:
    """One value of a facet."""

    value: str
    count: int
    is_chosen: bool


@record
class Happened:
    """An event of a memory's life, with what it changed."""

    event: MemoryEvent
    changes: tuple[tuple[str, str, str], ...]
    """Field, as it was, as it became."""


# --- many -------------------------------------------------------------------------------


@pages.page("/memories")
def memories(project: Project, query: MemoriesPage) -> View:
    """Show the memories that are wanted, the best or the newest first."""
    here = chosen(project, query.project or HERE)
    wanted = wanted_by(here, query)
    following = None
    if query.q.strip():
        found = here.memory.search(query.q, wanted, A_PAGE)
        rows = [Row(memory=public(one.memory), score=one.score, because=one.because) for one in found]
    else:
        page, place = here.memory.page(wanted, A_PAGE, place_in(query.cursor, tuple[CursorPart, CursorPart]))
        rows, following = [Row(memory=public(one)) for one in page], cursor_to(place)
    facets = here.memory.facets()
    return View(
        template="memories.html",
        values={
            "query": query,
            "rows": rows,
            "next": following,
            "next_link": _link(query, following) if following else "",
            "is_narrowed": _is_narrowed(query),
            "facets": {
                "type": _options(facets.type, query.type),
                "state": _options(facets.state, query.state or [State.ACTIVE]),
                "source": _options(facets.source, query.source),
                "tag": _options(facets.tag, query.tag),
            },
            "stale_count": facets.stale,
            "is_stale": query.stale,
            "kinds": _kinds(facets.type),
            "meanings": MEANINGS,
            "has_meaning": is_installed() and here.config.memories.meaning,
            "projects": project.store.projects.all(),
            "shown_project": here.store.project_name,
            "api": f"/api/projects/{here.store.project_id if query.project else '-'}/memories",
        },
    )


def _options(counts: dict[str, int], asked: Sequence[str]) -> list[Option]:
    """Give the values of a facet; what is chosen is there, also when no memory has it."""
    known = {**counts, **{one: 0 for one in asked if one not in counts}}
    return [Option(value=value, count=count, is_chosen=value in asked) for value, count in known.items() if value]


def _kinds(used: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*KINDS, *filter(None, used))))


def _link(query: MemoriesPage, cursor: str) -> str:
    said = {**_said(query), "cursor": cursor}
    return "/memories?" + urlencode({name: "true" if one is True else one for name, one in said.items()}, doseq=True)


def _is_narrowed(query: MemoriesPage) -> bool:
    """Say whether less is asked for than all that is in use."""
    usual = {"cursor", "project", *(["state"] if query.state == [State.ACTIVE] else [])}
    return bool(_said(query).keys() - usual)


def _said(query: MemoriesPage) -> dict[str, Any]:
    """Give what was said in the address."""
    return {name: value for name in query.__struct_fields__ if (value := getattr(query, name))}


# --- one --------------------------------------------------------------------------------


@pages.page("/memories/{id}")
def memory(project: Project, id: str, query: MemoryQuery) -> View:
    """Show all about a memory: what it says, how sure it is and was, what happened to it, and what it did."""
    here = chosen(project, query.project or HERE)
    view = here.memory.show(id)
    memory = view.memory
    named = (memory.origin_task, query.task, *(row["task_id"] for row in view.shown_to))
    return View(
        template="memory.html",
        values={
            "memory": public(memory),
            "view": view,
            "history": [_happened(event) for event in reversed(here.memory.history(id))],
            "points": [
                {"at": one.at, "confidence": one.confidence, "what": one.what}
                for one in here.memory.confidence_over_time(id)
            ],
            "tasks": here.store.tasks.some(named),
            "choices": here.task_page(MOST_CHOICES)[0],
            "why": here.memory.why(id, nameable("Task", query.task)) if query.task else None,
            "asked_task": query.task,
            "link_ids": dict(view.links),
            "is_shared": is_shared(here.store, id),
            "meanings": MEANINGS,
            "kinds": _kinds((memory.kind,)),
            "in_project": query.project,
            "suffix": "?" + urlencode({"project": query.project}) if query.project else "",
            "is_in_use": memory.state is State.ACTIVE,
            "is_waiting": memory.state in (State.STAGED, State.QUARANTINED),
        },
    )


def _happened(event: MemoryEvent) -> Happened:
    changes = changed_fields(event) if event.was is not None else {}
    return Happened(
        event=event,
        changes=tuple(
            (FIELDS.get(name, name), _shown(name, was), _shown(name, became))
            for name, (was, became) in changes.items()
            if name not in UNTOLD and not (name == "state_reason" and became == event.why)
        ),
    )


def _shown(name: str, value: Any) -> str:
    if name == "state":
        return state_words(value)
    if value is None or value == "" or value == []:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return one_line(", ".join(map(str, value)), 1_000)
    return str(value)
