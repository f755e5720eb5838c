"""What is streamed instead of answered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.records import record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response


@record
class Stream:
    """One stream that can be opened."""

    path: str
    open: Callable[[Request], Awaitable[Response]]
    description: dict[str, Any]
    """The OpenAPI operation: it has no types to be made from."""
    tells: tuple[type, ...] = ()
    """What the data of its events may be."""
