"""The rankings that others described, each as it was described, by name.

They are baselines: to compare with, and for people who want one of them. Every score
is the sum of its named shares.
"""

from __future__ import annotations

import math
import re

from ralph.memory.learning import content_of
from ralph.memory.lifecycle import days_between, faded
from ralph.memory.question import Context
from ralph.memory.task_type import task_type
from ralph.memory.words import query_words
from ralph.records import Recalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ralph.records import Memory

TAG_IN_TASK, TAG_IN_FEATURE, TAG_IN_PATHS = 2, 2, 1

BY_CONFIDENCE, BY_TASK_TYPE, BY_SUCCESS, BY_RECENCY = 0.4, 0.3, 0.2, 0.1
RECENT_DAYS = 90
BY_ERROR = 0.2
"""What an antipattern gains that speaks of an error just met."""
UNKNOWN_SUCCESS = 0.5

LEAST_CONFIDENCE = 0.3
MOST_CANDIDATES = 50
BASE, SAME_HAT, RELATED_HAT, PATHS, TAG = 0.2, 0.25, 0.1, 0.3, 0.15
RECENCY, RECENCY_PER_DAY = 0.1, 0.002
LEAST_SCORE = 0.25
MOST = 8
MOST_KEYWORDS = 30

RELATED_HATS = {
    "explorer": ("planner",),
    "planner": ("creator", "explorer"),
    "creator": ("critic", "editor", "planner"),
    "critic": ("creator", "editor"),
    "editor": ("creator", "critic"),
}
"""For the hat that works now, the hats whose memories are nearly as good as its own."""


def by_tags(memories: Sequence[Memory], context: Context) -> list[Recalled]:
    """Rank by tags that are words of the task, of the feature's name, or of the files last changed."""
    task = _words(f"{context.title} {context.body}")
    feature = _words(context.feature or "")
    paths = _path_parts((*context.files, *context.recent))
    found = [
        _recalled(
            memory,
            ("task", TAG_IN_TASK * _met(memory, task)),
            ("feature", TAG_IN_FEATURE * _met(memory, feature)),
            ("paths", TAG_IN_PATHS * _met(memory, paths)),
        )
        for memory in memories
    ]
    return _best_first(one for one in found if one.score)


def _words(text: str) -> set[str]:
    """Give the words of a text, also those with hyphens as one."""
    lower = text.lower()
    return set(re.findall(r"\w+", lower)) | set(re.findall(r"\w[\w-]*\w", lower))


def _met(memory: Memory, words: set[str]) -> int:
    return sum(1 for tag in set(memory.tags) if tag.lower() in words)


# --- weighted ----------------------------------------------------------------------


def _path_parts(paths: Iterable[str]) -> set[str]:
    """Give the words of more than two characters in file paths."""
    return {word for path in paths for word in re.split(r"[/.\-_]", path.lower()) if len(word) > 2}


def by_weights(memories: Sequence[Memory], context: Context) -> list[Recalled]:
    """Rank by confidence, task type, success and how fresh a memory is.

    Antipatterns gain when an error of the context is theirs; conventions that have examples
    are only given for files like those.
    """
    wanted = context.task_type or task_type(context.title or context.body)
    found = [
        _recalled(
            memory,
            ("confidence", BY_CONFIDENCE * memory.confidence),
            ("task type", BY_TASK_TYPE if memory.task_type == wanted else 0.0),
            ("success", BY_SUCCESS * _success(memory)),
            ("recency", BY_RECENCY * _freshness(memory, context.at)),
            ("error", BY_ERROR if memory.kind == "antipattern" and _is_about(memory, context.errors) else 0.0),
        )
        for memory in memories
        if not _is_for_other_files(memory, context.files)
    ]
    return _best_first(found)


def _success(memory: Memory) -> float:
    if memory.success_rate is not None:
        return memory.success_rate
    settled = memory.wins + memory.losses
    return memory.wins / settled if settled else UNKNOWN_SUCCESS


def _freshness(memory: Memory, at: str) -> float:
    return min(1.0, max(0.0, (RECENT_DAYS - days_between(memory.updated_at, at)) / RECENT_DAYS))


def _is_about(memory: Memory, errors: Iterable[str]) -> bool:
    """Say whether an antipattern is about one of the errors: the same trouble, or most of its words."""
    from ralph.memory.extract import trouble

    said = f"{memory.title} {memory.body}"
    words, name = _words(said), trouble(said)[0]
    for error in errors:
        own = _words(error[:400])
        if (name and trouble(error)[0] == name) or (own and 2 * len(own & words) > len(own)):
            return True
    return False


def _is_for_other_files(memory: Memory, files: Sequence[str]) -> bool:
    examples = content_of(memory).get("examples") if memory.kind == "convention" else None
    if not isinstance(examples, list) or not examples or not files:
        return False
    return not any(_is_like(path, str(example)) for path in files for example in examples[:20])


