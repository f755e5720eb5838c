from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.loop_state import read_loop_state
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration

STATE = {
    "loopId": "loop-7",
    "objective": "Make the slow tests fast",
    "status": "completed",
    "currentIteration": 3,
    "iterations": [
        {
            "number": 1,
            "status": "completed",
            "duration": 42_500,
            "analysis": {"progressMade": True},
            "learnings": ["Cache the fixture", "Profile first"],
            "filesModified": ["src/cache.py", "tests/test_cache.py", "src/cache.py"],
        },
        {"number": 2, "status": "failed", "duration": 1000, "analysis": {"error": "Timed out after 60 s"}},
        {"number": 3, "status": "completed", "analysis": {"progressMade": False}, "learnings": "Nothing new"},
    ],
}


def iteration(**fields: object) -> LoopIteration:
    """Read a single iteration."""
    return read_loop_state(json.dumps({"iterations": [fields]})).iterations[0]


def test_a_state_file_becomes_a_history() -> None:
    assert read_loop_state(json.dumps(STATE)) == LoopHistory(
        loop_id="loop-7",
        objective="Make the slow tests fast",
        is_complete=True,
        iterations=(
            LoopIteration(
                number=1,
                succeeded=True,
                failed=False,
                seconds=42.5,
                learnings=("Cache the fixture", "Profile first"),
                files=("src/cache.py", "tests/test_cache.py"),
            ),
            LoopIteration(number=2, succeeded=False, failed=True, seconds=1.0, error="Timed out after 60 s"),
            LoopIteration(number=3, succeeded=False, failed=False, learnings=("Nothing new",)),
        ),
    )


def test_what_is_missing_says_nothing() -> None:
    found = read_loop_state('{"iterations": [{}, null, 3, {"status": "completed"}]}')

    assert found == LoopHistory(
        loop_id="",
        objective="",
        iterations=(
            LoopIteration(number=1, succeeded=False, failed=False),
            LoopIteration(number=4, succeeded=True, failed=False),
        ),
    )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"analysis": {"error": "a", "errors": ["b"]}, "error": "c"}, "a"),
        ({"analysis": {"error": None, "errors": ["b", 3, "c"]}}, "b\nc"),
        ({"analysis": {"errors": []}, "error": {"code": 1, "message": "d"}}, "d"),
        ({"analysis": {"blockers": ["e", {"description": "f"}]}}, "e\nf"),
        ({"analysis": "g", "error": 7}, ""),
        ({"error": "password=hunter2hunter2"}, "password=[redacted]"),
    ],
)
def test_the_error_is_the_first_text_that_says_what_went_wrong(fields: dict[str, object], error: str) -> None:
    assert iteration(**fields).error == error


@pytest.mark.parametrize("duration", [-1, "long", True, None, 10**11, [1]])
def test_a_duration_that_is_none_counts_as_nothing(duration: object) -> None:
    assert iteration(duration=duration).seconds == 0.0


@pytest.mark.parametrize("number", [0, -3, "2", None, 10**300])
def test_an_iteration_without_a_number_is_counted(number: object) -> None:
    assert iteration(number=number).number == 1


def test_text_is_cleaned_and_bounded() -> None:
    found = iteration(
        learnings=["\x1b[31mred\x1b[0m", " ", "x" * 10**6],
        filesModified=["a\u200b.py", "", 3, "x" * 10**6, "b\nc"],
    )

    assert found.learnings[0] == "red"
    assert [len(learning) for learning in found.learnings] == [3, 2000]
    assert found.files == ("a.py",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The loop state is not valid JSON: expecting value (line 1, column 1)."),
        ("[" * 10**7, "The loop state is not valid JSON: it is nested too deeply."),
        ("[]", "The loop state has no `iterations` list."),
        ('{"iterations": 3}', "The loop state has no `iterations` list."),
    ],
)
def test_what_is_no_loop_state_is_refused_with_a_sentence(text: str, why: str) -> None:
    started = time.process_time()

    with pytest.raises(ValueError) as refused:
        read_loop_state(text)

    assert str(refused.value) == why
    assert time.process_time() - started < 2


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message"]), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from("number status duration analysis learnings filesModified error loopId objective".split())


@given(st.dictionaries(FIELDS, ANYTHING), st.lists(st.dictionaries(FIELDS, ANYTHING), max_size=3))
def test_no_shape_of_a_field_is_too_much(state: dict[str, object], iterations: list[dict[str, object]]) -> None:
    found = read_loop_state(json.dumps({**state, "iterations": iterations}))

    assert len(found.iterations) == len(iterations)
