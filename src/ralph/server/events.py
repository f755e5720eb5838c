"""The event stream: what happens to memories, runs and tasks, told to everybody who listens (server-sent events).

One thread watches the database, and wakes all who listen. Each then reads on from where it was: nothing is kept for
anybody, so whoever is slow or was away gets all that was missed, and costs no more than others.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import threading
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ralph.errors import RalphError
from ralph.opened import Opened
from ralph.past import Happening
from ralph.records import record
from ralph.server.calls import Query, encode, query_of
from ralph.server.problems import InvalidValueError, Refused
from ralph.server.shapes import MemoryOccurrence, PublicMemory, memory_occurrence, public
from ralph.server.streams import Stream
from ralph.store.database import FEED, RUN_FEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ralph.project import Project
    from ralph.server.threads import Threads
    from ralph.store.database import Watch

    Cursor = tuple[int, int]
    """The last event of memories and the last one of runs and tasks that somebody has seen."""

MOST_CLIENTS = 64
PAGE = 200
"""So many events are read at once, and as many of them sent as are not more than so long, but one at least."""
PAGE_BYTES = 1_000_000
READERS = 2
"""So many threads at most read for all streams: the others are for requests."""
LOOK_SECONDS = 0.8
"""So often it is looked without being woken: nobody wakes us when a file is edited."""
COMMENT_SECONDS = 15.0
RETRY_MILLISECONDS = 2_000
LAST_WORD_SECONDS = 0.3
HIGHEST = 2**62

_CURSOR = re.compile(r"([0-9]{1,19})-([0-9]{1,19})", re.ASCII)


class MemoryHappening(msgspec.Struct):
    """Something that happened to a memory, and the memory as it is now."""

    event: MemoryOccurrence
    memory: PublicMemory | None


class EventsQuery(Query):
    """From where on."""

    since: Annotated[str | None, msgspec.Meta(description="The id of the last event seen; else from now on.")] = None


@record
class Page:
    """Some events as they are sent, and where the next ones begin."""

    text: bytes
    cursor: Cursor


# --- reading ----------------------------------------------------------------------------------


def position(project: Project) -> Cursor:
    """Give the numbers of the newest events."""
    return project.memory.last_event(), project.last_event()


def read(project: Project, cursor: Cursor) -> Page:
    """Give what happened after a place, oldest first, as much as makes a page."""
    project.memory.sync()  # what a person wrote into the files happened too
    events = project.memory.events(cursor[0], PAGE)
    memories = {one.id: one for one in project.store.memories.find_each(one.memory_id for one in events)}
    told = [
        MemoryHappening(memory_occurrence(one), public(memories[one.memory_id]) if one.memory_id in memories else None)
        for one in events
    ]
    happened = project.past.since(cursor[1], PAGE)
    if not told and not happened:
        # Numbers only grow: one that is beyond the newest is of a database that was here before.
        newest = position(project)
        return Page(text=b"", cursor=(min(cursor[0], newest[0]), min(cursor[1], newest[1])))
    parts: list[bytes] = []
    if happened and (missed := project.past.missed_until(cursor[1], happened[0].event.seq)):
        cursor = (cursor[0], missed)
        parts.append(b"id: %d-%d\nevent: missed\ndata: {}\n\n" % cursor)
    length = 0
    for one in _in_order(told, happened):
        is_memory = isinstance(one, MemoryHappening)
        cursor = (one.event.seq, cursor[1]) if is_memory else (cursor[0], one.event.seq)
        kind = b"memory" if is_memory else b"run"
        parts.append(b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (*cursor, kind, encode(one)))
        length += len(parts[-1])
        if length > PAGE_BYTES:
            break
    return Page(text=b"".join(parts), cursor=cursor)


def _in_order(told: list[MemoryHappening], happened: list[Happening]) -> Iterator[MemoryHappening | Happening]:
    """Give both by time, each kind in its own order, whatever the clocks of those who wrote them said."""
    both: Iterator[MemoryHappening | Happening] = heapq.merge(told, happened, key=lambda one: one.event.at)
    return both


def cursor_in(said: str) -> Cursor:
    """Give the place that the id of an event stands for."""
    found = _CURSOR.fullmatch(said)
    cursor = (int(found[1]), int(found[2])) if found else (HIGHEST + 1, 0)
    if max(cursor) > HIGHEST:
        raise InvalidValueError(
            "since, Last-Event-ID: this is no event of ours; say the id of one as it came, like 12-34."
        )
    return cursor


# --- who listens ------------------------------------------------------------------------------


class Feed:
    """All who listen to what happens in a project; made and used in one event loop, but for the watcher's word."""

    def __init__(self, threads: Threads) -> None:
        self.is_ended = False
        self.changed = asyncio.Event()
        """Set, and another one put in its place, when it is worth looking."""
        self._threads = threads
        self._clients: set[asyncio.Task[None]] = set()
        self._reads: dict[Cursor, asyncio.Task[Page]] = {}
        self._turns = asyncio.Semaphore(READERS)
        self._watcher: _Watcher | None = None

    def refuse_more(self) -> None:
        """Refuse one more who listens, when there are too many or the server ends."""
        if self.is_ended or len(self._clients) >= MOST_CLIENTS:
            raise Refused(503, f"{MOST_CLIENTS} listen already: try again later.", {"retry-after": "10"})

    def join(self, client: asyncio.Task[None]) -> None:
        """Wake whoever this writes to, until it leaves."""
        self._clients.add(client)
        if self._watcher is None:
            self._watcher = _Watcher(self._threads.root, asyncio.get_running_loop(), self._wake)
            self._watcher.start()
        self._watcher.is_wanted.set()

    def leave(self, client: asyncio.Task[None]) -> None:
        """Forget somebody."""
        self._clients.discard(client)
        if not self._clients and self._watcher:
            self._watcher.is_wanted.clear()

    async def start(self, said: str | None) -> Cursor:
        """Give where somebody begins to listen: after the event they name, or now."""
        return cursor_in(said) if said else await self._threads.use(position)

    async def page(self, cursor: Cursor) -> Page:
        """Give what comes after a place; who is at the same one shares the look at the database."""
        reading = self._reads.get(cursor)
        if reading is None:
            reading = self._reads[cursor] = asyncio.create_task(self._read(cursor))
            reading.add_done_callback(lambda done: self._forget(cursor, done))
        return await asyncio.shield(reading)

    async def _read(self, cursor: Cursor) -> Page:
        async with self._turns:
            return await self._threads.use(lambda project: read(project, cursor))

    def _forget(self, cursor: Cursor, done: asyncio.Task[Page]) -> None:
        if self._reads.get(cursor) is done:
            del self._reads[cursor]
        if not done.cancelled():
            done.exception()  # whoever waited for it was told; perhaps nobody did any more

    def _wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        self._reads = {}  # a look from before may have missed what there is to see now
        changed.set()

    def end(self) -> None:
        """End all streams at once."""
        self.is_ended = True
        for client in self._clients:
            client.cancel()
        if self._watcher:
            self._watcher.end()


