"""Endpoints for statistics of runs, models and memory."""

from __future__ import annotations

from ralph.loop.stats import SHOWN_DECISIONS, SHOWN_RUNS, Decision, FailureStats, MemoryStats, ModelStats, RunStats
from ralph.memory.lifecycle.estimates import Estimate
from ralph.memory.lifecycle.lift import Lift
from ralph.project import Project
from ralph.web.endpoints import EndpointGroup, Listing, QueryParams
from ralph.web.paging import Limit

calls = EndpointGroup("stats")


class RunStatsQuery(QueryParams):
    """Maximum number of runs."""

    limit: Limit = SHOWN_RUNS


class DecisionsQuery(QueryParams):
    """Maximum number of decisions."""

    limit: Limit = SHOWN_DECISIONS


@calls.get("/api/stats/runs")
def show_run_stats(project: Project, query: RunStatsQuery) -> Listing[RunStats]:
    """Return statistics of the latest runs, newest first."""
    return Listing(project.stats.runs(query.limit))


@calls.get("/api/stats/models")
def show_model_stats(project: Project) -> Listing[ModelStats]:
    """Return results and cost of each model, most attempts first."""
    return Listing(project.stats.models())


@calls.get("/api/stats/decisions")
def show_decisions(project: Project, query: DecisionsQuery) -> Listing[Decision]:
    """Return the latest model choices with their reasons and outcomes, newest first."""
    return Listing(project.stats.decisions(query.limit))


@calls.get("/api/stats/tasks")
def show_estimates(project: Project) -> Listing[Estimate]:
    """Return what done tasks took by type of task, as medians: attempts, time and cost."""
    return Listing(project.stats.estimates())


@calls.get("/api/stats/failures")
def show_failure_stats(project: Project) -> Listing[FailureStats]:
    """Return unsuccessful attempts by cause: project, agent, service, person or Ralph."""
    return Listing(project.stats.failures())


@calls.get("/api/stats/memory")
def show_memory_stats(project: Project) -> MemoryStats:
    """Return statistics of the memory: size, growth and effect."""
    return project.stats.memory()


@calls.get("/api/lift")
def show_lift(project: Project) -> Lift:
    """Return the impact of memory, measured against holdout attempts, with 95% confidence intervals."""
    return project.stats.lift()
