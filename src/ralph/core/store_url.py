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


def is_ambiguous(url: str) -> bool:
    """Return whether programs may disagree about which part of a URL is the password, the host or a parameter.

    libpq ends the password at the first @, others at the last. It decodes the names of parameters, and ignores spaces.
    """
    if not is_postgres(url):
        return False
    _, _, place, query = _split(url)
    names = (param.partition("=")[0] for param in query.split("&"))
    return "@" in place + query or any("%" in name for name in names) or not url.isprintable() or " " in url


def strip_password(url: str) -> str:
    """Return a URL without its password, safe to show and store; nothing but the scheme of an ambiguous one."""
    if not is_postgres(url):
        return url
    scheme, login, place, query = _split(url)
    if is_ambiguous(url):
        return f"{scheme}://…"
    params = [param for param in query.split("&") if param and not param.lower().startswith(SECRET_PARAMS)]
    user = f"{login.partition(':')[0]}@" if login else ""
    return f"{scheme}://{user}{place}{'?' if params else ''}{'&'.join(params)}"


def get_password(url: str) -> str:
    """Return the password in a URL, or an empty string; of an ambiguous URL, all that may contain one."""
    if not is_postgres(url):
        return ""
    _, login, _, query = _split(url)
    if is_ambiguous(url):
        return url
    from_query = (param.partition("=")[2] for param in query.split("&") if param.lower().startswith(SECRET_PARAMS))
    return login.partition(":")[2] or next(from_query, "")


def _split(url: str) -> tuple[str, str, str, str]:
    """Return the scheme, the user with password, the host with path, and the query of a URL, as libpq does."""
    scheme, _, rest = url.partition("://")
    login, at, after = rest.partition("@")
    if not at or "/" in login:
        login, after = "", rest
    place, _, query = after.partition("?")
    return scheme, login, place, query
