"""Episodes of a project: passages of past sessions, attempts and commits, word for word."""

from __future__ import annotations

from ralph.core.errors import NotTrustedError, TranscriptNotFoundError, UsageError
from ralph.core.records import EpisodeKind, now, record, replace
from ralph.core.trust_record import are_files_trusted
from ralph.store.episodes import EpisodeFilter
from ralph.store.import_cursors import REFLECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.core.paging import Page, ResultList
    from ralph.core.records import Episode, RecalledEpisode
    from ralph.formats.planned import PassageImport, PlannedPassage
    from ralph.memory.capture.available import AvailableHistory
    from ralph.memory.capture.history import HistoryImport
    from ralph.memory.capture.session_import import ImportSummary, Progress
    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.store.episodes import EpisodeCount
    from ralph.store.timeline import TimelineEntry, TimelineFilter

    EraseLogs = Callable[[EpisodeFilter, bool], tuple[int, str]]
    """Delete the live logs of runs that may hold what a filter matches, or only count them; return what remains."""

SHOWN_ATTEMPTS = 20
"""Number of attempts listed with an episode that their prompts quoted."""
TRIMMED = "trimmed"
"""Cursor of what was deleted because of the size limit: their number, and that limit in bytes."""
MAX_AMBIGUOUS = 1_000
"""Number of sources that start with the beginning of an id which are looked at."""


@record
class Forgotten:
    """What was erased."""

    episodes: int
    sessions: int
    """Number of sessions whose titles and summaries were erased with them."""
    reports: int = 0
    """Number of notes and failure reports of attempts whose words were erased with them."""
    logs: int = 0
    """Number of runs whose live logs were erased with them."""
    quotes: int = 0
    """Number of quotes in what reflections proposed that were erased with them."""
    remains: str = ""
    """Where the bytes still are, in a sentence; empty if nowhere."""


