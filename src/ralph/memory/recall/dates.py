"""Dates that a query names: "what did we decide on 16 June, 2023?" asks for what was learned then."""

from __future__ import annotations

import re

from ralph.memory.lifecycle.confidence import days_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PERIODS = 5
"""Number of dates read from a query."""
HALF_DISTANCE_DAYS = 7.0
"""Days from a named date at which half of its weight is left: what happened is often told some days later."""
MAX_DAYS = 31
"""Number of days of the longest month."""
MIN_CLOSENESS = 0.05
"""Closeness to a date that counts."""
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<![\w.-]){_YEAR}-(?P<month>[01]\d)-(?P<day>[0-3]\d)\b",
        rf"(?<![\w.-]){_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?",
        rf"\b{_MONTH} {_DAY}\b(?:,? {_YEAR})?",
        rf"\b{_MONTH},? {_YEAR}",
        rf"\b(?:[Ii]n|[Ss]ince|[Ll]ast|[Dd]uring) {_MONTH}",
    )
)
"""Ways to write a date, the most precise ones first. A month alone needs a preposition: May and March are words."""


def named_periods(text: str, at: str) -> tuple[tuple[float, float], ...]:
    """Return the days and months that a text names, each by its first day and the one after its last.

    Without a year, it is the latest one that does not begin after `at`. Days are counted as `days_of` does.
    """
    periods: dict[tuple[float, float], None] = {}
    for pattern in _PATTERNS:
        for found in pattern.finditer(text):
            if period := _period(found.groupdict(), at):
                periods[period] = None
        text = pattern.sub(" ", text)
    return tuple(periods)[:MAX_PERIODS]


def closeness(day: float, periods: tuple[tuple[float, float], ...]) -> float:
    """Return how close a day is to the nearest period: 1 within it, half a week later or earlier, 0 far away."""
    distance = min(max(start - day, day - end, 0.0) for start, end in periods)
    share = 0.5 ** (distance / HALF_DISTANCE_DAYS)
    return share if share >= MIN_CLOSENESS else 0.0


def _period(parts: Mapping[str, str | None], at: str) -> tuple[float, float] | None:
    name, day, year = parts["month"] or "", parts.get("day"), parts.get("year")
    month = int(name) if name.isdigit() else 1 + _NAMES.index(name[:3].lower())
    if not 1 <= month <= len(_NAMES) or not 1 <= int(day or 1) <= MAX_DAYS:
        return None
    this_year = int(at[:4])
    for candidate in (int(year),) if year else (this_year, this_year - 1):
        start = days_of(f"{candidate:04d}-{month:02d}-{int(day or 1):02d}")
        if year or start <= days_of(at):
            following = f"{candidate + month // 12:04d}-{month % 12 + 1:02d}-01"
            return start, start + 1 if day else days_of(following)
    return None
