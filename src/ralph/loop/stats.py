"""Statistics of runs, models and memory."""

from __future__ import annotations

from ralph.core.records import record
from ralph.memory.estimates import estimate_for, estimates_by_type
from ralph.memory.lifecycle.lift import measure_lift
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.store.stats import add_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralph.core.records import Run
    from ralph.memory.lifecycle.estimates import Estimate
    from ralph.memory.lifecycle.lift import Lift
    from ralph.store import Store

SHOWN_RUNS = 20
SHOWN_DECISIONS = 10
SHOWN_MEMORIES = 5
HOURLY_FOR_DAYS = 2
"""Age of a project, in days, up to which the growth of its memory is shown by the hour."""
_HOUR, _DAY = len("2026-01-01T00"), len("2026-01-01")


@record
class RunStats:
    """Results of one run."""

    id: str
    agent: str
    started_at: str
    ended_at: str | None
    ending: str
    iterations: int
    done: int
    failed: int
    success_rate: float | None
    """Share of conclusive attempts that got their task done, 0 to 1."""
    seconds: float
    """Total duration of its attempts."""
    tokens: int | None
    """None if no attempt reported any; the same goes for the cost."""
    cost_usd: float | None


@record
class ModelStats:
    """Results and cost of one model."""

    model: str
    """Empty for the agent's default."""
    attempts: int
    done: int
    failed: int
    success_rate: float | None
    mean_seconds: float
    tokens: int | None
    """None if no attempt reported any; the same goes for the cost."""
    cost_usd: float | None
    cost_per_done_usd: float | None
    """Total cost per task done; None if none was done or no cost was reported."""


@record
class Decision:
    """Model chosen for an attempt, with the reason and the outcome."""

    run_id: str
    iteration: int
    task_id: str | None
    model: str
    reason: str
    outcome: str
    """Empty while it runs."""


@record
class FailureStats:
    """Unsuccessful attempts with one cause."""

    cause: str
    """`project`, `agent`, `service`, `person` or `ralph`."""
    attempts: int
    tasks: int
    seconds: float
    """Total duration of the attempts."""
    cost_usd: float | None
    """None if no attempt reported any."""
    latest: str
    """When the latest of them started."""


@record
class KindStats:
    """Active memories of one kind."""

    kind: str
    memories: int
    shown: int
    wins: int
    losses: int
    success_rate: float | None
    confidence: float
    """Mean."""


@record
class Growth:
    """Number of memories at the end of a day or an hour."""

    at: str
    memories: int
    confidence: float
    """Mean current confidence of the memories learned until then."""


@record
class MemoryGrowth:
    """Number of memories, now and over time, and how often they were shown."""

    memories: int
    shown: int
    growth: tuple[tuple[str, int], ...]
    """Days or hours, each with the number of memories at its end."""


@record
class Credit:
    """A memory and the outcomes of the attempts it was shown to."""

    id: str
    kind: str
    title: str
    wins: int
    losses: int
    confidence: float


@record
class MemoryStats:
    """Statistics of the memory and its effect on attempts."""

    memories: int
    shown: int
    wins: int
    losses: int
    success_rate: float | None
    kinds: tuple[KindStats, ...]
    growth: tuple[Growth, ...]
    helpful: tuple[Credit, ...]
    doubtful: tuple[Credit, ...]


