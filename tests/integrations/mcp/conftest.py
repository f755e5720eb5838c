"""What the tests of the MCP server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ralph.core.actor import AGENT
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project


@pytest.fixture
def opened(project: Project) -> Iterator[ProjectHandle]:
    """Return a project as one thread of the server has it."""
    one = ProjectHandle(project.directory, AGENT)
    yield one
    one.close()
