"""Import of transcripts: each is read on from where the last import stopped.

The last exchange of a transcript is open: an answer, or a few words that decide it, may follow. So a cursor points to
its beginning, and the next import reads it again and replaces what is stored of it.
"""

from __future__ import annotations

import os
from collections import Counter

from ralph.core.hashing import sha256_hex
from ralph.core.records import EpisodeKind, Speaker, record, replace
from ralph.memory.capture.passages import Origin, episode_id, exchange_episodes, exchanges, sanitized_turns
from ralph.store.import_cursors import ImportCursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ralph.core.records import Episode, Turn
    from ralph.formats.transcripts.base import Transcript, TranscriptProblem, TranscriptReader
    from ralph.store import Store

    Progress = Callable[[int, int], None]
    """Called with the number of sessions or commits done so far, and of all of them."""

BATCH = 500
"""Number of episodes stored per transaction."""
MARK_BYTES = 1024
"""Number of bytes at the beginning of a transcript that identify it."""
MAX_CAPTURED_BYTES = 8 * 1024 * 1024
"""Number of bytes of a transcript that a hook reads at most, from its end; agents do not wait for more."""
FORGOTTEN = "forgotten (to import them: --again)"
"""Reason why passages are left out that a person has erased."""
OWN_PROMPT = "# How to work here\n"
"""Beginning of the prompts of the loop, which no person wrote."""
TAIL = "tail:"
"""Prefix of the cursors of transcripts of which hooks have skipped a part."""


@record
class ImportSummary:
    """What came in from one kind of source, and what did not and why."""

    source: str
    """`git`, or the name of an agent."""
    title: str
    read: int = 0
    """Number of commits or sessions read."""
    unchanged: int = 0
    """Number of sessions without anything new since the last import."""
    added: int = 0
    """Number of new episodes."""
    known: int = 0
    """Number of episodes that were already there."""
    left_out: tuple[tuple[str, int], ...] = ()
    """Number of commits, sessions or passages left out, by reason."""
    problems: tuple[TranscriptProblem, ...] = ()
    notes: tuple[str, ...] = ()
    """What else there is to know, in sentences."""


class ImportContext:
    """What one import reads and how: its cursors, and what it may store."""

    def __init__(
        self, store: Store, *, since: str = "", dry_run: bool = False, is_again: bool = False, is_whole: bool = False
    ) -> None:
        """With `is_whole` cursors do not count; with `is_again` neither does what was forgotten."""
        self.store = store
        self.since = since
        self.dry_run = dry_run
        self._is_again = is_again
        self._is_whole = is_whole or is_again
        self._announced: set[str] = set()
        """Ids of episodes that a dry run would have added."""

    def key(self, source: str) -> str:
        """Return the name of a cursor; machines that share a database have cursors of their own."""
        return f"{os.uname().nodename}:{source}" if self.store.has_multiple_checkouts else source

    def cursor(self, source: str) -> ImportCursor:
        """Return how far a source is imported."""
        key = self.key(source)
        return ImportCursor(source=key) if self._is_whole else self.store.episodes.cursors.get(key)

    def set_cursor(self, source: str, position: int, mark: str) -> None:
        """Record how far a source is imported, unless this is a dry run."""
        if not self.dry_run:
            self.store.episodes.cursors.save(self.key(source), position, mark)

    def forgotten_at(self, session: str) -> str:
        """Return when a whole session was erased; empty if it was not."""
        return "" if self._is_again else self.store.episodes.cursors.forgotten_at(session)

    def add(self, batch: list[Episode], left_out: Counter[str]) -> int:
        """Store episodes without those that a person has erased, and return the number of new ones."""
        if not self._is_again and (forgotten := self.store.episodes.cursors.forgotten([one.id for one in batch])):
            left_out[FORGOTTEN] += len(forgotten)
            batch = [one for one in batch if one.id not in forgotten]
        if self.dry_run:
            new = self.store.episodes.new_ids(batch) - self._announced
            self._announced |= new
            return len(new)
        if self._is_again:
            self.store.episodes.unforget(batch)
        return self.store.episodes.add(batch)


