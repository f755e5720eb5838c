"""Gather what the choice of a model and the watch for stuck tasks look at: queries over attempts, never their text."""

from __future__ import annotations

from ralph.loop.strategy import Evidence, ModelRecord
from ralph.loop.stuck import NOTHING, Past, look
from ralph.memory.task_type import type_of_work
from ralph.records import Outcome, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.config import Config
    from ralph.loop.stuck import Trouble
    from ralph.records import Attempt, Task, TaskMetrics
    from ralph.store import Store
    from ralph.store.database import Row

TRAIL = 200
"""So many of the latest attempts at a task are looked at."""


@record
class Gathered:
    """What is known of a task's past."""

    evidence: Evidence
    trail: tuple[tuple[Attempt, str], ...]
    """Ended attempts since it was last done or reset, newest first, each with the fingerprint of its failure."""

    @property
    def trouble(self) -> Trouble:
        """How stuck it is."""
        return self.evidence.trouble


def gather(store: Store, config: Config, task: Task, metrics: TaskMetrics) -> Gathered:
    """Give what the attempts so far say about a task and about tasks like it."""
    trail = store.attempts.trail(task, TRAIL) if metrics.total_attempts else []
    trouble = trouble_in(trail, config)
    latest = next((attempt for attempt, _ in trail if _is_telling(attempt)), None)
    difficulty = metrics.difficulty
    kind = type_of_work(task.title, task.body)
    alike = store.sums.by("model", "outcome", is_handover=0, task_kind=kind) if _is_asked(config) else []
    if difficulty and alike:
        same = store.sums.by("model", "outcome", is_handover=0, task_kind=kind, difficulty=difficulty.value)
        alike = same or alike
    overall = store.sums.by("model", "outcome", is_handover=0) if _is_asked(config) else []
    return Gathered(
        evidence=Evidence(
            trouble=trouble,
            difficulty=difficulty,
            solved_by=metrics.suggested_model,
            recent=tuple(store.attempts.recent_outcomes(config.models.window)),
            alike=_records(alike),
            overall=_records(overall),
            hint=latest.next_model if latest else "",
            hint_from=(latest.number or 0) if latest else 0,
        ),
        trail=tuple(trail),
    )


def trouble_in(trail: Sequence[tuple[Attempt, str]], config: Config) -> Trouble:
    """Say how stuck a task is by the trail of its attempts."""
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
        if attempt.outcome is not None and _is_telling(attempt)
    ]
    return look(past, stuck_after=config.execution.stuck_after, max_retries=config.execution.max_retries)


def _is_telling(attempt: Attempt) -> bool:
    """Say whether how an attempt ended tells something of its task."""
    return attempt.outcome is not Outcome.INTERRUPTED and not attempt.excused


def _is_asked(config: Config) -> bool:
    """Say whether the strategy looks at how models did before."""
    return config.models.strategy == "cost-optimized"


def _records(rows: Sequence[Row]) -> tuple[ModelRecord, ...]:
    """Give what each model did, of sums by model and outcome."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["model"] and row["outcome"] != Outcome.INTERRUPTED:
            found.setdefault(row["model"], []).append(row)
    return tuple(
        ModelRecord(
            model=model,
            attempts=sum(row["attempts"] for row in of_it),
            done=sum(row["attempts"] for row in of_it if row["outcome"] == Outcome.DONE),
            cost_usd=sum(row["cost_usd"] for row in of_it),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in of_it),
        )
        for model, of_it in found.items()
    )
