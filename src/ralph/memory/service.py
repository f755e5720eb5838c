"""What can be done with the memories of a project, by any door.

Before an operation what people changed in the files is taken in; after it the
files are brought up to date. Nothing here erases: what is taken away is kept with
its history, and can be brought back.
"""

from __future__ import annotations

import os
import sys
from itertools import islice

from ralph.core.actor import by, in_session, origin, refuse_agents, session, who
from ralph.core.errors import (
    ConfirmationRequiredError,
    DeletedByPersonError,
    NotFoundError,
    RalphError,
    StoreNotWritableError,
    UsageError,
)
from ralph.core.limits import LONGEST_BODY, LONGEST_TAG, MOST_TAGS
from ralph.core.records import (
    KINDS,
    LEARNING_CATEGORIES,
    Memory,
    MemoryEvent,
    Recalled,
    Source,
    State,
    now,
    record,
    replace,
    timestamp,
)
from ralph.core.text import accept, clean, count_tokens, one_line, paths_in, title_of
from ralph.memory.lifecycle.confidence import START, days_between, faded
from ralph.store.memories import Change, change_id, is_change_id
from ralph.store.memory_queries import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.memory.lifecycle.timeline import Point
    from ralph.memory.recall.query import Context
    from ralph.memory.sharing import SharedMemory
    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.store.memories import Changed, Kept

MOST_CANDIDATES = 2_000
"""So many of the newest memories a documents' ranker looks at."""
FEWEST_TOKENS = 20
"""What a memory takes in a prime at least, so that it tells how many have to be looked at."""
SHOWN_ATTEMPTS = 20
LOOKED_AT_USES = 200
"""From so many of the latest uses it is worked out how sure a memory was."""
MOST_FACET_TAGS = 30
UNWRITTEN = "A memory file could not be written: what it lacks is stored, and will be written when that can be done."
DAY_SECONDS = 86_400
MOST_DAYS = 36_500
MATCHES = ("words", "paths", "named", "title", "files", "folders", "together", "links", "meaning", "tags")
"""Shares that say that a memory has to do with what is asked; a search leaves out what has none of them."""


@record
class MemoryView:
    """All about one memory."""

    memory: Memory
    confidence: float
    """As of now: it falls while nothing speaks for the memory."""
    links: tuple[tuple[str, str | None], ...]
    """Titles it links to, each with the id of the memory that has it."""
    linked_from: tuple[Memory, ...]
    shown_to: tuple[Row, ...]


@record
class Why:
    """Why a memory is, or is not, shown for a task."""

    memory: Memory
    task_id: str
    score: float | None
    because: tuple[tuple[str, float], ...]
    rank: int | None
    """Its place in the ranking, from 1."""
    ranked: int
    """How many have a place in it."""
    is_shown: bool
    reason: str
    """Why it is not shown; empty when it is."""


@record
class Stats:
    """What the memories of a project add up to."""

    total: int
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_task_type: dict[str, int]
    by_source: dict[str, int]
    average_confidence: float
    average_success_rate: float | None
    uses: int
    most_used: Memory | None
    last_updated: str | None


@record
class Facets:
    """How many memories there are of each type, state, source and tag, the most first; but by state, active ones."""

    type: dict[str, int]
    state: dict[str, int]
    source: dict[str, int]
    tag: dict[str, int]
    """The most frequent ones."""
    stale: int
    """Those whose files are no longer as they were, as far as that has been looked at."""


@record
class Removal:
    """What a cleanup or consolidation did, or would do."""

    removed: tuple[tuple[Memory, str], ...]
    """Each with the reason."""
    present: int
    change_id: str = ""
    """What to undo; empty when nothing was done."""
    backup: str = ""


