"""Stream of memory, run and task events as server-sent events.

While clients are connected, the newest events are polled; each client then reads on from its own cursor. Nothing is
buffered per client, so slow or reconnecting clients miss nothing and cost no more than others.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.responses import Response

from ralph.core.errors import RalphError
from ralph.core.records import record
from ralph.loop.runs import RunUpdate
from ralph.web.endpoints import QueryParams, encode_json, parse_query
from ralph.web.problems import InvalidValueError, RequestRejected
from ralph.web.schemas import MemoryHistoryEvent, PublicMemory, memory_history_event, public_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ralph.project import Project
    from ralph.web.workers import ProjectThreads

    Cursor = tuple[int, int]
    """Numbers of the last memory event and the last run or task event a client has seen."""

EVENTS_PATH = "/api/events"
MAX_STREAM_CLIENTS = 64
"""Maximum number of connected clients."""
EVENT_PAGE_SIZE = 200
"""Maximum number of events of each kind read at once."""
MAX_EVENT_PAGE_BYTES = 1_000_000
"""Size after which a page ends, in bytes."""
MAX_STREAM_READERS = 2
"""Maximum number of threads that read for streams; the others serve requests."""
POLL_INTERVAL = 0.3
"""Interval at which new events are looked for, in seconds."""
KEEPALIVE_INTERVAL = 15.0
"""Time without an event after which the server says that it is there, in seconds; ui.js relies on it."""
RETRY_MILLISECONDS = 2_000
"""Time a client waits before it reconnects, in milliseconds."""
STREAM_CLOSE_TIMEOUT = 0.3
"""Time to finish a stream at shutdown, in seconds."""
MAX_EVENT_NUMBER = 2**62
"""Maximum event number in a cursor."""

_CURSOR = re.compile(r"([0-9]{1,19})-([0-9]{1,19})", re.ASCII)


class MemoryStreamEvent(msgspec.Struct):
    """Event of a memory with the memory's current state."""

    event: MemoryHistoryEvent
    memory: PublicMemory | None


class EventsQuery(QueryParams):
    """Position at which to start the stream."""

    since: Annotated[str | None, msgspec.Meta(description="ID of the last event seen. Default: now.")] = None


@record
class EventPage:
    """Encoded events and the cursor after them."""

    text: bytes
    cursor: Cursor


# --- reading ----------------------------------------------------------------------------------


def latest_cursor(project: Project) -> Cursor:
    """Return the cursor of the newest events."""
    return project.memory.events.last(), project.runs.last_event()


def read_events(project: Project, cursor: Cursor) -> EventPage:
    """Return the page of events after a cursor, oldest first."""
    memory_events = [
        MemoryStreamEvent(memory_history_event(event), public_memory(memory) if memory else None)
        for event, memory in project.memory.events.since(cursor[0], EVENT_PAGE_SIZE)
    ]
    run_events = project.runs.events(cursor[1], EVENT_PAGE_SIZE)
    if not memory_events and not run_events:
        # Numbers only grow: a cursor beyond the newest event belongs to a database that was replaced.
        newest = latest_cursor(project)
        return EventPage(text=b"", cursor=(min(cursor[0], newest[0]), min(cursor[1], newest[1])))
    parts: list[bytes] = []
    if run_events and (missed := project.runs.missed_until(cursor[1], run_events[0].event.seq)):
        cursor = (cursor[0], missed)
        parts.append(b"id: %d-%d\nevent: missed\ndata: {}\n\n" % cursor)
    length = 0
    for one in _merge_by_time(memory_events, run_events):
        is_memory = isinstance(one, MemoryStreamEvent)
        cursor = (one.event.seq, cursor[1]) if is_memory else (cursor[0], one.event.seq)
        kind = b"memory" if is_memory else b"run"
        parts.append(b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (*cursor, kind, encode_json(one)))
        length += len(parts[-1])
        if length > MAX_EVENT_PAGE_BYTES:
            break
    return EventPage(text=b"".join(parts), cursor=cursor)


def _merge_by_time(
    memory_events: list[MemoryStreamEvent], run_events: list[RunUpdate]
) -> Iterator[MemoryStreamEvent | RunUpdate]:
    """Merge both kinds by time, keeping the order within each even if clocks disagreed."""
    both: Iterator[MemoryStreamEvent | RunUpdate] = heapq.merge(memory_events, run_events, key=lambda one: one.event.at)
    return both


def event_id(cursor: Cursor) -> str:
    """Return the ID of the event at a cursor."""
    return f"{cursor[0]}-{cursor[1]}"


def parse_event_id(value: str) -> Cursor:
    """Parse the ID of an event as a cursor."""
    found = _CURSOR.fullmatch(value)
    cursor = (int(found[1]), int(found[2])) if found else (MAX_EVENT_NUMBER + 1, 0)
    if max(cursor) > MAX_EVENT_NUMBER:
        raise InvalidValueError(
            "since, Last-Event-ID: not a valid event ID. Use the ID of a received event, such as 12-34."
        )
    return cursor


# --- feed -------------------------------------------------------------------------------------


