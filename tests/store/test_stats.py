"""Sums over attempts and memories."""

from __future__ import annotations

import pytest

from ralph.core.records import Attempt, AttemptOutcome, TaskStatus, now, replace
from ralph.store import Store
from ralph.store.rows import to_columns
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, remember

MODELS = ("haiku", "sonnet", None)
OUTCOMES = (
    AttemptOutcome.DONE,
    AttemptOutcome.FAILED,
    AttemptOutcome.RETRIED,
    AttemptOutcome.INTERRUPTED,
    AttemptOutcome.ERROR,
)


def attempt(store: Store, count: int, tasks: int = 5, **fields: object) -> str:
    """Add attempts of all sorts at some tasks, in a run of their own; give its id."""
    known = store.tasks.all() or store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(tasks)])
    run = store.runs.start("test")
    numbers = {task.id: store.stats.metrics(task.id).total_attempts for task in known}
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
        for row in store.stats.group_by("model", "outcome", **wanted)
    ]


def test_attempts_are_summed_by_model_and_outcome(store: Store) -> None:
    attempt(store, 60)

    assert summed(store) == counted(store)
    assert summed(store, task_kind="feature", with_memory=1) == counted(store, task_kind="feature", with_memory=True)


def test_one_sum_can_be_asked_for_of_all(store: Store) -> None:
    assert store.stats.group_by() == []

    attempt(store, 45)

    assert store.stats.group_by() == [
        {"attempts": 45, "seconds": 67.5, "cost_usd": 11.25, "tokens_in": 3800, "tokens_out": 450}
    ]


def test_what_cannot_be_asked_for_is_refused(store: Store) -> None:
    with pytest.raises(AssertionError):
        store.stats.group_by("notes")


def test_a_hand_over_got_nothing_done_yet(store: Store) -> None:
    attempt(store, 20, outcome=AttemptOutcome.DONE, handed_to="")
    attempt(store, 20, outcome=AttemptOutcome.DONE, handed_to="planner")

    totals = store.stats.totals()

    assert (totals["attempts"], totals["done"], totals["failed"]) == (40, 20, 0)


def test_a_deleted_task_takes_its_attempts_out_of_the_sums(store: Store) -> None:
    attempt(store, 60)

    store.tasks.delete(store.tasks.all()[0].id)

    assert summed(store) == counted(store)
    assert store.stats.totals()["attempts"] == 48


def test_projects_do_not_share_sums(store: Store) -> None:
    other = store.for_project(store.projects.add("other").id)
    attempt(store, 60)
    attempt(other, 30)

    assert store.stats.totals()["attempts"] == 60
    assert other.stats.totals()["attempts"] == 30


def test_runs_are_summed_one_by_one(store: Store) -> None:
    oldest, newest = attempt(store, 10), attempt(store, 20)

    found = store.stats.by_run([newest, oldest])

    assert {run: row["attempts"] for run, row in found.items()} == {newest: 20, oldest: 10}
    assert (found[oldest]["done"], found[oldest]["failed"], found[oldest]["tokens_out"]) == (1, 6, 100)
    assert store.stats.by_run([]) == {}


def test_only_what_chance_decided_about_is_a_trial(store: Store) -> None:
    attempt(store, 10)
    attempt(store, 10, holdout=0.2)

    trials = store.stats.holdout_trials()

    assert len(trials) == 8  # two were interrupted
    assert {trial.holdout for trial in trials} == {0.2}
    assert [trial.done for trial in trials if not trial.is_handover].count(True) == 1
    assert [trial.tokens for trial in trials][:2] == [10, 110]


def test_memories_are_summed_by_kind_and_hour_and_ranked_by_their_outcomes(store: Store) -> None:
    for n, (kind, wins, losses) in enumerate([("fix", 9, 0), ("fix", 1, 0), ("pitfall", 0, 4), ("pitfall", 3, 3)]):
        at = f"2026-01-01T0{n // 2}:00:00.000Z"
        remember(store, a_memory(f"Fact {n}", f"Body {n}", kind=kind, uses=9, wins=wins, losses=losses, created_at=at))

    kinds, hours = store.memories.stats.by_kind(), store.memories.stats.by_hour()

    assert [(row["kind"], row["memories"], row["shown"], row["wins"], row["losses"]) for row in kinds] == [
        ("fix", 2, 18, 10, 0),
        ("pitfall", 2, 18, 3, 7),
    ]
    assert [(row["hour"], row["memories"]) for row in hours] == [("2026-01-01T00", 2), ("2026-01-01T01", 2)]
    assert [row["title"] for row in store.memories.stats.by_success(5, helped=True)] == ["Fact 0", "Fact 1"]
    assert [row["title"] for row in store.memories.stats.by_success(5, helped=False)] == ["Fact 2"]


def test_tasks_are_counted_by_status(store: Store) -> None:
    attempt(store, 60, tasks=12)
    first, second, third, *_ = [task.id for task in store.tasks.all()]
    for id in (first, second):
        store.tasks.set_status(id, TaskStatus.DONE, TaskStatus)

    assert store.tasks.progress.counts() == {TaskStatus.DONE: 2, TaskStatus.PENDING: 10}
    store.tasks.add(TaskDraft(title="Later"))
    store.tasks.set_status(third, TaskStatus.BLOCKED, TaskStatus)
    store.tasks.set_status(first, TaskStatus.PENDING, TaskStatus)
    assert store.tasks.progress.counts() == {TaskStatus.BLOCKED: 1, TaskStatus.DONE: 1, TaskStatus.PENDING: 11}
    store.tasks.delete(second)
    assert store.tasks.progress.counts() == {TaskStatus.BLOCKED: 1, TaskStatus.PENDING: 11}


def test_the_metrics_of_a_task_are_those_of_the_view(store: Store) -> None:
    attempt(store, 43)
    reset = store.tasks.all()[1]
    store.scope.execute("UPDATE tasks SET reset_after = 6 WHERE project_id = :project_id AND id = :id", id=reset.id)
    store.tasks.add_all([TaskDraft(title="Not tried")])

    for row in store.scope.query("SELECT * FROM strategy_metrics WHERE project_id = :project_id"):
        metrics = store.stats.metrics(row["task_id"])
        assert [metrics.total_attempts, metrics.consecutive_failures, metrics.failures_since_reset] == [
            row["total_attempts"],
            row["consecutive_failures"],
            row["failures_since_reset"],
        ]
        assert [metrics.last_attempt_at, metrics.last_success_at, metrics.difficulty, metrics.suggested_model] == [
            row["last_attempt_at"],
            row["last_success_at"],
            row["difficulty_estimate"],
            row["suggested_model"],
        ]
