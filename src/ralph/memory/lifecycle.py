"""How sure we are of a memory, from its first day on, and when it may go.

Confidence falls as time passes, but the fall is only looked at, never stored:
reading it twice, or cleaning up twice, takes nothing away twice.
"""

from __future__ import annotations

from functools import lru_cache

from ralph.memory.limits import MOST_TAGS
from ralph.records import LEARNING_CATEGORIES, Source, replace
from ralph.text import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.records import Memory

START = {Source.EXPLICIT: 0.6, Source.AUTOMATIC: 0.5, Source.IMPORTED: 0.7}
GATE_FIX = 0.7
CRITIC = 0.6

REWARD = 0.02
CEILING = 0.95
USUAL_LEAST, USUAL_MOST = 0.2, 0.8
"""A success rate that is taken for usual lies between these, whatever a project's was of late."""
DECAY_PER_WEEK = 0.02
LOWEST = 0.1
SUREST_ESTIMATE = 0.9

DOUBTFUL = 0.15
"""What is less sure than this, was never used and is old is of no use."""
OLD_DAYS = 30
LEARNING_DAYS = 90
MOST_SHARE = 0.2
"""A cleanup that takes more of a store than this is more likely a mistake."""
FEW = 5


def faded(memory: Memory, at: str) -> float:
    """Give the confidence as of now: a little less for every whole week in which nothing spoke for the memory."""
    latest = max(filter(None, (memory.used_at, memory.verified_at, memory.created_at)))
    return faded_from(memory.confidence, days_between(latest, at))


