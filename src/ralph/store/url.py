"""Where a store is: the path of a file, or the URL of a server."""

from __future__ import annotations

POSTGRES = ("postgresql://", "postgres://")
SQLITE = "sqlite://"
SECRET = ("password=", "sslpassword=")


def is_postgres(url: str) -> bool:
    """Say whether a URL is that of a PostgreSQL server."""
    return url.startswith(POSTGRES)


def file_path(url: str) -> str:
    """Give the path of a file, as it is or from a URL like `sqlite:///path`."""
    return url.removeprefix(SQLITE) if url.startswith(SQLITE) else url


def without_password(url: str) -> str:
    """Give a URL as it may be shown and written down."""
    if not is_postgres(url):
        return url
    scheme, login, place, query = _parts(url)
    kept = [one for one in query.split("&") if one and not one.lower().startswith(SECRET)]
    user = f"{login.partition(':')[0]}@" if login else ""
    return f"{scheme}://{user}{place}{'?' if kept else ''}{'&'.join(kept)}"


def password_in(url: str) -> str:
    """Give the password in a URL, or nothing."""
    if not is_postgres(url):
        return ""
    _, login, _, query = _parts(url)
    set_by_name = (one.partition("=")[2] for one in query.split("&") if one.lower().startswith(SECRET))
    return login.partition(":")[2] or next(set_by_name, "")


def _parts(url: str) -> tuple[str, str, str, str]:
    """Give scheme, user with password, place and query of a URL.

    In one that cannot be read, a password that was not written as it must be may stand anywhere before the last @.
    """
    scheme, _, rest = url.partition("://")
    ends = [place for place in (rest.find("@"), rest.find("/")) if place >= 0]
    before, _, query = rest[min(ends, default=0) :].partition("?")
    before = rest[: min(ends, default=0)] + before
    login, at, place = before.rpartition("@")
    host = before.partition("/")[0].rpartition("]")[2]
    port = host.partition(":")[2]
    if not at and port and not port.isdigit() and "," not in host:
        login, _, place = rest.rpartition("@")
        query = ""
    return scheme, login, place, query
