"""What people say in sessions that is meant for all work, and what only sounds like it."""

from __future__ import annotations

import pytest

from ralph.memory.lifecycle.rules import find_rules, find_rules_of_memory


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("always use pnpm, never npm", "Always use pnpm, never npm"),
        ("never commit directly to main", "Never commit directly to main"),
        ("ok. we never push to main without a review", "Never push to main without a review"),
        ("please always run the tests before you commit", "Always run the tests before you commit"),
        ("From now on, use uv instead of pip.", "Use uv instead of pip"),
        ("going forward, no emojis in commit messages", "No emojis in commit messages"),
        ("don't add comments to the code unless I ask", "Don't add comments to the code unless I ask"),
        ("tests must not hit the network", "Tests must not hit the network"),
        ("All public functions need docstrings.", "All public functions need docstrings"),
        ("every PR needs a changelog entry", "Every PR needs a changelog entry"),
        ("commit messages should be in the imperative mood", "Commit messages should be in the imperative mood"),
        ("use tabs, not spaces, in all files", "Use tabs, not spaces, in all files"),
        ("in this project we write tests with pytest, not unittest", "Write tests with pytest, not unittest"),
        ("Our convention is that test files end with _test.py", "Test files end with _test.py"),
        ("Use type hints everywhere.", "Use type hints everywhere"),
        ("remember: never edit generated files by hand", "Never edit generated files by hand"),
        ("keep functions under 50 lines", "Keep functions under 50 lines"),
        ("First, I want you to end variable names with '_n'.", "End variable names with '_n'"),
        ("And for function arguments, end the names with '_g'.", "Function arguments: end the names with '_g'"),
        ("Another habit: get used to writing docstrings in your methods.", "Writing docstrings in your methods"),
    ],
)
def test_what_is_meant_in_general_is_a_rule(said: str, rule: str) -> None:
    assert [one.text for one in find_rules(said)] == [rule]


@pytest.mark.parametrize(
    "said",
    [
        "fix the login tests",
        "it always fails on windows",
        "why does it never return?",
        "never mind, go on",
        "all tests pass now",
        "run all tests",
        "can you add tests for all functions in parser.py?",
        "rename the variable to user_id",
        "the tests are failing because every file is read twice",
        "I always forget this command",
        "update all imports in src/app.py",
        "please fix all the failing tests",
        "now run the linter on all files and fix the errors",
        "make sure all tests pass before you finish",
        "you never answered my question",
        "start fixing the tests",
        "please review all files that changed",
        "the class names are confusing",
        "I want you to refactor the functions in this module",
        "all functions in this module are deprecated",
        "Every commit triggers the CI",
        "Clearer names always help with testability.",
        "I'll make sure to check all dependencies",
        "Please follow our coding conventions.",
        "I want to emphasize the importance of consistent and clear code.",
        "From now on, keep that in mind.",
        "We have updated our standards, and I'd like you to adopt a specific convention for function names.",
        "> always use pnpm\n\nwhat does this quotation mean?",
        "```\nalways use pnpm\n```\nI found this in a file",
    ],
)
def test_what_is_asked_once_or_tells_something_is_none(said: str) -> None:
    assert find_rules(said) == []


def test_a_sentence_may_state_several_rules() -> None:
    found = find_rules("From now on, start function names with 'c_' and method names with 'm_', and add docstrings.")

    assert [one.values for one in found] == [("c_",), ("m_",)]
    assert found[0].text == "Start function names with 'c_'"
    assert {one.place for one in found} == {0}


def test_them_is_what_the_sentence_before_names() -> None:
    found = find_rules("We have a convention for variable names. Always start them with 'v_'.")

    assert [one.text for one in found] == ["Variable names: Always start them with 'v_'"]
    assert found[0].values == ("v_",)


def test_reasons_and_courtesies_are_left_out() -> None:
    found = find_rules("Also, please make sure that all names end with '_x' so that we find them, okay.")

    assert [one.text for one in found] == ["All names end with '_x'"]


def test_a_pasted_document_states_no_rules() -> None:
    assert find_rules("Always use tabs in all files. " * 1_000) == []


def test_a_constraint_is_a_rule_if_it_is_meant_in_general() -> None:
    text = "Passwords are never written to the log"

    assert [one.text for one in find_rules_of_memory(text, "constraint")] == [text]
    assert find_rules_of_memory(text, "pattern") == []
    assert find_rules_of_memory("The server listens on port 8080", "constraint") == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "context",
            "Build validation complete: cargo build passes, all 344 tests pass (135 adapters, 110 core), clippy clean",
        ),
        ("context", "Update complete: the always-on mode is verified in all tests"),
        ("context", "Build passes in all packages, every commit is green"),
        ("context", "Branch protection is enabled on all branches"),
        ("decision", "Release 1.2 done: all tests passed"),
        ("convention", "All 12 tests passed after the migration"),
        ("constraint", "Every 5 minutes the job syncs the orders"),
        ("pattern", "All IR struct tests use bincode for round trips. Tests check how structs are built."),
        ("context", "TASK-12: all functions must be exported before the release"),
        ("decision", "The parser should never raise"),
        ("decision", "Users must never see the tasks of others"),
        ("decision", "Bookings must never overlap"),
    ],
)
def test_what_is_the_case_and_what_is_about_one_part_is_no_rule(kind: str, text: str) -> None:
    assert find_rules_of_memory(text, kind) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decision", "Ralph should never close a task unless it is completed"),
        ("decision", "Agents must never push to main"),
        ("decision", "Secrets must never be logged"),
        ("convention", "Keep all tests green"),
        ("convention", "Mark all completed tasks with [x]"),
        ("context", "Every commit must have passed the tests"),
        ("pattern", "All public functions need docstrings"),
    ],
)
def test_what_should_always_or_never_be_is_a_rule(kind: str, text: str) -> None:
    assert [one.text for one in find_rules_of_memory(text, kind)] == [text]


def test_each_of_several_sentences_is_a_rule_if_all_are() -> None:
    found = find_rules_of_memory("Never commit to main. Always open a pull request.", "convention")

    assert [(one.place, one.text) for one in found] == [
        (1, "Never commit to main."),
        (2, "Always open a pull request."),
    ]
    assert len(find_rules_of_memory("Tests must not hit the network. CI has no access to it.", "convention")) == 1
