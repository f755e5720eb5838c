"""A made-up project with tasks of known difficulty, and all that agents can think of for them.

Chance decides once, by the seed, which tasks there are. From then on what an attempt comes to follows from its model,
its number and its prompt alone. The rules are few, and docs/simulation.md tells them all:

- A task is easy (any model can do it), moderate (not the weakest) or hard (only the strongest). With a plan the next
  weaker model can do it too.
- Most tasks of a theme have the theme's trap, a fact about the project that nobody has written down. Who was not told
  runs into it once, the weakest model twice; the attempt that gets through says the fact. Who was told it gets through
  at once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

from ralph.agents.rehearsal import Playbook, PlaybookEdit, PlaybookIdea, PlaybookTask
from ralph.core.records import record, replace

MODELS = ("haiku", "sonnet", "opus")
LEVELS = ("easy", "moderate", "hard")
SHARES = (0.60, 0.25, 0.15)
"""Of the tasks, by level."""
THOUGHT = 8_000
"""Tokens of an attempt, whatever its task and model."""
PLAN_THOUGHT = 3_000
TRAPPED = 0.7
"""The share of a theme's tasks that have its trap."""
GATED = 0.1
"""The share of tasks whose failures are found by a gate; the other attempts say themselves that they failed."""
STUBBORN = 0.5
"""The share of tasks at which a model that is too weak fails the same way each time."""
TRIES = 6
"""As many as a task gets."""
MISLED_TRIES = 3
"""So often a task's attempts believe a false memory."""
CONFIDENCE = 0.6
"""Of a memory that is planted."""
GATE = "sh check.sh"
GATE_SCRIPT = """\
if grep -qs wrong "checks/$RALPH_TASK_ID.txt"; then
    echo "FAILED: the check of $RALPH_TASK_ID"
    exit 1
fi
"""

AREAS = (
    # area, the fact, how the attempt that finds out says it
    ("invoice ledger", "ids are texts with leading zeros, never numbers", "knowledge"),
    ("session cache", "keys carry the tenant before the colon", "learning"),
    ("search index", "the writer must be closed before a reader sees anything", "signal"),
    ("mail queue", "addresses are compared without their case", "knowledge"),
    ("shipping rates", "weights are grams although the column says kilograms", "learning"),
    ("photo thumbnails", "the orientation flag has to be applied before scaling", "signal"),
    ("calendar feed", "an all-day entry ends on the day after", "knowledge"),
    ("payroll export", "the decimal mark is a comma and the file is latin-1", "learning"),
    ("coupon engine", "a percentage is stored in basis points", "signal"),
    ("audit trail", "rows are only ever appended, an update is refused", "knowledge"),
)
FALSE = "amounts may be compared as floats after rounding to two digits"
WHATS = (
    *("totals", "reminders", "filters", "paging", "retries", "limits", "sorting", "archiving", "locking", "merging"),
    *("previews", "alerts", "imports", "summaries", "labels", "expiry", "throttling", "grouping", "undo", "batching"),
    *("validation", "tracing", "rounding", "translation", "snapshots"),
)
SYMPTOMS = (
    "the third check returned nothing",
    "a value came back twice",
    "the order of the rows was wrong",
    "an empty input was not refused",
)


@record
class Theme:
    """A part of the project with a trap of its own."""

    area: str
    fact: str
    said_as: str

    @property
    def phrase(self) -> str:
        """What a prompt holds when the fact is known."""
        return f"In the {self.area} {self.fact}"

    @property
    def falsehood(self) -> str:
        """What a prompt holds when the false memory of the theme is shown."""
        return f"In the {self.area} {FALSE}"


@record
class SimTask:
    """One task, and what stands in its way."""

    id: str
    title: str
    theme: Theme
    level: int
    """0 for easy, 1 for moderate, 2 for hard."""
    is_trapped: bool
    is_gated: bool
    is_stubborn: bool
    misleads: bool = False
    """Whether the theme's false memory leads astray who is shown it."""


@record
class Planted:
    """A memory that is there before the first attempt."""

    theme: Theme
    is_harmful: bool

    @property
    def body(self) -> str:
        """What it says."""
        return f"{self.theme.falsehood if self.is_harmful else self.theme.phrase}."


