"""Path of a request through the application."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import starlette

import ralph
from ralph.project import Project
from ralph.web.app import WebApp
from ralph.web.pages import NAVIGATION, PAGES
from ralph.web.workers import ProjectThreads

DOCS = Path(__file__).parents[2] / "docs"
PACKAGES = (ralph.__path__[0], starlette.__path__[0])


def frames() -> list[str]:
    """Return the functions of our packages and of Starlette that are being executed, innermost first."""
    return [
        f"{Path(frame.filename).stem}.{frame.function}"
        for frame in inspect.stack()
        if frame.filename.startswith(PACKAGES)
    ]


def test_a_request_passes_two_wrappers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[list[str]] = []
    service: Any = Project.__dict__["tasks"]

    async def use(self: ProjectThreads, work: Callable[[Project], Any], *, is_write: bool = False) -> Any:
        passed.append(frames())
        return await original(self, work, is_write=is_write)

    def tasks(self: Project) -> Any:
        passed.append(frames())
        return service.func(self)

    original = ProjectThreads.use
    monkeypatch.setattr(ProjectThreads, "use", use)
    monkeypatch.setattr(Project, "tasks", property(tasks))
    app = WebApp(project.directory, "t" * 32, name="x", port=1)
    headers = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer " + b"t" * 32)]
    scope = {"type": "http", "method": "GET", "path": "/api/tasks", "query_string": b"", "headers": headers}
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    app.close()

    assert sent[0]["status"] == 200
    assert passed[0] == ["app.respond", "app.__call__"]
    assert [name.partition(".")[0] for name in passed[1]] == [
        "tasks",  # the endpoint
        "app",
        "project_handle",
        *["workers"] * 2,
    ]


def test_every_page_is_documented() -> None:
    text = (DOCS / "dashboard.md").read_text(encoding="utf-8")

    assert [page.label for page in NAVIGATION if f"\n| {page.label} |" not in text and page.label != "API"] == []


def test_keys_and_labels_are_unique() -> None:
    assert len({page.key for page in NAVIGATION}) == len({page.label for page in NAVIGATION}) == len(NAVIGATION)
    assert {page.section for page in PAGES} == {page.path for page in NAVIGATION}
