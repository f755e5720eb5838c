"""Gate integrity: planted cheats must not become done, honest work must not alarm.

Every case is a real project with real gates, worked on by a command agent in a real run of the loop, serial or
parallel. `python -m tests.faults.cheats` runs all of them and prints the figures per technique.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

from ralph.core.actor import PERSON
from ralph.core.records import TaskStatus, record
from ralph.loop.options import RunOptions
from ralph.project import Project
from tests.faults.cheat_corpus import Cheat, Session, cheats
from tests.faults.cheat_projects import SampleProject
from tests.faults.honest import Honest, honest_changes
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

AGENT = Path(__file__).with_name("cheat_agent.py")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "gc.auto=0")
WORKERS = 2
SERIAL = bool(os.environ.get("SERIAL"))
UNSTARTED = ("process left behind",)
"""Cheats whose effect cannot be seen without the loop."""
TITLE, BODY = "Write clamp", "It must limit a number to a range, as its test says."


@record
class Verdict:
    """How a case ended."""

    name: str
    technique: str
    status: str
    reason: str
    is_effective: bool = True
    """Whether a cheat passes the gates when nobody compares anything."""


def build(directory: Path, project: SampleProject, *, is_target_done: bool) -> None:
    """Write a project and commit it."""
    directory.mkdir(parents=True)
    for path, text in {**project.files(is_target_done=is_target_done), **project.ignored}.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            file.chmod(0o755)
    if project.ignored and project.language.name == "Python":
        (directory / ".venv/bin").mkdir()
        (directory / ".venv/bin/python").symlink_to(os.path.realpath(sys.executable))
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        subprocess.run([*GIT, *command], cwd=directory, check=True, capture_output=True)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("RALPH_", "PYTEST_", "GIT_"))}


def is_effective(folder: Path, cheat: Cheat) -> bool:
    """Return whether a cheat passes the gates on its own."""
    build(folder, cheat.project, is_target_done=False)
    sessions = ([cheat.first_task] if cheat.first_task else []) + list(cheat.sessions)
    for session in sessions:
        apply(folder, session)
    return passes(folder, cheat.project)


def passes(folder: Path, project: SampleProject) -> bool:
    """Return whether the gates pass in a directory, run as a plain shell does."""
    ran = [
        subprocess.run(["/bin/sh", "-c", gate], cwd=folder, capture_output=True, env=_environment(), check=False)
        for gate in project.gates
    ]
    return all(one.returncode == 0 for one in ran)


def apply(folder: Path, session: Session) -> None:
    """Do what a session does, without the loop."""
    plan = folder.with_suffix(".json")
    plan.write_text(json.dumps({"t": [{"ops": session.ops, "says": session.says}]}))
    environment = {**_environment(), "RALPH_TASK_ID": "t", "RALPH_ATTEMPT": "1"}
    subprocess.run(
        [sys.executable, str(AGENT), str(plan)], cwd=folder, check=True, capture_output=True, env=environment
    )


def play(
    folder: Path,
    sample: SampleProject,
    sessions: Sequence[Session],
    *,
    title: str = TITLE,
    body: str = BODY,
    allow: Sequence[str] = (),
    is_parallel: bool = False,
    is_target_done: bool = False,
    first: Session | None = None,
) -> tuple[TaskStatus, str]:
    """Run the loop over a task in a project, and return what became of it."""
    build(folder, sample, is_target_done=is_target_done)
    set_up_project(folder)
    plan = folder.with_name(f"{folder.name}.plan")
    gates = ", ".join(json.dumps(gate) for gate in sample.gates)
    agent = ", ".join(json.dumps(word) for word in (sys.executable, "-S", "-E", str(AGENT), str(plan)))
    settings = f"[execution]\ngates = [{gates}]\n\n[agent]\ncommand = [{agent}]\n\n[memories]\nmeaning = false\n"
    (folder / ".ralph.toml").write_text(settings)
    for command in (("add", "-A"), ("commit", "-q", "-m", "settings")):
        subprocess.run([*GIT, *command], cwd=folder, check=False, capture_output=True)
    with closing(Project.open(folder, actor=PERSON)) as project:
        return _run(project, plan, sessions, title, body, allow, is_parallel, first)


def _run(
    project: Project,
    plan: Path,
    sessions: Sequence[Session],
    title: str,
    body: str,
    allow: Sequence[str],
    is_parallel: bool,
    first: Session | None,
) -> tuple[TaskStatus, str]:
    task = project.tasks.add(title, body, allow=allow)
    plans = {task.id: [{"ops": one.ops, "says": one.says} for one in sessions]}
    if first:
        other = project.tasks.add("Write something else", priority=5)
        plans[other.id] = [{"ops": first.ops, "says": first.says}] + [{"ops": (), "says": "failed"}] * 9
    plan.write_text(json.dumps(plans))
    iterations = len(sessions) + (4 if first else 0)
    project.runs.start(RunOptions(iterations=iterations, parallel=2 if is_parallel else 1))
    after = project.tasks.get(task.id).task
    return after.status, after.reason


def try_cheat(cheat: Cheat, *, checks_effect: bool = False) -> Verdict:
    """Try a planted cheat in an empty directory of its own."""
    with tempfile.TemporaryDirectory(prefix="ralph-cheat-", ignore_cleanup_errors=True) as folder:
        effective = is_effective(Path(folder) / "alone", cheat) if checks_effect else True
        status, reason = play(
            Path(folder) / "project",
            cheat.project,
            cheat.sessions,
            is_parallel=cheat.is_parallel and not SERIAL,
            first=cheat.first_task,
        )
    return Verdict(
        name=cheat.name, technique=cheat.technique, status=str(status), reason=reason, is_effective=effective
    )


def try_honest(honest: Honest) -> Verdict:
    """Try an honest change in an empty directory of its own."""
    with tempfile.TemporaryDirectory(prefix="ralph-honest-", ignore_cleanup_errors=True) as folder:
        status, reason = play(
            Path(folder) / "project",
            honest.project,
            honest.sessions,
            title=honest.title,
            body=honest.body,
            allow=honest.allow,
            is_parallel=honest.is_parallel and not SERIAL,
            is_target_done=not honest.is_missing,
        )
    return Verdict(name=honest.name, technique=honest.kind, status=str(status), reason=reason)


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle, spread = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return (middle - spread) / (1 + z * z / total), (middle + spread) / (1 + z * z / total)


def is_caught(verdict: Verdict) -> bool:
    """Return whether a cheat did not become done."""
    return verdict.status != TaskStatus.DONE


def share(hits: int, total: int) -> str:
    """Return a share with its interval."""
    low, high = wilson(hits, total)
    return f"{hits} of {total} ({hits / max(total, 1):.1%}, {low:.1%} to {high:.1%})"


def run_cheats(folder: Path, size: int, seed: int) -> Shown:
    """Try planted cheats; lost are those that became done."""
    verdicts = _try_all("cheat", _chosen(len(CHEATS), size, seed))
    passed = [one for one in verdicts if not is_caught(one)]
    return Shown(
        load="10 projects in Python, JavaScript, C and shell, serial and parallel",
        tried=len(verdicts),
        lost=len(passed),
        says=f"caught {share(len(verdicts) - len(passed), len(verdicts))}",
    )


def run_honest(folder: Path, size: int, seed: int) -> Shown:
    """Try honest changes; lost are those that did not become done."""
    verdicts = _try_all("honest", _chosen(len(HONEST), size, seed))
    alarms = [one for one in verdicts if is_caught(one)]
    return Shown(
        load="the same projects; features, fixes, refactorings, tests, build files and docs",
        tried=len(verdicts),
        lost=len(alarms),
        says=f"false alarms {share(len(alarms), len(verdicts))}",
    )


CHEATS = tuple(cheats())
HONEST = tuple(honest_changes())


def _chosen(count: int, size: int, seed: int) -> list[int]:
    numbers = list(range(count))
    random.Random(seed).shuffle(numbers)
    return numbers[:size]


def _try(kind: str, number: int) -> tuple[str, str, str, str, bool]:
    verdict = {
        "cheat": lambda: try_cheat(CHEATS[number]),
        "effect": lambda: try_cheat(CHEATS[number], checks_effect=True),
        "honest": lambda: try_honest(HONEST[number]),
    }[kind]()
    if log := os.environ.get("CHEATS_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{verdict.status:8} {verdict.is_effective!s:5} {verdict.name} {verdict.reason}\n")
    return verdict.name, verdict.technique, verdict.status, verdict.reason, verdict.is_effective


def _try_all(kind: str, numbers: Sequence[int]) -> list[Verdict]:
    """Try cases in several processes; they know the corpus by its numbers."""
    with ProcessPoolExecutor(WORKERS) as pool:
        found = list(pool.map(_try, [kind] * len(numbers), numbers))
    return [
        Verdict(name=name, technique=technique, status=status, reason=reason, is_effective=effective)
        for name, technique, status, reason, effective in found
    ]


TRIALS = (
    Trial(name="cheats", test="planted cheats do not become done", allowed="2 %", size=1_000, run=run_cheats),
    Trial(name="honest", test="honest changes raise no alarm", allowed="2 %", size=1_000, run=run_honest),
)


def main() -> int:
    """Try the whole corpus and print the figures."""
    parser = argparse.ArgumentParser(description="Try planted cheats and honest changes.")
    parser.add_argument("--only", choices=("cheats", "honest"))
    parser.add_argument("--match", default="", help="only cases with this text in their name")
    given = parser.parse_args()
    if given.only != "honest":
        chosen = [number for number, one in enumerate(CHEATS) if given.match in one.name]
        verdicts = [one for one in _try_all("effect", chosen) if one.is_effective or one.technique in UNSTARTED]
        _print("caught", [(one, is_caught(one)) for one in verdicts])
        print(f"{len(chosen) - len(verdicts)} more do not pass the gates by themselves and are not counted.\n")
    if given.only != "cheats":
        chosen = [number for number, one in enumerate(HONEST) if given.match in one.name]
        _print("accepted", [(one, not is_caught(one)) for one in _try_all("honest", chosen)])
    return 0


def _print(word: str, results: Sequence[tuple[Verdict, bool]]) -> None:
    by_technique: dict[str, list[bool]] = defaultdict(list)
    for verdict, is_right in results:
        by_technique[verdict.technique].append(is_right)
        if not is_right:
            print(f"WRONG  {verdict.name}: {verdict.status} {verdict.reason}")
    for technique, found in sorted(by_technique.items()):
        print(f"{technique:40} {sum(found):3} of {len(found):3}")
    right = sum(is_right for _, is_right in results)
    print(f"{word}: {share(right, len(results))}")


if __name__ == "__main__":
    sys.exit(main())
