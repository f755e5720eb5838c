"""Page of the projects of the database."""

from __future__ import annotations

from ralph.project import Project
from ralph.web.page_routes import Pages, View

pages = Pages()


@pages.page("/projects")
def projects(project: Project) -> View:
    """Show all projects of the database with their contents."""
    return View(
        template="projects.html",
        values={"projects": project.projects.list(), "where": project.projects.where},
    )
