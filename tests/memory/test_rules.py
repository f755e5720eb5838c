"""Pinned memories, rules that take the place of others, and rules that contradict each other."""

from __future__ import annotations

import pytest

from ralph.core.errors import ConflictError, NotFoundError, UsageError
from ralph.core.records import MemoryState
from ralph.memory.recall.render_rules import HEADING
from ralph.project import Project
from tests.make import as_agent
from tests.memory.recall.test_standing import lines_of, prompt_of, say

TABS = "Always use tabs in all files"
NO_TABS = "Never use tabs in all files"


def test_what_is_pinned_is_in_every_prompt_until_it_is_unpinned(project: Project) -> None:
    added = project.memory.add("The release is on Friday", type="context").memory
    assert HEADING not in prompt_of(project)

    project.memory.rules.pin(added.id)
    assert lines_of(prompt_of(project)) == [f"- The release is on Friday ({added.created_at[:10]})"]
    assert [event.what for event in project.memory.history(added.id)] == ["added", "pinned"]

    project.memory.rules.unpin(added.id)
    assert HEADING not in prompt_of(project)
    project.memory.undo(added.id)
    assert HEADING in prompt_of(project)


def test_only_people_pin(project: Project) -> None:
    added = project.memory.add("The release is on Friday", type="context").memory

    for change in (as_agent(project).memory.rules.pin, as_agent(project).memory.rules.unpin):
        with pytest.raises(UsageError) as error:
            change(added.id)
        assert error.value.code == "person-required"


def test_pinning_a_passage_makes_its_rules_memories(project: Project) -> None:
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1")
    (rule,) = project.memory.rules.standing()

    (pinned,) = project.memory.rules.pin(rule.stated.id)

    assert pinned.memory.content == "End all variable names with '_n'"
    assert [one.stated.id for one in project.memory.rules.standing()] == [pinned.memory.id]
    with pytest.raises(NotFoundError):
        project.memory.rules.pin("ep-0000000000000000")


def test_a_deleted_memory_cannot_be_pinned(project: Project) -> None:
    added = project.memory.add("The release is on Friday").memory
    project.memory.delete(added.id)

    with pytest.raises(NotFoundError):
        project.memory.rules.pin(added.id)


def test_a_later_rule_takes_the_place_of_an_earlier_one(project: Project) -> None:
    earlier = project.memory.add("Always start function names with 'a_'", type="convention").memory
    added = project.memory.add("From now on, start function names with 'b_'", type="convention")

    assert added.superseded == (earlier.id,)
    assert project.memory.get(earlier.id).superseded_by == added.memory.id
    assert [one.id for one in project.memory.show(added.memory.id).supersedes] == [earlier.id]
    assert [event.what for event in project.memory.history(earlier.id)] == ["added", "superseded"]
    assert "'a_'" not in prompt_of(project)

    project.memory.undo(earlier.id)
    assert project.memory.get(earlier.id).state is MemoryState.ACTIVE
    assert [(one.earlier.id, one.later.id) for one in project.memory.rules.conflicts()] == [
        (earlier.id, added.memory.id)
    ]


def test_an_agent_does_not_change_what_a_person_said(project: Project) -> None:
    earlier = project.memory.add(TABS, type="convention").memory
    later = as_agent(project).memory.add(NO_TABS, type="convention").memory

    assert project.memory.get(earlier.id).state is MemoryState.ACTIVE
    told = lines_of(prompt_of(project))
    assert len(told) == 2
    assert all("contradicts" in line and earlier.created_at[:10] in line for line in told)

    kept, superseded, change = project.memory.rules.keep(later.id)

    assert (kept.id, [one.id for one in superseded]) == (later.id, [earlier.id])
    assert project.memory.rules.conflicts() == []
    assert lines_of(prompt_of(project)) == [f"- {NO_TABS} ({later.created_at[:10]})"]
    with pytest.raises(UsageError) as refused:
        as_agent(project).memory.edit(later.id, content="Use tabs.")
    assert refused.value.code == "person-required"
    project.memory.undo(change)
    assert len(project.memory.rules.conflicts()) == 1


