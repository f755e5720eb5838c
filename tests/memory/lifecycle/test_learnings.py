from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.memory.lifecycle.learnings import (
    LEARNING_KINDS,
    describe_learning,
    learning_identity,
    merge_content,
    structured_content,
)
from tests.make import a_memory

KINDS = st.sampled_from(["strategy", "antipattern", "estimate", "convention", "pattern", ""])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    "description pattern effectiveness iterations occurrences impact details examples".split()
    + "avgIterationTime totalIterations complexity successRate other".split()
)
CONTENTS = st.dictionaries(FIELDS, ANYTHING, max_size=6)


def merged(kind: str, old: object, new: object, old_support: int = 1) -> object:
    return json.loads(merge_content(kind, json.dumps(old), json.dumps(new), old_support))


# --- in words ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content", "title", "body"),
    [
        (
            "strategy",
            {"description": "Tests first", "effectiveness": 0.85, "iterations": 12},
            "Tests first",
            "Tests first. 85% effective over 12 iterations.",
        ),
        (
            "strategy",
            {"description": "Tests first!", "iterations": 1},
            "Tests first!",
            "Tests first! Over 1 iteration.",
        ),
        ("strategy", {"description": "Tests  first"}, "Tests  first", "Tests  first"),
        ("strategy", {"description": " Tests\n first"}, "Tests first", "Tests first"),
        (
            "antipattern",
            {"description": "Avoid: timeouts", "occurrences": 3, "impact": "high"},
            "Avoid: timeouts",
            "Avoid: timeouts. Seen 3 times; impact high.",
        ),
        (
            "estimate",
            {"avgIterationTime": 45000, "totalIterations": 3, "complexity": "medium", "successRate": 0.85},
            "Estimate for test-fix tasks (medium)",
            "About 3 iterations of 45 s each; 85% succeed.",
        ),
        (
            "estimate",
            {"avgIterationTime": 1500, "totalIterations": 1, "successRate": 1},
            "Estimate for test-fix tasks",
            "About 1 iteration of 1.5 s; 100% succeed.",
        ),
        ("estimate", {"avgIterationTime": 600_000}, "Estimate for test-fix tasks", "About 10 min per iteration."),
        (
            "convention",
            {"pattern": "Tests in tests/", "examples": ["tests/test_a.py", "tests/test_b.py"]},
            "Tests in tests/",
            "Tests in tests/. Examples: tests/test_a.py, tests/test_b.py",
        ),
        ("strategy", {"name": "x", "count": 2, "list": []}, "Strategy for test-fix tasks", "name: x; count: 2"),
        ("convention", {}, "Convention for test-fix tasks", "Convention for test-fix tasks"),
    ],
)
def test_a_learning_is_told_in_words(kind: str, content: dict[str, object], title: str, body: str) -> None:
    assert describe_learning(kind, "test-fix", content) == (title, body)


def test_a_long_description_is_whole_in_the_body() -> None:
    description = "Run the slow tests last. " + "They take long. " * 20

    title, body = describe_learning("strategy", "feature", {"description": description, "iterations": 2})

    assert title == "Run the slow tests last"
    assert body == description.strip() + " Over 2 iterations."


@given(KINDS, CONTENTS)
def test_whatever_a_content_holds_it_has_a_title_and_a_body(kind: str, content: dict[str, object]) -> None:
    title, body = describe_learning(kind, None, content)

    assert title.strip()
    assert body.strip()


def test_a_learning_in_plain_words_gets_a_content() -> None:
    convention = a_memory("Tabs, not spaces", "Everywhere.", kind="convention")
    strategy = a_memory("Tests first", "Tests first", kind="strategy")
    damaged = a_memory("Tests first", kind="strategy", structured_content="[1]")

    assert structured_content(convention) == {"pattern": "Tabs, not spaces", "details": "Everywhere."}
    assert structured_content(strategy) == structured_content(damaged) == {"description": "Tests first"}


LINES = st.text("ab .:ü", min_size=1, max_size=20).map(lambda text: f"x{text}x")
TEXTS = st.text("ab .:ü\n", max_size=20).map(lambda text: f"x{text}x")


@given(st.sampled_from(LEARNING_KINDS), LINES, TEXTS)
def test_what_came_in_plain_words_is_told_in_the_same_words(kind: str, title: str, body: str) -> None:
    assert describe_learning(kind, "feature", structured_content(a_memory(title, body, kind=kind))) == (title, body)
    assert describe_learning(kind, "feature", structured_content(a_memory(title, title, kind=kind))) == (title, title)


def test_a_text_beside_structured_fields_is_told_with_them() -> None:
    content = {"pattern": "Tabs, not spaces", "details": "Everywhere.", "examples": ["a.py"]}

    assert describe_learning("convention", None, content) == (
        "Tabs, not spaces",
        "Tabs, not spaces. Everywhere. Examples: a.py",
    )


def test_a_body_that_begins_with_its_title_says_it_once() -> None:
    strategy = a_memory("Use tabs", "Use tabs. Always.", kind="strategy")

    assert describe_learning("strategy", None, structured_content(strategy)) == ("Use tabs", "Use tabs. Always.")


