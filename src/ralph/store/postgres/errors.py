"""Translation of PostgreSQL errors into messages that say what to do."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors

from ralph.core.errors import RalphError, StatementError, StoreError, StoreUnavailableError, TooManyConnectionsError
from ralph.core.store_url import get_password
from ralph.core.text import clean, one_line

_POOLED = "it is behind a pooler. Set [store] direct_url to the server itself: docs/postgres.md"
_REFUSED = (
    ("unsupported startup parameter", _POOLED),
    ("password authentication failed", "wrong user or password. Check RALPH_STORE, PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "it requires a password. Set it in RALPH_STORE, PGPASSWORD or ~/.pgpass"),
    ("no pg_hba.conf entry", "the server does not accept this user or machine. Ask its administrator for access"),
    ("too many clients", "the server has no free connections. Try again, or put a pooler in front of it"),
    ("remaining connection slots", "the server has no free connections. Try again, or put a pooler in front of it"),
    ("too many connections for", "this role or database has no free connections. Try again, or raise its limit"),
    ("no more connections allowed", "the pooler has no free connections. Try again, or raise its max_client_conn"),
    ("certificate", "its certificate is not trusted. See sslmode and sslrootcert in docs/postgres.md"),
    ("invalid port number", "the port number is not valid. Check the URL"),
    ("does not support SSL", "the server does not support TLS. Enable it there, or set sslmode=prefer in the URL"),
    ("could not translate host name", "the host was not found. Check the URL"),
    ("failed to resolve host", "the host was not found. Check the URL"),
    ("Connection refused", "the connection was refused. Check host and port, and that the server is running"),
    ("No such file or directory", "there is no server at this socket. Check that it is running"),
    ("shutting down", "the server is shutting down. Try again when it is back"),
    ("starting up", "the server is starting. Try again in a moment"),
    ("recovery mode", "the server is starting. Try again in a moment"),
    ("accepting connections", "the server is starting. Try again in a moment"),
    ("timeout expired", "it did not answer in time. Check host, port and firewall"),
)
_CROWDED = ("too many clients", "remaining connection slots", "too many connections for", "no more connections allowed")
"""Messages of a server or pooler that has no free connections."""
_AWAY = ("starting up", "shutting down", "recovery mode", "accepting connections", "terminating connection",
         "the database system is", "server_login", "query_wait_timeout", "server conn crashed")  # fmt: skip
"""Messages of a server or pooler that temporarily accepts no connections."""
_PERMANENT = ("could not translate host name", "failed to resolve host", "certificate", "not support SSL",
             "no password supplied", "invalid port number")  # fmt: skip
"""Connection errors that a retry does not solve."""
_REASONS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "the server's disk is full. Free some space there and run the command again"),
    (errors.ReadOnlySqlTransaction, "it is read-only, for example a replica. Set [store] url to the primary server"),
    (errors.InsufficientPrivilege, "this role lacks a privilege. The required grants are in docs/postgres.md"),
    (errors.UndefinedTable, "it has no Ralph tables. Inspect it with: ralph doctor"),
    (errors.InvalidSqlStatementName, _POOLED),
    (errors.DuplicatePreparedStatement, _POOLED),
)


def connection_error(error: psycopg.Error, where: str) -> RalphError:
    """Return the error to raise when a connection attempt failed."""
    message = one_line(clean(str(error)), 1000)
    error_class = (
        StoreUnavailableError
        if any(phrase in message for phrase in _AWAY) or _is_network_error(message)
        else StoreError
    )
    if any(phrase in message for phrase in _CROWDED):
        error_class = TooManyConnectionsError
    for phrase, reason in _REFUSED:
        if phrase in message:
            return error_class(f"The database {where} cannot be reached: {reason}.")
    if found := re.search(r'(database|role) "([^"]*)" does not exist', message):
        return StoreError(f"The server of {where} has no {found[1]} {found[2]!r}. Create it there, or change the URL.")
    last = message.rpartition("FATAL:")[2].strip() or message
    return error_class(f"The database {where} cannot be reached: {one_line(last).rstrip('.')}.")


def _is_network_error(message: str) -> bool:
    """Return whether the network failed temporarily, rather than the server refusing the connection."""
    return "FATAL" not in message and not any(phrase in message for phrase in _PERMANENT)


def malformed_url_error(url: str, error: Exception) -> StoreError:
    """Return the error for a malformed URL, without the driver's message if that may contain part of the password."""
    reason = "" if get_password(url) else f": {one_line(clean(str(error))).strip().rstrip('.')}"
    return StoreError(
        f"The URL of the store is malformed{reason}. It should look like postgresql://user@host:5432/database, "
        "with %40 for an @ in a name or password, %2F for a / and %25 for a %."
    )


def translate_postgres_error(error: psycopg.Error, where: str, *, is_lost: bool) -> RalphError:
    """Return the error to raise for a PostgreSQL error."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return StoreError(f"The database {where} cannot be used: {reason}.")
    message = one_line(clean(str(error).partition("\n")[0])).rstrip(".")
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return StoreUnavailableError(
            f"The database {where} is busy: another program has locked it for too long. Try again."
        )
    if is_lost or isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
        return StoreUnavailableError(f"The connection to {where} was lost: {message}.")
    if isinstance(error, errors.QueryCanceled | errors.IoError | errors.InternalError_ | errors.DataCorrupted):
        return StoreError(f"The database {where} reported an error: {message}.")
    return StatementError(f"The database {where} rejected a statement: {message}.")
