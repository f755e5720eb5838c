"""Words by which a statement says that something else held before, and what it says without them."""

from __future__ import annotations

import re
from functools import lru_cache

from ralph.core.records import record

_LABEL = re.compile(
    r"\s*(?:(?:the )?(?:decision|rule|convention|constraint|context|note|policy|fact)|adr[- ]?\d+)\s*[:–—]\s+",
    re.IGNORECASE,
)
"""What kind of statement follows, which is no part of it."""
_ANNOUNCED = re.compile(
    r"\s*(?:"
    r"(?:correct(?:ion|ed)|amend(?:ed|ment)|updated?|revis(?:ed|ion)|changed?|supersed(?:es|ed|ing))"
    r"(?: (?:the |our |an? )?(?:(?:earlier|previous|old|former|last) )?(?:decision|rule|convention|statement|policy))?"
    r"|[\w-]+ (?:supersedes|amends|replaces|overrides) [\w-]+"
    r")\s*[:,–—]\s+",
    re.IGNORECASE,
)
"""What announces that a statement corrects an earlier one."""
_ADVERB = re.compile(
    r"(?:^|(?<=\s))(?:now|any ?more|actually(?! been)|(?:starting )?from (?:now|today|here) on(?:wards?)?|going forward"
    r"|(?:as of|starting|since|effective) (?:now|today|(?:next )?(?:week|month|year|sprint|release)"
    r"|(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)(?: \d{4})?)"
    r"|(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?|v?\d+\.\d+(?:\.\d+)?))(?=[\s,.;:!]|$),?\s?",
    re.IGNORECASE,
)
"""What says that a statement holds since something changed."""
_NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
_ENDS = re.compile(
    r"(?:(?!\b(?:that|which|where|when|if|because|unless|while|so|as)\b)[^,;:.()])*?\bno longer\b", re.IGNORECASE
)
"""A main clause about what no longer holds."""
_PART = r"[^.;:,!?\n]+?(?:\.\w[^.;:,!?\n]*?)?"
_END = r"(?=[.;:,!?\n]|\s+(?:because|since|as|for|in|on|when|if|to|at|with|by)\b|$)"
_ENDED = (
    (re.compile(r"\b(?:dropped|ended|discontinued) (?:the )?support (?:for|of)\b", re.IGNORECASE), "no longer support"),
    (
        re.compile(r"\b(?:was|were|ha(?:s|ve) been) (?:dropped|discontinued|retired)\b", re.IGNORECASE),
        "no longer holds",
    ),
    (re.compile(r"\b(?:stop(?:ped)?|quit) using\b", re.IGNORECASE), "no longer use"),
    (re.compile(r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bget )\bused to(?= \w)", re.IGNORECASE), "no longer"),
    (
        re.compile(r"^(?P<old>[^.;:,!?\n]{2,60}?) (?:is|are) (?:now )?deprecated\b", re.IGNORECASE),
        r"no longer use \g<old>",
    ),
)
"""Other words for what no longer holds."""
_PASSAGE = re.compile(
    rf"\b(?:(?:was|were|is|are|has been|have been|have|has) )?"
    r"(?:switched|moved|migrated|changed|renamed|converted|ported)"
    rf"(?: (?:over|away))? from (?P<old>{_PART}) to (?P<new>{_PART}){_END}"
    rf"|\breplaced? (?P<replaced>{_PART}) (?:with|by) (?P<by>{_PART}){_END}",
    re.IGNORECASE,
)
"""What took the place of something else."""
_REPLACED = re.compile(
    r"(?:\binstead of\b|\brather than\b|\bin place of\b|(?:,| and) (?:no longer|not|never)\b)"
    r"\s+(?P<value>(?:[^.;:,!?\n]|[.:](?=\w)){2,60}?)(?=[.;:,!?\n]|\s+(?:because|since|as|for|in|on|when|if|to|at)\b|$)",
    re.IGNORECASE,
)
"""What a statement says not to hold, beside what does."""
_REASON = re.compile(
    r",?\s+(?:because|so that|in order to|to (?:include|allow|avoid|ensure|prevent|match|reduce|save|make|fix))\b.*$"
    r"|,\s+(?:since|as (?:it|they|we))\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_ADDS = re.compile(r"\b(?:also|as well|too|additionally|in addition)\b", re.IGNORECASE)


@record
class Statement:
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
def read_statement(text: str) -> Statement:
    """Return what a text states."""
    bare = _LABEL.sub("", text, count=1) if _LABEL.match(text) else text
    announced = _ANNOUNCED.match(bare)
    bare = bare[announced.end() :] if announced else bare
    bare = _LABEL.sub("", bare, count=1) if announced and _LABEL.match(bare) else bare
    for pattern, words in _ENDED:
        bare = pattern.sub(words, bare, count=1)
    passed = _PASSAGE.search(bare)
    without = _ADVERB.sub("", bare)
    plain = _NO_LONGER.sub("not", without)
    return Statement(
        bare=plain.strip(" ,"),
        text=_REASON.sub("", plain).strip(" ,"),
        is_change=bool(announced or passed or without != bare or _ENDS.match(without)),
        is_corrected=bool(announced) or any(found[0].strip(" ,").lower() != "now" for found in _ADVERB.finditer(bare)),
        is_addition=bool(_ADDS.search(bare)),
    )


def ended_clause(text: str) -> str:
    """Return the clause of what no longer holds, as it was stated before; empty if there is none."""
    for pattern, words in _ENDED:
        text = pattern.sub(words, text, count=1)
    text = re.sub(r"\bnot\b(?=[^.;!?\n]*\bany ?more\b)", "no longer", text)
    for clause in re.split(r"[.;!?](?:\s+|$)|,\s+|\s+(?:but|and (?:now|instead))\s+", _REASON.sub("", text)):
        if _NO_LONGER.search(clause):
            return _ADVERB.sub("", _NO_LONGER.sub("", clause)).strip()
    return ""


def replacements(text: str) -> list[Replacement]:
    """Return what a text says that something else took the place of."""
    found = [
        Replacement(
            old=one["old"] or one["replaced"], rest=f"{text[: one.start()]}.{text[one.end() :]}", is_new_known=True
        )
        for one in _PASSAGE.finditer(text)
    ]
    return found + [
        Replacement(old=one["value"], rest=f"{text[: one.start()]}.{text[one.end() :]}", is_new_known=False)
        for one in _REPLACED.finditer(text)
    ]
