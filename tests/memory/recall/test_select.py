from __future__ import annotations

from typing import Any

import pytest

from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.scored import ScoredMemory
from ralph.memory.recall.select import MAX_SHOWN, PROMPT_CUT, SESSION_CUT, select
from tests.memory.recall.test_rank import row


def scored(seq: int, score: float, title: str = "", relevance: float = 0.9, **more: Any) -> ScoredMemory:
    one = ScoredMemory(row(seq, title or f"title{seq} alpha{seq} beta{seq}", **more))
    one.score, one.inherited = score, relevance
    return one


def outcome(found: list[ScoredMemory], context: RecallContext | None = None, **options: object) -> dict[int, str]:
    choices = select(found, context or RecallContext(title="Zod validates the request"), **options)  # type: ignore[arg-type]
    assert [choice.place for choice in choices] == list(range(1, len(found) + 1))
    return {choice.scored.row["seq"]: choice.excluded_because for choice in choices}


def test_only_a_handful_is_shown_and_the_rest_has_a_reason() -> None:
    told = outcome([scored(n, 100.0 - n) for n in range(12)])

    assert [seq for seq, why in told.items() if not why] == list(range(MAX_SHOWN))
    assert set(told.values()) == {"", f"not among the top {MAX_SHOWN}"}


def test_what_has_too_little_in_common_is_left_out_even_when_nothing_else_is_there() -> None:
    told = outcome([scored(1, 5.0, relevance=PROMPT_CUT.minimum - 0.01), scored(2, 5.0, relevance=0.0)])

    assert "hardly relevant" in told[1]
    assert "everyday words" in told[2]


def test_a_second_one_has_to_be_nearly_as_good_as_the_first() -> None:
    found = [scored(1, 3.0), scored(2, 2.0, relevance=0.5), scored(3, 1.0, relevance=0.2)]

    assert [seq for seq, why in outcome(found).items() if not why] == [1, 2, 3]
    assert [seq for seq, why in outcome(found, cut=SESSION_CUT).items() if not why] == [1, 2]


def test_what_is_certain_is_shown_however_little_it_says() -> None:
    found = [scored(1, 3.0), scored(2, 2.0, relevance=0.0)]
    found[1].certainty = "is about a file that is named"

    assert outcome(found) == {1: "", 2: ""}


def test_in_a_session_what_is_certain_is_not_shown_beside_something_ten_times_as_good() -> None:
    found = [scored(1, 3.0, relevance=0.8), scored(2, 2.0, relevance=0.1), scored(3, 2.0, relevance=0.07)]
    found[1].certainty = found[2].certainty = "is about a file that is named"

    assert [seq for seq, why in outcome(found, cut=SESSION_CUT).items() if not why] == [1, 2]
    assert [seq for seq, why in outcome(found[2:], cut=SESSION_CUT).items() if not why] == [3]


def test_of_two_that_say_nearly_the_same_the_better_one_is_shown() -> None:
    told = outcome(
        [
            scored(1, 3.0, "round money half up to whole cents"),
            scored(2, 2.0, "round money half up to cents"),
            scored(3, 1.0, "names hold commas"),
        ]
    )

    assert told == {1: "", 2: "near-duplicate of mem-1", 3: ""}


def test_of_two_that_say_nearly_the_same_the_more_relevant_one_is_shown() -> None:
    found = [
        scored(1, 3.0, "round money half up to whole cents", relevance=0.4),
        scored(2, 2.0, "round money half up to cents", relevance=0.8),
    ]

    assert outcome(found) == {1: "near-duplicate of mem-2", 2: ""}


@pytest.mark.parametrize(
    ("one", "other", "is_outdated"),
    [
        pytest.param({}, {}, True, id="the same"),
        pytest.param({"files": ("src/orders/pool.py",)}, {"files": ("src/billing/pool.py",)}, False, id="files"),
        pytest.param({"files": ("src/orders/pool.py",)}, {}, False, id="a file and none"),
        pytest.param({"tags": '["orders"]'}, {"tags": '["billing"]'}, False, id="tags"),
        pytest.param({"tags": '["orders"]'}, {"tags": '["orders", "pool"]'}, True, id="a tag in common"),
        pytest.param({"feature": "f-000001"}, {"feature": "f-000002"}, False, id="features"),
        pytest.param({}, {"origin_session": "s1"}, False, id="an agent against a person"),
        pytest.param({"origin_session": "s1"}, {"origin_session": "s2"}, True, id="an agent against an agent"),
    ],
)
def test_only_what_is_about_the_same_replaces_an_earlier_statement(
    one: dict[str, Any], other: dict[str, Any], is_outdated: bool
) -> None:
    found = [
        scored(1, 3.0, "The pool size of the workers is 5", kind="context", created_at="2026-01-01", **one),
        scored(2, 2.0, "The pool size of the workers is 20", kind="context", created_at="2026-02-01", **other),
    ]

    told = outcome(found)

    assert bool(told[1]) is is_outdated
    assert told[2] == ""


