"""Hints of secrets in single words, which tell what need not be searched for.

Searching a text for all kinds of secrets takes many patterns, and most texts contain none. Whatever a step of the
redaction finds has a hint in a single word (what stands between spaces): a marker, the beginning of a token, a long run
of characters. Texts use the same words again and again, so the hints of words are remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from ralph.core.redaction.context import RULE_MARKERS, SURE_MARKERS, lower
from ralph.core.redaction.detectors import DETECTOR_MARKERS, SUSPECT_BY_SHAPE, SUSPECT_NAME, SUSPECT_VALUE
from ralph.core.redaction.tokens import COLOR, MARKED_SECRETS, TOKEN_PREFIX, unescaped
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANY, PERCENT, MARKED, TOKEN, RANDOM, DETECTED, SURE_NAME = (1 << bit for bit in range(7))
"""Hints, one bit for each step that may find something; every text has the first."""
RULES = tuple(1 << bit for bit in range(7, 7 + len(RULE_MARKERS)))
"""Hints of the rules for contexts, in their order."""
CONTEXT = SURE_NAME | sum(RULES)
ALL = 2 * RULES[-1] - 1
MAX_WORDS = 50_000
"""Number of words that are remembered."""
MAX_WORD_CHARACTERS = 40
"""Length of the longest words that are remembered, in characters; longer ones rarely come again."""

_PERCENT = r"%[2-7][0-9A-Fa-f]"
_RUN = r"(?a)[\w+/=~-]{15,}+"
_HASH = r"(?ai)sha\d{1,3}[-:=]$"
"""Prefix of the hashes in lock files."""


def _bits_by_marker() -> dict[str, int]:
    """Return the hints of each marker, of which only what is in one word counts."""
    bits: dict[str, int] = {}
    marked = (marker for marker, _ in MARKED_SECRETS)
    for bit, markers in (
        *zip(RULES, RULE_MARKERS, strict=True),
        (SURE_NAME, SURE_MARKERS),
        (MARKED, marked),
        (DETECTED, DETECTOR_MARKERS),
    ):
        for marker in markers:
            word = marker.split()[0]
            bits[word] = bits.get(word, 0) | bit
    return bits


_BITS = tuple(_bits_by_marker().items())
_harmless: set[str] = set()
"""Words without hints."""
_known: dict[str, int] = {}
"""Hints of other words."""


def find_hints(texts: Sequence[str]) -> list[int]:
    """Return the hints in each text; a step without its hint finds nothing in it. Many texts at once take less time."""
    if len(_harmless) + len(_known) > MAX_WORDS:
        _harmless.clear()
        _known.clear()
    suspects = [set(text.split()).difference(_harmless) for text in texts]
    new = set().union(*suspects).difference(_known)
    long = _learn(new) if new else {}
    hints = []
    for words in suspects:
        bits = ANY
        for word in words:
            bits |= _known.get(word, 0) or long.get(word, 0)
        hints.append(bits)
    return hints


def _learn(words: set[str]) -> dict[str, int]:
    """Remember new words, all that are not too long, and return the hints of those that are."""
    ordered = list(words)
    starts = list(accumulate((len(word) + 1 for word in ordered), initial=0))
    found: dict[str, int] = {}
    for position, bits in _hints("\n".join(ordered), starts):
        word = ordered[bisect_right(starts, position) - 1]
        found[word] = found.get(word, 0) | bits
    long: dict[str, int] = {}
    for word in ordered:
        if len(word) > MAX_WORD_CHARACTERS:
            words.remove(word)
            suspect = DETECTED if compiled_pattern(SUSPECT_VALUE).search(fold(word)) else 0
            long[word] = found.pop(word, 0) | suspect
    _known.update(found)
    _harmless.update(words.difference(found))
    return long


def _hints(words: str, starts: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the position and the bits of each hint in words, which are separated by line breaks."""
    folded = fold(words)
    for marker, bits in _BITS:
        position = folded.find(marker)
        while position >= 0:
            yield position, bits
            position = folded.find(marker, starts[bisect_right(starts, position)])
    views = tuple(_views(words))
    for hint, text, pattern in (
        (PERCENT, words, _PERCENT),
        (DETECTED, words, SUSPECT_BY_SHAPE),
        (DETECTED, folded, SUSPECT_NAME),
        *((TOKEN, view, TOKEN_PREFIX) for view in views),
    ):
        for match in compiled_pattern(pattern).finditer(text):
            yield match.start(), hint
    for view in views:
        for start, _ in random_runs(view):
            yield start, RANDOM


def fold(text: str) -> str:
    """Return the text in lowercase with unchanged positions, and the letters that patterns take for an i or an s."""
    return text if text.isascii() and text.islower() else lower(text).replace("ı", "i").replace("ſ", "s")


def _views(words: str) -> Iterator[str]:
    """Yield words as they may be searched; whether colors are removed depends on the rest of the text."""
    yield unescaped(words)
    if compiled_pattern(COLOR).search(words):
        yield unescaped(f"{words}\n[0m")


def random_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of values with digits that may be random, encoded, or tokens."""
    digit, is_hash = compiled_pattern(r"(?a)\d"), compiled_pattern(_HASH)
    for run in compiled_pattern(_RUN).finditer(text):
        start, end = run.span()
        if digit.search(text, start, end) and not is_hash.search(text, max(0, start - 7), start):
            yield start, end
