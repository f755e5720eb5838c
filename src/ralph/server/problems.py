"""What is said when something cannot be done: a problem (RFC 9457) to programs, a page to people."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ralph.errors import ConfirmationRequiredError, NotFoundError, RalphError

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
    code: str
    """Stable name of the error, such as `memory-not-found`."""
    type: str = "about:blank"


class Refused(Exception):
    """A request that is not looked at any further, with the sentence that says why."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.code = HTTPStatus(status).phrase.lower().replace(" ", "-")
        self.headers = dict(headers or {})


class MalformedRequestError(RalphError):
    """The request cannot be parsed."""

    code = "malformed-request"


class InvalidValueError(RalphError):
    """A value in the request is not allowed."""

    code = "invalid-value"
    http_status = 422


def detail_of(error: RalphError) -> str:
    """Give the sentence of an error as it helps here: what to type in a terminal helps nobody."""
    if isinstance(error, NotFoundError):
        return f"{error.noun} not found: {error.id}."
    if isinstance(error, ConfirmationRequiredError):
        look = "look at them with dry_run, then say" if error.can_look else "if you mean it, say"
        return f"This would {error.would}: {look} yes. Nothing was changed."
    return str(error)


def problem(status: int, detail: str, code: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the problem response for a failed request."""
    said = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, code=code)
    return Response(msgspec.json.encode(said), status, dict(headers or {}), PROBLEM_TYPE)
