"""How two statements differ if they are one sentence but for a part of it.

"Use single quotes" and "use double quotes" share more than many paraphrases do, and contradict each other; "Login needs
UTC" and "Billing needs UTC" share as much, and both hold. What tells them apart is where they differ: in the value that
a sentence gives, in what it is about, in whether it forbids, or in the scope that one of them is limited to.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache

from ralph.core.records import record
from ralph.core.tokenize import stem_word
from ralph.memory.lifecycle.change_words import ended_clause, read_statement, replacements
from ralph.memory.lifecycle.frame_words import (
    AFTER_FIGURES,
    ALTERNATIVES,
    BEFORE_FIGURES,
    BOUNDS,
    DIMENSIONS,
    ENVIRONMENTS,
    INSTRUCTING,
    IRREGULAR,
    LIGHT,
    LINKS,
    NEGATIONS,
    PERMISSIONS,
    PLACES,
    SCOPES,
    SPELLED,
    STRESS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.memory.lifecycle.change_words import Replacement

MAX_WORDS = 30
"""Number of words up to which a text is one sentence whose parts can be compared."""
MAX_DIFFERENT_WORDS = 3
"""Number of words up to which a part is a value or a subject."""
MIN_SUBJECT, MIN_COMMON_TOLD = 2, 2
"""Numbers of words of a subject, and that two statements both say of it, from which one gives it a new figure."""


class Difference(Enum):
    """What sets two statements with the same frame apart."""

    NONE = auto()
    """They are not one sentence but for a part, or nothing is known about it."""
    VALUE = auto()
    """Both are about the same, and give it another value or say the opposite."""
    SUBJECT = auto()
    """They say the same about something else, or forbid something else."""
    SCOPE = auto()
    """One of them holds in some places only, as an exception."""


@record
class _Sentence:
    """A statement, prepared for comparison."""

    words: tuple[str, ...]
    """Stems in order, without articles, negations and words that only stress."""
    is_negative: bool
    is_instruction: bool
    negated_after: int
    """Number of words before the first negation."""
    is_change: bool
    is_corrected: bool
    is_addition: bool


_WORD = re.compile(r"[A-Za-z0-9_@#$%&*+./:=-]*[A-Za-z0-9_/]|[^\W_]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_NUMBER = re.compile(r"[\d.,:]+(?:%|[a-z]{1,2})?$")
_JOINED = re.compile(r"\b(?:and|or)\b|,")
_NOW = re.compile(
    r"(?P<subject>(?:[^.;:!?\n]|[.:](?=\w)){3,80}?)\s+(?P<state>(?:is|are|was|were|has been|have been)\s+)?now\b"
)
_STATE = re.compile(r"\s+(?:now|is|are|was|were|has been|have been)\b")
_DIGIT = re.compile(r"\d")


def compare_frames(one: str, other: str) -> Difference:
    """Return what sets two statements apart, if they are one sentence but for a part of it."""
    ours, theirs = _read(one), _read(other)
    if not ours or not theirs:
        return Difference.NONE
    if ours.is_negative != theirs.is_negative:
        return _opposed(ours, theirs)
    start, end = _frame(ours.words, theirs.words)
    gap, other_gap = ours.words[start : len(ours.words) - end], theirs.words[start : len(theirs.words) - end]
    frame = (*ours.words[:start], *ours.words[len(ours.words) - end :])
    if not gap or not other_gap or max(len(gap), len(other_gap)) > MAX_DIFFERENT_WORDS + 2:
        return Difference.NONE
    if ours.is_negative and ours.is_instruction and start:
        return Difference.SUBJECT  # what must not be done adds up
    if ours.is_addition or theirs.is_addition:
        return Difference.SUBJECT
    are_alternatives = _are_alternatives(gap, other_gap)
    if not are_alternatives and not _is_frame(frame):
        return Difference.NONE
    if bool(SCOPES.intersection(gap)) != bool(SCOPES.intersection(other_gap)):
        return Difference.SCOPE
    if are_alternatives:
        return Difference.VALUE
    if _differ_in_kind(gap, other_gap):
        return Difference.NONE
    if (
        start
        and ours.words[start - 1] in SCOPES
        and ENVIRONMENTS.intersection(gap)
        and ENVIRONMENTS.intersection(other_gap)
    ):
        return Difference.SUBJECT
    if set(gap) & set(other_gap) or (SCOPES.intersection(gap[1:]) and SCOPES.intersection(other_gap[1:])):
        return Difference.SUBJECT if SCOPES & set(gap) else Difference.NONE  # it differs in two places
    if max(len(gap), len(other_gap)) > MAX_DIFFERENT_WORDS:
        return Difference.NONE
    return _position(ours, theirs, start, end)


def is_change(new: str, known: str) -> bool:
    """Return whether a statement says something else about what an earlier one is about."""
    if compare_frames(new, known) is Difference.VALUE or _compare_figures(new, known) is Difference.VALUE:
        return True
    return updates(new, known) or any(_replaces(new, one, known) for one in replacements(new))


def is_certain_change(new: str, known: str) -> bool:
    """Return whether a statement replaces an earlier one, rather than contradicting it for some other reason.

    It does if it is the opposite, has another figure, or says that something else was the case before.
    """
    if updates(new, known):
        return True
    ours, theirs = _read(new), _read(known)
    if not ours or not theirs or compare_frames(new, known) is not Difference.VALUE:
        return False
    if ours.is_negative != theirs.is_negative:
        return True
    start, end = _frame(ours.words, theirs.words)
    return _are_figures(*(words[start : len(words) - end] for words in (ours.words, theirs.words)))


def are_apart(new: str, known: str) -> bool:
    """Return whether two statements show that both hold: one is an exception, or about something else."""
    if compare_frames(new, known) in (Difference.SCOPE, Difference.SUBJECT):
        return True
    return not _limit_the_same(_words(new), _words(known))


def subject_words(text: str) -> set[str]:
    """Return the stems of a text that tell what it is about."""
    return set(_telling(_words(text)))


def says_change(text: str) -> bool:
    """Return whether a statement says that something else held before."""
    return read_statement(text).is_change


def may_change(text: str) -> bool:
    """Return whether a statement may replace an earlier one, as far as its own words tell."""
    words = set(_WORD.findall(text.lower().replace("'", "")))
    is_telling = bool(_DIGIT.search(text) or words & (NEGATIONS | SPELLED.keys() | {"may", "can", "allowed"}))
    return is_telling or says_change(text) or bool(replacements(text))


def updates(new: str, known: str) -> bool:
    """Return whether a statement says that something else holds of the thing that an earlier one is about."""
    if _ends(new, known) or any(_replaces(new, one, known, is_certain=True) for one in replacements(new)):
        return True
    if _tells_new_figure(new, known):
        return True
    ours, theirs = _read(new), _read(known)
    if not ours or not theirs or not ours.is_change or compare_frames(new, known) is not Difference.VALUE:
        return False
    return ours.is_corrected or _is_value_place(ours, theirs)


def _tells_new_figure(new: str, known: str) -> bool:
    """Return whether a statement of any length says that a thing now has another figure, version or commit.

    "The boundary is now advanced to 9f8e7d6" follows "it was set to a1b2c3d", but not what it now does as well.
    """
    found = _NOW.match(new)
    if not found:
        return False
    subject, before, after = _words(found["subject"]), _words(known), _words(new)
    if len(subject) < MIN_SUBJECT or before[: len(subject)] != subject:
        return False
    told, said = (set(_telling(words[len(subject) :])) for words in (before, after))
    figures, other_figures = ({word for word in one if _DIGIT.search(word)} for one in (told - said, said - told))
    is_state = bool(found["state"] and _STATE.match(known[found.end("subject") :]))
    return bool(figures and other_figures) and len(told & said) >= (1 if is_state else MIN_COMMON_TOLD)


def _ends(new: str, known: str) -> bool:
    """Return whether a statement says that no longer holds what an earlier one says."""
    clause = ended_clause(new)
    ended, before = _read(clause) if clause else None, _read(known)
    if not ended or not before or before.is_negative:
        return False
    told, ending = _telling(before.words), _telling(ended.words)
    if not ending or not set(ending) <= set(told):
        return False
    is_whole = set(ending) == set(told) or not _JOINED.search(known)
    return is_whole and _is_in_order(ended, before)


def _replaces(new: str, one: Replacement, known: str, *, is_certain: bool = False) -> bool:
    """Return whether a statement has something else in place of what an earlier one says of the same."""
    before = _read(_without_replaced(known))
    replaced = set(_telling(_words(one.old)))
    if not replaced or not before or before.is_negative:
        return False
    told, rest = set(_telling(before.words)), set(_telling(_words(one.rest)))
    if not replaced <= told or replaced <= rest:
        return False
    frame = {word for word in told - replaced if not _NUMBER.match(word)} - _unit_stems()
    if frame and frame <= rest and (one.is_new_known or rest > frame):
        return True
    return not is_certain and one.is_new_known and not rest


def _without_replaced(text: str) -> str:
    """Return a statement without what it says not to hold."""
    return next((one.rest for one in replacements(text) if not one.is_new_known), text)


def alternative_groups(words: Iterable[str]) -> set[str]:
    """Return a mark for each choice of which some stems are an option, so that memories with another one are found."""
    known = set(words)
    return {f"{number} alternatives" for number, group in enumerate(_alternatives()) if group & known}


def _opposed(one: _Sentence, other: _Sentence) -> Difference:
    """Return the difference of statements of which one forbids or denies."""
    ours, theirs = _content(one.words), _content(other.words)
    if ours == theirs:
        return Difference.VALUE if _is_in_order(one, other) else Difference.SUBJECT
    smaller, larger = (one, other) if len(ours) < len(theirs) else (other, one)
    if not _content(smaller.words) <= _content(larger.words) or not _content(smaller.words):
        return Difference.NONE
    negated = one if one.is_negative else other
    if negated is larger and _content(smaller.words) <= set(larger.words[: larger.negated_after]):
        return Difference.NONE  # "run the tests", "run the tests, and never skip the linter"
    return Difference.SCOPE


def _is_in_order(one: _Sentence, other: _Sentence) -> bool:
    """Return whether two statements of the same words have the same subject, which an order puts behind its verb.

    "The core uses plugins" is not about what "plugins use the core" is about.
    """
    ours, theirs = _telling(one.words), _telling(other.words)
    is_turned = one.is_instruction != other.is_instruction or _is_passive(one) != _is_passive(other)
    return is_turned or len(ours) != len(theirs) or ours == theirs


def _is_passive(one: _Sentence) -> bool:
    return bool({"is", "are"}.intersection(one.words))


def _position(one: _Sentence, other: _Sentence, start: int, end: int) -> Difference:
    """Return what a difference means by where it is."""
    gap, other_gap = (words[start : len(words) - end] for words in (one.words, other.words))
    if any(map(_NUMBER.match, gap)) and any(map(_NUMBER.match, other_gap)):
        is_other_thing = {*gap} - {*other_gap} and not (_NUMBER.match(gap[0]) and _NUMBER.match(other_gap[0]))
        if is_other_thing or not _limit_the_same(one.words, other.words):
            return Difference.SUBJECT
    if start > 1 and one.words[start - 1] == "use" and one.words[start - 2] in ("is", "are"):
        return Difference.SUBJECT  # what something is used for adds up
    if _NUMBER.match(gap[0]) and _NUMBER.match(other_gap[0]):
        if not _are_figures(gap, other_gap):
            return Difference.SUBJECT  # "3 projects", "1 workspace"
        before, after = one.words[start - 1] if start else "", one.words[len(one.words) - end] if end else ""
        is_value = before in BEFORE_FIGURES or after in AFTER_FIGURES or len(gap) > 1 or not gap[0].isdigit()
        return Difference.VALUE if is_value else Difference.SUBJECT  # "step 3" is another step
    if not one.is_instruction:
        return Difference.VALUE if start > 1 else Difference.SUBJECT
    after = one.words[len(one.words) - end] if end else ""
    is_part_of_name = start == 1 and after and after not in LINKS and after not in SCOPES
    is_after_link = one.words[start - 1] in LINKS - SCOPES  # "in functions" limits what it says
    return Difference.VALUE if is_part_of_name or is_after_link else Difference.SUBJECT


def _is_value_place(one: _Sentence, other: _Sentence) -> bool:
    """Return whether two statements differ in what they say of a thing, rather than in what else it does."""
    start, _ = _frame(one.words, other.words)
    before = one.words[start - 1] if start else ""
    if before in PLACES:
        return _is_passive(one)  # "is now kept in …", but "now runs in …"
    if one.is_instruction or before in LINKS or before in _light_stems():
        return True
    return bool(_DIGIT.search(one.words[start]) and _DIGIT.search(other.words[start]))


def _compare_figures(new: str, known: str) -> Difference:
    """Return whether two statements give the same thing another figure, whatever the order of their words."""
    ours, theirs = _read(new), _read(known)
    if not ours or not theirs or ours.is_negative != theirs.is_negative:
        return Difference.NONE
    words, others = ({*_telling(one.words)} - _unit_stems() for one in (ours, theirs))
    figures, other_figures = ({word for word in told if _NUMBER.match(word)} for told in (words, others))
    if (
        len(figures) != 1
        or len(other_figures) != 1
        or figures == other_figures
        or not _limit_the_same(ours.words, theirs.words)
    ):
        return Difference.NONE
    is_same = words - figures == others - other_figures and len(words) > 1
    return Difference.VALUE if is_same else Difference.NONE


def _limit_the_same(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether two statements limit the same in the same direction, as far as they give one figure each."""
    ours, theirs = _measures(words), _measures(others)
    return len(ours) != 1 or len(theirs) != 1 or ours == theirs


