"""Who may come in: nobody without the token, under a foreign name, or sent by a page from elsewhere.

A page that a person visits can make their browser ask this server something; it can neither know the token nor send
the strict cookie, and its name is in Origin. A name that somebody lets point to this machine is in Host. Both are
looked at before anything else of a request is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from h11 import LocalProtocolError

from ralph.doorkeeping import LOOPBACK, bearer_in, drawn_from, is_token, name_in
from ralph.server.problems import JSON_TYPE, Refused, problem
from ralph.server.rendering import entering, refusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/"
LONGEST_BODY = 2_000_000
BODY_SECONDS = 30.0
"""A body that has not come whole after so long is not waited for."""
READING = ("GET", "HEAD")
KEY = "token"
"""The parameter by which the link that is printed at the start carries the token."""

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
"""On every answer that does not say otherwise itself."""


def is_for_program(path: str) -> bool:
    """Say whether it is a program that asks for a path, not a person with a browser."""
    return path.startswith(API) and path != f"{API}docs"


class Guard:
    """Lets in who may come in, and hands on what they ask."""

    def __init__(self, app: ASGIApp, token: str, cookie: str, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        # Other servers on this machine may get to see the cookie: it does not hold the token.
        self._ticket = drawn_from(token, "cookie")
        self._hosts = frozenset((*LOOPBACK, *(name_in(host) for host in hosts)))
        self._origins = frozenset(f"{scheme}://{host.lower()}" for host in hosts for scheme in ("http", "https"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do so."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        asked = _Asked(scope)
        try:
            self._look_at_names(asked)
            if (given := self._key_in(asked)) is not None:
                response = self._enter(asked, given)
            else:
                is_by_cookie = self._look_at_token(asked)
                _look_at_body(asked, is_by_cookie)
                await self._app(scope, _bounded(receive) if asked.method not in READING else receive, send)
                return
        except Refused as refused:
            response = _refuse(asked, refused)
        await response(scope, receive, send)

    # --- where it comes from ----------------------------------------------------------------

    def _look_at_names(self, asked: _Asked) -> None:
        hosts = asked.all("host")
        if len(hosts) != 1 or name_in(hosts[0]) not in self._hosts:
            raise Refused(
                403,
                "This server answers only under the names it knows, like 127.0.0.1."
                " To add one: ralph serve --allow-host NAME",
            )
        for origin in asked.all("origin"):
            if not self._is_own(origin, hosts[0]):
                raise Refused(403, "This server does not answer pages from elsewhere.")
        if asked.one("sec-fetch-site") in ("cross-site", "same-site") and asked.one("sec-fetch-mode") != "navigate":
            raise Refused(403, "This server does not answer pages from elsewhere.")

    def _is_own(self, origin: str, host: str) -> bool:
        """Say whether an origin is this server, as it is called: another port of the same name is somebody else."""
        said = origin.lower()
        return said in (f"http://{host.lower()}", f"https://{host.lower()}") or said in self._origins

    # --- the token --------------------------------------------------------------------------

    def _key_in(self, asked: _Asked) -> str | None:
        """Give the token in the address of a page, if there is one."""
        if asked.method != "GET" or asked.is_for_program:
            return None
        return next((value for name, value in asked.query if name == KEY), None)

    def _enter(self, asked: _Asked, given: str) -> Response:
        """Put the token of a link into a cookie, and lead on to the page without it."""
        if not is_token(given.strip(), self._token):
            raise Refused(401, "This is not the token of this server: take the link that ralph serve prints.")
        rest = urlencode([(name, value) for name, value in asked.query if name != KEY])
        # Not a redirect: after a link from elsewhere a browser would not send the strict cookie along.
        response = entering("/" + quote(asked.path.lstrip("/\\")) + (f"?{rest}" if rest else ""))
        response.set_cookie(
            self._cookie,
            self._ticket,
            max_age=60 * 60 * 24 * 365,
            httponly=True,
            samesite="strict",
            secure=asked.is_secure,
        )
        return response

    def _look_at_token(self, asked: _Asked) -> bool:
        """Say whether somebody comes in by the cookie, not by the token; refuse who has neither."""
        if given := bearer_in(asked.one("authorization")):
            if is_token(given, self._token):
                return False
        elif any(is_token(value, self._ticket) for value in _cookies_in(asked, self._cookie)):
            # The cookie comes along by itself: that it is our own page that asks must be said beside it.
            if asked.method in READING or asked.all("origin") or asked.one("sec-fetch-site") == "same-origin":
                return True
            raise Refused(403, "A change by cookie says where it comes from, with Origin; a program says the token.")
        raise Refused(
            401,
            "Say the token in a header, Authorization: Bearer TOKEN; ralph serve says where it is."
            if asked.is_for_program
            else "Open the link that ralph serve prints: it carries the token.",
            {"www-authenticate": "Bearer"},
        )


class _Asked:
    """A request, as far as it has to be looked at before it is let in."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scope = scope

    @property
    def is_for_program(self) -> bool:
        """Whether it is a program that wants the answer."""
        return is_for_program(self.path)

    @property
    def is_secure(self) -> bool:
        """Whether the browser speaks TLS, to something in front of us."""
        return self.one("x-forwarded-proto") == "https" or any(one.startswith("https:") for one in self.all("origin"))

    @property
    def query(self) -> list[tuple[str, str]]:
        """What the address says after the `?`."""
        said: bytes = self._scope["query_string"]
        return parse_qsl(said.decode("latin-1"), keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        """Give all headers of a name."""
        wanted = name.encode()
        return [value.decode("latin-1") for key, value in self._scope["headers"] if key == wanted]

    def one(self, name: str) -> str:
        """Give a header, or nothing."""
        return next(iter(self.all(name)), "")


def _cookies_in(asked: _Asked, name: str) -> list[str]:
    """Give the cookies of a name; other servers on this machine may have set some, whatever they hold."""
    pairs = (pair.partition("=") for header in asked.all("cookie") for pair in header.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


# --- the body -----------------------------------------------------------------------------


def _look_at_body(asked: _Asked, is_by_cookie: bool) -> None:
    """Refuse what is not JSON, or too long, before it is read.

    With the cookie also what is empty: a form of a page from elsewhere could send that, but nothing that is JSON.
    """
    length = asked.one("content-length")
    if length and asked.one("transfer-encoding"):
        raise Refused(400, "Say how long the body is in one way: Content-Length, or chunks.", {"connection": "close"})
    if asked.method in READING:
        return
    is_empty = not asked.one("transfer-encoding") and length in ("", "0")
    may_be_plain = is_empty and (asked.method == "DELETE" or not is_by_cookie)
    if not may_be_plain and asked.one("content-type").partition(";")[0].strip().lower() != JSON_TYPE:
        raise Refused(415, f"What is sent comes as {JSON_TYPE}.")
    if length.isdecimal() and int(length[:20]) > LONGEST_BODY:
        raise _too_long()


def _too_long() -> Refused:
    return Refused(413, f"A body may have {LONGEST_BODY:,} bytes.", {"connection": "close"})


def _bounded(receive: Receive) -> Receive:
    """Give a way to read a body that ends when it is too long, or does not come."""
    total = 0
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS
    is_whole = False

    async def read() -> Message:
        nonlocal total, is_whole
        if is_whole:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise Refused(408, "The body did not come in time.", {"connection": "close"}) from None
        total += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if total > LONGEST_BODY:
            raise _too_long()
        return message

    return read


# --- answers ------------------------------------------------------------------------------


def _refuse(asked: _Asked, refused: Refused) -> Response:
    # Others may need the connection; but where a body is still on its way, closing could take the answer away.
    headers = ({"connection": "close"} if asked.method in READING else {}) | refused.headers
    if asked.is_for_program:
        return problem(refused.status, str(refused), refused.code, headers)
    return refusal(refused.status, str(refused), headers)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = {name.lower() for name, _ in message["headers"]}
            more = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in said]
            message["headers"] = [*message["headers"], *more]
        try:
            await send(message)
        except LocalProtocolError:
            pass  # What came after the request was none, and was answered already: the connection ends.

    return sent
