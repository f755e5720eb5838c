"""Store locations: the path of a file or the URL of a server."""

from __future__ import annotations

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
SQLITE_SCHEME = "sqlite://"
SECRET_PARAMS = ("password=", "sslpassword=")
"""Query parameters that contain a password."""


def is_postgres(url: str) -> bool:
    """Return whether a URL points to a PostgreSQL server."""
    return url.startswith(POSTGRES_SCHEMES)


def file_path(url: str) -> str:
    """Return the path of a database file from a path or a URL such as `sqlite:///path`."""
    return url.removeprefix(SQLITE_SCHEME) if url.startswith(SQLITE_SCHEME) else url


def strip_password(url: str) -> str:
    """Return a URL without its password, safe to show and store."""
    if not is_postgres(url):
        return url
    scheme, login, host, query = _split(url)
    params = [param for param in query.split("&") if param and not param.lower().startswith(SECRET_PARAMS)]
    user = f"{login.partition(':')[0]}@" if login else ""
    return f"{scheme}://{user}{host}{'?' if params else ''}{'&'.join(params)}"


def get_password(url: str) -> str:
    """Return the password in a URL, or an empty string."""
    if not is_postgres(url):
        return ""
    _, login, _, query = _split(url)
    from_query = (param.partition("=")[2] for param in query.split("&") if param.lower().startswith(SECRET_PARAMS))
    return login.partition(":")[2] or next(from_query, "")


def _split(url: str) -> tuple[str, str, str, str]:
    """Return the scheme, the user with password, the host with path, and the query of a URL.

    In a malformed URL, an unescaped password may extend to the last @.
    """
    scheme, _, rest = url.partition("://")
    ends = [index for index in (rest.find("@"), rest.find("/")) if index >= 0]
    before, _, query = rest[min(ends, default=0) :].partition("?")
    before = rest[: min(ends, default=0)] + before
    login, at, place = before.rpartition("@")
    host = before.partition("/")[0].rpartition("]")[2]
    port = host.partition(":")[2]
    if not at and port and not port.isdigit() and "," not in host:
        login, _, place = rest.rpartition("@")
        query = ""
    return scheme, login, place, query
