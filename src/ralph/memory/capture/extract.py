"""Extraction of learnings from a finished loop: strategies, antipatterns, estimates and conventions.

Every learning rests on what the iterations show: shares are counted and directories were observed.
"""

from __future__ import annotations

import json
import math
import re

from ralph.core.records import Memory, MemorySource, MemoryState, record
from ralph.core.text import extract_title, one_line, sanitize
from ralph.memory.capture.conventions import find_conventions, own_files
from ralph.memory.lifecycle.error_category import (
    TOOLING_CATEGORIES,
    classify_error,
    error_line,
    normalized_error,
    without_time_and_place,
)
from ralph.memory.lifecycle.estimates import complexity, estimate_confidence
from ralph.memory.lifecycle.evidence import evidence_confidence
from ralph.memory.lifecycle.failure_cause import is_service_error
from ralph.memory.lifecycle.fingerprint import normalized_words
from ralph.memory.lifecycle.learnings import GENERAL_TASK_TYPE, describe_learning
from ralph.memory.lifecycle.task_type import classify_objective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration

MIN_STRATEGY_SHARE = 0.5
"""Share of successful iterations a strategy must be used in, exclusive."""
MIN_OCCURRENCES = 2
"""Number of failures from which an error counts as an antipattern."""
MIN_SENTENCE_WORDS = 3
"""Number of words from which a sentence can describe a strategy."""
MAX_TEXT_LENGTH = 4000
"""Number of characters of a learning that are examined."""


def is_known_strategy(text: str) -> bool:
    """Return whether a text describes one of the known strategies."""
    strategy = _strategy(text)
    return strategy is not None and strategy[1] in _STRATEGY_NAMES


def extract_learnings(history: LoopHistory, at: str) -> list[Memory]:
    """Return the learnings of a loop, ready for staging."""
    files = own_files(path for iteration in history.iterations for path in iteration.files)
    drafts = [*_find_strategies(history), *_find_antipatterns(history)]
    if not history.is_own:  # for our own tasks, figures are computed from their attempts
        drafts += _estimate(history, len(files))
    drafts += _draft_conventions(own_files(history.files) if history.is_own else files)
    kind = history.task_type or classify_objective(history.objective)
    return [
        _memory(draft, GENERAL_TASK_TYPE if draft.kind == "convention" else kind, history.loop_id, at)
        for draft in drafts
    ]


@record
class _Draft:
    """Learning without a task type and a text."""

    kind: str
    content: dict[str, object]
    confidence: float
    success_rate: float
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def _memory(draft: _Draft, task_type: str, loop_id: str, at: str) -> Memory:
    content = {name: _as_int(value) for name, value in draft.content.items()}
    title, body = describe_learning(draft.kind, task_type, content)
    return Memory(
        id="",
        kind=draft.kind,
        title=title,
        content=body,
        structured_content=json.dumps(content, ensure_ascii=False, separators=(",", ":")),
        tags=draft.tags,
        files=draft.files,
        task_type=task_type,
        source=MemorySource.AUTOMATIC,
        state=MemoryState.STAGED,
        confidence=draft.confidence,
        success_rate=draft.success_rate,
        origin_loops=(loop_id,),
        created_at=at,
        updated_at=at,
    )


