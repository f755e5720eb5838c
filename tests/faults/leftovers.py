"""Programs that a session leaves in git's settings, for Ralph's own git to run after the session has ended.

The agent of a real run plants a program in one of many places and starts none itself. If it ever runs, in this run, in
a later one or when a person looks at the project, it ran outside the session, where nothing would have ended it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

SECONDS = 120.0
"""Timeout of one command, in seconds; ample for a loaded machine."""
VARIABLES = ("RALPH_STORE", "RALPH_SESSION")
HOOKS = (
    *(
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "pre-merge-commit",
    ),
    *("post-index-change", "reference-transaction", "post-rewrite", "pre-auto-gc", "fsmonitor-watchman"),
)
_ATTRIBUTES = "echo '* filter=evil diff=evil merge=evil' > .gitattributes"
_SHARED = '"$(git rev-parse --git-common-dir)"'
_FILTER = f"{_ATTRIBUTES}; git config filter.evil."

PLANTS = {
    "a clean filter": f"{_FILTER}clean '{{program}}; cat'",
    "a required filter": f"{_FILTER}clean '{{program}}; cat'; git config filter.evil.required true",
    "a filter process": f"{_FILTER}process {{program}}",
    "a smudge filter": f"{_FILTER}smudge '{{program}}; cat'",
    "a filter in info/attributes": (
        f"mkdir -p {_SHARED}/info; echo '* filter=evil' > {_SHARED}/info/attributes"
        "; git config filter.evil.clean '{program}; cat'"
    ),
    "a filter by core.attributesFile": (
        "echo '* filter=evil' > {folder}/attributes; git config core.attributesFile {folder}/attributes"
        "; git config filter.evil.clean '{program}; cat'"
    ),
    "a filter in an included file": (
        f"{_ATTRIBUTES}; printf '[filter \"evil\"]\\nclean = {{program}}\\n' > {{folder}}/included"
        "; git config include.path {folder}/included"
    ),
    "a filter under a condition": (
        f"{_ATTRIBUTES}; printf '[filter \"evil\"]\\nclean = {{program}}\\n' > {{folder}}/included"
        "; git config 'includeIf.gitdir:/.path' {folder}/included"
    ),
    "a filter of the worktree": (
        "git config extensions.worktreeConfig true"
        f"; {_ATTRIBUTES}; git config --worktree filter.evil.clean '{{program}}; cat'"
    ),
    "a filter of the user": f"{_ATTRIBUTES}; git config --global filter.evil.clean '{{program}}; cat'",
    "a file system monitor": "git config core.fsmonitor {program}",
    "a path of hooks": "mkdir {folder}/hooks; for hook in "
    + " ".join(HOOKS)
    + "; do cp {program} {folder}/hooks/$hook; done; git config core.hooksPath {folder}/hooks",
    "hooks": f"mkdir -p {_SHARED}/hooks; for hook in "
    + " ".join(HOOKS)
    + f"; do cp {{program}} {_SHARED}/hooks/$hook; done",
    "pagers": "git config core.pager {program}; git config pager.status {program}; git config pager.diff {program}",
    "an external diff": (
        f"{_ATTRIBUTES}; git config diff.external {{program}}; git config diff.evil.command {{program}}"
    ),
    "a text conversion": f"{_ATTRIBUTES}; git config diff.evil.textconv {{program}}",
    "a merge driver": f"{_ATTRIBUTES}; git config merge.evil.driver '{{program}} %A'; git config merge.default evil",
    "editors": "git config core.editor {program}; git config sequence.editor {program}",
    "signatures": "git config gpg.program {program}; git config commit.gpgSign true; git config tag.gpgSign true"
    "; git config log.showSignature true; git config merge.verifySignatures true",
    "a trailer": "git config trailer.evil.command {program}; git config trailer.evil.cmd {program}",
    "other references": "git config core.alternateRefsCommand {program}; mkdir {folder}/objects"
    f"; echo {{folder}}/objects >> {_SHARED}/objects/info/alternates",
    "credentials": "git config credential.helper '!{program}'; git config core.askPass {program}"
    "; git config core.sshCommand {program}",
    "aliases": "for name in status diff log add commit; do git config alias.$name '!{program}'; done",
    "maintenance": "git config gc.auto 1; git config maintenance.auto true; git config gc.recentObjectsHook {program}",
    "a submodule": "git config submodule.evil.update '!{program}'; git config submodule.recurse true"
    "; printf '[submodule \"evil\"]\\npath = evil\\nurl = ./evil\\n' > .gitmodules",
    "another common directory": (
        f"cp -r {_SHARED} {{folder}}/other; git config -f {{folder}}/other/config filter.evil.clean '{{program}}; cat'"
        f"; echo '* filter=evil' > {{folder}}/other/info/attributes; echo {{folder}}/other > {_SHARED}/commondir"
    ),
    "a nested repository": (
        "git init -q nested; echo x > nested/x.txt; git -C nested add .; git -C nested commit -qm x"
        "; git -C nested config filter.evil.clean '{program}; cat'; echo '* filter=evil' > nested/.git/info/attributes"
        "; git add nested; echo y > nested/x.txt"
    ),
    "a git in the path": "mkdir -p {root}/.venv/bin; cp {program} {root}/.venv/bin/git",
    "an interpreter": f"{_ATTRIBUTES}; git config filter.evil.clean '%f; {{program}}; cat'",
}
"""Shell commands of the agent; `{program}` is what must not run, `{folder}` a directory outside of the project."""
RUNS = {
    "serial": ("--max-iterations", "2"),
    "reviewed": ("--max-iterations", "2", "--review"),
    "parallel": ("--max-iterations", "3", "--parallel", "2"),
}
LATER = (("status",), ("doctor",), ("memory", "list"), ("prompt",), ("memory", "add", "Known."), ("task", "list"))
AGENT = """\
cat > /dev/null
echo "$RALPH_TASK_ID" >> work.txt
[ -e {folder}/planted ] || {{ touch {folder}/planted; {plant}; }}
[ -z "$RALPH_READ_ONLY" ] || echo '<verification-passed/>'
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


