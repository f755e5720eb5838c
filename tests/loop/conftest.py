"""What the tests of the loop share."""

from __future__ import annotations

import pytest

from ralph.project import Project
from tests.loop.trial import Trial


@pytest.fixture
def trial(project: Project, capsys: pytest.CaptureFixture[str]) -> Trial:
    """Give a project to run the loop in."""
    return Trial(project, capsys)
