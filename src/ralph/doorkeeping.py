"""Who may come in over HTTP: the token of a project, and the names under which this machine is called."""

from __future__ import annotations

import os
import re

from ralph.errors import RalphError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HIGHEST_PORT = 65_535
SERVE_PORT = 8420
TOKEN_BYTES = 24
LONGEST_HELD = 100
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")
"""What so many random bytes look like."""


def own_token(path: Path) -> tuple[str, bool]:
    """Give the token kept in a file, and whether it was made just now; one that others could know is made anew."""
    import secrets

    try:
        if token := _kept_token(path):
            return token, False
        token = secrets.token_urlsafe(TOKEN_BYTES)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(handle)
        _sync_folder(path.parent)
    except OSError as error:
        raise RalphError(f"The token in {path} cannot be kept: {error}.") from error
    return token, True


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _kept_token(path: Path) -> str:
    """Give the token in a file that is ours alone and holds nothing else; nothing otherwise."""
    import stat

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        found = os.fstat(handle)
        is_ours = stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == os.geteuid()
        held = os.read(handle, LONGEST_HELD).decode("ascii", "replace").strip() if is_ours else ""
    finally:
        os.close(handle)
    return held if _TOKEN.fullmatch(held) else ""


def drawn_from(token: str, purpose: str) -> str:
    """Give a secret for one purpose, which says nothing about the token it is drawn from."""
    import hashlib
    import hmac

    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def is_token(given: str, token: str) -> bool:
    """Say whether a text is the token, in a time that tells nothing about it."""
    import hmac

    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def bearer_in(header: str) -> str:
    """Give the token of an Authorization header, or nothing."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def name_in(host: str) -> str:
    """Give the name in a host with or without a port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def url_of(host: str, port: int, path: str = "") -> str:
    """Give the address under which a server can be called."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