def test_kinds_are_balanced_among_equally_good_ones() -> None:
    fixes = [scored(n, 2.0 - n / 100) for n in range(8)]
    told = outcome([*fixes, scored(20, 1.9, kind="decision"), scored(21, 0.2, kind="context")])

    assert told[20] == ""
    assert told[21] == f"not among the top {MAX_SHOWN}"
    assert told[7] == f"not among the top {MAX_SHOWN}"


def test_what_was_shown_already_or_is_the_sessions_own_stays_out() -> None:
    context = RecallContext(session="s-1", shown=frozenset({"mem-2"}))

    told = outcome(
        [scored(1, 3.0, origin_session="s-1"), scored(2, 2.0), scored(3, 1.0, origin_session="s-2")], context
    )

    assert told == {1: "comes from this session", 2: "was already shown", 3: ""}


def test_only_the_tags_a_project_allows_are_shown() -> None:
    told = outcome([scored(1, 3.0, tags='["a"]'), scored(2, 2.0, tags='["b"]')], tags=("a",))

    assert told == {1: "", 2: "has none of the configured tags"}


def test_what_says_the_contrary_is_no_duplicate() -> None:
    advice = "use threads in the slow tests"

    told = outcome([scored(1, 3.0, advice), scored(2, 2.0, f"never {advice}")])

    assert told == {1: "", 2: ""}


def test_memories_of_the_very_attempt_stay_out_too() -> None:
    origin: dict[str, Any] = {"origin_run": "run-1", "origin_task": "t-1", "origin_attempt": 2}

    told = outcome([scored(1, 3.0, **origin)], RecallContext(session="run-1/t-1/2"))

    assert told == {1: "comes from this session"}


def test_what_sank_by_attempts_that_failed_is_not_shown_any_more() -> None:
    told = outcome(
        [
            scored(1, 9.0, confidence=0.3, wins=1, losses=7),
            scored(2, 8.0, confidence=0.3),
            scored(3, 7.0, confidence=0.6, wins=1, losses=7),
        ]
    )

    assert told == {1: "did not help: only 1 of 8 attempts that saw it completed their task", 2: "", 3: ""}


def test_what_an_attempt_stated_itself_goes_before_what_was_inferred_from_it() -> None:
    attempt: dict[str, Any] = {"origin_run": "r1", "origin_task": "t1", "origin_attempt": 2}
    found = [
        scored(1, 3.0, "money is rounded half up", source="automatic", **attempt),
        scored(2, 2.0, "Round money half up: Decimal", source="explicit", **attempt),
        scored(3, 1.0, "names hold commas", source="automatic", **attempt),
    ]

    assert [seq for seq, why in outcome(found).items() if not why] == [2, 3]
    assert "mem-2" in outcome(found)[1]
    assert [seq for seq, why in outcome(found[:1]).items() if not why] == [1]


def test_of_two_statements_about_what_now_holds_the_newest_is_shown() -> None:
    first = "v1.4 release notes now cover commits a1b2c3d..d4e5f6a"
    second = "v1.4 release notes now cover commits a1b2c3d..9f8e7d6 to include the parser fix"
    found = [scored(1, 3.0, first, kind="pattern"), scored(2, 2.0, second, kind="pattern")]

    told = outcome(found)

    assert told[2] == ""
    assert "newer" in told[1]


def test_what_failed_once_is_no_duplicate_of_what_holds() -> None:
    text = "the resolver sorts repeated lookups of the same fit twice"
    found = [scored(1, 3.0, text, kind="fix"), scored(2, 2.0, text, kind="pattern"), scored(3, 1.0, text, kind="fix")]

    assert [seq for seq, why in outcome(found).items() if not why] == [1, 2]
