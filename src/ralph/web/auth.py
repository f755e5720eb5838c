"""Authentication of every request by its token or cookie, Host and Origin.

A web page can make its visitor's browser send requests to this server. The page does not know the token, the browser
does not send the strict cookie for it, and Origin names it. DNS rebinding shows in Host. Both headers are checked
before anything else.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ralph.web.connections import mark_authenticated
from ralph.web.problems import JSON_TYPE, RequestRejected
from ralph.web.rendering import signed_in_page
from ralph.web.tokens import LOOPBACK_HOSTS, derive_secret, parse_bearer_token, parse_host, tokens_match

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.responses import Response

API_PREFIX = "/api/"
API_DOCS_PATH = "/api/docs"
MCP_PATH = "/mcp"
MAX_BODY_BYTES = 2_000_000
"""Maximum size of a request body, in bytes."""
BODY_TIMEOUT = 60.0
"""Time a client has to send a request body, in seconds."""
DEFAULT_PORTS = (80, 443)
"""Ports that browsers leave out."""
SAFE_METHODS = ("GET", "HEAD")
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
"""Headers with which proxies pass on a request."""
TOKEN_PARAMETER = "token"  # noqa: S105
"""Query parameter with the token in the link that `ralph serve` prints."""


def is_program_path(path: str) -> bool:
    """Return whether a path is used by programs rather than by people with a browser."""
    return (path.startswith(API_PREFIX) and path != API_DOCS_PATH) or path == MCP_PATH


def is_local_request(request: Request) -> bool:
    """Return whether a request comes from this machine, and no proxy says that it passes on another one's."""
    if any(name in request.headers for name in FORWARDING_HEADERS):
        return False
    client = request.scope.get("client")
    try:
        address = ip_address(client[0]) if client else None
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and address.is_loopback


