"""Ranking formulas of the published designs. Every score is the sum of its named components.

They exist for comparison and for people who want one of them; `rankers` lists them.
"""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase

from ralph.core.records import RecalledMemory
from ralph.core.tokenize import search_terms
from ralph.memory.lifecycle.confidence import current_confidence, days_between
from ralph.memory.lifecycle.error_category import classify_error
from ralph.memory.lifecycle.learnings import structured_content
from ralph.memory.lifecycle.task_type import classify_objective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory
    from ralph.memory.recall.query import RecallContext

TASK_TAG_SCORE, FEATURE_TAG_SCORE, PATH_TAG_SCORE = 2, 2, 1
"""Score per tag found in the task, in the feature name and in file paths."""

CONFIDENCE_WEIGHT, TASK_TYPE_WEIGHT, SUCCESS_WEIGHT, RECENCY_WEIGHT = 0.4, 0.3, 0.2, 0.1
"""Weights of the components of `rank_by_weights`."""
RECENT_DAYS = 90
"""Age at which the recency component reaches zero, in days."""
ERROR_BOOST = 0.2
"""Score of an antipattern that is about a recent error."""
DEFAULT_SUCCESS_RATE = 0.5
"""Success rate assumed for memories that were never used."""

MIN_CONFIDENCE = 0.3
"""Confidence a memory must exceed to be a candidate of `rank_by_hats`."""
MAX_CANDIDATES = 50
"""Maximum number of candidates scored by `rank_by_hats`."""
HAT_CONFIDENCE_WEIGHT, SAME_HAT_SCORE, RELATED_HAT_SCORE, PATH_SCORE, TAG_SCORE = 0.2, 0.25, 0.1, 0.3, 0.15
"""Weights of the components of `rank_by_hats`."""
MAX_RECENCY_SCORE, RECENCY_LOSS_PER_DAY = 0.1, 0.002
"""Recency score of a memory used today, and the amount lost per day."""
MIN_SCORE = 0.25
"""Score a memory must exceed to be returned by `rank_by_hats`."""
MAX_RESULTS = 8
"""Maximum number of memories returned by `rank_by_hats`."""
MAX_EXAMPLES = 20
"""Number of examples of a convention that files are compared with."""
MAX_KEYWORDS = 30
"""Maximum number of task keywords compared with tags."""

RELATED_HATS = {
    "explorer": ("planner",),
    "planner": ("creator", "explorer"),
    "creator": ("critic", "editor", "planner"),
    "critic": ("creator", "editor"),
    "editor": ("creator", "critic"),
}
"""Hats whose memories are nearly as relevant as those of the current hat."""


