"""Whether the loop learns to win: real runs of the rehearsal agent in a made-up world (`bench/world.py`).

Everything but the agent is the real thing, through the public surface: recall, strategy, gates, credit, holdout. The
world is the same each time; docs/simulation.md tells its rules and what came out.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from bench.measure import Table
from bench.world import (
    CONFIDENCE,
    GATE,
    GATE_SCRIPT,
    LEVELS,
    MODELS,
    THOUGHT,
    World,
    make_world,
    plant,
    playbook_file,
    tasks_file,
)
from ralph.agents.rehearsal import PLAYBOOK
from ralph.core.paging import Page
from ralph.core.records import Attempt, TaskStatus, record
from ralph.loop.options import RunOptions
from ralph.loop.stats import Stats
from ralph.loop.strategy import session_cost
from ralph.memory.lifecycle.lift import Lift
from ralph.project import Project
from ralph.workspace import init_project

TASKS = 200
SEED = 1
MAX_RETRIES = 5
HOLDOUT = 0.3
STRONGEST = "fixed"
"""With the strongest model configured, this strategy always takes it."""
STRATEGIES = (STRONGEST, "escalate", "cost-optimized", "plan-then-execute")
LONGER = (4_000, 8_000, 16_000)
"""Tokens of an attempt by level, where harder tasks also take longer."""
MOST_ATTEMPTS = 100_000


@record
class Tally:
    """What a run came to."""

    name: str
    tasks: int
    done: int
    attempts: int
    cost_usd: float
    cost_longer_usd: float
    """What the same attempts had cost if harder tasks took longer."""
    models: dict[str, int]
    """Attempts by model."""

    @property
    def attempts_each(self) -> float:
        """Attempts for each done task."""
        return self.attempts / max(self.done, 1)

    @property
    def cost_each_usd(self) -> float:
        """USD for each done task."""
        return self.cost_usd / max(self.done, 1)


@record
class Credited:
    """A planted memory after a run."""

    title: str
    is_harmful: bool
    before: float
    after: float
    wins: int
    losses: int


@record
class Played:
    """All that a run left."""

    tally: Tally
    credited: tuple[Credited, ...]
    lift: Lift


# --- playing -------------------------------------------------------------------------


def play(world: World, name: str, *, strategy: str = "escalate", order: RunOptions | None = None) -> Played:
    """Run the loop once over all tasks of a world, in a project of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ralph-simulate-") as directory:
        _write(world, Path(directory), strategy)
        with Project.open(directory) as project:
            project.tasks.import_(tasks_file(world), "tasks.jsonl")
            planted = [project.memory.add(one.body, type="pitfall", confidence=CONFIDENCE) for one in world.planted]
            random.seed(SEED)  # the holdout is drawn by chance
            project.runs.start(order or RunOptions(), on_event=lambda event: None)
            return Played(
                tally=_tally(name, world, project),
                credited=_credited(world, project, [kept.memory.id for kept in planted]),
                lift=Stats(project.store).lift(),
            )


def _write(world: World, directory: Path, strategy: str) -> None:
    """Make the project's files."""
    init_project(directory)
    agent = f"model = {json.dumps(MODELS[-1])}" if strategy == STRONGEST else ""
    settings = f"""\
[agent]
name = "rehearsal"
{agent}
[models]
strategy = {json.dumps(strategy)}
[execution]
max_retries = {MAX_RETRIES}
gates = [{json.dumps(GATE)}]
[memories]
meaning = false
"""
    (directory / ".ralph.toml").write_text(settings)
    (directory / "check.sh").write_text(GATE_SCRIPT)
    (directory / PLAYBOOK).write_text(playbook_file(world.playbook))


def _tally(name: str, world: World, project: Project) -> Tally:
    attempts = project.journal.attempts(Page(limit=MOST_ATTEMPTS))
    levels = {task.id: task.level for task in world.tasks}
    return Tally(
        name=name,
        tasks=len(world.tasks),
        done=len(project.tasks.list(status=TaskStatus.DONE)),
        attempts=len(attempts),
        cost_usd=sum(one.cost_usd for one in attempts),
        cost_longer_usd=sum(_cost_longer(project, one, levels) for one in attempts),
        models={model: sum(one.model == model for one in attempts) for model in MODELS},
    )


def _cost_longer(project: Project, attempt: Attempt, levels: Mapping[str, int]) -> float:
    """Give what an attempt had cost if harder tasks took longer; a plan takes what it takes."""
    longer = 0 if attempt.handed_to else LONGER[levels[attempt.task_id or ""]] - THOUGHT
    return attempt.cost_usd + (session_cost(project.config.models, attempt.model, 0, longer) or 0.0)