def _is_like(path: str, example: str) -> bool:
    """Say whether a path, or a part of one, is like an example: in it, of the same kind, or in the same directory."""
    if path in example:
        return True
    name, other = path.rsplit("/", 1)[-1], example.rsplit("/", 1)[-1]
    same_kind = "." in name and name.split(".", 1)[1] == other.split(".", 1)[-1]
    return same_kind or ("/" in path and path.rsplit("/", 1)[0] == example.rpartition("/")[0])


# --- hats --------------------------------------------------------------------------


def by_hats(memories: Sequence[Memory], context: Context) -> list[Recalled]:
    """Rank by confidence, hat, paths, tags and recency; a handful, and never what the session itself said."""
    sure = [
        (confidence, memory)
        for memory in memories
        if (confidence := faded(memory, context.at)) > LEAST_CONFIDENCE
        and not (context.session and memory.origin_session == context.session)
    ]
    sure.sort(key=lambda one: -one[0])
    keywords = query_words(f"{context.title} {context.body}", MOST_KEYWORDS)
    found = [
        _recalled(
            memory,
            ("confidence", BASE * confidence),
            ("hat", _hat_share(memory.hat, context.hat)),
            ("paths", PATHS if overlaps(memory.files, context.files) else 0.0),
            ("tags", TAG * sum(1 for tag in set(memory.tags) if any(word in tag.lower() for word in keywords))),
            ("recency", max(0.0, RECENCY - RECENCY_PER_DAY * _days_unused(memory, context.at))),
        )
        for confidence, memory in sure[:MOST_CANDIDATES]
    ]
    return _best_first(one for one in found if one.score > LEAST_SCORE)[:MOST]


def _hat_share(theirs: str | None, ours: str | None) -> float:
    if not theirs or not ours:
        return 0.0
    return SAME_HAT if theirs == ours else RELATED_HAT if theirs in RELATED_HATS.get(ours, ()) else 0.0


def _days_unused(memory: Memory, at: str) -> float:
    return max(0.0, days_between(memory.used_at or memory.created_at, at))


def overlaps(refs: Iterable[str], paths: Iterable[str]) -> bool:
    """Say whether one of the files a memory is about is one of the paths: by name, by glob, or by directory."""
    named = list(paths)
    return any(_overlaps(ref, path) for ref in refs for path in named)


def _overlaps(ref: str, path: str) -> bool:
    from fnmatch import fnmatchcase

    if any(mark in ref for mark in "*?["):
        return len(ref) <= 300 and fnmatchcase(path, ref)
    ours, theirs = ref.removeprefix("./").rstrip("/"), path.removeprefix("./").rstrip("/")
    return (
        ours == theirs or theirs.startswith(f"{ours}/") or ours.startswith(f"{theirs}/") or theirs.endswith(f"/{ours}")
    )


# --- the plain ones ----------------------------------------------------------------


def by_date(memories: Sequence[Memory], context: Context) -> list[Recalled]:
    """Give the newest first."""
    return _best_first(
        _recalled(memory, ("recency", 1 / (1 + max(0.0, days_between(memory.created_at, context.at)))))
        for memory in memories
    )


def by_learnings(memories: Sequence[Memory], context: Context) -> list[Recalled]:
    """Rank by confidence × success × the logarithm of the uses; what was never used goes by confidence alone."""
    del context
    found = [
        _recalled(
            memory,
            (
                "confidence × success × uses",
                memory.confidence * (memory.success_rate or 0.5) * math.log10(memory.uses + 1),
            ),
        )
        for memory in memories
    ]
    return sorted(found, key=lambda one: (-one.score, -one.memory.confidence))


PROFILES: dict[str, Callable[[Sequence[Memory], Context], list[Recalled]]] = {
    "tags": by_tags,
    "weighted": by_weights,
    "hats": by_hats,
    "recent": by_date,
    "learnings": by_learnings,
}


def _recalled(memory: Memory, *shares: tuple[str, float]) -> Recalled:
    return Recalled(memory=memory, score=sum(share for _, share in shares), because=shares)


def _best_first(found: Iterable[Recalled]) -> list[Recalled]:
    return sorted(found, key=lambda one: -one.score)


def estimate_for(memories: Iterable[Memory], task_type: str, complexity: str | None = None) -> Memory | None:
    """Give the surest estimate for tasks of a type and, when it is given, a complexity; None when there is none."""
    fitting = [
        memory
        for memory in memories
        if memory.kind == "estimate"
        and memory.task_type == task_type
        and (not complexity or content_of(memory).get("complexity") == complexity)
    ]
    return max(fitting, key=lambda one: (one.confidence, one.support, one.updated_at), default=None)
