"""Middleware that checks the token, Host and Origin of every request.

A web page can make its visitor's browser send requests to this server. The page does not know the token, the browser
does not send the strict cookie for it, and Origin names it. DNS rebinding shows in Host. Both headers are checked
before anything else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from h11 import LocalProtocolError

from ralph.web.problems import JSON_TYPE, RequestRejected, problem_response
from ralph.web.rendering import rejection_page, signed_in_page
from ralph.web.tokens import LOOPBACK_HOSTS, derive_secret, host_name, parse_bearer_token, tokens_match

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_PREFIX = "/api/"
MAX_BODY_BYTES = 2_000_000
"""Maximum size of a request body, in bytes."""
BODY_TIMEOUT = 30.0
"""Time a client has to send a complete body, in seconds."""
SAFE_METHODS = ("GET", "HEAD")
TOKEN_PARAMETER = "token"
"""Query parameter with the token in the link that `ralph serve` prints."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Default headers of every response."""


def is_api_path(path: str) -> bool:
    """Return whether a path is used by programs rather than by people with a browser."""
    return path.startswith(API_PREFIX) and path != f"{API_PREFIX}docs"


class AuthMiddleware:
    """ASGI middleware that passes on authenticated requests."""

    def __init__(self, app: ASGIApp, token: str, cookie: str, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        # Other servers on this machine may receive the cookie, so it does not contain the token.
        self._cookie_value = derive_secret(token, "cookie")
        self._hosts = frozenset((*LOOPBACK_HOSTS, *(host_name(host) for host in hosts)))
        self._origins = frozenset(f"{scheme}://{host.lower()}" for host in hosts for scheme in ("http", "https"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, sign a browser in, or pass the request on to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        request = _RequestInfo(scope)
        try:
            self._check_origin(request)
            if (token := self._token_in_url(request)) is not None:
                response = self._sign_in(request, token)
            else:
                is_by_cookie = self._authenticate(request)
                _check_body(request, is_by_cookie)
                await self._app(scope, _bounded(receive) if request.method not in SAFE_METHODS else receive, send)
                return
        except RequestRejected as refused:
            response = _refuse(request, refused)
        await response(scope, receive, send)

    # --- host and origin --------------------------------------------------------------------

    def _check_origin(self, request: _RequestInfo) -> None:
        hosts = request.all("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            raise RequestRejected(
                403,
                "Unknown host name in the Host header; use 127.0.0.1."
                " To allow another name, run: ralph serve --allow-host NAME",
            )
        for origin in request.all("origin"):
            if not self._is_own(origin, hosts[0]):
                raise RequestRejected(403, "Cross-origin requests are not allowed.")
        if request.one("sec-fetch-site") in ("cross-site", "same-site") and request.one("sec-fetch-mode") != "navigate":
            raise RequestRejected(403, "Cross-origin requests are not allowed.")

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether an origin is this server, including the port."""
        origin = origin.lower()
        return origin in (f"http://{host.lower()}", f"https://{host.lower()}") or origin in self._origins

    # --- token ------------------------------------------------------------------------------

    def _token_in_url(self, request: _RequestInfo) -> str | None:
        """Return the token in the URL of a page, or None."""
        if request.method != "GET" or request.is_for_program:
            return None
        return next((value for name, value in request.query if name == TOKEN_PARAMETER), None)

    def _sign_in(self, request: _RequestInfo, token: str) -> Response:
        """Set the cookie and continue to the page without the token in its URL."""
        if not tokens_match(token.strip(), self._token):
            raise RequestRejected(401, "Invalid token. Open the link that ralph serve prints.")
        rest = urlencode([(name, value) for name, value in request.query if name != TOKEN_PARAMETER])
        # Not a redirect: after following a link from another site, the browser would not send the strict cookie.
        response = signed_in_page("/" + quote(request.path.lstrip("/\\")) + (f"?{rest}" if rest else ""))
        response.set_cookie(
            self._cookie,
            self._cookie_value,
            max_age=60 * 60 * 24 * 365,
            httponly=True,
            samesite="strict",
            secure=request.is_secure,
        )
        return response

    def _authenticate(self, request: _RequestInfo) -> bool:
        """Return whether the request is authenticated by cookie instead of token.

        Raises:
            Refused: If it has neither, or if a change by cookie does not come from our own page.
        """
        if token := parse_bearer_token(request.one("authorization")):
            if tokens_match(token, self._token):
                return False
        elif any(tokens_match(value, self._cookie_value) for value in _cookies_in(request, self._cookie)):
            # Browsers send the cookie automatically, so changes must also prove that they come from our own page.
            if (
                request.method in SAFE_METHODS
                or request.all("origin")
                or request.one("sec-fetch-site") == "same-origin"
            ):
                return True
            raise RequestRejected(403, "Changes with a cookie require an Origin header. Programs must send the token.")
        raise RequestRejected(
            401,
            "Send the header `Authorization: Bearer TOKEN`; `ralph serve` prints where the token is."
            if request.is_for_program
            else "Open the link that ralph serve prints; it contains the token.",
            {"www-authenticate": "Bearer"},
        )


class _RequestInfo:
    """Parts of a request that are checked before it is passed on."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scope = scope

    @property
    def is_for_program(self) -> bool:
        """Whether the client is a program."""
        return is_api_path(self.path)

    @property
    def is_secure(self) -> bool:
        """Whether the browser uses TLS, which a reverse proxy terminates."""
        return self.one("x-forwarded-proto") == "https" or any(one.startswith("https:") for one in self.all("origin"))

    @property
    def query(self) -> list[tuple[str, str]]:
        """Query parameters."""
        raw: bytes = self._scope["query_string"]
        return parse_qsl(raw.decode("latin-1"), keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        """Return all values of a header."""
        raw_name = name.encode()
        return [value.decode("latin-1") for key, value in self._scope["headers"] if key == raw_name]

    def one(self, name: str) -> str:
        """Return the first value of a header, or an empty string."""
        return next(iter(self.all(name)), "")


def _cookies_in(request: _RequestInfo, name: str) -> list[str]:
    """Return all cookies of a name; other servers on this machine may have set some of them."""
    pairs = (pair.partition("=") for header in request.all("cookie") for pair in header.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


# --- body ---------------------------------------------------------------------------------


def _check_body(request: _RequestInfo, is_by_cookie: bool) -> None:
    """Reject a body that is not JSON or too long before it is read.

    With a cookie, an empty body must be declared as JSON too: a cross-site form could send one that is not.
    """
    length = request.one("content-length")
    if length and request.one("transfer-encoding"):
        raise RequestRejected(400, "Use either Content-Length or Transfer-Encoding, not both.", {"connection": "close"})
    if request.method in SAFE_METHODS:
        return
    is_empty = not request.one("transfer-encoding") and length in ("", "0")
    can_omit_type = is_empty and (request.method == "DELETE" or not is_by_cookie)
    if not can_omit_type and request.one("content-type").partition(";")[0].strip().lower() != JSON_TYPE:
        raise RequestRejected(415, f"The Content-Type must be {JSON_TYPE}.")
    if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
        raise _too_long()


def _too_long() -> RequestRejected:
    return RequestRejected(413, f"A body may have at most {MAX_BODY_BYTES:,} bytes.", {"connection": "close"})


def _bounded(receive: Receive) -> Receive:
    """Wrap `receive` to enforce the size limit and deadline of the body."""
    total = 0
    deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT
    is_complete = False

    async def read() -> Message:
        nonlocal total, is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise RequestRejected(408, "The body did not arrive in time.", {"connection": "close"}) from None
        total += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if total > MAX_BODY_BYTES:
            raise _too_long()
        return message

    return read


# --- responses ----------------------------------------------------------------------------


def _refuse(request: _RequestInfo, refused: RequestRejected) -> Response:
    # Free the connection; but while a body is still being sent, closing could discard the response.
    headers = ({"connection": "close"} if request.method in SAFE_METHODS else {}) | refused.headers
    if request.is_for_program:
        return problem_response(refused.status, str(refused), refused.code, headers)
    return rejection_page(refused.status, str(refused), headers)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            more = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in present]
            message["headers"] = [*message["headers"], *more]
        try:
            await send(message)
        except LocalProtocolError:
            pass  # Invalid data after the request was already answered, and the connection is closing.

    return send_with_headers
