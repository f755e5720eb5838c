"""Classification of unsuccessful attempts by what they failed because of.

Only failures of the project can become memories; all others are counted in the statistics. Everything is derived from
what an attempt stores, so that attempts of earlier versions can be classified like new ones.
"""

from __future__ import annotations

import re

from ralph.core.records import LIMIT_CATEGORIES, AttemptOutcome, FailureCause

NO_REASON = "the agent gave no reason"
SAID_NOTHING = "The agent said nothing."
"""What an attempt tried whose agent left no words."""
"""Recorded as the reason of a failure that the agent did not explain."""

# How agents report that the service of their model failed them. Not searched for in the output of gates, so that a
# test of the project that is about logins or limits is not taken for one.
_SERVICE_ERROR = re.compile(
    r"\bnot logged in\b|\brun /login\b|\b(?:please|to) log ?in\b|\blog ?in (?:again|first|required)\b|\bauth login\b"
    r"|\binvalid api key\b|\bapi key (?:not found|is (?:missing|invalid))|\bno api key\b|\bapi error\b"
    r"|\b(?:failed to|could not) authenticate\b|\bauthentication[ _](?:failed|error|required)\b|\bunauthori[sz]ed\b"
    r"|\b(?:http|status(?: code)?|error)\W{0,3}(?:401|402|403|408|429|5\d\d)\b"
    r"|\b(?:401|402|403|429|5\d\d) (?:unauthorized|payment|forbidden|too many|internal|bad gateway|service|overloaded)"
    r"|\bcredit balance\b|\b(?:insufficient|no|out of) (?:credits?|quota|funds)\b|\binsufficient_quota\b"
    r"|\bquota (?:exceeded|exhausted)\b|\bexhausted your .{0,30}quota\b|\bbilling[ _]error\b|\bspending cap\b"
    r"|\b(?:usage|rate|session|weekly|daily|monthly|5-hour|spend|token) limit\b|\bhit your .{0,30}\blimit\b"
    r"|\brate[_ ]?limited\b|\btoo many requests\b|\bout of extra usage\b|\boverloaded\b|\bat capacity\b"
    r"|\bmodel_not_found\b|\bissue with the selected model\b|\bcould not use its model\b|\bprinted nothing for\b",
    re.IGNORECASE,
)
# What breaks off a session, but may be a database of the project where an agent reports it.
_NETWORK_ERROR = re.compile(
    r"\beconn(?:refused|reset|aborted)\b|\benotfound\b|\beai_again\b|\betimedout\b|\brequest timed out\b"
    r"|\bconnection (?:refused|reset|error|aborted|failed|timed out)\b|\bcould not resolve host\b"
    r"|\bnetwork is unreachable\b|\b(?:service|temporarily) unavailable\b|\bbad gateway\b|\bgateway time-?out\b",
    re.IGNORECASE,
)
# What only the programs of agents say, so that it is not about the project where an agent reports it as its failure.
_OWN_SERVICE_ERROR = re.compile(
    r"\brun /login\b|\bcredit balance is too low\b|\b(?:usage|session|weekly|5-hour) limit reached\b"
    r"|\bhit your .{0,30}\blimit\b|\bout of extra usage\b|\bexhausted your .{0,30}quota on this model\b",
    re.IGNORECASE,
)
_OWN_ERROR = re.compile(r"^ralph failed\b|\bno longer exists, so the agent had no directory\b", re.IGNORECASE)
_INTERRUPTED_BY_PERSON = re.compile(
    r"\bby a person\b|\ba person stopped\b|\binterrupted\b|^stopped\.?$|^$", re.IGNORECASE
)
_CAUSES = {
    "refusal": FailureCause.AGENT,
    "too_large": FailureCause.AGENT,
    "no_sigil": FailureCause.AGENT,
    "wrong_task": FailureCause.AGENT,
    "out_of_turns": FailureCause.AGENT,
    "not_verified": FailureCause.AGENT,
    "protected_files": FailureCause.AGENT,
    "output_flood": FailureCause.AGENT,
    "model_failed": FailureCause.SERVICE,
    "not_merged": FailureCause.PERSON,
    "question": FailureCause.PERSON,
    "merge_conflict": FailureCause.RALPH,
    **dict.fromkeys(LIMIT_CATEGORIES, FailureCause.RALPH),
}
"""Causes of failures whose category says it all."""


def failure_cause(
    outcome: AttemptOutcome | None, category: str, reason: str, *, excused: bool = False
) -> FailureCause | None:
    """Return what an attempt failed because of; None if it was done or is running.

    `category` is the one of its failure report, `reason` the reason of its outcome.
    """
    if outcome is None or outcome is AttemptOutcome.DONE:
        return None
    if excused:
        return FailureCause.SERVICE
    if outcome is AttemptOutcome.INTERRUPTED:
        return FailureCause.PERSON if _INTERRUPTED_BY_PERSON.search(reason) else FailureCause.RALPH
    if category in _CAUSES:
        return _CAUSES[category]
    if outcome in (AttemptOutcome.ERROR, AttemptOutcome.BLOCKED):
        return _session_error_cause(reason)
    if outcome is AttemptOutcome.FAILED and _OWN_SERVICE_ERROR.search(reason):
        return FailureCause.SERVICE
    return FailureCause.AGENT if reason in ("", NO_REASON) else FailureCause.PROJECT


def _session_error_cause(reason: str) -> FailureCause:
    if _OWN_ERROR.search(reason):
        return FailureCause.RALPH
    is_service = is_service_error(reason) or _NETWORK_ERROR.search(reason)
    return FailureCause.SERVICE if is_service else FailureCause.AGENT


def is_service_error(error: str) -> bool:
    """Return whether the error of a session says that the service of its model failed."""
    return bool(_SERVICE_ERROR.search(error))
