"""How sure a memory was over time, from what is kept of its life."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, MemoryEvent, replace, timestamp
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.timeline import ConfidenceAt, MemoryUse, changed_fields, trace_confidence
from tests.make import a_memory

DAY = 86_400
BEGIN = 1_750_000_000


def day(number: float) -> str:
    return timestamp(BEGIN + number * DAY)


def a_life(**fields: object) -> Memory:
    return replace(a_memory("Tabs", created_at=day(0), updated_at=day(0)), **fields)


def event(seq: int, at: str, what: str, was: object = None, became: object = None) -> MemoryEvent:
    return MemoryEvent(
        seq=seq,
        memory_id="mem-1-0000",
        what=what,
        was=json.dumps(was) if was is not None else None,
        became=json.dumps(became) if became is not None else None,
        who="person",
        why="",
        at=at,
    )


def seen(points: list[ConfidenceAt]) -> list[tuple[str, float, str]]:
    return [(one.at[:10], round(one.confidence, 3), one.what) for one in points]


def test_a_memory_nobody_speaks_for_fades_by_the_week() -> None:
    points = trace_confidence(a_life(confidence=0.6), [event(1, day(0), "added")], [], day(20))

    assert seen(points) == [
        (day(0)[:10], 0.6, "added"),
        (day(7)[:10], 0.58, "faded"),
        (day(14)[:10], 0.56, "faded"),
        (day(20)[:10], 0.56, "now"),
    ]


def test_what_an_event_kept_is_what_is_told() -> None:
    events = [
        event(1, day(0), "added"),
        event(2, day(1), "edited", {"confidence": 0.3}, {"confidence": 0.9}),
        event(3, day(2), "edited", {"title": "A"}, {"title": "B"}),
    ]

    points = trace_confidence(a_life(confidence=0.9), events, [], day(3))

    assert [(one.what, one.confidence) for one in points] == [
        ("added", 0.3),
        ("edited", 0.9),
        ("edited", 0.9),
        ("now", 0.9),
    ]


def test_a_use_is_a_step_between_what_is_kept() -> None:
    events = [event(1, day(0), "added")]
    uses = [
        MemoryUse(at=day(1), succeeded=True),
        MemoryUse(at=day(2), succeeded=True),
        MemoryUse(at=day(3), succeeded=False),
    ]
    memory = a_life(confidence=0.62, used_at=day(3), wins=2, losses=1)

    points = trace_confidence(memory, events, uses, day(4))

    assert seen(points) == [
        (day(0)[:10], 0.6, "added"),
        (day(1)[:10], 0.62, "helped"),
        (day(2)[:10], 0.64, "helped"),
        (day(3)[:10], 0.62, "did not help"),
        (day(4)[:10], 0.62, "now"),
    ]


def test_being_confirmed_stops_the_fading() -> None:
    events = [
        event(1, day(0), "added"),
        event(2, day(13), "confirmed", {"verified_at": None}, {"verified_at": day(13)}),
    ]

    points = trace_confidence(a_life(confidence=0.6, verified_at=day(13)), events, [], day(19))

    assert seen(points)[-2:] == [(day(13)[:10], 0.6, "confirmed"), (day(19)[:10], 0.6, "now")]


def test_it_does_not_fade_below_the_lowest_and_ends_there() -> None:
    points = trace_confidence(a_life(confidence=0.2), [event(1, day(0), "added")], [], day(3_000))

    assert points[-1].confidence == 0.1
    assert len(points) < 10


def test_a_damaged_history_says_what_it_can() -> None:
    damaged = event(1, "no date at all", "edited")
    broken = MemoryEvent(seq=2, memory_id="m", what="edited", was="{", became="[1]", who="x", why="", at=day(1))

    points = trace_confidence(a_life(confidence=0.5), [damaged, broken], [], day(2))

    assert points[-1] == ConfidenceAt(at=day(2), confidence=0.5, what="now")
    assert changed_fields(broken) == {}


def test_a_list_that_was_changed_is_given_as_a_list() -> None:
    one = event(1, day(0), "edited", {"tags": '["a"]', "title": "[x"}, {"tags": '["a", "b"]', "title": "[y"})

    assert changed_fields(one) == {"tags": (["a"], ["a", "b"]), "title": ("[x", "[y")}


shares = st.floats(0, 1)
moments = st.integers(0, 400).map(day)


@given(
    shares,
    st.lists(st.tuples(moments, st.none() | st.tuples(shares, shares)), max_size=8),
    st.lists(st.tuples(moments, st.booleans()), max_size=8),
)
def test_any_life_is_told_in_order_within_bounds_and_up_to_what_holds_now(
    confidence: float, changes: list[tuple[str, tuple[float, float] | None]], used: list[tuple[str, bool]]
) -> None:
    events = [event(0, day(0), "added")] + [
        event(n, at, "edited", {"confidence": both[0]} if both else {}, {"confidence": both[1]} if both else {})
        for n, (at, both) in enumerate(sorted(changes, key=lambda one: one[0]), 1)
    ]
    kept = [both[1] for _, both in sorted(changes, key=lambda one: one[0]) if both]
    latest = max((at for at, _ in used), default=None)
    memory = a_life(confidence=kept[-1] if kept and not used else confidence, used_at=latest)

    points = trace_confidence(memory, events, [MemoryUse(at=at, succeeded=won) for at, won in used], day(500))

    assert [one.at for one in points] == sorted(one.at for one in points)
    assert all(0 <= one.confidence <= 1 for one in points)
    assert points[-1].confidence == current_confidence(memory, day(500))
