"""How two statements relate: the same fact, a refinement of it, another value for it, or another fact.

Similar is not the same: "limited to 64 KB" and "limited to 256 KB" differ in a word, "SQLite over PostgreSQL" and
"PostgreSQL over SQLite" in none. So what could change the meaning is compared first: names, numbers, negations, and
whether one text has something else in the very place of the other. What remains is judged by common words and, where a
model is installed, by meaning, which finds paraphrases that share few words.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from ralph.core.records import MemorySource, record
from ralph.core.tokenize import FUNCTION_WORDS, stem_word
from ralph.memory.lifecycle.change_words import read_statement, replacements
from ralph.memory.lifecycle.fingerprint import WARNING_KINDS
from ralph.memory.lifecycle.frames import Difference, compare_frames, updates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.records import Memory

MIN_COMMON_WORDS, MIN_COMMON_WORDS_OF_LONG = 0.55, 0.8
"""Share of common words, by weight, from which two statements say the same, and two long texts.

Reports about one subject have its words in common, whatever they say of it.
"""
STATEMENT_WORDS, LONG_TEXT_WORDS = 20, 40
"""Number of different words up to which a text is a statement, and from which it is a long text."""
MIN_SIMILARITY = 0.82
"""Similarity in meaning from which two texts say the same, with `MIN_WORDS_BESIDE_MEANING` of common words."""
MIN_WORDS_BESIDE_MEANING = 0.15
MIN_SIMILARITY_BESIDE_WORDS = 0.78
"""Similarity in meaning from which common words are enough."""
MAX_COMPARED_LENGTH = 2_000
"""Length of a text up to which it is a statement that can be compared, in characters."""
MAX_REPLACED = 4
"""Number of words up to which two texts with the same frame are about different things or values."""
MAX_CHANGED = 2
"""Number of replaced words up to which it is another value for the same."""
MAX_SHORT = 6
"""Number of words up to which a word in the place of another one says something else, whatever else is added."""
MIN_FRAME = 2
"""Number of words that two statements have to share around a value to be about the same."""
MIN_EXTRA_WORDS = 2
"""Number of words that a text has to add to refine another one."""
NAME_WEIGHT, COMMON_WEIGHT = 2.0, 0.4
"""Weight of names and of words like "use", relative to other words."""


class Relation(StrEnum):
    """What a new statement is to a known one."""

    SAME = "same"
    REFINEMENT = "refinement"
    """The new one says the same and more."""
    CHANGE = "change"
    """Both speak about the same, and say something else about it."""
    DIFFERENT = "different"


ONE_FACT = (Relation.SAME, Relation.REFINEMENT)
"""Relations of statements that are one memory."""


@record
class PreparedText:
    """A text, prepared for comparison."""

    words: tuple[str, ...]
    """Stems in order, without function words; synonyms are one word."""
    weights: dict[str, float]
    names: frozenset[str]
    """Identifiers, paths and options as a whole."""
    particles: tuple[str, ...]
    """Small words that can turn a verb into another one: "check in" is not "check"."""
    numbers: frozenset[str]
    is_negated: bool


_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "database db",
        "repository repo",
        "configuration config settings",
        "environment env envs",
        "directory dir folder",
        "start begin",
        "reject deny refuse decline forbid",
        "require need necessary",
        "truncate cut",
        "null none nil undefined",
        "uppercase capital",
        "run execute invoke launch apply",
        "store keep save persist kept",
        "wrap wrapped wrapper",
        "fail break broken crash",
        "update edit change",
        "parameter argument option flag",
        "limit cap restrict",
        "skip ignore",
        "verify validate check",
        "before first prior",
        "test spec suite",
        "temporary temp tmp",
        "package crate",
        "function method",
        "remove delete drop",
        "create make build add",
        "exist present",
        "read load",
        "print emit output write",
        "variable var",
        "command subcommand",
    )
    for word in group.split()
}
_COMMON = frozenset(
    "use set via instead because since otherwise avoid always every set have when if so that then there here must"
    " should need require file code value new own only run make create go get give take work keep put call".split()
)
_FILLERS = FUNCTION_WORDS - frozenset("before after all some only without on off up down over under".split())
"""Words that say nothing by themselves; those that turn a statement around are not among them."""
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|without|cannot|can't|don't|doesn't|isn't|aren't|won't|mustn't|avoid|nothing|neither)\b",
    re.IGNORECASE,
)
_DENIED_VERB = (
    r"\b(?:(?:not|never|cannot|can't|don't|doesn't|isn't|aren't|mustn't|shouldn't)(?: (?:be|to|ever))?|(?<!to )avoid)"
    r" (?P<verb>[a-z]+)\b(?!_|\.\w)"
)
_DENIED = re.compile(
    r"(?:(?!\b(?:that|which|where|when|if|because|unless|while|so|as|or|and)\b)[^,;:.()])*?" + _DENIED_VERB,
    re.IGNORECASE,
)
"""What a statement does not do; a negation in a clause within it says something else."""
_DENIES = re.compile(
    rf"{_NEGATION.pattern}|\b(?:forbid\w*|forbidden|prohibit\w*|banned|disallow\w*|refrain|mustn't|shouldn't)\b",
    re.IGNORECASE,
)
_ENDED = re.compile(r"\b(?:removed?|dropped|deleted|retired|gone|was|were|formerly|previously)\b", re.IGNORECASE)
"""Words by which a statement tells that something has ended."""
_ONLY = re.compile(r"\b(?:only|except)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
_WORD = re.compile(r"[A-Za-z0-9_#*+./:<>{}=\\-]*[A-Za-z0-9_}>*]|\|\|")
_CHUNK = re.compile(r"[\w./:#-]+")
_INNER = re.compile(r"\w(?:[_/.]|::)\w|[a-z][A-Z]|^--[a-z]|^_\w|^/\w")
_SIGN = re.compile(r"`([^\w`]+)`")
_PARTICLE = re.compile(r"\b(?:in|out|with|from|to|by|at|into|for)\b")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(4096)
def prepare(text: str) -> PreparedText:
    """Return a text prepared for comparison."""
    text = text[:MAX_COMPARED_LENGTH]
    words: list[str] = []
    weights: dict[str, float] = {}
    for chunk in _WORD.findall(text.replace("`", " ").replace("'", " ")):
        for word, weight in _terms(chunk):
            words.append(word)
            weights[word] = max(weight, weights.get(word, 0.0))
    spelled = (_NUMBER_WORDS[word] for word in _WORD.findall(text.lower()) if word in _NUMBER_WORDS)
    return PreparedText(
        words=tuple(words),
        weights=weights,
        names=frozenset((*_names(text), *_SIGN.findall(text))),
        particles=tuple(_PARTICLE.findall(text.lower())),
        numbers=frozenset((*_NUMBER.findall(text), *spelled)),
        is_negated=len(_NEGATION.findall(text)) % 2 == 1,
    )


def _names(text: str) -> Iterator[str]:
    """Yield the identifiers, paths and options of a text."""
    return (chunk.lower().strip("./:") for chunk in _CHUNK.findall(text) if _INNER.search(chunk.rstrip("./:")))


def _terms(chunk: str) -> list[tuple[str, float]]:
    """Return the words of a chunk with their weights: a name counts as a whole and by its parts."""
    lower = chunk.lower().strip("-./:=<>{}*#")
    lower = _NUMBER_WORDS.get(lower, lower)
    if not lower or lower in _FILLERS:
        return []
    if lower.isalpha() and (chunk.islower() or chunk.istitle()):
        return [(_term(lower), COMMON_WEIGHT if lower in _COMMON else 1.0)]
    parts = [
        _term(part.lower())
        for part in _PART.findall(lower if lower.isdigit() else chunk)
        if part.lower() not in _FILLERS
    ]
    return [(part, NAME_WEIGHT if len(parts) == 1 and not lower.isdigit() else 1.0) for part in parts]


def _term(word: str) -> str:
    """Return the stem of a word, or of the word that stands for its synonyms."""
    stem = stem_word(word)
    return _synonym_stems().get(stem, stem)


@lru_cache(1)
def _synonym_stems() -> dict[str, str]:
    return {stem_word(word): stem_word(first) for word, first in _SYNONYMS.items()}


def relate(new: str, known: str, similarity: float | None = None) -> Relation:
    """Return what a new text is to a known one; `similarity` is their cosine, if a model is installed."""
    if max(len(new), len(known)) > MAX_COMPARED_LENGTH:
        return Relation.SAME if new == known else Relation.DIFFERENT
    one, other = prepare(read_statement(new).bare), prepare(read_statement(known).bare)
    if one.words == other.words and one.names == other.names:
        is_same = (one.is_negated, one.particles) == (other.is_negated, other.particles)
        return Relation.SAME if is_same else Relation.CHANGE
    if updates(new, known) or updates(known, new):
        return Relation.CHANGE
    difference = compare_frames(new, known)
    if difference is not Difference.NONE:
        return Relation.CHANGE if difference is Difference.VALUE else Relation.DIFFERENT
    common = common_words(one, other)
    is_alike = common >= _needed_share(one, other)
    if similarity is not None:
        needed = MIN_SIMILARITY_BESIDE_WORDS if is_alike else MIN_SIMILARITY
        is_alike = similarity >= needed and common >= MIN_WORDS_BESIDE_MEANING
    if one.names and other.names and not _share_a_name(one, other):
        return Relation.DIFFERENT
    if MAX_CHANGED < _replaced(one, other) <= MAX_REPLACED or _differ_twice(one, other):
        return Relation.DIFFERENT
    if _conflict(one, other):
        return Relation.CHANGE if is_alike or common >= MIN_COMMON_WORDS else Relation.DIFFERENT
    is_refined = _adds(one, other)
    if not is_alike and not is_refined:
        return Relation.DIFFERENT
    if _says_otherwise(new, known):
        return Relation.CHANGE
    return Relation.REFINEMENT if is_refined else Relation.SAME


def _says_otherwise(new: str, known: str) -> bool:
    """Return whether one of two statements says that something else held before, or denies what the other one says."""
    one, other = read_statement(new), read_statement(known)
    if one.is_change != other.is_change:
        earlier = known if one.is_change else new
        if not _DENIES.search(earlier) and not _ENDED.search(earlier):
            return True
    return any(_denies(one, other) or _replaces(one, other) for one, other in ((new, known), (known, new)))


def _replaces(one: str, other: str) -> bool:
    """Return whether a statement has something in place of what another one says."""
    replaced = [prepare(found.old).weights.keys() for found in replacements(one)]
    if not replaced or replacements(other):
        return False
    told = prepare(other).weights.keys()
    return any(words and words <= told for words in replaced)


def _denies(one: str, other: str) -> bool:
    """Return whether what a statement does is just what another one does not do."""
    denied = _DENIED.match(one)
    if not denied or _DENIES.search(other) or _ONLY.search(one) or _ONLY.search(other):
        return False
    done = {_term(word) for word in _WORD.findall(other.lower()) if not word.endswith("ing")}
    return _term(denied["verb"].lower()) in done - _FILLERS


def _share_a_name(one: PreparedText, other: PreparedText) -> bool:
    return any(name in known or known in name for name in one.names for known in other.names)


def common_words(one: PreparedText, other: PreparedText) -> float:
    """Return the share of common words of two texts, by weight, relative to both."""
    weights = one.weights | other.weights
    shared = sum(weights[word] for word in one.weights.keys() & other.weights.keys())
    total = sum(one.weights.values()) + sum(other.weights.values())
    return 2 * shared / total if total else 0.0


def _needed_share(one: PreparedText, other: PreparedText) -> float:
    """Return the share of common words from which two texts say the same; the longer they are, the more."""
    words = min(len(one.weights), len(other.weights))
    length = min(1.0, max(0.0, (words - STATEMENT_WORDS) / (LONG_TEXT_WORDS - STATEMENT_WORDS)))
    return MIN_COMMON_WORDS + length * (MIN_COMMON_WORDS_OF_LONG - MIN_COMMON_WORDS)


def _adds(new: PreparedText, known: PreparedText) -> bool:
    """Return whether a text has all words of another one, and more."""
    extra = new.weights.keys() - known.weights.keys()
    return known.weights.keys() <= new.weights.keys() and len(extra) >= MIN_EXTRA_WORDS


def _conflict(one: PreparedText, other: PreparedText) -> bool:
    """Return whether two texts cannot be the same fact, however similar they are."""
    if one.numbers and other.numbers and not (one.numbers <= other.numbers or other.numbers <= one.numbers):
        return True
    if set(one.words) == set(other.words):
        return _is_swapped(one, other) or one.is_negated != other.is_negated
    if 0 < _replaced(one, other) <= MAX_REPLACED:
        return True
    words, others = set(_telling(one)), set(_telling(other))
    if one.is_negated == other.is_negated or not (words <= others or others <= words):
        return False
    # "Always use tabs" and "never use tabs" tell the same words.
    return words == others or not _goes_on(one, other)


def _goes_on(one: PreparedText, other: PreparedText) -> bool:
    """Return whether one text is the start of the other, so that a negation is in what it adds."""
    shorter = min(len(one.words), len(other.words))
    return one.words[:shorter] == other.words[:shorter]


def _is_swapped(one: PreparedText, other: PreparedText) -> bool:
    """Return whether two texts of the same words and the same frame have them in another order."""
    return one.words[:1] == other.words[:1] and one.words != other.words


def _replaced(one: PreparedText, other: PreparedText) -> int:
    """Return how many words one text has in the places of others, if the two are one sentence but for these; else 0.

    "The cache is in Redis" and "The cache is in memory" are; a paraphrase turns the sentence around, or adds to it.
    """
    words, others = _telling(one), _telling(other)
    common = set(words) & set(others)
    gaps, other_gaps = _gaps(words, common), _gaps(others, common)
    if [word for word in words if word in common] != [word for word in others if word in common]:
        return 0
    sides = {(bool(gap), bool(other_gap)) for gap, other_gap in zip(gaps, other_gaps, strict=True)}
    is_short = max(len(words), len(others)) <= MAX_SHORT
    if sides & {(True, False), (False, True)} and not (is_short and (True, True) in sides):
        return 0
    return max(sum(map(len, gaps)), sum(map(len, other_gaps))) if len(common) >= MIN_FRAME else 0


def _differ_twice(one: PreparedText, other: PreparedText) -> bool:
    """Return whether two texts are one sentence but for two places: what they are about, and what they say of it."""
    if not _replaced(one, other):
        return False
    words, others = _telling(one), _telling(other)
    common = set(words) & set(others)
    gaps = [gap for gap in zip(_gaps(words, common), _gaps(others, common), strict=True) if any(gap)]
    return len(gaps) > 1 and any(all(word[0].isdigit() for word in (*ours, *theirs)) for ours, theirs in gaps)


def _telling(statement: PreparedText) -> list[str]:
    return [word for word in statement.words if statement.weights[word] > COMMON_WEIGHT]


def _gaps(words: list[str], common: set[str]) -> list[list[str]]:
    """Return the words before, between and after common ones."""
    gaps: list[list[str]] = [[]]
    for word in words:
        if word in common:
            gaps.append([])
        else:
            gaps[-1].append(word)
    return gaps


def comparable_key(memory: Memory) -> tuple[object, ...]:
    """Return what two memories must have in common to be one: their scope, and whether they warn or recommend.

    The type is not part of it: the same rule is a constraint to one agent and a pattern to another. An agent may state
    as a pitfall just what to avoid; a sentence that Ralph extracted says so itself.
    """
    is_warning = memory.kind in WARNING_KINDS and memory.source is not MemorySource.AUTOMATIC
    return memory.feature, memory.task_type, is_warning, memory.kind == "knowledge"


def is_better_wording(new: str, known: str) -> bool:
    """Return whether a text for a known fact names everything the known text does, and more."""
    return prepare(new).names > prepare(known).names
