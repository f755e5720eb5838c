"""Actions of the dashboard that the palette offers; a new one is an entry here."""

from __future__ import annotations

from ralph.core.records import record


@record
class DashboardAction:
    """Something to do that is one step away on a page."""

    label: str
    path: str
    """Page and, after `#`, its dialog to open; only `#` and an id for what every page has, such as a button."""
    words: str = ""
    """Other words under which it is found."""


ACTIONS = (
    DashboardAction(label="Start a run", path="/#start-run", words="launch agent work go"),
    DashboardAction(label="Add a task", path="/tasks#add-task", words="new create"),
    DashboardAction(label="Add a memory", path="/memories#add-dialog", words="new create remember"),
    DashboardAction(label="Review staged learnings", path="/staging", words="approve reject keep"),
    DashboardAction(label="See what is ready to start", path="/tasks?status=ready", words="pending next"),
    DashboardAction(label="See what needs attention", path="/#person-title", words="blocked question person approve"),
    DashboardAction(label="Switch between dark and light theme", path="#theme-toggle", words="color mode"),
    DashboardAction(label="Show keyboard shortcuts", path="#keys", words="help"),
)
