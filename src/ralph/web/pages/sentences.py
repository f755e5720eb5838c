"""Commands shown on pages, ready to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.project import Project

EXAMPLE_AGENT = "claude"
"""Agent in the command if none is configured, because a run requires one."""


def run_command(project: Project) -> str:
    """Return the command that starts a run in this project."""
    agent = project.config.agent
    return "ralph run" if agent.command or agent.name != "command" else f"ralph run --agent {EXAMPLE_AGENT}"
