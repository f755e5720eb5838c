"""Pages of the dashboard."""

from __future__ import annotations

from ralph.web.pages import docs, failures, journal, live, memories, overview, projects, runs, staging, tasks

PAGES = (
    *overview.pages.all,
    *memories.pages.all,
    *staging.pages.all,
    *projects.pages.all,
    *live.pages.all,
    *tasks.pages.all,
    *failures.pages.all,
    *journal.pages.all,
    *runs.pages.all,
    *docs.pages.all,
)