def faded_from(confidence: float, days: float) -> float:
    """Give a confidence as of now, when something spoke for it so many days ago."""
    weeks = int(max(0.0, days) // 7)
    return max(min(LOWEST, confidence), round(confidence - DECAY_PER_WEEK * weeks, 6)) if weeks else confidence


def after_use(memory: Memory, at: str, *, won: bool = True, usual: float = 0.5) -> Memory:
    """Count a use, and trust the memory a little more if the attempt got its task done, or less if it did not.

    A failure takes as much as makes a memory neither gain nor lose when it does as well as attempts usually do here:
    where most fail anyway one more says little, where most succeed it says a lot.
    """
    usual = min(USUAL_MOST, max(USUAL_LEAST, usual))
    confidence = _raised(memory, at) if won else _lowered(memory, at, REWARD * usual / (1 - usual))
    return replace(
        memory,
        uses=memory.uses + 1,
        used_at=at,
        wins=memory.wins + won,
        losses=memory.losses + (not won),
        success_rate=_rate_after(memory, won),
        confidence=confidence,
    )


def _rate_after(memory: Memory, won: bool) -> float | None:
    """Give the success rate with one more outcome; that of an antipattern tells of those who follow it."""
    if memory.kind == "antipattern":
        return memory.success_rate
    before = memory.wins + memory.losses
    if memory.success_rate is None or not memory.content:
        return round((memory.wins + won) / (before + 1), 6)
    # A learning has a rate from the loops it was drawn from, which counts as often as it was learned.
    counted = memory.support + before
    return round((memory.success_rate * counted + won) / (counted + 1), 6)


def _lowered(memory: Memory, at: str, by: float) -> float:
    now = faded(memory, at)
    return min(now, max(LOWEST, round(now - by, 6)))


def _raised(memory: Memory, at: str) -> float:
    now = faded(memory, at)
    return max(now, min(CEILING, round(now + REWARD, 6)))


def learned_again(known: Memory, new: Memory, at: str) -> Memory:
    """Give the memory we have, made surer and completed by learning it once more."""
    return replace(
        known,
        **_text(known, new),
        support=known.support + 1,
        confidence=_surer(known, new, at),
        success_rate=_averaged(known, new),
        tags=united(known.tags, new.tags)[:MOST_TAGS],
        files=united(known.files, new.files)[:MOST_TAGS],
        origin_loops=united(known.origin_loops, new.origin_loops),
        seen=new.seen,
        stale="",
        verified_at=at,
        updated_at=at,
    )


def _surer(known: Memory, new: Memory, at: str) -> float:
    raised = _raised(known, at)
    if known.kind == "estimate":
        # An estimate is as sure as the iterations behind it are many: those of both loops count.
        return max(raised, min(SUREST_ESTIMATE, round(known.confidence + new.confidence, 6)))
    return raised


def _averaged(known: Memory, new: Memory) -> float | None:
    if known.success_rate is None or new.success_rate is None:
        return new.success_rate if known.success_rate is None else known.success_rate
    total = known.success_rate * known.support + new.success_rate
    return round(total / (known.support + 1), 6)


def _text(known: Memory, new: Memory) -> dict[str, str]:
    """Give the words that learning it again changes."""
    if known.kind == "knowledge":
        return {"body": new.body}
    if new.content:
        return restated(known, new)
    if not _goes_on(known.body, new.body):
        return {}
    # A title that is the first sentence goes with the text.
    return {"body": new.body} | ({"title": title_of(new.body)} if known.title == title_of(known.body) else {})


def restated(known: Memory, new: Memory) -> dict[str, str]:
    """Give the content of a learning that was learned again, and the words for it; nothing when there is none."""
    import json

    from ralph.memory.learning import described, merged_content

    content = merged_content(known.kind, known.content or "{}", new.content, known.support)
    if content == "{}":
        return {}
    title, body = described(known.kind, known.task_type or new.task_type or "general", json.loads(content))
    return {"content": content, "title": title, "body": body}


def _goes_on(old: str, new: str) -> bool:
    """Say whether a text says what another one says, and then more."""
    from ralph.memory.fingerprint import same_words

    return len(new) > len(old) and f"{same_words(new)} ".startswith(f"{same_words(old)} ")


def united(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Give what is in either, each once, in order."""
    return tuple(dict.fromkeys(some + others))


# --- what may go -------------------------------------------------------------------


def cleanup_candidates(
    memories: Iterable[Memory],
    at: str,
    *,
    min_confidence: float | None = None,
    older_than_days: float | None = None,
    unused: bool = False,
) -> list[tuple[Memory, str]]:
    """Give the memories that may go, each with the reason.

    Without options these are the doubtful ones that are old and were never used. With options,
    those that fail any of them: a quality, an age since anything last spoke for it, a first use.
    """
    if min_confidence is None and older_than_days is None and not unused:
        found = ((memory, _doubts(memory, at)) for memory in memories)
    else:
        found = ((memory, _faults(memory, at, min_confidence, older_than_days, unused)) for memory in memories)
    return [(memory, why) for memory, why in found if why]


def _doubts(memory: Memory, at: str) -> str:
    age = days_between(memory.created_at, at)
    confidence = faded(memory, at)
    if confidence < DOUBTFUL and not memory.uses and age > OLD_DAYS:
        return f"confidence {confidence:.2f}, never used in {age:.0f} days"
    return ""


def _faults(memory: Memory, at: str, least: float | None, most_days: float | None, unused: bool) -> str:
    faults = []
    if least is not None and (confidence := faded(memory, at)) < least:
        faults.append(f"confidence {confidence:.2f} is below {least:g}")
    if least is not None and memory.success_rate is not None and memory.success_rate < least:
        faults.append(f"success rate {memory.success_rate:.2f} is below {least:g}")
    latest = max(filter(None, (memory.updated_at, memory.used_at, memory.verified_at)))
    if most_days is not None and (days := days_between(latest, at)) > most_days:
        faults.append(f"neither changed nor used for {days:.0f} days")
    if unused and not memory.uses:
        faults.append("never used")
    return "; ".join(faults)


def outlived(memory: Memory, at: str) -> bool:
    """Say whether what a run taught is older than 90 days and nothing has spoken for it for 30."""
    if memory.source is not Source.AUTOMATIC and memory.kind not in LEARNING_CATEGORIES:
        return False
    latest = max(filter(None, (memory.used_at, memory.verified_at, memory.created_at)))
    return days_between(memory.created_at, at) > LEARNING_DAYS and days_between(latest, at) > OLD_DAYS


def too_many(removed: int, present: int) -> bool:
    """Say whether a cleanup would take so much that a person should confirm it."""
    return removed > FEW and removed > MOST_SHARE * present


def days_between(earlier: str, later: str) -> float:
    """Give the days from one timestamp to another; negative when they are the other way round."""
    return days_of(later) - days_of(earlier)


def days_of(moment: str) -> float:
    """Give the days from the start of our calendar to a timestamp; `datetime` would cost a cold start milliseconds."""
    try:
        seconds = int(moment[11:13] or 0) * 3600 + int(moment[14:16] or 0) * 60 + float(moment[17:23].rstrip("Z") or 0)
        return _whole_days(moment[:10]) + seconds / 86_400
    except ValueError:  # a damaged row: as old as can be
        return 0.0


@lru_cache(4096)
def _whole_days(date: str) -> int:
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:10])
    # Years are counted from March, so that the day a leap year adds is the last one.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