@record
class World:
    """Tasks, what is planted, and the playbook of an agent that lives in it."""

    tasks: tuple[SimTask, ...]
    planted: tuple[Planted, ...] = ()
    is_taught: bool = True
    """Whether knowing the facts helps; otherwise memory changes nothing."""

    @property
    def playbook(self) -> Playbook:
        """All that can be thought of in this world."""
        return Playbook(
            tasks=tuple(
                PlaybookTask(about=f"**{task.id}**", ideas=tuple(_ideas(task, self.is_taught))) for task in self.tasks
            )
        )

    def count(self, level: int) -> int:
        """Give how many tasks are of a level."""
        return sum(task.level == level for task in self.tasks)


def make_world(tasks: int, seed: int = 1, *, themes: int = len(AREAS), is_taught: bool = True) -> World:
    """Give a world of so many tasks, the same for the same seed."""
    chance = random.Random(seed)
    areas = [Theme(area=area, fact=fact, said_as=said_as) for area, fact, said_as in AREAS[:themes]]
    return World(tasks=tuple(_tasks(tasks, areas, chance)), is_taught=is_taught)


def plant(world: World, *, together: bool = False) -> World:
    """Give a world in which a third of the themes has a true memory planted, and another third a false one.

    `together`, each theme has both, and the false one leads astray in half of the theme's tasks.
    """
    themes = sorted({task.theme for task in world.tasks}, key=lambda theme: theme.area)
    true = [theme for place, theme in enumerate(themes) if together or place % 3 == 0]
    false = [theme for place, theme in enumerate(themes) if together or place % 3 == 1]
    planted = [Planted(theme=theme, is_harmful=False) for theme in true]
    planted += [Planted(theme=theme, is_harmful=True) for theme in false]
    seen: dict[str, int] = {}
    tasks = []
    for task in world.tasks:
        number = seen[task.theme.area] = seen.get(task.theme.area, 0) + 1
        misleads = task.theme in false and (not together or number % 2 == 0)
        tasks.append(replace(task, misleads=misleads, is_trapped=task.is_trapped and not misleads))
    return World(tasks=tuple(tasks), planted=tuple(planted), is_taught=world.is_taught)


def _tasks(count: int, themes: Sequence[Theme], chance: random.Random) -> Iterator[SimTask]:
    levels = [level for level, share in enumerate(SHARES) for _ in range(round(share * count))]
    levels += [0] * (count - len(levels))
    titles = [(what, theme) for what in WHATS for theme in themes][:count]
    chance.shuffle(levels)
    chance.shuffle(titles)
    for number, (level, (what, theme)) in enumerate(zip(levels, titles, strict=True), start=1):
        yield SimTask(
            id=f"t-{number:06x}",
            title=f"Add {what} to the {theme.area}",
            theme=theme,
            level=level,
            is_trapped=chance.random() < TRAPPED,
            is_gated=chance.random() < GATED,
            is_stubborn=chance.random() < STUBBORN,
        )


# --- what comes to mind --------------------------------------------------------------


def _ideas(task: SimTask, is_taught: bool) -> Iterator[PlaybookIdea]:
    """Give the ideas for a task; each model thinks of its own only."""
    yield PlaybookIdea(says=_plan(task), hats=("planner",), tokens=PLAN_THOUGHT)
    weak, able = MODELS[: task.level], MODELS[task.level :]
    if weak:
        yield from (_failure(task, f"It is too much for me: {_symptom(task, n)}", n, models=weak) for n in range(TRIES))
        yield from _with_plan(task, weak[-1:], is_taught)
    for model in able:
        yield from _able(task, model, is_taught)


def _able(task: SimTask, model: str, is_taught: bool) -> Iterator[PlaybookIdea]:
    """Give what a model that is able to do the task thinks of, attempt after attempt."""
    one = (model,)
    if task.misleads:
        yield from (_success(task, models=one) for _ in range(MISLED_TRIES - 1))
        yield _failure(task, "It did not hold what I was told", 0, models=one, knows=(task.theme.falsehood,))
    elif task.is_trapped:
        times = 2 if model == MODELS[0] else 1
        yield from (_failure(task, f"Something is odd here: {_symptom(task, n)}", n, models=one) for n in range(times))
        yield from (_success(task, models=one, finds_out=True) for _ in range(TRIES - times))
        if is_taught:
            yield _success(task, models=one, knows=(task.theme.phrase,))
        return
    yield _success(task, models=one)


