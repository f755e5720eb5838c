"""Who may come in: asked of every call, stream, page and file there is; new ones join by themselves."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ralph.core.records import record
from ralph.project import Project
from ralph.web import app, auth
from ralph.web.api import ENDPOINTS
from ralph.web.endpoints import EndpointGroup
from ralph.web.events import EVENTS_PATH
from ralph.web.pages import PAGES
from ralph.web.problems import PROBLEM_TYPE
from ralph.web.rendering import STATIC
from ralph.web.tokens import derive_secret, load_or_create_token, token_path
from tests.web.asking import Asking, Said, Served

Headers = dict[str, str | None]


@record
class Door:
    """One thing that can be asked for, as it is asked."""

    method: str
    path: str
    takes_body: bool = False
    is_stream: bool = False

    @property
    def is_for_program(self) -> bool:
        return auth.is_program_path(self.path)


def _filled(path: str) -> str:
    return re.sub(r"\{\w+\}", "x-1", path)


FILES = [f"/static/{file.relative_to(STATIC)}" for file in sorted(STATIC.rglob("*")) if file.is_file()]
DOORS = [
    *(Door(method=call.method, path=_filled(call.path), takes_body=bool(call.body)) for call in ENDPOINTS),
    Door(method="GET", path=EVENTS_PATH, is_stream=True),
    Door(method="POST", path=auth.MCP_PATH),
    *(Door(method="GET", path=_filled(page.path)) for page in PAGES),
    *(Door(method="GET", path=path) for path in (*FILES, "/api/openapi.json", "/nowhere", "/api/nowhere", "/static/x")),
]
WRITES = [door for door in DOORS if door.method not in ("GET", "HEAD")]
FEW = list({(one.method, one.is_for_program, one.is_stream, one.takes_body): one for one in DOORS}.values())
"""One of each sort, for the many spellings of what is tried at every door in one of them."""
FEW_WRITES = [door for door in FEW if door in WRITES]
CLEAN = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def cookie_of(server: Asking, value: str = "", name: str = "") -> str:
    return f"{name or f'ralph-{server.port}'}={value or derive_secret(server.token, 'cookie')}"


def wrong(server: Asking, doors: list[Door], expected: int, headers: Mapping[str, str | None]) -> list[str]:
    """Ask at all doors, and tell which do not refuse as they should."""
    found = []
    for door in doors:
        said = server.ask(door.method, door.path, _body(door), headers)
        if said.status != expected or (reason := _ill_said(door, said)):
            found.append(f"{door.method} {door.path}: {said.status} {reason if said.status == expected else ''}")
        elif server.token in f"{said.text}{said.headers}":
            found.append(f"{door.method} {door.path} tells the token")
    return found


def _body(door: Door) -> str | None:
    return "{}" if door.takes_body else None


def _ill_said(door: Door, said: Said) -> str:
    """Return what is wrong with how a refusal is told."""
    for name, value in CLEAN.items():
        if said.headers[name] != value:
            return f"{name}: {said.headers[name]}"
    if "default-src 'none'" not in (said.headers["content-security-policy"] or ""):
        return "no policy"
    if [name for name in said.headers if name.lower().startswith("access-control")]:
        return "lets other pages read it"
    if not door.is_for_program:
        return "" if said.kind == "text/html" and "<h1>" in said.text else f"not a page: {said.kind}"
    if said.kind != PROBLEM_TYPE:
        return f"not a problem: {said.kind}"
    told = said.json
    is_fine = told["status"] == said.status and told["title"] and re.fullmatch(r"\S+ .*\S", told["detail"])
    return "" if is_fine else f"not a sentence: {told}"


def raw(server: Asking, *sent: bytes, end: bytes = b"\r\n\r\n", timeout: float = 10) -> tuple[int, bytes]:
    """Send bytes as they are; return the status and what came back, up to an end or until the server closed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout) as connection:
        for one in sent:
            connection.sendall(one)
        answer = b""
        while end not in answer and (more := connection.recv(65_536)):
            answer += more
    return int(answer.split()[1]) if answer else 0, answer