def rank_by_tags(memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
    """Rank by tags found in the task, the feature name, or the paths of recently changed files."""
    task = _words(f"{context.title} {context.body}")
    feature = _words(context.feature or "")
    paths = _path_parts((*context.files, *context.recent))
    results = [
        _recalled(
            memory,
            ("task", TASK_TAG_SCORE * _matching_tags(memory, task)),
            ("feature", FEATURE_TAG_SCORE * _matching_tags(memory, feature)),
            ("paths", PATH_TAG_SCORE * _matching_tags(memory, paths)),
        )
        for memory in memories
    ]
    return _sorted(result for result in results if result.score)


def _words(text: str) -> set[str]:
    """Return the words of a text, including hyphenated ones as a whole."""
    lower = text.lower()
    return set(re.findall(r"\w+", lower)) | set(re.findall(r"\w[\w-]*\w", lower))


def _matching_tags(memory: Memory, words: set[str]) -> int:
    return sum(1 for tag in set(memory.tags) if tag.lower() in words)


def _path_parts(paths: Iterable[str]) -> set[str]:
    """Return the words of file paths that have more than two characters."""
    return {word for path in paths for word in re.split(r"[/.\-_]", path.lower()) if len(word) > 2}


# --- weighted ----------------------------------------------------------------------


def rank_by_weights(memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
    """Rank by confidence, task type, success rate and recency.

    Antipatterns gain if they match an error of the context; conventions with examples are only returned for similar
    files.
    """
    task_type = context.task_type or classify_objective(context.title or context.body)
    results = [
        _recalled(
            memory,
            ("confidence", CONFIDENCE_WEIGHT * memory.confidence),
            ("task type", TASK_TYPE_WEIGHT if memory.task_type == task_type else 0.0),
            ("success", SUCCESS_WEIGHT * _success_rate(memory)),
            ("recency", RECENCY_WEIGHT * _recency(memory, context.at)),
            ("error", ERROR_BOOST if memory.kind == "antipattern" and _matches_error(memory, context.errors) else 0.0),
        )
        for memory in memories
        if not _is_for_other_files(memory, context.files)
    ]
    return _sorted(results)


def _success_rate(memory: Memory) -> float:
    if memory.success_rate is not None:
        return memory.success_rate
    settled = memory.wins + memory.losses
    return memory.wins / settled if settled else DEFAULT_SUCCESS_RATE


def _recency(memory: Memory, at: str) -> float:
    return min(1.0, max(0.0, (RECENT_DAYS - days_between(memory.updated_at, at)) / RECENT_DAYS))


def _matches_error(memory: Memory, errors: Iterable[str]) -> bool:
    """Return whether an antipattern is about one of the errors: the same category, or most of its words."""
    text = f"{memory.title} {memory.content}"
    words, category = _words(text), classify_error(text)[0]
    for error in errors:
        error_words = _words(error[:400])
        if (category and classify_error(error)[0] == category) or (
            error_words and 2 * len(error_words & words) > len(error_words)
        ):
            return True
    return False


def is_for_files(memory: Memory, files: Sequence[str]) -> bool:
    """Return whether a memory is a convention with an example that is similar to one of the files."""
    return any(_is_similar_path(path, example) for path in files for example in _examples(memory))


def _is_for_other_files(memory: Memory, files: Sequence[str]) -> bool:
    return bool(files and _examples(memory)) and not is_for_files(memory, files)


def _examples(memory: Memory) -> list[str]:
    """Return the first examples of a convention; other memories have none."""
    examples = structured_content(memory).get("examples") if memory.kind == "convention" else None
    return [str(example) for example in examples[:MAX_EXAMPLES]] if isinstance(examples, list) else []


def _is_similar_path(path: str, example: str) -> bool:
    """Return whether a path is contained in an example, or has the same extension or directory."""
    if path in example:
        return True
    name, other = path.rsplit("/", 1)[-1], example.rsplit("/", 1)[-1]
    same_kind = "." in name and name.split(".", 1)[1] == other.split(".", 1)[-1]
    return same_kind or ("/" in path and path.rsplit("/", 1)[0] == example.rpartition("/")[0])


# --- hats --------------------------------------------------------------------------


def rank_by_hats(memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
    """Rank by confidence, hat, paths, tags and recency, without memories of the current session."""
    candidates = [
        (confidence, memory)
        for memory in memories
        if (confidence := current_confidence(memory, context.at)) > MIN_CONFIDENCE
        and not (context.session and memory.origin_session == context.session)
    ]
    candidates.sort(key=lambda pair: -pair[0])
    keywords = search_terms(f"{context.title} {context.body}", MAX_KEYWORDS)
    results = [
        _recalled(
            memory,
            ("confidence", HAT_CONFIDENCE_WEIGHT * confidence),
            ("hat", _hat_score(memory.hat, context.hat)),
            ("paths", PATH_SCORE if paths_overlap(memory.files, context.files) else 0.0),
            ("tags", TAG_SCORE * sum(1 for tag in set(memory.tags) if any(word in tag.lower() for word in keywords))),
            ("recency", _use_recency(memory, context.at)),
        )
        for confidence, memory in candidates[:MAX_CANDIDATES]
    ]
    return _sorted(result for result in results if result.score > MIN_SCORE)[:MAX_RESULTS]


def _hat_score(theirs: str | None, ours: str | None) -> float:
    if not theirs or not ours:
        return 0.0
    return SAME_HAT_SCORE if theirs == ours else RELATED_HAT_SCORE if theirs in RELATED_HATS.get(ours, ()) else 0.0


def _use_recency(memory: Memory, at: str) -> float:
    """Return the score for a recent use; a memory that was never used has none, however new it is."""
    if not memory.used_at:
        return 0.0
    return max(0.0, MAX_RECENCY_SCORE - RECENCY_LOSS_PER_DAY * max(0.0, days_between(memory.used_at, at)))


def paths_overlap(refs: Iterable[str], paths: Iterable[str]) -> bool:
    """Return whether a file reference of a memory matches one of the paths by name, glob or directory."""
    path_list = list(paths)
    return any(_paths_overlap(ref, path) for ref in refs for path in path_list)


def _paths_overlap(ref: str, path: str) -> bool:
    if any(mark in ref for mark in "*?["):
        return len(ref) <= 300 and fnmatchcase(path, ref)
    ours, theirs = ref.removeprefix("./").rstrip("/"), path.removeprefix("./").rstrip("/")
    return (
        ours == theirs or theirs.startswith(f"{ours}/") or ours.startswith(f"{theirs}/") or theirs.endswith(f"/{ours}")
    )


# --- usage -------------------------------------------------------------------------


def rank_by_date(memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
    """Rank by date, newest first."""
    return _sorted(
        _recalled(memory, ("recency", 1 / (1 + max(0.0, days_between(memory.created_at, context.at)))))
        for memory in memories
    )


def rank_by_usage(memories: Sequence[Memory], context: RecallContext) -> list[RecalledMemory]:
    """Rank by confidence × success × logarithm of uses; memories never used are ranked by confidence."""
    del context
    results = [
        _recalled(
            memory,
            (
                "confidence × success × uses",
                memory.confidence * (memory.success_rate or 0.5) * math.log10(memory.uses + 1),
            ),
        )
        for memory in memories
    ]
    return sorted(results, key=lambda result: (-result.score, -result.memory.confidence))


def _recalled(memory: Memory, *shares: tuple[str, float]) -> RecalledMemory:
    return RecalledMemory(memory=memory, score=sum(share for _, share in shares), because=shares)


def _sorted(results: Iterable[RecalledMemory]) -> list[RecalledMemory]:
    return sorted(results, key=lambda result: -result.score)