def _as_int(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _support(iterations: Sequence[LoopIteration], turned: int) -> dict[str, object]:
    """Return the number of tasks behind a learning, and of those whose outcome changed; other loops have no tasks."""
    tasks = {one.task for one in iterations if one.task}
    return {"tasks": len(tasks), "turned": turned} if tasks else {}


# --- strategies --------------------------------------------------------------------

# The first match wins. A learning that says what not to do is not a strategy.
_STRATEGIES = (
    ("Implement first, refactor after", r"refactor\w* (?:only )?(?:after|once|later|when)|(?:then|and later) refactor"),
    (
        "Test-driven development approach",
        r"\btdd\b|\btest[- ]driven|\btests? first|\btests? before (?:the )?(?:\w+ )?(?:cod|implement|chang|fix|writ)"
        r"|red[- ]green|\bfailing test (?:first|before)",
    ),
    (
        "Incremental implementation",
        r"\bincremental|\b(?:one|a) \w+ at a time|\bstep[- ]by[- ]step|\bsmall (?:steps|commits|increments)"
        r"|\b(?:one by one|piece by piece)",
    ),
    ("Minimal changes approach", r"\b(?:minimal|smallest|minimum)\b.{0,20}\b(?:change|diff|edit|fix|patch)"),
    ("Reproduce the problem before fixing it", r"\breproduc\w+.{0,40}\b(?:first|before|then)\b|\bfirst reproduc"),
    (
        "Read the existing code before changing it",
        r"\b(?:reads?|reading|study|studied|explored?|understand|understood)\b.{0,60}\bbefore\b",
    ),
    (
        "Follow the patterns already in the code",
        r"\b(?:follow|mirror|reus)\w*.{0,30}\b(?:existing|same) (?:\w+ )?(?:pattern|style|structure|convention|helper)",
    ),
    (
        "Run the checks after every change",
        r"\b(?:ran|run|running|runs) (?:the )?(?:\w+ )?(?:tests?|checks?|linters?|suite) after (?:each|every)",
    ),
    (
        "Narrow the cause down before changing code",
        r"\bbisect|\b(?:added|adding) (?:logging|logs|prints?)\b|\bnarrow\w*.{0,30}\bdown\b",
    ),
    (
        "Split the work into smaller parts",
        r"\b(?:split|broke|break|decompos)\w*.{0,40}\b(?:smaller|parts|pieces|steps)\b",
    ),
)
_NEGATION = r"\b(?:not|never|avoid|stop)\b|n't\b"


_STRATEGY_NAMES = frozenset(name for name, _ in _STRATEGIES)


def _find_strategies(history: LoopHistory) -> Iterator[_Draft]:
    successes = [iteration for iteration in history.iterations if iteration.succeeded]
    used: dict[str, list[LoopIteration]] = {}
    names: dict[str, str] = {}
    for iteration in history.iterations:
        if iteration.succeeded or iteration.failed:
            strategies = dict(filter(None, map(_strategy, iteration.learnings)))
            names = {**strategies, **names}
            for key in strategies:
                used.setdefault(key, []).append(iteration)
    for key, uses in used.items():
        wins = [iteration for iteration in uses if iteration.succeeded]
        if not wins or len(wins) / len(successes) <= MIN_STRATEGY_SHARE:
            continue
        share = len(wins) / len(successes)
        content: dict[str, object] = {
            "description": names[key],
            "effectiveness": share,
            "iterations": len(wins),
            "uses": len(uses),
            **_support(wins, _count_turned(history, uses, wins)),
        }
        confidence = evidence_confidence("strategy", content) or 0.0
        yield _Draft(kind="strategy", content=content, confidence=confidence, success_rate=share)


def _count_turned(history: LoopHistory, uses: Sequence[LoopIteration], wins: Sequence[LoopIteration]) -> int:
    """Return the number of tasks that failed without a strategy, and were done with it."""
    failed_without = {one.task: one.number for one in history.iterations if one.failed and one.task and one not in uses}
    return len({one.task for one in wins if one.number > failed_without.get(one.task, one.number)})


def _strategy(learning: str) -> tuple[str, str] | None:
    """Return the key and name of the strategy in a learning: a known one, or its own first sentence."""
    text = sanitize(learning[:MAX_TEXT_LENGTH])
    if not re.search(_NEGATION, text, re.IGNORECASE):
        for name, pattern in _STRATEGIES:
            if re.search(pattern, text, re.IGNORECASE):
                return name, name
    sentence = one_line(extract_title(text, 200), 200)
    # A word or two ("ok", "all done") is no approach.
    return (normalized_words(sentence), sentence) if len(sentence.split()) >= MIN_SENTENCE_WORDS else None


# --- antipatterns ------------------------------------------------------------------


def _find_antipatterns(history: LoopHistory) -> Iterator[_Draft]:
    seen: dict[str, list[LoopIteration]] = {}
    errors: dict[str, _RecurringError] = {}
    for iteration in history.iterations:
        if iteration.failed and (error := _recurring_error(iteration)):
            errors.setdefault(error.key, error)
            seen.setdefault(error.key, []).append(iteration)
    for key, iterations in seen.items():
        count, error = len(iterations), errors[key]
        if count < MIN_OCCURRENCES:
            continue
        content: dict[str, object] = {
            "description": error.description,
            **({"details": error.advice} if error.advice else {}),
            "occurrences": count,
            "impact": "high" if count > 2 else "medium",
            **_support(iterations, _count_overcome(history, iterations) if error.is_tooling else 0),
        }
        yield _Draft(
            kind="antipattern",
            content=content,
            confidence=evidence_confidence("antipattern", content) or 0.0,
            success_rate=0.0,
            tags=(error.category,) if error.category else (),
        )


@record
class _RecurringError:
    """An error as it is recognized and described."""

    key: str
    category: str
    description: str
    advice: str = ""
    is_tooling: bool = True
    """Whether it comes from tools or the environment, which an attempt can learn to avoid within one task."""


def _recurring_error(iteration: LoopIteration) -> _RecurringError | None:
    """Return the error of a failed iteration, or None if it says nothing about the project."""
    line = error_line(iteration.error)
    if not line or (not iteration.task and is_service_error(iteration.error)):
        return None
    category, advice = classify_error(iteration.error)
    if not iteration.task:  # of another loop, which is told by category
        key = category or normalized_error(line)
        return _RecurringError(key=key, category=category, description=advice or f"Avoid: {line}")
    # A category alone ("failing tests") is what every attempt meets: the lesson is the error itself.
    return _RecurringError(
        key=normalized_error(line, with_names=True),
        category=category,
        description=f"Avoid: {without_time_and_place(line)}",
        advice=advice.removeprefix("Avoid: "),
        is_tooling=category in TOOLING_CATEGORIES,
    )


def _count_overcome(history: LoopHistory, failures: Sequence[LoopIteration]) -> int:
    """Return the number of tasks that failed with an error, and were done later."""
    failed_at = {one.task: one.number for one in failures if one.task}
    done = {
        one.task
        for one in history.iterations
        if one.succeeded and one.task in failed_at and one.number > failed_at[one.task]
    }
    return len(done)


# --- estimates ---------------------------------------------------------------------


def _estimate(history: LoopHistory, files: int) -> Iterator[_Draft]:
    total = len(history.iterations)
    completed = [iteration for iteration in history.iterations if iteration.succeeded]
    if not completed:
        return
    seconds = [
        iteration.seconds for iteration in completed if math.isfinite(iteration.seconds) and iteration.seconds >= 0
    ]
    rate = len(completed) / total
    yield _Draft(
        kind="estimate",
        content={
            "avgIterationTime": round(1000 * sum(seconds) / max(1, len(seconds)), 3),
            "totalIterations": total,
            "complexity": complexity(total, files),
            "successRate": rate,
        },
        confidence=estimate_confidence(len(completed)),
        success_rate=rate,
    )


# --- conventions -------------------------------------------------------------------


def _draft_conventions(files: list[str]) -> Iterator[_Draft]:
    for convention in find_conventions(files):
        yield _Draft(
            kind="convention",
            content={
                "pattern": convention.pattern,
                "examples": list(convention.examples),
                "witnesses": convention.witnesses,
            },
            confidence=convention.confidence,
            success_rate=1.0,
            files=(convention.glob,),
        )