def head(server: Asking, door: Door, *lines: str, version: str = "1.1", host: bool = True) -> bytes:
    """Return the head of a request with the token, in bytes."""
    names = [f"Host: 127.0.0.1:{server.port}"] if host else []
    said = [f"{door.method} {door.path} HTTP/{version}", *names, f"Authorization: Bearer {server.token}", *lines]
    return "\r\n".join([*said, "", ""]).encode()


def lives(server: Asking) -> bool:
    return server.ask("GET", "/api/openapi.json").status == 200


# --- the token ----------------------------------------------------------------------------


def test_there_are_doors_to_try() -> None:
    assert len(ENDPOINTS) > 1
    assert FILES
    assert WRITES


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer ü"]
)
def test_without_the_token_nothing_is_answered(served_once: Served, given: str | None) -> None:
    header = given if given is None else given.format(token=served_once.token)

    assert wrong(served_once, DOORS if given in (None, "Bearer wrong") else FEW, 401, {"authorization": header}) == []


def test_a_part_of_the_token_is_no_token(served_once: Served) -> None:
    assert wrong(served_once, FEW, 401, {"authorization": f"Bearer {served_once.token[:-1]}"}) == []


@pytest.mark.parametrize(
    "cookie",
    [
        "ralph-{port}=wrong",
        "ralph-{port}=",
        "ralph={token}",
        "ralph-{other}={token}",
        "ralph-{port}",
        "ralph-{port}=wrong; ralph-{other}={token}",
    ],
)
def test_a_wrong_cookie_lets_nobody_in(served_once: Served, cookie: str) -> None:
    given = cookie.format(port=served_once.port, other=served_once.port + 1, token=served_once.token)
    headers: Headers = {"authorization": None, "cookie": given, "origin": served_once.url}

    assert wrong(served_once, DOORS if "=wrong" in cookie else FEW, 401, headers) == []


def test_a_wrong_header_is_not_mended_by_a_right_cookie(served_once: Served) -> None:
    headers: Headers = {"authorization": "Bearer wrong", "cookie": cookie_of(served_once), "origin": served_once.url}

    assert wrong(served_once, DOORS, 401, headers) == []


def test_the_token_in_an_address_lets_no_program_in(served_once: Served) -> None:
    for door in DOORS:
        if door.is_for_program:
            path = f"{door.path}?token={served_once.token}"
            assert served_once.ask(door.method, path, _body(door), {"authorization": None}).status == 401, door


def test_who_is_refused_is_told_how_to_come_in(served_once: Served) -> None:
    program = served_once.ask("GET", "/api/openapi.json", headers={"authorization": None})
    person = served_once.ask("GET", "/", headers={"authorization": None})

    assert program.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in program.json["detail"]
    assert "ralph serve" in person.text
    assert 'name="token"' in person.text


# --- names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil", "[::2]:{port}", "0.0.0.0", ""],
)
def test_a_foreign_host_is_refused(served_once: Served, host: str) -> None:
    doors = DOORS if host == "evil.example" else FEW

    assert wrong(served_once, doors, 403, {"host": host.format(port=served_once.port)}) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:{port}", "LOCALHOST", "[::1]:{port}"])
def test_names_of_this_machine_are_fine(served_once: Served, host: str) -> None:
    assert (
        served_once.ask("GET", "/api/openapi.json", headers={"host": host.format(port=served_once.port)}).status == 200
    )


def test_several_hosts_are_refused(served_once: Served) -> None:
    for door in DOORS:
        status, _ = raw(served_once, head(served_once, door, "Host: 127.0.0.1"))
        assert status in (400, 403), door


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_missing_host_is_refused(served_once: Served, version: str) -> None:
    for door in DOORS:
        status, _ = raw(served_once, head(served_once, door, version=version, host=False))
        assert status in (400, 403), door