class Stats:
    """Statistics of a project, computed on demand and cached until something changes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def runs(self, limit: int = SHOWN_RUNS, before: str = "") -> list[RunStats]:
        """Return the results of the latest runs, newest first, or of those before one."""
        return self.of(self._store.runs.latest(limit, before))

    def of(self, runs: Sequence[Run]) -> list[RunStats]:
        """Return the results of some runs."""
        sums = self._store.stats.by_run([run.id for run in runs])
        return [
            RunStats(
                id=run.id,
                agent=run.agent,
                started_at=run.started_at,
                ended_at=run.ended_at,
                ending=run.ending,
                iterations=run.iterations,
                done=sums[run.id]["done"],
                failed=sums[run.id]["failed"],
                success_rate=_rate(sums[run.id]["done"], sums[run.id]["failed"]),
                seconds=sums[run.id]["seconds"],
                tokens=_tokens(sums[run.id]),
                cost_usd=sums[run.id]["cost_usd"] or None,
            )
            for run in runs
        ]

    def models(self, run: str = "") -> list[ModelStats]:
        """Return results by model, overall or in one run, the one with the most attempts first."""
        sums = self._store.stats
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in sums.run_by_model(run) if run else sums.group_by("model", "outcome", "is_handover"):
            rows.setdefault(row["model"], []).append(row)
        found = [_model(model, add_up(some)) for model, some in rows.items()]
        return sorted(found, key=lambda one: (-one.attempts, one.model))

    def decisions(self, limit: int = SHOWN_DECISIONS) -> list[Decision]:
        """Return the models chosen for the latest attempts, newest first."""
        return [
            Decision(
                run_id=one.run_id,
                iteration=one.iteration,
                task_id=one.task_id,
                model=one.model or "",
                reason=one.model_reason,
                outcome=one.outcome or "",
            )
            for one in self._store.attempts.latest(limit)
        ]

    def estimates(self) -> list[Estimate]:
        """Return what finished tasks took, by type, the type with the most of them first."""
        return estimates_by_type(self._store)

    def estimate(self, title: str, body: str = "", difficulty: str = "") -> Estimate | None:
        """Return what tasks like one took so far; None if nothing is known."""
        return estimate_for(self._store, task_type_of(title, body), difficulty)

    def failures(self) -> list[FailureStats]:
        """Return unsuccessful attempts by what they failed because of, most frequent first."""
        return [
            FailureStats(
                cause=row["cause"] or "unknown",
                attempts=row["attempts"],
                tasks=row["tasks"],
                seconds=row["seconds"],
                cost_usd=row["cost_usd"] or None,
                latest=row["latest"],
            )
            for row in self._store.stats.failures_by_cause()
        ]

    def memory(self) -> MemoryStats:
        """Return statistics of the memory and its effect on attempts."""
        # An attempt that ends changes how sure memories are, which is no event of theirs.
        version = self._store.memories.history.last_event_seq(), self._store.events.last_seq()
        return self._store.figures.get("memory", version, self._of_memory)

    def memory_growth(self) -> MemoryGrowth:
        """Return how many memories there are, how often they were shown, and how their number grew."""
        stats, figures = self._store.memories.stats, self._store.figures
        version = self._store.memories.history.last_event_seq()
        counted = figures.get("growth", version, lambda: [(one.at, one.memories) for one in _growth(stats.by_hour())])
        shown = figures.get("shown", (version, self._store.events.last_seq()), stats.count_shown)
        return MemoryGrowth(memories=counted[-1][1] if counted else 0, shown=shown, growth=tuple(counted))

    def _of_memory(self) -> MemoryStats:
        stats = self._store.memories.stats
        kinds = tuple(KindStats(**row, success_rate=_rate(row["wins"], row["losses"])) for row in stats.by_kind())
        wins, losses = sum(one.wins for one in kinds), sum(one.losses for one in kinds)
        return MemoryStats(
            memories=sum(one.memories for one in kinds),
            shown=sum(one.shown for one in kinds),
            wins=wins,
            losses=losses,
            success_rate=_rate(wins, losses),
            kinds=kinds,
            growth=_growth(stats.by_hour()),
            helpful=tuple(Credit(**row) for row in stats.by_success(SHOWN_MEMORIES, helped=True)),
            doubtful=tuple(Credit(**row) for row in stats.by_success(SHOWN_MEMORIES, helped=False)),
        )

    def lift(self) -> Lift:
        """Return the effect of memory, measured by the attempts without it."""
        stats, figures = self._store.stats, self._store.figures
        # Most events are none of the experiment, which takes long to evaluate.
        version = figures.get("trials", self._store.events.last_seq(), stats.holdout_version)
        return figures.get("lift", version, lambda: measure_lift(stats.holdout_trials()))


def _rate(done: int, failed: int) -> float | None:
    return done / (done + failed) if done + failed else None


def _tokens(sums: Mapping[str, Any]) -> int | None:
    return int(sums["tokens_in"] + sums["tokens_out"]) or None


def _model(model: str, sums: Mapping[str, Any]) -> ModelStats:
    cost_usd = sums["cost_usd"] or None
    return ModelStats(
        model=model,
        attempts=sums["attempts"],
        done=sums["done"],
        failed=sums["failed"],
        success_rate=_rate(sums["done"], sums["failed"]),
        mean_seconds=sums["seconds"] / sums["attempts"],
        tokens=_tokens(sums),
        cost_usd=cost_usd,
        cost_per_done_usd=cost_usd / sums["done"] if cost_usd and sums["done"] else None,
    )


def _growth(hours: Sequence[Mapping[str, Any]]) -> tuple[Growth, ...]:
    """Return how the memory grew, by the hour while it is young."""
    days = {row["hour"][:_DAY] for row in hours}
    width = _HOUR if len(days) <= HOURLY_FOR_DAYS else _DAY
    found: dict[str, Growth] = {}
    memories, trusted = 0, 0.0
    for row in hours:
        memories += row["memories"]
        trusted += row["memories"] * row["confidence"]
        at = row["hour"][:width]
        found[at] = Growth(at=at, memories=memories, confidence=trusted / memories)
    return tuple(found.values())
