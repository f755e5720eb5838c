"""What attempts add up to is always the same, however much of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.core.records import Attempt, AttemptOutcome, TaskStatus, now, replace
from ralph.store import Store, aggregates, create_store, open_database, open_store
from ralph.store.maintenance.copy import copy_project, replace_rows
from ralph.store.rows import to_columns
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, begin, finish, remember

MODELS = ("haiku", "sonnet", None)
OUTCOMES = (
    AttemptOutcome.DONE,
    AttemptOutcome.FAILED,
    AttemptOutcome.RETRIED,
    AttemptOutcome.INTERRUPTED,
    AttemptOutcome.ERROR,
)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few attempts be many."""
    monkeypatch.setattr(aggregates, "UNSUMMED_TAIL", 10)
    monkeypatch.setattr(aggregates, "MIN_BATCH", 10)


def attempt(store: Store, count: int, tasks: int = 5, **fields: object) -> str:
    """Add attempts of all sorts at some tasks, in a run of their own; give its id."""
    known = store.tasks.all() or store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(tasks)])
    run = store.attempts.start_run("test")
    numbers = {task.id: store.attempts.metrics(task.id).total_attempts for task in known}
    with store.transaction():
        for n in range(count):
            task = known[n % len(known)]
            numbers[task.id] += 1
            one = Attempt(
                run_id=run.id,
                iteration=n + 1,
                task_id=task.id,
                number=numbers[task.id],
                model=MODELS[n % 3],
                outcome=OUTCOMES[n % 5],
                handed_to="planner" if n % 10 == 0 else "",
                task_kind="feature" if n % 2 else "bug-fix",
                with_memory=bool(n % 4),
                seconds=1.5,
                cost_usd=0.25,
                tokens_in=100 if n % 7 else None,
                tokens_out=10,
                started_at=now(),
                ended_at=now(),
            )
            store.scope.insert("attempts", **to_columns(replace(one, **fields)))
    return run.id


def counted(store: Store, **wanted: object) -> list[tuple[object, ...]]:
    """Count the attempts by model and outcome one by one."""
    groups: dict[tuple[str, str], list[Attempt]] = {}
    for one in store.attempts.latest(10_000):
        if all(getattr(one, name) == value for name, value in wanted.items()):
            groups.setdefault((one.model or "", one.outcome or ""), []).append(one)
    return sorted(
        (*key, len(some), sum(one.seconds for one in some), sum(one.tokens_in or 0 for one in some))
        for key, some in groups.items()
    )


def summed(store: Store, **wanted: str | int) -> list[tuple[object, ...]]:
    return [
        (row["model"], row["outcome"], row["attempts"], row["seconds"], row["tokens_in"])
        for row in store.sums.group_by("model", "outcome", **wanted)
    ]


def kept(store: Store) -> int:
    """Give how many attempts are in the sums that are kept."""
    rows = store.scope.query("SELECT SUM(attempts) AS n FROM attempt_sums WHERE project_id = :project_id")
    return int(rows[0]["n"] or 0)


# --- the same ----------------------------------------------------------------------------


def test_sums_are_the_same_before_and_after_they_are_kept(store: Store) -> None:
    attempt(store, 60)
    before = summed(store), store.attempts.totals()

    is_done = store.sums.refresh()

    assert is_done
    assert kept(store) == 50
    assert (summed(store), store.attempts.totals()) == before
    assert summed(store) == counted(store)


def test_later_attempts_are_added_to_what_is_kept(store: Store) -> None:
    for _ in range(4):
        attempt(store, 37)
        store.sums.refresh()

        assert summed(store) == counted(store)
        assert summed(store, task_kind="feature", with_memory=1) == counted(
            store, task_kind="feature", with_memory=True
        )
    assert kept(store) == 4 * 37 - 10


