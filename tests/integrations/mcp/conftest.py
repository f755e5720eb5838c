"""What the tests of the MCP server share."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from ralph.core.actor import AGENT
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from ralph.web.mcp import McpHttpServer


@pytest.fixture
def opened(project: Project) -> Iterator[ProjectHandle]:
    """Give a project as one thread of the server has it."""
    one = ProjectHandle(project.directory, AGENT)
    yield one
    one.close()


@pytest.fixture
def served(project: Project) -> Iterator[McpHttpServer]:
    """Give a server over HTTP on a port of its own."""
    with McpHttpServer(project.directory, "127.0.0.1", 0, AGENT) as server:
        thread = Thread(target=lambda: server.serve_forever(poll_interval=0.02))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
