"""The loop learns to win in a small world; `python -m bench simulate` plays the large one."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.simulate import STRONGEST, Played, play
from bench.world import SHARES, World, make_world, plant, playbook_file

from ralph.agents.rehearsal import RehearsalAgent, read_playbook
from ralph.loop.options import RunOptions

TASKS = 40
THEMES = 4


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(TASKS, themes=THEMES)


@pytest.fixture(scope="module")
def escalating(world: World) -> Played:
    return play(world, "escalate")


def test_a_world_is_the_same_each_time_and_has_the_mix_it_says(world: World) -> None:
    assert make_world(TASKS, themes=THEMES) == world
    assert make_world(TASKS, seed=2, themes=THEMES) != world
    assert [world.count(level) for level in range(3)] == [round(share * TASKS) for share in SHARES]
    assert len({task.theme for task in world.tasks}) == THEMES


def test_the_playbook_of_a_world_can_be_read_as_it_is_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "playbook.toml").write_text(playbook_file(world.playbook))

    assert read_playbook(tmp_path / "playbook.toml") == world.playbook
    assert RehearsalAgent(world.playbook).accepts_model


@pytest.mark.slow
def test_memory_saves_attempts_and_money(world: World, escalating: Played) -> None:
    without = play(world, "no memory", order=RunOptions(with_memory=False)).tally

    assert escalating.tally.done == without.done == TASKS
    assert escalating.tally.attempts < without.attempts
    assert escalating.tally.cost_usd < without.cost_usd


@pytest.mark.slow
def test_to_escalate_is_cheaper_than_to_take_the_strongest_and_gets_as_much_done(
    world: World, escalating: Played
) -> None:
    strongest = play(world, "strongest", strategy=STRONGEST).tally

    assert set(filter(strongest.models.get, strongest.models)) == {"opus"}
    assert escalating.tally.done == strongest.done == TASKS
    assert escalating.tally.cost_usd < strongest.cost_usd


@pytest.mark.slow
def test_harmful_memories_lose_confidence_and_helpful_ones_gain(world: World) -> None:
    credited = play(plant(world), "planted").credited

    harmful, helpful = ([one for one in credited if one.is_harmful is side] for side in (True, False))
    assert harmful
    assert helpful
    assert all(one.after < one.before and one.losses > one.wins for one in harmful)
    assert all(one.after > one.before for one in helpful)
