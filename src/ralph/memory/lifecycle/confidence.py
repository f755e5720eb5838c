"""Confidence of a memory over its lifetime, and the rules for cleanup.

Confidence decays over time, but the decayed value is only computed, never stored: reading it or cleaning up twice does
not apply the decay twice.
"""

from __future__ import annotations

from functools import lru_cache

from ralph.core.limits import MAX_TAGS
from ralph.core.memory_types import LEARNING_CATEGORIES
from ralph.core.records import MemorySource, replace
from ralph.core.text import extract_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Memory

INITIAL_CONFIDENCE = {MemorySource.EXPLICIT: 0.6, MemorySource.AUTOMATIC: 0.5, MemorySource.IMPORTED: 0.7}
"""Initial confidence by source."""
GATE_FIX_CONFIDENCE = 0.7
"""Initial confidence of a fix for a failing gate."""
CRITIC_CONFIDENCE = 0.6
"""Initial confidence of a review finding."""

CONFIDENCE_GAIN = 0.02
"""Confidence gained when a memory helped or was learned again."""
MAX_CONFIDENCE = 0.95
"""Maximum confidence reached by use."""
MIN_BASE_RATE, MAX_BASE_RATE = 0.2, 0.8
"""Bounds of the base success rate, whatever the recent rate of the project was."""
DECAY_PER_WEEK = 0.02
"""Confidence lost per week without confirmation."""
MIN_DECAYED_CONFIDENCE = 0.1
"""Confidence at which the decay stops."""
MAX_ESTIMATE_CONFIDENCE = 0.9
"""Maximum confidence of an estimate."""

CLEANUP_BELOW_CONFIDENCE = 0.15
"""Confidence below which an old memory that was never used is cleaned up."""
OLD_DAYS = 30
"""Age from which a memory counts as old, in days."""
LEARNING_EXPIRY_DAYS = 90
"""Age from which a learning may expire, in days."""
MAX_CLEANUP_SHARE = 0.2
"""Share of a store above which a cleanup needs confirmation, because it is probably a mistake."""
ALWAYS_REMOVABLE = 5
"""Number of memories a cleanup may always remove without confirmation."""


def current_confidence(memory: Memory, at: str) -> float:
    """Return the current confidence, reduced for every whole week since the memory was last confirmed."""
    latest = max(filter(None, (memory.used_at, memory.verified_at, memory.created_at)))
    return decayed_confidence(memory.confidence, days_between(latest, at))


