"""Endpoints for the status of the project and for the projects of its database."""

from __future__ import annotations

from ralph.loop.overview import Overview
from ralph.project import Project
from ralph.store.projects import ProjectSummary
from ralph.web.api.filters import SERVED_PROJECT
from ralph.web.endpoints import EndpointGroup, Listing

calls = EndpointGroup("projects")

SHOWN_TASKS = 20
"""Maximum number of tasks in each list of the status."""


@calls.get("/api/status")
def show_status(project: Project) -> Overview:
    """Return the status of the project.

    Of the tasks that are ready, need attention or have problems, only the first are included, with their total number.
    GET /api/tasks returns all of them.
    """
    project.files.check()
    return project.overview(SHOWN_TASKS)


@calls.get("/api/projects")
def list_projects(project: Project) -> Listing[ProjectSummary]:
    """List all projects of the database, oldest first, followed by the shared memories."""
    return Listing(project.projects.list())


@calls.get("/api/projects/{project}")
def show_project(project: Project, name: str) -> ProjectSummary:
    """Return a summary of a project by ID or name; `-` is the served one."""
    return project.projects.show("" if name == SERVED_PROJECT else name)
