"""A hostile clone: symlinks, pipes and names in every place where files are opened.

Outside lies a canary: a folder with a note, settings and a database of the right form. Whatever stands in the project,
no command reads it, changes it, or waits for ever. A command may refuse, with a sentence; a traceback counts too.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

from ralph.cli import main
from ralph.core.records import record
from ralph.loop import run_log
from ralph.project import Project
from ralph.store.maintenance.backup import backup_path
from ralph.store.memory_queries import MemoryFilter
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

SONG = "The canary sings: 7f3a9c"
"""Content outside the project, which no command may reveal."""
SECONDS = 30.0
"""Timeout of a case with all its commands, in seconds; ample for a loaded machine."""
VARIABLE = "CANARY"

PLACES = (
    ".ralph",
    ".ralph/ralph.db",
    ".ralph/ralph.db-wal",
    ".ralph/ralph.db-shm",
    ".ralph/ralph.db-journal",
    ".ralph/ralph.db.lock",
    ".ralph/ralph.db-live",
    ".ralph/place",
    ".ralph/setup",
    ".ralph/.gitignore",
    ".ralph/knowledge",
    ".ralph/knowledge/note.md",
    ".ralph/backups",
    ".ralph/backups/.gitignore",
    ".ralph/backups/ralph-20260101T000000000000Z.db",
    ".ralph/damaged",
    ".ralph/worktrees",
    ".agent/memories.md.bak",
    ".ralph/skills",
    ".ralph/agent",
    ".ralph/agent/memories.md",
    ".agent",
    ".agent/memories.md",
    ".ralph.toml",
    "ralph.yml",
    "ralph.yaml",
    ".claude",
    ".claude/skills",
    ".claude/settings.local.json",
    ".mcp.json",
    ".gitignore",
    "export.jsonl",
)
COMMANDS = (
    ("status",),
    ("memory", "list"),
    ("memory", "add", "Learned in the clone."),
    ("memory", "add", "Known in the clone.", "--type", "knowledge", "--title", "Note"),
    ("memory", "prime"),
    ("memory", "init", "--force"),
    ("prompt",),
    ("backup",),
    ("restore", "--yes"),
    ("memory", "export", "--to", "export.jsonl", "--force"),
    ("setup", "claude", "--yes"),
    ("init",),
    ("memory", "list"),
    ("doctor",),
)


def _link(path: Path, target: Path | str) -> None:
    path.symlink_to(target)


def _chain(path: Path, outside: Path) -> None:
    step = path.with_name("step")
    step.symlink_to(outside / "note.md")
    path.symlink_to(step.name)


def _socket(path: Path, outside: Path) -> None:
    # Its name may not be long.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _folder_with_link(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "note.md").symlink_to(outside / "note.md")
    (path / "memories.md").symlink_to(outside / "note.md")


THINGS: dict[str, Callable[[Path, Path], None]] = {
    "a link to a file outside": lambda path, outside: _link(path, outside / "note.md"),
    "a link up and out": lambda path, outside: _link(path, os.path.relpath(outside / "note.md", path.parent)),
    "a link to a folder outside": lambda path, outside: _link(path, outside),
    "a link to a database outside": lambda path, outside: _link(path, outside / "ralph.db"),
    "a link to settings outside": lambda path, outside: _link(path, outside / "settings"),
    "a link to nothing yet": lambda path, outside: _link(path, outside / "new"),
    "a link to a link": _chain,
    "a link to itself": lambda path, outside: _link(path, path.name),
    "a link to zeros without end": lambda path, outside: _link(path, "/dev/zero"),
    "a link to the environment": lambda path, outside: _link(path, "/proc/self/environ"),
    "a link to our own input": lambda path, outside: _link(path, "/proc/self/fd/0"),
    "a pipe": lambda path, outside: os.mkfifo(path),
    "a socket": _socket,
    "a folder with links": _folder_with_link,
}

NAMES = (
    "../../outside/new",
    "../outside/note",
    "/etc/cron.d/new",
    "..",
    ".",
    "../",
    "a/../../../outside/new",
    "..\\..\\outside\\new",
    "%2e%2e%2foutside%2fnew",
    "....//....//outside/new",
    "~/new",
    "$HOME/new",
    "-rf",
    "--to=../outside/new",
    "new\nline",
    "tab\there",
    "bell\aring",
    "nul\0byte",
    "\u202eever\u2066sed",
    "\uff0e\uff0e\uff0foutside",
    "CON",
    ".git/config",
    ".git/hooks/post-commit",
    "ralph.db",
    "x" * 5000,
    "é" * 300,
    "*",
    "[a-z]*",
    "{a,b}",
    "`touch new`",
    "$(touch new)",
    "; touch new",
    "|touch new",
)


def _title(project: Project, name: str, outside: Path) -> None:
    project.memory.add("It has a name.", type="knowledge", title=name, tags=["x"])


def _json(project: Project, name: str, outside: Path) -> None:
    entry = {"id": name, "type": "knowledge", "title": name, "content": "It has a name.", "tags": [name]}
    print(project.transfer.import_text(json.dumps({"memories": [entry]}), "memories.json"))


def _csv(project: Project, name: str, outside: Path) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["id", "type", "title", "content", "tags"], [name, "knowledge", name, "Named.", name]])
    print(project.transfer.import_text(text.getvalue(), "memories.csv"))


def _bundle(project: Project, name: str, outside: Path) -> None:
    project.memory.add("It is carried.", type="knowledge", title="Carried", tags=["x"])
    pieces = [piece for _, parts in project.transfer.export("bundle", MemoryFilter()).files for piece in parts]
    print(project.transfer.import_text("".join(pieces).replace('"Carried"', json.dumps(name)), "memories.jsonl"))


def _source(project: Project, name: str, outside: Path) -> None:
    print(project.transfer.import_text(f"## Patterns\n\n### mem-1-0001\n> Brought from {name!r}.\n", name))


def _task(project: Project, name: str, outside: Path) -> None:
    print(project.tasks.import_(json.dumps({"id": name, "title": name, "needs": [name]}) + "\n", "tasks.jsonl"))
    print(project.tasks.add(name, feature=project.features.add(name).id))


def _file_of(project: Project, name: str, outside: Path) -> None:
    names = [name, f"{name}/*", f"{name}/**", str(outside / "note.md"), "../outside/note.md", "/**", "../../**"]
    kept = project.memory.add("It is about a file.", files=names).memory
    project.memory.confirm(kept.id)
    if (text := hashlib.sha1((outside / "note.md").read_bytes()).hexdigest()) in project.memory.get(kept.id).seen:
        print(f"Traceback: a file outside was read, {text}")
    if "note.md" in project.memory.get(kept.id).seen:
        print("Traceback: a file outside was looked at")


def _backup(project: Project, name: str, outside: Path) -> None:
    print(backup_path(f"{project.root}/.ralph/ralph.db", name))


def _run(project: Project, name: str, outside: Path) -> None:
    print(run_log.read_events(project.root, name))


def _neighbour(project: Project, name: str, outside: Path) -> None:
    print(project.open_other(name).directory)


DOORS: dict[str, Callable[[Project, str, Path], object]] = {
    "a title": _title,
    "JSON": _json,
    "CSV": _csv,
    "a bundle": _bundle,
    "the name of a file that is imported": _source,
    "a task": _task,
    "a file a memory is about": _file_of,
    "a backup": _backup,
    "a run": _run,
    "a project": _neighbour,
}
"""Ways in which a name comes in."""


@record
class Case:
    """One thing in one place, or one name by one way in."""

    place: str
    thing: str


def cases() -> list[Case]:
    """Return all cases."""
    found = [Case(place=place, thing=thing) for place, thing in product(PLACES, THINGS)]
    return found + [Case(place=door, thing=name) for door, name in product(DOORS, NAMES)]


def run(folder: Path, size: int, seed: int) -> Shown:
    """Try so many cases, spread over all there are, each in a project of its own."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
    with tempfile.TemporaryDirectory(dir=place, prefix="ralph-links-") as quick:
        return _tried_all(Path(quick), size, seed)