class SessionImport:
    """Reads the transcripts of one agent into the store."""

    def __init__(
        self,
        context: ImportContext,
        reader: TranscriptReader,
        problems: list[TranscriptProblem],
        *,
        own_sessions: Collection[str] = (),
        branch: str = "",
    ) -> None:
        """`own_sessions` are those of the loop, and `branch` is that of turns which do not name one."""
        self._context = context
        self._store = context.store
        self._reader = reader
        self._problems = problems
        self._branch = branch
        self._own_sessions = own_sessions
        self.left_out: Counter[str] = Counter()
        self._read = self._unchanged = self._passages = 0
        self._open_at = 0
        """Offset at which the last exchange starts."""
        self.added = 0

    def summary(self) -> ImportSummary:
        """Return what came in, and what did not."""
        return ImportSummary(
            source=self._reader.name,
            title=self._reader.title,
            read=self._read,
            unchanged=self._unchanged,
            added=self.added,
            known=self._passages - self.added - self.left_out[FORGOTTEN],
            left_out=tuple(self.left_out.most_common()),
            problems=tuple(self._problems),
        )

    def read(self, transcript: Transcript) -> None:
        """Store what is new in a transcript. The cursor moves when all of it is stored."""
        if transcript.session in self._own_sessions:
            self.left_out["sessions of the loop, whose attempts are kept"] += 1
            return
        since = self._context.since
        if since and transcript.modified_at and transcript.modified_at < since:
            self.left_out[f"sessions last used before {since[:10]}"] += 1
            return
        mark, source = transcript_mark(transcript), source_name(transcript)
        cursor = self._context.cursor(source)
        if cursor.mark == mark:
            self._unchanged += 1
            return
        tail = self._context.cursor(TAIL + source)
        if tail.mark and not self._context.dry_run:
            # What hooks have stored behind the gap comes again, in its place.
            first = int(tail.mark.rpartition(" ")[2])
            self._store.episodes.delete_from(EpisodeKind.SESSION, _session_id(transcript), first)
        if self._store_turns(transcript, start_offset(cursor, mark)):
            self._context.set_cursor(source, self._open_at, mark)
            if tail.mark and not self._context.dry_run:
                self._store.episodes.cursors.delete([tail.source])

    def read_end(self, transcript: Transcript) -> None:
        """Store what is new at the end of a transcript, for a hook: of very much, only the last part.

        An import reads what is skipped, so the cursor stays before it; another one is for the end.
        """
        mark, source = transcript_mark(transcript), source_name(transcript)
        cursor, tail = self._context.cursor(source), self._context.cursor(TAIL + source)
        tail_mark, _, first = tail.mark.rpartition(" ")
        if mark in (cursor.mark, tail_mark):
            return
        start = start_offset(replace(tail, mark=tail_mark) if first else cursor, mark)
        is_skipped = transcript.size - start > MAX_CAPTURED_BYTES and transcript.path.endswith(".jsonl")
        if is_skipped:
            from ralph.formats.transcripts.lines import next_line

            start = next_line(transcript.path, transcript.size - MAX_CAPTURED_BYTES)
            first = first or str(self._store.episodes.next_position(EpisodeKind.SESSION, _session_id(transcript)))
        if self._store_turns(transcript, start, is_skipped=is_skipped):
            if first:
                self._context.set_cursor(TAIL + source, self._open_at, f"{mark} {first}")
            else:
                self._context.set_cursor(source, self._open_at, mark)

    def _store_turns(self, transcript: Transcript, start: int, *, is_skipped: bool = False) -> bool:
        """Store the passages from an offset on; return whether all was read and stored, so that the cursor may move."""
        problems, left_out = len(self._problems), self.left_out[_older(self._context.since)]
        count = 0
        for batch in batches(self._episodes(transcript, start, is_skipped)):
            count += len(batch)
            self.added += self._context.add(batch, self.left_out)
        self._passages += count
        is_refused = not count and len(self._problems) > problems and self._open_at == start
        self._read += not is_refused
        return not is_refused and self.left_out[_older(self._context.since)] == left_out

    def _episodes(self, transcript: Transcript, start: int, is_skipped: bool) -> Iterator[Episode]:
        session, since = _session_id(transcript), self._context.since
        turns: Iterable[Turn] = self._turns(transcript, session, start)
        if is_skipped:
            start, turns = _from_prompt(start, list(turns))
        origin = Origin(
            kind=EpisodeKind.SESSION,
            source=session,
            agent=transcript.agent,
            at=transcript.started_at or transcript.modified_at,
        )
        position = reached = -1
        for exchange in exchanges(sanitized_turns(turns, self.left_out)):
            position = position if position >= 0 else self._first_position(origin, exchange[0], start)
            self._open_at = reached if reached >= 0 else start
            for episode in exchange_episodes(exchange, origin, position, self.left_out):
                position += 1
                if since and episode.at < since:
                    self.left_out[_older(since)] += 1
                else:
                    yield episode
            reached = max(reached, *(turn.offset for turn in exchange))

    def _turns(self, transcript: Transcript, session: str, start: int) -> Iterator[Turn]:
        """Yield turns, without those that were forgotten and without the prompts of the loop."""
        forgotten_at = self._context.forgotten_at(session)
        self._open_at = start
        for turn in self._reader.turns(transcript, self._problems.append, start):
            if (forgotten_at and turn.at <= forgotten_at) or turn.text.startswith(OWN_PROMPT):
                self._open_at = max(self._open_at, turn.offset)
            else:
                yield turn if turn.branch or not self._branch else replace(turn, branch=self._branch)

    def _first_position(self, origin: Origin, first: Turn, start: int) -> int:
        """Return the position of the first passage: that of the open exchange, if one is stored."""
        if not start:
            return 0
        stored = self._store.episodes.find_all([episode_id(origin.kind, origin.agent, first.key, 0)])
        if stored and stored[0].source == origin.source:
            return stored[0].position
        return self._store.episodes.next_position(origin.kind, origin.source)


