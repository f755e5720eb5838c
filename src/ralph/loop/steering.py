"""Requests of a person to a run from elsewhere: `ralph pause`, `ralph resume` and `ralph stop`."""

from __future__ import annotations

import threading

from ralph.core.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.store import Store

PAUSE, STOP, GO_ON = "pause", "stop", ""
"""What can be asked of a run."""
POLL_SECONDS, SHARED_POLL_SECONDS = 0.5, 3.0
"""Interval at which a run looks for requests in a file and on a server, in seconds."""


class RequestWatch:
    """Background thread that reads what is asked of a run."""

    def __init__(self, store: Store, run_id: str, on_request: Callable[[str], None]) -> None:
        self._reopen = store.reopen
        self._seconds = SHARED_POLL_SECONDS if store.is_shared else POLL_SECONDS
        self._run_id = run_id
        self._on_request = on_request
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="requests", daemon=True)

    def __enter__(self) -> RequestWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        store, last = self._reopen(), GO_ON
        try:
            while not self._ended.wait(self._seconds):
                try:
                    request = store.runs.get(self._run_id).request
                    store.database.release_connection()
                except StoreError:
                    continue  # the run itself notices and reports what is wrong
                if request != last:
                    last = request
                    self._on_request(request)
        finally:
            store.close()
