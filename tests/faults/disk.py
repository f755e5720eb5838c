"""Disks that are full or fail while something is written: it is refused in a sentence, or it is there.

Single system calls of a writer fail with EIO or ENOSPC, or all from one of them on, through strace; and a small disk
of its own is filled until writes are refused. What is there can be read all the while.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from ralph.core import memory_files
from ralph.core.errors import RalphError
from ralph.core.records import AttemptOutcome, AttemptResult, TaskStatus, now, replace
from ralph.formats.memories_document import parse_document
from ralph.project import Project
from ralph.store.maintenance.check import check_database
from tests.faults.traced import Child, can_mount, can_trace
from tests.faults.trial import Shown, Trial
from tests.make import a_memory, damaged_rows, set_up_project

DOING = ("add", "task", "note", "settle", "backup")
CALLS = ("pwrite64", "write", "fdatasync", "fsync", "ftruncate")
FRESH_AFTER = 30
ON_FULL_DISKS = 3
"""Every so many-th fault is a disk that is really full."""
MANY = 20
DISK_BYTES = 3 * 1024 * 1024


class Writer:
    """One project, and a writer whose disk fails."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.chance = random.Random(seed)
        self.kept: dict[str, bool] = {}
        """Memories and tasks, and whether they were acknowledged."""
        self.lost: list[str] = []
        self.acknowledged = self.refused = 0
        self._count = 0
        set_up_project(root)
        with Project.open(root) as project:
            self.run_id = project.store.runs.start("test").id

    def name(self) -> str:
        self._count += 1
        return f"key{os.getpid()}x{self._count:06d}"

    def take(self, lines: list[str], status: int) -> None:
        """Take in what a writer told of."""
        if status:
            self.lost.append(f"the writer ended with {status}: {lines}")
        for line in lines:
            told, _, rest = line.partition(" ")
            if told == "done":
                self.acknowledged += 1
                self.kept |= {rest: True} if rest else {}
            elif told == "refused":
                key, _, why = rest.partition(" ")
                self.refused += 1
                self.kept.setdefault(key, False)
                if not why.endswith(".") or "Traceback" in why:
                    self.lost.append(f"no sentence: {why}")
            else:
                self.lost.append(line)

    def look(self, *, is_full: bool = False) -> None:
        """Compare what is there with what was acknowledged; on a full disk nothing can be written for that."""
        with Project.open(self.root) as project:
            titles = Counter(memory.title for memory in project.store.memories.all())
            titles += Counter(task.title for task in project.tasks.list() if task.status is not TaskStatus.DONE)
            self.lost += [f"{key} is lost" for key, is_told in self.kept.items() if is_told and not titles[key]]
            self.lost += [f"{count} times {key}" for key, count in titles.items() if count > 1]
            self.lost += [f"damaged: {row}" for row in damaged_rows(project.store)]
            if is_full:
                return
            self.lost += check_database(project.store.database.display_url, deep=True).problems
            project.store.attempts.release_vanished({"nowhere/1/1"})
            project.files.sync()
            path = self.root / memory_files.MEMORIES_PATH
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            active = [memory for memory in project.store.memories.all() if memory.kind == "pattern"]
            if Counter(one.id for one in parse_document(text).entries) != Counter(one.id for one in active):
                self.lost.append(f"{memory_files.MEMORIES_PATH} holds something else")


def write(root: Path, run_id: str, do: str, key: str, tells: int) -> None:
    """Make one write, tell what came of it, and whether what is there can still be read."""

    def tell(line: str) -> None:
        os.writev(tells, [f"{line}\n".encode()])  # a call that does not fail

    try:
        with Project.open(root) as project:
            before = len(project.store.memories.all())
            try:
                with project.synced():
                    _make(project, run_id, do, key)
                tell(f"done {key}" if do != "backup" else "done")
            except RalphError as error:
                tell(f"refused {key} {error}")
            if len(project.store.memories.all()) < before:
                tell("what was there cannot be read")
    except RalphError as error:
        tell(f"refused {key} {error}")
    except OSError as error:
        tell(f"crashed: {error!r}")


def _make(project: Project, run_id: str, do: str, key: str) -> None:
    if do == "add":
        project.memory.add(f"The parser wants {key}.", title=key)
    elif do == "note":
        project.memory.add(f"The parser wants {key}.", type="knowledge", title=key, tags=("note",))
    elif do == "task":
        project.tasks.add(key)
    elif do == "backup":
        project.store.backup("asked for")
    else:
        project.tasks.add(f"Work for {key}", priority=9, id=key)
        begun = project.store.attempts.begin(run_id, "nowhere/1/1", 60, agent="test")
        assert begun
        ended = replace(begun.attempt, outcome=AttemptOutcome.DONE, ended_at=now())
        learned = a_memory(key, f"The parser wants {key}.", id="", tags=("note",))
        capture = AttemptResult(attempt=ended, report=None, memories=(learned,), task_status=TaskStatus.DONE)
        project.store.attempts.finish(capture, begun.task.claim_token)