def _with_plan(task: SimTask, models: tuple[str, ...], is_taught: bool) -> Iterator[PlaybookIdea]:
    """Give what models think of that can do the task only by a plan; they know the trap by the failure it made."""
    plan, clue = f"Plan for {task.id}", f"following the plan for {task.id}, something is odd"
    if task.is_trapped:
        yield _failure(task, clue, 0, models=models, knows=(plan,))
        yield _success(task, models=models, knows=(plan, clue), finds_out=True)
    if not task.is_trapped or is_taught:
        known = (plan, task.theme.phrase) if task.is_trapped else (plan,)
        yield _success(task, models=models, knows=known)


def _symptom(task: SimTask, tried: int) -> str:
    return SYMPTOMS[0 if task.is_stubborn else tried % len(SYMPTOMS)]


def _plan(task: SimTask) -> str:
    return f'<hand-over to="creator">Plan for {task.id}: look at it, change it, check it.</hand-over>\n'


def _success(
    task: SimTask, *, models: tuple[str, ...], knows: tuple[str, ...] = (), finds_out: bool = False
) -> PlaybookIdea:
    said = f"<journal>{task.title}: done and checked.</journal>\n"
    if finds_out:
        said += _said(task.theme)
    return PlaybookIdea(
        says=f"{said}<task-done>{{task_id}}</task-done>\n",
        edits=_edits(task, "right", "done"),
        knows=knows,
        models=models,
        hats=("creator",),
        tokens=THOUGHT,
    )


def _failure(
    task: SimTask, why: str, tried: int, *, models: tuple[str, ...], knows: tuple[str, ...] = ()
) -> PlaybookIdea:
    """Give an attempt that fails: at some tasks it believes itself done, and a gate finds out."""
    report = f"""\
<failure-report>
what_tried: Changed how the {task.theme.area} works.
why_failed: {why}.
error_category: logic_error
</failure-report>
"""
    end = "done" if task.is_gated else "failed"
    return PlaybookIdea(
        says=f"{report}<task-{end}>{{task_id}}</task-{end}>\n",
        edits=_edits(task, "wrong", f"try {0 if task.is_stubborn else tried}"),
        knows=knows,
        models=models,
        hats=("creator",),
        tokens=THOUGHT,
    )


def _edits(task: SimTask, check: str, text: str) -> tuple[PlaybookEdit, ...]:
    folder, name = task.theme.area.replace(" ", "_"), task.title.split()[1]
    edit = PlaybookEdit(file=f"src/{folder}/{name}.txt", replace=None, text=f"{text}\n")
    return (
        (edit, PlaybookEdit(file=f"checks/{task.id}.txt", replace=None, text=f"{check}\n"))
        if task.is_gated
        else (edit,)
    )


def _said(theme: Theme) -> str:
    """Give how the attempt that found out says it."""
    tag = theme.area.split()[-1]
    if theme.said_as == "knowledge":
        title = f"A trap of the {theme.area}"
        return f'<knowledge tags="{tag}" title="{title}">{theme.phrase}.</knowledge>\n'
    if theme.said_as == "learning":
        return f'<learning category="pitfall" tags="{tag}">{theme.phrase}.</learning>\n'
    return f"MEMORY:pitfall:{theme.phrase}.\n"


# --- as files ------------------------------------------------------------------------


def tasks_file(world: World) -> str:
    """Give the tasks as they are imported."""
    return "".join(json.dumps({"id": task.id, "title": task.title}) + "\n" for task in world.tasks)


def playbook_file(playbook: Playbook) -> str:
    """Give a playbook as its file."""
    lines: list[str] = []
    for part in playbook.tasks:
        lines += ["[[task]]", f"about = {json.dumps(part.about)}"]
        for idea in part.ideas:
            lines += ["[[task.idea]]", f"says = {json.dumps(idea.says)}", f"tokens = {idea.tokens}"]
            lines += [f"{key} = {json.dumps(getattr(idea, key))}" for key in ("knows", "models", "hats")]
            for edit in idea.edits:
                lines += ["[[task.idea.edit]]", f"file = {json.dumps(edit.file)}", f"write = {json.dumps(edit.text)}"]
    return "\n".join(lines) + "\n"
