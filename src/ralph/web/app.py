"""ASGI application: authenticates a request, finds its route, and calls the endpoint in a worker thread.

A request passes two wrappers between the ASGI server and the endpoint function: `WebApp`, which authenticates, parses
and reports errors, and `ProjectThreads`, which opens the project and syncs its files.
"""

from __future__ import annotations

import asyncio
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from ralph.core.actor import AGENT, PERSON
from ralph.core.errors import RalphError
from ralph.core.records import record
from ralph.loop.workers import release_dead_claims
from ralph.web.api import ENDPOINTS
from ralph.web.auth import (
    API_PREFIX,
    MCP_PATH,
    SAFE_METHODS,
    Authenticator,
    is_local_request,
    is_program_path,
    read_body,
)
from ralph.web.connections import is_authenticated
from ralph.web.endpoints import Endpoint, RawResponse, encode_json, parse_body, parse_query
from ralph.web.events import EVENTS_PATH, EventFeed, event_id, latest_cursor, open_stream
from ralph.web.mcp import answer_mcp
from ralph.web.openapi import openapi_json
from ralph.web.pages import NAVIGATION, PAGES, PageView
from ralph.web.peers import peer_agent
from ralph.web.problems import (
    JSON_TYPE,
    NotLocalError,
    ReadOnlyError,
    RequestRejected,
    error_detail,
    problem_response,
)
from ralph.web.readers import ReaderProcesses
from ralph.web.rendering import STATIC, rejection_page, render
from ralph.web.workers import ProjectThreads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from starlette.types import Receive, Scope, Send

    from ralph.core.actor import Actor
    from ralph.project import Project
    from ralph.web.pages import DashboardPage

    Respond = Callable[[Request, Sequence[str]], Awaitable[Response]]

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Default headers of every response."""
DEAD_CLAIMS_INTERVAL = 2.0
"""Interval at which killed workers are looked for, in seconds."""
_PARAMETER = re.compile(r"\\\{(\w+)\\\}")


@record
class Route:
    """Method and path with the function that responds to requests for them."""

    method: str
    path: str
    pattern: re.Pattern[str]
    respond: Respond


@record
class ServerMode:
    """What a server lets its clients do besides looking."""

    is_read_only: bool = False
    """Whether it changes nothing."""
    is_local: bool = True
    """Whether no other machine is meant to reach it; otherwise it steers no runs."""

    @property
    def can_steer(self) -> bool:
        """Whether its pages offer to start, pause and stop runs."""
        return self.is_local and not self.is_read_only


class WebApp:
    """ASGI application for the project in a directory."""

    def __init__(
        self,
        root: str,
        token: str,
        *,
        name: str,
        port: int,
        hosts: Collection[str] = (),
        mcp_tokens: tuple[str, ...] = (),
        mode: ServerMode | None = None,
    ) -> None:
        self._name = name
        self._mode = mode or ServerMode()
        self._auth = Authenticator(token, port, hosts, mcp_tokens)
        self._threads = ProjectThreads(root, is_read_only=self._mode.is_read_only)
        self._readers = ReaderProcesses(root)
        self._feed = EventFeed(self._threads)
        self._static = StaticFiles(directory=STATIC)
        self.end_streams = self._feed.close
        self.routes = (
            *(_route(endpoint.method, endpoint.path, self._api_responder(endpoint)) for endpoint in ENDPOINTS),
            _route("GET", EVENTS_PATH, lambda request, _: open_stream(request, self._feed)),
            _route("GET", f"{API_PREFIX}openapi.json", _openapi_document),
            _route("POST", MCP_PATH, self._answer_mcp),
            *(_route("GET", page.path, self._page_responder(page)) for page in PAGES),
            Route(method="GET", path="/static", pattern=re.compile("/static/(.*)", re.DOTALL), respond=self._file),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        request = Request(scope, receive)
        try:
            response = self._auth.authenticate(request)
            if response is None:
                if self._mode.is_read_only and request.method not in SAFE_METHODS:
                    raise ReadOnlyError
                respond, arguments = self._find(request.method, scope["path"])
                response = await respond(request, arguments)
        except Exception as error:  # noqa: BLE001 - the last place where an error can be answered
            response = self._error_response(request, error)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        if not is_authenticated(scope):
            response.headers["connection"] = "close"
        await response(scope, receive, send)

    async def release_dead_claims(self) -> None:
        """Release the claims of killed workers for as long as the server runs, so that nothing of theirs is running."""
        while not self._mode.is_read_only:
            try:
                await self._threads.use(lambda project: release_dead_claims(project.store), is_write=True)
            except RalphError:
                pass  # the next run releases them
            await asyncio.sleep(DEAD_CLAIMS_INTERVAL)

    def close(self) -> None:
        """Close all streams and projects."""
        self.end_streams()
        self._readers.close()
        self._threads.close()

    # --- routes -----------------------------------------------------------------------------

    def _find(self, method: str, path: str) -> tuple[Respond, Sequence[str]]:
        """Return the function that responds to a request, and its path parameters."""
        allowed = []
        for route in self.routes:
            # A parameter with a NUL byte cannot exist.
            if (match := route.pattern.fullmatch(path)) and "\0" not in path:
                if method == route.method or (method, route.method) == ("HEAD", "GET"):
                    return route.respond, match.groups()
                allowed.append(route.method)
        hint = " See /api/docs." if is_program_path(path) else ""
        if allowed:
            raise RequestRejected(405, f"{method} is not supported here.{hint}", {"allow": ", ".join(allowed)})
        raise RequestRejected(404, f"Page or endpoint not found.{hint}")

    def _api_responder(self, endpoint: Endpoint) -> Respond:
        async def respond(request: Request, path: Sequence[str]) -> Response:
            if endpoint.is_local and not (self._mode.is_local and is_local_request(request)):
                raise NotLocalError
            arguments: dict[str, Any] = {}
            if endpoint.query:
                arguments["query"] = parse_query(endpoint.query, request.query_params.multi_items())
            if endpoint.body:
                arguments["body"] = parse_body(endpoint.body, await read_body(request))

            def work(project: Project) -> RawResponse:
                result = endpoint.handler(project, *path, **arguments)
                return result if isinstance(result, RawResponse) else RawResponse(text=encode_json(result))

            if endpoint.method == "GET" and self._threads.leaves_files_to_background:
                items = request.query_params.multi_items()
                problems = self._threads.file_problems
                result = await self._readers.answer(endpoint, path, items, lambda: self._threads.use(work), problems)
            elif endpoint.method == "GET":
                result = await self._threads.use(work)
            else:
                actor = await self._actor_of(request, PERSON)
                result = await self._threads.use(work, actor, is_write=True)
            headers = {"content-disposition": f'attachment; filename="{result.file_name}"'} if result.file_name else {}
            kind = "text/plain" if result.is_text else JSON_TYPE
            return Response(result.text, endpoint.status, headers, "text/html" if result.file_name else kind)

        return respond

    async def _answer_mcp(self, request: Request, _: Sequence[str]) -> Response:
        return await answer_mcp(request, self._threads, await self._actor_of(request, AGENT))

    async def _actor_of(self, request: Request, actor: Actor) -> Actor:
        """Return who sent a request: the agent in whose session the client runs, or else the given actor."""
        client, server = request.scope.get("client"), request.scope.get("server")
        if not client or not server:
            return actor
        peer = await self._threads.run(lambda: peer_agent(self._threads.root, tuple(client[:2]), tuple(server[:2])))
        return peer or actor

    def _page_responder(self, page: DashboardPage) -> Respond:
        query = page.query

        async def respond(request: Request, path: Sequence[str]) -> Response:
            arguments = {"query": parse_query(query, request.query_params.multi_items())} if query else {}

            def work(project: Project) -> str:
                since = event_id(latest_cursor(project))  # before the page, so that it misses no event
                view = page.handler(project, *path, **arguments)
                return _render(view, project.store.project_name, self._mode, page.section, since)

            return HTMLResponse(await self._threads.use(work))

        return respond

    async def _file(self, request: Request, path: Sequence[str]) -> Response:
        """Return a static file that browsers must revalidate, because an upgrade may replace it."""
        response = await self._static.get_response(path[0], request.scope)
        response.headers["cache-control"] = "private, no-cache"
        return response

    # --- errors -----------------------------------------------------------------------------

    def _error_response(self, request: Request, error: Exception) -> Response:
        """Return an error as problem details for programs or as a page for people."""
        status, detail, code, headers = _describe(error)
        if is_program_path(request.scope["path"]):
            return problem_response(status, detail, code, headers)
        if isinstance(error, RequestRejected) and status not in (404, 405):
            return rejection_page(status, detail, headers)
        view = PageView(template="error.html", values={"status": status, "detail": detail})
        return HTMLResponse(_render(view, self._name, self._mode), status, headers)


def _route(method: str, path: str, respond: Respond) -> Route:
    pattern = re.compile(_PARAMETER.sub("([^/]+)", re.escape(path)))
    return Route(method=method, path=path, pattern=pattern, respond=respond)


def _render(view: PageView, project_name: str, mode: ServerMode, section: str = "", since: str = "") -> str:
    common = {
        "project_name": project_name,
        "navigation": NAVIGATION,
        "section": section,
        "since": since,
        "mode": mode,
    }
    return render(view.template, {**common, **view.values})


async def _openapi_document(request: Request, _: Sequence[str]) -> Response:
    return Response(openapi_json(), media_type=JSON_TYPE)


def _describe(error: Exception) -> tuple[int, str, str, dict[str, str]]:
    """Return the status, detail, code and headers of the response to an error."""
    if isinstance(error, RalphError):
        return error.http_status, error_detail(error), error.code, {}
    if isinstance(error, RequestRejected):
        return error.status, str(error), error.code, error.headers
    if isinstance(error, HTTPException):  # raised for static files
        return error.status_code, str(error.detail), "not-found", {}
    if isinstance(error, ClientDisconnect):
        return 400, "The request body is incomplete.", "incomplete-body", {}
    traceback.print_exception(error, file=sys.stderr)
    return 500, "Internal error in Ralph. The traceback is in the output of `ralph serve`.", "internal-error", {}
