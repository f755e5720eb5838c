from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, replace
from ralph.memory.lifecycle.confidence import (
    INITIAL_CONFIDENCE,
    MAX_CONFIDENCE,
    MIN_DECAYED_CONFIDENCE,
    cleanup_candidates,
    current_confidence,
    days_between,
    needs_confirmation,
    record_use,
    reinforce,
)
from tests.make import a_memory

BORN = "2026-01-01T00:00:00.000Z"


def day(number: float) -> str:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=number)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def born(body: str = "The parser wants tabs.", **fields: object) -> Memory:
    fields = {"kind": "pattern", "confidence": 0.5, "created_at": BORN, "updated_at": BORN, **fields}
    return a_memory("Tabs", body, **fields)


# --- time ----------------------------------------------------------------------


@given(
    st.datetimes(min_value=datetime.datetime(1970, 1, 1), max_value=datetime.datetime(2200, 1, 1)),
    st.datetimes(min_value=datetime.datetime(1970, 1, 1), max_value=datetime.datetime(2200, 1, 1)),
)
def test_days_are_counted_as_the_calendar_counts_them(one: datetime.datetime, other: datetime.datetime) -> None:
    stamps = [moment.isoformat(timespec="milliseconds") + "Z" for moment in (one, other)]

    days = days_between(*stamps)

    assert days == pytest.approx((other - one).total_seconds() / 86_400, abs=1e-6)


def test_a_date_alone_is_the_start_of_its_day() -> None:
    assert days_between("2026-02-28", "2026-03-01T12:00:00.000Z") == 1.5


# --- confidence ----------------------------------------------------------------


def test_a_memory_starts_as_sure_as_its_source() -> None:
    assert INITIAL_CONFIDENCE == {MemorySource.EXPLICIT: 0.6, MemorySource.AUTOMATIC: 0.5, MemorySource.IMPORTED: 0.7}


@pytest.mark.parametrize(
    ("days", "confidence"),
    [(0, 0.5), (6.9, 0.5), (7, 0.48), (13.9, 0.48), (14, 0.46), (7 * 20, 0.1), (7 * 500, 0.1), (-30, 0.5)],
)
def test_every_week_without_use_takes_a_little_down_to_a_floor(days: float, confidence: float) -> None:
    assert current_confidence(born(), day(days)) == pytest.approx(confidence)


@pytest.mark.parametrize("field", ["used_at", "verified_at"])
def test_use_and_verification_count_like_the_first_day(field: str) -> None:
    assert current_confidence(born(**{field: day(30)}), day(36)) == 0.5
    assert current_confidence(born(**{field: day(30)}), day(37)) == pytest.approx(0.48)


def test_what_is_below_the_floor_stays_there() -> None:
    assert current_confidence(born(confidence=0.05), day(700)) == 0.05


def test_a_use_is_counted_and_makes_surer() -> None:
    used = record_use(born(), day(1))

    assert (used.uses, used.used_at) == (1, day(1))
    assert used.confidence == pytest.approx(0.52)
    assert used.updated_at == BORN


def test_a_use_after_weeks_starts_from_what_was_left() -> None:
    assert record_use(born(), day(14)).confidence == pytest.approx(0.48)


@given(st.floats(min_value=0, max_value=1), st.integers(min_value=0, max_value=200))
def test_a_use_never_makes_less_sure_and_passes_the_ceiling_for_none(confidence: float, weeks: int) -> None:
    memory = born(confidence=confidence)
    at = day(7 * weeks)

    used = record_use(memory, at)

    assert current_confidence(memory, at) <= used.confidence <= max(MAX_CONFIDENCE, current_confidence(memory, at))
    assert current_confidence(used, at) == used.confidence


@given(st.floats(min_value=0, max_value=1), st.integers(min_value=0, max_value=500))
def test_fading_only_goes_down_and_stops_at_the_floor(confidence: float, days: int) -> None:
    memory = born(confidence=confidence)

    now, later = current_confidence(memory, day(days)), current_confidence(memory, day(days + 7))

    assert later <= now <= confidence
    assert later >= min(MIN_DECAYED_CONFIDENCE, confidence)


# --- learned again -------------------------------------------------------------


def test_learning_it_again_counts_confirms_and_unites() -> None:
    known = born(tags=("a",), files=("x.py",), origin_loops=("l1",))
    new = born(tags=("b", "a"), files=("y.py",), origin_loops=("l2",), id="mem-2")

    again = reinforce(known, new, day(1))

    assert (again.support, again.verified_at, again.updated_at) == (2, day(1), day(1))
    assert (again.tags, again.files, again.origin_loops) == (("a", "b"), ("x.py", "y.py"), ("l1", "l2"))
    assert again.confidence == pytest.approx(0.52)
    assert (again.id, again.uses, again.content, again.created_at) == (known.id, 0, known.content, BORN)


