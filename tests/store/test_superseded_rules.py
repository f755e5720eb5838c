"""What a statement takes the place of, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.actor import Actor
from ralph.core.records import MemoryState
from ralph.project import Project
from ralph.store.memories import ChangeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence


def active(project: Project) -> set[str]:
    return {one.content for one in project.store.memories.all()}


def test_a_value_that_is_stated_again_holds_again(project: Project) -> None:
    short, long = "The gateway times out after 30 seconds", "The gateway times out after 60 seconds"
    first = project.memory.add(short, type="context").memory
    second = project.memory.add(long, type="context").memory

    again = project.memory.add(short, type="context")

    assert (again.what, again.memory.id, again.superseded) == ("revived", first.id, (second.id,))
    assert active(project) == {short}
    assert [event.what for event in project.memory.history(first.id)] == ["added", "superseded", "revived"]
    assert project.memory.add(long, type="context").memory.id == second.id
    assert active(project) == {long}


def test_stating_a_value_again_can_be_undone(project: Project) -> None:
    for text in ("The pool has 4 threads", "The pool has 8 threads", "The pool has 4 threads"):
        added = project.memory.add(text, type="context")
    change = project.memory.history(added.memory.id)[-1].change_id

    assert change
    project.memory.undo(change)

    assert active(project) == {"The pool has 8 threads"}


def test_what_was_merged_is_learned_again_by_its_survivor(project: Project) -> None:
    kept = project.memory.add("Tests need docker", type="context").memory
    other = project.memory.add("Docker has to run for the tests", type="context").memory
    project.store.memories.consolidate(kept, kept, [other], ChangeInfo(who="ralph", why="consolidation"))

    assert project.memory.add("Docker has to run for the tests", type="context").memory.id == kept.id


def test_an_agent_does_not_bring_back_what_a_person_replaced(project: Project) -> None:
    project.memory.add("The pool has 4 threads", type="context")
    project.memory.add("The pool has 8 threads", type="context")

    with Project.open(project.root, actor=Actor(kind="agent", session="s1")) as by_agent:
        result = by_agent.memory.add("The pool has 4 threads", type="context")

    assert (result.what, result.memory.support) == ("known", 1)
    assert active(project) == {"The pool has 8 threads"}


def test_what_is_pinned_is_only_superseded_by_words_that_say_so(project: Project) -> None:
    pinned = project.memory.add("Uploads are limited to 10 MB", type="constraint").memory
    project.memory.rules.pin(pinned.id)

    project.memory.add("Uploads are limited to 25 MB", type="constraint")

    assert project.memory.get(pinned.id).state is MemoryState.ACTIVE
    assert [one.earlier.id for one in project.memory.rules.conflicts()] == [pinned.id]
    changed = project.memory.add("Uploads are limited to 50 MB from now on", type="constraint")
    assert pinned.id in changed.superseded


def test_figures_of_what_is_tagged_differently_both_stay(project: Project) -> None:
    def add(text: str, tags: Sequence[str]) -> tuple[str, ...]:
        return project.memory.add(text, type="context", tags=tags).superseded

    add("The service listens on port 8080", ["orders"])

    assert add("The service listens on port 9090", ["billing"]) == ()
    assert len(add("The service listens on port 8081", ["orders"])) == 1


def test_an_edit_takes_the_place_of_what_it_says_otherwise(project: Project) -> None:
    edited = project.memory.add("Backups run on the replica", type="context").memory
    other = project.memory.add("The API listens on port 8000", type="context").memory

    result = project.memory.edit(edited.id, content="The API listens on port 9000")

    assert result.superseded == (other.id,)
    assert project.memory.get(other.id).superseded_by == edited.id


def test_exceptions_of_rules_about_names_stay(project: Project) -> None:
    rules = (
        "Class names end with 'Service' in the service layer",
        "Class names end with 'Repo' in the data layer",
        "Always prefix hook names with 'use'",
        "Always prefix handler names with 'handle'",
        "Every module must have at most 500 lines",
        "Every module must have at least 1 test",
        "Endpoints require authentication",
        "Health endpoints do not require authentication",
    )
    for text in rules:
        project.memory.add(text, type="constraint")

    assert active(project) == set(rules)
    assert project.memory.rules.conflicts() == []


def memories_md(**entries: str) -> str:
    blocks = [
        f"### mem-{seconds[1:]}-071e\n> {text}\n<!-- tags: x | created: 2026-02-18 -->\n"
        for seconds, text in entries.items()
    ]
    return "# Memories\n\n## Context\n\n" + "\n".join(blocks)


def test_imported_statements_replace_older_ones_whatever_their_order(project: Project) -> None:
    newest, oldest = "The pool of the orders service has 8 threads", "The pool of the orders service has 4 threads"

    result = project.transfer.import_text(memories_md(t1771442853=newest, t1771420870=oldest), "memories.md")

    assert (result.new, result.superseded) == (2, 1)
    assert active(project) == {newest}
    assert project.memory.get("mem-1771420870-071e").superseded_by == "mem-1771442853-071e"
    project.memory.undo(result.change_id)
    assert active(project) == set()


def test_an_imported_statement_does_not_replace_a_newer_one(project: Project) -> None:
    newer = project.memory.add("The pool of the orders service has 8 threads", type="context").memory
    text = "The pool of the orders service has 4 threads"

    result = project.transfer.import_text(memories_md(t1771420870=text), "memories.md")

    assert result.superseded == 0
    assert active(project) == {newer.content, text}
