"""Requests of a person to a run from elsewhere (`ralph pause`, `resume` and `stop`), and its signs of life."""

from __future__ import annotations

import threading
import time

from ralph.core.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.store import Store
    from ralph.store.runs import RunStore

PAUSE, STOP, GO_ON = "pause", "stop", ""
"""What can be asked of a run."""
POLL_SECONDS, SHARED_POLL_SECONDS = 0.5, 3.0
"""Interval at which a run looks for requests in a file and on a server, in seconds."""

ALIVE_SECONDS = 5.0
"""Interval at which a run records how long it has taken, in seconds: a killed run loses at most that."""


class RequestWatch:
    """Background thread that reads what is asked of a run, and records that the run is alive."""

    def __init__(
        self, store: Store, run_id: str, on_request: Callable[[str], None], record_alive: Callable[[RunStore], None]
    ) -> None:
        self._reopen = store.reopen
        self._seconds = SHARED_POLL_SECONDS if store.is_shared else POLL_SECONDS
        self._run_id = run_id
        self._on_request = on_request
        self._record_alive = record_alive
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="requests", daemon=True)

    def __enter__(self) -> RequestWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        store, last, recorded_at = self._reopen(), GO_ON, time.monotonic()
        try:
            while not self._ended.wait(self._seconds):
                try:
                    request = store.runs.get(self._run_id).request
                    if time.monotonic() - recorded_at >= ALIVE_SECONDS:
                        recorded_at = time.monotonic()
                        self._record_alive(store.runs)
                    store.database.release_connection()
                except StoreError:
                    continue  # the run itself notices and reports what is wrong
                if request != last:
                    last = request
                    self._on_request(request)
        finally:
            store.close()
