"""Extraction of memories from hand-over notes, completion notes, last messages, prompts and fixed gates.

Each sentence is judged by itself (`worth_keeping.py`); what a text says twice is kept once.
"""

from __future__ import annotations

import re

from ralph.core.records import Memory, MemorySource, MemoryState, new_memory_id, record, replace
from ralph.core.text import extract_title, find_paths, one_line, sanitize, truncate
from ralph.core.tokenize import stem_word
from ralph.memory.capture.injection import is_steering
from ralph.memory.capture.sentences import split_sentences, without_introduction
from ralph.memory.capture.worth_keeping import assess, is_routine
from ralph.memory.lifecycle.confidence import CRITIC_CONFIDENCE, GATE_FIX_CONFIDENCE, INITIAL_CONFIDENCE
from ralph.memory.lifecycle.error_category import without_location
from ralph.memory.lifecycle.gate_fixes import describe_fix
from ralph.memory.lifecycle.same_fact import ONE_FACT, prepare, relate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HANDOVERS = (("explorer", "planner"), ("planner", "creator"), ("critic", "creator"))
"""Hand-overs between roles that leave memories."""
MAX_FINDINGS = 10
"""Maximum number of findings of a hand-over or of completion notes."""
MAX_SESSION_FINDINGS = 5
"""Maximum number of findings of the last message of a session, or of a prompt."""
MAX_TEXT_LENGTH = 100_000
"""Number of characters examined, from the end of the text."""
MAX_EXCERPT_LENGTH = 600
"""Maximum length of the problem and of the fix in a gate memory, in characters."""
REDACTED = "[redacted]"
"""What stands for a secret. A sentence about one helps nobody without it."""
MAX_TITLE_LENGTH = 100
"""Maximum length of a gate memory title, in characters."""
MAX_VALUES_LENGTH = 50
"""Maximum length of the values that differed, in the title of a gate memory, in characters."""
MAX_FILES = 20
"""Maximum number of files per memory."""


@record
class SentenceFinding:
    """A sentence worth keeping, as which memory type, and how much speaks for it."""

    kind: str
    text: str
    score: float
    position: int


def extract_at_handover(from_hat: str, to_hat: str, text: str, at: str) -> list[Memory]:
    """Return the memories in the output of one role when it hands over to another."""
    if (from_hat, to_hat) not in HANDOVERS:
        return []
    findings = find_findings(text, from_hat)
    if from_hat == "critic":
        tags = ("review", "critic-finding")
        return [_memory(finding, at, hat=from_hat, confidence=CRITIC_CONFIDENCE, tags=tags) for finding in findings]
    return [_memory(finding, at, hat=from_hat) for finding in findings]


def extract_at_completion(notes: str, files: Sequence[str], at: str) -> list[Memory]:
    """Return the memories in the notes of a completed task.

    A file named without its directory is resolved to the changed file of that name in `files`, if there is one.
    """
    memories = [_memory(finding, at) for finding in find_findings(notes, "completion")]
    return [replace(memory, files=tuple(_resolve_path(path, files) for path in memory.files)) for memory in memories]


def extract_from_session(text: str, place: str, at: str) -> list[Memory]:
    """Return what was said in a session, by a person or as its last message, that holds beyond it; staged."""
    findings = find_findings(text, place, MAX_SESSION_FINDINGS)
    return [replace(_memory(finding, at), id=new_memory_id(), state=MemoryState.STAGED) for finding in findings]


def extract_from_answer(text: str, noted: Sequence[Memory], at: str) -> list[Memory]:
    """Return what the last message of a session of the loop says beyond its notes; staged."""
    found = extract_from_session(text, "final", at)
    return [one for one in found if not any(relate(one.content, known.content) in ONE_FACT for known in noted)]


def _resolve_path(named: str, files: Sequence[str]) -> str:
    return next((path for path in files if path == named or path.endswith(f"/{named}")), named)


def extract_gate_fix(gate: str, problem: str, change: str, files: Sequence[str], at: str) -> Memory:
    """Return a memory of what fixed a failing gate: the problem and the change."""
    changed = ", ".join(one_line(path, 120) for path in files[:MAX_FILES])
    fix = _excerpt(_what_changed(change, problem)) or (f"Changed {changed}." if changed else "Not recorded.")
    program = program_of(gate)
    body = describe_fix(_excerpt(problem) or "It failed without output.", program, fix)
    return Memory(
        id="",
        kind="fix",
        title=_fix_title(gate, problem, fix),
        content=body,
        tags=(program, "quality-gate"),
        files=tuple(files[:MAX_FILES]) or find_paths(body, MAX_FILES),
        source=MemorySource.AUTOMATIC,
        confidence=GATE_FIX_CONFIDENCE,
        created_at=at,
        updated_at=at,
    )


def _what_changed(notes: str, problem: str) -> str:
    """Return the sentences of notes that say what fixed a problem; all of the notes if none does.

    Notes are about the whole task. Sentences with the most words of the problem are about it; where none has any, the
    first one that is worth keeping is likely to be.
    """
    telling = [one for one in split_sentences(notes[:MAX_TEXT_LENGTH]) if not (is_routine(one) or is_steering(one))]
    if not telling:
        return "" if is_steering(notes) else notes
    words = _telling_words(problem)
    shared = [len(words & _telling_words(one)) for one in telling]
    about = [one for one, count in zip(telling, shared, strict=True) if 2 * count > max(shared)]
    kept = [one for one in telling if assess(one, "completion").is_kept]
    return " ".join(dict.fromkeys(about or kept[:1] or telling))


def _telling_words(text: str) -> set[str]:
    statement = prepare(text)
    return {word for word, weight in statement.weights.items() if weight >= 1 and len(word) > 1} - _ERROR_WORDS


