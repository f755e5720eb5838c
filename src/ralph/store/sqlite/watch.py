"""Watch for changes to a SQLite file."""

from __future__ import annotations

import time

import apsw

from ralph.store.sqlite.driver import translate_sqlite_error

WATCH_SECONDS = 0.1
"""Polling interval of a watch, in seconds."""


class FileWatch:
    """Watch for changes to the file by other connections."""

    def __init__(self, path: str) -> None:
        try:
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            self._seen = self._connection.pragma("data_version")
        except apsw.Error as error:
            raise translate_sqlite_error(error, path) from error

    def wait(self, seconds: float) -> bool:
        """Wait until something changed; return False on timeout."""
        deadline = time.monotonic() + seconds
        try:
            while (version := self._connection.pragma("data_version")) == self._seen:
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                time.sleep(min(left, WATCH_SECONDS))
        except apsw.Error:  # callers also poll, so it is enough to wait
            time.sleep(max(0.0, deadline - time.monotonic()))
            return False
        self._seen = version
        return True

    def close(self) -> None:
        """Stop watching."""
        self._connection.close()
