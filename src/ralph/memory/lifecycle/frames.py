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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WORDS = 30
"""Number of words up to which a text is one sentence whose parts can be compared."""
MAX_DIFFERENT_WORDS = 3
"""Number of words up to which a part is a value or a subject."""


MIN_SUBJECT, MIN_COMMON = 2, 4
"""Numbers of words that a statement of what now holds shares with an earlier one: what both are about, and in all."""


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


_ALTERNATIVES = (
    "tab space",
    "single double",
    "camelcase snake_case kebab-case pascalcase",
    "relative absolute",
    "sync async synchronous asynchronous",
    "merge rebase squash",
    "sqlite postgresql postgres mysql mariadb mongodb oracle",
    "redis memcached memory",
    "npm yarn pnpm bun",
    "pip poetry uv pipenv conda",
    "black ruff yapf autopep8",
    "flake8 pylint ruff",
    "mypy pyright",
    "pytest unittest nose",
    "jest vitest mocha jasmine",
    "eslint biome",
    "webpack vite rollup esbuild parcel",
    "flask django fastapi",
    "react vue svelte angular",
    "rest graphql grpc",
    "github gitlab bitbucket",
    "json yaml toml xml",
    "utc local",
    "stdout stderr",
    "bcrypt argon2 scrypt",
    "ansible terraform pulumi",
    "docker podman",
    "makefile just",
    "ascending descending",
    "uppercase lowercase",
    "server client",
    "english german french spanish",
    "exception value",
    "enabled disabled",
    "public private",
    "optional required",
    "main master develop",
    "before after",
)
"""Words of the field of which one is chosen, so that another one is another value wherever it stands."""
_NEGATIONS = frozenset(
    "not never no none without cannot cant dont doesnt isnt arent wont mustnt shouldnt avoid neither forbid forbidden"
    " prohibited".split()
)
_PERMISSIONS = frozenset(
    stem_word(word) for word in "may can allow allowed fine ok okay permitted permit welcome".split()
)
"""Words that permit what something else forbids."""
_STRESS = frozenset(
    "a an the always all every each any please just also now currently directly we you our your their its must should"
    " shall will do does be been to ever only".split()
)
"""Words that do not tell what a statement says."""
_SCOPES = frozenset("in for on when if during inside within under outside unless except while at of".split())
_LINKS = frozenset(
    "is are was were as with by from to into onto via over has have had equal equals at after before in on".split()
)
"""Words after which a value follows."""
_INSTRUCTING = frozenset(
    "add apply avoid build cache call catch check choose commit compile configure create define delete deploy document"
    " edit end escape export fetch format generate give handle ignore import include indent install keep limit log make"
    " mark merge mock move name open pass pin place prefer prefix publish push put quote raise read rebase release"
    " remove rename render retry return reuse review run save send set ship skip sort split squash start stop store"
    " tag test throw update use validate verify wait wrap write".split()
)
_WORD = re.compile(r"[A-Za-z0-9_@#$%&*+./:=-]*[A-Za-z0-9_/]|[^\W_]+")
_NUMBER = re.compile(r"[\d.,:]+(?:%|[a-z]{1,2})?$")
_CHANGED = re.compile(
    r"\b(?:now|no longer|any ?more|instead(?: of)?|rather than|from (?:now|today) on|as of|switched|moved|migrated"
    r"|replace[sd]?|changed|supersede[sd]?|amend(?:s|ed)?|revised|renamed|formerly|previously)\b",
    re.IGNORECASE,
)
"""Words that say that something else held before."""
_NOW = re.compile(
    r"(?P<subject>(?:[^.;:!?\n]|[.:](?=\w)){3,80}?)\s+(?:(?:is|are|was|were|has been|have been)\s+)?(?:now|no longer)\b"
)
_SUBJECT = re.compile(
    r"(?P<subject>(?:[^.;:!?\n]|[.:](?=\w)){3,80}?)\s+"
    r"(?:is|are|was|were|has|have|had|now|no longer|must|should|can|may|will)\b"
)
"""What a statement is about, before its verb if that is an auxiliary."""
_REPLACED = re.compile(
    r"(?:\binstead of\b|\brather than\b|\bin place of\b|\bno longer\b|,? (?:and )?\bnot\b|, never\b)"
    r"\s+(?P<value>(?:[^.;:,!?\n]|[.:](?=\w)){2,60}?)(?=[.;:,!?\n]|\s+(?:because|since|as|for|in|on|when|if|to|at)\b|$)",
    re.IGNORECASE,
)
"""What a statement says not to hold, beside what does."""
_DIGIT = re.compile(r"\d")
_SPELLED = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "ten": "10"}
_MEASURED = frozenset("port version limit cap".split())
_UNITS = frozenset("second minute hour day week month year byte kb mb gb ms s m h px character line".split())


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
    are_alternatives = _are_alternatives(gap, other_gap)
    if not are_alternatives and not _is_frame(frame):
        return Difference.NONE
    if bool(_SCOPES.intersection(gap)) != bool(_SCOPES.intersection(other_gap)):
        return Difference.SCOPE
    if are_alternatives:
        return Difference.VALUE
    if set(gap) & set(other_gap):
        return Difference.SUBJECT if _SCOPES & set(gap) else Difference.NONE  # it differs in two places
    if max(len(gap), len(other_gap)) > MAX_DIFFERENT_WORDS:
        return Difference.NONE
    return _position(ours, start, end, gap, other_gap)


