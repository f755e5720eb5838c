"""Statements with nearly the same words: another value, another subject, an exception."""

from __future__ import annotations

import pytest

from ralph.memory.lifecycle.frames import (
    Difference,
    compare_frames,
    is_certain_change,
    is_change,
    may_change,
    updates,
)
from ralph.memory.lifecycle.same_fact import ONE_FACT, Relation, relate
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


def test_what_a_thing_now_is_replaces_what_it_was_in_other_words_too() -> None:
    anchored = (
        "v0.2.9 changelog boundary now anchored to git history range 96a7691..0dac499 (from the marker to the head)."
    )
    final = "v0.2.9 changelog boundary was finalized to git range 96a7691..41d5f0a after the last part landed."
    advanced = "v0.2.9 changelog boundary is now advanced to 96a7691..6e384db to include the hardening."

    assert is_certain_change(advanced, final)
    assert is_certain_change(advanced, anchored)
    assert not is_certain_change("The ingest pipeline now writes 5 gauges", "The ingest pipeline writes 3 files to S3")
    assert not is_certain_change("The worker is now at version 3", "The worker is slow with 8 threads")


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


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("CSV exports are separated by commas", "Correction: CSV exports are separated by semicolons"),
        ("Decision: JWTs are signed with HS256", "Amended: JWTs are signed with RS256"),
        ("ADR-12: events go through RabbitMQ", "ADR-19 supersedes ADR-12: events go through Kafka"),
        ("Emails are sent through SendGrid", "Emails are sent through SES as of March"),
        ("Docstrings follow the Google style", "Docstrings follow the NumPy style going forward"),
        ("The monorepo is built with Lerna", "We switched from Lerna to Nx for the monorepo build"),
        ("The mobile app uses React Native", "We replaced React Native with Flutter in the mobile app"),
        ("We support IE11", "We dropped support for IE11"),
        ("Jobs run on Celery", "Jobs used to run on Celery; they run on Dramatiq now"),
        ("Use Webpack to bundle the admin UI", "Bundle the admin UI with Vite, not Webpack"),
        ("The frontend fetches data with axios", "axios is deprecated in the frontend, use fetch"),
        ("The default branch is now develop", "The default branch is now trunk"),
        ("The app requires Node 18 or newer", "The app requires Node 20 or newer"),
        ("The queue holds up to 1,000 jobs", "The queue holds up to 5,000 jobs"),
        ("Access tokens expire after 15 minutes", "Access tokens expire after one hour"),
        ("The pool has eight threads", "The pool has twelve threads"),
    ],
)
def test_words_and_figures_that_say_that_something_changed_are_certain(known: str, new: str) -> None:
    assert is_certain_change(new, known)
    assert may_change(new)
    assert relate(new, known) is Relation.CHANGE


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("Responses are cached", "Authenticated responses are not cached"),
        ("The admin panel supports Safari", "The admin panel no longer supports Safari 14"),
        ("The order service publishes events", "The order service no longer publishes draft events"),
        ("The client may retry the server", "The server must not retry the client"),
        ("The nightly job deletes expired sessions", "The nightly job now deletes expired invitations as well"),
        ("Functions must have at most 4 parameters", "Functions must have at most 40 lines"),
        ("Every table must have at most 50 columns", "Every table must have at least 1 index"),
        ("Free accounts are limited to 3 projects", "Free accounts are limited to 1 workspace"),
        ("Feature flags are enabled in staging", "Feature flags are disabled in production"),
        ("Use single quotes in Python", "Use double quotes in JavaScript"),
        ("Use Poetry for the SDK", "We migrated the backend from Poetry to uv"),
        ("The worker sends invoices by email", "The worker now sends invoices with a PDF attached"),
        ("Redis is used to cache sessions", "Redis is used to count logins"),
    ],
)
def test_exceptions_and_other_subjects_change_nothing(known: str, new: str) -> None:
    assert not is_change(new, known)
    assert not is_certain_change(new, known)
    assert relate(new, known) not in ONE_FACT


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("The gateway timeout is 30 s", "The timeout of the gateway is 60 s"),
        ("The linter runs in CI", "The linter now runs in the pre-commit hook"),
        ("Use Poetry to manage dependencies", "We have migrated from Poetry to uv"),
    ],
)
def test_what_may_be_a_change_is_left_to_a_person(known: str, new: str) -> None:
    assert is_change(new, known)
    assert not is_certain_change(new, known)
