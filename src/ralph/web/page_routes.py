"""Declaration of dashboard pages from annotated functions.

A function receives the project, its path parameters and `query` if it declares one, and returns a `PageView`. Pages only
read; they make changes through the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

from ralph.core.records import record
from ralph.web.endpoints import path_parameter_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.web.endpoints import QueryParams


@record
class PageView:
    """Template of a page with its values."""

    template: str
    values: dict[str, Any]
    status: int = 200


@record
class PageRoute:
    """Dashboard page."""

    path: str
    handler: Callable[..., PageView]
    path_parameters: tuple[str, ...]
    query: type[QueryParams] | None


class PageGroup:
    """Group of pages to which functions are added by a decorator."""

    def __init__(self) -> None:
        self.all: list[PageRoute] = []

    def page(self, path: str) -> Callable[[Callable[..., PageView]], Callable[..., PageView]]:
        """Register a function for the page at a path."""

        def add(act: Callable[..., PageView]) -> Callable[..., PageView]:
            query = get_type_hints(act).get("query")
            self.all.append(PageRoute(path=path, handler=act, path_parameters=path_parameter_names(path), query=query))
            return act

        return add
