"""Background computation of embeddings while an agent is working."""

from __future__ import annotations

import os
import threading

from ralph.core.errors import RalphError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.store import Store

FIRST_PASS_SECONDS, PASS_INTERVAL_SECONDS = 3.0, 5.0
"""Delay before the first and between later passes, in seconds; short runs end before the model is loaded."""
LOWEST_NICE = 19
"""Lowest scheduling priority (nice value)."""


class EmbeddingThread:
    """Low-priority background thread that computes missing embeddings."""

    def __init__(self, open_store: Callable[[], Store], is_enabled: bool) -> None:
        self._open_store = open_store
        self._is_enabled = is_enabled
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._embed_periodically, name="embedding", daemon=True)

    def __enter__(self) -> EmbeddingThread:
        if self._is_enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._is_enabled:
            self._thread.join()

    def _embed_periodically(self) -> None:
        if self._ended.wait(FIRST_PASS_SECONDS):
            return
        from ralph.memory.recall.embeddings import is_installed
        from ralph.memory.recall.vector_search import embed_missing

        if not is_installed():
            return
        lower_thread_priority()
        store: Store | None = None
        while True:
            try:
                store = store or self._open_store()
                embed_missing(store, lambda _: not self._ended.is_set())
                store.database.release_connection()
            except RalphError:
                pass  # the run itself reports database errors
            if self._ended.wait(PASS_INTERVAL_SECONDS):
                break
        if store:
            store.close()


def lower_thread_priority() -> None:
    """Set the lowest priority for this thread, where threads have one."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_NICE)
    except (AttributeError, OSError):
        pass