def test_a_longer_text_that_starts_the_same_wins_and_another_does_not() -> None:
    longer = born("Parser wants tabs, four of them in a block.")
    other = born("Something quite different, and much longer than the old text.")

    assert reinforce(born(), longer, day(1)).content == longer.content
    assert reinforce(born(), other, day(1)).content == "The parser wants tabs."
    assert reinforce(longer, born(), day(1)).content == longer.content


def test_knowledge_gets_the_new_body_and_all_tags() -> None:
    known = a_memory("Tabs", "Old text that is long.", tags=("x",), created_at=BORN)
    new = a_memory("TABS", "New.", tags=("y",))

    again = reinforce(known, new, day(1))

    assert (again.title, again.content, again.tags) == ("Tabs", "New.", ("x", "y"))


def test_a_structured_learning_is_put_together_and_worded_anew() -> None:
    known = born(
        kind="strategy",
        task_type="feature",
        success_rate=1.0,
        structured_content='{"description":"Small steps","effectiveness":1,"iterations":2}',
    )
    new = replace(
        known, success_rate=0.5, structured_content='{"description":"Small steps","effectiveness":0.5,"iterations":2}'
    )

    again = reinforce(known, new, day(1))

    content = json.loads(again.structured_content)
    assert (content["iterations"], content["effectiveness"]) == (4, 0.75)
    assert again.success_rate == 0.75
    assert again.title == "Small steps"
    assert "4 iterations" in again.content


def test_estimates_get_surer_with_every_loop() -> None:
    content = '{"avgIterationTime":1000,"totalIterations":1,"complexity":"low","successRate":1}'
    estimate = born(kind="estimate", task_type="feature", confidence=0.2, structured_content=content)

    twice = reinforce(estimate, estimate, day(1))
    often = twice
    for _ in range(9):
        often = reinforce(often, estimate, day(1))

    assert twice.confidence == pytest.approx(0.4)
    assert 0.9 <= often.confidence <= MAX_CONFIDENCE


def test_content_that_is_no_json_changes_nothing() -> None:
    known = born(kind="strategy", structured_content="broken")

    again = reinforce(known, born(kind="strategy", structured_content="{"), day(1))

    assert (again.structured_content, again.content) == ("broken", known.content)


# --- cleanup -------------------------------------------------------------------


def test_only_the_doubtful_that_are_old_and_were_never_used_go() -> None:
    doubtful = born(id="doubtful", confidence=0.12)
    kept = [
        born(id="sure", confidence=0.9),
        born(id="used", confidence=0.12, uses=1),
        born(id="young", confidence=0.12, created_at=day(20)),
    ]

    found = cleanup_candidates([doubtful, *kept], day(31))

    assert [(memory.id, why) for memory, why in found] == [("doubtful", "confidence 0.10, never used in 31 days")]


def test_what_faded_unused_goes_in_the_end_however_sure_it_was() -> None:
    memory = born(confidence=0.6)

    assert cleanup_candidates([memory], day(7 * 20)) == []
    assert len(cleanup_candidates([memory], day(7 * 23))) == 1


def test_cleaning_up_twice_finds_the_same() -> None:
    memories = [born(id=str(n), confidence=n / 10) for n in range(10)]

    first = cleanup_candidates(memories, day(60))

    assert cleanup_candidates(memories, day(60)) == first


def test_each_option_is_a_reason_of_its_own() -> None:
    weak = born(id="weak", confidence=0.2, uses=1, updated_at=day(100), created_at=day(100))
    failing = born(id="failing", confidence=0.9, success_rate=0.1, uses=1, updated_at=day(100), created_at=day(100))
    old = born(id="old", confidence=0.9, uses=1, used_at=BORN)
    idle = born(id="idle", confidence=0.9, updated_at=day(100), created_at=day(100))
    good = born(id="good", confidence=0.9, uses=3, used_at=day(100), success_rate=0.9)
    memories = [weak, failing, old, idle, good]
    at = day(101)

    def ids(**options: object) -> list[str]:
        return [memory.id for memory, _ in cleanup_candidates(memories, at, **options)]  # type: ignore[arg-type]

    assert ids(min_confidence=0.4) == ["weak", "failing"]
    assert ids(older_than_days=90) == ["old"]
    assert ids(unused=True) == ["idle"]
    assert ids(min_confidence=0.4, older_than_days=90, unused=True) == ["weak", "failing", "old", "idle"]


def test_all_reasons_are_named() -> None:
    (_, why), *_ = cleanup_candidates(
        [born(confidence=0.2, success_rate=0.1)], day(100), min_confidence=0.4, older_than_days=90, unused=True
    )

    assert why.split("; ") == [
        "confidence 0.10 is below 0.4",
        "success rate 0.10 is below 0.4",
        "not changed or used for 100 days",
        "never used",
    ]


@pytest.mark.parametrize(
    ("removed", "present", "many"),
    [(0, 0, False), (5, 5, False), (6, 6, True), (20, 100, False), (21, 100, True), (6, 1000, False)],
)
def test_a_cleanup_may_not_take_a_fifth_of_the_store(removed: int, present: int, many: bool) -> None:
    assert needs_confirmation(removed, present) is many
