"""The application: every call and page under its path, behind the guard."""

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

from ralph.errors import RalphError
from ralph.records import record
from ralph.server.api import CALLS, STREAMS
from ralph.server.calls import Piece, answer, body_of, query_of
from ralph.server.events import Feed
from ralph.server.guard import API, Guard, is_for_program
from ralph.server.openapi import describe
from ralph.server.pages import PAGES
from ralph.server.problems import JSON_TYPE, Refused, detail_of, problem
from ralph.server.rendering import STATIC, render
from ralph.server.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from ralph.project import Project
    from ralph.server.calls import Call
    from ralph.server.views import PageCall


@record
class Built:
    """An application, and what whoever runs it has to tell it."""

    app: ASGIApp
    end_streams: Callable[[], None]
    hurry: Callable[[], None]
    """Do not wait at the end for what can be done later."""


def build(root: str, token: str, *, name: str, cookie: str, hosts: Collection[str] = ()) -> Built:
    """Give the application that serves the project in a directory."""
    threads = Threads(root)
    feed = Feed(threads)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        feed.end()
        threads.close()

    app = Starlette(
        routes=[
            *(Route(call.path, _calling(call), methods=[call.method]) for call in CALLS),
            *(Route(stream.path, stream.open, methods=["GET"]) for stream in STREAMS),
            Route(f"{API}openapi.json", _described, methods=["GET"]),
            Mount("/static", _Static(directory=STATIC), name="static"),
            *(Route(page.path, _showing(page), methods=["GET"]) for page in PAGES),
        ],
        exception_handlers={
            RalphError: _trouble,
            Refused: _refused,
            HTTPException: _no_such_thing,
            ClientDisconnect: _gone,
            Exception: _fault,
        },
        lifespan=lifespan,
    )
    app.state.threads = threads
    app.state.feed = feed
    app.state.name = name
    return Built(app=Guard(app, token, cookie, hosts), end_streams=feed.end, hurry=threads.hurry)


# --- answers --------------------------------------------------------------------------------


def _calling(call: Call) -> Callable[[Request], object]:
    async def answered(request: Request) -> Response:
        query = query_of(call.query, request.query_params.multi_items()) if call.query else None
        body = body_of(call.body, await request.body()) if call.body else None
        path = _named(request, call.names)

        def work(project: Project) -> bytes | Piece:
            return answer(call, project, path, query, body)

        threads: Threads = request.app.state.threads
        use = threads.use if call.method == "GET" else threads.change
        found = await use(work)
        if isinstance(found, Piece):
            kind = "text/plain" if found.is_text else JSON_TYPE
            return StreamingResponse(_pieces(threads, found), call.status, media_type=kind)
        return Response(found, call.status, media_type=JSON_TYPE)

    return answered


async def _pieces(threads: Threads, piece: Piece) -> AsyncIterator[bytes]:
    """Give an answer piece by piece: no thread is held while whoever asked takes in the one before."""
    yield piece.text
    while piece.then:
        piece = await threads.use(piece.then)
        yield piece.text


def _showing(page: PageCall) -> Callable[[Request], object]:
    async def shown(request: Request) -> Response:
        query = query_of(page.query, request.query_params.multi_items()) if page.query else None
        path = _named(request, page.names)

        def work(project: Project) -> tuple[str, int]:
            view = page.act(project, *path, **({"query": query} if page.query else {}))
            here = {"path": request.url.path, "project_name": project.store.project_name}
            return render(view.template, {**here, **view.values}), view.status

        threads: Threads = request.app.state.threads
        return HTMLResponse(*await threads.use(work))

    return shown


def _named(request: Request, names: Sequence[str]) -> list[str]:
    """Give what the path of a request names; what no text may hold names nothing."""
    path: list[str] = [request.path_params[name] for name in names]
    if any("\0" in one for one in path):
        raise HTTPException(404)
    return path


async def _described(request: Request) -> Response:
    return Response(describe(), media_type=JSON_TYPE)


class _Static(StaticFiles):
    """Files that come with the program."""

    def file_response(self, *args: object, **named: object) -> Response:
        """Give a file, which a browser may keep but asks about again: after an upgrade it is another one."""
        response = super().file_response(*args, **named)  # type: ignore[arg-type]
        response.headers["cache-control"] = "private, no-cache"
        return response


# --- trouble --------------------------------------------------------------------------------


def _said(request: Request, status: int, detail: str, code: str, headers: dict[str, str] | None = None) -> Response:
    """Say what is wrong: to a program as a problem, to a person as a page."""
    if is_for_program(request.url.path):
        return problem(status, detail, code, headers)
    values = {"path": request.url.path, "project_name": request.app.state.name, "status": status, "detail": detail}
    return HTMLResponse(render("error.html", values), status, headers)


async def _trouble(request: Request, error: Exception) -> Response:
    assert isinstance(error, RalphError)
    return _said(request, error.http_status, detail_of(error), error.code)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _said(request, error.status, str(error), error.code, error.headers)


async def _no_such_thing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    see = " See: /api/docs" if is_for_program(request.url.path) else ""
    sentences = {
        404: f"There is nothing at this address.{see}",
        405: f"{request.method} cannot be asked of this address.{see}",
    }
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    detail = sentences.get(error.status_code, str(error.detail))
    return _said(request, error.status_code, detail, code, dict(error.headers or {}))


async def _gone(request: Request, error: Exception) -> Response:
    """Answer somebody who went away before all was said, so that nobody is troubled with it."""
    return _said(request, 400, "The body ended before it was whole.", "incomplete-body")


async def _fault(request: Request, error: Exception) -> Response:
    """Say that it is a fault of ours, and print what it is for whoever runs the server."""
    traceback.print_exception(error, file=sys.stderr)
    return _said(request, 500, "This is a fault of Ralph's own: where the server runs, it says more.", "internal-error")
