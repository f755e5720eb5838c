"""Tests of how random a value looks."""

from __future__ import annotations

from math import log2

from ralph.core.text import compiled_pattern

MIN_CHANGES = 0.36
"""Minimum share of neighbors of different kinds (lowercase, uppercase, digit) in random text of all kinds.

Random text has 0.62; words in camel case have 0.1 to 0.35.
"""
MIN_CHANGES_WITH_WORD = 0.5
"""The same for values with a single number or five lowercase letters in a row, as names in code have them."""
_PLACEHOLDER = r"(?i)example|x{4}|\*{3}|0{8}|\.{3}|1234567|abcdefg|your[-_]|placeholder|dummy|redacted|changeme"


def entropy(value: str) -> float:
    """Return the Shannon entropy of a value, in bits per character."""
    counts = [value.count(character) for character in set(value)]
    return -sum(count / len(value) * log2(count / len(value)) for count in counts)


def is_placeholder(value: str) -> bool:
    """Return whether documentation uses the value instead of a secret."""
    return bool(compiled_pattern(_PLACEHOLDER).search(value))


def is_mixed(value: str) -> bool:
    """Return whether a value looks like random letters of both cases and digits."""
    letters = value.translate(_WITHOUT_PUNCTUATION)
    digit_groups = len(compiled_pattern(r"\d+").findall(letters))
    if len(letters) < 16 or not digit_groups:
        return False
    if letters.upper() == letters or letters.lower() == letters or is_placeholder(value):
        return False
    changes = len(compiled_pattern(_CHANGE).findall(letters)) / (len(letters) - 1)
    has_word = digit_groups == 1 or compiled_pattern(r"[a-z]{5}").search(letters)
    return changes >= (MIN_CHANGES_WITH_WORD if has_word else MIN_CHANGES)


def is_single_case(value: str) -> bool:
    """Return whether a value looks like random letters of one case and digits, more than hexadecimal ones."""
    if value.upper() != value and value.lower() != value:
        return False
    groups = len(compiled_pattern(r"\d+").findall(value))
    beyond_hex = compiled_pattern(r"(?i)[g-z]").search(value)
    return bool(value.isalnum() and beyond_hex and groups * 8 >= len(value)) and not is_placeholder(value)


_CHANGE = r"(?a)[a-z](?=[A-Z\d])|[A-Z](?=[a-z\d])|\d(?=[A-Za-z])"
_WITHOUT_PUNCTUATION = {ord(character): None for character in "-_+/.=~"}
