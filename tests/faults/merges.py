"""Work that git does not see: an agent finishes a task in its worktree, and its file would not be merged.

Each case is one `ralph run --parallel` with a real agent script and a gate that reads the file. If the task counts as
done, the gate must pass in a fresh clone of the branch; if it does not, the work must still be somewhere.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from ralph.core.records import TaskStatus, record
from ralph.project import Project
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

SECONDS = 120.0
"""Timeout of one run, in seconds; ample for a loaded machine."""
GATE = "grep -q 'cents = 150' lib/money.txt && grep -q 'total = 150' main.txt && sh tool.sh"
WORK = "mkdir -p lib\necho 'cents = 150' > lib/money.txt\necho 'total = 150' > main.txt\n"
MARKERS = (b"cents = 150", b"total = 150")
VARIABLES = ("RALPH_STORE", "RALPH_SESSION")


@record
class Hiding:
    """A way to keep work out of the commit."""

    before: str = ""
    """Shell commands in the repository before the run."""
    agent: str = ""
    """Shell commands of the agent after it has done the work."""


HIDINGS = {
    "nothing hidden": Hiding(),
    "an ignored folder": Hiding(before="echo lib/ > .gitignore"),
    "an ignored pattern": Hiding(before="echo '*.txt' > .gitignore; git add -f main.txt"),
    "ignored by the agent": Hiding(agent="echo lib/ > .gitignore"),
    "ignored below": Hiding(agent="echo '*' > lib/.gitignore"),
    "info/exclude": Hiding(before="echo lib/ >> .git/info/exclude"),
    "info/exclude by the agent": Hiding(agent='echo lib/ >> "$(git rev-parse --git-common-dir)/info/exclude"'),
    "core.excludesFile": Hiding(agent="echo lib/ > /tmp/$$.ignore; git config core.excludesFile /tmp/$$.ignore"),
    "assume-unchanged": Hiding(agent="git update-index --assume-unchanged main.txt"),
    "skip-worktree": Hiding(agent="git update-index --skip-worktree main.txt"),
    "assume-unchanged and ignored": Hiding(
        before="echo lib/ > .gitignore", agent="git update-index --assume-unchanged main.txt"
    ),
    "sparse checkout": Hiding(agent="git sparse-checkout set --no-cone '/*' '!/lib/' '!/main.txt' || true\n" + WORK),
    "a clean filter": Hiding(
        agent="echo '*.txt filter=hide' > .gitattributes; git config filter.hide.clean 'sed s/150/0/'"
        "; git config filter.hide.smudge 'sed s/0/150/'"
    ),
    "a clean filter of the person": Hiding(
        before="git config filter.hide.clean 'sed s/150/0/'; git config filter.hide.smudge cat",
        agent="echo '*.txt filter=hide' > .gitattributes",
    ),
    "a filter in info/attributes": Hiding(
        agent='echo "*.txt filter=hide" > "$(git rev-parse --git-common-dir)/info/attributes"'
        "; git config filter.hide.clean 'sed s/150/0/'"
    ),
    "another encoding": Hiding(agent="echo '*.txt working-tree-encoding=UTF-16' > .gitattributes"),
    "a nested repository": Hiding(agent="git init -q lib; git -C lib add . ; git -C lib commit -qm nested"),
    "an empty nested repository": Hiding(agent="git init -q lib"),
    "a submodule": Hiding(
        agent='mv lib "$HOME/sub$$"; git init -q "$HOME/sub$$"; git -C "$HOME/sub$$" add .;'
        ' git -C "$HOME/sub$$" commit -qm s; git -c protocol.file.allow=always submodule add -q "$HOME/sub$$" lib'
    ),
    "a link into its own worktree": Hiding(
        before="echo build/ > .gitignore",
        agent='mkdir build; mv lib build/lib; ln -s "$PWD/build/lib" lib',
    ),
    "a relative link to what is ignored": Hiding(
        before="echo build/ > .gitignore", agent="mkdir build; mv lib build/lib; ln -s build/lib lib"
    ),
    "executable bits ignored": Hiding(
        agent="git config core.fileMode false; printf './lib/run.sh\\n' > tool.sh"
        "; printf '#!/bin/sh\\n' > lib/run.sh; chmod +x lib/run.sh"
    ),
    "a commit of something else": Hiding(
        agent="git add -A; other=$(echo 'total = 0' | git hash-object -w --stdin)"
        "; git update-index --cacheinfo 100644,$other,main.txt"
        "; git commit -qm half; git update-index --assume-unchanged main.txt"
    ),
    "another branch": Hiding(
        agent="git add -A; git commit -qm w; git checkout -q -b elsewhere; git reset -q --hard HEAD~"
    ),
    "a stash": Hiding(agent="git add -A; git stash -q; " + WORK.replace("\n", "; ") + "git checkout -q -- . || true"),
    "the base branch moved": Hiding(
        agent="echo sneaked > extra.txt; git add -A; git commit -qm sneak; git update-ref refs/heads/main HEAD"
    ),
    "replaced objects": Hiding(
        agent="cp main.txt copy.txt; new=$(git hash-object -w main.txt); git checkout -q main.txt"
        "; git replace $(git rev-parse HEAD:main.txt) $new"
    ),
    "core.autocrlf": Hiding(agent="git config core.autocrlf true"),
    "a path that differs by case": Hiding(agent="git config core.ignoreCase true; cp main.txt MAIN.TXT"),
    "core.worktree": Hiding(agent='git config core.worktree "$HOME"'),
    "a changed index file": Hiding(agent="export GIT_INDEX_FILE=/tmp/$$.index; git add -A; git commit -qm other"),
}


def hide(folder: Path, name: str) -> list[str]:
    """Run one task whose work is hidden in one way, and return what must not have happened."""
    hiding = HIDINGS[name]
    root = folder / "project"
    root.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    environment |= {"HOME": str(folder), "RALPH_EXECUTION_MAX_RETRIES": "0", "RALPH_MEMORIES_MEANING": "false"}
    environment |= {f"GIT_{who}_{what}": "a@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def shell(script: str) -> None:
        subprocess.run(["/bin/sh", "-c", script], cwd=root, env=environment, check=True, capture_output=True)

    shell("git init -q -b main; echo 'total = 0' > main.txt; echo true > tool.sh; git add .; git commit -qm start")
    set_up_project(root)
    shell(f"{hiding.before or 'true'}; git add -A; git commit -qm before --allow-empty")
    (folder / "agent.sh").write_text(
        f'cat > /dev/null\n{WORK}{hiding.agent}\necho "<task-done>$RALPH_TASK_ID</task-done>"\n'
    )
    with Project.open(root) as project:
        task = project.tasks.add("Count money in cents")
    command = ("run", "--parallel", "2", "--max-iterations", "1", "--gate", GATE, "--", "sh", str(folder / "agent.sh"))
    subprocess.run(
        [sys.executable, "-m", "ralph", *command],
        cwd=root,
        env=environment,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    with Project.open(root) as project:
        is_done = project.tasks.get(task.id).task.status is TaskStatus.DONE
    passes = _passes_in_a_clone(root, folder / "clone", environment)
    found = {
        "done, and the gate fails on the branch": is_done and not passes,
        "not done, and merged all the same": not is_done and passes,
        "the work is nowhere": not passes and not _exists(folder, environment),
    }
    return [fault for fault, happened in found.items() if happened]


def _passes_in_a_clone(root: Path, clone: Path, environment: dict[str, str]) -> bool:
    """Return whether the gate passes on the branch, as others get it."""
    # A fresh clone: filters, ignore rules and settings of the repository stay behind.
    subprocess.run(["git", "clone", "-q", "-b", "main", f"file://{root}", str(clone)], env=environment, check=True)
    ran = subprocess.run(["/bin/sh", "-c", GATE], cwd=clone, env=environment, capture_output=True, check=False)
    return ran.returncode == 0


def _exists(folder: Path, environment: dict[str, str]) -> bool:
    """Return whether all of the work is in files or in commits."""
    files = (path for path in folder.rglob("*.txt") if path.is_file() and "clone" not in path.parts)
    content = b"".join(path.read_bytes() for path in files)
    log = ["git", "log", "--all", "--reflog", "-p", "--no-textconv", "--format="]
    committed = subprocess.run(log, cwd=folder / "project", env=environment, capture_output=True, check=False)
    return all(marker in content or b"+" + marker in committed.stdout for marker in MARKERS)


def run(folder: Path, size: int, seed: int) -> Shown:
    """Try every way as often as asked for, in an order that the seed decides."""
    names = list(HIDINGS) * (size // len(HIDINGS) + 1)
    random.Random(seed).shuffle(names)
    lost = 0
    for number, name in enumerate(names[:size]):
        if faults := hide(folder / str(number), name):
            lost += 1
            print(f"  {name}: {', '.join(faults)}", flush=True)
        shutil.rmtree(folder / str(number), ignore_errors=True)
    return Shown(load=f"{size} parallel runs, {len(HIDINGS)} ways to hide work from git", tried=size, lost=lost)


TRIALS = (
    Trial(
        name="merges",
        test="work that git does not see",
        allowed="0 lost, 0 done without it",
        size=len(HIDINGS) * 5,
        run=run,
    ),
)
