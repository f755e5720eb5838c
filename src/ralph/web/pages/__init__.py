"""Pages of the dashboard: one table, from which routes, navigation and documentation are derived."""

from __future__ import annotations

from ralph.web.auth import API_DOCS_PATH
from ralph.web.pages import (
    attempts,
    docs,
    episodes,
    failures,
    impact,
    journal,
    live,
    memories,
    models,
    overview,
    projects,
    runs,
    staging,
    tasks,
    timeline,
)
from ralph.web.pages.page import DashboardPage, PageView

PAGES = (
    DashboardPage(path="/", handler=overview.show_overview, label="Overview", key="o", is_on_phone=True),
    DashboardPage(path="/live", handler=live.show_live, label="Live", key="l", is_on_phone=True),
    DashboardPage(path="/tasks", handler=tasks.show_tasks, label="Tasks", key="t", is_on_phone=True),
    DashboardPage(path="/tasks/{id}", handler=tasks.show_task),
    DashboardPage(path="/runs", handler=runs.show_runs, label="Runs", key="r"),
    DashboardPage(path="/runs/{id}", handler=runs.show_run),
    DashboardPage(path="/runs/{id}/report", handler=runs.show_run_report),
    DashboardPage(path="/runs/{run}/attempts/{iteration}", handler=attempts.show_attempt),
    DashboardPage(path="/report", handler=runs.show_latest_report, label="Report", key="n"),
    DashboardPage(path="/memories", handler=memories.show_memories_page, label="Memories", key="m", is_on_phone=True),
    DashboardPage(path="/memories/{id}", handler=memories.show_memory_page),
    DashboardPage(path="/staging", handler=staging.show_staging, label="Staging", key="s", is_on_phone=True),
    DashboardPage(path="/impact", handler=impact.show_impact, label="Impact", key="i"),
    DashboardPage(path="/models", handler=models.show_models, label="Models", key="d"),
    DashboardPage(path="/failures", handler=failures.show_failures, label="Failures", key="f"),
    DashboardPage(path="/journal", handler=journal.show_journal, label="Journal", key="j"),
    DashboardPage(path="/sessions/{id}", handler=episodes.show_session, parent="/journal"),
    DashboardPage(path="/episodes", handler=episodes.show_past_work, label="Past work", key="h"),
    DashboardPage(path="/episodes/{id}", handler=episodes.show_episode),
    DashboardPage(path="/timeline", handler=timeline.show_timeline, label="Timeline", key="e"),
    DashboardPage(path="/projects", handler=projects.show_projects, label="Projects", key="p", is_secondary=True),
    DashboardPage(path=API_DOCS_PATH, handler=docs.show_docs, label="API", key="a", is_secondary=True),
)
NAVIGATION = tuple(page for page in PAGES if page.label)

__all__ = ["NAVIGATION", "PAGES", "DashboardPage", "PageView"]
