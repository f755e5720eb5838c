"""Pages of a listing."""

from __future__ import annotations

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")


@record
class Page:
    """Which part of a listing to return."""

    limit: int
    after: Any = None
    """Cursor to continue from: `next` of the previous page."""


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
