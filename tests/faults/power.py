"""Power loss, for real: a filesystem that is shut down without writing out its journal, while programs write to it.

The filesystem is ext4 in a file. Writers say on a pipe what they are about to do and what was acknowledged; whoever
reads it is outside of that filesystem. EXT4_IOC_SHUTDOWN then drops all that is not on the disk, the writers are
killed, and the filesystem is mounted anew. All of it happens in a mount namespace that ends with the process.

What is acknowledged after that moment proves nothing: a machine without power says nothing any more, while here a
sync that was under way may be answered with success. It counts as tried.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ralph.core.config import StoreConfig
from ralph.core.files import write_atomically
from ralph.core.records import AttemptOutcome, MemoryState, TaskStatus, record_fields
from ralph.formats.sync.disk import FileContent
from ralph.formats.sync.disk import SyncedFiles as Synchronised
from ralph.formats.sync.location import working_copy_id
from ralph.project import Project
from ralph.store.maintenance.backup import backup_paths
from ralph.store.maintenance.check import check_database
from ralph.web.tokens import load_or_create_token, read_token
from ralph.workspace import init_project, save_location
from tests.faults.trial import Shown, Trial
from tests.make import finish

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_MEGABYTES = 96
CYCLES_PER_PROJECT = 20
"""Then a new one is begun, so that looking through all of it stays quick."""
WRITERS = 3
"""Two of memories and their files, one of tasks and backups."""
BACKUPS = 8
"""So many of the latest are looked for: older ones make room."""
LONGEST_SECONDS = 0.6
"""After the first acknowledgement, until the power is lost."""

Note = dict[str, Any]


def run(folder: Path, size: int, seed: int) -> Shown:
    """Lose power so often."""
    return Shown(**_apart(folder, size, seed))


def files_not_kept(folder: Path) -> list[str]:
    """Lose power after each thing that ends in a file; give what was not there then."""
    return list(_apart(folder, 0, 0))


def _apart(folder: Path, size: int, seed: int) -> Any:
    """Do it in a process of its own, with mounts of its own; give what it says."""
    words = ("unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.faults.power")
    done = subprocess.run(
        [*words, str(folder), str(size), str(seed)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def why_not() -> str:
    """Say why this cannot be tried here; nothing when it can."""
    if os.geteuid() != 0:
        return "power loss needs root, for mounts"
    if not Path("/dev/loop-control").exists():
        return "power loss needs loop devices"
    tried = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    return "" if tried.returncode == 0 else "power loss needs a mount namespace of its own"


# --- the filesystem ----------------------------------------------------------------------


class Disk:
    """An ext4 filesystem that can lose its power."""

    def __init__(self, folder: Path) -> None:
        memory = folder / "memory"
        self.path = folder / "disk"
        memory.mkdir()
        self.path.mkdir()
        _call("mount", "-t", "tmpfs", "tmpfs", str(memory))
        self._image = memory / "image"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_MEGABYTES << 20)
        self.clear()

    def clear(self) -> None:
        """Begin with an empty one."""
        if self.path.is_mount():
            self.unmount()
        _call("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount it; what its journal holds is done."""
        _call("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it."""
        _call("umount", str(self.path))

    def lose_power(self) -> None:
        """Drop everything that is not on the disk."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)


def _call(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


# --- the writers -------------------------------------------------------------------------


class Writer:
    """Writes on and on, and tells of each step before and after it."""

    def __init__(self, root: Path, number: int, cycle: int, told: int, known: dict[str, Note], seed: str) -> None:
        self._root = root
        self._name = f"w{number}c{cycle}"
        self._told = told
        self._known = known
        self._random = random.Random(seed)
        self._count = 0

    def write(self, *, is_for_tasks: bool) -> None:
        """Write until something is in the way, which is told as well."""
        try:
            with Project.open(self._root) as project:
                while True:
                    if is_for_tasks:
                        self._settle_a_task(project) if self._random.random() < 0.8 else self._back_up(project)
                    else:
                        self._change_a_memory(project)
        except BaseException as error:
            self._tell(error=f"{type(error).__name__}: {error}")
            os._exit(0)

    def _tell(self, **note: object) -> None:
        os.write(self._told, json.dumps({**note, "at": time.monotonic()}).encode() + b"\n")

    def _change_a_memory(self, project: Project) -> None:
        there = [key for key, one in self._known.items() if one["version"]]
        choice = self._random.random()
        if choice < 0.5 or not there:
            self._count += 1
            key, version = f"{self._name}n{self._count}", 1
            kind = self._random.choice(("knowledge", "pattern"))
            self._tell(tries=key, version=version)
            with project.synced():
                kept = project.memory.add(text(key, version, self._random), title=f"Title {key}", type=kind)
            self._known[key] = {"id": kept.memory.id, "version": version}
        elif choice < 0.85:
            key = self._random.choice(there)
            version = self._known[key]["version"] + 1
            self._tell(tries=key, version=version)
            with project.synced():
                project.memory.edit(self._known[key]["id"], content=text(key, version, self._random))
            self._known[key]["version"] = version
        else:
            key = self._random.choice(there)
            self._tell(tries=key, version=0)
            with project.synced():
                project.memory.delete(self._known[key]["id"])
            self._known[key]["version"] = 0
        self._tell(did=key, **self._known[key])

    def _settle_a_task(self, project: Project) -> None:
        task_id = project.tasks.add(f"Task of {self._name}").id
        self._tell(task=task_id, status="pending")
        store = project.store
        begun = store.attempts.begin(store.runs.start("test").id, self._name, 60, agent="test", task_id=task_id)
        assert begun
        finish(store, begun.task, begun.attempt, AttemptOutcome.DONE, TaskStatus.DONE)
        self._tell(task=task_id, status="done")

    def _back_up(self, project: Project) -> None:
        self._tell(backup=project.store.backup("asked for"))


def text(key: str, version: int, choose: random.Random) -> str:
    """Give a text that shows whether it is whole, of any length and unlike all others."""
    words = " ".join(f"{choose.getrandbits(32):08x}" for _ in range(choose.choice((3, 30, 900))))
    return f"BEGIN-{key}-{version}. {words}. END-{key}-{version}."


# --- what must be there ------------------------------------------------------------------


class Book:
    """What was acknowledged, and what was tried without an answer."""

    def __init__(self) -> None:
        self.known: list[dict[str, Note]] = [{} for _ in range(WRITERS)]
        self.tried: list[dict[str, set[int]]] = [{} for _ in range(WRITERS)]
        """What each writer tried without an answer that counts: which memory, and to which versions it was to come."""
        self.tasks: dict[str, str] = {}
        self.backups: list[str] = []
        self.acknowledged = 0
        self.cut_off = 0
        """How many changes were tried, and the power went before they were acknowledged."""

    def note(self, writer: int, note: Note, lost_at: float = math.inf) -> None:
        """Write down what a writer says; after the power was lost it can only try."""
        if "tries" in note:
            self.tried[writer].setdefault(note["tries"], set()).add(note["version"])
        if "tries" in note or "error" in note or note["at"] >= lost_at:
            return
        self.acknowledged += 1
        if "did" in note:
            self.known[writer][note["did"]] = {"id": note["id"], "version": note["version"]}
            del self.tried[writer][note["did"]]
        elif "task" in note:
            self.tasks[note["task"]] = note["status"]
        else:
            self.backups.append(note["backup"])

    def compare(self, root: Path, *, deep: bool) -> list[str]:
        """Say what is not as it was acknowledged; take on what was tried and is there."""
        wrong = [
            f"the database: {problem}" for problem in check_database(str(root / ".ralph/ralph.db"), deep=deep).problems
        ]
        wrong += _torn(root)
        with Project.open(root) as project:
            stored = {memory.id: memory for memory in project.store.memories.all()}
            by_key = {memory.title.removeprefix("Title "): memory for memory in stored.values()}
            if len(by_key) != len(stored):
                wrong.append(f"{len(stored) - len(by_key)} memories are there twice")
            for known, tried in zip(self.known, self.tried, strict=True):
                self.cut_off += len(tried)
                fresh = by_key.keys() & tried.keys() - known.keys()
                known |= {key: {"id": by_key[key].id, "version": min(tried[key])} for key in fresh}
                for key, one in known.items():
                    memory = stored.get(one["id"])
                    allowed = {one["version"], *tried.get(key, ())}
                    seen = _version(key, memory.content) if memory and memory.state is MemoryState.ACTIVE else 0
                    if seen not in allowed:
                        wrong.append(f"{key} should be at {allowed}, and is at {seen}")
                    one["version"] = seen
                tried.clear()
            for task in project.store.tasks.all():
                if self.tasks.pop(task.id, "pending") == "done" and task.status is not TaskStatus.DONE:
                    wrong.append(f"{task.id} was done, and is {task.status}")
            wrong += [f"{id} is gone" for id in self.tasks]
            self.tasks = {task.id: task.status.value for task in project.store.tasks.all()}
            for path in self.backups[-BACKUPS:]:
                wrong += [f"{path}: {problem}" for problem in check_database(path).problems]
            wrong += self._out_of_step(project, root)
        return wrong

    def _out_of_step(self, project: Project, root: Path) -> list[str]:
        """Bring the files in step, and say what that changed in the store, or left different in the files."""
        before = {memory.id: (memory.state, memory.content) for memory in project.store.memories.all()}
        project.files.sync()
        after = {memory.id: (memory.state, memory.content) for memory in project.store.memories.all()}
        wrong = [*project.files.problems]
        changed = [id for id in before.keys() | after.keys() if before.get(id) != after.get(id)]
        if changed:
            wrong.append(f"a sync changed what is stored: {changed}")
        said = "\n".join(_files(root).values())
        for known in self.known:
            for key, one in known.items():
                held = [number for number in range(1, one["version"] + 2) if f"END-{key}-{number}." in said]
                if held != [one["version"]] * bool(one["version"]):
                    wrong.append(f"the files hold {key} at {held}, not at {one['version']}")
        return wrong


def _version(key: str, body: str) -> int:
    """Give the version that a text is whole in."""
    mark = f"BEGIN-{key}-"
    if not body.startswith(mark):
        return -1
    version = body[len(mark) :].partition(".")[0]
    return int(version) if body.endswith(f"END-{key}-{version}.") else -1


def _files(root: Path) -> dict[str, str]:
    paths = [*(root / ".ralph/knowledge").glob("*.md"), root / ".agent/memories.md"]
    return {str(path): path.read_text(encoding="utf-8", errors="replace") for path in paths if path.exists()}


def _torn(root: Path) -> list[str]:
    """Give the files that are neither as they were nor as they were to be."""
    torn = []
    for path, said in _files(root).items():
        begun = sorted(part.partition(".")[0] for part in said.split("BEGIN-")[1:])
        ended = sorted(part.partition(".")[0] for part in said.split("END-")[1:])
        if begun != ended or "\0" in said or not said:
            torn.append(f"{path} is torn")
    return torn


# --- the trial ---------------------------------------------------------------------------


def lose_power(disk: Disk, size: int, seed: int) -> Shown:
    """Let writers write, take the power away, look; so many times."""
    choose = random.Random(seed)
    wrong: list[str] = []
    acknowledged = cut_off = 0
    book = Book()
    for cycle in range(size):
        root = disk.path / "project"
        if cycle % CYCLES_PER_PROJECT == 0:
            acknowledged, cut_off = acknowledged + book.acknowledged, cut_off + book.cut_off
            book = Book()
            if cycle:
                disk.clear()
            root.mkdir()
            init_project(root)
            _call("sync", "-f", str(root))
        _write_until_power_is_lost(disk, root, book, cycle, choose)
        disk.unmount()
        disk.mount()
        wrong += [f"cycle {cycle}: {one}" for one in book.compare(root, deep=cycle % 5 == 0)]
    disk.unmount()
    print(*wrong[:20], sep="\n", file=sys.stderr)
    acknowledged, cut_off = acknowledged + book.acknowledged, cut_off + book.cut_off
    return Shown(
        load=f"{size} shutdowns, {WRITERS} writers",
        tried=size,
        lost=len(wrong),
        says=f"{acknowledged:,} writes were acknowledged, {cut_off:,} cut off in the middle",
    )


def _write_until_power_is_lost(disk: Disk, root: Path, book: Book, cycle: int, choose: random.Random) -> None:
    children: list[int] = []
    pipes: list[int] = []
    rest = [b""] * WRITERS
    for number in range(WRITERS):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                writer = Writer(root, number, cycle, writing, book.known[number], f"{choose.random()}-{number}")
                writer.write(is_for_tasks=number == WRITERS - 1)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writing)
        children.append(child)
        pipes.append(reading)

    def listen(seconds: float) -> int:
        ready, _, _ = select.select(pipes, [], [], seconds)
        for pipe in ready:
            number = pipes.index(pipe)
            lines = (rest[number] + os.read(pipe, 1 << 16)).split(b"\n")
            rest[number] = lines.pop()
            for line in lines:
                book.note(number, json.loads(line))
        return len(ready)

    try:
        before = book.acknowledged
        while book.acknowledged == before and listen(5):
            pass
        deadline = time.monotonic() + choose.random() * LONGEST_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            listen(left)
        lost_at = time.monotonic()
        disk.lose_power()
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    for number, pipe in enumerate(pipes):
        while said := os.read(pipe, 1 << 16):
            rest[number] += said
        os.close(pipe)
        for line in rest[number].split(b"\n")[:-1]:
            book.note(number, json.loads(line), lost_at)


# --- each file we acknowledge ------------------------------------------------------------


def keep_files(disk: Disk) -> list[str]:
    """Do one thing after the other that ends in a file, lose power right after each, and say what is not there."""
    wrong: list[str] = []
    opened: list[Project] = []
    root = disk.path / "project"
    root.mkdir()
    _call("sync", "-f", str(root))

    def after_power_loss(what: str, act: Callable[[], object], is_so: Callable[[], bool]) -> None:
        _in_a_child(act)
        disk.lose_power()
        disk.unmount()
        disk.mount()
        if not is_so():
            wrong.append(what)

    def note() -> Path:
        found = list((root / ".ralph/knowledge").glob("*.md"))
        return found[0] if found else root / "none"

    def change(act: Callable[[Project], object]) -> None:
        opened.append(Project.open(root))
        with opened[-1].synced():
            act(opened[-1])

    def holds(path: Path, part: str) -> bool:
        return path.exists() and part in path.read_text(encoding="utf-8")

    database, settings = root / ".ralph/ralph.db", root / ".ralph.toml"
    after_power_loss(
        "what init makes",
        lambda: init_project(root),
        lambda: not check_database(str(database)).problems and settings.exists(),
    )
    after_power_loss(
        "a knowledge file",
        lambda: change(lambda project: project.memory.add("First.", title="A", type="knowledge")),
        lambda: holds(note(), "First."),
    )
    after_power_loss(
        "an edited knowledge file",
        lambda: change(lambda project: project.memory.edit(project.store.memories.all()[0].id, content="Second.")),
        lambda: holds(note(), "Second."),
    )
    seen = FileContent(path=f".ralph/knowledge/{note().name}", content=b"", stat=_size(note()))
    after_power_loss(
        "a knowledge file taken away",
        lambda: change(
            lambda project: Synchronised(project.store, root, working_copy_id(project.store, root)).delete(
                seen.path, seen
            )
        ),
        lambda: not note().exists(),
    )
    after_power_loss(
        "a new file", lambda: write_atomically(root / "a/b/c", b"whole"), lambda: holds(root / "a/b/c", "who")
    )
    after_power_loss(
        "a token", lambda: load_or_create_token(root / "t/token"), lambda: bool(read_token(root / "t/token"))
    )
    after_power_loss(
        "settings",
        lambda: save_location(root, StoreConfig(), StoreConfig(project="x"), is_new=False),
        lambda: holds(settings, 'project = "x"'),
    )
    after_power_loss(
        "a backup",
        lambda: change(lambda project: project.store.backup("asked for")),
        lambda: bool(made := backup_paths(str(database))) and not check_database(made[0]).problems,
    )
    disk.unmount()
    return wrong


def _in_a_child(act: Callable[[], object]) -> None:
    """Do something in a process that ends without tidying up: that would make more durable than was acknowledged."""
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("What was to be kept could not be done.")


def _size(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


TRIALS = (Trial(name="power", test="power loss", allowed="0 acknowledged lost, 0 corrupt", size=200, run=run),)


if __name__ == "__main__":
    folder, size, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(record_fields(lose_power(Disk(folder), size, seed)) if size else keep_files(Disk(folder))))