def test_a_host_in_the_first_line_counts_for_nothing(served_once: Served) -> None:
    door = Door(method="GET", path="http://evil.example/api/openapi.json")

    status, answer = raw(served_once, head(served_once, door))

    assert status != 200 or b"evil" not in answer


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1.evil.example",
        "null",
        "",
        "file://",
        "http://",
        "http://127.0.0.1:{other}",
        "http://localhost:{other}",
        "http://localhost:{port}",
        "ftp://127.0.0.1:{port}",
        "http://127.0.0.1:{port}@evil.example",
        "http://[::1",
    ],
)
def test_a_page_from_elsewhere_is_refused(served_once: Served, origin: str) -> None:
    given = origin.format(port=served_once.port, other=served_once.port + 1)

    doors = DOORS if origin in ("http://evil.example", "http://127.0.0.1:{other}") else FEW
    by_cookie: Headers = {"origin": given, "authorization": None, "cookie": cookie_of(served_once)}

    assert wrong(served_once, doors, 403, {"origin": given}) == []
    assert wrong(served_once, FEW, 403, by_cookie) == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", [None, "no-cors", "cors", "same-origin", "websocket"])
def test_what_a_browser_says_of_other_pages_is_believed(served_once: Served, site: str, mode: str | None) -> None:
    headers: Headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}

    assert wrong(served_once, DOORS if mode == "cors" else FEW, 403, headers) == []


def test_a_link_from_elsewhere_can_be_followed_but_brings_nobody_in(served_once: Served) -> None:
    headers: Headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "authorization": None}

    assert wrong(served_once, [door for door in DOORS if door.method == "GET"], 401, headers) == []


def test_a_form_of_another_page_changes_nothing(served_once: Served) -> None:
    headers: Headers = {
        "authorization": None,
        "cookie": cookie_of(served_once),  # a browser that takes strict cookies lightly
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "content-type": "application/x-www-form-urlencoded",
    }

    assert wrong(served_once, WRITES, 403, headers) == []


def test_a_preflight_of_another_page_is_refused(served_once: Served) -> None:
    asks = {"origin": "http://evil.example", "access-control-request-method": "PUT", "authorization": None}
    for door in DOORS:
        said = served_once.ask("OPTIONS", door.path, headers=asks)
        assert said.status == 403, door
        assert not [name for name in said.headers if name.lower().startswith("access-control")], door


# --- the cookie ---------------------------------------------------------------------------


def test_a_change_by_cookie_says_where_it_comes_from(served_once: Served) -> None:
    headers: Headers = {"authorization": None, "cookie": cookie_of(served_once)}

    assert wrong(served_once, WRITES, 403, headers) == []


@pytest.mark.parametrize("beside", [{"origin": "{url}"}, {"sec-fetch-site": "same-origin"}])
def test_our_own_page_may_change_things_by_cookie(served_once: Served, beside: dict[str, str]) -> None:
    said = {name: value.format(url=served_once.url) for name, value in beside.items()}
    for door in WRITES:
        sent = None if door.method == "DELETE" and not door.takes_body else "{}"
        answer = served_once.ask(
            door.method, door.path, sent, {"authorization": None, "cookie": cookie_of(served_once), **said}
        )
        assert answer.status not in (401, 403, 415), door


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", None])
def test_nothing_at_all_in_a_form_changes_nothing_by_cookie(served_once: Served, kind: str | None) -> None:
    headers: Headers = {
        "authorization": None,
        "cookie": cookie_of(served_once),
        "origin": served_once.url,
        "content-type": kind,
        "content-length": "0",
    }
    forms = [door for door in WRITES if door.method == "POST"]

    assert [door for door in forms if served_once.ask("POST", door.path, headers=headers).status != 415] == []