class EpisodeService:
    """The episodes of one opened project."""

    def __init__(self, store: Store, root: str, config: Config, actor: Actor, erase_logs: EraseLogs) -> None:
        self._store = store
        self._root = root
        self._config = config
        self._actor = actor
        self._erase_logs = erase_logs

    def _history(self, *, since: str = "", dry_run: bool = False, again: bool = False) -> HistoryImport:
        from ralph.memory.capture.history import HistoryImport
        from ralph.memory.capture.session_import import TAIL, ImportContext

        is_raised = self._is_limit_raised()
        if is_raised and not dry_run:
            # Sources are read from their beginning: no cursor tells what was deleted.
            cursors = self._store.episodes.cursors
            cursors.delete([one for one in cursors.all() if TAIL not in one and one != REFLECTION])
        context = ImportContext(self._store, since=since, dry_run=dry_run, is_again=again, is_whole=is_raised)
        return HistoryImport(self._store, self._root, context=context)

    def _is_limit_raised(self) -> bool:
        limit = self._store.episodes.cursors.get(TRIMMED).mark
        return bool(limit) and self._config.episodes.max_bytes > int(limit)

    # --- adding ----------------------------------------------------------------------

    def import_commits(
        self,
        *,
        since: str = "",
        limit: int = 0,
        dry_run: bool = False,
        again: bool = False,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Import the history of the git repository, newest commits first, up to a limit.

        With `again`, all of it is read, also what was imported or forgotten before.
        """
        self._actor.require("episodes.import")
        if are_files_trusted(self._root) is False:
            raise NotTrustedError(
                f"{self._root} is not trusted, so its commits are not imported. Review it with: ralph trust"
            )
        history = self._history(since=since, dry_run=dry_run, again=again)
        (summary,) = self._trimmed([history.import_commits(limit=limit, progress=progress)], dry_run)
        return summary

    def import_sessions(
        self,
        agents: Sequence[str] = (),
        *,
        since: str = "",
        dry_run: bool = False,
        again: bool = False,
        progress: Progress | None = None,
    ) -> list[ImportSummary]:
        """Import the sessions of this project that agents recorded; a person has to have agreed to it.

        With `again`, all of them are read, also what was imported or forgotten before.
        """
        self._actor.require("episodes.import")
        history = self._history(since=since, dry_run=dry_run, again=again)
        return self._trimmed(history.import_sessions(agents, progress), dry_run)

    def import_files(
        self,
        paths: Sequence[str],
        *,
        any_project: bool = False,
        since: str = "",
        dry_run: bool = False,
        again: bool = False,
        progress: Progress | None = None,
    ) -> list[ImportSummary]:
        """Import the sessions in files and folders that a person names; others than of this project if they say so."""
        self._actor.require("episodes.import")
        history = self._history(since=since, dry_run=dry_run, again=again)
        return self._trimmed(history.import_files(paths, any_project=any_project, progress=progress), dry_run)

    def import_planned(self, passages: Sequence[PlannedPassage]) -> PassageImport:
        """Import what another program recorded of sessions in this project; what it has of others is left out."""
        from ralph.memory.capture.recorded import import_recorded

        self._actor.require("episodes.import")
        result = import_recorded(self._store, self._root, passages)
        self.trim()
        return result

    def capture_session(self, agent: str, session: str, path: str) -> int:
        """Store what was said in a session of an agent since the last time; return the number of new episodes."""
        self._actor.require("episodes.capture")
        if not self._config.episodes.capture:
            return 0
        from ralph.memory.capture.history import HistoryImport

        return HistoryImport(self._store, self._root).capture(agent, session, path)

    def available(self) -> AvailableHistory:
        """Return the past work that was never imported."""
        from ralph.memory.capture.history import HistoryImport

        return HistoryImport(self._store, self._root).available()

    def _trimmed(self, summaries: list[ImportSummary], dry_run: bool) -> list[ImportSummary]:
        """Delete what is above the size limit after an import, and return its summaries with a note about that."""
        deleted = 0 if dry_run else self.trim()
        if not deleted or not summaries:
            return summaries
        note = (
            f"Passages above max_mb = {self._config.episodes.max_mb:g} under [episodes] were deleted, the least useful"
            f" first: {deleted:,}. Once it is raised, the next import brings back those of sessions and commits."
        )
        return [*summaries[:-1], replace(summaries[-1], notes=(*summaries[-1].notes, note))]

    def trim(self) -> int:
        """Delete the least useful episodes above the size limit of the settings, and return their number."""
        limit = self._config.episodes.max_bytes
        deleted = self._store.episodes.trim(limit)
        if deleted:
            before = self._store.episodes.cursors.get(TRIMMED).position
            self._store.episodes.cursors.save(TRIMMED, before + deleted, str(limit))
        return deleted

    # --- reading ---------------------------------------------------------------------

    def search(
        self,
        text: str,
        limit: int,
        filter: EpisodeFilter | None = None,
        *,
        task_id: str | None = None,
        by_meaning: bool = True,
    ) -> list[RecalledEpisode]:
        """Return the episodes that match a text and the words of a task, best first; without them, the newest.

        Without `by_meaning`, no vector search, whatever the settings say: its model takes long to load.
        """
        from ralph.core.records import RecalledEpisode
        from ralph.memory.validation import clean_query

        filter, text = filter or EpisodeFilter(), clean_query(text)
        if not text and not task_id:
            return [RecalledEpisode(episode=one, score=0.0) for one in self._store.episodes.newest(filter, limit)]
        from ralph.memory.recall.episodes import rank_episodes, to_recalled
        from ralph.memory.recall.evidence import words_as_written
        from ralph.memory.recall.gather import next_context
        from ralph.memory.recall.matching import matching_passages
        from ralph.memory.recall.query import RecallContext

        context = next_context(self._store, task_id) if task_id else RecallContext()
        context = replace(context, title=f"{context.title} {text}".strip(), at=now())
        by_meaning = by_meaning and self._config.memories.meaning
        ranked = matching_passages(rank_episodes(self._store, context, filter, by_meaning=by_meaning), context)
        written = words_as_written(context)
        return [to_recalled(hit, written) for hit in ranked[:limit]]

    def timeline(self, filter: TimelineFilter, page: Page) -> ResultList[TimelineEntry]:
        """Return sessions, attempts and commits, last ended first."""
        from ralph.core.paging import paged

        return paged(self._store.timeline.page(filter, page.limit + 1, page.after), page)

    def get(self, id: str) -> Episode:
        """Return an episode by its id."""
        return self._store.episodes.get(id)

    def transcript(self, kind: EpisodeKind, source: str) -> list[Episode]:
        """Return all passages of an attempt, or of a session by its id or a unique prefix of it, in order."""
        found = self._store.episodes.of_source(kind, source)
        if not found and source and kind is EpisodeKind.SESSION:
            sessions = self._store.episodes.sources(EpisodeFilter(kinds=(kind,), source=source), 2)
            if len(sessions) > 1:
                raise _ambiguous(source, sessions)
            found = [one for id in sessions for one in self._store.episodes.of_source(kind, id)]
        if not found:
            raise TranscriptNotFoundError(source)
        return found

    def shown_to(self, id: str, limit: int = SHOWN_ATTEMPTS) -> list[Row]:
        """Return the latest attempts whose prompt quoted an episode, newest first."""
        return self._store.memories.history.attempts_shown(id, limit)

    def counts(self) -> list[EpisodeCount]:
        """Return the number and size of episodes by kind."""
        return self._store.episodes.counts()

    # --- erasing ---------------------------------------------------------------------

    def forget(self, filter: EpisodeFilter, *, dry_run: bool = False) -> Forgotten:
        """Erase the episodes that match a filter: their texts, words and vectors, and the titles of their sessions."""
        from ralph.memory.reflection_quotes import ReflectionQuotes
        from ralph.store.attempt_words import AttemptWords

        self._actor.require("episodes.forget")
        if filter == EpisodeFilter():
            raise UsageError(
                "Say what to forget: --session ID, --before DATE, --matching TEXT or --kind KIND.",
                code="nothing-to-forget",
            )
        filter = replace(filter, within=self._whole_id(filter.within))
        words = AttemptWords(self._store.scope, filter)
        quotes = ReflectionQuotes(self._store, filter)
        if dry_run:
            sessions, count = self._store.sessions.count_matching(filter), self._store.episodes.count(filter)
            logs = self._erase_logs(filter, True)[0]
            return Forgotten(episodes=count, sessions=sessions, reports=words.count(), logs=logs, quotes=quotes.count())
        with self._store.transaction():
            sessions = self._store.sessions.delete_matching(filter)
            count = self._store.episodes.forget(filter)
            reports = words.erase()
            quoted = quotes.erase()
        logs, written = self._erase_logs(filter, False)
        remains = " ".join([self._store.database.erase_deleted(), written]).strip()
        return Forgotten(episodes=count, sessions=sessions, reports=reports, logs=logs, quotes=quoted, remains=remains)

    def _whole_id(self, id: str) -> str:
        """Return the id of a session, an attempt or a commit by a unique prefix of it; what merely starts so stays."""
        if not id or self._store.sessions.find(id) or self._store.episodes.sources(EpisodeFilter(within=id), 1):
            return id
        found = self._store.episodes.sources(EpisodeFilter(source=id), MAX_AMBIGUOUS)
        # Subagents go with the session that they belong to.
        whole = {one for one in found if "/" not in one or one.partition("/")[0] not in found}
        whole.update(self._store.sessions.ids_with_prefix(id, 2))
        if len(whole) > 1:
            raise _ambiguous(id, sorted(whole)[:2])
        return whole.pop() if whole else id


def _ambiguous(id: str, found: Sequence[str]) -> UsageError:
    return UsageError(
        f"Session id {id!r} is ambiguous: {' and '.join(found)} start with it. Use more of the id.",
        code="ambiguous-session",
    )
