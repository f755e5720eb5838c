"""What is said when something cannot be done: a problem (RFC 9457) to programs, a page to people."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ralph.errors import NeedsYes, NotFound, RalphError

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"


class Problem(msgspec.Struct):
    """Why a request was not answered as asked."""

    title: str
    """What HTTP calls it."""
    status: int
    detail: str
    """One sentence that says what to do."""
    type: str = "about:blank"


class Refused(Exception):
    """A request that is not looked at any further, with the sentence that says why."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.headers = dict(headers or {})


class BadRequest(RalphError):
    """What was sent cannot be understood."""


class BadValue(RalphError):
    """What was sent can be understood, but not like this."""

    http_status = 422


def detail_of(error: RalphError) -> str:
    """Give the sentence of an error as it helps here: what to type in a terminal helps nobody."""
    if isinstance(error, NotFound):
        return f"{error.noun} not found: {error.id}."
    if isinstance(error, NeedsYes):
        look = "look at them with dry_run, then say" if error.can_look else "if you mean it, say"
        return f"This would {error.would}: {look} yes. Nothing was changed."
    return str(error)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Give the answer to a program whose request failed."""
    said = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(msgspec.json.encode(said), status, dict(headers or {}), PROBLEM_TYPE)