def _measures(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the bounds and the units of the figures of a statement."""
    found = []
    for place, word in enumerate(words):
        if _NUMBER.match(word):
            unit = words[place + 1] if place + 1 < len(words) else ""
            bound = next((BOUNDS[one] for one in words[max(0, place - 2) : place] if one in BOUNDS), "")
            found.append((bound, DIMENSIONS.get(unit, "" if unit in LINKS or unit in SCOPES else unit)))
    return found


def _is_frame(words: tuple[str, ...]) -> bool:
    """Return whether the words that two statements have in common tell what both are about."""
    content = _content(words)
    has_link = bool(content) and bool(LINKS.intersection(words))
    return len(content) > 1 or has_link or bool(content - _instructing_stems())


def _content(words: tuple[str, ...]) -> set[str]:
    return set(_telling(words))


def _telling(words: tuple[str, ...]) -> list[str]:
    """Return the words that tell what a statement is about and what it says of it, in order."""
    empty = _light_stems()
    return [
        word
        for word in words
        if word not in LINKS and word not in SCOPES and word not in PERMISSIONS and word not in empty
    ]


def _are_alternatives(gap: tuple[str, ...], other_gap: tuple[str, ...]) -> bool:
    ours, theirs = set(gap) - set(other_gap), set(other_gap) - set(gap)
    for group in _alternatives():
        if group & ours and group & theirs:
            left, other_left = (set(_telling(tuple(words - group))) for words in (ours, theirs))
            # "single quotes in Python" and "double quotes in JavaScript" differ in more than the quotes.
            return not (left and other_left) or all(map(_NUMBER.match, left | other_left))
    return False


def _differ_in_kind(gap: tuple[str, ...], other_gap: tuple[str, ...]) -> bool:
    """Return whether two parts tell different things: "by email" and "with a PDF", "a" and "a and b"."""
    if ("and" in gap) != ("and" in other_gap):
        return True
    first, other_first = gap[0], other_gap[0]
    is_linked = {first, other_first} <= LINKS | SCOPES and not {first, other_first} <= PLACES
    return first != other_first and is_linked


def _are_figures(gap: tuple[str, ...], other_gap: tuple[str, ...]) -> bool:
    if not all(_NUMBER.match(words[0]) and len(words) <= 2 for words in (gap, other_gap)):
        return False
    ours, theirs = (DIMENSIONS.get(words[-1], words[-1]) if len(words) > 1 else "" for words in (gap, other_gap))
    return ours == theirs


def _frame(words: tuple[str, ...], others: tuple[str, ...]) -> tuple[int, int]:
    """Return the number of words with which both begin, and with which both end."""
    shorter = min(len(words), len(others))
    start = next((n for n in range(shorter) if words[n] != others[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if words[-1 - n] != others[-1 - n]), rest)
    return start, end


@lru_cache(1)
def _alternatives() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(map(_stem, group.split())) for group in ALTERNATIVES)


@lru_cache(1)
def _unit_stems() -> frozenset[str]:
    return frozenset(DIMENSIONS)


@lru_cache(1)
def _light_stems() -> frozenset[str]:
    return frozenset(map(stem_word, LIGHT))


@lru_cache(1)
def _instructing_stems() -> frozenset[str]:
    return frozenset(map(stem_word, INSTRUCTING))


@lru_cache(1024)
def _words(text: str) -> tuple[str, ...]:
    """Return the stems of a text in order, without words that only stress."""
    return tuple(_stem(word) for word in _raw_words(read_statement(text).text) if word not in STRESS)


def _raw_words(text: str) -> list[str]:
    bare = _THOUSANDS.sub("", text.lower().replace("'", "").replace("`", " ").replace("..", " "))
    return [word for one in _WORD.findall(bare) if (word := one.strip(".,:="))]


@lru_cache(1024)
def _read(text: str) -> _Sentence | None:
    """Return a text as a sentence; None if it is longer than one."""
    statement = read_statement(text)
    raw = _raw_words(statement.text)
    if not raw or len(raw) > MAX_WORDS:
        return None
    words: list[str] = []
    negations = 0
    negated_after = 0
    for word in raw:
        if word in NEGATIONS:
            negated_after = negated_after if negations else len(words)
            negations += 1
        elif word not in STRESS:
            words.append(_stem(word))
    verb = next((word for word in raw if word not in STRESS and word not in NEGATIONS), "")
    return _Sentence(
        words=tuple(words),
        is_negative=negations % 2 == 1,
        is_instruction=verb in INSTRUCTING or raw[0] == "avoid",
        negated_after=negated_after,
        is_change=statement.is_change,
        is_corrected=statement.is_corrected,
        is_addition=statement.is_addition,
    )


def _stem(word: str) -> str:
    if word in LINKS or word in SCOPES or not word.isalpha():
        return word
    return SPELLED.get(word) or IRREGULAR.get(word) or stem_word(word)