def test_the_cookie_is_not_the_token(served_once: Served) -> None:
    ticket = derive_secret(served_once.token, "cookie")

    assert served_once.ask("GET", "/api/status", headers={"authorization": f"Bearer {ticket}"}).status == 401
    by_token = {"authorization": None, "cookie": cookie_of(served_once, served_once.token)}
    assert served_once.ask("GET", "/api/status", headers=by_token).status == 401


def test_a_cookie_that_somebody_else_put_before_ours_locks_nobody_out(served_once: Served) -> None:
    both = f"ralph-{served_once.port}=junk; {cookie_of(served_once)}"

    assert served_once.ask("GET", "/", headers={"authorization": None, "cookie": both}).status == 200


@pytest.mark.parametrize("other", ['prefs={"theme": "dark"}', "a=b=c; d", "€=1", "x[y]=1", '="', "a b=c", "path=/"])
def test_cookies_of_other_servers_on_this_machine_do_not_lock_us_out(served_once: Served, other: str) -> None:
    for cookie in (f"{other}; {cookie_of(served_once)}", f"{cookie_of(served_once)}; {other}"):
        headers = f"Cookie: {cookie}".encode()
        sent = f"GET / HTTP/1.1\r\nHost: {served_once.address}\r\n".encode() + headers + b"\r\n\r\n"
        assert raw(served_once, sent)[0] == 200, cookie


def test_the_link_puts_the_token_into_a_strict_cookie_and_leads_on_without_it(served_once: Served) -> None:
    said = served_once.ask(
        "GET",
        f"/tasks?status=done&token={served_once.token}",
        headers={"authorization": None, "sec-fetch-site": "none"},
    )

    cookie = said.headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    assert said.status == 200
    assert name == f"ralph-{served_once.port}"
    assert rest.startswith(derive_secret(served_once.token, "cookie"))
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in rest.split(";")}
    assert "domain" not in cookie.lower()
    assert "url=/tasks?status=done" in said.text
    assert served_once.token not in said.text + cookie
    assert (
        served_once.ask("GET", "/", headers={"authorization": None, "cookie": cookie.partition(";")[0]}).status == 200
    )


def test_every_page_can_be_entered_by_a_link(served_once: Served) -> None:
    for page in PAGES:
        path = _filled(page.path)
        said = served_once.ask("GET", f"{path}?token={served_once.token}", headers={"authorization": None})
        assert said.status == 200, path
        assert f"url={path}" in said.text


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/",
        "/\\evil.example",
        "///evil.example",
        "/%5C/evil.example",
        "/%2Fevil",
        "/%09/evil.example",
        "/%0a/evil.example",
    ],
)
def test_the_link_leads_nowhere_else(served_once: Served, path: str) -> None:
    door = Door(method="GET", path=f"{path}?token={served_once.token}")
    with socket.create_connection(("127.0.0.1", served_once.port), 10) as connection:
        connection.sendall(head(served_once, door, "Connection: close"))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    targets = re.findall(rb'(?:url=|href=")([^"]*)', answer)
    assert targets
    assert all(re.match(rb"/(?![/\\])[!-~]*$", target) for target in targets), targets


def test_a_wrong_token_in_a_link_is_refused_and_sets_no_cookie(served_once: Served) -> None:
    said = served_once.ask("GET", "/?token=wrong", headers={"authorization": None})

    assert said.status == 401
    assert "set-cookie" not in said.headers
    assert "ralph serve" in said.text


# --- what is sent -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/plain; application/json",
        "",
        None,
        "application/jsonp",
    ],
)
def test_only_json_is_taken(served_once: Served, kind: str | None) -> None:
    for door in FEW_WRITES if kind in ("", "application/jsonp") else WRITES:
        said = served_once.ask(door.method, door.path, '{"a": 1}', {"content-type": kind})
        assert said.status == 415, door
        assert "application/json" in said.json["detail"]


