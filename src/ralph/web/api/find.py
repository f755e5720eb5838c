"""Endpoint of the palette: tasks, memories, past work, runs, pages and actions by a few letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

from msgspec import Meta, Struct

from ralph.core.records import MemoryState
from ralph.core.text import one_line
from ralph.memory.recall.matching import matched_words, matching_excerpt
from ralph.memory.recall.past_work import attribution
from ralph.memory.validation import clean_query
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.endpoints import EndpointGroup, QueryParams
from ralph.web.paging import Limit
from ralph.web.rendering import state_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

calls = EndpointGroup("find")

MAX_TITLE_LENGTH = 120
"""Maximum length of a title, in characters."""
MAX_DETAIL_LENGTH = 120
"""Maximum length of a detail, in characters."""
FOUND_STATES = (MemoryState.ACTIVE, MemoryState.STAGED)
"""States of memories that are found."""


class FindQuery(QueryParams):
    """What was typed."""

    q: Annotated[
        str, Meta(max_length=200, description="Words, parts of words or an ID. Default: pages and actions.")
    ] = ""
    limit: Annotated[Limit, Meta(description="Maximum number of items of each kind.")] = 5


class FoundItem(Struct, kw_only=True):
    """Thing or place to go to."""

    kind: str
    """`page`, `action`, `task`, `memory`, `run`, `episode`, or `search` for the page that lists all matches."""
    title: str
    detail: str = ""
    href: str
    """Path of its page; only `#` and an ID for what every page has."""
    at: str | None = None
    """When it happened, of runs and episodes."""


class FoundItems(Struct):
    """Items in groups of the same kind."""

    items: list[FoundItem]


@calls.get("/api/find")
def find(project: Project, query: FindQuery) -> FoundItems:
    """Find tasks, memories, past work, runs, pages and actions by words, parts of words or an ID.

    Each kind is looked up by one query that reads a bounded number of rows; nothing is found by meaning, because this
    answers while a person types. Texts are what people and agents wrote: data, not instructions.
    """
    text = clean_query(query.q).strip()
    if not text:
        return FoundItems([*_actions("", len(_places())), *_pages("")])
    found = [item for look_up in _LOOK_UPS for item in look_up(project, text, query.limit)]
    return FoundItems([*_pages(text)[: query.limit], *_actions(text, query.limit), *found, *_searches(text)])


def _places() -> Sequence[tuple[str, str, str, str]]:
    """Return kind, title, path and words of the pages and actions."""
    from ralph.web.pages import NAVIGATION
    from ralph.web.pages.actions import ACTIONS

    pages = [("page", page.label, page.path, page.description) for page in NAVIGATION]
    return [*pages, *(("action", one.label, one.path, one.words) for one in ACTIONS)]


def _pages(text: str) -> list[FoundItem]:
    return [
        FoundItem(kind=kind, title=title, detail=words, href=path)
        for kind, title, path, words in _places()
        if kind == "page" and _begins(text, title)
    ]


def _actions(text: str, limit: int) -> list[FoundItem]:
    return [
        FoundItem(kind=kind, title=title, href=path)
        for kind, title, path, words in _places()
        if kind == "action" and _begins(text, f"{title} {words}")
    ][:limit]


def _begins(text: str, name: str) -> bool:
    """Return whether every word of a text is the beginning of a word of a name."""
    names = name.casefold().split()
    return all(any(one.startswith(word) for one in names) for word in text.casefold().split())


def _tasks(project: Project, text: str, limit: int) -> list[FoundItem]:
    return [
        FoundItem(
            kind="task",
            title=one_line(one.title, MAX_TITLE_LENGTH),
            detail=f"{one.id}, {state_words(one.status)}",
            href=f"/tasks/{quote(one.id, safe='')}",
        )
        for one in project.store.titles.tasks(text, limit)
    ]


def _memories(project: Project, text: str, limit: int) -> list[FoundItem]:
    found = [
        hit.memory for hit in project.memory.search(text, MemoryFilter(states=FOUND_STATES), limit, by_meaning=False)
    ]
    if not found and (one := project.store.memories.find_by_id(text)):
        found = [one]
    return [
        FoundItem(
            kind="memory",
            title=one_line(one.title, MAX_TITLE_LENGTH),
            detail=state_words(
                one.kind if one.state is MemoryState.ACTIVE else f"{one.kind}, {state_words(one.state)}"
            ),
            href=f"/memories/{quote(one.id, safe='')}",
        )
        for one in found
    ]


def _runs(project: Project, text: str, limit: int) -> list[FoundItem]:
    return [
        FoundItem(
            kind="run",
            title=one.id,
            detail=one_line(f"{one.agent}, {one.ending or 'running or interrupted'}", MAX_DETAIL_LENGTH),
            href=f"/runs/{quote(one.id, safe='')}",
            at=one.started_at,
        )
        for one in project.store.titles.runs(text, limit)
    ]


def _episodes(project: Project, text: str, limit: int) -> list[FoundItem]:
    found = [hit.episode for hit in project.episodes.search(text, limit, by_meaning=False)]
    found = found or project.store.episodes.find_all([text])
    items = []
    for one in found:
        title = attribution(one)
        excerpt = matching_excerpt(one.text, matched_words([one.text], text), MAX_DETAIL_LENGTH)
        items.append(
            FoundItem(
                kind="episode",
                title=title[0].upper() + title[1:],
                detail=excerpt,
                href=f"/episodes/{quote(one.id, safe='')}",
                at=one.at,
            )
        )
    return items


_LOOK_UPS: tuple[Callable[[Project, str, int], list[FoundItem]], ...] = (_tasks, _memories, _runs, _episodes)


def _searches(text: str) -> list[FoundItem]:
    words = urlencode({"q": text})
    return [
        FoundItem(kind="search", title=f"Search {where} for “{one_line(text, 60)}”", href=f"{path}?{words}")
        for where, path in (("memories", "/memories"), ("past work", "/episodes"), ("the journal", "/journal"))
    ]
