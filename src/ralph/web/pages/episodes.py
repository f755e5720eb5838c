"""Pages of past work: search over episodes, one passage, and the transcripts of attempts and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.errors import NotFoundError, TranscriptNotFoundError
from ralph.core.records import Episode, EpisodeKind, record
from ralph.memory.capture.passages import SPEAKER_LABELS, spoken_parts
from ralph.memory.recall.labels import SCORE_DESCRIPTIONS
from ralph.memory.recall.past_work import attribution, excerpt
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import AgentSession, RecalledEpisode

MAX_RESULTS = 50
"""Maximum number of passages in a list."""
MAX_PASSAGES = 100
"""Maximum number of passages of a transcript on a page; of longer ones, the last."""
EXCERPT_LENGTH = 400
"""Maximum length of an excerpt of a passage, in characters."""


class PastWorkPageQuery(QueryParams):
    """Search words and filters for passages."""

    q: str = ""
    kind: str = ""


@record
class PassageRow:
    """Passage in a list."""

    episode: Episode
    title: str
    excerpt: str
    href: str
    """Link to the passage in its transcript, or to the passage if it has none."""
    because: tuple[tuple[str, float], ...]


@record
class TranscriptPassage:
    """Passage of a transcript, with what was said by whom."""

    episode: Episode
    parts: tuple[tuple[str, str, str], ...]
    """Speaker, label of the speaker, and text."""


@record
class TranscriptView:
    """Passages to show of a transcript."""

    passages: tuple[TranscriptPassage, ...]
    left_out: int
    """Number of passages before the first one shown."""


def show_past_work(project: Project, query: PastWorkPageQuery) -> PageView:
    """Show passages of past sessions, attempts and commits, best or newest first."""
    if query.kind and query.kind not in tuple(EpisodeKind):
        raise InvalidValueError(f"kind: must be one of {', '.join(EpisodeKind)}.")
    counts = project.episodes.counts()
    filter = EpisodeFilter(kinds=(query.kind,) if query.kind else ())

    def narrowed(kind: str) -> str:
        return page_url("/episodes", q=query.q, kind=kind)

    return PageView(
        template="episodes.html",
        values={
            "query": query,
            "narrowed": narrowed,
            "is_narrowed": any((query.q, query.kind)),
            "counts": counts,
            "total": sum(one.episodes for one in counts),
            "megabytes": sum(one.bytes for one in counts) / 1_000_000,
            "max_mb": project.config.episodes.max_mb,
            "rows": [_row(hit, query.q) for hit in project.episodes.search(query.q, MAX_RESULTS, filter)],
            "meanings": SCORE_DESCRIPTIONS,
        },
    )


def _row(hit: RecalledEpisode, query: str) -> PassageRow:
    return PassageRow(
        episode=hit.episode,
        title=_title(hit.episode),
        excerpt=excerpt(hit.episode, query, EXCERPT_LENGTH),
        href=f"/episodes/{hit.episode.id}",
        because=tuple((name, share) for name, share in hit.because if share >= 0.005),
    )


def _title(episode: Episode) -> str:
    title = attribution(episode)
    return title[0].upper() + title[1:]


def show_episode(project: Project, id: str) -> PageView:
    """Show a passage of past work, and the attempts whose prompts quoted it."""
    episode = project.episodes.get(id)
    return PageView(
        template="episode.html",
        values={
            "episode": episode,
            "title": _title(episode),
            "passage": _passage(episode),
            "transcript_path": transcript_path(episode),
            "shown_to": project.episodes.shown_to(id),
        },
    )


def show_session(project: Project, id: str) -> PageView:
    """Show a session outside the loop with its transcript. One that was imported may have nothing else."""
    session: AgentSession | None = None
    try:
        session = project.sessions.get(id)
    except NotFoundError:
        if not (transcript := transcript_of(project, EpisodeKind.SESSION, id)):
            raise
    else:
        transcript = transcript_of(project, EpisodeKind.SESSION, session.id)
    first = transcript.passages[0].episode if transcript else None
    values: dict[str, Any] = {"session": session, "first": first, "title": _title(first) if first else ""}
    return PageView(template="session.html", values={**values, "transcript": transcript})


def transcript_of(project: Project, kind: EpisodeKind, source: str) -> TranscriptView | None:
    """Return the transcript of an attempt or session; None if nothing of it is kept."""
    try:
        passages = project.episodes.transcript(kind, source)
    except TranscriptNotFoundError:
        return None
    shown = passages[-MAX_PASSAGES:]
    return TranscriptView(passages=_passages(shown), left_out=len(passages) - len(shown))


def transcript_path(episode: Episode) -> str:
    """Return the path of the page with the transcript of a passage; empty for a commit."""
    if episode.kind is EpisodeKind.COMMIT:
        return ""
    if episode.kind is EpisodeKind.SESSION:
        return f"/sessions/{_quoted(episode.source)}#{episode.id}"
    run, _, iteration = episode.source.rpartition("/")
    return f"/runs/{_quoted(run)}/attempts/{_quoted(iteration)}#{episode.id}"


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def _passages(episodes: Sequence[Episode]) -> tuple[TranscriptPassage, ...]:
    return tuple(_passage(one) for one in episodes)


def _passage(episode: Episode) -> TranscriptPassage:
    if episode.kind is EpisodeKind.COMMIT:
        return TranscriptPassage(episode=episode, parts=(("commit", "Message", episode.text),))
    parts = ((speaker.value, SPEAKER_LABELS[speaker], text) for speaker, text in spoken_parts(episode))
    return TranscriptPassage(episode=episode, parts=tuple(parts))
