"""Attempt statistics for model selection and stuck-task detection. Reads figures, never the text of attempts."""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, record
from ralph.loop.strategy import FIXED, ModelEvidence, ModelTotals, strategy_name
from ralph.loop.stuck import NO_CHANGE_MARK, PastAttempt, assess_attempts
from ralph.memory.lifecycle.task_type import task_type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, Task, TaskMetrics
    from ralph.loop.stuck import StuckState
    from ralph.store import Store
    from ralph.store.database import Row

MAX_TRAIL_ATTEMPTS = 200
"""Maximum number of earlier attempts considered for a task."""


@record
class TaskHistory:
    """History of a task."""

    evidence: ModelEvidence
    trail: tuple[tuple[Attempt, str], ...]
    """Finished attempts since it was last done or reset, newest first, each with its failure fingerprint."""

    @property
    def stuck_state(self) -> StuckState:
        """Common traits of the task's failures."""
        return self.evidence.stuck_state


def load_task_history(
    store: Store, config: Config, task: Task, metrics: TaskMetrics, *, takes_model: bool = True
) -> TaskHistory:
    """Return statistics on earlier attempts at a task and, if a model is chosen for it, at similar tasks."""
    trail = store.attempts.since_reset(task, MAX_TRAIL_ATTEMPTS) if metrics.total_attempts else []
    stuck_state = stuck_state_of(trail, config)
    latest = next((attempt for attempt, _ in trail if _is_conclusive(attempt)), None)
    difficulty = metrics.difficulty
    kind = task_type_of(task.title, task.body)
    similar = (
        store.stats.group_by("model", "outcome", is_handover=0, task_kind=kind)
        if takes_model and _compares_models(config)
        else []
    )
    if difficulty and similar:
        same = store.stats.group_by("model", "outcome", is_handover=0, task_kind=kind, difficulty=difficulty.value)
        similar = same or similar
    overall = store.stats.group_by("model", "outcome", is_handover=0) if _uses_statistics(config) else []
    return TaskHistory(
        evidence=ModelEvidence(
            stuck_state=stuck_state,
            difficulty=difficulty,
            solved_by=metrics.suggested_model,
            recent=tuple(store.stats.recent_outcomes(config.models.window)),
            similar=_model_records(similar),
            overall=_model_records(overall),
            hint=latest.next_model if latest else "",
            hint_from=(latest.number or 0) if latest else 0,
        ),
        trail=tuple(trail),
    )


def stuck_state_of(trail: Sequence[tuple[Attempt, str]], config: Config) -> StuckState:
    """Return how stuck a task is, judging by its attempts."""
    past = [
        PastAttempt(
            number=attempt.number or 0,
            hat=attempt.hat,
            model=attempt.model or "",
            outcome=attempt.outcome,
            fingerprint=fingerprint,
            changed_files=attempt.change_mark != NO_CHANGE_MARK,
            change_mark=attempt.change_mark if attempt.change_mark != NO_CHANGE_MARK else "",
            checks_passed=attempt.checks_passed,
            checks_failed=attempt.checks_failed,
        )
        for attempt, fingerprint in trail
        if attempt.outcome is not None and _is_conclusive(attempt)
    ]
    return assess_attempts(past, stuck_after=config.execution.stuck_after, max_retries=config.execution.max_retries)


def _is_conclusive(attempt: Attempt) -> bool:
    """Return whether the outcome of an attempt says something about its task."""
    return attempt.outcome is not AttemptOutcome.INTERRUPTED and not attempt.excused


def _compares_models(config: Config) -> bool:
    """Return whether the strategy asks which models got similar tasks done."""
    return strategy_name(config.models, config.agent.model) != FIXED


def _uses_statistics(config: Config) -> bool:
    """Return whether the strategy depends on the success of models with all tasks."""
    return config.models.strategy == "cost-optimized"


def _model_records(rows: Sequence[Row]) -> tuple[ModelTotals, ...]:
    """Return one record per model from sums by model and outcome."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        if row["model"] and row["outcome"] != AttemptOutcome.INTERRUPTED:
            by_model.setdefault(row["model"], []).append(row)
    return tuple(
        ModelTotals(
            model=model,
            attempts=sum(row["attempts"] for row in group),
            done=sum(row["attempts"] for row in group if row["outcome"] == AttemptOutcome.DONE),
            cost_usd=sum(row["cost_usd"] for row in group),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in group),
        )
        for model, group in by_model.items()
    )
