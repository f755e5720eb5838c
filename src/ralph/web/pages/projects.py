"""Page of the projects of the database."""

from __future__ import annotations

from ralph.project import Project
from ralph.web.pages.page import PageView


def show_projects(project: Project) -> PageView:
    """Show all projects of the database with their contents."""
    return PageView(
        template="projects.html",
        values={"projects": project.projects.list(), "where": project.projects.where},
    )