def test_one_sum_can_be_asked_for_of_all(store: Store) -> None:
    assert store.sums.group_by() == []

    attempt(store, 45)
    store.sums.refresh()

    assert store.sums.group_by() == [
        {"attempts": 45, "seconds": 67.5, "cost_usd": 11.25, "tokens_in": 3800, "tokens_out": 450}
    ]


def test_what_cannot_be_asked_for_is_refused(store: Store) -> None:
    with pytest.raises(AssertionError):
        store.sums.group_by("notes")


def test_a_hand_over_got_nothing_done_yet(store: Store) -> None:
    attempt(store, 20, outcome=AttemptOutcome.DONE, handed_to="")
    attempt(store, 20, outcome=AttemptOutcome.DONE, handed_to="planner")
    store.sums.refresh()

    totals = store.attempts.totals()

    assert (totals["attempts"], totals["done"], totals["failed"]) == (40, 20, 0)


# --- when ----------------------------------------------------------------------------------


def test_few_attempts_are_not_worth_to_be_kept(store: Store) -> None:
    attempt(store, 19)
    few = store.sums.refresh()
    attempt(store, 1)
    enough = store.sums.refresh()
    again = store.sums.refresh()

    assert (few, enough, again) == (False, True, False)
    assert kept(store) == 10


def test_an_attempt_that_runs_and_all_after_it_wait(store: Store) -> None:
    attempt(store, 20)
    open_run = store.attempts.start_run("test")
    task, running = begin(store, open_run.id)
    attempt(store, 40)

    store.sums.refresh()

    assert kept(store) == 20
    assert summed(store) == counted(store)
    finish(store, task, running, AttemptOutcome.DONE, TaskStatus.DONE, cost_usd=1.0)
    assert store.sums.refresh()
    assert kept(store) == 51
    assert summed(store) == counted(store)


def test_the_end_of_a_run_keeps_the_sums(store: Store) -> None:
    run = attempt(store, 30)

    store.attempts.end_run(run, "all tasks are done")

    assert kept(store) == 20


# --- what changes ---------------------------------------------------------------------------


def test_a_deleted_task_takes_its_attempts_out_of_the_sums(store: Store) -> None:
    attempt(store, 60)
    store.sums.refresh()

    store.tasks.delete(store.tasks.all()[0].id)

    assert summed(store) == counted(store)
    assert store.attempts.totals()["attempts"] == 48
    assert store.sums.refresh()
    assert summed(store) == counted(store)


def test_an_attempt_that_changes_after_it_was_summed_is_summed_anew(store: Store) -> None:
    attempt(store, 40)
    store.sums.refresh()
    first, last = store.attempts.latest(40)[-1], store.attempts.latest(1)[0]

    store.sums.attempt_changed(last.run_id, last.iteration)
    untouched = kept(store)
    with store.transaction():
        key = {"run_id": first.run_id, "iteration": first.iteration}
        store.scope.update("attempts", key, to_columns(replace(first, model="opus", seconds=99.0)))
        store.sums.attempt_changed(first.run_id, first.iteration)

    assert untouched == 30
    assert kept(store) == 0
    assert summed(store) == counted(store)


def test_projects_do_not_share_sums(store: Store) -> None:
    other = store.for_project(store.projects.add("other").id)
    attempt(store, 60)
    store.sums.refresh()
    attempt(other, 30)
    other.sums.refresh()

    assert store.attempts.totals()["attempts"] == 60
    assert other.attempts.totals()["attempts"] == 30
    other.sums.discard()
    assert kept(store) == 50


# --- copies ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    opened = create_store(str(tmp_path / "file.db"), "tests")
    yield opened
    opened.close()


def test_a_copy_works_its_sums_out_for_itself(file: Store, tmp_path: Path) -> None:
    attempt(file, 60)
    file.sums.refresh()
    there = open_database(str(tmp_path / "copy.db"), create=True)

    copy_project(file.database, "tests", there)
    there.close()
    copied = open_store(str(tmp_path / "copy.db"))

    assert kept(copied) == 0
    assert summed(copied) == summed(file)
    copied.close()