def is_change(new: str, known: str) -> bool:
    """Return whether a statement says something else about what an earlier one is about."""
    return compare_frames(new, known) is Difference.VALUE or updates(new, known)


def is_certain_change(new: str, known: str) -> bool:
    """Return whether a statement replaces an earlier one, rather than contradicting it for some other reason.

    It does if it is the opposite, has another figure, or says that something else was the case before.
    """
    if updates(new, known):
        return True
    ours, theirs = _read(new), _read(known)
    if not ours or not theirs or compare_frames(new, known) is not Difference.VALUE:
        return False
    start, end = _frame(ours.words, theirs.words)
    gaps = (words[start : len(words) - end] for words in (ours.words, theirs.words))
    is_opposite = ours.is_negative != theirs.is_negative
    return is_opposite or _are_figures(*gaps) or bool(_CHANGED.search(new))


def may_change(text: str) -> bool:
    """Return whether a statement may replace an earlier one, as far as its own words tell."""
    words = set(_WORD.findall(text.lower()))
    return bool(_CHANGED.search(text) or _DIGIT.search(text) or words & (_NEGATIONS | {"may", "can", "allowed"}))


def updates(new: str, known: str) -> bool:
    """Return whether a statement says what now holds of the thing that an earlier one is about."""
    return _tells_what_holds_now(new, known) or any(_replaces(new, one, known) for one in _REPLACED.finditer(new))


def _replaces(new: str, found: re.Match[str], known: str) -> bool:
    """Return whether a statement has something else in place of what an earlier one says of the same."""
    replaced, before = _content(_words(found["value"])), _read(known)
    if not replaced or not before or before.is_negative:
        return False
    told = _content(before.words)
    instead = _content(_words(new[: found.start()] + "." + new[found.end() :]))
    frame = told - replaced
    return replaced <= told and len(frame) > 1 and frame <= instead and not replaced <= instead and instead > frame


def _tells_what_holds_now(new: str, known: str) -> bool:
    found = _NOW.match(new)
    if not found:
        return False
    subject, before, after = _words(found["subject"]), _words(known), _words(new)
    if len(subject) < MIN_SUBJECT or before[: len(subject)] != subject or before == after:
        return False
    if (other := _SUBJECT.match(known)) and 0 < len(_words(other["subject"])) - len(subject) < MAX_DIFFERENT_WORDS:
        return False  # "booking add-ons have a price", "bookings now have a currency"
    told = _content(after[len(subject) :]) & _content(before[len(subject) :])
    return bool(told) and len(subject) + len(told) >= MIN_COMMON


def alternative_groups(words: Iterable[str]) -> set[str]:
    """Return a mark for each choice of which some stems are an option, so that memories with another one are found."""
    known = set(words)
    return {f"{number} alternatives" for number, group in enumerate(_alternatives()) if group & known}


def _opposed(one: _Sentence, other: _Sentence) -> Difference:
    """Return the difference of statements of which one forbids or denies."""
    ours, theirs = _content(one.words), _content(other.words)
    if ours == theirs:
        return Difference.VALUE
    smaller, larger = (one, other) if len(ours) < len(theirs) else (other, one)
    extra = _content(larger.words) - _content(smaller.words)
    if not _content(smaller.words) <= _content(larger.words) or not smaller.words:
        return Difference.NONE
    negated = one if one.is_negative else other
    if negated is larger and _content(smaller.words) <= set(larger.words[: larger.negated_after]):
        return Difference.NONE  # "run the tests", "run the tests, and never skip the linter"
    is_limited = any(_follows_scope(larger.words, word) for word in extra)
    return Difference.SCOPE if is_limited else Difference.VALUE if len(extra) == 1 else Difference.NONE


