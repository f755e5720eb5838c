"""Commands that pages tell: such as can be typed as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.project import Project

USUAL_AGENT = "claude"
"""Named where no agent is configured: without one a run does not start."""


def run_command(project: Project) -> str:
    """Give the command that starts a run in this project."""
    agent = project.config.agent
    return "ralph run" if agent.command or agent.name != "command" else f"ralph run --agent {USUAL_AGENT}"
