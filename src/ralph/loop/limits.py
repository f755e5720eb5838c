"""Limits of a run and of its tasks, and what has been used of them. Shared by all workers of a run."""

from __future__ import annotations

import threading
import time

from ralph.core.records import AttemptOutcome, ResourceUsage, record, record_fields, replace
from ralph.core.text import format_usd
from ralph.loop.options import RunEnding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Attempt
    from ralph.loop.options import RunOptions

NO_LIMIT = float("inf")
"""Seconds of a session or gate without a timeout."""
NEARLY_USED = 0.8
"""Share of a limit of the run from which it is reported as nearly used."""
TIME_LIMIT_TOLERANCE = 0.99
"""Share of a task's minutes that counts as all of them: a session may end slightly early."""


class Budget:
    """Thread-safe account of what a run has used of its limits."""

    def __init__(self, run_options: RunOptions, used: ResourceUsage | None = None) -> None:
        """`used` is what a resumed run has used before."""
        self._options = run_options
        self._lock = threading.Lock()
        self._used = used or ResourceUsage()
        self._started_iterations = self._used.iterations
        self._initial_iterations = self._used.iterations
        self._started_at = time.monotonic() - self._used.seconds
        self._reported: set[int] = set()
        """Limits that were reported as nearly used."""

    @property
    def seconds(self) -> float:
        """Total duration of the run, in seconds."""
        return time.monotonic() - self._started_at

    @property
    def used(self) -> ResourceUsage:
        """Total usage of the run."""
        with self._lock:
            return replace(self._used, iterations=self._started_iterations, seconds=round(self.seconds, 3))

    @property
    def iterations(self) -> int:
        """Number of iterations started since the run was started or resumed."""
        return self._started_iterations - self._initial_iterations

    def reserve_iteration(self) -> bool:
        """Reserve one iteration; return False if none is left."""
        with self._lock:
            limit = self._options.iterations
            if limit and self._started_iterations >= limit:
                return False
            self._started_iterations += 1
            return True

    def release_iteration(self) -> None:
        """Return a reserved iteration that was not used."""
        with self._lock:
            self._started_iterations -= 1

    def add_attempt(self, attempt: Attempt) -> None:
        """Add the usage of a finished attempt."""
        with self._lock:
            self._used = replace(
                self._used,
                done=self._used.done + (attempt.outcome is AttemptOutcome.DONE and not attempt.handed_to),
                cost_usd=self._used.cost_usd + attempt.cost_usd,
                tokens=self._used.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
            )

    def reached_limit(self) -> RunEnding | None:
        """Return the limit on time, cost or tokens that has been reached, if any."""
        if self.is_over_time():
            return RunEnding.LIMIT_MINUTES
        if self._options.cost_usd and self._used.cost_usd >= self._options.cost_usd:
            return RunEnding.LIMIT_COST
        if self._options.tokens and self._used.tokens >= self._options.tokens:
            return RunEnding.LIMIT_TOKENS
        return None

    def is_over_time(self) -> bool:
        """Return whether the time limit of the run has been reached."""
        limit = self._options.minutes
        return bool(limit) and self.seconds >= limit * 60

    def seconds_left(self) -> float:
        """Return how long the run may go on, in seconds."""
        limit = self._options.minutes
        return limit * 60 - self.seconds if limit else NO_LIMIT

    def newly_scarce(self) -> list[str]:
        """Return the usage of each limit that is nearly used as text, once for each limit."""
        used, caps = self.used, _caps(self._options)
        amounts = (
            (used.iterations, caps.iterations),
            (used.seconds / 60, caps.minutes),
            (used.cost_usd, caps.cost_usd),
            (used.tokens, caps.tokens),
        )
        scarce = {index for index, (amount, cap) in enumerate(amounts) if NEARLY_USED * cap <= amount < cap}
        with self._lock:
            new, self._reported = scarce - self._reported, self._reported | scarce
        texts = _share_texts(used, caps)
        return [texts[index][1] for index in sorted(new)]

    def usage_lines(self) -> list[str]:
        """Return the usage of each limit as text, such as "3 of 10 iterations"."""
        return _shares(self.used, _caps(self._options))


@record
class UsageLimits:
    """Limits on usage; 0 means no limit."""

    iterations: int
    minutes: float
    cost_usd: float
    tokens: int


def _caps(run_options: RunOptions, prefix: str = "") -> UsageLimits:
    return UsageLimits(**{name: getattr(run_options, prefix + name) for name in UsageLimits.__slots__})  # type: ignore[attr-defined]


def _shares(used: ResourceUsage, caps: UsageLimits) -> list[str]:
    """Return the usage of each limit as text; cost and tokens are left out if an agent worked and told none."""
    if used.iterations:
        caps = replace(caps, cost_usd=used.cost_usd and caps.cost_usd, tokens=used.tokens and caps.tokens)
    return [text for cap, text in _share_texts(used, caps) if cap]


def _share_texts(used: ResourceUsage, caps: UsageLimits) -> list[tuple[float, str]]:
    return [
        (caps.iterations, f"{used.iterations} of {caps.iterations} iterations"),
        (caps.minutes, f"{used.seconds / 60:.1f} of {caps.minutes:g} minutes"),
        (caps.cost_usd, f"{format_usd(used.cost_usd)} of {format_usd(caps.cost_usd)}"),
        (caps.tokens, f"{used.tokens:,} of {caps.tokens:,} tokens"),
    ]


# --- limits of a task --------------------------------------------------------------------


def add_attempt_usage(before: ResourceUsage, attempt: Attempt) -> ResourceUsage:
    """Return the usage of a task including one more attempt."""
    return ResourceUsage(
        iterations=before.iterations + 1,
        seconds=before.seconds + attempt.seconds,
        cost_usd=before.cost_usd + attempt.cost_usd,
        tokens=before.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
    )


def task_usage_lines(run_options: RunOptions, used: ResourceUsage) -> list[str]:
    """Return the usage of each limit of a task as text."""
    shares = _shares(used, _caps(run_options, "task_"))
    return [f"by this task {', '.join(shares)}"] if shares else []


def exhausted_task_limit(run_options: RunOptions, used: ResourceUsage) -> str:
    """Return the limit a task has used up as text, or an empty string."""
    caps = _caps(run_options, "task_")
    spent = [
        (caps.iterations, used.iterations >= caps.iterations, f"its {caps.iterations} iterations"),
        (caps.minutes, used.seconds >= caps.minutes * 60 * TIME_LIMIT_TOLERANCE, f"its {caps.minutes:g} minutes"),
        (caps.cost_usd, used.cost_usd >= caps.cost_usd, f"its {format_usd(caps.cost_usd)}"),
        (caps.tokens, used.tokens >= caps.tokens, f"its {caps.tokens:,} tokens"),
    ]
    return next((name for cap, is_spent, name in spent if cap and is_spent), "")


def has_task_limits(run_options: RunOptions) -> bool:
    """Return whether any limit per task is set."""
    return any(record_fields(_caps(run_options, "task_")).values())
