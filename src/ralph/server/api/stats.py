"""What the runs, the models and the memory came to."""

from __future__ import annotations

from ralph.memory.lift import Lift
from ralph.project import Project
from ralph.server.calls import Calls, Listing, Query
from ralph.server.paging import Limit
from ralph.stats import SHOWN_DECISIONS, SHOWN_RUNS, Decision, MemoryStats, ModelStats, RunStats

calls = Calls("stats")


class RunsQuery(Query):
    """How many runs are wanted."""

    limit: Limit = SHOWN_RUNS


class DecisionsQuery(Query):
    """How many decisions are wanted."""

    limit: Limit = SHOWN_DECISIONS


@calls.get("/api/stats/runs")
def show_run_stats(project: Project, query: RunsQuery) -> Listing[RunStats]:
    """Give what came of the latest runs, newest first."""
    return Listing(project.stats.runs(query.limit))


@calls.get("/api/stats/models")
def show_model_stats(project: Project) -> Listing[ModelStats]:
    """Give what each model achieved and at what price, the one with the most attempts first."""
    return Listing(project.stats.models())


@calls.get("/api/stats/decisions")
def show_decisions(project: Project, query: DecisionsQuery) -> Listing[Decision]:
    """Give for which models the latest attempts were decided, why, and what came of it, newest first."""
    return Listing(project.stats.decisions(query.limit))


@calls.get("/api/stats/memory")
def show_memory_stats(project: Project) -> MemoryStats:
    """Give what is remembered, how that grew, and what came of showing it."""
    return project.stats.memory()


@calls.get("/api/lift")
def show_lift(project: Project) -> Lift:
    """Give what memory brings, by the attempts it was left out of, with 95 % intervals."""
    return project.stats.lift()