class _Watcher(threading.Thread):
    """Watches the database while anybody listens."""

    def __init__(self, root: str, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        super().__init__(name="ralph-watch", daemon=True)
        self.is_wanted = threading.Event()
        self._loop = loop
        self._wake = wake
        self._ended = threading.Event()
        self._opened = Opened(root)
        self._project: Project | None = None
        self._watch: Watch | None = None

    def run(self) -> None:
        """Wake those who listen whenever something changed, and now and then."""
        while not self._ended.is_set():
            if not self.is_wanted.is_set():
                self._let_go()
                self.is_wanted.wait()
                continue
            try:
                watch = self._opened.use(self._watching)
            except RalphError:
                self._ended.wait(LOOK_SECONDS)  # until the database is back
            else:
                watch.wait(LOOK_SECONDS)
            self._tell()
        self._let_go()

    def _watching(self, project: Project) -> Watch:
        """Give the watch on a project, another one when it was opened anew."""
        if self._watch is None or project is not self._project:
            self._close_watch()
            self._watch, self._project = project.store.watch(FEED, RUN_FEED), project
            project.store.rest()
        return self._watch

    def _tell(self) -> None:
        if not self._ended.is_set():
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the server has just ended
                self._ended.set()

    def _let_go(self) -> None:
        self._close_watch()
        self._opened.close()

    def _close_watch(self) -> None:
        watch, self._watch, self._project = self._watch, None, None
        if watch:
            watch.close()

    def end(self) -> None:
        """Let the thread end, soon; nobody needs to wait for it."""
        self._ended.set()
        self.is_wanted.set()


# --- one who listens --------------------------------------------------------------------------


class _Told(Response):
    """An answer that goes on until whoever asked goes away or the server ends."""

    def __init__(self, feed: Feed, cursor: Cursor) -> None:
        super().__init__(media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._cursor = cursor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write events, and listen whether somebody is still there."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_left(receive))
        self._feed.join(writing)
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(writing)
            has_left = leaving.done()
            writing.cancel()
            leaving.cancel()
            ended = await asyncio.gather(writing, leaving, return_exceptions=True)
        if has_left:
            return
        if isinstance(ended[0], Exception):
            raise ended[0]
        try:
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # it does not read any more

    async def _write(self, send: Send) -> None:
        async def say(text: bytes) -> float:
            await send({"type": "http.response.body", "body": text, "more_body": True})
            return asyncio.get_running_loop().time()

        # The id first: who is cut off before anything happens comes back to the same place.
        silent_since = await say(b"retry: %d\nid: %d-%d\n\n" % (RETRY_MILLISECONDS, *self._cursor))
        while not self._feed.is_ended:
            changed = self._feed.changed
            page = await self._next()
            if page and page.text:
                silent_since = await say(page.text)
                continue  # there may be more already
            try:
                async with asyncio.timeout_at(silent_since + COMMENT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                silent_since = await say(b":\n\n")

    async def _next(self) -> Page | None:
        try:
            page = await self._feed.page(self._cursor)
        except RalphError:
            return None  # it is asked again; whoever listens has missed nothing
        self._cursor = page.cursor
        return page


async def _left(receive: Receive) -> None:
    """Come back when somebody has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _listen(request: Request) -> Response:
    """Begin to tell somebody what happens."""
    if request.method != "GET":
        raise HTTPException(405, headers={"allow": "GET"})
    query = query_of(EventsQuery, request.query_params.multi_items())
    assert isinstance(query, EventsQuery)
    feed: Feed = request.app.state.feed
    feed.refuse_more()
    # The browser repeats the address it began with: what it saw last comes in the header.
    cursor = await feed.start(request.headers.get("last-event-id") or query.since)
    feed.refuse_more()
    return _Told(feed, cursor)


_WHAT: dict[str, Any] = {
    "operationId": "listen",
    "summary": "Tell what happens to memories, runs and tasks, as it happens, as server-sent events.",
    "description": (
        "Each event has an `id`; `event` is `memory` or `run`, and `data` is JSON, a MemoryHappening or a Happening:"
        " the event, and what it is about as that is now. Who comes back with the id of the last event seen, in the"
        " header Last-Event-ID or as `since`, gets all that was missed, in order. Without either it begins now. Of runs"
        " and tasks the newest 10,000 events are kept, about: who comes back from before them is told so once, with an"
        " event `missed` and the data {}, and should read anew what it shows. A line with a colon alone says every 15"
        " seconds that the server is there."
    ),
    "tags": ["events"],
    "parameters": [
        {
            "name": name,
            "in": place,
            "required": False,
            "description": "The id of the last event seen, like 12-34.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,19}-[0-9]{1,19}$"},
        }
        for name, place in (("since", "query"), ("Last-Event-ID", "header"))
    ],
    "responses": {
        "200": {
            "description": "Events, one after another; it does not end by itself.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Problem"},
    },
}

STREAM = Stream(path="/api/events", open=_listen, description=_WHAT, tells=(MemoryHappening, Happening))
