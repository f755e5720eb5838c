"""Every ranker by name. Its room is imported when it is asked for; what is not there is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from bench.recall.texts import Memory, Query
from ralph.memory.recall.rankers import RANKERS

OURS = ("ralph", "ralph+meaning", "ralph as shown", "ralph+meaning as shown", *(f"ralph:{name}" for name in RANKERS))
PEERS = ("bm25s", "chromadb", "mem0", "mcp-memory", "mcp-memory:whole")
FLOOR = ("fts5_porter", "newest first", "file order")
NAMES = (*OURS, *PEERS, *FLOOR)

ROOMS = {
    **dict.fromkeys(OURS, "bench.recall.ours"),
    **dict.fromkeys(PEERS, "bench.recall.peers"),
    **dict.fromkeys(FLOOR, "bench.recall.floor"),
}
"""Where a ranker lives. A room has a dict RANKERS: name to what makes one."""


class Ranker(Protocol):
    """Something that holds the memories of one store and ranks them for a query."""

    def add(self, memories: list[Memory]) -> None:
        """Take memories in."""

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return ids, best first, 50 or more where there are so many."""

    def close(self) -> None:
        """Leave nothing behind."""


class Missing(Exception):
    """What a ranker needs is not on this machine; the message says what."""


def find(name: str) -> Callable[[], Ranker]:
    """Return what makes this ranker, tried once; raise `Missing` if it cannot run."""
    try:
        make: Callable[[], Ranker] | None = import_module(ROOMS[name]).RANKERS.get(name)
        if make is None:
            raise Missing(f"{ROOMS[name]} does not have it")
        make().close()
    except ImportError as error:
        raise Missing(str(error)) from error
    return make
