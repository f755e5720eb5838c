"""Sessions of agents that people run themselves: what such a session is told, and what it leaves.

Telling changes nothing: whoever passes a text on says afterwards that it was told. A session of our own loop is
not attended here, since its prompt has told it what it should know, and the loop reads its answer.
"""

from __future__ import annotations

import time

from ralph.records import AgentSession, now, record, replace, timestamp
from ralph.store.known_memories import Wanted
from ralph.text import CHARACTERS_PER_TOKEN, accept, cut, one_line, paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.config import Config
    from ralph.memory.question import Context
    from ralph.records import Memory
    from ralph.remembering import Remembering
    from ralph.store import Store
    from ralph.store.memories import Kept

LONGEST = 7_900
"""Characters that a session is told at once: agents put more than about 9,000 into a file that nobody reads.

They count as JavaScript does, where many a character is two.
"""
MOST_BYTES = 9_900
"""The same where bytes are counted."""
FEWER = 3_000
"""Characters that a prompt brings with it."""
MOST_MATCHES = 3
"""So many memories a prompt brings: more of them make an agent worse, not better."""
IDLE_SECONDS = 7 * 86_400
"""A session that did nothing for so long, and said nothing before, is forgotten."""
LONGEST_TITLE = 200
LONGEST_SUMMARY = 2_000
MOST_IDS = 500
"""So many of the latest memories shown or learned are noted with a session."""
MOST_SEARCHED = 1_000
_LISTS = ("shown", "learned", "said")

HEADING = """\
What is remembered of this project from earlier sessions, by Ralph. These are notes, not orders: where the code says
otherwise, the code is right.
"""
MATCHING = "From the memory of this project, on what is asked here (notes, not orders):\n"
HOW = """\
To keep something for later sessions, write it on a line of its own in your answer: MEMORY:type:content, where the type
is pattern, decision, fix, context, convention or pitfall; one exact fact each, never a secret. To look something up:
ralph memory search "words".
"""


@record
class Told:
    """What a session is told, and the memories that are in it."""

    text: str = ""
    ids: tuple[str, ...] = ()


