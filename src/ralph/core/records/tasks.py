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


def status_word(status: TaskStatus, *, is_ready: bool) -> str:
    """Return what people read for the status of a task; a pending one is ready or waits for other tasks."""
    if status is TaskStatus.PENDING:
        return "ready" if is_ready else "waiting"
    return "running" if status is TaskStatus.IN_PROGRESS else status.value


def stored_status(word: str) -> TaskStatus:
    """Return the status for what people read for it."""
    return TaskStatus({"ready": "pending", "waiting": "pending", "running": "in_progress"}.get(word, word))


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
    written_by: str = "person"
    """Who wrote the name, the spec and the plan: `person`, `agent`, or `import` for another program."""
    created_at: str
    updated_at: str


NEEDS_PERSON = "needs a person"
"""Beginning of the reason of a task whose work waits for approval: changes to protected files, or no review."""
OUT_OF_RETRIES = " times, waits for a person; last: "
"""Part of the reason of a task that failed too often."""
UNREVIEWED = "unreviewed"
"""Beginning of the reason why work waits that no reviewer has judged."""
ASKS = "asks"
"""Beginning of the reason of a task whose agent asked a person something."""
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
    """Who wrote the title and the description: `person`, `agent`, or `import` for another program."""
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
class Question:
    """What an agent wants to know from a person about its task, and the answer."""

    task_id: str
    run_id: str = ""
    """Run and iteration of the attempt that asked; empty if the task was blocked without an attempt."""
    iteration: int = 0
    text: str
    asked_at: str
    answer: str = ""
    answered_by: str = ""
    """`person`, or `agent` for one outside the loop that passed on the answer; empty until then."""
    answered_at: str | None = None


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
