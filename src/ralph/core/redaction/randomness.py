"""Tests of how random a value looks."""

from __future__ import annotations

from math import log2

from ralph.core.text import compiled_pattern

MIN_SCORE = 0.3
"""Minimum score of random text of both cases and digits, see `_score`; 2 to 4 of 100 random values have less."""
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
    if len(letters) < 16 or letters.upper() == letters or letters.lower() == letters or is_placeholder(value):
        return False
    return any(letter.isdigit() for letter in letters) and _score(letters) >= MIN_SCORE


def _score(letters: str) -> float:
    """Return how random letters and digits look, from 0 to 1.

    That is the share of neighbors of different kinds (lowercase, uppercase, digit), which is 0.6 in random text and 0.1
    to 0.4 in names in code, less what names have more of: vowels, lowercase letters in a row, and only one number.
    """
    changes = len(compiled_pattern(_CHANGE).findall(letters)) / (len(letters) - 1)
    alphabetic = [letter for letter in letters.lower() if letter.isalpha()]
    vowels = sum(letter in "aeiou" for letter in alphabetic) / len(alphabetic)
    longest = max(map(len, compiled_pattern(r"[a-z]+").findall(letters)))
    numbers = len(compiled_pattern(r"\d+").findall(letters))
    return changes - 0.8 * max(0, vowels - 0.25) - 0.05 * max(0, longest - 4) - 0.1 * (numbers == 1)


def is_single_case(value: str) -> bool:
    """Return whether a value looks like random letters of one case and digits, more than hexadecimal ones."""
    if value.upper() != value and value.lower() != value:
        return False
    groups = len(compiled_pattern(r"\d+").findall(value))
    beyond_hex = compiled_pattern(r"(?i)[g-z]").search(value)
    return bool(value.isalnum() and beyond_hex and groups * 8 >= len(value)) and not is_placeholder(value)


_CHANGE = r"(?a)[a-z](?=[A-Z\d])|[A-Z](?=[a-z\d])|\d(?=[A-Za-z])"
_WITHOUT_PUNCTUATION = {ord(character): None for character in "-_+/.=~"}
