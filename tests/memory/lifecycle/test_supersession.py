"""Which of several statements about the same thing holds."""

from __future__ import annotations

import pytest

from ralph.core.records import StatedRule
from ralph.memory.lifecycle.rules import find_rules_of_memory
from ralph.memory.lifecycle.supersession import (
    CHANGE,
    REFINEMENT,
    SAME,
    UNRELATED,
    compare_rules,
    current_rules,
    decode_rules,
    encode_rules,
)


@pytest.mark.parametrize(
    ("earlier", "later", "relation"),
    [
        ("Always start function names with 'a_'", "From now on, start all function names with 'b_'", CHANGE),
        ("Always start function names with 'a_'", "We end function names with '_b' in our code", CHANGE),
        ("Always start function names with 'a_'", "Always start function argument names with 'b_'", UNRELATED),
        ("Always start function names with 'a_'", "Remember to always start function names with 'a_'", SAME),
        ("Always use pip to install dependencies", "From now on use uv instead of pip", CHANGE),
        ("Always write tests with unittest", "We write all tests with pytest, not unittest", CHANGE),
        ("Always use pytest in tests", "Always use factories in tests", UNRELATED),
        ("Always use docstrings in functions", "Never use docstrings in functions", CHANGE),
        ("Always use docstrings in functions", "Always use docstrings in methods", UNRELATED),
        ("Keep functions under 50 lines", "From now on, keep functions under 80 lines", CHANGE),
        ("Always use 4 spaces", "Always use 2 spaces", CHANGE),
        ("Always use 4 spaces in Python", "Always use 2 spaces in YAML", UNRELATED),
        ("Never commit directly to main", "Always run the tests before you commit", UNRELATED),
        ("Never use the module 'a' in code", "Never use the module 'b' in code", UNRELATED),
        ("Always sort imports", "Always sort imports with 'isort'", REFINEMENT),
    ],
)
def test_relation_of_a_later_statement(earlier: str, later: str, relation: str) -> None:
    rules = [find_rules_of_memory(text, "convention")[0] for text in (earlier, later)]

    assert compare_rules(*rules) == relation


def test_the_newest_form_stands_and_knows_what_it_was() -> None:
    stated = [
        _said("Always start variable names with 'a_'", "2026-01-01", "s1"),
        _said("From now on, start variable names with 'c_'", "2026-03-01", "s3"),
        _said("From now on, start variable names with 'b_'", "2026-02-01", "s2"),
    ]

    (rule,) = current_rules(stated)

    assert rule.stated.rule.values == ("c_",)
    assert [one.rule.values for one in rule.superseded] == [("b_",), ("a_",)]


def test_what_is_stated_most_often_is_first() -> None:
    stated = [
        _said("Never commit directly to main", "2026-01-01", "s1"),
        _said("Always use type hints in all functions", "2026-01-02", "s2"),
        _said("Always use type hints in all functions", "2026-01-03", "s3"),
    ]

    assert [len(one.sources) for one in current_rules(stated)] == [2, 1]


def test_two_rules_of_one_sentence_both_hold() -> None:
    from ralph.memory.lifecycle.rules import find_rules

    rules = find_rules("From now on, start variable names with 'z_' and end them with '_v'.")
    stated = [StatedRule(rule=rule, id="ep-1", at="2026-01-01", source="s1") for rule in rules]

    assert len(current_rules(stated)) == 2


def test_memories_that_contradict_each_other_both_stand() -> None:
    stated = [
        _remembered("Always use tabs in all files", "2026-01-01", "mem-1"),
        _remembered("Never use tabs in all files", "2026-02-01", "mem-2"),
    ]

    first, second = current_rules(stated)

    assert [one.id for one in first.conflicts] == ["mem-2"]
    assert [one.id for one in second.conflicts] == ["mem-1"]


def test_a_pinned_memory_stays_whatever_is_said_later() -> None:
    stated = [
        _remembered("Always start names of functions with 'a_'", "2026-01-01", "mem-1", is_pinned=True),
        _said("From now on, start function names with 'b_'", "2026-02-01", "s2"),
    ]

    (rule,) = current_rules(stated)

    assert rule.stated.id == "mem-1"


def test_rules_survive_storing() -> None:
    rules = find_rules_of_memory("From now on use uv instead of pip in all code", "convention")

    assert decode_rules(encode_rules(rules)) == rules
    assert decode_rules("[1]") == decode_rules("") == []


def _said(text: str, at: str, session: str) -> StatedRule:
    rule = find_rules_of_memory(text, "convention")[0]
    return StatedRule(rule=rule, id=f"ep-{session}", at=at, source=session)


def _remembered(text: str, at: str, id: str, *, is_pinned: bool = False) -> StatedRule:
    rule = find_rules_of_memory(text, "convention")[0]
    return StatedRule(rule=rule, id=id, at=at, trust=0.6, is_memory=True, is_pinned=is_pinned)
