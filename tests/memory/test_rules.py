"""Pinned memories, rules that take the place of others, and rules that contradict each other."""

from __future__ import annotations

import pytest

from ralph.core.errors import NotFoundError, UsageError
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
