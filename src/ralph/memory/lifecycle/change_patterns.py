"""Patterns of English words that say that something changed, which `change_words` loads where a text may have some."""

from __future__ import annotations

import re

LABEL = re.compile(
    r"\s*(?:(?:the )?(?:decision|rule|convention|constraint|context|note|policy|fact)|adr[- ]?\d+)\s*[:–—]\s+",
    re.IGNORECASE,
)
"""What kind of statement follows, which is no part of it."""
ANNOUNCED = re.compile(
    r"\s*(?:"
    r"(?:correct(?:ion|ed)|amend(?:ed|ment)|updated?|revis(?:ed|ion)|changed?|supersed(?:es|ed|ing))"
    r"(?: (?:the |our |an? )?(?:(?:earlier|previous|old|former|last) )?(?:decision|rule|convention|statement|policy))?"
    r"|[\w-]+ (?:supersedes|amends|replaces|overrides) [\w-]+"
    r")\s*[:,–—]\s+",
    re.IGNORECASE,
)
"""What announces that a statement corrects an earlier one."""
ADVERB = re.compile(
    r"(?:^|(?<=\s))(?:now|any ?more|actually(?! been)|(?:starting )?from (?:now|today|here) on(?:wards?)?|going forward"
    r"|(?:as of|starting|since|effective) (?:now|today|(?:next )?(?:week|month|year|sprint|release)"
    r"|(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)(?: \d{4})?)"
    r"|(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?|v?\d+\.\d+(?:\.\d+)?))(?=[\s,.;:!]|$),?\s?",
    re.IGNORECASE,
)
"""What says that a statement holds since something changed."""
NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
ENDS = re.compile(
    r"(?:(?!\b(?:that|which|where|when|if|because|unless|while|so|as)\b)[^,;:.()])*?\bno longer\b", re.IGNORECASE
)
"""A main clause about what no longer holds."""
_PART = r"[^.;:,!?\n]+?(?:\.\w[^.;:,!?\n]*?)?"
_END = r"(?=[.;:,!?\n]|\s+(?:because|since|as|for|in|on|when|if|to|at|with|by)\b|$)"
ENDED = (
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
PASSAGE = re.compile(
    rf"\b(?:(?:was|were|is|are|has been|have been|have|has) )?"
    r"(?:switched|moved|migrated|changed|renamed|converted|ported)"
    rf"(?: (?:over|away))? from (?P<old>{_PART}) to (?P<new>{_PART}){_END}"
    rf"|\breplaced? (?P<replaced>{_PART}) (?:with|by) (?P<by>{_PART}){_END}",
    re.IGNORECASE,
)
"""What took the place of something else."""
REPLACED = re.compile(
    r"(?:\binstead of\b|\brather than\b|\bin place of\b|(?:,| and) (?:no longer|not|never)\b)"
    r"\s+(?P<value>(?:[^.;:,!?\n]|[.:](?=\w)){2,60}?)(?=[.;:,!?\n]|\s+(?:because|since|as|for|in|on|when|if|to|at)\b|$)",
    re.IGNORECASE,
)
"""What a statement says not to hold, beside what does."""
REASON = re.compile(
    r",?\s+(?:because|so that|in order to|to (?:include|allow|avoid|ensure|prevent|match|reduce|save|make|fix))\b.*$"
    r"|,\s+(?:since|as (?:it|they|we))\b.*$",
    re.IGNORECASE | re.DOTALL,
)
ADDS = re.compile(r"\b(?:also|as well|too|additionally|in addition)\b", re.IGNORECASE)