def decayed_confidence(confidence: float, days: float) -> float:
    """Return the current value of a confidence last confirmed the given number of days ago."""
    weeks = int(max(0.0, days) // 7)
    return (
        max(min(MIN_DECAYED_CONFIDENCE, confidence), round(confidence - DECAY_PER_WEEK * weeks, 6))
        if weeks
        else confidence
    )


def record_use(memory: Memory, at: str, *, succeeded: bool = True, base_rate: float = 0.5) -> Memory:
    """Return the memory after one use, with more confidence if the attempt completed its task and less if not.

    The penalty is balanced so that a memory with the base success rate neither gains nor loses confidence: where most
    attempts fail one more failure says little, where most succeed it says a lot.
    """
    base_rate = min(MAX_BASE_RATE, max(MIN_BASE_RATE, base_rate))
    confidence = (
        _raised(memory, at) if succeeded else _lowered(memory, at, CONFIDENCE_GAIN * base_rate / (1 - base_rate))
    )
    return replace(
        memory,
        uses=memory.uses + 1,
        used_at=at,
        wins=memory.wins + succeeded,
        losses=memory.losses + (not succeeded),
        success_rate=_rate_after(memory, succeeded),
        confidence=confidence,
    )


def _rate_after(memory: Memory, won: bool) -> float | None:
    """Return the success rate after one more outcome; for an antipattern it describes those who follow it."""
    if memory.kind == "antipattern":
        return memory.success_rate
    before = memory.wins + memory.losses
    if memory.success_rate is None or not memory.structured_content:
        return round((memory.wins + won) / (before + 1), 6)
    # A learning starts with the rate of the loops it was extracted from, weighted by its support.
    total = memory.support + before
    return round((memory.success_rate * total + won) / (total + 1), 6)


def _lowered(memory: Memory, at: str, by: float) -> float:
    now = current_confidence(memory, at)
    return min(now, max(MIN_DECAYED_CONFIDENCE, round(now - by, 6)))


def _raised(memory: Memory, at: str) -> float:
    now = current_confidence(memory, at)
    return max(now, min(MAX_CONFIDENCE, round(now + CONFIDENCE_GAIN, 6)))


def reinforce(known: Memory, new: Memory, at: str) -> Memory:
    """Return the known memory, strengthened and completed by learning it once more."""
    return replace(
        known,
        **_updated_text(known, new),
        support=known.support + 1,
        confidence=_raised_confidence(known, new, at),
        success_rate=_mean_success_rate(known, new),
        tags=union(known.tags, new.tags)[:MAX_TAGS],
        files=union(known.files, new.files)[:MAX_TAGS],
        origin_loops=union(known.origin_loops, new.origin_loops),
        seen=new.seen,
        stale="",
        verified_at=at,
        updated_at=at,
    )


def _raised_confidence(known: Memory, new: Memory, at: str) -> float:
    raised = _raised(known, at)
    if known.kind == "estimate":
        # The confidence of an estimate reflects the number of iterations behind it, so both loops count.
        return max(raised, min(MAX_ESTIMATE_CONFIDENCE, round(known.confidence + new.confidence, 6)))
    if known.kind in ("strategy", "antipattern"):
        return _confidence_by_evidence(known, new, at)
    return raised


def _confidence_by_evidence(known: Memory, new: Memory, at: str) -> float:
    """Return the confidence after more evidence, for or against; what outcomes added or took stays as it is."""
    from ralph.memory.lifecycle.evidence import evidence_confidence
    from ralph.memory.lifecycle.learnings import merge_content, parse_content

    merged = merge_content(known.kind, known.structured_content or "{}", new.structured_content or "{}", known.support)
    after = evidence_confidence(known.kind, parse_content(merged) or {})
    before = evidence_confidence(known.kind, parse_content(known.structured_content) or {})
    if after is None:
        return _raised(known, at)
    if before is None or not known.uses:
        return after
    return max(MIN_DECAYED_CONFIDENCE, min(MAX_CONFIDENCE, round(current_confidence(known, at) + after - before, 6)))


def _mean_success_rate(known: Memory, new: Memory) -> float | None:
    if known.success_rate is None or new.success_rate is None:
        return new.success_rate if known.success_rate is None else known.success_rate
    total = known.success_rate * known.support + new.success_rate
    return round(total / (known.support + 1), 6)


def _updated_text(known: Memory, new: Memory) -> dict[str, str]:
    """Return the text fields that change when a memory is learned again."""
    if known.kind == "knowledge":
        return {"content": new.content}
    if new.structured_content:
        return merge_learning_text(known, new)
    if not _extends(known.content, new.content):
        return {}
    # A title derived from the first sentence changes with the text.
    return {"content": new.content} | (
        {"title": extract_title(new.content)} if known.title == extract_title(known.content) else {}
    )


def merge_learning_text(known: Memory, new: Memory) -> dict[str, str]:
    """Return the merged content of two equal learnings with its title and body; empty if there is no content."""
    import json

    from ralph.memory.lifecycle.learnings import describe_learning, merge_content

    content = merge_content(known.kind, known.structured_content or "{}", new.structured_content, known.support)
    if content == "{}":
        return {}
    title, body = describe_learning(known.kind, known.task_type or new.task_type or "general", json.loads(content))
    return {"structured_content": content, "title": title, "content": body}


def _extends(old: str, new: str) -> bool:
    """Return whether the new text repeats the old one and continues it."""
    from ralph.memory.lifecycle.fingerprint import normalized_words

    return len(new) > len(old) and f"{normalized_words(new)} ".startswith(f"{normalized_words(old)} ")


def union(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the items of both, without duplicates, in order."""
    return tuple(dict.fromkeys(some + others))


# --- cleanup -----------------------------------------------------------------------


def cleanup_candidates(
    memories: Iterable[Memory],
    at: str,
    *,
    min_confidence: float | None = None,
    older_than_days: float | None = None,
    unused: bool = False,
) -> list[tuple[Memory, str]]:
    """Return the memories to clean up, each with the reason.

    Without options these are the low-confidence ones that are old and were never used. With options, all that match any
    of them: low quality, days since the last change or use, never used.
    """
    if min_confidence is None and older_than_days is None and not unused:
        reasons = ((memory, _default_reason(memory, at)) for memory in memories)
    else:
        reasons = (
            (memory, _filter_reasons(memory, at, min_confidence, older_than_days, unused)) for memory in memories
        )
    return [(memory, reason) for memory, reason in reasons if reason]


def _default_reason(memory: Memory, at: str) -> str:
    age = days_between(memory.created_at, at)
    confidence = current_confidence(memory, at)
    if confidence < CLEANUP_BELOW_CONFIDENCE and not memory.uses and age > OLD_DAYS:
        return f"confidence {confidence:.2f}, never used in {age:.0f} days"
    return ""


def _filter_reasons(memory: Memory, at: str, least: float | None, most_days: float | None, unused: bool) -> str:
    reasons = []
    if least is not None and (confidence := current_confidence(memory, at)) < least:
        reasons.append(f"confidence {confidence:.2f} is below {least:g}")
    if least is not None and memory.success_rate is not None and memory.success_rate < least:
        reasons.append(f"success rate {memory.success_rate:.2f} is below {least:g}")
    latest = max(filter(None, (memory.updated_at, memory.used_at, memory.verified_at)))
    if most_days is not None and (days := days_between(latest, at)) > most_days:
        reasons.append(f"not changed or used for {days:.0f} days")
    if unused and not memory.uses:
        reasons.append("never used")
    return "; ".join(reasons)


def is_expired(memory: Memory, at: str) -> bool:
    """Return whether an automatic learning is over 90 days old and was not confirmed for 30 days."""
    if memory.source is not MemorySource.AUTOMATIC and memory.kind not in LEARNING_CATEGORIES:
        return False
    latest = max(filter(None, (memory.used_at, memory.verified_at, memory.created_at)))
    return days_between(memory.created_at, at) > LEARNING_EXPIRY_DAYS and days_between(latest, at) > OLD_DAYS


def needs_confirmation(removed: int, present: int, *, always_removable: int = ALWAYS_REMOVABLE) -> bool:
    """Return whether a cleanup would remove so much that a person should confirm it.

    A few may always go, unless what is removed was not found to be bad.
    """
    return removed > always_removable and removed > MAX_CLEANUP_SHARE * present


def days_between(earlier: str, later: str) -> float:
    """Return the days from one timestamp to another; negative if they are in reverse order."""
    return days_of(later) - days_of(earlier)


@lru_cache(4096)
def days_of(moment: str) -> float:
    """Return the days from the start of the calendar to a timestamp.

    Importing `datetime` would add milliseconds to every cold start.
    """
    try:
        seconds = int(moment[11:13] or 0) * 3600 + int(moment[14:16] or 0) * 60 + float(moment[17:23].rstrip("Z") or 0)
        return _whole_days(moment[:10]) + seconds / 86_400
    except ValueError:  # a damaged row counts as very old
        return 0.0


@lru_cache(4096)
def _whole_days(date: str) -> int:
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:10])
    # Years start in March, so that the leap day is the last one.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
