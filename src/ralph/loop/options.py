"""Options of a run, how a run can end, and its summary."""

from __future__ import annotations

import json
from enum import StrEnum

from ralph.core.records import record, record_fields, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralph.core.config import AgentConfig, LimitsConfig


MAX_WORKERS = 64
"""Maximum number of parallel tasks."""


class RunEnding(StrEnum):
    """Why a run stopped."""

    COMPLETE = "all tasks are done"
    TASK_DONE = "the task is done; others are not"
    LIMIT_ITERATIONS = "the limit on iterations was reached"
    LIMIT_MINUTES = "the time limit was reached"
    LIMIT_COST = "the cost limit was reached"
    LIMIT_TOKENS = "the limit on tokens was reached"
    WAITS = "the remaining tasks wait for a person"
    BUSY = "the remaining tasks are being worked on elsewhere"
    NOT_READY = "the task is not ready: it has subtasks, waits for other tasks, or waits for a person"
    NOTHING = "there is nothing to do"
    INTERRUPTED = "it was interrupted"
    STOPPED = "a person stopped it"
    BROKEN = "the database could not be written"
    DAMAGED = "the database is damaged"
    NO_DISK = "the disk could not be written for too long; free space, then continue with: ralph run --resume"
    WORKER_DIED = "a worker crashed; see its traceback above"
    NO_AGENT = "the agent could not be started"
    NO_BRANCH = "the branch to merge into no longer exists; finished work is on its own branches"
    NO_MODEL = "the agent repeatedly could not use its model; see its error, then run again"
    NO_LOGIN = "the agent is not logged in; log in, then continue with: ralph run --resume"
    NO_CREDIT = "the account of the agent has no credit; add some, then continue with: ralph run --resume"
    UNKNOWN_MODEL = "the agent does not offer the model; choose another one and run again"
    AGENT_FAILS = "the agent fails the same way on every task; fix it and run again"
    COMMAND_FAILS = "the agent's command fails at once; fix it and run again"

    @property
    def is_limit(self) -> bool:
        """Whether the run stopped because a limit was reached."""
        return self in _LIMITS

    @property
    def is_resumable(self) -> bool:
        """Whether the run stopped early and can be resumed."""
        return self in _RESUMABLE

    @property
    def exit_code(self) -> int:
        """Exit code of a command that ran the loop."""
        return {
            RunEnding.WAITS: 1,
            RunEnding.NOT_READY: 1,
            RunEnding.BROKEN: 1,
            RunEnding.DAMAGED: 1,
            RunEnding.NO_DISK: 1,
            RunEnding.AGENT_FAILS: 1,
            RunEnding.COMMAND_FAILS: 1,
            RunEnding.NO_MODEL: 1,
            RunEnding.NO_LOGIN: 1,
            RunEnding.NO_CREDIT: 1,
            RunEnding.UNKNOWN_MODEL: 1,
            RunEnding.WORKER_DIED: 1,
            RunEnding.NO_BRANCH: 1,
            RunEnding.NO_AGENT: 2,
            RunEnding.NOTHING: 3,
            RunEnding.INTERRUPTED: 130,
            RunEnding.STOPPED: 130,
        }.get(self, 0)


_RAISED_LIMITS: dict[str, str] = {
    RunEnding.LIMIT_ITERATIONS: " --max-iterations N",
    RunEnding.LIMIT_MINUTES: " --max-minutes N",
    RunEnding.LIMIT_COST: " --max-cost USD",
    RunEnding.LIMIT_TOKENS: " --max-tokens N",
}
_LIMITS = (RunEnding.LIMIT_ITERATIONS, RunEnding.LIMIT_MINUTES, RunEnding.LIMIT_COST, RunEnding.LIMIT_TOKENS)
SERVICE_ENDINGS = (RunEnding.NO_MODEL, RunEnding.NO_LOGIN, RunEnding.NO_CREDIT, RunEnding.UNKNOWN_MODEL)
"""Endings of a run whose agents could not use their models."""
_RESUMABLE = (*_LIMITS, *SERVICE_ENDINGS, RunEnding.NO_DISK, RunEnding.INTERRUPTED, RunEnding.STOPPED)


EXAMPLE_AGENT = "claude"
"""Agent in the command that starts a run if none is configured, because a run requires one."""


