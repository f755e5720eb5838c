"""ASGI application with all endpoints and pages behind the guard."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ralph.core.actor import PERSON, Actor
from ralph.core.errors import RalphError
from ralph.core.records import record
from ralph.web.api import ENDPOINTS, STREAMS
from ralph.web.auth import API_PREFIX, AuthMiddleware, is_api_path
from ralph.web.endpoints import ResponseChunk, call_endpoint, parse_body, parse_query
from ralph.web.events import EventFeed
from ralph.web.openapi import openapi_json
from ralph.web.pages import PAGES
from ralph.web.problems import JSON_TYPE, RequestRejected, error_detail, problem_response
from ralph.web.rendering import STATIC, render
from ralph.web.workers import ProjectThreads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from ralph.project import Project
    from ralph.web.endpoints import Endpoint
    from ralph.web.page_routes import PageRoute


@record
class Application:
    """Application with the callbacks for shutting it down."""

    app: ASGIApp
    end_streams: Callable[[], None]
    skip_final_sync: Callable[[], None]
    """Skip work at shutdown that the next command can do."""


def create_app(
    root: str, token: str, *, name: str, cookie: str, hosts: Collection[str] = (), actor: Actor = PERSON
) -> Application:
    """Create the application for the project in a directory."""
    threads = ProjectThreads(root, actor)
    feed = EventFeed(threads)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        feed.close()
        threads.close()

    app = Starlette(
        routes=[
            *(Route(call.path, _api_endpoint(call), methods=[call.method]) for call in ENDPOINTS),
            *(Route(stream.path, stream.open, methods=["GET"]) for stream in STREAMS),
            Route(f"{API_PREFIX}openapi.json", _openapi_document, methods=["GET"]),
            Mount("/static", _Static(directory=STATIC), name="static"),
            *(Route(page.path, _page_endpoint(page), methods=["GET"]) for page in PAGES),
        ],
        exception_handlers={
            RalphError: _handle_ralph_error,
            RequestRejected: _handle_refused,
            HTTPException: _handle_http_error,
            ClientDisconnect: _handle_disconnect,
            Exception: _handle_unexpected_error,
        },
        lifespan=lifespan,
    )
    app.state.threads = threads
    app.state.feed = feed
    app.state.name = name
    return Application(
        app=AuthMiddleware(app, token, cookie, hosts), end_streams=feed.close, skip_final_sync=threads.skip_final_sync
    )


# --- responses ------------------------------------------------------------------------------


def _api_endpoint(call: Endpoint) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        query = parse_query(call.query, request.query_params.multi_items()) if call.query else None
        body = parse_body(call.body, await request.body()) if call.body else None
        path = _path_arguments(request, call.path_parameters)

        def work(project: Project) -> bytes | ResponseChunk:
            return call_endpoint(call, project, path, query, body)

        threads: ProjectThreads = request.app.state.threads
        use = threads.use if call.method == "GET" else threads.use_for_writing
        result = await use(work)
        if isinstance(result, ResponseChunk):
            media_type = "text/plain" if result.is_text else JSON_TYPE
            return StreamingResponse(_stream_pieces(threads, result), call.status, media_type=media_type)
        return Response(result, call.status, media_type=JSON_TYPE)

    return endpoint


async def _stream_pieces(threads: ProjectThreads, piece: ResponseChunk) -> AsyncIterator[bytes]:
    """Yield a response piece by piece, without holding a thread while the client reads."""
    yield piece.text
    while piece.next_chunk:
        piece = await threads.use(piece.next_chunk)
        yield piece.text


def _page_endpoint(page: PageRoute) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        query = parse_query(page.query, request.query_params.multi_items()) if page.query else None
        path = _path_arguments(request, page.path_parameters)

        def work(project: Project) -> tuple[str, int]:
            view = page.handler(project, *path, **({"query": query} if page.query else {}))
            common = {"path": request.url.path, "project_name": project.store.project_name}
            return render(view.template, {**common, **view.values}), view.status

        threads: ProjectThreads = request.app.state.threads
        return HTMLResponse(*await threads.use(work))

    return endpoint


def _path_arguments(request: Request, names: Sequence[str]) -> list[str]:
    """Return the path parameters of a request; one with a NUL byte cannot exist, so it is a 404."""
    values: list[str] = [request.path_params[name] for name in names]
    if any("\0" in value for value in values):
        raise HTTPException(404)
    return values


async def _openapi_document(request: Request) -> Response:
    return Response(openapi_json(), media_type=JSON_TYPE)


class _Static(StaticFiles):
    """Static files shipped with the program."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """Return a file that browsers must revalidate, because an upgrade may replace it."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["cache-control"] = "private, no-cache"
        return response


# --- errors ---------------------------------------------------------------------------------


def _error_response(
    request: Request, status: int, detail: str, code: str, headers: dict[str, str] | None = None
) -> Response:
    """Return an error as problem details for programs or as a page for people."""
    if is_api_path(request.url.path):
        return problem_response(status, detail, code, headers)
    values = {"path": request.url.path, "project_name": request.app.state.name, "status": status, "detail": detail}
    return HTMLResponse(render("error.html", values), status, headers)


async def _handle_ralph_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RalphError)
    return _error_response(request, error.http_status, error_detail(error), error.code)


async def _handle_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRejected)
    return _error_response(request, error.status, str(error), error.code, error.headers)


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = " See /api/docs." if is_api_path(request.url.path) else ""
    details = {
        404: f"Page or endpoint not found.{hint}",
        405: f"{request.method} is not supported here.{hint}",
    }
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    detail = details.get(error.status_code, str(error.detail))
    return _error_response(request, error.status_code, detail, code, dict(error.headers or {}))


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    """Answer a client that disconnected early, so that no traceback is printed."""
    return _error_response(request, 400, "The request body is incomplete.", "incomplete-body")


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    """Print the traceback on the server and answer with a generic error."""
    traceback.print_exception(error, file=sys.stderr)
    return _error_response(
        request, 500, "Internal error in Ralph. The traceback is in the output of `ralph serve`.", "internal-error"
    )
