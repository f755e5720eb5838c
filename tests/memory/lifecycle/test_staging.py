from __future__ import annotations

import math

import pytest

from ralph.core.records import Memory
from ralph.memory.lifecycle.staging import DECISIVE_SUPPORT, needs_more_data, rejection_reason
from tests.make import a_memory


def learning(kind: str = "strategy", **fields: object) -> Memory:
    content = '{"description":"Small steps"}'
    defaults = {
        "kind": kind,
        "structured_content": content,
        "task_type": "feature",
        "confidence": 0.8,
        "success_rate": 0.8,
    }
    return a_memory("Small steps", "Small steps", **{**defaults, **fields})


@pytest.mark.parametrize("kind", ["strategy", "estimate", "convention"])
def test_a_sound_learning_passes(kind: str) -> None:
    assert rejection_reason(learning(kind)) == ""


def test_an_antipattern_passes_when_it_never_worked() -> None:
    assert rejection_reason(learning("antipattern", success_rate=0.0)) == ""


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": " "}, "Missing required fields"),
        ({"task_type": None}, "Missing required fields"),
        ({"structured_content": ""}, "Missing required fields"),
        ({"structured_content": "{}"}, "Missing required fields"),
        ({"structured_content": "[1]"}, "Missing required fields"),
        ({"structured_content": "{broken"}, "Missing required fields"),
        ({"structured_content": "[" * 100_000}, "Missing required fields"),
        ({"kind": "wisdom"}, "Invalid type: wisdom"),
        ({"confidence": 1.1}, "Confidence must be between 0 and 1"),
        ({"confidence": -0.1}, "Confidence must be between 0 and 1"),
        ({"confidence": math.nan}, "Confidence must be between 0 and 1"),
        ({"success_rate": 1.1}, "Success rate must be between 0 and 1"),
        ({"success_rate": math.nan}, "Success rate must be between 0 and 1"),
        ({"confidence": 0.29}, "Confidence too low (< 0.3)"),
        ({"success_rate": 0.49}, "Strategies should have success rate >= 0.5"),
        ({"kind": "antipattern", "success_rate": 0.21}, "Anti-patterns should have low success rate"),
    ],
)
def test_each_rule_names_its_reason(fields: dict[str, object], why: str) -> None:
    assert rejection_reason(learning(**fields)) == why  # type: ignore[arg-type]


def test_the_limits_themselves_pass() -> None:
    assert rejection_reason(learning(confidence=0.3, success_rate=0.5)) == ""
    assert rejection_reason(learning("antipattern", success_rate=0.2)) == ""
    assert rejection_reason(learning(success_rate=None)) == ""


def test_plain_memories_need_words_and_sound_numbers_only() -> None:
    plain = a_memory("Tabs", "The parser wants tabs.", kind="pitfall", confidence=0.1)

    assert rejection_reason(plain) == ""
    assert rejection_reason(a_memory("", "", kind="pitfall")) == "Missing required fields"
    assert (
        rejection_reason(a_memory("Tabs", "x", kind="pitfall", confidence=math.inf))
        == "Confidence must be between 0 and 1"
    )


def test_an_estimate_of_one_iteration_waits_for_more() -> None:
    estimate = learning("estimate", confidence=0.2)

    assert rejection_reason(estimate) == "Confidence too low (< 0.3)"
    assert needs_more_data(estimate)


@pytest.mark.parametrize(
    "memory",
    [
        learning("estimate", confidence=0.4),
        learning("estimate", confidence=0.2, support=DECISIVE_SUPPORT),
        learning("estimate", confidence=0.2, task_type=None),
        learning("estimate", confidence=math.nan),
        learning("estimate", confidence=-1.0),
        learning("strategy", confidence=0.2),
    ],
)
def test_nothing_else_waits(memory: Memory) -> None:
    assert not needs_more_data(memory)
