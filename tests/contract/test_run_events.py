"""What happens in runs and to tasks can be followed, by number, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ralph.core.errors import ClaimLostError, RalphError
from ralph.core.records import AttemptOutcome, RunEvent, SubtaskSigil, TaskStatus
from ralph.loop.options import RunOptions
from ralph.project import Project
from ralph.store import Store, run_events
from ralph.store.database import RUN_FEED
from ralph.store.run_events import MAX_TASK_EVENTS
from ralph.store.tasks import TaskDraft
from tests.make import begin, finish

DONE = 'echo "<task-done>$RALPH_TASK_ID</task-done>"'


def told(events: list[RunEvent]) -> list[tuple[str, str | None]]:
    return [(event.what, event.task_id) for event in events]


def since(store: Store, seq: int) -> list[RunEvent]:
    return store.events.since(seq, 1_000)


# --- a run ---------------------------------------------------------------------------------


def test_a_run_is_told_of_from_its_beginning_to_its_end(project: Project) -> None:
    first, second = project.tasks.add("First", priority=1), project.tasks.add("Second")
    before = project.runs.last_event()

    summary = project.runs.start(RunOptions(program=("sh", "-c", DONE)), lambda event: None)

    found = project.store.events.since(before, 100)
    assert told(found) == [
        ("run_started", None),
        ("attempt_started", first.id),
        ("attempt_ended", first.id),
        ("attempt_started", second.id),
        ("attempt_ended", second.id),
        ("run_ended", None),
    ]
    assert [event.iteration for event in found] == [None, 1, 1, 2, 2, None]
    assert {event.run_id for event in found} == {summary.run_id}
    assert [event.seq for event in found] == sorted({event.seq for event in found})
    assert [event.at for event in found] == sorted(event.at for event in found)
    assert project.runs.last_event() == found[-1].seq


def test_who_stopped_following_goes_on_from_the_last_number(store: Store) -> None:
    assert store.events.last_seq() == store.events.first_seq() == 0
    tasks = [store.tasks.add(TaskDraft(title=f"Task {n}")) for n in range(5)]

    seen: list[RunEvent] = []
    while more := store.events.since(seen[-1].seq if seen else 0, 2):
        assert len(more) <= 2
        seen += more

    assert told(seen) == [("task_changed", task.id) for task in tasks]
    assert seen == since(store, 0)
    assert (store.events.first_seq(), store.events.last_seq()) == (seen[0].seq, seen[-1].seq)


def test_a_run_that_goes_on_starts_once_more(store: Store) -> None:
    run = store.runs.start("test")
    store.runs.end(run.id, "it was interrupted")
    store.runs.resume(run.id, "")

    assert [(event.what, event.run_id) for event in since(store, 0)] == [
        ("run_started", run.id),
        ("run_ended", run.id),
        ("run_started", run.id),
    ]


# --- attempts ------------------------------------------------------------------------------


def test_the_end_of_an_attempt_is_visible_with_what_it_came_to(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    before = store.events.last_seq()

    with pytest.raises(ZeroDivisionError), store.transaction():
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE)
        raise ZeroDivisionError
    assert since(store, before) == []
    assert store.attempts.get(run.id, 1).outcome is None

    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE)
    assert told(since(store, before)) == [("attempt_ended", task.id)]


def test_the_attempt_of_a_vanished_worker_ends_when_its_task_is_taken_back(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id, "gone")
    store.attempts.record_start(attempt)
    before = store.events.last_seq()

    store.attempts.release_vanished({"gone"})

    assert told(since(store, before)) == [("attempt_ended", task.id)]
    assert since(store, before)[0].iteration == 1


def test_an_attempt_that_is_closed_by_the_next_claim_ends_too(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    run = store.runs.start("test")
    begin(store, run.id, "slow", lease_seconds=-1)
    before = store.events.last_seq()

    _, second = begin(store, run.id, "quick")
    store.attempts.record_start(second)

    assert [(event.what, event.iteration) for event in since(store, before)] == [
        ("task_changed", None),
        ("attempt_ended", 1),
        ("attempt_started", 2),
    ]


def test_the_end_is_told_of_an_attempt_whose_task_was_deleted_meanwhile(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    store.tasks.set_status(task.id, TaskStatus.PENDING, tuple(TaskStatus))
    store.tasks.delete(task.id)
    before = store.events.last_seq()

    with pytest.raises(ClaimLostError):
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE)

    assert told(since(store, before)) == [("attempt_ended", task.id)]


def test_a_claim_tells_nothing_because_claims_have_no_turn(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    run = store.runs.start("test")
    before = store.events.last_seq()

    begin(store, run.id)

    assert since(store, before) == []


# --- tasks ---------------------------------------------------------------------------------


def test_whatever_is_done_to_a_task_is_told(store: Store) -> None:
    parent = store.tasks.add(TaskDraft(title="Whole"))
    other = store.tasks.add(TaskDraft(title="Other"))
    feature = store.features.add("Search")
    changes: list[Callable[[], object]] = [
        lambda: store.tasks.update(other.id, title="Another"),
        lambda: store.tasks.graph.add_dependencies(other.id, [parent.id]),
        lambda: store.tasks.graph.remove_dependencies(other.id, [parent.id]),
        lambda: store.tasks.set_status(other.id, TaskStatus.BLOCKED, tuple(TaskStatus)),
        lambda: store.tasks.update(other.id, feature_id=feature.id),
        lambda: store.features.delete(feature.id),
        lambda: store.tasks.delete(other.id),
    ]

    for change in changes:
        before = store.events.last_seq()
        change()
        assert told(since(store, before)) == [("task_changed", other.id)]


def test_what_follows_for_the_tasks_above_is_told_too(store: Store) -> None:
    whole = store.tasks.add(TaskDraft(title="Whole"))
    before = store.events.last_seq()

    (part,) = store.tasks.split(whole.id, [SubtaskSigil(title="Part")])
    store.tasks.set_status(part.id, TaskStatus.DONE, tuple(TaskStatus))

    assert told(since(store, before)) == [
        ("task_changed", part.id),
        ("task_changed", whole.id),
        ("task_changed", part.id),
    ]


def test_very_many_tasks_at_once_are_one_event(store: Store) -> None:
    store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(MAX_TASK_EVENTS)])
    before = store.events.last_seq()
    store.tasks.add_all([TaskDraft(title=f"More {n}") for n in range(MAX_TASK_EVENTS + 1)])

    assert len(since(store, 0)) == MAX_TASK_EVENTS + 1
    assert told(since(store, before)) == [("task_changed", None)]


def test_what_is_refused_is_not_told(store: Store) -> None:
    task = store.tasks.add(TaskDraft(title="One"))
    before = store.events.last_seq()

    changes: list[Callable[[], object]] = [
        lambda: store.tasks.graph.add_dependencies(task.id, [task.id]),
        lambda: store.tasks.set_status(task.id, TaskStatus.DONE, ()),
        lambda: store.tasks.add(TaskDraft(title="Two", needs=("t-000000",))),
    ]
    for change in changes:
        with pytest.raises(RalphError):
            change()

    assert since(store, before) == []


# --- forgetting ----------------------------------------------------------------------------


def test_only_the_newest_events_stay_once_a_run_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "MAX_EVENTS", 10)
    run = store.runs.start("test")
    for n in range(30):
        store.tasks.add(TaskDraft(title=f"Task {n}"))
    all_of_them = since(store, 0)

    store.runs.end(run.id, "all tasks are done")

    left = since(store, 0)
    assert left[:-1] == all_of_them[-9:]
    assert left[-1].what == "run_ended"
    assert store.events.first_seq() == left[0].seq
    store.tasks.add(TaskDraft(title="Later"))
    assert store.events.last_seq() > left[-1].seq


def test_old_events_go_now_and_then_though_no_run_ever_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "MAX_EVENTS", 10)
    monkeypatch.setattr(run_events, "TRIM_EVERY", 7)
    for n in range(60):
        store.tasks.add(TaskDraft(title=f"Task {n}"))
    store.tasks.add_all([TaskDraft(title=f"At once {n}") for n in range(8)])

    left = since(store, 0)

    assert 10 <= len(left) < 10 + 7
    assert left[-1].seq == store.events.last_seq()


def test_who_comes_from_before_the_oldest_event_may_have_missed_some(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_events, "MAX_EVENTS", 10)
    for n in range(15):
        store.tasks.add(TaskDraft(title=f"Task {n}"))
    seen = since(store, 0)
    assert not store.events.has_gap(seen[0].seq)

    store.events.trim()

    oldest = store.events.first_seq()
    assert oldest == seen[-10].seq
    assert store.events.has_gap(0)
    assert store.events.has_gap(seen[0].seq)
    assert not store.events.has_gap(oldest - 1)
    assert not store.events.has_gap(oldest)


def test_nothing_is_missed_where_others_of_the_database_had_events_before(project: Project) -> None:
    for n in range(3):
        project.tasks.add(f"Task {n}")
    other = project.store.for_project(project.store.projects.add("other").id)
    other.tasks.add(TaskDraft(title="Theirs"))

    assert other.events.first_seq() > 3
    assert not other.events.has_gap(0)


def test_numbers_are_not_given_again_when_all_was_forgotten(store: Store) -> None:
    store.tasks.add(TaskDraft(title="One"))
    seen = store.events.last_seq()
    store.scope.execute("DELETE FROM run_events WHERE project_id = :project_id")

    store.tasks.add(TaskDraft(title="Two"))

    assert store.events.last_seq() > seen


def test_each_project_has_its_own_events_and_they_go_with_it(store: Store) -> None:
    other = store.for_project(store.projects.add("other").id)
    store.tasks.add(TaskDraft(title="Here"))
    there = other.tasks.add(TaskDraft(title="There"))

    assert told(since(other, 0)) == [("task_changed", there.id)]
    store.projects.remove(other.project_id)
    assert since(other, 0) == []
    assert len(since(store, 0)) == 1


# --- who follows ---------------------------------------------------------------------------


def test_who_watches_is_woken(store: Store, open_again: Callable[[], Store]) -> None:
    watch = store.watch(RUN_FEED)
    watch.wait(0.1)
    other = open_again()

    other.tasks.add(TaskDraft(title="From elsewhere"))

    assert watch.wait(10.0)
    watch.close()
    other.close()


def test_who_follows_two_writers_misses_nothing(open_again: Callable[[], Store]) -> None:
    each, writers = 60, 2
    ended = threading.Event()
    seen: list[RunEvent] = []

    def work(number: int) -> None:
        store = open_again()
        run = store.runs.start(f"writer {number}")
        for n in range(each):
            store.tasks.add(TaskDraft(title=f"Task {n} of {number}"))
            # A server skips a task that the other writer is just claiming.
            while (claimed := store.attempts.begin(run.id, f"writer {number}", 60, agent="test")) is None:
                pass
            store.attempts.record_start(claimed.attempt)
            finish(store, claimed.task, claimed.attempt, AttemptOutcome.DONE, TaskStatus.DONE)
        store.runs.end(run.id, "all tasks are done")
        store.close()

    def follow() -> None:
        store = open_again()
        while True:
            is_last = ended.is_set()
            while more := store.events.since(seen[-1].seq if seen else 0, 7):
                seen.extend(more)
            if is_last:
                break
        store.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    follower = threading.Thread(target=follow)
    follower.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    follower.join()

    store = open_again()
    assert seen == since(store, 0)
    assert len(seen) == writers * (2 + 3 * each)
    for run in store.runs.latest(writers):
        steps = [(event.what, event.iteration) for event in seen if event.run_id == run.id]
        attempts = [(what, n) for n in range(1, each + 1) for what in ("attempt_started", "attempt_ended")]
        assert steps == [("run_started", None), *attempts, ("run_ended", None)]
    store.close()
