"""Where the project stands, and the other projects of the same database."""

from __future__ import annotations

from ralph.project import SHOWN_TASKS, Overview, Project
from ralph.server.api.wanted import HERE
from ralph.server.calls import Calls, Listing
from ralph.store.projects import ProjectSummary

calls = Calls("projects")

"""The project that is served."""


@calls.get("/api/status")
def show_status(project: Project) -> Overview:
    """Say where the project stands.

    Of the tasks that are ready, wait for a person or are in trouble the first are given, and how many there are:
    GET /api/tasks has all.
    """
    project.memory.look_at_files()
    return project.overview(SHOWN_TASKS)


@calls.get("/api/projects")
def list_projects(project: Project) -> Listing[ProjectSummary]:
    """List all projects of the database, oldest first, and last what they share."""
    return Listing(project.neighbours.all())


@calls.get("/api/projects/{project}")
def show_project(project: Project, name: str) -> ProjectSummary:
    """Give what a project holds, by its id or name; `-` is the one that is served."""
    return project.neighbours.show("" if name == HERE else name)
