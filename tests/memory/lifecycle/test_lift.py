"""What memory brings, measured on worlds where that is known."""

from __future__ import annotations

import math
import random

import pytest

from ralph.memory.lifecycle.lift import Lift, LiftVerdict, Trial, measure_lift

WORLDS = 300


def a_world(
    seed: int, *, tasks: int = 120, holdout: float = 0.25, helps_by: float = 0.0, spares: float = 0.0, ease: float = 2.0
) -> list[Trial]:
    """Return attempts at tasks of different difficulty, each tried until it is done or given up.

    With memory an attempt is done more often by `helps_by`, and takes a share of `spares` fewer tokens.
    """
    chance = random.Random(seed)
    trials = []
    for task in range(tasks):
        easy = chance.betavariate(ease, 2)
        size = chance.lognormvariate(9, 0.5)
        for _ in range(6):
            with_memory = chance.random() >= holdout
            done = chance.random() < easy + helps_by * with_memory
            tokens = int(size * (1.5 - easy) * chance.lognormvariate(0, 0.6) * (1 - spares * with_memory))
            trials.append(
                Trial(
                    task_id=f"t-{task:06x}",
                    with_memory=with_memory,
                    holdout=holdout,
                    done=done,
                    tokens=tokens,
                    cost_usd=tokens / 1e5,
                )
            )
            if done:
                break
    return trials


def some(count: int, *, with_memory: bool, done: int, holdout: float = 0.1, start: int = 0) -> list[Trial]:
    return [
        Trial(task_id=f"t-{start + n:06x}", with_memory=with_memory, holdout=holdout, done=n < done)
        for n in range(count)
    ]


def share_of_zero(worlds: list[Lift], name: str) -> float:
    """Return how often no difference was inside the interval of a measure, in percent."""
    found = [one for world in worlds for one in world.measures if one.name == name]
    assert len(found) > 0.9 * WORLDS
    return 100 * sum(one.low <= 0 <= one.high for one in found) / len(found)


# --- worlds -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "holdout", "ease"), [(120, 0.25, 2.0), (60, 0.5, 1.0), (250, 0.1, 2.0), (300, 0.1, 12.0)]
)
def test_where_memory_does_nothing_the_interval_says_so_about_95_times_in_100(
    tasks: int, holdout: float, ease: float
) -> None:
    worlds = [measure_lift(a_world(seed, tasks=tasks, holdout=holdout, ease=ease)) for seed in range(WORLDS)]

    for name in ("success", "attempts per done task", "tokens per done task", "cost per done task"):
        assert 91 <= share_of_zero(worlds, name) <= 98, name


def test_where_memory_does_nothing_no_difference_is_seen() -> None:
    found = measure_lift(a_world(1, tasks=400))

    assert found.is_enough
    assert found.verdict is LiftVerdict.NO_DIFFERENCE
    assert found.says.startswith("No measurable difference yet: ")


def test_a_real_effect_is_found() -> None:
    found = [measure_lift(a_world(seed, tasks=400, helps_by=0.2, spares=0.3)) for seed in range(20)]

    assert all(one.verdict is LiftVerdict.HELPS for one in found)
    assert all(one.measures[2].is_certain and one.measures[2].difference < 0 for one in found)
    assert "Memory helps: " in found[0].says
    assert "% fewer tokens." in found[0].says


def test_harm_is_found_too() -> None:
    found = measure_lift(a_world(3, tasks=400, helps_by=-0.2))

    assert found.verdict is LiftVerdict.HARMS
    assert found.says.startswith("Memory hurts: ")


def test_the_interval_holds_the_true_effect_about_95_times_in_100() -> None:
    # Every task is as easy as every other one, so the truth is known.
    chance = random.Random(7)

    def world() -> Lift:
        sides = [(task, chance.random() >= 0.2) for task in range(60) for _ in range(3)]
        return measure_lift(
            [
                Trial(task_id=f"t-{task}", with_memory=side, holdout=0.2, done=chance.random() < (0.7 if side else 0.5))
                for task, side in sides
            ]
        )

    held = [one.low <= 20 <= one.high for one in (world().measures[0] for _ in range(WORLDS))]

    assert 91 <= 100 * sum(held) / WORLDS <= 98


