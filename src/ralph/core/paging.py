"""Pages of a listing."""

from __future__ import annotations

from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")


MAX_PAGE_ITEMS = 2**31 - 1
"""Maximum number of items in a page."""


class Page:
    """Which part of a listing to return: up to `limit` items after a cursor, the `next` of the previous page."""

    __slots__ = ("after", "limit")

    def __init__(self, *, limit: int, after: Any = None) -> None:
        if not 1 <= limit <= MAX_PAGE_ITEMS:
            raise UsageError(f"The limit of a page must be from 1 to {MAX_PAGE_ITEMS:,}.", code="invalid-limit")
        self.limit = limit
        self.after = after


class ResultList(list["T"]):
    """Items of a listing, with the cursor of the next page."""

    def __init__(self, items: Iterable[T] = (), next: Any = None) -> None:
        super().__init__(items)
        self.next = next


def paged(found: Sequence[tuple[T, Any]], page: Page | None) -> ResultList[T]:
    """Return the items of a page; `found` holds one item more than its limit, each with its cursor."""
    if page is None or len(found) <= page.limit:
        return ResultList(item for item, _ in found)
    return ResultList((item for item, _ in found[: page.limit]), found[page.limit - 1][1])
