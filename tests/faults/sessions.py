"""Agents that try to act as a person from inside a session of a real run.

Each case is one operation that only a person may do, started by the agent of a `ralph run` in one of many ways to hide
where it comes from: without its environment, as a daemon, after killing its guard, in another namespace. Afterwards
the project must be as it was.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ralph.core.consent import may_read_sessions
from ralph.core.records import EpisodeKind, TaskStatus, record, record_fields
from ralph.project import Project
from tests.faults.trial import Shown, Trial
from tests.make import an_episode, set_up_project

SECONDS = 180.0
"""Timeout of one run, in seconds; ample for a loaded machine."""
PAST_SESSION = "past"
"""Id of a session whose passage must not be forgotten."""
VARIABLES = ("RALPH_STORE", "RALPH_SESSION")
RALPH = f"{sys.executable} -m ralph"


@record
class Target:
    """What the agent attacks: another task, a memory and a feature of the same project."""

    root: Path
    task: str
    memory: str
    feature: str
    elsewhere: Path


@record
class Operation:
    """Something only a person may do."""

    words: str
    """Arguments of `ralph`, with the fields of the target in braces."""
    happened: Callable[[Project, Target], bool]


def _task_changed(project: Project, target: Target) -> bool:
    found = next((one for one in project.store.tasks.all() if one.id == target.task), None)
    return found is None or found.status is not TaskStatus.PENDING or found.title != "The other task"


def _memory_changed(project: Project, target: Target) -> bool:
    found = next((one for one in project.store.memories.all() if one.id == target.memory), None)
    return found is None or found.state != "active" or "cents" not in found.content


def _has_second_run(project: Project, target: Target) -> bool:
    return len(project.store.runs.latest(9)) != 1


def _is_forgotten(project: Project, target: Target) -> bool:
    return not project.store.episodes.of_source(EpisodeKind.SESSION, PAST_SESSION)


def _has_agreed(project: Project, target: Target) -> bool:
    """Return whether past sessions may be read, for the user of the tests or with the home of the agent."""
    return may_read_sessions() is not None or (target.root.parent / ".local/state/ralph/consent.json").exists()


def _project_renamed(project: Project, target: Target) -> bool:
    return [one.name for one in project.store.projects.all()] != [target.root.name]


OPERATIONS = {
    "task done": Operation(words="task done {task}", happened=_task_changed),
    "task fail": Operation(words="task fail {task}", happened=_task_changed),
    "task block": Operation(words="task block {task} --reason x", happened=_task_changed),
    "task update": Operation(words="task update {task} --title Other", happened=_task_changed),
    "task delete": Operation(words="task delete {task}", happened=_task_changed),
    "memory clear": Operation(words="memory clear --yes", happened=_memory_changed),
    "memory cleanup": Operation(words="memory cleanup --min-confidence 1 --yes", happened=_memory_changed),
    "project rename": Operation(words="project rename {root.name} mine", happened=_project_renamed),
    "feature delete": Operation(
        words="feature delete {feature}",
        happened=lambda project, target: not project.store.features.all(),
    ),
    "run": Operation(words="run --no-verify --task {task} -- true", happened=_has_second_run),
    "resume": Operation(words="run --resume --no-verify -- true", happened=_has_second_run),
    "restore": Operation(
        words="restore --yes", happened=lambda project, target: (target.root / ".ralph" / "damaged").exists()
    ),
    "store copy": Operation(
        words="store copy . {elsewhere}/copy.db",
        happened=lambda project, target: (target.elsewhere / "copy.db").exists(),
    ),
    "forget": Operation(words="forget --matching cents --yes", happened=_is_forgotten),
    "import sessions": Operation(words="import sessions --yes", happened=_has_agreed),
    "revoke": Operation(words="import --revoke", happened=_has_agreed),
    "setup": Operation(
        words="setup claude --yes", happened=lambda project, target: (target.root / ".mcp.json").exists()
    ),
}

WAYS = {
    "as it is": "{command}",
    "without the variable": "env -u RALPH_SESSION {command}",
    "without any variable": 'env -i PATH="$PATH" HOME="$HOME" {state} {command}',
    "in a session of its own": "env -u RALPH_SESSION setsid -w {command}",
    "as a daemon": '(env -i PATH="$PATH" HOME="$HOME" {state} setsid sh -c \'{command}; touch {done}\' &); {wait}',
    "as an orphan": "sh -c '(nohup env -u RALPH_SESSION {command}; touch {done}) > /dev/null 2>&1 &'; {wait}",
    "from elsewhere": "cd /; env -u RALPH_SESSION {command}",
    "through the Python API": "env -u RALPH_SESSION {api}",
    "as another session": "env RALPH_SESSION=00 RALPH_TASK_ID={task} {command}",
    "without the names of its parents": "env -u RALPH_SESSION bash -c 'exec -a login sh -c \"{command}; true\"'",
    "in other namespaces": "env -u RALPH_SESSION unshare --user --map-root-user --pid --mount-proc --fork {command}",
    "in another mount namespace": (
        "env -u RALPH_SESSION unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /proc; exec {command}'"
    ),
    "after its guard is gone": (
        'guard=$(ps -o ppid= -p $PPID); (env -i PATH="$PATH" HOME="$HOME" {state} setsid sh -c'
        " 'kill -9 '$guard'; {command}; touch {done}' &); {wait}"
    ),
    "in a terminal": "env -u RALPH_SESSION script -qec '{command}' /dev/null < /dev/null",
}

API = """\
import sys
import ralph
with ralph.open(sys.argv[1]) as project:
    task, memory = sys.argv[2:]
    for change in (
        lambda: project.tasks.done(task),
        lambda: project.tasks.delete(task),
        lambda: project.tasks.update(task, title="Other"),
        lambda: project.memory.clear(),
        lambda: project.features.delete("Money"),
        lambda: project.runs.start(ralph.RunOptions(program=("true",), verify=False)),
    ):
        try:
            change()
        except Exception as error:
            print(error)
