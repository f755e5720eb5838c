"""Ask a real server over HTTP, as a program or a browser would."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ralph.project import Project
from ralph.web.server import WebServer

START_SECONDS = 10
JSON = "application/json"


class Said:
    """What the server answered."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()

    @property
    def kind(self) -> str:
        """The content type, without what is said about it."""
        return (self.headers["content-type"] or "").partition(";")[0]

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def told(self) -> Any:
        """The JSON in it if it is JSON, else the text."""
        return self.json if self.kind.endswith("json") and self.body else self.text


def refused(response: tuple[int, Any], status: int, *words: str) -> None:
    """Check the problem in a response: its status, and its code or a name in its detail for each word."""
    assert response[0] == status, response
    problem = response[1]
    for word in words:
        assert word == problem["code"] or word in problem["detail"], problem
    assert " --" not in problem["detail"], "options of the command line mean nothing over HTTP"


class Asking:
    """What a server can be asked, under its address and with its token."""

    def __init__(self, url: str, token: str, root: Path) -> None:
        self.url = url
        self.token = token
        self.root = root
        self.address = url.partition("://")[2]
        self.port = int(url.rpartition(":")[2])

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | Iterable[bytes] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Said:
        """Ask with the token and JSON, if it is not said otherwise; a header that is None is left out."""
        usual: dict[str, str | None] = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            usual["Content-Type"] = JSON
        given = {name.title(): value for name, value in {**usual, **_titled(headers)}.items() if value is not None}
        connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            connection.request(method, path, body, given, encode_chunked=_is_chunked(body))
            return Said(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str, json: Any = None, headers: Mapping[str, str | None] | None = None) -> tuple[int, Any]:
        """Return the status and what was answered: JSON, or text."""
        return self._said("GET", path, json, headers)

    def post(self, path: str, json: Any = None, headers: Mapping[str, str | None] | None = None) -> tuple[int, Any]:
        return self._said("POST", path, json, headers)

    def put(self, path: str, json: Any = None, headers: Mapping[str, str | None] | None = None) -> tuple[int, Any]:
        return self._said("PUT", path, json, headers)

    def delete(self, path: str, json: Any = None, headers: Mapping[str, str | None] | None = None) -> tuple[int, Any]:
        return self._said("DELETE", path, json, headers)

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str] | None = None, timeout: float = 20
    ) -> Iterator[http.client.HTTPResponse]:
        """Open something that goes on and on; read it line by line."""
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}", **(headers or {})})
            yield connection.getresponse()
        finally:
            connection.close()

    def _said(self, method: str, path: str, sent: Any, headers: Mapping[str, str | None] | None) -> tuple[int, Any]:
        said = self.ask(method, path, None if sent is None else json.dumps(sent), headers)
        return said.status, said.told


class Served(Asking):
    """A real server that answers in a thread of this process."""

    def __init__(self, root: Path, project: Project, **more: Any) -> None:
        self.project = project
        """The same project, opened for the test itself."""
        self.server = WebServer(str(root), port=0, **more)
        super().__init__(self.server.url, self.server.token, root)
        self._thread = threading.Thread(target=self.server.run, name="served", daemon=True)
        self._thread.start()
        self._wait()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        self.server.stop()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server does not end"

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not getattr(getattr(self.server, "_server", None), "started", False):
            assert self._thread.is_alive(), "the server ended before it began"
            assert time.monotonic() < deadline
            time.sleep(0.005)


class ServedApart(Asking):
    """`ralph serve` in a process of its own, as a person starts it."""

    def __init__(self, root: Path, *words: str, **environment: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ralph", "-C", str(root), "serve", "--port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=self._errors,  # a pipe that nobody reads would fill up and stop it
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout
        self.lines: list[str] = []
        while not any("/mcp" in line for line in self.lines) and (line := self.process.stdout.readline()):
            self.lines.append(line)
        link = re.search(r"http://\S+/\?token=(\S+)", "".join(self.lines))
        address = re.search(r"(http://\S+)/api,", "".join(self.lines))
        assert link, (self.lines, self._printed())
        assert address, (self.lines, self._printed())
        self.link = link[0]
        super().__init__(address[1], link[1], root)

    def __enter__(self) -> ServedApart:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """End it; return its exit code and all it still printed."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out + self._printed()

    def _printed(self) -> str:
        self._errors.seek(0)
        return self._errors.read()


def _titled(headers: Mapping[str, str | None] | None) -> dict[str, str | None]:
    return {name.title(): value for name, value in (headers or {}).items()}


def _is_chunked(body: object) -> bool:
    return body is not None and not isinstance(body, bytes | str)
