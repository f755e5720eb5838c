"""What a run and its tasks may use up, and how much of it is gone. Shared by all workers of a run."""

from __future__ import annotations

import threading
import time

from ralph.loop.order import RunEnding
from ralph.records import Outcome, Used, fields_of, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.loop.order import Order
    from ralph.records import Attempt


CENTS_FROM_USD = 0.1
ALMOST = 0.99
"""A session that is ended when its task's time is over may end a moment before."""


class Budget:
    """Counts what a run takes, and says when it has taken enough."""

    def __init__(self, order: Order, used: Used | None = None) -> None:
        """`used` is what the run took before, when it goes on."""
        self._order = order
        self._lock = threading.Lock()
        self._used = used or Used()
        self._begun = self._used.iterations
        self._began_with = self._used.iterations
        self._started = time.monotonic() - self._used.seconds

    @property
    def seconds(self) -> float:
        """How long the run has worked in all."""
        return time.monotonic() - self._started

    @property
    def used(self) -> Used:
        """What the run has taken in all."""
        with self._lock:
            return replace(self._used, iterations=self._begun, seconds=round(self.seconds, 3))

    @property
    def iterations(self) -> int:
        """The iterations begun since the run was started or went on."""
        return self._begun - self._began_with

    def take(self) -> bool:
        """Take one iteration of those that are left; False when there is none."""
        with self._lock:
            most = self._order.iterations
            if most and self._begun >= most:
                return False
            self._begun += 1
            return True

    def give_back(self) -> None:
        """Put one iteration back: nothing was there to begin."""
        with self._lock:
            self._begun -= 1

    def settle(self, attempt: Attempt) -> None:
        """Count what an attempt took."""
        with self._lock:
            self._used = replace(
                self._used,
                done=self._used.done + (attempt.outcome is Outcome.DONE and not attempt.handed_to),
                cost_usd=self._used.cost_usd + attempt.cost_usd,
                tokens=self._used.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
            )

    def limit(self) -> RunEnding | None:
        """Give the limit that is reached, if one is; those on iterations are for `take`."""
        if self.is_over_time():
            return RunEnding.LIMIT_MINUTES
        if self._order.cost_usd and self._used.cost_usd >= self._order.cost_usd:
            return RunEnding.LIMIT_COST
        if self._order.tokens and self._used.tokens >= self._order.tokens:
            return RunEnding.LIMIT_TOKENS
        return None

    def is_over_time(self) -> bool:
        """Say whether the run's minutes are over."""
        limit = self._order.minutes
        return bool(limit) and self.seconds >= limit * 60

    def left(self) -> list[str]:
        """Give how much is used up of every limit there is, for people."""
        return _shares(self.used, _caps(self._order))


@record
class Caps:
    """How much may be used up; 0 means no limit."""

    iterations: int
    minutes: float
    cost_usd: float
    tokens: int


def _caps(order: Order, prefix: str = "") -> Caps:
    return Caps(**{name: getattr(order, prefix + name) for name in Caps.__slots__})  # type: ignore[attr-defined]


def _shares(used: Used, caps: Caps) -> list[str]:
    """Give for each limit how much of it is used up."""
    shares = [
        (caps.iterations, f"{used.iterations} of {caps.iterations} iterations"),
        (caps.minutes, f"{used.seconds / 60:.1f} of {caps.minutes:g} minutes"),
        (caps.cost_usd, f"{usd(used.cost_usd)} of {usd(caps.cost_usd)}"),
        (caps.tokens, f"{used.tokens:,} of {caps.tokens:,} tokens"),
    ]
    return [text for cap, text in shares if cap]


# --- what a task may take ----------------------------------------------------------------


def used_by_task(before: Used, attempt: Attempt) -> Used:
    """Give what a task has taken with one more attempt."""
    return Used(
        iterations=before.iterations + 1,
        seconds=before.seconds + attempt.seconds,
        cost_usd=before.cost_usd + attempt.cost_usd,
        tokens=before.tokens + (attempt.tokens_in or 0) + (attempt.tokens_out or 0),
    )


def left_of_task(order: Order, used: Used) -> list[str]:
    """Give how much a task has used up of every limit on it, for people."""
    shares = _shares(used, _caps(order, "task_"))
    return [f"by this task {', '.join(shares)}"] if shares else []


def used_up(order: Order, used: Used) -> str:
    """Give which of its limits a task has used up; nothing when it may go on."""
    caps = _caps(order, "task_")
    spent = [
        (caps.iterations, used.iterations >= caps.iterations, f"its {caps.iterations} iterations"),
        (caps.minutes, used.seconds >= caps.minutes * 60 * ALMOST, f"its {caps.minutes:g} minutes"),
        (caps.cost_usd, used.cost_usd >= caps.cost_usd, f"its {usd(caps.cost_usd)}"),
        (caps.tokens, used.tokens >= caps.tokens, f"its {caps.tokens:,} tokens"),
    ]
    return next((name for cap, is_spent, name in spent if cap and is_spent), "")


def has_task_limits(order: Order) -> bool:
    """Say whether there is a limit on what a task may take."""
    return any(fields_of(_caps(order, "task_")).values())


def usd(amount: float) -> str:
    """Give an amount of money, small ones with more digits."""
    return f"${amount:.2f}" if amount == 0 or amount >= CENTS_FROM_USD else f"${amount:.4f}"
