"""The order of pending tasks, and splitting them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import RalphError
from ralph.core.records import Task, TaskStatus
from ralph.loop.backlog import Place, changed_priorities
from ralph.project import Project


def sorted_places(places: list[Place]) -> list[Place]:
    return sorted(places, key=lambda one: (-one[1], one[2]))


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=9), st.data())
def test_any_move_is_possible_and_leaves_the_others_in_order(priorities: list[int], data: st.DataObject) -> None:
    places = sorted_places([(f"t-{seq}", priority, seq) for seq, priority in enumerate(priorities)])
    moved = data.draw(st.sampled_from(places))
    wanted = [one for one in places if one != moved]
    wanted.insert(data.draw(st.integers(0, len(wanted))), moved)

    changes = changed_priorities(wanted, moved[0])

    got = sorted_places([(id, changes.get(id, priority), seq) for id, priority, seq in wanted])
    assert [one[0] for one in got] == [one[0] for one in wanted]
    if wanted == places:
        assert changes == {}


def test_a_move_between_different_priorities_changes_one_task() -> None:
    order = [("a", 9, 1), ("c", 0, 3), ("b", 5, 2)]

    assert len(changed_priorities(order, "c")) == 1


def titles(tasks: list[Task]) -> list[str]:
    return [task.title for task in tasks]


def test_a_task_is_moved_before_or_after_another(project: Project) -> None:
    first, second, third = (project.tasks.add(title) for title in ("First", "Second", "Third"))

    project.backlog.move(third.id, before=first.id)
    assert titles(project.tasks.list()) == ["Third", "First", "Second"]

    project.backlog.move(third.id, after=second.id)
    assert titles(project.tasks.list()) == ["First", "Second", "Third"]
    assert project.backlog.move(third.id, after=second.id) == []


def test_only_pending_tasks_have_an_order(project: Project) -> None:
    task, done = project.tasks.add("To do"), project.tasks.add("Done")
    project.tasks.done(done.id)

    for place, code in (({"before": done.id}, "not-pending"), ({}, "missing-place"), ({"after": "t-0"}, "not-found")):
        with pytest.raises(RalphError) as caught:
            project.backlog.move(task.id, **place)
        assert caught.value.code.endswith(code)


def test_a_task_is_split_into_parts_that_can_follow_one_another(project: Project) -> None:
    feature = project.features.add("Import")
    task = project.tasks.add("Import bank statements", priority=4, feature=feature.id)

    read, store = project.backlog.split(task.id, ["Read  MT940", "", "Store bookings"], in_order=True)

    assert (read.title, read.priority, read.parent_id, read.feature_id) == ("Read MT940", 4, task.id, feature.id)
    assert store.needs == (read.id,)
    assert titles(project.tasks.list(ready=True)) == ["Read MT940"]
    for part in (read, store):
        project.tasks.done(part.id)
    assert project.tasks.get(task.id).task.status is TaskStatus.DONE


def test_what_is_done_or_without_titles_is_not_split(project: Project) -> None:
    task = project.tasks.add("Import bank statements")
    with pytest.raises(RalphError, match="parts") as caught:
        project.backlog.split(task.id, [" ", ""])
    assert caught.value.code == "invalid-parts"

    project.tasks.done(task.id)
    with pytest.raises(RalphError) as caught:
        project.backlog.split(task.id, ["Read MT940"])
    assert caught.value.code == "not-splittable"
    assert len(project.tasks.list()) == 1
