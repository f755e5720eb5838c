"""Records of planning: tasks and features."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records.base import record


class TaskStatus(StrEnum):
    """Status of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


class Difficulty(StrEnum):
    """Difficulty of a task, as estimated by the agent."""

    TRIVIAL = "trivial"
    EASY = "easy"
    MODERATE = "moderate"
    HARD = "hard"
    BLOCKED = "blocked"


@record
class Feature:
    """A larger goal whose spec and plan are part of the prompts of its tasks."""

    id: str
    name: str
    spec: str = ""
    plan: str = ""
    created_at: str
    updated_at: str


NEEDS_PERSON = "needs a person"
"""Beginning of the reason of a task whose changes to protected files wait for approval."""
ALLOW_TESTS = "@tests"
"""Item of a task's `allow` that stands for all tests."""


@record
class Task:
    """A unit of work for one agent session."""

    id: str
    title: str
    body: str = ""
    status: TaskStatus = TaskStatus.PENDING
    priority: int = 0
    """Tasks with a higher priority are claimed first."""
    parent_id: str | None = None
    feature_id: str | None = None
    needs: tuple[str, ...] = ()
    reason: str = ""
    """Why the task is blocked or failed."""
    claimed_by: str | None = None
    claim_token: int = 0
    """Fencing token, incremented by every claim. Settling with an old token is refused."""
    lease_until: str | None = None
    reset_after: int = 0
    """Number of attempts when a person last reset the task. Only later failures count against the retries."""
    allow: tuple[str, ...] = ()
    """Globs of protected files that the task may change; `@tests` for all tests. Only a person can set them."""
    written_by: str = "person"
    """Who wrote the title and the description: only a person's words widen what the task may change."""
    created_at: str
    updated_at: str


@record
class HeldChange:
    """Change to files that gates depend on, which waits for a person."""

    task_id: str
    run_id: str
    iteration: int
    digest: str
    """Hash of all changed contents: approving it accepts exactly this change."""
    reason: str
    files: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Path and content hash of each file."""
    diff: str = ""
    created_at: str
    approved_at: str | None = None


@record
class TaskLogEntry:
    """An entry in the log of a task."""

    message: str
    who: str
    at: str


@record
class TaskMetrics:
    """Metrics over all attempts at one task."""

    task_id: str
    total_attempts: int = 0
    consecutive_failures: int = 0
    failures_since_reset: int = 0
    last_attempt_at: str | None = None
    last_success_at: str | None = None
    difficulty: Difficulty | None = None
    suggested_model: str | None = None
