"""Attempts that were cut off."""

from __future__ import annotations

import time

from ralph.core.records import AttemptOutcome, FailureCause, replace, timestamp
from ralph.memory.lifecycle.confidence import days_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Attempt


def as_interrupted(attempt: Attempt, reason: str) -> Attempt:
    """Return the attempt with the outcome `interrupted`."""
    return replace(
        attempt,
        outcome=AttemptOutcome.INTERRUPTED,
        reason=reason,
        error_type=None,
        cause=FailureCause.RALPH,
        ended_at=attempt.ended_at or _last_alive(attempt),
    )


def _last_alive(attempt: Attempt) -> str:
    """Return when an open attempt last showed a sign of life."""
    current = time.time()
    return timestamp(current - days_between(attempt.started_at, timestamp(current)) * 86_400 + attempt.seconds)
