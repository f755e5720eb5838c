"""Declaration of dashboard pages.

The function of a page receives the project, its path parameters and `query` if it declares one, and returns a
`PageView`. Pages only read; they make changes through the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import urlencode

from ralph.core.records import record
from ralph.loop.options import has_agent, start_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.project import Project
    from ralph.web.endpoints import QueryParams


@record
class PageView:
    """Template of a page with its values."""

    template: str
    values: dict[str, Any]


@record
class DashboardPage:
    """Dashboard page."""

    path: str
    handler: Callable[..., PageView]
    label: str = ""
    """Name in the navigation; empty for a page of one thing, such as a task."""
    key: str = ""
    """Key that opens it after `g`."""
    is_secondary: bool = False
    """Whether it is about more than this project, and therefore listed below the others."""
    is_on_phone: bool = False
    """Whether it is in the bar of small screens, and not under More."""
    parent: str = ""
    """Path of the page that is highlighted in the navigation. Default: the first part of its own."""

    @property
    def query(self) -> type[QueryParams] | None:
        """Type of the query parameters."""
        return get_type_hints(self.handler).get("query")

    @property
    def icon(self) -> str:
        """Name of its icon."""
        return self.path.rpartition("/")[2] or "overview"

    @property
    def section(self) -> str:
        """Path of the navigation entry it belongs to."""
        return self.parent or (self.path if self.label else "/" + self.path.split("/")[1])

    @property
    def description(self) -> str:
        """What it shows, for the documentation."""
        return (self.handler.__doc__ or "").partition("\n")[0].removeprefix("Show ").rstrip(".")


def page_url(path: str, **parameters: str | None) -> str:
    """Return the URL of a page, without empty parameters."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path


def run_command(project: Project, options: str = "") -> str:
    """Return the command that starts a run in this project, to copy from a page: with the agent of the latest run."""
    agent = project.config.agent
    latest = next(iter(project.store.runs.latest(1)), None)
    if latest is None or has_agent(agent):
        return f"{start_command(agent)}{options}"
    return f"ralph run{options} -- …" if latest.agent == "command" else f"ralph run --agent {latest.agent}{options}"