@pytest.mark.parametrize(
    "sent", ["{", "[]", "null", '"x"', "\x00", "[" * 100_000, '{"a":' * 50_000, '{"a": NaN}', "\ufeff{}"]
)
def test_what_is_no_json_is_refused_in_a_sentence(served_once: Served, sent: str) -> None:
    for door in WRITES:
        if door.takes_body:
            said = served_once.ask(door.method, door.path, sent.encode())
            assert said.status in (400, 422), (door, said.text)
            assert not _ill_said(door, said)


def test_a_body_that_says_it_is_huge_is_not_waited_for(served_once: Served) -> None:
    for door in WRITES:
        for length in (auth.MAX_BODY_BYTES + 1, 10**30):
            lines = ("Content-Type: application/json", f"Content-Length: {length}")
            assert raw(served_once, head(served_once, door, *lines))[0] in (400, 413), door

    assert lives(served_once)


def test_a_huge_body_in_pieces_is_cut_off(served_once: Served) -> None:
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    piece = b"%x\r\n" % 500_000 + b" " * 500_000 + b"\r\n"
    for door in WRITES:
        if door.takes_body:
            status, _ = raw(served_once, head(served_once, door, *lines), *[piece] * 4, b"1\r\n \r\n")
            assert status == 413, door

    assert lives(served_once)


def test_somebody_who_goes_away_in_the_middle_does_no_harm(served_once: Served) -> None:
    lines = ("Content-Type: application/json", "Content-Length: 100")
    for door in WRITES:
        with socket.create_connection(("127.0.0.1", served_once.port), 10) as connection:
            connection.sendall(head(served_once, door, *lines) + b"{")

    assert lives(served_once)


# --- answers ------------------------------------------------------------------------------


def test_every_answer_is_guarded(served_once: Served) -> None:
    for door in DOORS:
        if door.is_stream:
            with served_once.stream(door.path) as answer:
                headers, status = answer.headers, answer.status
        else:
            said = served_once.ask(door.method, door.path, _body(door))
            headers, status = said.headers, said.status
        assert status < 500, door
        assert {name: headers[name] for name in CLEAN} == CLEAN, door
        assert "default-src 'none'" in headers["content-security-policy"], door
        assert "unsafe" not in headers["content-security-policy"], door
        assert "server" not in headers, door
        if door.path not in FILES:
            assert headers["cache-control"] == "no-store", door


def test_what_goes_wrong_is_a_problem_to_programs_and_a_page_to_people(served_once: Served) -> None:
    for door in DOORS:
        if not door.is_stream and door.path != auth.MCP_PATH:  # its errors are JSON-RPC
            said = served_once.ask(door.method, door.path, _body(door))
            assert said.status < 400 or not _ill_said(door, said), (door, said.text)


def test_a_head_is_an_answer_without_a_body(served_once: Served) -> None:
    for door in DOORS:
        said = served_once.ask("HEAD", door.path)
        assert said.body == b"", door
        assert said.status < 500, door


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PATCH", "CONNECT", "BREW", "get"])
def test_other_methods_are_refused_in_a_sentence(served_once: Served, method: str) -> None:
    for door in DOORS if method == "PATCH" else FEW:
        said = served_once.ask(method, door.path)
        assert said.status in (404, 405), door
        assert not _ill_said(door, said), door
        assert served_once.ask(method, door.path, headers={"authorization": None}).status == 401, door


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/..\\app.py",
        "/static/\x00",
        "/static/%00",
        "/static/" + "a" * 5_000,
    ],
)
def test_only_our_own_files_are_given(served_once: Served, path: str) -> None:
    status, answer = raw(served_once, head(served_once, Door(method="GET", path=path), "Connection: close"))

    assert status in (400, 404)
    assert b"import" not in answer
    assert lives(served_once)


def test_a_fault_of_ours_tells_nothing_of_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = EndpointGroup("faults")

    @calls.get("/api/fault")
    def fault(project: Project) -> str:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr(app, "ENDPOINTS", (*calls.all, *ENDPOINTS))
    server = Served(Path(project.directory), project)
    try:
        said = server.ask("GET", "/api/fault")
        again = server.ask("GET", "/api/openapi.json")
    finally:
        server.close()

    assert said.status == 500
    assert not _ill_said(Door(method="GET", path="/api/fault"), said)
    assert "secret" not in said.text
    assert "the secret of the house" in capsys.readouterr().err
    assert again.status == 200