_ERROR_WORDS = frozenset(map(stem_word, "assert error exit expect expected fail file got line test".split()))
"""Stems of words that errors have in common, whatever went wrong."""
_ERROR_CLASS = re.compile(r"^(?:[\w.]*(?:Error|Exception|Failure|Warning)|error(?:\[\w+\]| \w*\d+)?)\s*:\s*")
_NO_MESSAGE = re.compile(r"(?:it )?(?:failed|exited with \d+|ended by signal \d+)\b.{0,20}", re.IGNORECASE)
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\w+(?=\()|\b\w*[\d_.]\w*|\b[A-Z]\w*[A-Z]\w*|[^\w\s]")
"""What is no word of a message: quotes, calls, numbers, names in code and punctuation."""
_COMPARING_WORDS = frozenset(
    "a actual an and are assert assertion be but eq equal equals error expected fail failed failure false found got"
    " greater have in instance is it left less list member msg ne nil no none not null of or panicked received right"
    " same strictly test tests than that the to true undefined value values was wanted were".split()
)
"""Words by which test runners say that one value is not another one: what that means, only the test says."""
_COMPARISON = re.compile(r"[!=]==?|≠|[<>]=?")
MIN_TELLING_WORDS = 2
"""Number of words of its own from which an error that compares values says what was wrong; others need one."""


def _fix_title(gate: str, problem: str, fix: str) -> str:
    """Return what was wrong in the words of the error; if it has none of its own, what failed and what was done."""
    message = _ERROR_CLASS.sub("", without_location(one_line(_excerpt(problem))))
    message = message.rpartition(" : ")[2] or message  # unittest puts the words of the test after the values
    message = message.rstrip(".:")
    if not message or _NO_MESSAGE.fullmatch(message):
        return one_line(f"{gate_name(gate)} failed: {fix.rstrip('.')}", MAX_TITLE_LENGTH)
    if not _has_words(message):
        values = one_line(message, MAX_VALUES_LENGTH)
        return one_line(f"{gate_name(gate)} failed ({values}): {fix.rstrip('.')}", MAX_TITLE_LENGTH)
    first = message.split(" ", 1)[0]
    return one_line(
        message[0].upper() + message[1:] if first.isalpha() and first.islower() else message, MAX_TITLE_LENGTH
    )


def _has_words(message: str) -> bool:
    """Return whether an error says in words what was wrong, not only which values differ."""
    words = [word.lower() for word in _VALUES.sub(" ", message).split()]
    telling = [word for word in words if word not in _COMPARING_WORDS]
    return len(telling) >= (MIN_TELLING_WORDS if _COMPARISON.search(message) else 1)


def _excerpt(text: str) -> str:
    return truncate(sanitize(text[:MAX_TEXT_LENGTH]), MAX_EXCERPT_LENGTH)


_LAUNCHERS = frozenset(
    "env sudo nice time timeout exec command sh bash zsh python python3 py node uv uvx pipx poetry pdm hatch rye npx"
    " pnpx bunx tox run".split()
)


_TASK_RUNNERS = frozenset("bun cargo composer deno dotnet go gradle just make mix mvn npm pnpm rake swift yarn".split())


def program_of(gate: str) -> str:
    """Return the name of the program a gate runs, without launchers: `pytest` for `uv run pytest -q`."""
    return _programs(gate)[0]


def gate_name(gate: str) -> str:
    """Return the name of a gate: its program, and what a task runner is asked for, as in `make test`."""
    program, *more = _programs(gate)
    return f"{program} {more[0]}" if more and program in _TASK_RUNNERS else program


def _programs(gate: str) -> list[str]:
    """Return the words of a gate that may be programs or what they are asked for; at least one."""
    names = []
    for word in sanitize(gate[:1000]).split():
        name = word.strip("\"'()").rsplit("/", 1)[-1].lower()
        if name and not word.startswith("-") and "=" not in word and not name.isdigit():
            names.append(name)
    plain = [name for name in names if name not in _LAUNCHERS]
    return [one_line(name, 40) for name in plain or names or ["gate"]]


def _memory(
    finding: SentenceFinding,
    at: str,
    *,
    hat: str | None = None,
    confidence: float | None = None,
    tags: tuple[str, ...] = (),
) -> Memory:
    return Memory(
        id="",
        kind=finding.kind,
        title=extract_title(finding.text),
        content=finding.text,
        tags=tags,
        files=find_paths(finding.text, MAX_FILES),
        hat=hat,
        source=MemorySource.AUTOMATIC,
        confidence=INITIAL_CONFIDENCE[MemorySource.AUTOMATIC] if confidence is None else confidence,
        created_at=at,
        updated_at=at,
    )


# --- findings ----------------------------------------------------------------------


def find_findings(text: str, place: str, most: int = MAX_FINDINGS) -> list[SentenceFinding]:
    """Return the sentences of a text that are most worth keeping, in text order, each fact once."""
    candidates = (
        _finding(without_introduction(sentence), place, index)
        for index, sentence in enumerate(split_sentences(sanitize(text[-MAX_TEXT_LENGTH:])))
    )
    findings: list[SentenceFinding] = []
    for finding in sorted(filter(None, candidates), key=lambda finding: (-finding.score, finding.position)):
        if len(findings) >= most:
            break
        if not any(relate(finding.text, other.text) in ONE_FACT for other in findings):
            findings.append(finding)
    return sorted(findings, key=lambda finding: finding.position)


def _finding(sentence: str, place: str, position: int) -> SentenceFinding | None:
    assessment = assess(sentence, place)
    if not assessment.is_kept or REDACTED in sentence or is_steering(sentence):
        return None
    return SentenceFinding(kind=assessment.kind, text=sentence, score=assessment.score, position=position)
