"""Access tokens and host names of the HTTP server."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path

from ralph.core.errors import RalphError
from ralph.core.files import state_path, sync_folder
from ralph.workspace import FOLDER

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
MAX_PORT = 65_535
DEFAULT_SERVE_PORT = 8420
DEFAULT_MCP_PORT = 8417
TOKEN_BYTES = 24
MAX_TOKEN_FILE_BYTES = 100
"""Maximum number of bytes read from a token file."""
OLD_MCP_TOKEN_FILE = "ralph.db-mcp-token"  # noqa: S105
"""Token file in the project's folder that `ralph mcp --http` of earlier versions created."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")
"""Format of a token of TOKEN_BYTES random bytes."""
_HOST = re.compile(r"(?:(?P<name>[a-z0-9._-]*)|\[(?P<address>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
"""Host name or address, which may be empty, with an optional port and without user information."""


def token_path(root: str) -> Path:
    """Return the path of a project's token: in the user's directory, because a cloned project could contain one."""
    return Path(f"{state_path(root, 'serve')}.token")


def load_or_create_token(path: Path) -> str:
    """Return the token in a file, which is created if there is none; replace one that other users could read."""
    try:
        if token := read_token(path):
            return token
        token = secrets.token_urlsafe(TOKEN_BYTES)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(handle)
        sync_folder(path.parent)
    except OSError as error:
        raise RalphError(f"Cannot write the token to {path}: {error}.") from error
    return token


def read_token(path: Path) -> str:
    """Return the token in a regular file that only this user can read, or an empty string."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        info = os.fstat(handle)
        is_private = stat.S_ISREG(info.st_mode) and not info.st_mode & 0o077 and info.st_uid == os.geteuid()
        text = os.read(handle, MAX_TOKEN_FILE_BYTES).decode("ascii", "replace").strip() if is_private else ""
    finally:
        os.close(handle)
    return text if _TOKEN.fullmatch(text) else ""


def mcp_token(token: str) -> str:
    """Return the token for MCP clients: they are agents, and it gives access to the MCP endpoint only."""
    return derive_secret(token, "mcp")


def mcp_tokens(root: str, token: str) -> tuple[str, ...]:
    """Return the tokens accepted at the MCP endpoint only, including that of an earlier version."""
    return tuple(filter(None, (mcp_token(token), read_token(Path(root) / FOLDER / OLD_MCP_TOKEN_FILE))))


def derive_secret(token: str, purpose: str) -> str:
    """Derive a secret for one purpose, from which the token cannot be recovered."""
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def tokens_match(candidate: str, token: str) -> bool:
    """Compare a string with the token in constant time."""
    return hmac.compare_digest(candidate.encode("utf-8", "surrogateescape"), token.encode())


def parse_bearer_token(header: str) -> str:
    """Return the bearer token of an Authorization header, or an empty string."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def parse_host(host: str) -> tuple[str, int | None]:
    """Return the lowercase name and the port in the value of a Host header.

    Raises:
        ValueError: If it is anything else, such as a name with user information.
    """
    match = _HOST.fullmatch(host.lower())
    if not match or int(match["port"] or 0) > MAX_PORT:
        raise ValueError(f"not a host: {host!r}")
    return match["address"] or match["name"], int(match["port"]) if match["port"] else None


def server_url(host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