def plant(folder: Path, what: str, kind: str) -> list[str]:
    """Plant a program in one place during a run of one kind, and return what must not have happened."""
    root = folder / "project"
    root.mkdir(parents=True)
    program = folder / "program"
    program.write_text(
        f"#!/bin/sh\necho $$ >> {folder}/ran\nsetsid sleep 300 > /dev/null 2>&1 &\necho $! >> {folder}/pids\n"
    )
    program.chmod(0o755)
    (folder / "agent.sh").write_text(
        AGENT.format(folder=folder, plant=PLANTS[what].format(program=program, folder=folder, root=root))
    )
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    environment |= {"HOME": str(folder), "RALPH_MEMORIES_MEANING": "false", "GIT_CONFIG_NOSYSTEM": "1"}
    environment["PATH"] = f"{root}/.venv/bin{os.pathsep}{environment['PATH']}"

    def call(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )

    def ralph(*words: str) -> subprocess.CompletedProcess[bytes]:
        return call(sys.executable, "-m", "ralph", *words)

    for setting in ("user.name a", "user.email a@localhost"):
        call("git", "config", "--global", *setting.split())
    (root / "work.txt").write_text("start\n")
    (root / "other.txt").write_text("start\n")
    for command in ("git init -q -b main", "git add .", "git commit -qm start"):
        call(*command.split())
    set_up_project(root)
    call("git", "add", ".")
    call("git", "commit", "-qm", "Set up")
    for number in range(3):
        ralph("task", "add", f"Part {number}")
    agent = ("--", "sh", str(folder / "agent.sh"))
    ralph("run", *RUNS[kind], "--gate", "true", *agent)
    (root / "other.txt").write_text("changed by a person\n")
    for words in LATER:
        ralph(*words)
    ralph("run", "--max-iterations", "1", *agent)
    faults = {"it was never planted": not (folder / "planted").exists(), "it ran": (folder / "ran").exists()}
    _end(folder / "pids")
    return [fault for fault, happened in faults.items() if happened]


def _end(pids: Path) -> None:
    for pid in pids.read_text().split() if pids.exists() else ():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(folder: Path, size: int, seed: int) -> Shown:
    """Try as many cases as asked for, in an order that the seed decides."""
    cases = list(product(PLANTS, RUNS))
    random.Random(seed).shuffle(cases)
    lost = 0
    for number, (what, kind) in enumerate(cases[:size]):
        if faults := plant(folder / str(number), what, kind):
            lost += 1
            print(f"  {what}, {kind} run: {', '.join(faults)}", flush=True)
        shutil.rmtree(folder / str(number), ignore_errors=True)
    tried = min(size, len(cases))
    return Shown(load=f"{len(PLANTS)} places in git's settings, {len(RUNS)} kinds of runs", tried=tried, lost=lost)


TRIALS = (
    Trial(
        name="leftovers",
        test="programs left in git's settings",
        allowed="0 run after the session",
        size=len(PLANTS) * len(RUNS),
        run=run,
    ),
)
