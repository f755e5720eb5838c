"""Connection to a PostgreSQL server, opened on demand and reopened when it is lost."""

from __future__ import annotations

import re
import time
from functools import lru_cache

import psycopg
from psycopg.rows import dict_row

from ralph.core.errors import (
    RalphError,
    StatementError,
    StoreError,
    StoreTooNewError,
    StoreUnavailableError,
    TooManyConnectionsError,
)
from ralph.core.store_url import strip_password
from ralph.store.database import SCHEMA_VERSION
from ralph.store.postgres.errors import connection_error, malformed_url_error, translate_postgres_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from ralph.store.database import Row

    R = TypeVar("R")
    Connection = psycopg.Connection[Row]

MIN_SERVER_VERSION = 14
"""Oldest supported major version of PostgreSQL; older ones are end-of-life."""
CONNECT_SECONDS = 10
"""Connection timeout, in seconds."""
KEEPALIVE_OPTIONS = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 40_000}
"""TCP settings that detect a dead peer after about 40 seconds instead of two hours."""
LOCK_SECONDS = 30
"""Time a writer waits for the lock of a project, in seconds."""
IDLE_SECONDS = 60
"""Idle time after which the server aborts a transaction, in seconds."""
CONNECT_RETRY_SECONDS = 0.5
"""Pause between connection attempts while the server has no free connections, in seconds."""
RECONNECT_SECONDS = 10.0
"""Time to retry after a lost connection before the error is raised, in seconds."""
SETTINGS = {
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    # The planner overestimates these queries, and would compile each of them.
    "jit": "off",
    # Planning a claim takes twice as long as executing it.
    "plan_cache_mode": "force_generic_plan",
}


def connect(url: str, where: str, *, is_pooled: bool) -> Connection:
    """Open a connection; behind a pooler, without prepared statements and session settings."""
    options = "" if is_pooled else " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    try:
        params: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(params.get("port", ""))):
            raise psycopg.ProgrammingError("the port is not a number")
        if options:
            params["options"] = f"{options} {params.get('options', '')}".strip()  # options in the URL take precedence
        params = {"connect_timeout": CONNECT_SECONDS, "application_name": "ralph", **KEEPALIVE_OPTIONS, **params}
        return psycopg.Connection.connect(
            **params,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            row_factory=dict_row,
            prepare_threshold=None if is_pooled else 1,
        )
    except (psycopg.ProgrammingError, UnicodeError) as error:
        raise malformed_url_error(url, error) from None
    except psycopg.Error as error:
        raise connection_error(error, where) from error


_NAMED = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_]\w*)")


@lru_cache(maxsize=500)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with numbered parameters, and the parameter names in that order."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        return f"${numbers.setdefault(name, len(numbers) + 1)}" if name else match[0]

    return _NAMED.sub(number, sql), tuple(numbers)


class ServerConnection:
    """One connection to one server, for one thread."""

    def __init__(self, url: str, direct_url: str = "") -> None:
        self.display_url = strip_password(url)
        self.version = 0
        """Schema version of the tables on the server; 0 if there are none."""
        self.is_in_transaction = False
        self._url = url
        self._is_pooled = bool(direct_url)
        self._connection: Connection | None = None
        self._was_connected = False

    @property
    def current(self) -> Connection | None:
        """The open connection, if any."""
        return self._connection

    def get(self) -> Connection:
        """Return the connection, opening one if necessary."""
        if self._connection is None:
            if self.is_in_transaction:
                # The transaction is lost, so none of its remaining statements may run.
                raise self.lost_error()
            connection = self._connect()
            try:
                self.check(connection)  # another machine may have migrated the tables meanwhile
            except RalphError:
                connection.close()
                raise
            self._connection = connection
            self._was_connected = True
        return self._connection

    def _connect(self) -> Connection:
        """Open a connection, retrying for a while if the server has no free ones."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                return connect(self._url, self.display_url, is_pooled=self._is_pooled)
            except TooManyConnectionsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CONNECT_RETRY_SECONDS)
            except StoreUnavailableError:
                raise
            except StoreError as error:
                # It worked before, so this is temporary: without a network, host names are not found either.
                raise (StoreUnavailableError(str(error)) if self._was_connected else error) from None

    def check(self, connection: Connection) -> None:
        """Refuse an unsupported server, encoding or schema version."""
        info = connection.info
        if info.server_version // 10_000 < MIN_SERVER_VERSION:
            major = info.server_version // 10_000
            raise StoreError(f"{self.display_url} is PostgreSQL {major}. Ralph needs {MIN_SERVER_VERSION} or newer.")
        if (encoding := info.parameter_status("server_encoding")) != "UTF8":
            raise StoreError(
                f"The database {self.display_url} has the encoding {encoding}. Create one with the encoding UTF8."
            )
        try:
            (found,) = connection.execute("SELECT to_regclass('ralph_schema') IS NOT NULL AS is_there").fetchall()
            rows = (
                connection.execute("SELECT version, oldest FROM ralph_schema").fetchall() if found["is_there"] else []
            )
        except psycopg.Error as error:
            raise translate_postgres_error(error, self.display_url, is_lost=connection.closed) from error
        self.version = rows[0]["version"] if rows else 0
        if self.version > SCHEMA_VERSION and rows[0]["oldest"] > SCHEMA_VERSION:
            raise StoreTooNewError(self.display_url, self.version, SCHEMA_VERSION)

    def lost_error(self) -> StoreUnavailableError:
        """Return the error to raise when a transaction was lost with its connection."""
        return StoreUnavailableError(f"The connection to {self.display_url} was lost before the change was committed.")

    def handle_error(self, error: psycopg.Error | UnicodeEncodeError) -> RalphError:
        """Return the error to raise, and discard a lost connection."""
        if isinstance(error, UnicodeEncodeError):
            return StatementError(f"The database {self.display_url} rejected text that is not valid Unicode.")
        is_lost = self._connection is None or self._connection.closed or self._connection.broken
        if is_lost:
            self.release()
        return translate_postgres_error(error, self.display_url, is_lost=bool(is_lost))

    def retry(self, work: Callable[[], R]) -> R:
        """Call `work`, which must not have changed anything yet, again if the connection is lost meanwhile."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        pause = 0.05
        while True:
            try:
                return work()
            except StoreUnavailableError:
                # Do not retry the first connection: the URL may be wrong.
                if not self._was_connected or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)

    def release(self) -> None:
        """Close the connection until it is needed again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(self, sql: str, values: Mapping[str, object], *, binary: bool = False) -> psycopg.Cursor[Row]:
        """Run a statement with named parameters."""
        text, names = numbered(sql)
        connection = self.get()
        try:
            return connection.execute(text, [values[name] for name in names], binary=binary)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.handle_error(error) from error

    def send(self, statements: str) -> None:
        """Send statements without parameters in one round trip."""
        connection = self.get()
        try:
            connection.execute(statements)
        except psycopg.Error as error:
            failure = self.handle_error(error)
            if statements.startswith("BEGIN") and not connection.closed:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    self.release()
            raise failure from error

    @property
    def transaction_settings(self) -> str:
        """SQL that applies the settings per transaction behind a pooler, where sessions cannot have settings."""
        if not self._is_pooled:
            return ""
        return "".join(f"; SET LOCAL {name} = '{value}'" for name, value in SETTINGS.items())

    def retry_reads(self, sql: str, work: Callable[[], R]) -> R:
        """Call `work`, again after a lost connection if the statement only reads and no transaction is open."""
        if self.is_in_transaction or not sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            return work()
        return self.retry(work)
