"""`make prove`: whether memory saves corrections, with the loop itself.

The tasks of the set `decisions` run with `ralph run`. A stand-in for an agent answers with nothing but what its prompt
tells besides the task, and a gate accepts the answer only if it states the policy; otherwise the gate says what a
person would: what was decided. Corrections are the failed attempts of a task. Each project runs twice: with its
past imported and with nothing imported. All of them together as one project, with a share of attempts without memory,
show the lift that `ralph stats lift` prints.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from bench.decisions.data import Policy, Scene, read_set
from bench.decisions.grading import grade_policy
from bench.decisions.ours import IMPORTS
from bench.decisions.scratch import CommandFailed, Scratch
from bench.recall import table as recall_table
from bench.recall.measures import interval
from bench.recall.sets import BadData
from ralph.core.text import extract_title
from ralph.project import Project

MAX_CORRECTIONS = 5
HOLDOUT = 0.5
SOME_NEED_ATTENTION = 1
"""Exit code of a run that leaves tasks to a person."""
WAYS = ("with its past", "without", f"holdout {HOLDOUT:g}")
TOLD_SECTIONS = ("## Project Knowledge", "## From Past Work", "### Previous Attempts", "### Failures of Other Tasks")
AGENT = """\
import os, pathlib, sys
prompt = sys.stdin.read()
starts = [place for heading in {sections!r} if (place := prompt.find(chr(10) + heading)) >= 0]
told = prompt[min(starts):].partition(chr(10) + "### Loop Status")[0] if starts else ""
answer = pathlib.Path("answers", os.environ["RALPH_TASK_ID"] + ".txt")
answer.parent.mkdir(exist_ok=True)
answer.write_text(told, encoding="utf-8")
print("<task-done>" + os.environ["RALPH_TASK_ID"] + "</task-done>")
"""
SETTINGS = f"[execution]\nmax_retries = {MAX_CORRECTIONS}\n[memories]\nmeaning = false\n"


def main() -> int:
    """Run, print how many corrections were needed and what the lift is, and return the exit code."""
    folder = os.environ.get("BENCH_DATA", "")
    if not folder:
        print("Let BENCH_DATA name a folder with the set decisions.", file=sys.stderr)
        return 2
    try:
        scenes = read_set("decisions", Path(folder))
        results = {way: [_run(scene, way) for scene in scenes] for way in WAYS[:2]}
        results[WAYS[2]] = [_run(_together(scenes), WAYS[2])]
    except (BadData, CommandFailed) as error:
        print(error, file=sys.stderr)
        return 2
    out = recall_table.console()
    out.print(_table(results))
    out.print(f"\n$ ralph stats lift\n{results[WAYS[2]][0][1]}", markup=False, highlight=False)
    return 0


def _together(scenes: list[Scene]) -> Scene:
    """Return one project with what happened in all of them."""
    return Scene(
        chats=list({chat.id: chat for scene in scenes for chat in scene.chats}.values()),
        changes=list({change.id: change for scene in scenes for change in scene.changes}.values()),
        passages=[],
        questions=[question for scene in scenes for question in scene.questions],
    )


def check(policies: str, task_id: str) -> int:
    """Accept the answer to a task if it states the policy; otherwise say what was decided. This is the gate."""
    told = json.loads(Path(policies).read_text(encoding="utf-8"))[task_id]
    answer = Path("answers", f"{task_id}.txt").read_text(encoding="utf-8")
    if grade_policy(Policy(told["text"], told["marker"], []), answer)["found"]:
        return 0
    print(f"Not as decided. {told['text']} ({told['marker']})")
    return 1


def _run(scene: Scene, way: str) -> tuple[list[int], str]:
    """Run the tasks of a project, and return the corrections of each and what the lift is."""
    scratch = Scratch()
    try:
        scratch.write_commits(scene.changes)
        scratch.write_sessions(scene.chats)
        scratch.ralph("init")
        (scratch.root / ".ralph.toml").write_text(SETTINGS, encoding="utf-8")
        for command in IMPORTS if way != WAYS[1] else ():
            if scene.changes or "git" not in command:
                scratch.ralph(*command)
        with scratch.entered():
            _add_tasks(scratch, scene)
            _work(scratch, way)
            with Project.open(scratch.root) as project:
                attempts = [len(project.tasks.get(task.id).attempts) for task in project.tasks.list()]
        lift = scratch.ralph("stats", "lift") if way == WAYS[2] else ""
        return [min(MAX_CORRECTIONS, count - 1) for count in attempts], lift
    finally:
        scratch.close()


def _add_tasks(scratch: Scratch, scene: Scene) -> None:
    policies: dict[str, dict[str, Any]] = {}
    with Project.open(scratch.root) as project:
        for question in scene.questions:
            assert isinstance(question.expected, Policy)
            task = project.tasks.add(extract_title(question.ask), question.ask)
            policies[task.id] = {"text": question.expected.text, "marker": question.expected.marker}
    (scratch.home / "policies.json").write_text(json.dumps(policies), encoding="utf-8")
    (scratch.home / "agent.py").write_text(AGENT.format(sections=TOLD_SECTIONS), encoding="utf-8")


def _work(scratch: Scratch, way: str) -> None:
    gate = (
        f'PYTHONPATH="{Path.cwd()}" {sys.executable} -c "import os, sys; from bench.decisions.prove import check;'
        f" sys.exit(check('{scratch.home}/policies.json', os.environ['RALPH_TASK_ID']))\""
    )
    options = ["--holdout", str(HOLDOUT)] if way == WAYS[2] else []
    agent = (sys.executable, str(scratch.home / "agent.py"))
    scratch.ralph("run", "--gate", gate, *options, "--", *agent, accepted=(0, SOME_NEED_ATTENTION))


def _table(results: dict[str, list[tuple[list[int], str]]]) -> Table:
    table = Table(title="corrections per task", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("memory", "tasks", "corrections", "95 %", "none needed"):
        table.add_column(heading, justify="left" if heading == "memory" else "right", no_wrap=True)
    for way, runs in results.items():
        counts = [float(count) for corrections, _ in runs for count in corrections]
        low, high = interval(counts)
        none = sum(not count for count in counts) / len(counts)
        table.add_row(way, str(len(counts)), f"{fmean(counts):.2f}", f"{low:.2f}–{high:.2f}", f"{none:.0%}")
    return table


if __name__ == "__main__":
    sys.exit(main())
