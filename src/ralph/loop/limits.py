"""Limits of a run and of its tasks, and what has been used of them. Shared by all workers of a run."""

from __future__ import annotations

import threading
import time

from ralph.core.records import Outcome, Used, fields_of, record, replace
from ralph.loop.options import RunEnding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Attempt
    from ralph.loop.options import Order


CENTS_FROM_USD = 0.1
"""Amount from which costs are shown with two decimals, in USD."""
ALMOST = 0.99
"""Share of a task's minutes that counts as all of them: a session may end slightly early."""


class Budget:
    """Thread-safe account of what a run has used of its limits."""

    def __init__(self, order: Order, used: Used | None = None) -> None:
        """`used` is what a resumed run has used before."""
        self._order = order
        self._lock = threading.Lock()
        self._used = used or Used()
        self._started_iterations = self._used.iterations
        self._initial_iterations = self._used.iterations
        self._started_at = time.monotonic() - self._used.seconds

    @property
    def seconds(self) -> float:
        """Total duration of the run, in seconds."""
        return time.monotonic() - self._started_at

    @property
    def used(self) -> Used:
        """Total usage of the run."""
        with self._lock:
            return replace(self._used, iterations=self._started_iterations, seconds=round(self.seconds, 3))

    @property
    def iterations(self) -> int:
        """Number of iterations started since the run was started or resumed."""
        return self._started_iterations - self._initial_iterations

    def take(self) -> bool:
        """Reserve one iteration; return False if none is left."""
        with self._lock:
            limit = self._order.iterations
            if limit and self._started_iterations >= limit:
                return False
            self._started_iterations += 1
            return True

    def give_back(self) -> None:
        """Return a reserved iteration that was not used."""
        with self._lock:
            self._started_iterations -= 1

    def settle(self, attempt: Attempt) -> None:
        """Add the usage of a finished attempt."""
        with self._lock:
            self._used = replace(
                self._used,
                done=self._used.done + (attempt.outcome is Outcome.DONE and not attempt.handed_to),
                cost_usd=self._used.cost_usd + attempt.cost_usd,
                tokens=self._used.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
            )

    def limit(self) -> RunEnding | None:
        """Return the limit on time, cost or tokens that has been reached, if any; `take` checks iterations."""
        if self.is_over_time():
            return RunEnding.LIMIT_MINUTES
        if self._order.cost_usd and self._used.cost_usd >= self._order.cost_usd:
            return RunEnding.LIMIT_COST
        if self._order.tokens and self._used.tokens >= self._order.tokens:
            return RunEnding.LIMIT_TOKENS
        return None

    def is_over_time(self) -> bool:
        """Return whether the time limit of the run has been reached."""
        limit = self._order.minutes
        return bool(limit) and self.seconds >= limit * 60

    def left(self) -> list[str]:
        """Return the usage of each limit as text, such as "3 of 10 iterations"."""
        return _shares(self.used, _caps(self._order))


@record
class Caps:
    """Limits on usage; 0 means no limit."""

    iterations: int
    minutes: float
    cost_usd: float
    tokens: int


def _caps(order: Order, prefix: str = "") -> Caps:
    return Caps(**{name: getattr(order, prefix + name) for name in Caps.__slots__})  # type: ignore[attr-defined]


def _shares(used: Used, caps: Caps) -> list[str]:
    """Return the usage of each limit as text."""
    shares = [
        (caps.iterations, f"{used.iterations} of {caps.iterations} iterations"),
        (caps.minutes, f"{used.seconds / 60:.1f} of {caps.minutes:g} minutes"),
        (caps.cost_usd, f"{usd(used.cost_usd)} of {usd(caps.cost_usd)}"),
        (caps.tokens, f"{used.tokens:,} of {caps.tokens:,} tokens"),
    ]
    return [text for cap, text in shares if cap]


# --- limits of a task --------------------------------------------------------------------


def used_by_task(before: Used, attempt: Attempt) -> Used:
    """Return the usage of a task including one more attempt."""
    return Used(
        iterations=before.iterations + 1,
        seconds=before.seconds + attempt.seconds,
        cost_usd=before.cost_usd + attempt.cost_usd,
        tokens=before.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
    )


def left_of_task(order: Order, used: Used) -> list[str]:
    """Return the usage of each limit of a task as text."""
    shares = _shares(used, _caps(order, "task_"))
    return [f"by this task {', '.join(shares)}"] if shares else []


def used_up(order: Order, used: Used) -> str:
    """Return the limit a task has used up as text, or an empty string."""
    caps = _caps(order, "task_")
    spent = [
        (caps.iterations, used.iterations >= caps.iterations, f"its {caps.iterations} iterations"),
        (caps.minutes, used.seconds >= caps.minutes * 60 * ALMOST, f"its {caps.minutes:g} minutes"),
        (caps.cost_usd, used.cost_usd >= caps.cost_usd, f"its {usd(caps.cost_usd)}"),
        (caps.tokens, used.tokens >= caps.tokens, f"its {caps.tokens:,} tokens"),
    ]
    return next((name for cap, is_spent, name in spent if cap and is_spent), "")


def has_task_limits(order: Order) -> bool:
    """Return whether any limit per task is set."""
    return any(fields_of(_caps(order, "task_")).values())


def usd(amount: float) -> str:
    """Format an amount in USD, with more digits for small ones."""
    return f"${amount:.2f}" if amount == 0 or amount >= CENTS_FROM_USD else f"${amount:.4f}"