def _follows_scope(words: tuple[str, ...], word: str) -> bool:
    return bool(_SCOPES.intersection(words[: words.index(word)]))


def _position(one: _Sentence, start: int, end: int, gap: tuple[str, ...], other_gap: tuple[str, ...]) -> Difference:
    """Return what a difference means by where it is."""
    if _are_figures(gap, other_gap):
        before = one.words[start - 1] if start else ""
        is_value = before in _LINKS or before in _MEASURED or len(gap) > 1 or not gap[0].isdigit()
        return Difference.VALUE if is_value else Difference.SUBJECT  # "step 3" is another step
    if not one.is_instruction:
        return Difference.VALUE if start > 1 else Difference.SUBJECT
    after = one.words[len(one.words) - end] if end else ""
    is_part_of_name = start == 1 and after and after not in _LINKS and after not in _SCOPES
    is_after_link = one.words[start - 1] in _LINKS - _SCOPES  # "in functions" limits what it says
    return Difference.VALUE if is_part_of_name or is_after_link else Difference.SUBJECT


def _is_frame(words: tuple[str, ...]) -> bool:
    """Return whether the words that two statements have in common tell what both are about."""
    content = _content(words)
    has_link = bool(content) and bool(_LINKS.intersection(words))
    return len(content) > 1 or has_link or bool(content - _instructing_stems())


def _content(words: tuple[str, ...]) -> set[str]:
    return {word for word in words if word not in _LINKS and word not in _SCOPES and word not in _PERMISSIONS}


def _are_alternatives(gap: tuple[str, ...], other_gap: tuple[str, ...]) -> bool:
    ours, theirs = set(gap) - set(other_gap), set(other_gap) - set(gap)
    return any(group & ours and group & theirs for group in _alternatives())


def _are_figures(gap: tuple[str, ...], other_gap: tuple[str, ...]) -> bool:
    return all(_NUMBER.match(words[0]) and {*words[1:]} <= _unit_stems() for words in (gap, other_gap))


def _frame(words: tuple[str, ...], others: tuple[str, ...]) -> tuple[int, int]:
    """Return the number of words with which both begin, and with which both end."""
    shorter = min(len(words), len(others))
    start = next((n for n in range(shorter) if words[n] != others[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if words[-1 - n] != others[-1 - n]), rest)
    return start, end


@lru_cache(1)
def _alternatives() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(map(_stem, group.split())) for group in _ALTERNATIVES)


@lru_cache(1)
def _unit_stems() -> frozenset[str]:
    return frozenset(map(stem_word, _UNITS))


@lru_cache(1)
def _instructing_stems() -> frozenset[str]:
    return frozenset(map(stem_word, _INSTRUCTING))


@lru_cache(1024)
def _words(text: str) -> tuple[str, ...]:
    """Return the stems of a text in order, without words that only stress."""
    return tuple(_stem(word) for word in _raw_words(text) if word not in _STRESS)


def _raw_words(text: str) -> list[str]:
    bare = text.lower().replace("'", "").replace("`", " ").replace("..", " ")
    return [word for one in _WORD.findall(bare) if (word := one.strip(".,:="))]


@lru_cache(1024)
def _read(text: str) -> _Sentence | None:
    """Return a text as a sentence; None if it is longer than one."""
    raw = _raw_words(text)
    if not raw or len(raw) > MAX_WORDS:
        return None
    words: list[str] = []
    negations = 0
    negated_after = 0
    for word in raw:
        if word in _NEGATIONS:
            negated_after = negated_after if negations else len(words)
            negations += 1
        elif word not in _STRESS:
            words.append(_stem(word))
    verb = next((word for word in raw if word not in _STRESS and word not in _NEGATIONS), "")
    is_instruction = verb in _INSTRUCTING or raw[0] == "avoid"
    return _Sentence(
        words=tuple(words),
        is_negative=negations % 2 == 1,
        is_instruction=is_instruction,
        negated_after=negated_after,
    )


def _stem(word: str) -> str:
    if word in _LINKS or word in _SCOPES or not word.isalpha():
        return word
    return _SPELLED.get(word) or stem_word(word)
