"""The API: thousands of things that nobody thought of, and every door tried by those who must not come in.

Doors are taken from the app itself, so that a new one is tried without being told of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ralph.core.records import replace
from ralph.project import Project
from ralph.web.api import ENDPOINTS
from ralph.web.app import WebApp
from ralph.web.auth import MAX_BODY_BYTES
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project
from tests.web.asking import Asking, Served
from tests.web.fuzz import SEED, fuzz
from tests.web.test_auth import DOORS, WRITES, Door, _body, head, lives, raw
from tests.web.test_connections import FOREIGN_HOSTS, MALFORMED_HOSTS, ambiguous_heads, with_host

REFUSED = frozenset((*range(400, 500), 501))
Headers = Mapping[str, str | None]


def routes(root: Path) -> set[tuple[str, str]]:
    """Return the method and path of all that the app answers, as the app has them."""
    app = WebApp(str(root), "t" * 32, name="x", port=1)
    try:
        return {(route.method, route.path) for route in app.routes}
    finally:
        app.close()


def untried(root: Path) -> set[tuple[str, str]]:
    """Return what the app answers and no door stands for."""
    tried = {(door.method, door.path) for door in DOORS}
    return {
        (method, path)
        for method, path in routes(root)
        if (method, re.sub(r"\{\w+\}", "x-1", path)) not in tried and path != "/static"
    }


def unwanted(served: Asking, other: Asking) -> dict[str, tuple[Headers, set[int]]]:
    """Return who must not come in: what they say, and what they may be answered."""
    return {
        "no token": ({"authorization": None}, {401}),
        "wrong token": ({"authorization": "Bearer wrong"}, {401}),
        "token of another server": ({"authorization": f"Bearer {other.token}"}, {401}),
        "foreign host": ({"host": "evil.example"}, {403}),
        "host of another port": ({"host": "evil.example:80"}, {403}),
        "foreign origin": ({"origin": "http://evil.example"}, {403}),
        "origin of another server": ({"origin": other.url}, {403}),
        "no origin at all": ({"origin": "null"}, {403}),
        "another page": ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, {403}),
    }


FORMS = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain; application/json",
)


def lies(served: Asking, door: Door) -> dict[str, list[bytes]]:
    """Return requests that say one thing and are another."""
    usual = head(served, door, "Content-Type: application/json")[:-2]
    return {
        "a length below zero": [usual + b"Content-Length: -2\r\n\r\n{}"],
        "a length that is none": [usual + b"Content-Length: 0x2\r\n\r\n{}"],
        "chunks that are none": [usual + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n"],
        "another encoding": [usual + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
        "many headers": [usual + b"".join(b"X-%d: a\r\n" % n for n in range(20_000)) + b"\r\n"],
        "no version": [f"{door.method} {door.path}\r\n\r\n".encode()],
        "an absolute target": [head(served, replace(door, path=f"http://evil.example{door.path}"))],
        **{f"host {host}": [with_host(served, door, host)] for host in (*MALFORMED_HOSTS, *FOREIGN_HOSTS)},
        **{name: [sent] for name, sent in ambiguous_heads(usual + b"\r\n").items()},
    }


def ill_answered(served: Served, other: Served, doors: Iterable[Door]) -> tuple[int, list[str]]:
    """Let all who must not come in try some doors; return how often, and where they were not refused rightly."""
    tried = 0
    found: list[str] = []
    for door in doors:
        for name, (headers, expected) in unwanted(served, other).items():
            tried += 1
            status = served.ask(door.method, door.path, _body(door), headers).status
            if status not in expected:
                found.append(f"{name}: {door.method} {door.path} is answered {status}")
        if door in WRITES and door.takes_body:
            for form in FORMS:
                tried += 1
                if (status := served.ask(door.method, door.path, "{}", {"content-type": form}).status) != 415:
                    found.append(f"{form}: {door.method} {door.path} is answered {status}")
            tried += 1
            try:
                status = served.ask(
                    door.method, door.path, iter([b"[" * 65_536] * (MAX_BODY_BYTES // 65_536 + 2))
                ).status
            except ConnectionError:
                status = 413  # refused so early that there was nobody left to send it to
            if status != 413:
                found.append(f"too large: {door.method} {door.path} is answered {status}")
        for name, sent in lies(served, door).items():
            tried += 1
            try:
                status, _ = raw(served, *sent)
            except OSError:
                continue  # the connection was closed, which is an answer too
            if status and status not in REFUSED:
                found.append(f"{name}: {door.method} {door.path} is answered {status}")
    return tried, found


def doors(folder: Path, size: int, seed: int) -> Shown:
    """Try so many doors, or all there are."""
    tried = 0
    found: list[str] = []
    servers = []
    projects = []
    try:
        for name in ("one", "other"):
            (folder / name).mkdir()
            set_up_project(folder / name)
            projects.append(Project.open(folder / name))
            servers.append(Served(folder / name, projects[-1]))
        some = DOORS if size >= len(DOORS) else [*WRITES[seed::9], *DOORS[seed::11]][:size]
        tried, found = ill_answered(servers[0], servers[1], some)
        found += [] if lives(servers[0]) else ["it does not answer any more"]
        found += [f"not tried: {one}" for one in sorted(untried(folder / "one"))]
    finally:
        for served in servers:
            served.close()
        for project in projects:
            project.close()
    for one in found:
        print(one)
    ways = len(unwanted(*servers)) + len(FORMS) + 1 + len(lies(servers[0], some[0]))
    return Shown(load=f"{len(some)} routes, pages and files, {ways} ways to ask wrongly", tried=tried, lost=len(found))


def cases(folder: Path, size: int, seed: int) -> Shown:
    """Ask so many things made up from the description of the API, one by one and in chains."""
    asked = wrong = rounds = 0
    while asked < size:
        count, code, printed = fuzz(SEED + seed + rounds, size - asked)
        rounds += 1
        asked += count
        if code or not count:
            print(printed)
            wrong += 1
        if not count:
            break
    return Shown(load=f"{asked:,} cases of {len(ENDPOINTS)} calls", tried=asked, lost=wrong, says=f"{rounds} servers")


TRIALS = (
    Trial(name="doors", test="HTTP from elsewhere", allowed="0 let in", size=1_000, run=doors),
    Trial(name="api", test="API, stateful", allowed="0 server errors", size=10_000, run=cases),
)