def _tried_all(folder: Path, size: int, seed: int) -> Shown:
    all_cases = cases()
    size = min(size, len(all_cases))
    chosen = [all_cases[(n * len(all_cases) // size + seed) % len(all_cases)] for n in range(size)]
    outside = make_outside(folder / "outside")
    pattern = folder / "pattern"
    make_clone(pattern)
    before = state_of(outside)
    lost = 0
    slowest = 0.0
    for number, case in enumerate(chosen):
        began = time.monotonic()
        wrong = tried(case, pattern, folder / "clone", outside)
        slowest = max(slowest, time.monotonic() - began)
        if state_of(outside) != before:
            wrong.append("what is outside has changed")
            shutil.rmtree(outside)
            before = state_of(make_outside(outside))
        if wrong:
            lost += 1
            print(f"{number}: {case.thing!r:.60} as {case.place}: {'; '.join(wrong)}", file=sys.stderr)
    return Shown(
        load=f"{len(THINGS)} things in {len(PLACES)} places, {len(NAMES)} names by {len(DOORS)} ways",
        tried=len(chosen),
        lost=lost,
        says=f"the slowest took {slowest:.1f} s with all its commands",
    )


TRIALS = (Trial(name="links", test="traversal", allowed="0", size=len(cases()), run=run),)


def make_outside(outside: Path) -> Path:
    """Make what is to be left alone, of a form that would be taken in if it were read."""
    outside.mkdir()
    text = f"---\ntitle: Canary\ntags: [x]\n---\n\n{SONG}\n\n## Patterns\n\n### mem-1-0001\n> {SONG}\n"
    for name in ("note.md", "memories.md"):
        (outside / name).write_text(text)
    (outside / "settings").write_text(f'[gates]\ntest = "echo {SONG}"\n')
    (outside / "knowledge").mkdir()
    (outside / "knowledge" / "note.md").write_text(text)
    home = outside / "home"
    home.mkdir()
    set_up_project(home)
    with Project.open(home) as project:
        project.memory.add(SONG)
    for path in (home / ".ralph").glob("ralph.db*"):
        if path.is_file():
            shutil.copy(path, outside / path.name)
    return outside


def make_clone(root: Path) -> None:
    """Make a project with one of everything."""
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    set_up_project(root)
    with Project.open(root) as project:
        project.tasks.add("A task")
        project.memory.add("A first pattern.")
        project.memory.add("A first fact.", type="knowledge", title="First", tags=["x"])
        project.store.database.close()


def state_of(folder: Path) -> dict[str, str]:
    """Return the names in a folder with hashes of their content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def tried(case: Case, pattern: Path, clone: Path, outside: Path) -> list[str]:
    """Run one case and return what went wrong."""
    shutil.rmtree(clone, ignore_errors=True)
    shutil.copytree(pattern, clone, symlinks=True)
    said = clone.with_name("said")
    if case.place in DOORS:
        work = lambda: _by_door(case, clone, outside)  # noqa: E731
    else:
        put(case, clone, outside)
        work = lambda: _by_commands(clone)  # noqa: E731
    wrong = [] if in_time(work, said, clone) else ["it took too long"]
    text = said.read_text(errors="replace")
    if "Traceback" in text:
        wrong.append(text[text.index("Traceback") :].strip().split("\n")[-1])
    if SONG in text:
        wrong.append("what is outside was shown")
    wrong += [f"what is outside is in {path.name}" for path in _files(clone) if SONG.encode() in path.read_bytes()]
    return wrong


def put(case: Case, clone: Path, outside: Path) -> None:
    """Put a thing into its place, instead of what is there."""
    path = clone / case.place
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    THINGS[case.thing](path, outside)


def _files(clone: Path) -> Iterator[Path]:
    """Yield the regular files of a project."""
    for folder, _, names in os.walk(clone):
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path


def in_time(work: Callable[[], None], said: Path, where: Path) -> bool:
    """Do something in a process of its own, that starts with all modules loaded; say whether it ended in time."""
    said.write_text("")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            output = os.open(said, os.O_WRONLY | os.O_APPEND)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdin, sys.stdout, sys.stderr = (
                open(n, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
                for n, mode in ((0, "r"), (1, "w"), (2, "w"))
            )
            os.chdir(where)
            home = where.with_name("home")
            home.mkdir(exist_ok=True)
            os.environ.update({VARIABLE: SONG, "HOME": str(home), "XDG_STATE_HOME": str(home)})
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _by_commands(clone: Path) -> None:
    for words in COMMANDS:
        print(f"$ ralph {' '.join(words)}", flush=True)
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        print(f"-> {code}", flush=True)
    _by_hook(clone)


def _by_hook(clone: Path) -> None:
    from ralph.integrations import hooks

    event = {"session_id": "s", "cwd": str(clone), "hook_event_name": "SessionStart", "transcript_path": "x"}
    print("$ ralph hook session-start", flush=True)
    read, write = os.pipe()
    os.write(write, json.dumps(event).encode())
    os.close(write)
    os.dup2(read, 0)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    hooks.main(["session-start"])


def _by_door(case: Case, clone: Path, outside: Path) -> None:
    from ralph.core.errors import RalphError

    with Project.open(clone) as project:
        try:
            DOORS[case.place](project, case.thing, outside)
            project.files.sync()
        except RalphError as error:
            print(f"Error: {error}")
        main(("memory", "list"))
        main(("memory", "export", "--format", "knowledge", "--to", str(clone / "exported")))
        main(("task", "list"))
    for path in sorted(clone.parent.iterdir()):
        if path.name not in ("outside", "pattern", "clone", "said", "home"):
            print(f"Traceback: {path} was made")
    if (clone / "new").exists():
        print("Traceback: something was run")