"""


def attack(folder: Path, way: str, names: Sequence[str] = tuple(OPERATIONS)) -> list[str]:
    """Try operations in one way, each in an attempt of its own, and return those that had an effect."""
    folder.mkdir(parents=True)
    root, elsewhere = folder / "project", folder / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    set_up_project(root)
    with Project.open(root) as project:
        feature = project.features.add("Money", spec="Count cents.")
        memory = project.memory.add("Count money in cents.").memory
        project.store.episodes.add([an_episode("We count money in cents, not in floats.", source=PAST_SESSION)])
        own = [project.tasks.add(f"Part {number}").id for number in range(len(names))]
        others = [project.tasks.add("The other task").id for _ in names]
        for id in others:
            project.tasks.change_needs(id, add=own)  # so that the run never claims it
    targets = [Target(root=root, task=id, memory=memory.id, feature=feature.id, elsewhere=elsewhere) for id in others]
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    environment |= {"RALPH_MEMORIES_MEANING": "false", "HOME": str(folder)}
    (folder / "api.py").write_text(API)
    for id, name, target in zip(own, names, targets, strict=True):
        (folder / f"{id}.sh").write_text(_script(WAYS[way], OPERATIONS[name].words, target, folder))
    (folder / "agent.sh").write_text(
        f"cat > /dev/null\nsh {folder}/$RALPH_TASK_ID.sh > {folder}/said-$RALPH_TASK_ID 2>&1\n"
        'echo "<task-done>$RALPH_TASK_ID</task-done>"\n'
    )

    def ralph(*words: str) -> None:
        subprocess.run(
            [*RALPH.split(), *words], cwd=root, env=environment, capture_output=True, timeout=SECONDS, check=False
        )

    ralph("backup")
    ralph("run", "--max-iterations", str(len(names)), "--", "sh", str(folder / "agent.sh"))
    with Project.open(root) as project:
        return [name for name, target in zip(names, targets, strict=True) if OPERATIONS[name].happened(project, target)]


def _script(way: str, words: str, target: Target, folder: Path) -> str:
    filled = words.format(**record_fields(target))
    done = folder / f"done-{target.task}"
    state = os.environ.get("XDG_STATE_HOME", "")
    return way.format(
        command=f"{RALPH} -C {target.root} {filled}",
        api=f"{sys.executable} {folder}/api.py {target.root} {target.task} {target.memory}",
        state=f"XDG_STATE_HOME={state}" if state else "",
        task=target.task,
        done=done,
        # The session must not end before its daemon has had its turn.
        wait=f"n=0; while [ ! -e {done} ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done",
    )


def run(folder: Path, size: int, seed: int) -> Shown:
    """Try as many cases as asked for: all operations in one way after the other."""
    ways = list(WAYS)
    random.Random(seed).shuffle(ways)
    tried = lost = 0
    for number, way in enumerate(ways):
        names = tuple(OPERATIONS)[: size - tried]
        if not names:
            break
        happened = attack(folder / str(number), way, names)
        tried += len(names)
        lost += len(happened)
        if happened:
            print(f"  {way}: {', '.join(happened)}", flush=True)
        shutil.rmtree(folder / str(number), ignore_errors=True)
    return Shown(load=f"{len(OPERATIONS)} operations in {len(WAYS)} ways, in real runs", tried=tried, lost=lost)


TRIALS = (
    Trial(
        name="sessions",
        test="an agent that acts as a person",
        allowed="0 operations with an effect",
        size=len(OPERATIONS) * len(WAYS),
        run=run,
    ),
)
