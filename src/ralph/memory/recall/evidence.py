"""What an estimate of relevance rests on, in words."""

from __future__ import annotations

import re

from ralph.core.tokenize import tokenize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory

MAX_NAMED_WORDS = 4
"""Number of words in common that are named."""
MAX_READ_CHARACTERS = 4_000
"""Length of the text in which words are looked up, in characters."""
_WRITTEN_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_as_written(context: RecallContext) -> dict[str, str]:
    """Return the words of a context as they were written, by their stems; those within an identifier in lower case."""
    text = "\n".join((context.title, context.body, *context.errors, *context.files, *context.recent))
    written: dict[str, str] = {}
    for word in dict.fromkeys(_WRITTEN_WORD.findall(text[:MAX_READ_CHARACTERS])):
        parts = [word] if len(tokenize(word)) == 1 else map(str.lower, _PART.findall(word))
        for part in parts:
            if len(stems := tokenize(part)) == 1:
                written.setdefault(stems[0], part)
    return written


def describe_evidence(hit: ScoredMemory, written: Mapping[str, str]) -> str:
    """Return what makes a candidate relevant, or that nothing does, as a clause about it."""
    parts = [hit.certainty] if hit.certainty else []
    if hit.telling:
        parts.append(f"shares the word{'s' * (len(hit.telling) > 1)} {_named(hit.telling, written)}")
    if hit.amounts.get("nearest"):
        parts.append("is by far the nearest in meaning")
    elif hit.amounts.get("cosine", 0.0) > 0:
        parts.append("has a similar meaning")
    if hit.amounts.get("feature"):
        parts.append("was learned for the same feature")
    if hit.inherited and hit.relevance == hit.inherited:
        parts.append("was said or learned together with a relevant one")
    if not parts and hit.too_few:
        parts.append(f"only {_named(hit.too_few, written)} in common, which may be chance")
    return "; ".join(parts) or "only words in common that occur anywhere"


def _named(stems: Sequence[str], written: Mapping[str, str]) -> str:
    """Return the first of some words as they are written, and how many there are besides."""
    more = len(stems) - MAX_NAMED_WORDS
    named = [written.get(stem, stem) for stem in stems[:MAX_NAMED_WORDS]]
    return _joined([*named, f"{more} more"] if more > 0 else named)


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
