"""How much of what was decided a text tells, and whether it tells what holds no longer.

A text tells a policy if its marker is in it, or most of the policy's telling words: those that are not in every text,
cut to their first letters so that `merge` and `merged` agree. It tells a rule if the names that the rule quotes and
most of its other words stand close together. It is stale if it tells the old form of something that changed, with no
word nearby that this is past.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import fmean

from bench.decisions.data import Policy, Question, Rule
from bench.recall.measures import CHARACTERS_PER_TOKEN

ENOUGH = 0.6
"""Share of telling words from which on a text says the same."""
STEM = 5
"""Letters by which two forms of a word agree."""
NEAR, NEAR_STEP = 420, 140
"""Characters within which the words of a rule stand together."""
QUOTE, QUOTE_STEP = 50, 25
"""Characters of a text by which its words are recognized."""
AROUND, AROUND_STEP = 300, 100
"""Characters around a quote in which a word may say that it is past."""
PAST = re.compile(r"supersed|amended|replaced by|no longer|formerly|used to be|\bwas:|outdated|obsolete", re.IGNORECASE)
COMMON = frozenset(
    """about again all also always and another any are because been before being both but can cannot could did does
    doing done during each either else even every exactly except few first for from get gets got had has have having
    her here him his how into its itself just keep keeps least less let like made make makes many may might more most
    much must neither never none nor not now off once one only onto other others our out over own same shall she should
    since some still such than that the their them then there these they this those through too under until upon use
    used uses using very via was way were what when where whether which while who whom whose why will with within
    without would yet you your""".split()
)

Grades = dict[str, float | None]


def telling_words(text: str) -> set[str]:
    """Return the words and numbers that tell a text from others."""
    words = re.findall(r"\d+(?:\.\d+)?|[a-z][a-z_]{2,}", text.lower())
    return {word if word[0].isdigit() else word[:STEM] for word in words if word not in COMMON}


def grade_policy(policy: Policy, text: str) -> Grades:
    """Grade what the prompt of a task tells of its policy."""
    words = telling_words(policy.text)
    coverage = len(words & telling_words(text)) / len(words)
    is_found = policy.marker.lower() in text.lower() if policy.marker else coverage >= ENOUGH
    is_stale = any(_tells_as_present(old, policy.current, text) for old in policy.superseded)
    return {"found": float(is_found), "coverage": coverage, "stale": float(is_stale) if policy.superseded else None}


def grade_rules(rules: list[Rule], text: str) -> Grades:
    """Grade what the prompt of an ask tells of the rules for all code."""
    told = [float(any(_passages_that_say(rule.current, text))) for rule in rules]
    changed = [fresh for fresh, rule in zip(told, rules, strict=True) if rule.superseded]
    stale = [
        float(any(not PAST.search(one) for old in rule.superseded for one in _passages_that_say(old, text)))
        for rule in rules
        if rule.superseded
    ]
    return {
        "current": fmean(told),
        "changed": fmean(changed) if changed else None,
        "stale": fmean(stale) if stale else None,
    }


def grade(question: Question, text: str) -> Grades:
    """Grade what the prompt of a question tells, and how long it is."""
    expected = question.expected
    grades = grade_policy(expected, text) if isinstance(expected, Policy) else grade_rules(expected, text)
    return {**grades, "tokens": len(text) / CHARACTERS_PER_TOKEN}


MEASURES = {"decisions": ("found", "coverage", "stale"), "rules": ("current", "changed", "stale")}
"""Measures of each set, the one that matters most first."""


def _windows(text: str, size: int, step: int) -> Iterator[str]:
    """Yield overlapping parts of a text."""
    yield from (text[start : start + size] for start in range(0, max(1, len(text) - size + step), step))


def _passages_that_say(rule: str, text: str) -> Iterator[str]:
    names = re.findall(r"'([^']+)'", rule)
    words = telling_words(re.sub(r"'[^']*'", "", rule))
    for part in _windows(text, NEAR, NEAR_STEP):
        if all(name in part for name in names) and len(words & telling_words(part)) >= ENOUGH * len(words):
            yield part


def _tells_as_present(old: str, current: str, text: str) -> bool:
    quotes = [old[start : start + QUOTE] for start in range(0, max(1, len(old) - QUOTE), QUOTE_STEP)]
    quotes = [quote for quote in quotes if quote not in current]
    parts = _windows(text, AROUND, AROUND_STEP)
    return any(not PAST.search(part) for part in parts if any(quote in part for quote in quotes))
