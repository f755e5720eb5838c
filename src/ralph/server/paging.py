"""Pages of what can be listed: how many, and the cursor that says where the next one begins."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, TypeVar

import msgspec

from ralph.server.calls import Query
from ralph.server.problems import InvalidValueError

T = TypeVar("T")

LONGEST_CURSOR = 500

Limit = Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str, msgspec.Meta(max_length=LONGEST_CURSOR, description="Where to go on: `next` of a page before.")]
Number = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""What a number in a cursor may be, as the databases take it."""
Name = Annotated[str, msgspec.Meta(max_length=500, pattern="^[^\\u0000]*$")]
"""What names something: no text may hold a NUL."""
Moment = Annotated[str, msgspec.Meta(pattern=r"^[0-9T:.Z~-]{1,30}$")]


class Paged(Query):
    """A query whose answer comes in pages."""

    limit: Limit = 50
    cursor: Cursor = ""


def cursor_to(place: object) -> str | None:
    """Give the cursor that leads on from a place; None when there is nothing more."""
    if place is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_in(cursor: str, kind: Any) -> Any:
    """Give the place that a cursor leads to, which is of a type; None when there is no cursor."""
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=kind)
    except (UnicodeEncodeError, UnicodeDecodeError, binascii.Error, msgspec.MsgspecError):
        raise InvalidValueError("cursor: this is none of ours; take `next` of the page before, as it is.") from None