# --- calls that fail -------------------------------------------------------------------------


def failing_calls(folder: Path, size: int, seed: int) -> dict[str, object]:
    """Let system calls of writers fail so many times, each call of each kind of write in turn."""
    writer, faults, place, number = Writer(_fresh(folder), seed), 0, 0, 1
    sweeps = [(do, call) for call in CALLS for do in DOING]
    log = str(folder / "strace.log")
    tries = 0
    found: list[str] = []
    while faults < size and tries < 4 * size + 20:
        tries += 1
        if tries % FRESH_AFTER == 0:
            found += writer.lost
            told = writer.acknowledged, writer.refused
            writer = Writer(_fresh(folder), seed + tries)
            writer.acknowledged, writer.refused = told
        do, call = sweeps[place % len(sweeps)]
        error = writer.chance.choice(("EIO", "ENOSPC"))
        on = "" if call == "write" or writer.chance.random() < 0.5 else "+"
        child = Child(partial(write, writer.root, writer.run_id, do, writer.name()))
        child.trace((call,), f"error={error}:when={number}{on}", log)
        child.start()
        status, lines = child.ended()
        writer.take(lines, status)
        writer.look()
        is_hit = "INJECTED" in Path(log).read_text(errors="replace")
        faults += is_hit
        step = 1 if number < 8 else writer.chance.randint(1, 9)
        place, number = (place, number + step) if is_hit and number < 60 else (place + 1, 1)
    found += writer.lost
    return {
        "faults": faults,
        "lost": len(found),
        "why": found[:5],
        "done": writer.acknowledged,
        "refused": writer.refused,
    }


def _fresh(folder: Path) -> Path:
    root = folder / f"project-{sum(1 for _ in folder.iterdir())}"
    root.mkdir()
    return root


# --- full disks ------------------------------------------------------------------------------


def full_disks(folder: Path, size: int, seed: int) -> dict[str, object]:
    """Fill a small disk so many times, with a little room left, and write until that is refused."""
    mounted = folder / "disk"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mounted)], check=True)
    found: list[str] = []
    done = refused = 0
    for turn in range(size):
        root = mounted / f"project-{turn}"
        root.mkdir()
        writer = Writer(root, seed + turn)
        do = DOING[turn % 4]
        for _ in range(2):
            _write_once(writer, do)
        fill(mounted, leave=writer.chance.choice((0, 4, 12, 40, 120)) * 1024)
        before = writer.refused
        while writer.refused == before and writer.acknowledged < MANY and not writer.lost:
            _write_once(writer, do)
        if writer.refused == before:  # there was room for that many
            fill(mounted)
            _write_once(writer, do)
        if writer.refused == before:
            writer.lost.append(f"nothing was refused on a full disk: {do}")
        writer.look(is_full=True)
        (mounted / "filler").unlink()
        _write_once(writer, do)
        writer.look()
        found += writer.lost
        done, refused = done + writer.acknowledged, refused + writer.refused
        subprocess.run(["rm", "-r", str(root)], check=True)
    return {"faults": size, "lost": len(found), "why": found[:5], "done": done, "refused": refused}


def _write_once(writer: Writer, do: str) -> None:
    child = Child(partial(write, writer.root, writer.run_id, do, writer.name()))
    child.start()
    status, lines = child.ended()
    writer.take(lines, status)


def fill(mounted: Path, leave: int = 0) -> None:
    """Fill a disk, and leave so many bytes."""
    with (mounted / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() // 4096 * 4096 - leave))


# --- the trial -------------------------------------------------------------------------------


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let so many disks fail: by single calls, and by being full."""
    on_full = max(1, size // ON_FULL_DISKS) if can_mount() else 0
    parts = []
    for name, words, part in (("full", ["unshare", "-m"], on_full), ("calls", [], size - on_full)):
        place = folder / name
        place.mkdir()
        if part and (name == "full" or can_trace()):
            words += [sys.executable, "-m", __spec__.name, name, str(place), str(part), str(seed)]
            parts.append(subprocess.Popen(words, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE))
    ended = [started.communicate()[0] for started in parts]
    for started in parts:
        if started.returncode:
            raise RuntimeError("A part failed; what it printed says why.")
    told = [json.loads(text) for text in ended]
    for problem in [problem for one in told for problem in one["why"]]:
        print(f"lost: {problem}", file=sys.stderr)
    faults, lost, done, refused = (sum(one[name] for one in told) for name in ("faults", "lost", "done", "refused"))
    return Shown(
        load=f"{size:,} disks: calls that fail with EIO and ENOSPC, and full ones",
        tried=faults,
        lost=lost,
        says=f"{on_full:,} full disks; {refused:,} writes refused in a sentence, {done:,} acknowledged",
    )


def main() -> None:
    """Run one part, and print what it came to."""
    part = full_disks if sys.argv[1] == "full" else failing_calls
    print(json.dumps(part(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))


TRIALS = (Trial(name="disk", test="disk faults", allowed="0 acknowledged lost, 0 tracebacks", size=300, run=run),)

if __name__ == "__main__":
    main()
