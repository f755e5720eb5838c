"""Extraction of learnings from a finished loop: strategies, antipatterns, estimates and conventions.

Every learning rests on what the iterations show: shares are counted and directories were observed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter

from ralph.core.records import Memory, MemorySource, MemoryState, record
from ralph.core.text import extract_title, one_line, sanitize
from ralph.memory.capture.conventions import find_conventions, own_files
from ralph.memory.lifecycle.confidence import MAX_ESTIMATE_CONFIDENCE
from ralph.memory.lifecycle.fingerprint import normalized_words
from ralph.memory.lifecycle.learnings import GENERAL_TASK_TYPE, describe_learning
from ralph.memory.lifecycle.task_type import classify_objective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.memory.lifecycle.loop_history import LoopHistory

MIN_STRATEGY_SHARE = 0.5
"""Share of successful iterations a strategy must be used in, exclusive."""
MAX_STRATEGY_CONFIDENCE = 0.9
"""Maximum confidence of a strategy."""
MIN_OCCURRENCES = 2
"""Number of failures from which an error counts as an antipattern."""
MAX_ANTIPATTERN_CONFIDENCE = 0.8
"""Maximum confidence of an antipattern."""
FULL_CONFIDENCE_ITERATIONS = 5
"""Number of completed iterations at which an estimate reaches full confidence."""
MAX_TEXT_LENGTH = 4000
"""Number of characters of a learning or an error that are examined."""


def is_known_strategy(text: str) -> bool:
    """Return whether a text describes one of the known strategies."""
    strategy = _strategy(text)
    return strategy is not None and strategy[0] == strategy[1]


def extract_learnings(history: LoopHistory, at: str) -> list[Memory]:
    """Return the learnings of a loop, ready for staging."""
    files = own_files(path for iteration in history.iterations for path in iteration.files)
    drafts = [
        *_find_strategies(history),
        *_find_antipatterns(history),
        *_estimate(history, len(files)),
        *_draft_conventions(files),
    ]
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


def _find_strategies(history: LoopHistory) -> Iterator[_Draft]:
    successes = [iteration for iteration in history.iterations if iteration.succeeded]
    used: Counter[str] = Counter()
    names: dict[str, str] = {}
    for iteration in successes:
        strategies = dict(filter(None, map(_strategy, iteration.learnings)))
        used.update(strategies.keys())
        names = {**strategies, **names}
    for key, count in used.items():
        share = count / len(successes)
        if share > MIN_STRATEGY_SHARE:
            yield _Draft(
                kind="strategy",
                content={"description": names[key], "effectiveness": share, "iterations": count},
                confidence=min(share, MAX_STRATEGY_CONFIDENCE),
                success_rate=share,
            )


def _strategy(learning: str) -> tuple[str, str] | None:
    """Return the key and name of the strategy in a learning: a known one, or its own first sentence."""
    text = sanitize(learning[:MAX_TEXT_LENGTH])
    if not re.search(_NEGATION, text, re.IGNORECASE):
        for name, pattern in _STRATEGIES:
            if re.search(pattern, text, re.IGNORECASE):
                return name, name
    sentence = one_line(extract_title(text, 200), 200)
    return (normalized_words(sentence), sentence) if sentence else None


# --- antipatterns ------------------------------------------------------------------

# Category, pattern and advice; the first match wins.
_ERROR_CATEGORIES = (
    ("merge-conflict", r"merge conflict|^conflict \(|<<<<<<<|needs merge", "Merge conflicts - update the branch first"),
    (
        "out-of-memory",
        r"out of memory|\boom\b|memoryerror|heap (?:space|limit|out)|cannot allocate|\bkilled\b.{0,20}\b9\b",
        "Running out of memory - work on less at once",
    ),
    (
        "missing-module",
        r"(?:cannot find|can't find|no) (?:module|package)\b|(?:module|package) ['\"\w./@-]{0,80} ?not found"
        r"|modulenotfound|importerror|unresolved import|noclassdeffound|classnotfound|no required module provides",
        "Missing modules - see that every dependency is installed",
    ),
    ("timeout", r"timed? ?-?out|deadline exceeded|took too long", "Timeouts - take smaller steps"),
    (
        "permission",
        r"permission|access (?:is )?denied|\beacces\b|\beperm\b|operation not permitted|unauthori[sz]ed|forbidden",
        "Missing permissions - look at the rights of files and directories",
    ),
    (
        "network",
        r"econn(?:refused|reset)|enotfound|connection (?:refused|reset|error|aborted)|network (?:is unreachable|error)"
        r"|(?:could not|cannot|failed to) (?:resolve host|connect)|name resolution|bad gateway|service unavailable",
        "Network failures - do not depend on an outside service",
    ),
    (
        "null",
        r"\bundefined\b(?!:| (?:reference|symbol|variable|name))|(?<!/)\bnull|\bnone ?type\b|\bnil\b|\bnone\b value",
        "Null or undefined values - check a value before using it",
    ),
    (
        "unknown-name",
        r"undefined (?:reference|symbol|variable|name)|\bundefined:|is not defined|nameerror|attributeerror"
        r"|cannot find (?:symbol|name)|unresolved (?:name|reference)|not found in this scope|undeclared",
        "Names that do not exist - look a name up before using it",
    ),
    (
        "syntax",
        r"syntax|indentation ?error|\bpars(?:e|er|ing)\b.{0,20}\b(?:error|fail)|unexpected (?:token|indent|end|eof)"
        r"|(?:cannot|could not|failed to|unable to) parse",
        "Syntax errors - let a file be parsed before it is run",
    ),
    (
        "types",
        r"type ?error|mismatched types|incompatible types?|is not assignable|type mismatch|\berror ts\d",
        "Type errors - run the type checker before the tests",
    ),
    (
        "tests",
        r"assertion|assert\w* failed|\b\d+ (?:tests? )?fail(?:ed|ures|ing)|\btests? fail|^fail(?:ed)?\b"
        r"|\bexpected .{1,80} (?:but|got|received|to (?:be|equal))\b",
        "Failing tests - run the tests of the changed part first",
    ),
    (
        "missing-file",
        r"no such file|filenotfound|\benoent\b|file not found|cannot open",
        "Missing files - look whether a path exists before using it",
    ),
    (
        "build",
        r"compil\w+ (?:error|failed)|build failed|could not compile|linker|\bld:",
        "Build errors - build after each change",
    ),
)
_ERROR_WORD = re.compile(r"(?:error|exception|failure|failed|panic\w*)\b", re.IGNORECASE)


def classify_error(error: str) -> tuple[str, str]:
    """Return the category of an error and the advice for it; both are empty for an unknown error."""
    lines = _top_level_lines(error)
    # The error name is more reliable than the code and the stack frames printed with it.
    for text in ("\n".join(filter(_ERROR_WORD.search, lines)), "\n".join(lines)):
        for name, pattern, avoid in _ERROR_CATEGORIES:
            if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
                return name, f"Avoid: {avoid}"
    return "", ""


def _top_level_lines(error: str) -> list[str]:
    """Return the unindented lines at the start and end of an error, which excludes quoted code."""
    half = MAX_TEXT_LENGTH // 2
    text = sanitize(error if len(error) <= MAX_TEXT_LENGTH else f"{error[:half]}\n{error[-half:]}")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line for line in lines if not line[0].isspace()] or lines


def _find_antipatterns(history: LoopHistory) -> Iterator[_Draft]:
    seen: Counter[str] = Counter()
    names: dict[str, tuple[str, str]] = {}
    for iteration in history.iterations:
        if iteration.failed and (line := _error_line(iteration.error)):
            name, avoid = classify_error(iteration.error)
            key = name or _normalized(line)
            seen[key] += 1
            names.setdefault(key, (name, avoid or f"Avoid: {line}"))
    for key, count in seen.items():
        if count >= MIN_OCCURRENCES:
            name, avoid = names[key]
            yield _Draft(
                kind="antipattern",
                content={"description": avoid, "occurrences": count, "impact": "high" if count > 2 else "medium"},
                confidence=min(MAX_ANTIPATTERN_CONFIDENCE, round(0.4 + 0.1 * count, 6)),
                success_rate=0.0,
                tags=(name,) if name else (),
            )


def _error_line(error: str) -> str:
    """Return the line of an error that says what went wrong."""
    lines = _top_level_lines(error)
    return one_line(next(iter([*filter(_ERROR_WORD.search, lines), *lines]), ""), 160)


def _normalized(line: str) -> str:
    """Return an error line without line numbers, addresses and names, to recognize it when it recurs."""
    return " ".join(re.sub(r"0x[0-9a-f]+|\d+|(?:/[\w.-]+)+|['\"`][^'\"`]{0,80}['\"`]", "#", line.lower()).split())


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
            "totalIterations": _per_task(total, history.tasks),
            "complexity": complexity(_per_task(total, history.tasks), _per_task(files, history.tasks)),
            "successRate": rate,
        },
        confidence=min(len(completed) / FULL_CONFIDENCE_ITERATIONS, MAX_ESTIMATE_CONFIDENCE),
        success_rate=rate,
    )


def _per_task(count: int, tasks: int) -> int:
    """Return the average count per task, at least 1 unless there was nothing."""
    return max(1, round(count / tasks)) if count else 0


def complexity(iterations: int, files: int) -> str:
    """Return the complexity of a task from the number of iterations and files it took."""
    if iterations <= 2 and files <= 2:
        return "low"
    return "medium" if iterations <= 5 and files <= 5 else "high"


# --- conventions -------------------------------------------------------------------


def _draft_conventions(files: list[str]) -> Iterator[_Draft]:
    for convention in find_conventions(files):
        yield _Draft(
            kind="convention",
            content={"pattern": convention.pattern, "examples": list(convention.examples)},
            confidence=convention.confidence,
            success_rate=1.0,
            files=(convention.glob,),
        )