class Remembering:
    """The memories of one opened project."""

    def __init__(self, store: Store, root: Path | str, config: Config) -> None:
        self._store = store
        self._memories = store.memories
        self._root = root
        self._config = config
        self.is_paused = False
        """While many changes are made the files wait."""
        self.problems: list[str] = []
        """What is wrong with the files, one sentence each."""
        self.is_elsewhere = False
        """Whether these are of another project than the one whose directory this is; its files are not there."""
        self.is_unwritten = False
        """Whether a file could not be brought up to date; the next sync tries again."""
        self._flaws: tuple[object, list[str]] | None = None
        """With what the files and memories were like when they were looked for."""
        self._facets: tuple[int, Facets] | None = None
        """With the event after which they were counted: that takes a while where there are many."""

    @property
    def project_name(self) -> str:
        """The name of the project these memories are of."""
        return self._store.project_name

    def sync(self) -> None:
        """Take in what other projects share, and bring the files and the store in step."""
        if self.is_paused:
            return
        try:
            self._sync()
        except StoreNotWritableError as error:  # what is stored can be read, and what the files lack is written later
            self.problems += [str(error)] * (str(error) not in self.problems)

    def _sync(self) -> None:
        if self._config.memories.shared:
            from ralph.store.shared import Shared

            if Shared(self._store.scope).news():
                from ralph.memory.sharing import take_in

                take_in(self._store)
        if self._config.memories.files:
            from ralph.formats.sync import sync

            outcome = sync(self._store, self._root)
            self.problems += [problem for problem in outcome.problems if problem not in self.problems]
            self.is_unwritten = outcome.is_unwritten

    def look_at_files(self) -> None:
        """Put into `problems` what is wrong with the files as they are now, whoever brought them in step last."""
        if self.is_paused or not self._config.memories.files:
            return  # who keeps the files in step meanwhile knows
        from pathlib import Path

        from ralph.formats.sync import is_unwritten, mark, problems

        self.sync()
        now_there = self._memories.last_event(), mark(self._store, self._root)
        if self._flaws is None or self._flaws[0] != now_there:
            root = Path(self._root)
            found = [*problems.of_memories(root, self._in_files), *problems.of_knowledge(root, self._in_files)]
            self._flaws = now_there, [f"{one.says}: {one.mend}." for one in found]
        self.is_unwritten = is_unwritten(self._store, self._root)
        self.problems = [*self._flaws[1], *[UNWRITTEN] * (self.is_unwritten and not self._flaws[1])]

    def _in_files(self, kinds: tuple[str, ...]) -> dict[str, bool]:
        """Give the ids of the memories of some kinds that the files held."""
        from ralph.formats.sync import written_ids

        return written_ids(self._store, kinds)

    # --- one memory ------------------------------------------------------------------

    def add(
        self,
        body: str,
        *,
        kind: str | None = None,
        title: str = "",
        tags: Sequence[str] = (),
        files: Sequence[str] = (),
        confidence: float | None = None,
        feature: str | None = None,
    ) -> Kept:
        """Keep a memory somebody states; one that says the same as a known one makes that one surer.

        What a person has deleted stays deleted for everybody else.
        """
        text = _body(body)
        if not text:
            raise UsageError("There is nothing to remember: the content is empty.")
        if confidence is not None and not 0 <= confidence <= 1:
            raise UsageError("The confidence must be a number from 0 to 1.")
        at = now()
        word = self.known_kind(kind or "pattern")
        heading = one_line(accept(title)) or title_of(text)
        memory = Memory(
            id="",
            kind=word,
            title=heading,
            body=text,
            tags=_tags(tags) or (_tags_from(heading) if word == "knowledge" else ()),
            files=tuple(dict.fromkeys(filter(None, map(accept, files)))) or paths_in(text),
            feature=feature,
            source=Source.EXPLICIT,
            confidence=START[Source.EXPLICIT] if confidence is None else confidence,
            created_at=at,
            updated_at=at,
            **origin(),
        )
        memory = self._marked(memory)
        self.sync()
        is_person = not in_session()
        stated = _stated(memory, kind, title, confidence) if is_person else {}
        kept = self._memories.add(memory, by("added by command"), by_person=is_person, stated=stated)
        if kept.what == "refused":
            raise DeletedByPersonError(kept.memory.id)
        self.sync()
        return kept

    def learn(self, memories: Sequence[Memory], why: str) -> list[Kept]:
        """Keep what an agent said is worth knowing, and say what became of each; the files wait for the next sync."""
        change = Change(who="agent", why=why)
        return [self._memories.add(self._marked(memory), change) for memory in memories]

    def _marked(self, memory: Memory) -> Memory:
        """Give a memory with marks of the files it names, as far as they are here."""
        if not memory.files or self.is_elsewhere:
            return replace(memory, seen="", stale="")
        from ralph.memory.freshness import with_marks

        return with_marks(memory, self._root)

    def known_kind(self, text: str) -> str:
        """Give a type of memory that is known here: one of ours, or one that an agent has used; refuse others."""
        kind = _kind(text)
        if kind in (*KINDS, *LEARNING_CATEGORIES) or kind in (used := self._memories.counts("kind")):
            return kind
        import difflib

        close = difflib.get_close_matches(kind, [*KINDS, *LEARNING_CATEGORIES, *used], n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"There is no type of memory {kind!r}: it is one of {', '.join(KINDS)}.{hint}")

    def get(self, id: str) -> Memory:
        """Give one memory, whatever its state."""
        self.sync()
        return self._memories.get(id)

    def show(self, id: str) -> MemoryView:
        """Give all about a memory."""
        self.sync()
        memory = self._memories.get(id)
        links, back = self._memories.links(id)
        return MemoryView(
            memory=memory,
            confidence=faded(memory, now()),
            links=tuple((title, other.id if other else None) for title, other in links),
            linked_from=tuple(back),
            shown_to=tuple(self._memories.shown_to(id, SHOWN_ATTEMPTS)),
        )

    def edit(
        self,
        id: str,
        *,
        body: str | None = None,
        title: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        confidence: float | None = None,
        why: str = "",
        check: Callable[[Memory], object] = lambda _: None,
    ) -> Changed:
        """Change a memory; None leaves a thing as it is. Gives it as it is now, and what undo takes back.

        `check` may refuse it as it is when it is changed.
        """
        self.sync()
        known = self._memories.get(id)
        check(known)
        fields: dict[str, object] = {}
        if body is not None:
            text = _body(body)
            if not text:
                raise UsageError("A memory needs a text. To remove it, delete it.")
            fields |= {"body": text, "files": paths_in(text)}
            if known.title == title_of(known.body):
                fields["title"] = title_of(text)
        if title is not None:
            fields["title"] = one_line(accept(title)) or title_of(str(fields.get("body", known.body)))
        if kind is not None:
            fields["kind"] = self.known_kind(kind)
        if tags is not None:
            fields["tags"] = _tags(tags)
        if fields.get("kind", known.kind) == "knowledge" and not fields.get("tags", known.tags):
            fields["tags"] = _tags_from(str(fields.get("title", known.title)))
        if files is not None:
            fields["files"] = tuple(dict.fromkeys(filter(None, map(accept, files))))
        if confidence is not None:
            if not 0 <= confidence <= 1:
                raise UsageError("The confidence must be a number from 0 to 1.")
            fields["confidence"] = confidence
        if not fields:
            raise UsageError("There is nothing to change: say what, for example the content or the tags.")
        if "files" in fields:
            marked = self._marked(replace(known, **fields))
            fields |= {"seen": marked.seen, "stale": ""}
        change = by(accept(why))
        with self._store.transaction():
            check(self._memories.get(id))
            edited = self._memories.changed(id, "edited", change, **fields, updated_at=now())
        self.sync()
        return edited

    def confirm(self, *ids: str, why: str = "") -> list[tuple[Memory, Changed]]:
        """Note that memories hold as things are now, all or none; give each as it was and as it is."""
        from ralph.memory.freshness import confirm

        self.sync()
        with self._store.transaction():
            before = [self._memories.get(id) for id in dict.fromkeys(ids)]
            for memory in before:
                if memory.state is not State.ACTIVE:
                    raise NotFoundError(
                        "Memory", f"{memory.id} (it is {memory.state}, and only what is in use is confirmed)"
                    )
            directory = None if self.is_elsewhere else self._root
            after = confirm(self._store, ids, directory, by(accept(why)), now(), also_gone=True)
        self.sync()
        return list(zip(before, after, strict=True))

    def delete(self, *ids: str, why: str = "") -> tuple[list[Memory], str]:
        """Take memories out of use, all or none; give them, and the id of the change that undo takes back."""
        self.sync()
        change = replace(by(accept(why)), id=change_id())
        fields = {"state": State.PRUNED, "state_reason": change.why or f"deleted by {change.who}", "updated_at": now()}
        with self._store.transaction():
            for id in dict.fromkeys(ids):
                memory = self._memories.get(id)
                if memory.state in (State.PRUNED, State.SUPERSEDED, State.REJECTED):
                    raise NotFoundError("Memory", f"{id} (it is {memory.state}; undo brings it back)")
            deleted = [self._memories.change(id, "deleted", change, **fields) for id in dict.fromkeys(ids)]
        self.sync()
        return deleted, change.id

    def history(self, id: str) -> list[MemoryEvent]:
        """Give all that happened to a memory, oldest first."""
        self.sync()
        self._memories.get(id)
        return self._memories.history(id)

    def shown_to(self, id: str, limit: int = SHOWN_ATTEMPTS) -> list[Row]:
        """Give the latest attempts a memory was shown to, newest first."""
        self._memories.get(id)
        return self._memories.shown_to(id, limit)

    def confidence_over_time(self, id: str) -> list[Point]:
        """Give how sure a memory was, from its first day up to now."""
        from ralph.memory.lifecycle.timeline import Use, confidence_over_time

        memory = self.get(id)
        uses = [
            Use(at=row["ended_at"], won=row["outcome"] == "done")
            for row in self._memories.shown_to(id, LOOKED_AT_USES)
            # As credit is given: not for what was cut off, and for what was handed on only at its end.
            if row["ended_at"]
            and row["outcome"] != "interrupted"
            and not (row["outcome"] == "done" and row["handed_to"])
        ]
        return confidence_over_time(memory, self._memories.history(id), uses, now())

    def undo(self, id: str, *, to: int | None = None, only: int | None = None) -> Memory:
        """Take back the latest change of a memory, or all after an event; give it as it is now.

        With `only`, exactly that event, and nothing when something came after it.
        """
        self.sync()
        refuse_agents("What is taken back")
        if to is not None and only is not None:
            raise UsageError("Either all after an event is taken back, or only one event: say one of them.")
        if to is not None:
            before = self._memories.version(id, to)
            fields = {name: getattr(before, name) for name in Memory.__slots__ if name != "id"}  # type: ignore[attr-defined]
            change = by(f"back to event {to}")
            undone = self._memories.change(id, "set back", change, **fields | {"updated_at": now()})
        else:
            why = "undid the latest change" if only is None else f"undid event {only}"
            undone = self._memories.undo(id, by(why), only=only)[0]
        self.sync()
        return undone

    def undo_change(self, id: str) -> list[Memory]:
        """Take back all that was changed together, like an import or a cleanup; give the memories as they are now."""
        self.sync()
        refuse_agents("What is taken back")
        if not is_change_id(id):
            raise NotFoundError("Change", id)
        undone = self._memories.undo_change(id, by(f"undid {id}"))
        self.sync()
        return undone

    def is_change(self, id: str) -> bool:
        """Say whether an id is one of a change made together, and not of a memory."""
        return is_change_id(id) and not self._memories.find_one(id)

    # --- with other projects ---------------------------------------------------------

    def share(self, *ids: str) -> list[Kept]:
        """Offer memories to all projects of the database; give what became of each."""
        from ralph.memory.sharing import share

        refuse_agents("What other projects get")
        self.sync()
        kept = share(self._store, ids, who())
        self.sync()
        return kept

    def unshare(self, *ids: str) -> list[Memory]:
        """Share memories no longer; other projects keep what they have made their own. Gives what was shared."""
        from ralph.memory.sharing import unshare

        refuse_agents("What other projects get")
        self.sync()
        unshared = unshare(self._store, ids, who())
        self.sync()
        return unshared

    def shared(self, wanted: Wanted, last: int = 0) -> list[SharedMemory]:
        """Give the wanted memories that are shared with all projects of the database, newest first."""
        from ralph.memory.sharing import shared_memories

        self.sync()
        at = now()
        found = (one for one in shared_memories(self._store, wanted) if _is_wanted(one.memory, wanted, at))
        return list(islice(found, last or None))

    # --- many ------------------------------------------------------------------------

    def find(self, wanted: Wanted, last: int = 0) -> list[Memory]:
        """Give the wanted memories, newest first; `last` gives only so many.

        Of those whose files are no longer as they were the files are looked at first.
        """
        if last:
            return self.page(wanted, last)[0]
        self._look_at_files(wanted)
        at = now()
        return [one for one in self._memories.find(wanted, order="created_at") if _is_wanted(one, wanted, at)]

    def page(
        self, wanted: Wanted, limit: int, after: tuple[str, str] | None = None, *, oldest: bool = False
    ) -> tuple[list[Memory], tuple[str, str] | None]:
        """Give the newest wanted memories, or those after a place, and the place to go on from, if there are more.

        With `oldest` the oldest ones come first.
        """
        self._look_at_files(wanted)
        at = now()
        ordered = (self._memories.oldest if oldest else self._memories.newest)(wanted, after)
        found = list(islice((one for one in ordered if _is_wanted(one, wanted, at)), min(limit + 1, sys.maxsize)))
        page = found[:limit]
        return page, (page[-1].created_at, page[-1].id) if len(found) > limit else None

    def of_run(self, run_id: str, limit: int) -> list[Memory]:
        """Give what a run taught, whatever became of it, newest first."""
        self.sync()
        self._store.attempts.run(run_id)
        return self._memories.of_run(run_id, limit)

    def _look_at_files(self, wanted: Wanted) -> None:
        """Bring the files in step, and when it is asked for, look whether those that memories name have changed."""
        self.sync()
        if wanted.is_stale and not self.is_elsewhere:
            from ralph.memory.freshness import check

            check(self._store, self._root)

    def search(
        self, query: str, wanted: Wanted, limit: int, ranker: str = "", task_id: str | None = None
    ) -> list[Recalled]:
        """Find memories by words, best first, then those that merely hold the text; any text is safe as a query.

        For a task, its own words count too. With a `ranker`, as one of the published formulas would rank them.
        """
        self.sync()
        query = _query(query)
        if ranker:
            return self._ranked(query, wanted, ranker, task_id)[:limit]
        if not query and not task_id:
            return [Recalled(memory=memory, score=0.0) for memory in self.find(wanted, limit)]
        recalled = self.recall(self._asked(query, task_id), sys.maxsize, wanted)
        found = [one for one in recalled if any(name in MATCHES and share > 0 for name, share in one.because)][:limit]
        seen = {one.memory.id for one in found}
        at = now()
        if query and len(found) < limit:
            holding = (one for one in self._memories.holding(wanted, query) if one.id not in seen)
            more = islice((one for one in holding if _is_wanted(one, wanted, at)), limit - len(found))
            found += [Recalled(memory=one, score=0.0, because=(("text", 0.0),)) for one in more]
        return found

    def recall(self, context: Context, limit: int, wanted: Wanted | None = None) -> list[Recalled]:
        """Give the memories that matter for a context, best first, each with what its score is made of.

        All that has something in common with it is there; what is put into a prompt is the few of these worth it.
        """
        from ralph.memory.recall.candidates import ranked, recalled

        wanted = wanted or Wanted()
        at = context.at or now()
        by_meaning = self._config.memories.meaning
        ordered = map(recalled, ranked(self._store, replace(context, at=at), wanted, by_meaning=by_meaning))
        return list(islice((one for one in ordered if _is_wanted(one.memory, wanted, at)), limit))

    def keep(self, memories: Sequence[Memory]) -> None:
        """Keep memories as they are, under ids of their own that are not taken; nothing is put together."""
        self._memories.insert_all(memories, by("kept as given"))
        self.sync()

    def embed(self, goes_on: Callable[[int], bool] = lambda _: True) -> int:
        """Make what recall by meaning needs of memories that have none yet; give of how many.

        `goes_on` is told how many are done and says whether to go on.
        """
        from ralph.memory.recall.vector_search import encoder, make_missing

        if encoder() is None:
            from ralph.memory.recall.embeddings import missing

            raise RalphError(missing())
        from ralph.store.vectors import compare_on_server

        compare_on_server(self._store.database)
        return make_missing(self._store, goes_on)

    def _ranked(self, query: str, wanted: Wanted, ranker: str, task_id: str | None) -> list[Recalled]:
        from ralph.memory.recall.rankers import PROFILES

        if ranker not in PROFILES:
            raise UsageError(f"There is no ranker {ranker!r}: it is one of {', '.join(PROFILES)}.")
        context = self._asked(query, task_id)
        return PROFILES[ranker](list(islice(self._memories.find(wanted), MOST_CANDIDATES)), context)

    def _asked(self, query: str, task_id: str | None) -> Context:
        """Give what a query asks, for a task if one is named."""
        from ralph.memory.lifecycle.task_type import task_type
        from ralph.memory.recall.query import Context

        if not task_id:
            return Context(title=query, files=paths_in(query), task_type=task_type(query), session=session(), at=now())
        context = self._context(task_id)
        return replace(context, title=f"{context.title} {query}".strip())

    def _context(self, task_id: str) -> Context:
        """Give what the next attempt at a task would ask."""
        from ralph.memory.recall.gather import REPORTS, context_of

        reports = self._store.attempts.reports(REPORTS, task=task_id)
        task = self._store.tasks.get(task_id)
        context = context_of(self._store, task, run_id=self._running_id(), reports=reports)
        return replace(context, session=session())

    def _running_id(self) -> str:
        runs = self._store.attempts.runs(1)
        return runs[0].id if runs and runs[0].ended_at is None else ""

    def prime(
        self, wanted: Wanted, budget_tokens: int = 0, *, task_id: str | None = None, text: str | None = None
    ) -> list[Memory]:
        """Give the memories to put before an agent, within a budget: the surest of each kind in turn.

        For a task or a text, the few that a prompt for it would show, best first; none when nothing has to do with it.
        """
        self.sync()
        if task_id is not None or text is not None:
            return self.matching(self._asked(_query(text or ""), task_id), wanted, budget_tokens)
        if not budget_tokens:
            return list(self._memories.find(wanted))
        from ralph.memory.recall.prime import within

        return within(self._memories.surest(wanted, budget_tokens // FEWEST_TOKENS + 1), budget_tokens, now())

    def surest(self, budget_tokens: int, besides: Collection[str] = (), after: str = "") -> list[Memory]:
        """Give the memories the settings allow to put before an agent, the surest of each kind, `besides` some.

        With a moment, of those that were learned after it.
        """
        from ralph.memory.recall.prime import within

        self.sync()
        most = budget_tokens // FEWEST_TOKENS + 1 + len(besides)
        found = self._memories.surest(self._allowed(Wanted(after=after)), most)
        return within([one for one in found if one.id not in besides], budget_tokens, now())

    def _allowed(self, wanted: Wanted) -> Wanted:
        """Give what is wanted; what is not said, the settings say."""
        only = self._config.memories.filter
        after = wanted.after
        if only.recent:
            after = max(after, days_ago(only.recent))
        return replace(wanted, kinds=wanted.kinds or only.types, tags=wanted.tags or only.tags, after=after)

    def matching(self, context: Context, wanted: Wanted, budget_tokens: int, most: int = 0) -> list[Memory]:
        """Give the memories to show for a context, as far as they fit; what is not said, the settings say.

        By words alone: this runs in front of an agent's prompt, and what they mean takes long to load.
        """
        from ralph.memory.recall.candidates import recall
        from ralph.memory.recall.prime import primed
        from ralph.memory.recall.select import MOST

        wanted = self._allowed(wanted)
        chosen: list[Memory] = []
        for one in recall(self._store, context, wanted, most or MOST, tags=wanted.tags).shown:
            if not budget_tokens or count_tokens(primed([*chosen, one.memory])) <= budget_tokens:
                chosen.append(one.memory)
        return chosen

    def why(self, id: str, task_id: str) -> Why:
        """Say what a memory's score for a task is made of, its place, and why it is not shown, if it is not."""
        self.sync()
        return self.why_each([self._memories.get(id)], task_id)[0]

    def ranking(self, task_id: str, limit: int) -> list[Why]:
        """Give the memories that have to do with a task, in the order of its next prompt, shown or not."""
        found = [one.memory for one in self.search("", Wanted(), limit, task_id=task_id)]
        return sorted(self.why_each(found, task_id), key=lambda why: why.rank or sys.maxsize)

    def why_each(self, memories: Sequence[Memory], task_id: str) -> list[Why]:
        """Say of each memory how it scores for a task, and why the prompt of the next attempt does not show it."""
        from ralph.loop.prepare import prepare
        from ralph.memory.recall.gather import known_for

        context = self._context(task_id)
        metrics = self._store.attempts.metrics(task_id)
        prepared = prepare(
            self._store,
            self._config,
            self._store.tasks.get(task_id),
            metrics,
            run_id=self._running_id(),
            iteration=1,
            attempt_number=metrics.total_attempts + 1,
        )
        shown, left_out = prepared.known.memories, prepared.known.left_out
        if not self._config.injects:
            found = known_for(self._store, context, self._config)
            shown, left_out = found.shown, found.left_out
        no_room = {
            left.id: left.why for section in prepared.prompt.sections for left in section.left_out if not left.place
        }
        ranked = {left.id: (left.score, left.because, left.place, left.why) for left in left_out}
        for one in shown:
            fits = one.memory.id in prepared.prompt.shown
            reason = "" if fits else no_room.get(one.memory.id, "no room left for it")
            ranked[one.memory.id] = (one.score, one.because, one.place, reason)
        whys = []
        for memory in memories:
            unranked = None, (), None, "" if memory.id in ranked else self._why_unranked(memory, context)
            score, because, place, reason = ranked.get(memory.id, unranked)
            reason = self._why_never(memory) or reason
            whys.append(
                Why(
                    memory=memory,
                    task_id=task_id,
                    score=score,
                    because=because,
                    rank=place,
                    ranked=len(ranked),
                    is_shown=not reason,
                    reason=reason,
                )
            )
        return whys

    def _why_never(self, memory: Memory) -> str:
        """Say why no prompt at all shows a memory; nothing when one might."""
        known, only = self._config.memories, self._config.memories.filter
        if memory.state is not State.ACTIVE:
            return f"is {memory.state}: {memory.state_reason}".rstrip(": ")
        if not self._config.injects:
            setting = f"memories.inject = {known.inject}" if known.enabled else "memories.enabled = false"
            return f"the settings put no memories into prompts ({setting})"
        if only.types and memory.kind not in only.types:
            return f"the settings want only some types (memories.filter.types = {', '.join(only.types)})"
        if only.recent and days_between(memory.created_at, now()) > only.recent:
            return f"the settings want only the last days (memories.filter.recent = {only.recent})"
        return ""

    def _why_unranked(self, memory: Memory, context: Context) -> str:
        """Say why a memory has no place in the ranking for a context."""
        from ralph.core.tokenize import path_words, words
        from ralph.memory.recall.candidates import CANDIDATES
        from ralph.memory.recall.query import question

        held = {*words("\n".join((memory.title, memory.body, *memory.tags)))}
        held |= {word for path in memory.files for word in path_words(path)}
        if held.isdisjoint(question(context).words):
            return "has no telling word in common with the task"
        return f"not among the {CANDIDATES} that have the most words in common with the task"

    def stats(self) -> Stats:
        """Say what the memories add up to."""
        self.sync()
        averages = self._memories.averages()
        return Stats(
            total=averages["total"],
            by_state=self._memories.counts("state"),
            by_kind=self._memories.counts("kind"),
            by_task_type=self._memories.counts("task_type"),
            by_source=self._memories.counts("source"),
            average_confidence=averages["confidence"] or 0.0,
            average_success_rate=averages["success_rate"],
            uses=averages["uses"],
            most_used=self._memories.most_used(),
            last_updated=averages["last_updated"],
        )

    def facets(self) -> Facets:
        """Say how many memories there are of each type, state, source and tag."""
        self.sync()
        last = self._memories.last_event()
        if self._facets is None or self._facets[0] != last:
            self._facets = last, self._counted()
        return replace(self._facets[1], stale=self._memories.count_stale())

    def _counted(self) -> Facets:
        from collections import Counter

        from ralph.store.rows import from_json

        sources: Counter[str] = Counter()
        tags: Counter[str] = Counter()
        for row in self._memories.counts_by_origin():
            sources[row["source"]] += row["n"]
            for tag in from_json(row["tags"]):
                tags[tag] += row["n"]
        return Facets(
            type=self._memories.counts("kind"),
            state=self._memories.counts("state"),
            source=dict(sources.most_common()),
            tag=dict(sorted(tags.items(), key=lambda one: (-one[1], one[0]))[:MOST_FACET_TAGS]),
            stale=0,
        )

    def events(self, since: int, limit: int = 500) -> list[MemoryEvent]:
        """Give what happened to any memory after an event, oldest first."""
        return self._memories.events(since, limit)

    def happened(self, since: int, limit: int = 500) -> list[tuple[MemoryEvent, Memory | None]]:
        """Give what happened after an event, oldest first, with each memory as it is now; the files are looked at."""
        self.sync()
        return [(event, self._memories.find_one(event.memory_id)) for event in self.events(since, limit)]

    def follow(
        self, since: int | None, seconds: float, tell: Callable[[str], None]
    ) -> Iterator[tuple[MemoryEvent, Memory | None]]:
        """Give what happens after an event, or from now on, for so long and as it happens, whoever does it.

        `tell` gets a sentence when the store cannot be reached for a while, and another one when it is back.
        """
        from ralph.memory.watch import follow

        return follow(self._store, self.happened, self.last_event() if since is None else since, seconds, tell)

    def last_event(self) -> int:
        """Give the number of the newest event, or 0."""
        return self._memories.last_event()

    # --- upkeep ----------------------------------------------------------------------

    def cleanup(
        self,
        *,
        min_confidence: float | None = None,
        older_than_days: float | None = None,
        unused: bool = False,
        yes: bool = False,
        dry_run: bool = False,
    ) -> Removal:
        """Take memories out of use that are no longer worth their place; more than a fifth only with `yes`."""
        from ralph.memory.lifecycle.confidence import cleanup_candidates

        self.sync()
        present = self._memories.all()
        going = cleanup_candidates(
            present, now(), min_confidence=min_confidence, older_than_days=older_than_days, unused=unused
        )
        if dry_run or not going:
            return Removal(removed=tuple(going), present=len(present))
        _refuse_too_many(len(going), len(present), yes)
        backup = self._store.backup("before cleanup")
        change = replace(by("cleanup"), id=change_id())
        pruned = [
            (memory, replace(memory, state=State.PRUNED, state_reason=why, updated_at=now())) for memory, why in going
        ]
        gone = {memory.id for memory in self._memories.replace_all(pruned, "pruned", change)}
        self.sync()
        removed = tuple((memory, why) for memory, why in going if memory.id in gone)
        return Removal(removed=removed, present=len(present), change_id=change.id, backup=backup)

    def clear(self, *, yes: bool = False) -> Removal:
        """Take all memories out of use, if that is what is wanted; one undo brings them back."""
        refuse_agents("What is cleared")
        self.sync()
        present = self._memories.all()
        if not yes:
            raise ConfirmationRequiredError(f"remove all {len(present):,} memories")
        change = replace(by("cleared"), id=change_id())
        backup = self._store.backup("before clearing")
        going = [(one, replace(one, state=State.PRUNED, state_reason="cleared", updated_at=now())) for one in present]
        gone = self._memories.replace_all(going, "cleared", change)
        self.sync()
        return Removal(
            removed=tuple((one, "cleared") for one in gone), present=len(present), change_id=change.id, backup=backup
        )

    def consolidate(self, *, yes: bool = False, dry_run: bool = False) -> Removal:
        """Let one memory stand for its near-duplicates, which stay in the history as superseded."""
        from ralph.memory.consolidation import put_together
        from ralph.memory.lifecycle.duplicates import clusters

        self.sync()
        present = self._memories.all()
        found = clusters(present, now())
        going = [(other, f"says the same as {kept.id} ({kept.title})") for kept, others in found for other in others]
        if dry_run or not going:
            return Removal(removed=tuple(going), present=len(present))
        _refuse_too_many(len(going), len(present), yes)
        backup = self._store.backup("before consolidation")
        change = replace(by("consolidation"), id=change_id())
        aside = put_together(self._store, found, change)
        self.sync()
        removed = tuple((memory, why) for memory, why in going if memory.id in aside)
        return Removal(removed=removed, present=len(present), change_id=change.id, backup=backup)

    def verify(self) -> list[str]:
        """Give what is wrong with what is stored, one sentence each."""
        from ralph.store.maintenance.check import check_store

        return list(check_store(self._store, deep=True).problems)

    # --- files -----------------------------------------------------------------------

    def init_file(self, *, force: bool = False) -> str:
        """Make the markdown file from the template and what is known; give its path."""
        from pathlib import Path

        from ralph.core.files import write_whole
        from ralph.formats.memories_md import TEMPLATE
        from ralph.formats.sync.disk import FileUnusableError, content_of, memories_path, refuse_foreign
        from ralph.formats.sync.location import place_of
        from ralph.store.sync_state import Synced

        name = memories_path(self._root)
        path = Path(self._root) / name
        is_there = os.path.lexists(path)
        if is_there and not force:
            raise RalphError(f"{name} is there already. To make it anew: ralph memory init --force")
        self.sync()
        try:
            refuse_foreign(Path(self._root), f"{name}.bak")
            refuse_foreign(Path(self._root), name)
            if is_there:
                write_whole(path.with_name(path.name + ".bak"), content_of(Path(self._root), name))
            # Or the sync would take the entries that the template does not have for deleted.
            Synced(self._store.scope, place_of(self._store, self._root)).forget(name)
            write_whole(path, TEMPLATE.encode())
        except FileUnusableError as error:
            raise RalphError(str(error)) from error
        except OSError as error:
            raise RalphError(f"{name} cannot be written: {error.strerror}.") from error
        self.sync()
        return name


def moment_said(text: str) -> str:
    """Give a date, or a date and time, that somebody asks by, as a timestamp; in UTC unless it says otherwise."""
    from ralph.formats.imported import InvalidEntryError, moment_of

    try:
        found = moment_of(text.strip())
    except InvalidEntryError:
        found = ""
    if not found:
        raise UsageError(f"it must be a date like 2025-01-31, not {one_line(text, 40)!r}")
    return found


def days_ago(days: int) -> str:
    """Give the moment so many days ago."""
    import time

    return timestamp(time.time() - min(days, MOST_DAYS) * DAY_SECONDS)


def _stated(memory: Memory, kind: str | None, title: str, confidence: float | None) -> dict[str, object]:
    """Give what a person stated of a memory, beside its words: that holds for a known one too."""
    said = {"kind": kind, "title": title, "confidence": confidence}
    return {name: getattr(memory, name) for name, value in said.items() if value not in (None, "")}


def _query(text: str) -> str:
    """Give a text as it is searched by: of a long one its beginning and its end, or to accept it takes seconds."""
    from ralph.memory.recall.query import bounded

    return accept(bounded(clean(text)))


def _is_wanted(memory: Memory, wanted: Wanted, at: str) -> bool:
    """Say whether a memory is one of those asked for, and as sure as that by now."""
    return wanted.holds(memory) and faded(memory, at) >= wanted.min_confidence


def _refuse_too_many(going: int, present: int, yes: bool) -> None:
    """Leave it to a person's yes when so much would go that it may be a mistake."""
    from ralph.memory.lifecycle.confidence import too_many

    if too_many(going, present) and not yes:
        raise ConfirmationRequiredError(
            f"take {going:,} of {present:,} memories out of use, more than a fifth", can_look=True
        )


def _body(text: str) -> str:
    if len(text) > LONGEST_BODY:  # looked at first, because cleaning megabytes takes seconds
        raise UsageError(f"A memory may have {LONGEST_BODY:,} characters; this has {len(text):,}. Split it.")
    return accept(text)


def _kind(text: str) -> str:
    kind = accept(text).lower()
    if not kind or len(kind) > 50 or kind.split() != [kind]:
        raise UsageError(f"{one_line(text, 40)!r} is no type of memory: it is one word, like {', '.join(KINDS[:4])}.")
    return kind


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    found = dict.fromkeys(filter(None, (" ".join(accept(tag).lower().split()) for tag in tags)))
    if len(found) > MOST_TAGS or any(len(tag) > LONGEST_TAG for tag in found):
        raise UsageError(f"A memory may have {MOST_TAGS} tags of {LONGEST_TAG} characters each.")
    return tuple(found)


def _tags_from(title: str) -> tuple[str, ...]:
    """Give a knowledge entry, which needs a tag, some from its title."""
    from ralph.core.tokenize import query_words

    return tuple(query_words(title, 3)) or ("general",)