def _older(since: str) -> str:
    return f"said before {since[:10]}"


def _from_prompt(start: int, turns: list[Turn]) -> tuple[int, list[Turn]]:
    """Return the turns from a person's first one on, and where it starts; answers before it are to what was skipped."""
    first = next((n for n, turn in enumerate(turns) if turn.speaker is Speaker.PERSON), 0)
    return turns[first - 1].offset if first else start, turns[first:]


def _session_id(transcript: Transcript) -> str:
    """Return the id of a session; databases store no bytes that are not UTF-8."""
    return transcript.session.encode("utf-8", "backslashreplace").decode()


def source_name(transcript: Transcript) -> str:
    """Return the name of a transcript as a source."""
    name = f"{transcript.agent}:{transcript.path}:{transcript.session}"
    return name.encode("utf-8", "backslashreplace").decode()


def transcript_mark(transcript: Transcript) -> str:
    """Return what stays the same while a transcript grows, in one word, and what changes."""
    if transcript.identity:
        return f"{transcript.identity} {transcript.size} {transcript.modified_at}"
    try:
        with open(transcript.path, "rb") as file:  # noqa: PTH123
            return f"{sha256_hex(file.read(MARK_BYTES))[:16]} {transcript.size}"
    except OSError:
        return f" {transcript.size}"


def start_offset(cursor: ImportCursor, mark: str) -> int:
    """Return the offset at which to read on; 0 if it is another transcript now."""
    return cursor.position if cursor.mark.split(" ")[0] == mark.split(" ")[0] else 0


def batches(episodes: Iterable[Episode]) -> Iterator[list[Episode]]:
    """Yield episodes in lists of those that are stored together."""
    batch: list[Episode] = []
    for episode in episodes:
        batch.append(episode)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