class Authenticator:
    """Decides which requests the server handles."""

    def __init__(self, token: str, port: int, hosts: Collection[str] = (), mcp_tokens: tuple[str, ...] = ()) -> None:
        self._token = token
        self._mcp_tokens = mcp_tokens
        self._cookie = f"ralph-{port}"
        # Other servers on this machine may receive the cookie, so it does not contain the token.
        self._cookie_value = derive_secret(token, "cookie")
        self._hosts = _allowed_hosts(port, hosts)
        self._origins = frozenset(f"{scheme}://{host.lower()}" for host in hosts for scheme in ("http", "https"))

    def authenticate(self, request: Request) -> Response | None:
        """Return None if the request may proceed, or the page that signs a browser in.

        Raises:
            RequestRejected: If the request must not be handled.
        """
        self._check_origin(request)
        if request.method == "GET" and not is_program_path(request.scope["path"]):
            token = request.query_params.get(TOKEN_PARAMETER)
            if token is not None:
                return self._sign_in(request, token)
        is_by_cookie = self._check_token(request)
        mark_authenticated(request.scope)
        _check_body(request, is_by_cookie=is_by_cookie)
        return None

    # --- host and origin --------------------------------------------------------------------

    def _check_origin(self, request: Request) -> None:
        if not request.scope["path"].startswith("/"):
            raise RequestRejected(400, "The request line must contain a path that starts with /.")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_allowed_host(hosts[0]):
            raise RequestRejected(
                403,
                "Unknown name or port in the Host header; use 127.0.0.1 and the port of this server."
                " To allow another one, run: ralph serve --allow-host NAME:PORT",
            )
        is_navigation = request.headers.get("sec-fetch-mode") == "navigate"
        is_cross_site = request.headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_navigation
        if is_cross_site or not all(self._is_own(origin, hosts[0]) for origin in request.headers.getlist("origin")):
            raise RequestRejected(403, "Cross-origin requests are not allowed.")

    def _is_allowed_host(self, host: str) -> bool:
        """Return whether a Host header names this server; a port may be left out, as proxies do."""
        try:
            name, port = parse_host(host)
        except ValueError:
            raise RequestRejected(400, "The Host header must be a name with an optional port.") from None
        return name in self._hosts and (port is None or port in self._hosts[name])

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether an origin is this server, including the port."""
        origin = origin.lower()
        return origin in (f"http://{host.lower()}", f"https://{host.lower()}") or origin in self._origins

    # --- token ------------------------------------------------------------------------------

    def _sign_in(self, request: Request, token: str) -> Response:
        """Set the cookie and continue to the page without the token in its URL."""
        if not tokens_match(token.strip(), self._token):
            raise RequestRejected(401, "Invalid token. Open the link that ralph serve prints.")
        mark_authenticated(request.scope)
        parameters = request.query_params.multi_items()
        rest = urlencode([(name, value) for name, value in parameters if name != TOKEN_PARAMETER])
        # Not a redirect: after following a link from another site, the browser would not send the strict cookie.
        path: str = request.scope["path"]
        response = signed_in_page("/" + quote(path.lstrip("/\\")) + (f"?{rest}" if rest else ""))
        response.set_cookie(
            self._cookie,
            self._cookie_value,
            max_age=60 * 60 * 24 * 365,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("x-forwarded-proto") == "https",  # behind a reverse proxy with TLS
        )
        return response

    def _check_token(self, request: Request) -> bool:
        """Return whether the request is authenticated by cookie instead of token.

        Raises:
            RequestRejected: If it has neither, or if a change by cookie does not come from our own page.
        """
        path = request.scope["path"]
        if token := parse_bearer_token(request.headers.get("authorization", "")):
            accepted = (self._token, *(self._mcp_tokens if path == MCP_PATH else ()))
            if any(tokens_match(token, one) for one in accepted):
                return False
        elif any(tokens_match(value, self._cookie_value) for value in _cookies(request, self._cookie)):
            # Browsers send the cookie automatically, so changes must also prove that they come from our own page.
            is_own = request.headers.get("origin") or request.headers.get("sec-fetch-site") == "same-origin"
            if request.method in SAFE_METHODS or is_own:
                return True
            raise RequestRejected(403, "Changes with a cookie require an Origin header. Programs must send the token.")
        raise RequestRejected(
            401,
            "Send the header `Authorization: Bearer TOKEN`; for the token, run: ralph serve --print-token"
            if is_program_path(path)
            else "Open the link that ralph serve prints; it contains the token.",
            {"www-authenticate": "Bearer"},
        )


def _allowed_hosts(own_port: int, hosts: Collection[str]) -> dict[str, set[int]]:
    """Return the names under which the server may be addressed, each with its ports."""
    allowed = {name: {own_port} for name in LOOPBACK_HOSTS}
    for name, port in map(parse_host, hosts):
        allowed.setdefault(name, {own_port}).update((port,) if port else DEFAULT_PORTS)
    return allowed


def _cookies(request: Request, name: str) -> list[str]:
    """Return all cookies of a name; other servers on this machine may have set some of them."""
    pairs = (pair.partition("=") for header in request.headers.getlist("cookie") for pair in header.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


# --- body ---------------------------------------------------------------------------------


def _check_body(request: Request, *, is_by_cookie: bool) -> None:
    """Reject a body that is not JSON or too long before it is read.

    With a cookie, an empty body must be declared as JSON too: a cross-site form could send one that is not.
    """
    length, encoding = request.headers.get("content-length", ""), request.headers.get("transfer-encoding")
    if length and encoding:
        raise RequestRejected(400, "Use either Content-Length or Transfer-Encoding, not both.", {"connection": "close"})
    if request.method in SAFE_METHODS:
        return
    is_empty = not encoding and length in ("", "0")
    can_omit_type = is_empty and (request.method == "DELETE" or not is_by_cookie)
    if not can_omit_type and request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise RequestRejected(415, f"The Content-Type must be {JSON_TYPE}.")
    if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
        raise _too_long()


async def read_body(request: Request) -> bytes:
    """Read the body of a request, up to its maximum size."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise _too_long()
    except TimeoutError:
        raise RequestRejected(
            408, f"The body did not arrive within {BODY_TIMEOUT:.0f} seconds.", {"connection": "close"}
        ) from None
    return bytes(body)


def _too_long() -> RequestRejected:
    return RequestRejected(413, f"A body may have at most {MAX_BODY_BYTES:,} bytes.", {"connection": "close"})
