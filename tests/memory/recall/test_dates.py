"""Dates that a query names, and what was learned then."""

from __future__ import annotations

import pytest

from ralph.memory.lifecycle.confidence import days_of
from ralph.memory.recall.candidates import recall_memories
from ralph.memory.recall.dates import closeness, named_periods
from ralph.memory.recall.query import RecallContext
from ralph.store import Store
from tests.make import a_memory, remember

NOW = "2026-06-10T12:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("what broke on 2026-05-03?", "2026-05-03", "2026-05-04"),
        ("what broke on 3 May, 2026?", "2026-05-03", "2026-05-04"),
        ("what broke on May 3rd 2026?", "2026-05-03", "2026-05-04"),
        ("what broke on the 3rd of May?", "2026-05-03", "2026-05-04"),
        ("what broke on 24 Dec?", "2025-12-24", "2025-12-25"),
        ("what did we decide in December 2025?", "2025-12-01", "2026-01-01"),
        ("what did we decide in April?", "2026-04-01", "2026-05-01"),
    ],
)
def test_a_date_is_read_in_many_forms(text: str, start: str, end: str) -> None:
    assert named_periods(text, NOW) == ((days_of(start), days_of(end)),)


@pytest.mark.parametrize(
    "text",
    [
        "May I push?",
        "March through the list",
        "version 2026-99-99",
        "on 45 June",
        "build 1.2020-05-03",
        "Decide on it",
        "",
    ],
)
def test_what_is_no_date_names_no_period(text: str) -> None:
    assert named_periods(text, NOW) == ()


def test_closeness_halves_with_a_week() -> None:
    periods = ((days_of("2026-05-03"), days_of("2026-05-04")),)

    assert closeness(days_of("2026-05-03T23:00:00.000Z"), periods) == 1.0
    assert closeness(days_of("2026-05-11"), periods) == pytest.approx(0.5)
    assert closeness(days_of("2026-04-26"), periods) == pytest.approx(0.5)
    assert closeness(days_of("2025-05-03"), periods) == 0.0


def store_releases(store: Store) -> None:
    for day in ("2026-02-02", "2026-03-03", "2026-04-04", "2026-05-05"):
        text = f"The release was delayed by a broken mirror in round {day[6]}"
        remember(store, a_memory(text, text, tags=("x",), created_at=f"{day}T10:00:00.000Z"))


@pytest.mark.parametrize(("when", "first"), [("on 4 April, 2026", "round 4"), ("in February", "round 2")])
def test_what_was_learned_at_the_named_date_comes_first(store: Store, when: str, first: str) -> None:
    store_releases(store)

    found = recall_memories(store, RecallContext(title=f"Why was the release delayed {when}?", at=NOW)).shown

    assert found[0].memory.title.endswith(first)
    assert dict(found[0].because)["date"] == pytest.approx(0.8)


def test_the_times_of_a_log_are_no_dates_to_look_for(store: Store) -> None:
    store_releases(store)
    log = "2026-02-02T10:00:00Z the release was delayed"

    found = recall_memories(store, RecallContext(title="Release delayed", body=log, at=NOW)).shown

    assert found
    assert not any("date" in dict(one.because) for one in found)
