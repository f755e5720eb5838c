"""Watch for notifications of a PostgreSQL server."""

from __future__ import annotations

import time

import psycopg

from ralph.core.errors import StoreError
from ralph.store.postgres.connection import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.postgres.connection import Connection

CHANNEL = "ralph"


class NotificationWatch:
    """Watch for notifications; it reports a change after a lost connection, because some may have been missed."""

    def __init__(self, url: str, where: str, payloads: Sequence[str]) -> None:
        self._url = url
        self._where = where
        self._payloads = payloads
        self._connection: Connection | None = None
        self._pause = 0.0
        self._not_before = 0.0

    def wait(self, seconds: float) -> bool:
        """Wait until something changed or may have changed; return False on timeout."""
        deadline = time.monotonic() + seconds
        try:
            if self._connection is None:
                if (left := self._not_before - time.monotonic()) > 0:
                    time.sleep(min(left, seconds))
                    return False
                self._connection = connect(self._url, self._where, is_pooled=True)
                self._connection.execute(f"LISTEN {CHANNEL}")
                self._pause = 0.0
                return True
            while (left := deadline - time.monotonic()) > 0:
                for notification in self._connection.notifies(timeout=left, stop_after=1):
                    if notification.payload in self._payloads:
                        return True
        except (psycopg.Error, StoreError):  # callers also poll, so it is enough to reconnect later
            self._pause = min(max(2 * self._pause, 0.1), 5.0)
            self._not_before = time.monotonic() + self._pause
            self.close()
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