def test_attempts_at_one_task_are_not_counted_as_if_they_were_of_many() -> None:
    one_each = [
        *some(40, with_memory=True, done=30, holdout=0.5),
        *some(40, with_memory=False, done=20, holdout=0.5, start=40),
    ]
    # The same attempts four times over tell nothing new.
    repeated = [trial for trial in one_each for _ in range(4)]

    narrow, wide = measure_lift(one_each).measures[0], measure_lift(repeated).measures[0]

    assert narrow.difference == pytest.approx(wide.difference)
    assert wide.high - wide.low == pytest.approx(narrow.high - narrow.low, rel=0.1)


def test_runs_with_different_shares_are_put_together() -> None:
    # Easy tasks ran with a small holdout, hard ones with a large one: unweighted, memory would seem to help.
    easy = a_world(5, tasks=2000, holdout=0.1, ease=8.0)
    hard = [one._replace(task_id="hard " + one.task_id) for one in a_world(6, tasks=2000, holdout=0.8, ease=0.5)]

    found = measure_lift([*easy, *hard])

    assert found.verdict is LiftVerdict.NO_DIFFERENCE
    assert abs(found.measures[0].difference) < 4


def test_an_arm_in_which_all_went_well_is_not_taken_for_certain() -> None:
    found = measure_lift([*some(200, with_memory=True, done=190), *some(20, with_memory=False, done=20, start=200)])

    assert found.verdict is LiftVerdict.NO_DIFFERENCE
    assert found.measures[0].high - found.measures[0].low > 5


def test_a_hand_over_is_no_failure_but_costs_what_it_costs() -> None:
    trials = a_world(9)
    handed = [one._replace(done=False, is_handover=True) for one in trials]

    alone, both = measure_lift(trials), measure_lift([*trials, *handed])

    assert both.measures[0].with_memory == pytest.approx(alone.measures[0].with_memory)
    assert both.measures[2].with_memory == pytest.approx(2 * alone.measures[2].with_memory)


def test_what_nobody_told_is_left_out() -> None:
    found = measure_lift([one._replace(tokens=0, cost_usd=0.0) for one in a_world(2)])

    assert [one.name for one in found.measures] == ["success", "attempts per done task"]


# --- not enough --------------------------------------------------------------------------


def test_attempts_that_chance_had_no_say_in_do_not_count() -> None:
    trials = [one._replace(holdout=share) for one in a_world(1) for share in (0.0, 1.0, math.nan)]

    found = measure_lift(trials)

    assert not found.is_enough
    assert found.with_memory.attempts == found.without.attempts == 0
    assert "ralph run --holdout 0.1" in found.says


@pytest.mark.parametrize(
    "trials",
    [
        [*some(30, with_memory=True, done=20), *some(3, with_memory=False, done=1, start=30)],
        [*some(200, with_memory=True, done=4), *some(40, with_memory=False, done=1, start=200)],
    ],
    ids=["few attempts", "few completed tasks"],
)
def test_too_little_data_gives_no_verdict(trials: list[Trial]) -> None:
    found = measure_lift(trials)

    assert (found.verdict, found.is_enough, found.measures) == (LiftVerdict.NOT_ENOUGH, False, ())


def test_an_arm_that_completed_nothing_is_still_compared() -> None:
    found = measure_lift([*some(34, with_memory=True, done=34), *some(32, with_memory=False, done=0, start=34)])

    assert found.verdict is LiftVerdict.HELPS
    (success,) = found.measures
    assert (success.with_memory, success.without, success.high) == pytest.approx((100.0, 0.0, 100.0))
    assert 80 < success.low < 100


# --- shown -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (
            0,
            "Memories were in the prompt of none of 30 attempts with memory enabled, "
            "so they could make little difference.",
        ),
        (
            5,
            "Memories were in the prompt of only 5 of 30 attempts with memory enabled (17%), "
            "so they could make little difference.",
        ),
        (6, "Memories were in the prompt of 6 of 30 attempts with memory enabled."),
    ],
)
def test_how_often_memories_were_really_shown_is_said(shown: int, says: str) -> None:
    with_memory = some(30, with_memory=True, done=20)
    without = [one._replace(is_shown=True) for one in some(9, with_memory=False, done=1, start=30)]

    found = measure_lift([*(one._replace(is_shown=n < shown) for n, one in enumerate(with_memory)), *without])

    assert (found.shown, found.shown_says) == (shown, says)
    assert found.has_low_exposure is (shown < 6)
    assert found.summary == (f"{found.says} {says}" if shown < 6 else found.says)


def test_without_attempts_nothing_is_said_about_what_they_were_shown() -> None:
    found = measure_lift([])

    assert (found.shown, found.shown_says, found.summary) == (0, "", found.says)
