"""Words by which a statement says that something else held before, and what it says without them."""

from __future__ import annotations

import re
from functools import lru_cache

from ralph.core.records import record

_CUES = (
    *(":", "–", "—", "now", "more", "actual", "from", "forward", "as of", "since", "starting", "effective", "longer"),
    *("dropped", "ended", "discontin", "retired", "stop", "quit", "used to", "deprecat", "replace", "instead"),
    *("rather", "place of", "not", "never", "because", "so that", "in order", "to ", "also", "as well", "too"),
    *("addition", "correct", "amend", "update", "revis", "change", "supersed", ", as "),
)
"""Parts of words without which a text says nothing about a change, nor gives a reason."""


@record
class BareStatement:
    """What a text states, apart from the words that say that it changes an earlier one."""

    bare: str
    text: str
    """The same without the reasons that it gives."""
    is_change: bool
    """Whether it says that something else held before."""
    is_corrected: bool
    """Whether its words leave no doubt about that, which "now" does: "it now sends reminders"."""
    is_addition: bool
    """Whether it says that it holds beside something else."""


@record
class Replacement:
    """What a statement says that something else took the place of."""

    old: str
    rest: str
    """The statement without the old value, and without the new one if it is known."""
    is_new_known: bool


@lru_cache(2048)
def read_statement(text: str) -> BareStatement:
    """Return what a text states."""
    if not _may_have_cues(text):
        return BareStatement(bare=text, text=text, is_change=False, is_corrected=False, is_addition=False)
    from ralph.memory.lifecycle import change_patterns as patterns

    bare = patterns.LABEL.sub("", text, count=1) if patterns.LABEL.match(text) else text
    announced = patterns.ANNOUNCED.match(bare)
    bare = bare[announced.end() :] if announced else bare
    bare = patterns.LABEL.sub("", bare, count=1) if announced and patterns.LABEL.match(bare) else bare
    for pattern, words in patterns.ENDED:
        bare = pattern.sub(words, bare, count=1)
    adverbs = {found[0].strip(" ,").lower() for found in patterns.ADVERB.finditer(bare)}
    passed = patterns.PASSAGE.search(bare)
    without = patterns.ADVERB.sub("", bare)
    plain = patterns.NO_LONGER.sub("not", without)
    return BareStatement(
        bare=plain.strip(" ,"),
        text=patterns.REASON.sub("", plain).strip(" ,"),
        is_change=bool(announced or passed or without != bare or patterns.ENDS.match(without)),
        is_corrected=bool(announced) or bool(adverbs - {"now"}),
        is_addition=bool(patterns.ADDS.search(bare)),
    )


def ended_clause(text: str) -> str:
    """Return the clause of what no longer holds, as it was stated before; empty if there is none."""
    if not _may_have_cues(text):
        return ""
    from ralph.memory.lifecycle import change_patterns as patterns

    for pattern, words in patterns.ENDED:
        text = pattern.sub(words, text, count=1)
    text = re.sub(r"\bnot\b(?=[^.;!?\n]*\bany ?more\b)", "no longer", text)
    for clause in re.split(r"[.;!?](?:\s+|$)|,\s+|\s+(?:but|and (?:now|instead))\s+", patterns.REASON.sub("", text)):
        if patterns.NO_LONGER.search(clause):
            return patterns.ADVERB.sub("", patterns.NO_LONGER.sub("", clause)).strip()
    return ""


def replacements(text: str) -> list[Replacement]:
    """Return what a text says that something else took the place of."""
    if not _may_have_cues(text):
        return []
    from ralph.memory.lifecycle import change_patterns as patterns

    found = [
        Replacement(
            old=one["old"] or one["replaced"], rest=f"{text[: one.start()]}.{text[one.end() :]}", is_new_known=True
        )
        for one in patterns.PASSAGE.finditer(text)
    ]
    return found + [
        Replacement(old=one["value"], rest=f"{text[: one.start()]}.{text[one.end() :]}", is_new_known=False)
        for one in patterns.REPLACED.finditer(text)
    ]


def _may_have_cues(text: str) -> bool:
    """Return whether a text may have words that the patterns look for, which take long to load."""
    lowered = text.lower()
    return any(cue in lowered for cue in _CUES)
