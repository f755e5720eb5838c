"""What became of a memory, from its history: what each event changed, and how sure it was at any time.

Uses are no events, so what one did to the confidence is worked out from the next value that was kept.
"""

from __future__ import annotations

import json

from ralph.memory.lifecycle import DECAY_PER_WEEK, REWARD, days_between, days_of, faded, faded_from
from ralph.records import record, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ralph.records import Memory, MemoryEvent

FADED = "faded"
NOW = "now"
HELPED, DID_NOT_HELP = "helped", "did not help"
_LISTS = ("tags", "files", "origin_loops")
_WEEK_DAYS = 7
_EPOCH_DAYS = days_of("1970-01-01")
_DAY_SECONDS = 86_400


@record
class Point:
    """How sure a memory was at one moment."""

    at: str
    confidence: float
    what: str
    """What happened then: what an event says, `helped`, `did not help`, `faded`, or `now` at the end."""


@record
class Use:
    """An attempt that a memory was shown to, and that has ended."""

    at: str
    won: bool


def changed_fields(event: MemoryEvent) -> dict[str, tuple[object, object]]:
    """Give the fields that an event changed, each as it was and as it became; none when it is damaged."""
    was, became = _fields(event.was), _fields(event.became)
    return {name: (_value(name, was.get(name)), _value(name, became[name])) for name in became}


def _fields(kept: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(kept or "{}")
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
class _Mark:
    """Something that happened, and what it says of the confidence."""

    at: str
    what: str
    before: float | None = None
    after: float | None = None
    step: float = 0.0
    spoke_at: str
    """When something last spoke for the memory, this included: it fades from then on."""


def confidence_over_time(memory: Memory, events: Sequence[MemoryEvent], uses: Iterable[Use], at: str) -> list[Point]:
    """Give how sure a memory was from its first event up to now, oldest first; between events it fades by the week."""
    marks = _marks(memory, events, uses)
    points: list[Point] = []
    spoke_at, value = memory.created_at, memory.confidence
    for mark, kept in zip(marks, _kept(memory, marks), strict=True):
        if points:
            points += _fading(value, spoke_at, points[-1].at, mark.at)
        spoke_at, value = mark.spoke_at, kept
        points.append(Point(at=mark.at, confidence=faded_from(value, days_between(spoke_at, mark.at)), what=mark.what))
    if points:
        points += _fading(value, spoke_at, points[-1].at, at)
    points.append(Point(at=at, confidence=faded(memory, at), what=NOW))
    return points


def _marks(memory: Memory, events: Sequence[MemoryEvent], uses: Iterable[Use]) -> list[_Mark]:
    first = min((event.at for event in events), default=memory.created_at)
    happened: list[tuple[str, MemoryEvent | Use]] = [(event.at, event) for event in events]
    happened += [(use.at, use) for use in uses if use.at >= first]
    spoken = {"created_at": memory.created_at, "used_at": "", "verified_at": ""}
    marks = []
    for at, one in sorted(happened, key=lambda pair: pair[0]):
        if isinstance(one, Use):
            spoken["used_at"] = at
            step = REWARD if one.won else -REWARD
            marks.append(_Mark(at=at, what=HELPED if one.won else DID_NOT_HELP, step=step, spoke_at=_latest(spoken)))
            continue
        was, became = _fields(one.was), _fields(one.became)
        spoken |= {name: became[name] or "" for name in spoken if isinstance(became.get(name, 0), str | None)}
        marks.append(
            _Mark(
                at=at,
                what=one.what,
                before=_number(was.get("confidence")),
                after=_number(became.get("confidence")),
                spoke_at=_latest(spoken),
            )
        )
    return marks


def _latest(spoken: dict[str, str]) -> str:
    return max(spoken.values())


def _number(kept: object) -> float | None:
    return float(kept) if isinstance(kept, int | float) and 0 <= kept <= 1 else None


def _kept(memory: Memory, marks: Sequence[_Mark]) -> list[float]:
    """Give the confidence that was kept after each mark: from the present one backwards, because that is known."""
    kept = []
    value = memory.confidence
    for place in range(len(marks) - 1, -1, -1):
        mark = marks[place]
        value = value if mark.after is None else mark.after
        kept.append(value)
        if mark.before is not None:
            value = mark.before
        elif mark.step and place:
            weeks = max(0.0, days_between(marks[place - 1].spoke_at, mark.at)) // _WEEK_DAYS
            value = min(1.0, max(0.0, round(value - mark.step + DECAY_PER_WEEK * weeks, 6)))
    return kept[::-1]


def _fading(value: float, spoke_at: str, after: str, before: str) -> list[Point]:
    """Give a point for each week in which a confidence fell, between two moments."""
    points: list[Point] = []
    week = max(0, int(days_between(spoke_at, after) // _WEEK_DAYS))
    last = faded_from(value, week * _WEEK_DAYS)
    while True:
        week += 1
        sure = faded_from(value, week * _WEEK_DAYS)
        moment = _moment(days_of(spoke_at) + week * _WEEK_DAYS)
        if sure == last or moment >= before:
            return points
        if moment > after:
            points.append(Point(at=moment, confidence=sure, what=FADED))
        last = sure


def _moment(days: float) -> str:
    return timestamp((days - _EPOCH_DAYS) * _DAY_SECONDS)