def _credited(world: World, project: Project, ids: Sequence[str]) -> tuple[Credited, ...]:
    memories = [project.memory.show(id).memory for id in ids]
    return tuple(
        Credited(
            title=memory.title,
            is_harmful=one.is_harmful,
            before=CONFIDENCE,
            after=memory.confidence,
            wins=memory.wins,
            losses=memory.losses,
        )
        for one, memory in zip(world.planted, memories, strict=True)
    )


# --- telling -------------------------------------------------------------------------


def run(table: Table) -> None:
    """Play all there is to compare, print it, and count what did not come out as it should."""
    world = make_world(TASKS, SEED)
    mix = ", ".join(f"{world.count(level)} {name}" for level, name in enumerate(LEVELS))
    trapped = sum(task.is_trapped for task in world.tasks)
    print(f"{TASKS} tasks: {mix}; {trapped} of them with a trap; at most {MAX_RETRIES} retries")
    strategies = [play(world, name, strategy=name).tally for name in STRATEGIES]
    strongest, escalating = strategies[:2]
    without = play(world, "escalate, no memory", order=RunOptions(with_memory=False)).tally
    _tell_tallies("Memory, with the strategy escalate", [escalating, without])
    _check(table, "fewer attempts with memory", escalating.attempts < without.attempts)
    _check(table, "lower cost with memory", escalating.cost_usd < without.cost_usd)
    _tell_tallies("Strategies, with memory", strategies)
    _check(table, "as many done by escalate as by the strongest", escalating.done >= strongest.done)
    _check(table, "escalate cheaper than the strongest", escalating.cost_usd < strongest.cost_usd)
    _tell_credit(table, world)
    _tell_lift(table)


def _tell_tallies(heading: str, tallies: Sequence[Tally]) -> None:
    print(f"\n{heading}")
    print(f"  {'':22} {'done':>5} {'attempts':>9} {'per done':>9} {'cost':>8} {'per done':>9} {'longer*':>8}  by model")
    for one in tallies:
        cost, each, longer = (f"${usd:.2f}" for usd in (one.cost_usd, one.cost_each_usd, one.cost_longer_usd))
        models = ", ".join(f"{model} {count}" for model, count in one.models.items() if count)
        print(
            f"  {one.name:22} {one.done:5} {one.attempts:9} {one.attempts_each:9.2f} {cost:>8} {each:>9} {longer:>8}"
            f"  {models}",
            flush=True,
        )
    print("  * the same attempts, if an easy task took half the tokens and a hard one twice as many")


def _tell_credit(table: Table, world: World) -> None:
    apart = play(plant(world), "apart").credited
    together = play(plant(world, together=True), "together").credited
    print(f"\nCredit of planted memories, all with confidence {CONFIDENCE} at first")
    for name, credited in (("in themes of their own", apart), ("always shown together", together)):
        for is_harmful in (False, True):
            some = [one for one in credited if one.is_harmful is is_harmful]
            print(
                f"  {'harmful' if is_harmful else 'helpful':8} {name:24} {len(some):3} memories"
                f"  confidence {mean(one.after for one in some):.2f}"
                f" ({min(one.after for one in some):.2f} to {max(one.after for one in some):.2f})"
                f"  wins {sum(one.wins for one in some)}, losses {sum(one.losses for one in some)}",
                flush=True,
            )
    harmful = [one for one in apart if one.is_harmful]
    lost = all(one.after < one.before and one.losses > one.wins for one in harmful)
    _check(table, "each harmful one lost confidence, and has more losses than wins", lost)
    gained = all(one.after > one.before for one in apart if not one.is_harmful)
    _check(table, "each helpful one gained confidence", gained)


def _tell_lift(table: Table) -> None:
    order = RunOptions(holdout=HOLDOUT)
    taught = play(make_world(TASKS, SEED), "taught", order=order).lift
    equal = play(make_world(TASKS, SEED, is_taught=False), "equal", order=order).lift
    print(f"\nLift of memory, left out of {HOLDOUT:.0%} of the attempts by chance")
    print(f"  facts matter:     {taught.says}")
    print(f"  facts are no use: {equal.says}")
    _check(table, "the lift shows where facts matter", taught.measures[0].low > 0)
    _check(table, "its interval holds 0 where they are no use", equal.measures[0].low <= 0 <= equal.measures[0].high)


def _check(table: Table, what: str, is_so: bool) -> None:
    table.missed += not is_so
    print(f"  {'met' if is_so else 'MISSED'}: {what}", flush=True)
