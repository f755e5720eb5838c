"""Statements with nearly the same words: another value, another subject, an exception."""

from __future__ import annotations

import pytest

from ralph.memory.lifecycle.frames import Difference, compare_frames, is_certain_change, updates
from ralph.memory.lifecycle.same_fact import Relation, relate
from ralph.project import Project


@pytest.mark.parametrize(
    ("known", "new", "difference"),
    [
        ("Use single quotes", "Use double quotes", Difference.VALUE),
        ("Never skip a test.", "All tests may be skipped here.", Difference.VALUE),
        ("Format code with black", "Format code with ruff", Difference.VALUE),
        ("We use PostgreSQL", "We use MySQL", Difference.VALUE),
        ("Never use tabs", "Use tabs in Makefiles", Difference.SCOPE),
        ("Use single quotes", "Use double quotes in JSON files", Difference.SCOPE),
        ("All functions need type hints", "Functions in tests need no type hints", Difference.SCOPE),
        ("Login needs TZ=UTC", "Billing needs TZ=UTC", Difference.SUBJECT),
        ("Never log passwords", "Never log tokens", Difference.SUBJECT),
        ("Use factories in tests", "Use pytest in tests", Difference.SUBJECT),
        ("Use docstrings in functions", "Use docstrings in methods", Difference.SUBJECT),
        ("Step 3 needs the database", "Step 4 needs the database", Difference.SUBJECT),
        ("Run the tests", "Run the tests, and never skip the linter", Difference.NONE),
        ("Fact 1", "Other text altogether", Difference.NONE),
        ("", "Use tabs", Difference.NONE),
    ],
)
def test_where_two_statements_differ_tells_what_it_means(known: str, new: str, difference: Difference) -> None:
    assert compare_frames(new, known) is difference


def test_what_says_otherwise_is_never_taken_for_the_same() -> None:
    assert relate("All tests may be skipped here.", "Never skip a test.") is Relation.CHANGE
    assert relate("Use tabs in Makefiles", "Never use tabs") is Relation.DIFFERENT


def test_what_now_holds_of_a_thing_changes_what_was_said_of_it() -> None:
    known = "v1.4 release notes cover commits a1b2c3d..d4e5f6a"

    assert updates("v1.4 release notes now cover commits a1b2c3d..9f8e7d6 to include the parser fix", known)
    assert not updates("v1.5 release notes now cover commits d4e5f6a..0a1b2c3", known)
    assert not updates("The parser is now in Rust", "The parser was slow on large files")
    assert not updates(
        "Guest bookings now reuse the shared inbox", "Guest booking add-ons now reuse the shared selector"
    )


def test_what_is_named_as_replaced_was_said_before() -> None:
    assert updates("Fetch prices with httpx instead of requests.", "Fetch prices with requests.")
    assert not updates("Fetch prices with httpx instead of requests.", "Fetch the news with requests.")
    assert not updates("Imports use the workspace name, never relative paths.", "Never use relative paths in imports.")
    assert not updates("Use a mutex instead of a channel for the counter.", "Use a mutex for the counter.")


@pytest.mark.parametrize(
    ("known", "new", "is_certain"),
    [
        ("Sessions expire after 30 minutes", "Sessions expire after 12 hours", True),
        ("Mock the database in tests", "Do not mock the database in tests", True),
        ("The default branch is main", "The default branch is now develop", True),
        ("The default branch is main", "The default branch is develop", False),
        ("Use single quotes", "Use double quotes", False),
        ("Publish packages with npm", "Publish packages with changesets instead of npm", True),
    ],
)
def test_what_cannot_stand_beside_the_other_is_certain(known: str, new: str, is_certain: bool) -> None:
    assert is_certain_change(new, known) is is_certain


def test_contradictions_are_superseded_or_listed_and_exceptions_stay(project: Project) -> None:
    for text in ("Use single quotes", "Never use tabs", "Sessions expire after 30 minutes"):
        project.memory.add(text, type="convention")

    listed = project.memory.add("Use double quotes", type="convention")
    exception = project.memory.add("Use tabs in Makefiles", type="convention")
    changed = project.memory.add("Sessions expire after 12 hours", type="convention")

    assert (len(listed.superseded), len(exception.superseded), len(changed.superseded)) == (0, 0, 1)
    (conflict,) = project.memory.rules.conflicts()
    assert (conflict.earlier.rule.text, conflict.later.rule.text) == ("Use single quotes", "Use double quotes")
