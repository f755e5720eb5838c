"""Rules in memories that are lists: which items state one, under which titles."""

from __future__ import annotations

import pytest

from ralph.memory.lifecycle.rule_lists import find_memory_rules, list_items

PRACTICES = """\
- Red/green TDD for all implementation. Write the failing test first.
- All new work must pass `make check` (lint + tests) before committing.
- When adding new API endpoints: capture a real response, add a fixture-based test.
- The suite takes four minutes.
"""


def rules(title: str, *items: str, kind: str = "context") -> list[str]:
    return [one.text for one in find_memory_rules(title, "\n".join(f"- {item}" for item in items), kind)]


def test_items_of_practices_are_rules_of_their_own() -> None:
    found = find_memory_rules("Development practices", PRACTICES, "context")

    assert [one.place for one in found] == [1, 2, 3]
    assert found[0].text == "Red/green TDD for all implementation. Write the failing test first."
    assert found[2].text == "When adding new API endpoints: capture a real response, add a fixture-based test."


@pytest.mark.parametrize(
    "item",
    [
        "Batch related changes into single commits",
        "Do not abbreviate words in a name",
        "Imports: group by external, internal, relative",
        "**No `any`** in TypeScript",
        "Runtime: Bun only. Never node",
        "For Go changes: use idiomatic error handling",
        "Inline styles preferred",
        "Squash merge all PRs",
    ],
)
def test_an_instruction_under_a_title_about_all_work_is_a_rule(item: str) -> None:
    for title in ("Coding guidelines", "Code style", "Project rules (non-negotiable)", "Git conventions"):
        assert rules(title, item, "The suite takes four minutes") == [item.replace("**", "")]


@pytest.mark.parametrize(
    "item",
    [
        "Static analysis in CI",
        "Unused names starting with an underscore are ignored by the linter",
        "Findings types: `found`, `missing`, `info`",
        "Commit quality: poor, all commits are wip",
        "Tests pass in all packages now",
        "Build validation complete: all 344 tests pass",
        "Ran the linter on all files; all checks passed",
        "Remote: https://example.com/project.git",
        "Register new commands in `src/app/commands.py`",
        "Use the old parser for now",
    ],
)
def test_a_fact_or_what_is_about_one_file_is_none(item: str) -> None:
    assert rules("Development conventions", item, "The suite takes four minutes") == []


@pytest.mark.parametrize("title", ["Business rules", "Validation rules", "API conventions", "Best practices", "Search"])
def test_under_the_title_of_a_part_an_instruction_is_none(title: str) -> None:
    for kind in ("context", "constraint"):
        items = "Use plural nouns for resources", "All invoices belong to the same branch office", "Errors have a code"
        assert rules(title, *items, kind=kind) == []


def test_a_convention_that_is_a_list_states_rules_if_half_of_its_items_do() -> None:
    assert rules("Tabs and main", "Always use tabs", "Never push to main", kind="convention")
    assert not rules("Ids", "Every id has 8 letters", "Dates are UTC", "Ids are text", kind="convention")


def test_what_a_list_is() -> None:
    assert list_items("An introduction.\n\n1. One\n   and more\n2. Two:\n   - a\n   - b") == [
        "One and more",
        "Two: a; b",
    ]
    assert list_items("- One\n- Two\n\nThen something else.") == []
    assert list_items("No list") == []


def test_a_long_item_is_told_as_far_as_its_sentences_fit() -> None:
    assert rules("Coding rules", f"Use tabs everywhere. {'Because ' * 60}", "Use uv") == ["Use tabs everywhere."]