# --- the token in its file ----------------------------------------------------------------


def test_the_token_is_for_nobody_else(served_once: Served) -> None:
    file = token_path(str(served_once.root))

    assert not file.is_relative_to(served_once.root)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().strip() == served_once.token
    assert len(served_once.token) >= 32


def _link_to_a_secret(file: Path) -> None:
    secret = file.with_name("id_ed25519")
    secret.write_text("A" * 32)
    secret.chmod(0o600)
    file.unlink()
    file.symlink_to(secret)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o644),
        lambda file: file.write_text(""),
        lambda file: file.write_text("short"),
        lambda file: file.write_text("\x1b]0;" + "A" * 28),
        lambda file: file.write_text("A" * 5_000_000),
        _link_to_a_secret,
        _fifo,
        Path.unlink,
    ],
)
def test_a_token_that_others_could_know_is_made_anew(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / "token"
    token = load_or_create_token(file)
    assert load_or_create_token(file) == token
    spoil(file)

    other = load_or_create_token(file)

    assert other != token
    assert file.stat().st_mode & 0o777 == 0o600


# --- under other names --------------------------------------------------------------------


@pytest.fixture
def named(project: Project) -> Iterator[Served]:
    one = Served(Path(project.directory), project, hosts=["Ralph.example"])
    yield one
    one.close()


def test_a_name_that_was_allowed_is_answered_under(named: Served) -> None:
    assert named.ask("GET", "/", headers={"host": "ralph.example"}).status == 200
    assert named.ask("GET", "/", headers={"host": "RALPH.EXAMPLE:443", "origin": "https://ralph.example"}).status == 200
    assert named.ask("GET", "/", headers={"host": "ralph.example.evil"}).status == 403
    assert named.ask("GET", "/", headers={"origin": "https://ralph.example.evil"}).status == 403
    assert named.ask("GET", "/", headers={"origin": "null"}).status == 403


def test_another_port_of_an_allowed_name_is_somebody_else(named: Served) -> None:
    for origin in ("http://ralph.example:9999", "https://ralph.example:9999"):
        assert named.ask("GET", "/", headers={"host": "ralph.example", "origin": origin}).status == 403


def test_a_port_that_a_tunnel_maps_has_to_be_allowed(project: Project, served_once: Served) -> None:
    assert served_once.ask("GET", "/api/status", headers={"host": "127.0.0.1:9000"}).status == 403

    mapped = Served(Path(project.directory), project, hosts=["127.0.0.1:9000"])
    try:
        statuses = {
            host: mapped.ask("GET", "/api/status", headers={"host": host, "origin": f"http://{host}"}).status
            for host in ("127.0.0.1:9000", mapped.address, "127.0.0.1:9001", "localhost:9000")
        }
    finally:
        mapped.close()

    assert list(statuses.values()) == [200, 200, 403, 403]


def test_a_browser_is_let_in_under_a_name_that_nobody_can_guess(served_once: Served) -> None:
    host, _, query = served_once.server.sign_in_url.removeprefix("http://").partition("/")

    assert re.fullmatch(r"ralph-[0-9a-f]{12}\.localhost:\d+", host)
    assert served_once.ask("GET", f"/{query}", headers={"authorization": None, "host": host}).status == 200
    other = f"ralph-000000000000.localhost:{served_once.port}"
    assert served_once.ask("GET", f"/{query}", headers={"authorization": None, "host": other}).status == 403


def test_behind_tls_the_cookie_goes_over_tls_alone(named: Served) -> None:
    said = named.ask("GET", f"/?token={named.token}", headers={"host": "ralph.example", "x-forwarded-proto": "https"})

    assert "secure" in said.headers["set-cookie"].lower()
