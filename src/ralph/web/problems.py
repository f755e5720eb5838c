"""Error responses of the server as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ralph.core.errors import ConfirmationRequiredError, NotFoundError, RalphError

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"


class Problem(msgspec.Struct):
    """Problem details of a failed request."""

    title: str
    """Reason phrase of the HTTP status."""
    status: int
    detail: str
    """Explanation of the problem and what to do."""
    code: str
    """Stable name of the error, such as `memory-not-found`."""
    type: str = "about:blank"


class RequestRejected(Exception):
    """Rejection of a request before it is handled."""

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


class ReadOnlyError(RalphError):
    """The server was started without the permission to change anything."""

    code = "read-only"
    http_status = 403

    def __init__(self) -> None:
        super().__init__("This server is read-only: it changes nothing and starts no run.")


class NotLocalError(RalphError):
    """Runs are steered on the machine of the server only."""

    code = "not-local"
    http_status = 403

    def __init__(self) -> None:
        super().__init__("Runs can only be steered on this machine, and not on a server that other machines reach.")


def error_detail(error: RalphError) -> str:
    """Return the message of an error for HTTP clients, without commands to type in a terminal."""
    if isinstance(error, NotFoundError):
        return f"{error.noun} not found: {error.id}."
    if isinstance(error, ConfirmationRequiredError):
        hint = "Preview with `dry_run`, then set `yes`" if error.can_look else "To confirm, set `yes`"
        return f"This would {error.would}. {hint}. Nothing was changed."
    return str(error)


def problem_response(status: int, detail: str, code: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the problem response for a failed request."""
    details = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, code=code)
    return Response(msgspec.json.encode(details), status, dict(headers or {}), PROBLEM_TYPE)