def test_what_a_person_said_later_contradicts_a_memory(project: Project) -> None:
    memory = project.memory.add("Always start function names with 'a_'", type="convention").memory
    say(project, "From now on, start all function names with 'b_'.", "2999-01-05T09:00:00Z", "s1")

    (conflict,) = project.memory.rules.conflicts()
    assert conflict.earlier.id == memory.id
    assert lines_of(prompt_of(project))[0].startswith("- Start all function names with 'b_'")

    project.memory.rules.keep(conflict.later.id)
    assert project.memory.get(memory.id).state is MemoryState.SUPERSEDED
    assert project.memory.rules.conflicts() == []


def test_agents_do_not_decide_conflicts(project: Project) -> None:
    project.memory.add(TABS, type="convention")
    later = as_agent(project).memory.add(NO_TABS, type="convention").memory

    with pytest.raises(UsageError) as error:
        as_agent(project).memory.rules.keep(later.id)
    assert error.value.code == "person-required"
    with pytest.raises(NotFoundError):
        project.memory.rules.keep(project.memory.add("The release is on Friday").memory.id)


def test_what_could_hold_together_is_for_a_person_to_decide(project: Project) -> None:
    project.memory.add("Always import the module 'a' in all files", type="convention")
    added = project.memory.add("Always import the module 'b' in all files", type="convention")

    assert added.superseded == ()
    assert len(project.memory.rules.conflicts()) == 1


def test_rules_about_other_files_stand_beside_each_other(project: Project) -> None:
    project.memory.add(TABS, type="convention", files=["src/a.py"])
    added = project.memory.add(NO_TABS, type="convention", files=["src/b.py"])

    assert added.superseded == ()
    assert project.memory.rules.conflicts() == []


PRACTICES = """\
- All new work must pass `make check` before committing.
- Keep functions under 50 lines.
- The suite takes four minutes.
- Write docs/decisions.md when something is decided.
"""


def add_practices(project: Project) -> str:
    return project.memory.add(PRACTICES, type="context", title="Development practices").memory.id


def test_each_rule_of_a_list_is_told_in_one_line(project: Project) -> None:
    id = add_practices(project)

    assert [one.partition(" (2")[0] for one in lines_of(prompt_of(project))] == [
        "- All new work must pass `make check` before committing.",
        "- Keep functions under 50 lines.",
        "- Write docs/decisions.md when something is decided.",
    ]
    assert {one.stated.id for one in project.memory.rules.standing()} == {id}
    assert project.prompts.preview(project.tasks.add("Write a parser").id).shown == (id,)
    assert project.memory.rules.is_told(id)


def test_a_list_that_a_person_gave_files_is_about_those(project: Project) -> None:
    project.memory.add(PRACTICES, type="context", title="Development practices", files=["src/parser.py"])

    assert HEADING not in prompt_of(project)


def test_rules_of_one_list_do_not_merge_or_contradict_each_other(project: Project) -> None:
    items = ("Use tabs in Python files", "Use spaces in YAML files", "Add a test for a screen", "Add a test for a page")
    project.memory.add("\n".join(f"- {item}" for item in items), type="convention", title="Coding conventions")

    assert len(lines_of(prompt_of(project))) == 4
    assert project.memory.rules.conflicts() == []


def test_a_later_rule_supersedes_no_list_of_which_it_changes_one(project: Project) -> None:
    id = add_practices(project)
    later = project.memory.add("From now on, keep functions under 30 lines", type="convention").memory

    (conflict,) = project.memory.rules.conflicts()

    assert project.memory.show(id).memory.state is MemoryState.ACTIVE
    assert (conflict.earlier.rule.text, conflict.later.id) == ("Keep functions under 50 lines.", later.id)
    with pytest.raises(ConflictError) as error:
        project.memory.rules.keep(later.id)
    assert error.value.code == "several-rules"


def test_what_a_person_says_changes_one_rule_of_a_list(project: Project) -> None:
    add_practices(project)
    say(project, "From now on, keep functions under 30 lines.", "2099-01-05T09:00:00Z", "s1")

    told = lines_of(prompt_of(project))

    assert len(told) == 3
    assert [one for one in told if "was: '50'" in one]


def test_a_list_may_supersede_a_rule_that_it_changes(project: Project) -> None:
    earlier = project.memory.add("Always keep functions under 80 lines", type="convention").memory
    add_practices(project)

    assert project.memory.show(earlier.id).memory.state is MemoryState.SUPERSEDED


def test_a_short_list_that_is_pinned_is_told_as_it_is(project: Project) -> None:
    id = add_practices(project)
    project.memory.rules.pin(id)

    (line,) = lines_of(prompt_of(project))

    assert "The suite takes four minutes" in line
