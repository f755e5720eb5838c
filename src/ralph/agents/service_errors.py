"""Errors of model services, read from what agents say about them: what is wrong, and when it will be over. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from ralph.core.records import record

if TYPE_CHECKING:
    from datetime import tzinfo


class ServiceProblem(StrEnum):
    """Why an agent could not use its model."""

    LOGIN = "not logged in"
    CREDIT = "no credit"
    MODEL = "unknown model"
    USAGE_LIMIT = "usage limit"
    OUTAGE = "outage"
    """Overloaded, out of reach, or anything else that may be over soon."""

    @property
    def is_permanent(self) -> bool:
        """Whether waiting does not help: a person has to do something."""
        return self in (ServiceProblem.LOGIN, ServiceProblem.CREDIT, ServiceProblem.MODEL)


@record
class ServiceError:
    """What keeps an agent from its model."""

    problem: ServiceProblem
    resets_at: datetime | None = None
    """When the agent can use its model again, if it says so."""


# The first match counts. The wordings are those of Claude Code, Codex, Gemini CLI, opencode, Qwen, Goose and their
# APIs.
_PROBLEMS = (
    (
        ServiceProblem.CREDIT,
        r"credit balance|insufficient_quota|billing_error|payment required|\b402\b|out of credits"
        r"|spend(?:ing)? (?:limit|cap)"
        r"|check your plan and billing|usage_not_included|with your ChatGPT plan, upgrade|quota exceeded\. check",
    ),
    (
        ServiceProblem.USAGE_LIMIT,
        r"(?:hit|reached) your .{0,40}\blimit|limit reached|usage.limit|out of extra usage|will reset (?:at|after)"
        r"|exhausted your .{0,40}(?:quota|capacity)|QUOTA_EXHAUSTED|quota .{0,20}exhausted",
    ),
    (
        ServiceProblem.LOGIN,
        r"not logged in|/login\b|invalid (?:x-)?api.?key|incorrect api key|\bauthenticat|unauthorized|\b401\b|\b403\b"
        r"|(?:token|credentials?) .{0,20}(?:expired|revoked|invalid)|please (?:log|sign) in"
        r"|no api key|api key not (?:valid|found)|set an auth method|missing provider",
    ),
    (
        ServiceProblem.MODEL,
        r"issue with the selected model|model_not_found|unknown model|does not offer the model"
        r"|offers no choice of models|rejected the model"
        r"|\bmodels?\b.{0,60}(?:not found|does not exist|not supported|is not available)",
    ),
)
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)?"
_DAY = r"(?:(?P<month>[A-Z][a-z]{2,8})\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,\s*(?P<year>\d{4}))?,?\s+(?:at\s+)?)?"
_AT = re.compile(
    rf"(?:resets?(?:\s+at)?|try again at|available again at)\s+{_DAY}{_CLOCK}"
    r"(?:\s*\((?P<zone>[A-Za-z_/+\-0-9]{1,40})\))?",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?:retry.after|resets? (?:in|after)|try again in|retry in)\W{0,4}"
    r"(?P<amount>(?:\d{1,9}(?:\.\d+)?\s*(?:h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)?\s*){1,3})",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*([hms])?", re.IGNORECASE)
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SAME_TIME = timedelta(minutes=2)
"""How long ago a time of day may be that means today, not tomorrow."""
MAX_WAIT = timedelta(days=32)
"""Longest wait that is believed."""


def read_service_error(words: str, at: datetime) -> ServiceError:
    """Return what an agent's error message says; `at` is the time of the message, in the local zone."""
    problem = next((one for one, pattern in _PROBLEMS if re.search(pattern, words, re.IGNORECASE)), None)
    resets_at = _reset_time(words, at)
    if resets_at and problem not in (ServiceProblem.LOGIN, ServiceProblem.MODEL):
        problem = ServiceProblem.USAGE_LIMIT
    return ServiceError(problem=problem or ServiceProblem.OUTAGE, resets_at=resets_at)


def _reset_time(words: str, at: datetime) -> datetime | None:
    found = _AFTER.search(words)
    if found and (seconds := _seconds(found["amount"])):
        return at + timedelta(seconds=seconds) if seconds <= MAX_WAIT.total_seconds() else None
    for match in _AT.finditer(words):
        if match["half"] or match["minute"] or match["day"]:  # "resets 5" alone is no time of day
            return _clock_time(match, at)
    return None


def _seconds(amount: str) -> float:
    return sum(float(number) * _UNIT_SECONDS[(unit or "s").lower()] for number, unit in _AMOUNT.findall(amount))


def _clock_time(match: re.Match[str], at: datetime) -> datetime | None:
    """Return the next time that a clock shows what the message says."""
    here = at.astimezone(_zone(match["zone"]) or at.tzinfo)
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        if match["day"]:
            month = _MONTHS.index(match["month"][:3].lower()) + 1
            year = int(match["year"]) if match["year"] else here.year
            time = here.replace(year, month, int(match["day"]), hour, minute, 0, 0)
            if not match["year"] and time < here - timedelta(days=180):
                time = time.replace(year=here.year + 1)
        else:
            time = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
            if time < here - _SAME_TIME:
                time += timedelta(days=1)
    except ValueError:  # no such day, month or hour
        return None
    return time.astimezone(UTC) if time - here <= MAX_WAIT else None


def _zone(name: str | None) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