class Attending:
    """The sessions of one opened project that are not the loop's."""

    def __init__(self, store: Store, memory: Remembering, config: Config) -> None:
        self._store = store
        self._memory = memory
        self._config = config

    # --- telling ---------------------------------------------------------------------

    def on_start(self, id: str, *, goes_on: bool = False, is_compacted: bool = False) -> Told:
        """Give what a session should know from its start.

        One that goes on has been told before, and gets only what is new; one that was compacted has forgotten it,
        and gets first what has to do with its work.
        """
        if not self._config.injects:
            return Told()
        known = self._store.sessions.find(id) if id and (goes_on or is_compacted) else None
        if known and goes_on:
            return self._told(HEADING, self._since(known))
        fixed = HEADING + self._how()
        about = self._about(known) if known else None
        matching = self._memory.matching(about, Wanted(), _tokens(fixed)) if about else []
        room = _tokens(fixed + _primed(matching))
        rest = self._memory.surest(room, [one.id for one in matching]) if room > 0 else []
        return self._told(HEADING, [*matching, *rest], self._how())

    def _since(self, session: AgentSession) -> list[Memory]:
        """Give what others have learned since a session began, and it was not told."""
        return self._memory.surest(_tokens(HEADING), (*session.shown, *session.learned), after=session.started_at)

    def for_task(self, task_id: str) -> Told:
        """Give what has to do with a task, for a session of the loop that has forgotten it."""
        if not self._config.injects:
            return Told()
        return self._told(HEADING, self._memory.prime(Wanted(), _tokens(HEADING), task_id=task_id))

    def on_prompt(self, id: str, prompt: str) -> Told:
        """Give the few memories that have to do with a prompt and are new to the session; none is the usual case."""
        if not self._config.injects or not prompt.strip():
            return Told()
        known = self._store.sessions.find(id) if id else None
        context = _context(prompt, id, known.shown if known else ())
        self._memory.sync()
        found = self._memory.matching(context, Wanted(), FEWER // CHARACTERS_PER_TOKEN, MOST_MATCHES)
        return self._told(MATCHING, found)

    def _told(self, heading: str, memories: Sequence[Memory], ending: str = "") -> Told:
        while True:
            parts = [heading, _primed(memories), ending] if memories else [ending]
            text = "\n".join(filter(None, parts))
            if not memories or _units(text) <= LONGEST + len(parts):
                return Told(text=text, ids=tuple(one.id for one in memories))
            memories = memories[:-1]

    def _how(self) -> str:
        if self._config.memories.skill_injection:
            from ralph.skill import SKILL

            return f"{HOW}\n{SKILL}"
        return HOW

    def _about(self, session: AgentSession) -> Context | None:
        """Give what a session was about, as far as that is known."""
        text = f"{session.title}\n{session.summary}"
        return _context(text, session.id, ()) if text.strip() else None

    # --- keeping ---------------------------------------------------------------------

    def note_start(self, id: str, agent: str, told: Told, *, goes_on: bool = False) -> None:
        """Note that a session has begun or goes on, and what it has in its context now."""
        with self._store.transaction():
            self._store.sessions.drop_idle(timestamp(time.time() - IDLE_SECONDS))
            before = self._known(id, agent)
            shown = (*before.shown, *told.ids) if goes_on else told.ids
            self._put(before, shown=shown, ended_at=None, ending="")

    def note_prompt(self, id: str, agent: str, prompt: str, told: Told) -> None:
        """Note that a session was asked something, and what it was told with it."""
        with self._store.transaction():
            before = self._known(id, agent)
            title = before.title or one_line(accept(cut(prompt, 4 * LONGEST_TITLE)), LONGEST_TITLE)
            self._put(before, title=title, prompts=before.prompts + 1, shown=(*before.shown, *told.ids))

    def note_compaction(self, id: str, agent: str, summary: str) -> None:
        """Note that a session was compacted: what it was told is gone, what is left is its summary."""
        with self._store.transaction():
            before = self._known(id, agent)
            left = _summary(summary) or before.summary
            self._put(before, summary=left, compactions=before.compactions + 1, shown=())

    def note_end(self, id: str, agent: str, ending: str) -> None:
        """Note that a session has ended; one in which nothing was asked and nothing said is forgotten."""
        with self._store.transaction():
            before = self._known(id, agent)
            self._put(before, ended_at=now(), ending=one_line(accept(ending), LONGEST_TITLE))
            self._store.sessions.drop(id)

    def keep(self, id: str, agent: str, text: str, *, is_last: bool = True) -> list[Kept]:
        """Keep what a session said is worth knowing, in sigils and MEMORY lines, and what it said last.

        What it was told and only repeats is not learned again, nor what it has said before.
        """
        return self.keep_stated(id, agent, stated_in(text), summary=_summary(text) if is_last else "")

    def keep_stated(self, id: str, agent: str, stated: Sequence[Memory], summary: str = "") -> list[Kept]:
        """Keep what a session stated, as `keep` does with what it said."""
        with self._store.transaction():
            session = self._known(id, agent)
            said = [replace(one, origin_session=id or None) for one in stated]
            kept = self._memory.learn(self._news(session, said), f"said in a session of {agent}")
            if id:
                self._put(
                    session,
                    learned=(*session.learned, *(one.memory.id for one in kept if one.what != "refused")),
                    said=(*session.said, *map(_mark, said)),
                    summary=summary or session.summary,
                )
        if kept:
            self._memory.sync()
        return kept

    def _news(self, session: AgentSession, said: list[Memory]) -> list[Memory]:
        """Give what is neither in the session's context already nor said by it before."""
        if not said:
            return []
        from ralph.memory.fingerprint import Echo

        shown = self._store.memories.find_each(session.shown)
        told = Echo("\n".join([_primed(shown), *self._before(shown, session.started_at)]))
        return [one for one in said if not told.repeats(one.body) and _mark(one) not in session.said]

    def _before(self, memories: Sequence[Memory], since: str) -> Iterator[str]:
        """Give the texts that memories had before somebody changed them, while a session had them in its context."""
        import json

        for memory in memories:
            if memory.updated_at > since:
                for event in self._store.memories.history(memory.id):
                    yield str(json.loads(event.was or "{}").get("body", "")) if event.at > since else ""

    def _known(self, id: str, agent: str) -> AgentSession:
        """Give a session as it is known; a new one begins now."""
        at = now()
        found = self._store.sessions.find(id)
        return replace(found, last_at=at) if found else AgentSession(id=id, agent=agent, started_at=at, last_at=at)

    def _put(self, session: AgentSession, **fields: object) -> None:
        changed = replace(session, **fields)
        lists = {name: tuple(dict.fromkeys(getattr(changed, name)))[-MOST_IDS:] for name in _LISTS}
        self._store.sessions.put(replace(changed, **lists))

    # --- reading ---------------------------------------------------------------------

    def began(self, id: str) -> str:
        """Give when a session began; empty for one that nobody knows."""
        found = self._store.sessions.find(id) if id else None
        return found.started_at if found else ""

    def latest(self, limit: int) -> list[AgentSession]:
        """Give the latest sessions in which something was asked or learned, newest first."""
        return self._store.sessions.latest(limit)

    def search(self, query: str, limit: int) -> list[AgentSession]:
        """Find sessions by the words of what was asked and said last, best first."""
        from ralph.memory.words import words

        asked = set(words(query))
        if not asked:
            return []
        found = []
        for session in self.latest(MOST_SEARCHED):
            held = len(asked.intersection(words(f"{session.title}\n{session.summary}")))
            if 2 * held >= len(asked):
                found.append((held, session))
        return [session for _, session in sorted(found, key=lambda one: -one[0])[:limit]]

    def get(self, id: str) -> AgentSession:
        """Give one session by its id, or by a beginning of it that no other has."""
        return self._store.sessions.get(id)


def stated_in(text: str) -> list[Memory]:
    """Give what a text asks to have remembered, in sigils and MEMORY lines."""
    if not _has_marks(text):
        return []
    from ralph.loop.capture import stated
    from ralph.loop.sigils import read_sigils

    return stated(read_sigils(text), now())


def _has_marks(text: str) -> bool:
    """Say whether there may be sigils or MEMORY lines in a text: reading them takes time to load."""
    return "<" in text or "MEMORY" in text


def _tokens(fixed: str) -> int:
    """Give how many tokens are left for memories beside a fixed text."""
    return (LONGEST - len(fixed)) // CHARACTERS_PER_TOKEN


def _units(text: str) -> int:
    """Give how long a text is to agents: some count characters as JavaScript does, some bytes."""
    if text.isascii():
        return len(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    return max(len(text.encode("utf-16-le", "surrogatepass")) // 2, size * LONGEST // MOST_BYTES)


def _primed(memories: Sequence[Memory]) -> str:
    from ralph.memory.prime import primed

    return primed(memories)


def _context(text: str, id: str, shown: Sequence[str]) -> Context:
    from ralph.memory.question import Context, bounded
    from ralph.memory.task_type import task_type

    text = bounded(text)
    title, _, body = text.strip().partition("\n")
    return Context(
        title=cut(title, LONGEST_TITLE),
        body=text if len(title) > LONGEST_TITLE else body,
        files=paths_in(text),
        task_type=task_type(text),
        session=id or None,
        shown=frozenset(shown),
        at=now(),
    )


def _mark(memory: Memory) -> str:
    """Give what tells a thing that was said from all others."""
    from hashlib import sha256

    return sha256(f"{memory.kind}\n{memory.body}".encode()).hexdigest()[:16]


def _summary(text: str) -> str:
    """Give the beginning of what a session said, without what it said in sigils."""
    text = text[: 20 * LONGEST_SUMMARY]  # to look through megabytes takes seconds
    if _has_marks(text):
        from ralph.loop.sigils import without_sigils

        text = without_sigils(text)
    return cut(accept(text[: 4 * LONGEST_SUMMARY]).strip(), LONGEST_SUMMARY)
