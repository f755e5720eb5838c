"""Results by group, and the lift of memory as it was known on each day."""

from __future__ import annotations

import pytest

from ralph.core.records import AttemptOutcome
from ralph.loop.performance import MAX_LIFT_POINTS, _lift_points, read_performance, wilson_interval
from ralph.memory.lifecycle.lift import Trial, measure_lift
from ralph.project import Project
from tests.make import begin, finish


def test_attempts_are_grouped_by_what_worked_on_them(project: Project) -> None:
    project.tasks.add("Fix the parser")
    run = project.store.runs.start("claude").id
    for outcome in (AttemptOutcome.FAILED, AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE):
        task, attempt = begin(project.store, run)
        finish(project.store, task, attempt, outcome, seconds=60.0, cost_usd=0.5)

    performance = read_performance(project.store)

    (agent,) = performance.agents
    assert (agent.attempts, agent.done, agent.failed, agent.success_rate) == (3, 1, 1, 0.5)
    assert (agent.mean_seconds, agent.cost_usd, agent.cost_per_done_usd) == (60.0, 1.5, 1.5)
    assert agent.low < 0.5 < agent.high
    assert [one.attempts for one in performance.by_type.values()] == [3]
    assert sum(one.attempts for one in performance.models) == sum(one.attempts for one in performance.task_types) == 3


@pytest.mark.storeless
@pytest.mark.parametrize(
    ("done", "attempts", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (10, 10, 0.722, 1.0)],
)
def test_intervals_are_those_of_the_textbook(done: int, attempts: int, low: float, high: float) -> None:
    assert wilson_interval(done, attempts) == pytest.approx((low, high), abs=0.001)


@pytest.mark.storeless
def test_the_last_point_is_the_lift_of_today() -> None:
    trials = [Trial(f"t-{n}", n % 2 == 0, 0.5, n % 3 > 0 or n % 2 == 0) for n in range(400)]
    days = [f"2026-01-{1 + n // 13:02}" for n in range(400)]

    points = _lift_points(trials, days)

    assert 2 < len(points) <= MAX_LIFT_POINTS
    assert [one.day for one in points] == sorted(one.day for one in points)
    success = measure_lift(trials).measures[0]
    assert (points[-1].difference, points[-1].low, points[-1].high) == (success.difference, success.low, success.high)
    assert points[0].high - points[0].low > points[-1].high - points[-1].low
    assert _lift_points(trials[:10], days[:10]) == _lift_points([], []) == ()