def test_what_is_put_in_the_place_of_a_project_brings_its_own_sums(file: Store, store: Store) -> None:
    attempt(file, 25)
    attempt(store, 60)
    store.sums.refresh()

    replace_rows(file.scope, store.scope)

    assert store.attempts.totals()["attempts"] == 25
    assert summed(store) == summed(file)


# --- runs, trials, memories -----------------------------------------------------------------------


def test_runs_are_summed_one_by_one(store: Store) -> None:
    oldest, newest = attempt(store, 10), attempt(store, 20)

    found = store.sums.by_run([newest, oldest])

    assert {run: row["attempts"] for run, row in found.items()} == {newest: 20, oldest: 10}
    assert (found[oldest]["done"], found[oldest]["failed"], found[oldest]["tokens_out"]) == (1, 6, 100)
    assert store.sums.by_run([]) == {}


def test_only_what_chance_decided_about_is_a_trial(store: Store) -> None:
    attempt(store, 10)
    attempt(store, 10, holdout=0.2)

    trials = store.sums.holdout_trials()

    assert len(trials) == 8  # two were interrupted
    assert {trial.holdout for trial in trials} == {0.2}
    assert [trial.done for trial in trials if not trial.is_handover].count(True) == 1
    assert [trial.tokens for trial in trials][:2] == [10, 110]


def test_memories_are_summed_by_kind_and_hour_and_ranked_by_their_outcomes(store: Store) -> None:
    for n, (kind, wins, losses) in enumerate([("fix", 9, 0), ("fix", 1, 0), ("pitfall", 0, 4), ("pitfall", 3, 3)]):
        at = f"2026-01-01T0{n // 2}:00:00.000Z"
        remember(store, a_memory(f"Fact {n}", f"Body {n}", kind=kind, uses=9, wins=wins, losses=losses, created_at=at))

    kinds, hours = store.sums.memories_by_kind(), store.sums.memories_by_hour()

    assert [(row["kind"], row["memories"], row["shown"], row["wins"], row["losses"]) for row in kinds] == [
        ("fix", 2, 18, 10, 0),
        ("pitfall", 2, 18, 3, 7),
    ]
    assert [(row["hour"], row["memories"]) for row in hours] == [("2026-01-01T00", 2), ("2026-01-01T01", 2)]
    assert [row["title"] for row in store.sums.memories_by_success(5, helped=True)] == ["Fact 0", "Fact 1"]
    assert [row["title"] for row in store.sums.memories_by_success(5, helped=False)] == ["Fact 2"]


def test_reading_does_not_sum(store: Store, open_again: Callable[[], Store]) -> None:
    attempt(store, 60)

    store.sums.group_by("model")
    store.attempts.totals()

    other = open_again()
    assert kept(other) == 0
    other.close()


def test_tasks_are_counted_the_same_before_and_after_the_sums_are_kept(store: Store) -> None:
    attempt(store, 60, tasks=12)
    first, second, third, *_ = [task.id for task in store.tasks.all()]
    for id in (first, second):
        store.tasks.set_status(id, TaskStatus.DONE, TaskStatus)
    before = store.tasks.counts()

    store.sums.refresh()

    assert store.tasks.counts() == before == {TaskStatus.DONE: 2, TaskStatus.PENDING: 10}
    store.tasks.add(TaskDraft(title="Later"))
    store.tasks.set_status(third, TaskStatus.BLOCKED, TaskStatus)
    store.tasks.set_status(first, TaskStatus.PENDING, TaskStatus)
    assert store.tasks.counts() == {TaskStatus.BLOCKED: 1, TaskStatus.DONE: 1, TaskStatus.PENDING: 11}
    store.tasks.delete(second)
    assert store.tasks.counts() == {TaskStatus.BLOCKED: 1, TaskStatus.PENDING: 11}