class EventFeed:
    """Connected clients of the event stream; they are woken when there are new events."""

    def __init__(self, threads: ProjectThreads) -> None:
        self.is_ended = False
        self.changed = asyncio.Event()
        """Event that is set, and replaced by a new one, when there may be new events."""
        self._threads = threads
        self._clients: set[asyncio.Task[None]] = set()
        self._read_slots = asyncio.Semaphore(MAX_STREAM_READERS)
        self._poller: asyncio.Task[None] | None = None

    def check_capacity(self) -> None:
        """Reject another client if there are too many or the server is shutting down.

        Raises:
            RequestRejected: If no more clients are accepted.
        """
        if self.is_ended or len(self._clients) >= MAX_STREAM_CLIENTS:
            raise RequestRejected(
                503,
                f"Too many event streams are open (maximum {MAX_STREAM_CLIENTS}). Try again later.",
                {"retry-after": "10"},
            )

    def join(self, client: asyncio.Task[None]) -> None:
        """Add a client to wake on changes until it leaves."""
        self._clients.add(client)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())

    def leave(self, client: asyncio.Task[None]) -> None:
        """Remove a client."""
        self._clients.discard(client)

    async def start_cursor(self, last_event_id: str | None) -> Cursor:
        """Return the cursor of an event ID, or of the newest events without one."""
        return parse_event_id(last_event_id) if last_event_id else await self._threads.use(latest_cursor)

    async def page(self, cursor: Cursor) -> EventPage:
        """Return the page after a cursor."""
        async with self._read_slots:
            return await self._threads.use(lambda project: read_events(project, cursor))

    async def _poll(self) -> None:
        """Wake the clients when there are new events, until the last one has left."""
        newest: Cursor | None = None
        while self._clients:
            try:
                found = await self._threads.use(latest_cursor)
            except RalphError:
                found = None  # clients retry too
            if found is None or found != newest:
                newest = found
                changed, self.changed = self.changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(POLL_INTERVAL)

    def close(self) -> None:
        """Close all streams."""
        self.is_ended = True
        for client in (*self._clients, *([self._poller] if self._poller else [])):
            client.cancel()


# --- response ---------------------------------------------------------------------------------


class _EventStreamResponse(Response):
    """Response that streams events until the client disconnects or the server shuts down."""

    def __init__(self, feed: EventFeed, cursor: Cursor) -> None:
        super().__init__(media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._cursor = cursor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events while watching for the client to disconnect."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        writing = asyncio.create_task(self._write(send))
        disconnected = asyncio.create_task(_wait_for_disconnect(receive))
        self._feed.join(writing)
        try:
            await asyncio.wait((writing, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(writing)
            is_disconnected = disconnected.done()
            writing.cancel()
            disconnected.cancel()
            results = await asyncio.gather(writing, disconnected, return_exceptions=True)
        if is_disconnected:
            return
        if isinstance(results[0], Exception):
            raise results[0]
        try:
            async with asyncio.timeout(STREAM_CLOSE_TIMEOUT):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # the client no longer reads

    async def _write(self, send: Send) -> None:
        async def send_text(text: bytes) -> float:
            await send({"type": "http.response.body", "body": text, "more_body": True})
            return asyncio.get_running_loop().time()

        # The ID first: a client that loses the connection before any event resumes at the same position.
        last_sent = await send_text(b"retry: %d\nid: %d-%d\n\n" % (RETRY_MILLISECONDS, *self._cursor))
        while not self._feed.is_ended:
            changed = self._feed.changed
            page = await self._next()
            if page and page.text:
                last_sent = await send_text(page.text)
                continue  # there may be more
            try:
                async with asyncio.timeout_at(last_sent + KEEPALIVE_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                last_sent = await send_text(b"event: alive\ndata: {}\n\n")

    async def _next(self) -> EventPage | None:
        try:
            page = await self._feed.page(self._cursor)
        except RalphError:
            return None  # retried with the same cursor, so no event is lost
        self._cursor = page.cursor
        return page


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def open_stream(request: Request, feed: EventFeed) -> Response:
    """Start an event stream."""
    if request.method != "GET":  # HEAD would never end
        raise RequestRejected(405, f"{request.method} is not supported here.", {"allow": "GET"})
    query = parse_query(EventsQuery, request.query_params.multi_items())
    assert isinstance(query, EventsQuery)
    feed.check_capacity()
    # A reconnecting browser repeats the original URL; the header has the last event it saw.
    cursor = await feed.start_cursor(request.headers.get("last-event-id") or query.since)
    feed.check_capacity()
    return _EventStreamResponse(feed, cursor)


EVENTS_OPERATION: dict[str, Any] = {
    "operationId": "listen",
    "summary": "Stream events of memories, runs and tasks as server-sent events.",
    "description": (
        "Each event has an `id`; `event` is `memory` or `run`, and `data` is JSON, a MemoryHappening or a RunUpdate:"
        " the event and the current state of its subject. A client that reconnects with the ID of the last event it"
        " saw, in the header Last-Event-ID or as `since`, receives all events it missed, in order. Without either,"
        " the stream starts now. About 10,000 run and task events are retained: a client that resumes before them"
        " receives one event `missed` with the data {} and should reload what it shows. An event `alive`"
        " without an ID is sent every 15 seconds in which there was no other: without any for longer, the connection is"
        " lost."
    ),
    "tags": ["events"],
    "parameters": [
        {
            "name": name,
            "in": place,
            "required": False,
            "description": "ID of the last event seen, such as 12-34.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,19}-[0-9]{1,19}$"},
        }
        for name, place in (("since", "query"), ("Last-Event-ID", "header"))
    ],
    "responses": {
        "200": {
            "description": "Stream of events without an end.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Problem"},
    },
}
"""OpenAPI operation, which cannot be generated from types."""
EVENT_TYPES = (MemoryStreamEvent, RunUpdate)
"""Types of the event data."""
