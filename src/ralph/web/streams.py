"""Declaration of event streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response


@record
class EventStream:
    """Event stream endpoint."""

    path: str
    open: Callable[[Request], Awaitable[Response]]
    description: dict[str, Any]
    """OpenAPI operation, which cannot be generated from types."""
    event_types: tuple[type, ...] = ()
    """Types of the event data."""