def start_command(agent: AgentConfig) -> str:
    """Return the command that starts a run, with an agent if none is configured."""
    return "ralph run" if has_agent(agent) else f"ralph run --agent {EXAMPLE_AGENT}"


def has_agent(agent: AgentConfig) -> bool:
    """Return whether the settings name an agent."""
    return bool(agent.command) or agent.name != "command"


def resume_command(ending: str, run_id: str = "") -> str:
    """Return the command that continues a run, with an option that raises the limit it has reached, if any."""
    return f"ralph run --resume{f' {run_id}' if run_id else ''}{_RAISED_LIMITS.get(ending, '')}"


def how_to_reject(task_id: str) -> str:
    """Return how a person rejects a change that waits for approval."""
    return f"To reject it, put the files back (git checkout FILE), then: ralph task reset {task_id}"


@record
class RunSummary:
    """Result of a run."""

    run_id: str
    ending: RunEnding
    iterations: int
    done: int
    seconds: float
    cost_usd: float
    tokens: int


@record
class RunOptions:
    """Options of one run, as given on the command line."""

    iterations: int = 0
    minutes: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    task_iterations: int = 0
    """Limits per task; a task that reaches one waits for a person."""
    task_minutes: float = 0.0
    task_cost_usd: float = 0.0
    task_tokens: int = 0
    model: str | None = None
    with_memory: bool = True
    holdout: float = 0.0
    """Share of iterations that run without memory, to measure its lift."""
    only: str | None = None
    """Id of the only task to work on."""
    stays: bool = False
    """Whether to wait for new tasks instead of ending when there is nothing to do."""
    parallel: int = 0
    """Number of workers, 0 for one; with several, each task has its own branch and worktree."""
    agent: str = ""
    """This and the following fields override the configuration."""
    program: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    verify: bool = True
    review: bool = False
    strategy: str = ""


def apply_limits(run_options: RunOptions, limits: LimitsConfig) -> RunOptions:
    """Return the options with the configured limits filled in where none is set."""
    return replace(
        run_options, **{name: getattr(run_options, name) or limit for name, limit in record_fields(limits).items()}
    )


def dump_options(run_options: RunOptions, worker: str = "") -> str:
    """Return the options to store with a run for resuming it, and its worker, as JSON.

    Leaves out values that contain a secret.
    """
    from ralph.core.redaction import redact  # `ralph status` only reads options

    defaults = record_fields(RunOptions())
    changed = {name: value for name, value in record_fields(run_options).items() if value != defaults[name]}
    safe = {name: value for name, value in changed.items() if redact(text := json.dumps(value)) == text}
    return json.dumps({**safe, WORKER_KEY: worker} if worker else safe)


def stored_worker(options: str) -> str:
    """Return the worker stored in the options of a run, or an empty string."""
    return stored_text(options, WORKER_KEY)


def stored_text(options: str, key: str) -> str:
    """Return what is stored under a key with the options of a run, or an empty string."""
    text = _load(options).get(key)
    return text if isinstance(text, str) else ""


def store_texts(options: str, texts: Mapping[str, str]) -> str:
    """Return the options of a run with more texts stored with them, as JSON."""
    return json.dumps({**_load(options), **texts})


def merge_stored_options(run_options: RunOptions, options: str) -> RunOptions:
    """Return the options with those stored with an earlier run filled in where none is set."""
    defaults = record_fields(RunOptions())
    changed = {name for name, value in record_fields(run_options).items() if value != defaults[name]}
    stored = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in _load(options).items()
        if name in defaults and not changed & {name, *_EXCLUSIVE.get(name, ())} and _has_type_of(value, defaults[name])
    }
    return replace(run_options, **stored)


WORKER_KEY, START_KEY, NOT_COMMITTED_KEY = "worker", "start_commit", "not_committed"
"""What is stored with the options of a run: who works, where it started from, and why work is not committed."""
_EXCLUSIVE = {
    "agent": ("program",),
    "program": ("agent",),
    "verify": ("gates", "review"),
    "with_memory": ("holdout",),
}
"""Options that, when given, discard the stored option: both together make no sense."""


def _load(options: str) -> dict[str, Any]:
    try:
        stored = json.loads(options or "{}")
    except ValueError:
        return {}
    return stored if isinstance(stored, dict) else {}


def _has_type_of(value: object, default: object) -> bool:
    """Return whether a JSON value has the type of an option's default."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(default, int | float) and not isinstance(default, bool):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, bool if isinstance(default, bool) else str)
