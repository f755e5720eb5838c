"""History of a memory: the fields each event changed, and the confidence over time.

Uses are not recorded as events, so their effect on the confidence is reconstructed from the next stored value.
"""

from __future__ import annotations

import json

from ralph.core.records import record, timestamp
from ralph.memory.lifecycle.confidence import (
    CONFIDENCE_GAIN,
    DECAY_PER_WEEK,
    current_confidence,
    days_between,
    days_of,
    decayed_confidence,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ralph.core.records import Memory, MemoryEvent

FADED = "faded"
NOW = "now"
HELPED, DID_NOT_HELP = "helped", "did not help"
_LISTS = ("tags", "files", "origin_loops")
_WEEK_DAYS = 7
_EPOCH_DAYS = days_of("1970-01-01")
_DAY_SECONDS = 86_400


@record
class ConfidenceAt:
    """Confidence of a memory at one moment."""

    at: str
    confidence: float
    what: str
    """Cause: the name of an event, `helped`, `did not help`, `faded`, or `now` for the last point."""


@record
class MemoryUse:
    """A finished attempt that was shown a memory."""

    at: str
    succeeded: bool


def changed_fields(event: MemoryEvent) -> dict[str, tuple[object, object]]:
    """Return the fields an event changed, with old and new values; empty if the event is damaged."""
    was, became = _fields(event.was), _fields(event.became)
    return {name: (_value(name, was.get(name)), _value(name, became[name])) for name in became}


def _fields(stored: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(stored or "{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _value(name: str, stored: object) -> object:
    if name in _LISTS and isinstance(stored, str):
        try:
            return json.loads(stored)
        except ValueError:
            return stored
    return stored


# --- confidence over time ------------------------------------------------------------


@record
class _Step:
    """An event or a use, with its effect on the confidence."""

    at: str
    what: str
    before: float | None = None
    after: float | None = None
    delta: float = 0.0
    confirmed_at: str
    """Time of the last confirmation up to and including this step, from which the confidence decays."""


def trace_confidence(
    memory: Memory, events: Sequence[MemoryEvent], uses: Iterable[MemoryUse], at: str
) -> list[ConfidenceAt]:
    """Return the confidence from the first event until now, oldest first, with weekly decay in between."""
    steps = _steps(memory, events, uses)
    points: list[ConfidenceAt] = []
    confirmed_at, value = memory.created_at, memory.confidence
    for step, stored in zip(steps, _stored_values(memory, steps), strict=True):
        if points:
            points += _decay_points(value, confirmed_at, points[-1].at, step.at)
        confirmed_at, value = step.confirmed_at, stored
        points.append(
            ConfidenceAt(
                at=step.at, confidence=decayed_confidence(value, days_between(confirmed_at, step.at)), what=step.what
            )
        )
    if points:
        points += _decay_points(value, confirmed_at, points[-1].at, at)
    points.append(ConfidenceAt(at=at, confidence=current_confidence(memory, at), what=NOW))
    return points


def _steps(memory: Memory, events: Sequence[MemoryEvent], uses: Iterable[MemoryUse]) -> list[_Step]:
    first = min((event.at for event in events), default=memory.created_at)
    items: list[tuple[str, MemoryEvent | MemoryUse]] = [(event.at, event) for event in events]
    items += [(use.at, use) for use in uses if use.at >= first]
    confirmed = {"created_at": memory.created_at, "used_at": "", "verified_at": ""}
    steps = []
    for at, item in sorted(items, key=lambda pair: pair[0]):
        if isinstance(item, MemoryUse):
            confirmed["used_at"] = at
            delta = CONFIDENCE_GAIN if item.succeeded else -CONFIDENCE_GAIN
            steps.append(
                _Step(
                    at=at, what=HELPED if item.succeeded else DID_NOT_HELP, delta=delta, confirmed_at=_latest(confirmed)
                )
            )
            continue
        was, became = _fields(item.was), _fields(item.became)
        confirmed |= {name: became[name] or "" for name in confirmed if isinstance(became.get(name, 0), str | None)}
        steps.append(
            _Step(
                at=at,
                what=item.what,
                before=_number(was.get("confidence")),
                after=_number(became.get("confidence")),
                confirmed_at=_latest(confirmed),
            )
        )
    return steps


def _latest(confirmed: dict[str, str]) -> str:
    return max(confirmed.values())


def _number(stored: object) -> float | None:
    return float(stored) if isinstance(stored, int | float) and 0 <= stored <= 1 else None


def _stored_values(memory: Memory, steps: Sequence[_Step]) -> list[float]:
    """Return the stored confidence after each step, computed backwards from the current one."""
    values = []
    value = memory.confidence
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        value = value if step.after is None else step.after
        values.append(value)
        if step.before is not None:
            value = step.before
        elif step.delta and index:
            weeks = max(0.0, days_between(steps[index - 1].confirmed_at, step.at)) // _WEEK_DAYS
            value = min(1.0, max(0.0, round(value - step.delta + DECAY_PER_WEEK * weeks, 6)))
    return values[::-1]


def _decay_points(value: float, confirmed_at: str, after: str, before: str) -> list[ConfidenceAt]:
    """Return one point for each week in which the confidence decayed between two moments."""
    points: list[ConfidenceAt] = []
    week = max(0, int(days_between(confirmed_at, after) // _WEEK_DAYS))
    previous = decayed_confidence(value, week * _WEEK_DAYS)
    while True:
        week += 1
        confidence = decayed_confidence(value, week * _WEEK_DAYS)
        moment = _timestamp(days_of(confirmed_at) + week * _WEEK_DAYS)
        if confidence == previous or moment >= before:
            return points
        if moment > after:
            points.append(ConfidenceAt(at=moment, confidence=confidence, what=FADED))
        previous = confidence


def _timestamp(days: float) -> str:
    return timestamp((days - _EPOCH_DAYS) * _DAY_SECONDS)
