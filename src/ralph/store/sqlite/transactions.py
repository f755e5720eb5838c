"""Transactions on a SQLite file."""

from __future__ import annotations

import os

import apsw

from ralph.core.errors import StatementError, StoreError
from ralph.store.sqlite.errors import translate_sqlite_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from ralph.store.sqlite.write_queue import WriterQueue

BUSY_MILLISECONDS = 30_000
"""Time to wait for the write lock, in milliseconds."""


def _identity(path: str) -> tuple[int, int]:
    """Return the device and inode of a file, or zeros if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


class ReadTransaction:
    """Read-only transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._is_own = False

    def __enter__(self) -> None:
        self._is_own = not self._connection.in_transaction
        if self._is_own:
            self._connection.execute("BEGIN")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class WriteTransaction:
    """Write transaction that first queues behind the other writers of the file."""

    def __init__(self, connection: apsw.Connection, path: str, write_error: StoreError | None = None) -> None:
        self._connection = connection
        self._path = path
        self._write_error = write_error
        self._queue: WriterQueue | None = None
        self._depth = 0
        self._must_roll_back = False
        self._file = _identity(path)
        self._log = (0, 0)

    def __enter__(self) -> None:
        if self._write_error:
            raise self._write_error
        if self._depth == 0:
            self._must_roll_back = False
            self._wait_in_queue()
            try:
                self._refuse_replaced_file()  # it may have been replaced while we queued
                self._connection.execute("BEGIN IMMEDIATE")
                self._refuse_replaced_file()  # or while we waited for a writer that did not queue
                self._log = self._log if self._log[1] else _identity(f"{self._path}-wal")
            except StoreError:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._leave_queue()
                raise
            except apsw.Error as error:
                self._leave_queue()
                raise translate_sqlite_error(error, self._path) from error
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._must_roll_back = self._must_roll_back or kind is not None
        if self._depth:
            return
        try:
            self._connection.execute("ROLLBACK" if self._must_roll_back else "COMMIT")
            if self._queue is not None:
                self._queue.record_progress()
        except apsw.Error as failed:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if kind is None:
                raise translate_sqlite_error(failed, self._path) from failed
        finally:
            self._leave_queue()
        if self._must_roll_back and kind is None:
            raise StatementError("Part of the transaction failed, so nothing was changed.")

    def _refuse_replaced_file(self) -> None:
        """Refuse to write once the database file or its log has been replaced: the write would be lost."""
        if _identity(self._path) != self._file or (self._log[1] and _identity(f"{self._path}-wal") != self._log):
            raise StoreError(f"The database {self._path} was moved or deleted while it was in use.")

    def _wait_in_queue(self) -> None:
        """Queue for the write lock, for a limited time: its holder may be suspended."""
        try:
            if self._queue is None:
                from ralph.store.sqlite.write_queue import WriterQueue

                self._queue = WriterQueue(self._path)
            self._queue.acquire(BUSY_MILLISECONDS / 1000)
        except ImportError:  # no fcntl on this platform: rely on the busy timeout
            pass
        except OSError:
            pass  # BEGIN reports that the directory is not writable

    def _leave_queue(self) -> None:
        if self._queue is not None:
            self._queue.release()

    def close(self) -> None:
        """Leave the queue and close its files."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None
