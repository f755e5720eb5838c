"""A real browser on a real server: `make test-browser`.

Chromium is the one RALPH_CHROMIUM names, or one that is installed. Where there is none the tests are skipped by name;
a browser that is there and fails is a failure. Every page of every test is watched: what it says in its console, and
whom it asks, is looked at when the test ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from ralph.web.tokens import derive_secret
from tests.browser.sample import make
from tests.web.asking import ServedApart

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
WIDE = (1280, 860)
PHONE = (390, 844)
MILLISECONDS = 8_000
"""A page that has not done what it should after so long does not do it."""

Open = Callable[..., Page]

expect.set_options(timeout=MILLISECONDS)


def _chromium() -> str | None:
    named = os.environ.get("RALPH_CHROMIUM", "")
    return next((found for name in (named, *PROGRAMS) if name and (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a browser, one for all tests of a worker."""
    program = _chromium()
    if program is None:
        pytest.skip("no Chromium could be had: make test-browser says how")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project full of history, which nobody changes: copies of it are served."""
    directory = tmp_path_factory.mktemp("sample") / "billing"
    make(directory).close()
    return directory


@pytest.fixture(scope="session")
def looked_at(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApart]:
    """Return a server on a project full of history, for tests that only look."""
    with _on_a_copy(sample, tmp_path_factory.mktemp("looked-at")) as server:
        yield server


@pytest.fixture
def worked_on(sample: Path, tmp_path: Path) -> Iterator[ServedApart]:
    """Return a server on a project full of history of this test alone."""
    with _on_a_copy(sample, tmp_path) as server:
        yield server


def _on_a_copy(sample: Path, folder: Path) -> ServedApart:
    return ServedApart(shutil.copytree(sample, folder / "billing"))


class Watched:
    """What pages did that they must not."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.expected: list[str] = []
        """Parts of what the console may say, because the test makes it so."""
        self.hosts: list[str] = []

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.type}: {message.text}")

    def error(self, error: object) -> None:
        self._note(f"uncaught: {error}")

    def request(self, request: Request) -> None:
        if not request.url.startswith((*self.hosts, "data:", "blob:")):
            self.complaints.append(f"asked elsewhere: {request.url}")

    def _note(self, text: str) -> None:
        if not any(part in text for part in self.expected):
            self.complaints.append(text)


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Return what was seen of the pages of a test; nothing bad may be among it in the end."""
    one = Watched()
    yield one
    assert one.complaints == []


@pytest.fixture
def open_page(browser: Browser, watched: Watched) -> Iterator[Open]:
    """Return a way to open a page of a server in a browser that was let in by the link."""
    contexts = []

    def open_one(
        server: ServedApart, path: str = "/", *, size: tuple[int, int] = WIDE, scheme: Any = "light", **more: Any
    ) -> Page:
        watched.hosts.append(server.url)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce", **more
        )
        contexts.append(context)
        context.set_default_timeout(MILLISECONDS)
        ticket = derive_secret(server.token, "cookie")
        context.add_cookies([{"name": f"ralph-{server.port}", "value": ticket, "url": server.url}])
        page = context.new_page()
        page.on("console", watched.console)
        page.on("pageerror", watched.error)
        page.on("request", watched.request)
        page.goto(f"{server.url}{path}")
        return page

    yield open_one
    for context in contexts:
        context.close()
