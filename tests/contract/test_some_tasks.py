"""Who wants to know a little about many tasks does not get all of them."""

from __future__ import annotations

import pytest

from ralph.core.errors import NotFoundError, TaskCycleError
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.store import Store
from ralph.store.task_table import IDS_PER_STATEMENT
from ralph.store.tasks import TaskDraft
from tests.make import a_report, begin, finish


def add(store: Store, title: str, status: TaskStatus = TaskStatus.PENDING, **links: object) -> str:
    return store.tasks.add(TaskDraft(title=title, status=status, **links)).id  # type: ignore[arg-type]


def test_titles_are_given_of_the_tasks_that_are_there(store: Store) -> None:
    one, other = add(store, "One"), add(store, "Other")

    assert store.tasks.titles([one, None, other, "t-gone", "\0", one]) == {one: "One", other: "Other"}
    assert store.tasks.titles([]) == {}


def test_more_tasks_than_a_statement_takes_are_all_given(store: Store) -> None:
    new = [TaskDraft(title=f"Task {number}") for number in range(IDS_PER_STATEMENT + 3)]
    ids = [task.id for task in store.tasks.add_all(new)]

    assert (
        len(store.tasks.titles(ids))
        == len(store.tasks.get_many(ids))
        == len(store.tasks.progress.filter_ready(ids))
        == IDS_PER_STATEMENT + 3
    )


def test_some_tasks_are_given_with_what_they_need(store: Store) -> None:
    first = add(store, "First")
    then = add(store, "Then", needs=(first,))

    found = store.tasks.get_many([then, "t-gone"])

    assert found == {then: store.tasks.get(then)}
    assert found[then].needs == (first,)


def test_which_of_some_could_start_is_what_a_claim_would_take(store: Store) -> None:
    first = add(store, "First")
    waits = add(store, "Waits", needs=(first,))
    whole = add(store, "Whole")
    part = add(store, "Part", parent_id=whole)
    done = add(store, "Done", TaskStatus.DONE)
    everything = [first, waits, whole, part, done, "t-gone"]

    assert (
        store.tasks.progress.filter_ready(everything)
        == {first, part}
        == {task.id for task in store.tasks.progress.ready()}
    )
    assert store.tasks.progress.count_ready() == 2
    assert [task.id for task, _ in store.tasks.page(10, ready=False)] == [waits, whole]
    assert [task.id for task in store.tasks.progress.ready(1)] == [first]


def test_tasks_are_counted_by_feature_and_status(store: Store) -> None:
    login, search = store.features.add("Login").id, store.features.add("Search").id
    add(store, "A", feature_id=login)
    add(store, "B", TaskStatus.DONE, feature_id=login)
    add(store, "C", TaskStatus.DONE, feature_id=login)
    add(store, "D", feature_id=search, needs=(add(store, "E"),))

    counts = store.tasks.progress.counts_by_feature()

    assert counts == {login: {TaskStatus.PENDING: 1, TaskStatus.DONE: 2}, search: {TaskStatus.PENDING: 1}}
    assert (store.tasks.progress.count_ready(login), store.tasks.progress.count_ready(search)) == (1, 0)


def test_in_a_status_only_parts_are_counted_not_their_whole(store: Store) -> None:
    whole = add(store, "Whole")
    parts = [add(store, f"Part {number}", TaskStatus.FAILED, parent_id=whole) for number in range(3)]

    assert store.tasks.get(whole).status is TaskStatus.FAILED
    assert store.tasks.progress.count_with_status(TaskStatus.FAILED) == 3
    assert [task.id for task in store.tasks.progress.with_status(TaskStatus.FAILED, 2)] == parts[:2]
    assert [task.id for task in store.tasks.graph.subtasks(whole)] == parts


def test_all_that_a_task_needs_is_set_together_with_what_it_says(store: Store) -> None:
    one, other = add(store, "One"), add(store, "Other")
    task = add(store, "Task", needs=(one,))

    changed = store.tasks.update(task, title="Other title", needs=[other, other])

    assert (changed.title, changed.needs) == ("Other title", (other,))
    assert store.tasks.update(task, needs=[]).needs == ()
    assert store.tasks.update(task, body="x").needs == ()


def test_when_what_it_would_need_is_refused_nothing_of_the_change_is_made(store: Store) -> None:
    task = add(store, "Task")
    waits = add(store, "Waits", needs=(task,))

    for needs, refusal in (([waits], TaskCycleError), (["t-gone"], NotFoundError)):
        with pytest.raises(refusal):
            store.tasks.update(task, title="Changed", priority=7, needs=needs)

    assert store.tasks.get(task) == store.tasks.get_many([task])[task]
    assert (store.tasks.get(task).title, store.tasks.get(task).priority, store.tasks.get(task).needs) == ("Task", 0, ())


def test_the_tasks_in_most_trouble_come_first_and_all_are_counted(store: Store) -> None:
    ids = [add(store, f"Task {number}", priority=-number) for number in range(3)]
    run = store.runs.start("test")
    for failures in (3, 2, 1):
        for _ in range(failures):
            task, attempt = begin(store, run.id)
            finish(store, task, attempt, AttemptOutcome.FAILED, report=a_report(attempt))
        store.tasks.update(task.id, priority=-10 * failures)

    worst, count = store.stats.failing_tasks(2)

    assert ([one.task_id for one in worst], count) == (ids[:2], 3)
    assert [one.failures_since_reset for one in worst] == [3, 2]
    store.tasks.set_status(ids[0], TaskStatus.PENDING, tuple(TaskStatus))
    assert store.stats.failing_tasks()[1] == 2
