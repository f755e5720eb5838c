"""The pages that can be asked for, told by the functions that make them.

A function gets the project, what its path names, and its `query` if it has one, and gives a `View`: a template and what
to put into it. It only reads: a page changes something by asking the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

from ralph.records import record
from ralph.server.calls import names_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.server.calls import Query


@record
class View:
    """A page to be: a template, and what it shows."""

    template: str
    values: dict[str, Any]
    status: int = 200


@record
class PageCall:
    """One page that can be asked for."""

    path: str
    act: Callable[..., View]
    names: tuple[str, ...]
    query: type[Query] | None


class Pages:
    """A group of pages, filled by the functions that make them."""

    def __init__(self) -> None:
        self.all: list[PageCall] = []

    def page(self, path: str) -> Callable[[Callable[..., View]], Callable[..., View]]:
        """Let a function make the page of a path."""

        def add(act: Callable[..., View]) -> Callable[..., View]:
            query = get_type_hints(act).get("query")
            self.all.append(PageCall(path=path, act=act, names=names_in(path), query=query))
            return act

        return add