# --- compared ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("strategy", '{"description":"Tests first","iterations":1}', '{"iterations":9,"description":" tests  FIRST "}'),
        ("antipattern", '{"description":"Avoid: x"}', '{"description":"avoid: X","impact":"low"}'),
        ("convention", '{"pattern":"Tabs"}', '{"pattern":"tabs","examples":["a"]}'),
        ("estimate", '{"complexity":"low","totalIterations":1}', '{"complexity":"Low","totalIterations":2}'),
        ("strategy", "not json", "not  JSON"),
    ],
)
def test_equal_learnings_have_one_identity(kind: str, one: str, other: str) -> None:
    assert learning_identity(kind, "feature", one) == learning_identity(kind, "Feature", other)


def test_kind_task_type_and_words_tell_learnings_apart() -> None:
    content = '{"description":"Tests first","complexity":"low"}'
    others = [
        learning_identity("antipattern", "feature", content),
        learning_identity("strategy", "bug-fix", content),
        learning_identity("strategy", None, content),
        learning_identity("strategy", "feature", '{"description":"Tests last"}'),
        learning_identity("strategy", "feature", '{"name":"Tests first"}'),
        learning_identity("strategy", "feature", '{"name":"Tests last"}'),
    ]

    assert len({learning_identity("strategy", "feature", content), *others}) == 7
    assert learning_identity("strategy", None, content) == learning_identity("strategy", "general", content)


# --- put together ----------------------------------------------------------------------


def test_strategies_add_their_iterations_and_average_by_them() -> None:
    old = {"description": "a", "effectiveness": 1, "iterations": 3}
    new = {"description": "a", "effectiveness": 0.6, "iterations": 1}

    assert merged("strategy", old, new) == {"description": "a", "effectiveness": 0.9, "iterations": 4}


def test_antipatterns_add_their_occurrences_and_keep_the_higher_impact() -> None:
    old = {"description": "a", "occurrences": 2, "impact": "high"}
    new = {"description": "a", "occurrences": 3, "impact": "Low"}

    assert merged("antipattern", old, new) == {"description": "a", "occurrences": 5, "impact": "high"}


def test_estimates_are_averaged_by_the_iterations_behind_them() -> None:
    old = {"avgIterationTime": 1000, "totalIterations": 3, "complexity": "low", "successRate": 1}
    new = {"avgIterationTime": 5000, "totalIterations": 1, "complexity": "low", "successRate": 0}

    once = merged("estimate", old, new)
    often = merged("estimate", old, new, old_support=5)

    assert once == {"avgIterationTime": 2000, "totalIterations": 2, "complexity": "low", "successRate": 0.75}
    assert isinstance(often, dict)
    assert often["avgIterationTime"] == 1250
    assert often["totalIterations"] == pytest.approx(16 / 6)
    assert often["successRate"] == 15 / 16


def test_conventions_unite_at_most_ten_examples() -> None:
    old = {"pattern": "a", "examples": ["a", "b"]}

    assert merged("convention", old, {"pattern": "a", "examples": ["b", "c", 3]}) == {
        "pattern": "a",
        "examples": ["a", "b", "c"],
    }
    assert merged("convention", old, {"examples": [str(n) for n in range(20)]}) == {
        "pattern": "a",
        "examples": ["a", "b", *"01234567"],
    }


def test_fields_nobody_knows_are_kept_and_the_new_one_counts() -> None:
    assert merged("strategy", {"x": 1, "y": 1}, {"y": 2, "z": 3}) == {"x": 1, "y": 2, "z": 3}
    assert merged("knowledge", {"x": 1, "iterations": 1}, {"iterations": 2}) == {"x": 1, "iterations": 2}


def test_a_field_of_the_wrong_shape_counts_as_missing() -> None:
    assert merged("strategy", {"iterations": "many", "effectiveness": True}, {"iterations": 2}) == {
        "iterations": 2,
        "effectiveness": True,
    }
    assert merged("strategy", {"iterations": math.nan}, {"iterations": -1}) == {"iterations": -1}
    assert merged("estimate", {"totalIterations": 0, "successRate": 1}, {"totalIterations": 0, "successRate": 0}) == {
        "totalIterations": 0,
        "successRate": 0.5,
    }


def test_a_damaged_content_yields_to_a_sound_one() -> None:
    assert merge_content("strategy", "{", '{"description":"ü"}', 1) == '{"description":"ü"}'
    assert merge_content("strategy", '{"description":"ü"}', "[]", 1) == '{"description":"ü"}'
    assert merge_content("strategy", "", "null", 1) == "{}"


@given(KINDS, CONTENTS, CONTENTS, st.integers(-1, 10))
def test_no_field_is_lost_when_contents_are_put_together(
    kind: str, old: dict[str, object], new: dict[str, object], support: int
) -> None:
    found = merged(kind, old, new, support)

    assert isinstance(found, dict)
    assert set(found) == {*old, *new}
