"""Page of the timeline: sessions, attempts and commits by day."""

from __future__ import annotations

from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

from ralph.core.agents import agent_title
from ralph.core.errors import NotFoundError
from ralph.core.paging import Page
from ralph.core.records import EpisodeKind, Speaker, record
from ralph.core.text import one_line
from ralph.memory.capture.passages import spoken_parts
from ralph.memory.recall.matching import matched_pattern, matched_words, matching_excerpt
from ralph.project import Project
from ralph.store.timeline import TimelineFilter
from ralph.web.api.filters import Date, moment
from ralph.web.endpoints import QueryParams
from ralph.web.pages.episodes import transcript_path
from ralph.web.pages.page import PageView, page_url
from ralph.web.paging import Cursor, Moment, Name, Number, decode_cursor, encode_cursor
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    import re

    from ralph.core.records import Attempt, Episode
    from ralph.store.timeline import TimelineEntry

ENTRIES_PER_PAGE = 60
"""Number of sessions, attempts and commits on a page."""
TITLE_LENGTH = 140
EXCERPT_LENGTH = 260


class TimelinePageQuery(QueryParams):
    """Filters of the timeline."""

    kind: str = ""
    agent: Name = ""
    """Agent; of commits, the author."""
    q: Name = ""
    """Text that any passage contains."""
    after: Date = ""
    before: Date = ""
    cursor: Cursor = ""


@record
class TimelineRow:
    """Session, attempt or commit on the page."""

    entry: TimelineEntry
    title: str
    excerpt: str
    """How it ended, or the part that matches."""
    who: str
    href: str
    status: str
    """Outcome of an attempt, or its kind, which determines the color."""
    badge: str
    matched: re.Pattern[str] | None = None


@record
class TimelineDay:
    """Day with what ended on it, last first."""

    date: str
    label: str
    rows: tuple[TimelineRow, ...]


def show_timeline(project: Project, query: TimelinePageQuery) -> PageView:
    """Show sessions, attempts and commits by day, newest first."""
    if query.kind and query.kind not in tuple(EpisodeKind):
        raise InvalidValueError(f"kind: must be one of {', '.join(EpisodeKind)}.")
    filter = TimelineFilter(
        kinds=(query.kind,) if query.kind else (),
        agent=query.agent,
        matching=query.q.strip(),
        after=moment("after", query.after),
        before=moment("before", query.before),
    )
    page = Page(limit=ENTRIES_PER_PAGE, after=decode_cursor(query.cursor, tuple[Moment, Number]))
    found = project.episodes.timeline(filter, page)
    attempts = _attempts(project, found)
    titles = project.store.tasks.titles([one.task_id for one in attempts.values()])
    rows = [_row(one, attempts.get(one.last.source), titles, query.q) for one in found]
    names = ("kind", "agent", "q", "after", "before")
    values = {name: getattr(query, name) for name in names}

    def narrowed(**change: str) -> str:
        return page_url("/timeline", **(values | change))

    cursor = encode_cursor(found.next)
    return PageView(
        template="timeline.html",
        values={
            "query": query,
            "kinds": [kind.value for kind in EpisodeKind],
            "agents": [(one, agent_title(one)) for one in project.store.timeline.agents()],
            "days": [
                TimelineDay(date=day, label=_day_label(day), rows=tuple(some))
                for day, some in groupby(rows, lambda row: row.entry.last.at[:10])
            ],
            "narrowed": narrowed,
            "is_narrowed": any(values.values()),
            "next": narrowed(cursor=cursor) if cursor else "",
        },
    )


def _attempts(project: Project, entries: list[TimelineEntry]) -> dict[str, Attempt]:
    """Return the attempts on the page by source; those of deleted runs are left out."""
    found = {}
    for one in entries:
        if one.last.kind is EpisodeKind.ATTEMPT:
            try:
                found[one.last.source] = project.journal.get(one.last.source)
            except NotFoundError:
                continue
    return found


def _row(entry: TimelineEntry, attempt: Attempt | None, titles: dict[str, str], query: str) -> TimelineRow:
    last = entry.last
    words = matched_words([entry.first.text, last.text], query, literally=True) if query.strip() else []
    pattern = matched_pattern(words)
    text = entry.first.text if pattern and not pattern.search(_ending(entry)) else _ending(entry)
    status = attempt.outcome or "running" if attempt else "accent" if last.kind is EpisodeKind.SESSION else "pending"
    return TimelineRow(
        entry=entry,
        title=_title(entry, attempt, titles),
        excerpt=matching_excerpt(text, words, EXCERPT_LENGTH),
        who=last.agent if last.kind is EpisodeKind.COMMIT else agent_title(last.agent),
        href=transcript_path(entry.first) or f"/episodes/{last.id}",
        status=status,
        badge=str(attempt.outcome or "running") if attempt else last.kind.value,
        matched=pattern,
    )


def _title(entry: TimelineEntry, attempt: Attempt | None, titles: dict[str, str]) -> str:
    if attempt and attempt.task_id in titles:
        return one_line(titles[attempt.task_id], TITLE_LENGTH)
    if entry.first.kind is EpisodeKind.COMMIT:
        return one_line(entry.first.text.partition("\n")[0], TITLE_LENGTH)
    return one_line(_said(entry.first, Speaker.PERSON) or entry.first.text, TITLE_LENGTH)


def _ending(entry: TimelineEntry) -> str:
    if entry.last.kind is EpisodeKind.COMMIT:
        return entry.last.text.partition("\n")[2].strip()
    return _said(entry.last, Speaker.AGENT) or entry.last.text


def _said(episode: Episode, speaker: Speaker) -> str:
    """Return the last thing that a speaker says in a passage; empty if there is none."""
    said = [text for who, text in spoken_parts(episode) if who is speaker]
    return said[-1] if said else ""


def _day_label(day: str) -> str:
    try:
        return f"{date.fromisoformat(day):%A, %B} {int(day[8:])}, {day[:4]}"
    except ValueError:
        return day
