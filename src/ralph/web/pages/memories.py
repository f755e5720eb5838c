"""Pages of memories: the list with search and filters, and the details of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.paging import Page
from ralph.core.records import MemoryState, record
from ralph.core.text import one_line
from ralph.memory.lifecycle.timeline import changed_fields
from ralph.memory.recall.embeddings import is_installed
from ralph.memory.recall.labels import FIELD_LABELS, HIDDEN_FIELDS, SCORE_DESCRIPTIONS
from ralph.memory.recall.matching import matched_pattern, matched_words, matching_excerpt
from ralph.project import Project
from ralph.web.api.filters import SERVED_PROJECT, MemoryFilters, memory_filter_from, selected_project
from ralph.web.api.memories import CursorPart
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url
from ralph.web.paging import Name, decode_cursor, encode_cursor
from ralph.web.rendering import figure, state_words
from ralph.web.schemas import PublicMemory, public_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory, MemoryEvent, RecalledMemory

MEMORIES_PER_PAGE = 50
"""Number of memories on a page."""
MAX_TASK_CHOICES = 300
"""Maximum number of tasks offered in a menu."""
EXCERPT_LENGTH = 400
"""Maximum length of what a list shows of the content, in characters."""
_LONG_FRACTION = re.compile(r"\b\d+\.\d{3,}")


class MemoriesPageQuery(MemoryFilters):
    """Filters for memories, named as in the API."""

    q: str = ""
    cursor: str = ""
    project: Name = ""


class MemoryPageQuery(QueryParams):
    """Options for the page of a memory."""

    project: Name = ""
    task: Name = ""
    """Task for which to explain the score."""


@record
class MemoryRow:
    """Memory in a list."""

    memory: PublicMemory
    excerpt: str
    """Beginning of the content, or the part of it that matches."""
    matched: re.Pattern[str] | None = None
    """Pattern of the words that match."""
    score: float | None = None
    because: tuple[tuple[str, float], ...] = ()


@record
class FacetOption:
    """Value of a facet."""

    value: str
    count: int
    is_selected: bool


@record
class HistoryEntry:
    """Event in the history of a memory with the fields it changed."""

    event: MemoryEvent
    changes: tuple[tuple[str, str, str], ...]
    """Field, old value and new value of each change."""


# --- list -------------------------------------------------------------------------------


def show_memories_page(project: Project, query: MemoriesPageQuery) -> PageView:
    """Show matching memories, best or newest first."""
    here = selected_project(project, query.project or SERVED_PROJECT)
    filters = memory_filter_from(here, query)
    next_cursor = None
    if query.q.strip():
        hits = here.memory.search(query.q, filters, MEMORIES_PER_PAGE)
        rows = [_hit(one, query.q) for one in hits]
    else:
        after = decode_cursor(query.cursor, tuple[CursorPart, CursorPart])
        found = here.memory.list(filters, Page(limit=MEMORIES_PER_PAGE, after=after))
        rows, next_cursor = [_listed(one) for one in found], encode_cursor(found.next)
    facets = here.memory.facets(query.q, filters)
    known = here.memory.facets()
    return PageView(
        template="memories.html",
        values={
            "query": query,
            "rows": rows,
            "next": next_cursor,
            "next_link": _link(query, next_cursor) if next_cursor else "",
            "is_narrowed": _is_narrowed(query),
            "facets": {
                "type": _options(facets.type, (*known.type, *query.type), query.type),
                "state": _options(facets.state, (*known.state, *query.state), query.state or [MemoryState.ACTIVE]),
                "source": _options(facets.source, (*known.source, *query.source), query.source),
                "tag": _options(facets.tag, query.tag, query.tag),
            },
            "counts": facets,
            "unfiltered_link": page_url("/memories", q=query.q, project=query.project),
            "is_stale": query.stale,
            "kinds": _kinds(known.type),
            "meanings": SCORE_DESCRIPTIONS,
            "has_meaning": is_installed() and here.config.memories.meaning,
            "projects": project.store.projects.all(),
            "shown_project": here.store.project_name,
            "api": f"/api/projects/{here.store.project_id if query.project else '-'}/memories",
        },
    )


def _hit(hit: RecalledMemory, query: str) -> MemoryRow:
    memory = hit.memory
    is_literal = hit.because[:1] == (("text", 0.0),)
    words = matched_words([memory.title, memory.content], query, literally=is_literal)
    return MemoryRow(
        memory=public_memory(memory),
        excerpt=matching_excerpt(memory.content, words, EXCERPT_LENGTH),
        matched=matched_pattern(words),
        score=hit.score,
        because=hit.because,
    )


def _listed(memory: Memory) -> MemoryRow:
    return MemoryRow(memory=public_memory(memory), excerpt=one_line(memory.content, EXCERPT_LENGTH))


def _options(counts: dict[str, int], known: Iterable[str], selected: Sequence[str]) -> list[FacetOption]:
    """Return the values of a facet, most frequent first, then known ones that nothing found has."""
    values = {**counts, **{one: 0 for one in known if one not in counts}}
    return [
        FacetOption(value=value, count=count, is_selected=value in selected) for value, count in values.items() if value
    ]


def _kinds(used: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*MEMORY_KINDS, *filter(None, used))))


def _link(query: MemoriesPageQuery, cursor: str) -> str:
    parameters = {**_set_parameters(query), "cursor": cursor}
    return "/memories?" + urlencode(
        {name: "true" if one is True else one for name, one in parameters.items()}, doseq=True
    )


def _is_narrowed(query: MemoriesPageQuery) -> bool:
    """Return whether any filter besides the default is set."""
    ignored = {"cursor", "project", *(["state"] if query.state == [MemoryState.ACTIVE] else [])}
    return bool(_set_parameters(query).keys() - ignored)


def _set_parameters(query: MemoriesPageQuery) -> dict[str, Any]:
    """Return the query parameters that are set."""
    return {name: value for name in query.__struct_fields__ if (value := getattr(query, name))}


# --- one --------------------------------------------------------------------------------


def show_memory_page(project: Project, id: str, query: MemoryPageQuery) -> PageView:
    """Show a memory with its confidence over time, history and use."""
    here = selected_project(project, query.project or SERVED_PROJECT)
    view = here.memory.show(id)
    memory = view.memory
    task_ids = (memory.origin_task, query.task, *(row["task_id"] for row in view.shown_to))
    return PageView(
        template="memory.html",
        values={
            "memory": public_memory(memory),
            "view": view,
            "history": [_history_entry(event) for event in reversed(here.memory.history(id))],
            "points": [
                {"at": one.at, "confidence": one.confidence, "what": one.what}
                for one in here.memory.confidence_over_time(id)
            ],
            "tasks": here.store.tasks.get_many(task_ids),
            "choices": here.tasks.list(Page(limit=MAX_TASK_CHOICES)),
            "why": here.prompts.explain(id, query.task) if query.task else None,
            "asked_task": query.task,
            "link_ids": dict(view.links),
            "is_shared": here.memory.sharing.is_shared(id),
            "meanings": SCORE_DESCRIPTIONS,
            "kinds": _kinds((memory.kind,)),
            "in_project": query.project,
            "suffix": "?" + urlencode({"project": query.project}) if query.project else "",
            "is_in_use": memory.state is MemoryState.ACTIVE,
            "is_waiting": memory.state in (MemoryState.STAGED, MemoryState.QUARANTINED),
        },
    )


def _history_entry(event: MemoryEvent) -> HistoryEntry:
    changes = changed_fields(event) if event.was is not None else {}
    return HistoryEntry(
        event=event,
        changes=tuple(
            (FIELD_LABELS.get(name, name), _format_value(name, was), _format_value(name, became))
            for name, (was, became) in changes.items()
            if name not in HIDDEN_FIELDS and not (name == "state_reason" and became == event.why)
        ),
    )


def _format_value(name: str, value: Any) -> str:
    if name == "state":
        return state_words(value)
    if value is None or value == "" or value == []:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}"
    if name == "content":  # the figures of a learning, as JSON
        return _LONG_FRACTION.sub(lambda found: figure(float(found[0])), value)
    if isinstance(value, list | tuple):
        return one_line(", ".join(map(str, value)), 1_000)
    return str(value)
