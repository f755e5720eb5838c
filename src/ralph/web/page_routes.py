"""Declaration of dashboard pages from annotated functions.

A function receives the project, its path parameters and `query` if it declares one, and returns a `View`. Pages only
read; they make changes through the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

from ralph.core.records import record
from ralph.web.endpoints import names_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.web.endpoints import Query


@record
class View:
    """Template of a page with its values."""

    template: str
    values: dict[str, Any]
    status: int = 200


@record
class PageCall:
    """Dashboard page."""

    path: str
    act: Callable[..., View]
    names: tuple[str, ...]
    query: type[Query] | None


class Pages:
    """Group of pages to which functions are added by a decorator."""

    def __init__(self) -> None:
        self.all: list[PageCall] = []

    def page(self, path: str) -> Callable[[Callable[..., View]], Callable[..., View]]:
        """Register a function for the page at a path."""

        def add(act: Callable[..., View]) -> Callable[..., View]:
            query = get_type_hints(act).get("query")
            self.all.append(PageCall(path=path, act=act, names=names_in(path), query=query))
            return act

        return add
