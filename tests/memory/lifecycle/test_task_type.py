from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.memory.lifecycle.task_type import classify_objective


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("Fix failing authentication tests", "test-fix"),
        ("Implement user registration feature", "feature"),
        ("Refactor auth module for clarity", "refactor"),
        ("Optimize database queries", "performance"),
        ("Publish latest release", "general"),
        ("Update inspection page", "general"),
        ("Make jest specs green", "test-fix"),
        ("Run test_login.py again", "test-fix"),
        ("Add a new feature for exports", "feature"),
        ("Add the feature flag", "feature"),
        ("Add exports", "general"),
        ("Cleaned up the cleaner", "refactor"),
        ("Fixing the login crash", "bug-fix"),
        ("Prefix all names", "general"),
        ("Document the API", "documentation"),
        ("Update the README", "documentation"),
        ("Design the storage layer", "architecture"),
        ("The page is slow", "performance"),
        ("Refactor slow tests", "test-fix"),
        ("Fix the design", "bug-fix"),
        ("", "general"),
    ],
)
def test_the_first_kind_that_a_word_speaks_of_is_the_type(objective: str, expected: str) -> None:
    assert classify_objective(objective) == expected


@given(st.text(max_size=300))
def test_any_text_has_a_type_whatever_its_case(text: str) -> None:
    assert classify_objective(text)
    assert classify_objective(f"test {text}") == "test-fix"
