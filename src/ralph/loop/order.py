"""What a person asks of a run, and what comes of it."""

from __future__ import annotations

from enum import StrEnum

from ralph.records import fields_of, record, replace
from ralph.text import redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.config import LimitsConfig


class RunEnding(StrEnum):
    """Why a run stopped."""

    COMPLETE = "all tasks are done"
    LIMIT_ITERATIONS = "the limit on iterations was reached"
    LIMIT_MINUTES = "the time limit was reached"
    LIMIT_COST = "the cost limit was reached"
    LIMIT_TOKENS = "the limit on tokens was reached"
    WAITS = "the tasks that are left wait for a person"
    BUSY = "the tasks that are left are being worked on elsewhere"
    NOT_READY = "the task is not ready: it has parts, waits for others, or waits for a person"
    NOTHING = "there is nothing to do"
    INTERRUPTED = "it was interrupted"
    BROKEN = "the database could not be written"
    DAMAGED = "the database is damaged"
    NO_DISK = "the disk could not be written to for too long; mend that, and go on with: ralph run --resume"
    WORKER_DIED = "a worker ended in a way that nobody foresaw; what it printed says more"
    NO_AGENT = "the agent could not be started"
    NO_BRANCH = "the branch that work is merged into is gone; what is finished waits on branches of its own"
    NO_MODEL = "the agent could not use its model, again and again; see what it says, and run again"
    AGENT_FAILS = "the agent fails the same way whatever the task; mend it and run again"

    @property
    def can_go_on(self) -> bool:
        """Say whether the run was stopped though there was more to do."""
        return self in _CUT_SHORT

    @property
    def exit_code(self) -> int:
        """Give what a command that ran the loop should exit with."""
        return {
            RunEnding.WAITS: 1,
            RunEnding.NOT_READY: 1,
            RunEnding.BROKEN: 1,
            RunEnding.DAMAGED: 1,
            RunEnding.NO_DISK: 1,
            RunEnding.AGENT_FAILS: 1,
            RunEnding.NO_MODEL: 1,
            RunEnding.WORKER_DIED: 1,
            RunEnding.NO_BRANCH: 1,
            RunEnding.NO_AGENT: 2,
            RunEnding.NOTHING: 3,
            RunEnding.INTERRUPTED: 130,
        }.get(self, 0)


_CUT_SHORT = (
    RunEnding.LIMIT_ITERATIONS,
    RunEnding.LIMIT_MINUTES,
    RunEnding.LIMIT_COST,
    RunEnding.LIMIT_TOKENS,
    RunEnding.NO_MODEL,
    RunEnding.NO_DISK,
    RunEnding.INTERRUPTED,
)


@record
class Summary:
    """What a run came to."""

    run_id: str
    ending: RunEnding
    iterations: int
    done: int
    seconds: float
    cost_usd: float
    tokens: int


@record
class Order:
    """What a person asks of one run."""

    iterations: int = 0
    minutes: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    task_iterations: int = 0
    """The same for each task; then it waits for a person."""
    task_minutes: float = 0.0
    task_cost_usd: float = 0.0
    task_tokens: int = 0
    model: str | None = None
    with_memory: bool = True
    holdout: float = 0.0
    """The share of iterations that do without memory, to measure what it brings."""
    only: str | None = None
    """Work on this task alone."""
    stays: bool = False
    """Wait for new tasks instead of ending when there is nothing to do."""
    parallel: int = 0
    """How many workers, one when it is 0; with more, each task has a branch and a working tree of its own."""
    agent: str = ""
    """This and what follows stands over the settings."""
    program: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    verify: bool = True
    review: bool = False
    strategy: str = ""


def with_limits(order: Order, limits: LimitsConfig) -> Order:
    """Give an order with the configured limits where it has none of its own."""
    return replace(order, **{name: getattr(order, name) or limit for name, limit in fields_of(limits).items()})


def options_of(order: Order, worker: str = "") -> str:
    """Give what is to be asked again of a run that goes on, and who works on it, as JSON.

    One task alone is asked for each time; what holds a secret is not kept.
    """
    import json

    usual = fields_of(Order())
    asked = {name: value for name, value in fields_of(order).items() if value != usual[name] and name != "only"}
    safe = {name: value for name, value in asked.items() if redact(text := json.dumps(value)) == text}
    return json.dumps({**safe, WORKER: worker} if worker else safe)


def worker_of(options: str) -> str:
    """Give who worked on a run, by its options; empty where they do not say."""
    name = _read(options).get(WORKER)
    return name if isinstance(name, str) else ""


def resumed(order: Order, options: str) -> Order:
    """Give an order that asks what a run was asked before, where it asks nothing else itself."""
    usual = fields_of(Order())
    asked = {name for name, value in fields_of(order).items() if value != usual[name]}
    kept = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in _read(options).items()
        if name in usual and not asked & {name, *_INSTEAD.get(name, ())} and _fits(value, usual[name])
    }
    return replace(order, **kept)


WORKER = "worker"
_INSTEAD = {
    "agent": ("program",),
    "program": ("agent",),
    "verify": ("gates", "review"),
    "with_memory": ("holdout",),
}
"""What was asked before does not count when one of these is asked now: both together make no sense."""


def _read(options: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(options or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _fits(value: object, usual: object) -> bool:
    """Say whether a value is of the kind that an order has there."""
    if isinstance(usual, tuple):
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(usual, int | float) and not isinstance(usual, bool):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, bool if isinstance(usual, bool) else str)
