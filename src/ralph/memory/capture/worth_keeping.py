"""Which sentences are worth keeping, and as what, judged by transparent cues instead of a model.

A sentence is worth keeping if it holds beyond the task at hand: a rule, a choice with its reason, a cause or a fix, a
fact with names and numbers. Each cue adds its weight, so that no cue decides alone: "never" in "Never mind, it works
now" does not make up for the rest. The weights are a logistic regression over the tuning half of the labeled sentences
(`bench/learning`), rounded. A missed sentence can still be stated as a memory; noise is told to every later session.
"""

from __future__ import annotations

import re
from functools import cache

from ralph.core.records import record
from ralph.memory.capture.cues import CUES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.memory.capture.cues import Cue

MIN_SCORE = 0.0
"""Score from which a sentence is kept: even odds that a person would keep it."""
MIN_LENGTH, MAX_LENGTH = 20, 400
"""Length of a sentence that can stand alone, in characters."""
BIAS = -1.3
"""Score of a sentence without any cue: most of what is said is not worth keeping."""
PLACE_WEIGHT = 1.7
"""Added if a cue speaks for what is said at the place: who reviews finds pitfalls, who plans decides."""
TALK_PLACES = ("final", "person")
"""Places where people and agents talk to each other instead of writing notes."""
TALK_WEIGHT = -1.6
"""Added in talk, which mostly is about the task at hand."""


@record
class Assessment:
    """Whether a sentence is worth keeping, and why."""

    score: float
    kind: str
    """Memory type it would be kept as."""
    cues: tuple[str, ...]
    """Names of the cues found."""

    @property
    def is_kept(self) -> bool:
        """Whether the sentence is worth keeping."""
        return self.score >= MIN_SCORE


_VETO = re.compile(
    r"[?:,][\"')]*$|\(e\.g\.$|\b(?:cmd|exit|error|next|met|evidence|confidence)=|\bMEMORY\s*+:\s*+\w++\s*+:"
    r"|^(?:todo|let me|let's|let us|i'll|i will|i am going|see (?:the|also)|the (?:approach|plan)\b)",
    re.IGNORECASE,
)
"""Questions, unfinished sentences, lines of a log, announcements and what is a memory already are never kept."""
_SPECIFIC = frozenset("name obligation absolute only limit choice reason convention dependency".split())
"""A sentence has to name something, or to be a rule or a choice: where nothing in particular lives helps nobody."""
_ROUTINE = frozenset("report plan courtesy guess praise short pointer".split())
"""Cues of what is said in passing, also beside the description of a fix."""
_EXCUSED = {
    "own choice": ("narrative", "first person"),
    "request for good": ("narrative", "first person", "second person", "refers back"),
}
"""Cues that say nothing against a sentence with the first one: "I chose SQLite because …" is not about the session."""
_TYPE_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "explorer": (
        ("dependency", "dependency"),
        ("structure", "architecture"),
        ("absolute", "constraint"),
        ("obligation", "constraint"),
        ("uses", "dependency"),
    ),
    "planner": (
        ("own choice", "decision"),
        ("choice", "decision"),
        ("obligation", "constraint"),
        ("absolute", "constraint"),
        ("limit", "constraint"),
        ("only", "constraint"),
        ("reason", "decision"),
    ),
    "completion": (("fix", "fix"), ("procedure", "pattern"), ("universal", "convention")),
    "critic": (("", "pitfall"),),
    "": (
        ("fix", "fix"),
        ("own choice", "decision"),
        ("convention", "convention"),
        ("request for good", "convention"),
        ("absolute", "constraint"),
        ("only", "constraint"),
        ("procedure", "pattern"),
        ("obligation", "constraint"),
        ("limit", "constraint"),
        ("prohibition first", "constraint"),
        ("universal", "constraint"),
        ("fails when", "pitfall"),
        ("failure", "pitfall"),
        ("choice", "decision"),
        ("structure", "architecture"),
        ("dependency", "dependency"),
        ("uses", "architecture"),
        ("handles", "architecture"),
    ),
}
"""Cues and the memory type that each makes of a sentence, by place and then for all; the first one found decides."""
PLACE_TYPES = {
    "explorer": ("architecture", "dependency"),
    "planner": ("decision", "constraint"),
    "critic": ("pitfall",),
    "completion": ("pattern", "convention"),
    "final": ("pitfall",),
    "person": ("constraint", "convention"),
}
"""Memory types that the sentences of a place are likely to be: who reviews finds pitfalls, who plans decides."""


def assess(sentence: str, place: str) -> Assessment:
    """Return whether a sentence said at a place is worth keeping, and as which memory type."""
    cues = find_cues(sentence[:MAX_LENGTH])
    score = BIAS + sum(cue.weight for cue in cues)
    if any(kind in PLACE_TYPES.get(place, ()) for cue in cues for kind in cue.types):
        score += PLACE_WEIGHT
    if place in TALK_PLACES:
        score += TALK_WEIGHT
    is_general = not any(cue.name in _SPECIFIC for cue in cues)
    if is_general or not MIN_LENGTH <= len(sentence) <= MAX_LENGTH or _VETO.search(sentence):
        score = min(score, -1.0)
    return Assessment(score=round(score, 2), kind=_kind(cues, place), cues=tuple(cue.name for cue in cues))


def is_routine(sentence: str) -> bool:
    """Return whether a sentence of notes only says how the work went: that tests pass, what comes next, thanks."""
    return not _ROUTINE.isdisjoint(cue.name for cue in find_cues(sentence[:MAX_LENGTH]))


def find_cues(sentence: str) -> list[Cue]:
    """Return the cues of a sentence, without those that another one excuses."""
    cues = [cue for cue in CUES if _compiled(cue.pattern, cue.is_cased).search(sentence)]
    excused = {name for cue in cues for name in _EXCUSED.get(cue.name, ())}
    return [cue for cue in cues if cue.name not in excused]


def _kind(cues: list[Cue], place: str) -> str:
    """Return the memory type of a sentence: that of its most telling cue, or else that of the place."""
    found = {"", *(cue.name for cue in cues)}
    rules = (*_TYPE_RULES.get(place, ()), *_TYPE_RULES[""])
    return next((kind for name, kind in rules if name in found), PLACE_TYPES.get(place, ("pattern",))[0])


@cache
def _compiled(pattern: str, is_cased: bool) -> re.Pattern[str]:
    return re.compile(pattern, 0 if is_cased else re.IGNORECASE)
