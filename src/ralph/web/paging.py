"""Pagination of API listings with opaque cursors."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from ralph.core.paging import Page
from ralph.web.endpoints import QueryParams
from ralph.web.problems import InvalidValueError

T = TypeVar("T")

MAX_CURSOR_CHARS = 500
"""Maximum length of a cursor, in characters."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=200, description="Maximum number of items.")]
Cursor = Annotated[str, msgspec.Meta(max_length=MAX_CURSOR_CHARS, description="`next` of the previous page.")]
Number = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""Number in a cursor, within the range the databases support."""
Name = Annotated[str, msgspec.Meta(max_length=500, pattern="^[^\\u0000]*$")]
"""Name or ID, without NUL."""
Moment = Annotated[str, msgspec.Meta(pattern=r"^[0-9T:.Z~-]{1,30}$")]


class PagedQuery(QueryParams):
    """Query parameters of a paginated endpoint."""

    limit: Limit = 50
    cursor: Cursor = ""


class _HasPage(Protocol):
    limit: Limit
    cursor: Cursor


def page_of(query: _HasPage, cursor: Any) -> Page:
    """Return the requested page; its cursor must be of the given type."""
    return Page(limit=query.limit, after=decode_cursor(query.cursor, cursor))


def encode_cursor(position: object) -> str | None:
    """Encode a position as a cursor; return None if there is none."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str, kind: Any) -> Any:
    """Decode a cursor as a position of a type; return None if it is empty."""
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=kind)
    except (UnicodeEncodeError, UnicodeDecodeError, binascii.Error, msgspec.MsgspecError):
        raise InvalidValueError("cursor: invalid. Use `next` of the previous page unchanged.") from None
