"""Attempt statistics for model selection and stuck-task detection. Reads figures, never the text of attempts."""

from __future__ import annotations

from ralph.core.records import Outcome, record
from ralph.loop.strategy import Evidence, ModelRecord
from ralph.loop.stuck import NOTHING, Past, look
from ralph.memory.lifecycle.task_type import type_of_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, Task, TaskMetrics
    from ralph.loop.stuck import Trouble
    from ralph.store import Store
    from ralph.store.database import Row

TRAIL = 200
"""Maximum number of earlier attempts considered for a task."""


@record
class Gathered:
    """History of a task."""

    evidence: Evidence
    trail: tuple[tuple[Attempt, str], ...]
    """Finished attempts since it was last done or reset, newest first, each with its failure fingerprint."""

    @property
    def trouble(self) -> Trouble:
        """Common traits of the task's failures."""
        return self.evidence.trouble


def gather(store: Store, config: Config, task: Task, metrics: TaskMetrics) -> Gathered:
    """Return statistics on earlier attempts at a task and at similar tasks."""
    trail = store.attempts.trail(task, TRAIL) if metrics.total_attempts else []
    trouble = trouble_in(trail, config)
    latest = next((attempt for attempt, _ in trail if _is_conclusive(attempt)), None)
    difficulty = metrics.difficulty
    kind = type_of_work(task.title, task.body)
    alike = store.sums.by("model", "outcome", is_handover=0, task_kind=kind) if _uses_statistics(config) else []
    if difficulty and alike:
        same = store.sums.by("model", "outcome", is_handover=0, task_kind=kind, difficulty=difficulty.value)
        alike = same or alike
    overall = store.sums.by("model", "outcome", is_handover=0) if _uses_statistics(config) else []
    return Gathered(
        evidence=Evidence(
            trouble=trouble,
            difficulty=difficulty,
            solved_by=metrics.suggested_model,
            recent=tuple(store.attempts.recent_outcomes(config.models.window)),
            alike=_model_records(alike),
            overall=_model_records(overall),
            hint=latest.next_model if latest else "",
            hint_from=(latest.number or 0) if latest else 0,
        ),
        trail=tuple(trail),
    )


def trouble_in(trail: Sequence[tuple[Attempt, str]], config: Config) -> Trouble:
    """Return how stuck a task is, judging by its attempts."""
    past = [
        Past(
            number=attempt.number or 0,
            hat=attempt.hat,
            model=attempt.model or "",
            outcome=attempt.outcome,
            fingerprint=fingerprint,
            changed_files=attempt.change_mark != NOTHING,
            change_mark=attempt.change_mark if attempt.change_mark != NOTHING else "",
            checks_passed=attempt.checks_passed,
            checks_failed=attempt.checks_failed,
        )
        for attempt, fingerprint in trail
        if attempt.outcome is not None and _is_conclusive(attempt)
    ]
    return look(past, stuck_after=config.execution.stuck_after, max_retries=config.execution.max_retries)


def _is_conclusive(attempt: Attempt) -> bool:
    """Return whether the outcome of an attempt says something about its task."""
    return attempt.outcome is not Outcome.INTERRUPTED and not attempt.excused


def _uses_statistics(config: Config) -> bool:
    """Return whether the strategy depends on the success of models so far."""
    return config.models.strategy == "cost-optimized"


def _model_records(rows: Sequence[Row]) -> tuple[ModelRecord, ...]:
    """Return one record per model from sums by model and outcome."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        if row["model"] and row["outcome"] != Outcome.INTERRUPTED:
            by_model.setdefault(row["model"], []).append(row)
    return tuple(
        ModelRecord(
            model=model,
            attempts=sum(row["attempts"] for row in group),
            done=sum(row["attempts"] for row in group if row["outcome"] == Outcome.DONE),
            cost_usd=sum(row["cost_usd"] for row in group),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in group),
        )
        for model, group in by_model.items()
    )
