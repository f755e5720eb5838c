"""Endpoints that steer runs: start, pause, resume, stop. Only for clients on this machine."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ralph.core.records import Run
from ralph.loop.launch import RunChoices
from ralph.loop.options import MAX_WORKERS, RunOptions
from ralph.loop.steering import GO_ON, PAUSE, STOP
from ralph.project import Project
from ralph.web.endpoints import EndpointGroup, RequestBody
from ralph.web.paging import Name

calls = EndpointGroup("runs")

MAX_AMOUNT = 1_000_000_000
"""Maximum of a limit."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_AMOUNT)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class RunInput(RequestBody):
    """Run to start. Every value is one that `GET /api/runs/choices` offers; 0 means no limit but the configured one."""

    agent: Annotated[Name, msgspec.Meta(description="Default: the configured one.")] = ""
    model: Annotated[Name, msgspec.Meta(description="Default: chosen by the strategy, or by the agent.")] = ""
    strategy: Annotated[Name, msgspec.Meta(description="Default: the configured one.")] = ""
    gates: Annotated[
        tuple[str, ...] | None, msgspec.Meta(description="Those to run; none if empty. Default: all configured ones.")
    ] = None
    review: Annotated[bool, msgspec.Meta(description="Whether a read-only session reviews the work.")] = False
    task: Annotated[Name, msgspec.Meta(description="Only this task. Default: all that are ready.")] = ""
    parallel: Annotated[int, msgspec.Meta(ge=0, le=MAX_WORKERS, description="Number of tasks at a time.")] = 0
    iterations: Count = 0
    minutes: Amount = 0.0
    cost_usd: Amount = 0.0
    tokens: Count = 0
    wait: Annotated[bool, msgspec.Meta(description="Whether to wait for new tasks when none is ready.")] = False


@calls.get("/api/runs/choices")
def show_run_choices(project: Project) -> RunChoices:
    """Return what a run can be started with: what trusted settings offer, or why none can be started."""
    return project.runs.choices()


@calls.post("/api/runs", 201, is_local=True)
def start_run(project: Project, body: RunInput) -> Run:
    """Start a run of configured agents and gates as a process of its own, and return it.

    Only on this machine, in a directory that a person trusts, with settings they have accepted, one run at a time.
    """
    return project.runs.launch(
        RunOptions(
            agent=body.agent,
            model=body.model or None,
            strategy=body.strategy,
            gates=body.gates or (),
            verify=body.gates is None or bool(body.gates),
            review=body.review,
            only=body.task or None,
            parallel=body.parallel,
            iterations=body.iterations,
            minutes=body.minutes,
            cost_usd=body.cost_usd,
            tokens=body.tokens,
            stays=body.wait,
        )
    )


@calls.post("/api/runs/{id}/pause", is_local=True)
def pause_run(project: Project, id: str) -> Run:
    """Let a run settle its current attempts and start no further one until it is resumed."""
    return project.runs.steer(PAUSE, id)


@calls.post("/api/runs/{id}/resume", is_local=True)
def resume_run(project: Project, id: str) -> Run:
    """Let a paused run continue."""
    return project.runs.steer(GO_ON, id)


@calls.post("/api/runs/{id}/stop", is_local=True)
def stop_run(project: Project, id: str) -> Run:
    """End the session of a run and stop it; its task is retried by the next run."""
    return project.runs.steer(STOP, id)
