"""What a PostgreSQL server says, told in one sentence that a person can act on."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors

from ralph.errors import RalphError, StatementError, StoreError, StoreUnavailableError, TooManyConnectionsError
from ralph.store.url import password_in
from ralph.text import clean, one_line

_POOLED = "it is behind a pooler. Set [store] direct_url to the server itself: docs/postgres.md"
_REFUSED = (
    ("unsupported startup parameter", _POOLED),
    ("password authentication failed", "user or password is wrong. Check RALPH_STORE, PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "it wants a password. Put it into RALPH_STORE, PGPASSWORD or ~/.pgpass"),
    ("no pg_hba.conf entry", "the server does not let this user or machine in. Ask whoever runs it"),
    ("too many clients", "the server has no connection left. Try again, or put a pooler in front of it"),
    ("remaining connection slots", "the server has no connection left. Try again, or put a pooler in front of it"),
    ("too many connections for", "this role or database has no connection left. Try again, or raise its limit"),
    ("no more connections allowed", "the pooler has no connection left. Try again, or raise its max_client_conn"),
    ("certificate", "its certificate is not trusted. See sslmode and sslrootcert in docs/postgres.md"),
    ("invalid port number", "there is no such port. Check the URL"),
    ("does not support SSL", "the server offers no TLS. Turn it on there, or say sslmode=prefer in the URL"),
    ("could not translate host name", "there is no such host. Check the URL"),
    ("failed to resolve host", "there is no such host. Check the URL"),
    ("Connection refused", "nothing answers there. Check host and port, and that the server runs"),
    ("No such file or directory", "there is no server at this socket. Check that it runs"),
    ("shutting down", "the server is being stopped. Try again when it is back"),
    ("starting up", "the server is just starting. Try again in a moment"),
    ("recovery mode", "the server is just starting. Try again in a moment"),
    ("accepting connections", "the server is just starting. Try again in a moment"),
    ("timeout expired", "nothing answered in time. Check host, port and firewall"),
)
_CROWDED = ("too many clients", "remaining connection slots", "too many connections for", "no more connections allowed")
"""What a server or a pooler says that has no connection left."""
_AWAY = ("starting up", "shutting down", "recovery mode", "accepting connections", "terminating connection",
         "the database system is", "server_login", "query_wait_timeout", "server conn crashed")  # fmt: skip
"""What a server or a pooler says that lets nobody in at the moment."""
_HOPELESS = ("could not translate host name", "failed to resolve host", "certificate", "not support SSL",
             "no password supplied", "invalid port number")  # fmt: skip
"""What goes wrong on the way to a server and does not pass by itself."""
_SORTS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "the server's disk is full. Free some space there and run the command again"),
    (errors.ReadOnlySqlTransaction, "it is read-only, as a replica is. Set [store] url to the primary server"),
    (errors.InsufficientPrivilege, "this role may not do that. The grants it needs are in docs/postgres.md"),
    (errors.UndefinedTable, "its tables are not those of Ralph. Look at it with: ralph doctor"),
    (errors.InvalidSqlStatementName, _POOLED),
    (errors.DuplicatePreparedStatement, _POOLED),
)


def not_reached(error: psycopg.Error, where: str) -> RalphError:
    """Say in one sentence why there is no connection."""
    said = one_line(clean(str(error)), 1000)
    away = StoreUnavailableError if any(sign in said for sign in _AWAY) or _is_cut(said) else StoreError
    if any(sign in said for sign in _CROWDED):
        away = TooManyConnectionsError
    for sign, reason in _REFUSED:
        if sign in said:
            return away(f"The database {where} cannot be reached: {reason}.")
    if found := re.search(r'(database|role) "([^"]*)" does not exist', said):
        return StoreError(
            f"The server of {where} has no {found[1]} called {found[2]}. Make it there, or change the URL."
        )
    last = said.rpartition("FATAL:")[2].strip() or said
    return away(f"The database {where} cannot be reached: {one_line(last).rstrip('.')}.")


def _is_cut(said: str) -> bool:
    """Say whether it is the way to the server that fails, for a while, and not the server that refuses."""
    return "FATAL" not in said and not any(sign in said for sign in _HOPELESS)


def unreadable(url: str, error: Exception) -> StoreError:
    """Say what a URL should look like; what the driver says of it may hold a part of the password."""
    reason = "" if password_in(url) else f": {one_line(clean(str(error))).strip().rstrip('.')}"
    return StoreError(
        f"The URL of the store cannot be read{reason}. It should be like postgresql://user@host:5432/database, "
        "with %40 for an @ in a name or password, %2F for a / and %25 for a %."
    )


def explained(error: psycopg.Error, where: str, *, is_lost: bool) -> RalphError:
    """Say in one sentence what a database did not do."""
    for kind, reason in _SORTS:
        if isinstance(error, kind):
            return StoreError(f"The database {where} cannot be used: {reason}.")
    said = one_line(clean(str(error).partition("\n")[0])).rstrip(".")
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return StoreUnavailableError(
            f"The database {where} is busy: another program has held it for too long. Try again."
        )
    if is_lost or isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
        return StoreUnavailableError(f"The connection to {where} was lost: {said}.")
    if isinstance(error, errors.QueryCanceled | errors.IoError | errors.InternalError_ | errors.DataCorrupted):
        return StoreError(f"The database {where} reported an error: {said}.")
    return StatementError(f"The database {where} refused a statement: {said}.")
