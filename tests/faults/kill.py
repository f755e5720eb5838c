"""`kill -9` while memories and tasks are written: at any moment, and at every system call of a write.

A writer tells of each write when it has returned, and is then ended. What it told of must be there, in the database
and in the markdown files; what it had begun is there wholly or not at all, and asked for again it is there once.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

from ralph.core import memory_files
from ralph.core.records import AttemptOutcome, AttemptResult, Memory, MemoryState, TaskStatus, now, record, replace
from ralph.formats.knowledge_md import parse_note
from ralph.formats.memories_document import SECTION_HEADINGS, parse_document
from ralph.project import Project
from ralph.store.maintenance.check import check_database
from ralph.store.memory_queries import MemoryFilter
from tests.faults.traced import NAMES, Child, can_trace
from tests.faults.trial import Shown, Trial
from tests.make import a_memory, damaged_rows, set_up_project

LANES = 2
FRESH_AFTER = 25
"""So many cycles share a project."""
TRACED = 0.6
"""The share of cycles in which a system call ends the writer."""
MANY = 20
LONGEST_SECONDS = 0.03
"""A write takes about so long."""
WORKER = "nowhere/1/1"
KEY = re.compile(r"\bkey\d+x\d{6}\b")
_SWEPT = tuple(
    (do, calls)
    for calls in (("pwrite64",), ("write",), ("fsync",), ("fdatasync",), ("ftruncate",), NAMES)
    for do in ("add", "note", "edit", "delete", "work", "task")
)


@record
class Said:
    """A memory as it should be."""

    body: str
    is_active: bool = True
    events: int = 1


@record
class Write:
    """Something the writer is asked to do."""

    do: str
    key: str
    id: str = ""
    body: str = ""


class Lane:
    """One project after the other, with a writer that is ended again and again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self._count = 0
        self._root = folder
        self._known: dict[str, Said] = {}
        self._ids: dict[str, str] = {}
        self._tasks: dict[str, TaskStatus] = {}
        self._run_id = ""
        self._sweep = [0, 1]
        self.lost: list[str] = []
        self.kills: Counter[str] = Counter()
        self.acknowledged = self.cut_off = self.cut_in_two = self.left = 0

    def run(self, cycles: int) -> None:
        """End a writer so many times, and look each time what is there."""
        for cycle in range(cycles):
            if cycle % FRESH_AFTER == 0:
                self._start_anew()
            self._cycle()
        self._check_leftovers()

    def _start_anew(self) -> None:
        if self._run_id:
            self._check_leftovers()
            shutil.rmtree(self._root)
        self._count += 1
        self._root = self._folder / f"project-{self._count}"
        self._root.mkdir()
        set_up_project(self._root)
        self._known, self._ids, self._tasks = {}, {}, {}
        with Project.open(self._root) as project:
            self._run_id = project.store.runs.start("test").id
            for do in ("add", "note", "add", "note", "add", "note", "task", "task"):
                self._take(self._new(do), _made(project, self._new_write, self._run_id))

    # --- one cycle -----------------------------------------------------------------------

    def _new(self, do: str) -> Write:
        self._count += 1
        key = f"key{os.getpid()}x{self._count:06d}"  # none begins another one, which would be the same title
        chosen = [one for one, said in self._known.items() if said.is_active and one in self._ids]
        if do in ("edit", "delete") and chosen:
            key = self._chance.choice(chosen)
            write = Write(do=do, key=key, id=self._ids[key], body=f"The {key} was changed at {self._count}.")
        else:
            do = "add" if do in ("edit", "delete") else do
            write = Write(do=do, key=key, id=f"t-{key}" if do == "task" else "", body=f"The {key} wants {self._count}.")
        self._new_write = write
        return write

    def _cycle(self) -> None:
        is_traced = can_trace() and self._chance.random() < TRACED
        do, calls = _SWEPT[self._sweep[0]]
        if is_traced and do == "work" and TaskStatus.PENDING not in self._tasks.values():
            do = "task"
        writes = [self._new(do)] if is_traced else self._some()
        root, run_id = self._root, self._run_id
        child = Child(lambda tells: _write(root, run_id, writes, tells))
        if is_traced:
            child.trace(calls, f"signal=KILL:when={self._sweep[1]}")
        child.start()
        if not is_traced:
            child.await_lines(self._chance.randint(0, MANY))
            time.sleep(self._chance.random() * LONGEST_SECONDS)
            child.kill()
        status, lines = child.ended()
        self._count_kill(is_traced, os.WIFSIGNALED(status), calls)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            self.lost.append(f"the writer failed: {lines}")
        self._look(writes, lines)

    def _some(self) -> list[Write]:
        """Give many writes, of which none is about a memory that another one is about."""
        found: dict[str, Write] = {}
        for _ in range(MANY):
            write = self._new(self._chance.choice(("add", "note", "edit", "delete", "task", "work")))
            found.setdefault(write.key, write)
        return list(found.values())

    def _count_kill(self, is_traced: bool, is_killed: bool, calls: tuple[str, ...]) -> None:
        """Count it; a sweep goes on with the next call, or, after the last one, with the next kind of write."""
        if is_killed:
            self.kills[calls[0] if is_traced else "any moment"] += 1
        if is_traced:
            place, number = self._sweep
            # The first calls one by one; of a long row of like ones some are left out.
            step = 1 if number < 12 else self._chance.randint(1, 6)
            self._sweep = [place, number + step] if is_killed else [(place + 1) % len(_SWEPT), 1]

    # --- what is there -------------------------------------------------------------------

    def _look(self, writes: list[Write], lines: list[str]) -> None:
        begun = [int(line[1:]) for line in lines if line.startswith("?")]
        told = {int(line[1:].split()[0]): line.split()[1:] for line in lines if line.startswith("!")}
        self.acknowledged += len(told)
        for number, ids in told.items():
            self._take(writes[number], ids[0] if ids else "")
        pending = writes[begun[-1]] if begun and begun[-1] not in told else None
        self.cut_off += pending is not None
        self.left += sum(1 for _ in self._temporary())
        with Project.open(self._root) as project:
            self._compare(project, pending)
            if pending:
                project.store.attempts.release_vanished({WORKER})
                self._retry(project, pending)
                self._compare(project, None)

    def _retry(self, project: Project, write: Write) -> None:
        """Ask for a write once more, as who got no answer does; what is asked for is there once."""
        key, before = write.key, self._known.get(write.key)
        if write.do == "work" or (write.do == "delete" and before and not before.is_active):
            return
        self._take(write, _made(project, write, self._run_id))
        if before and write.do in ("add", "note"):  # said by a person twice: it is no new memory, but surer
            self._known[key] = replace(before, events=before.events + 1)

    def _take(self, write: Write, id: str) -> None:
        """Take a write for made."""
        key = write.key
        if write.do == "task":
            self._tasks[write.id] = TaskStatus.PENDING
        elif write.do == "work":
            if id:
                self._tasks[id] = TaskStatus.DONE
                self._known[key] = Said(body=write.body)
        elif write.do == "edit":
            before = self._known[key]
            self._known[key] = replace(before, body=write.body, events=before.events + 1)
        elif write.do == "delete":
            before = self._known[key]
            self._known[key] = replace(before, is_active=False, events=before.events + 1)
        else:
            self._known[key] = Said(body=write.body)
            self._ids[key] = id

    def _compare(self, project: Project, pending: Write | None) -> None:
        """Compare all there is with what should be; what was begun may be made or not, and is taken as it is."""
        problems = [f"damaged: {row}" for row in damaged_rows(project.store)]
        problems += check_database(project.store.database.display_url, deep=True).problems
        project.files.sync()
        found: dict[str, list[Memory]] = {}
        for memory in project.store.memories.find(MemoryFilter(states=tuple(MemoryState))):
            for key in KEY.findall(memory.content)[:1]:
                found.setdefault(key, []).append(memory)
        tasks = {task.id: task.status for task in project.store.tasks.all()}
        if pending and (self._is_made(pending, found, tasks)):
            self._take(pending, self._id_of(pending, found, tasks))
            self.cut_in_two += 1
        problems += [f"{len(rows)} rows of {key}" for key, rows in found.items() if len(rows) != 1]
        problems += [f"nobody asked for {key}" for key in found if key not in self._known]
        for key, said in self._known.items():
            problems += self._differs(project, key, said, found.get(key, []))
        done = {id for id, status in tasks.items() if status is TaskStatus.DONE}
        if done != {id for id, status in self._tasks.items() if status is TaskStatus.DONE}:
            problems.append("the tasks that are done are others")
        if set(tasks) != set(self._tasks):
            problems.append("the tasks are others")
        problems += self._files_differ([rows[0] for rows in found.values()])
        self.lost += problems

    def _is_made(self, write: Write, found: dict[str, list[Memory]], tasks: dict[str, TaskStatus]) -> bool:
        rows = found.get(write.key, [])
        if write.do == "task":
            return write.id in tasks
        if write.do == "delete":
            return bool(rows) and rows[0].state is not MemoryState.ACTIVE
        return bool(rows) and rows[0].content == write.body

    def _id_of(self, write: Write, found: dict[str, list[Memory]], tasks: dict[str, TaskStatus]) -> str:
        if write.do == "work":
            new = [
                id for id, status in tasks.items() if status is TaskStatus.DONE and self._tasks.get(id) is not status
            ]
            return new[0] if len(new) == 1 else ""
        return write.id if write.do == "task" else found[write.key][0].id

    def _differs(self, project: Project, key: str, said: Said, rows: list[Memory]) -> list[str]:
        if not rows:
            return [f"{key} is lost"]
        row, history = rows[0], project.store.memories.history.of(rows[0].id)
        problems = []
        if row.content != said.body or (row.state is MemoryState.ACTIVE) is not said.is_active:
            problems.append(f"{key} is {row.content!r}, {row.state}, and should be {said}")
        if len(history) != said.events:
            problems.append(f"{key} has {[one.what for one in history]}, and should have {said.events} events")
        return problems

    def _files_differ(self, rows: list[Memory]) -> list[str]:
        """Say where the files do not hold what is in use, once each."""
        active = [row for row in rows if row.state is MemoryState.ACTIVE]
        path = self._root / memory_files.MEMORIES_PATH
        entries = parse_document(path.read_text(encoding="utf-8")).entries if path.exists() else ()
        listed = Counter((entry.id, entry.body.strip()) for entry in entries)
        problems = []
        if listed != Counter((row.id, row.content) for row in active if row.kind in SECTION_HEADINGS):
            problems.append(f"{memory_files.MEMORIES_PATH} holds something else")
        notes = [
            _note(one.read_text(encoding="utf-8")) for one in (self._root / memory_files.KNOWLEDGE_DIR).glob("[!.]*.md")
        ]
        kept = Counter((note.title, note.body.strip()) for note in notes)
        if kept != Counter((row.title, row.content) for row in active if row.kind == "knowledge"):
            problems.append(f"{memory_files.KNOWLEDGE_DIR} holds something else")
        return problems

    def _temporary(self) -> list[Path]:
        return [*self._root.glob(".agent/.*.new"), *self._root.glob(".ralph/knowledge/.*.new")]

    def _check_leftovers(self) -> None:
        """See that what writers left half made is gone some time later."""
        for path in self._temporary():
            os.utime(path, (time.time() - 86_400,) * 2)
        with Project.open(self._root) as project:
            self._take(self._new("add"), _made(project, self._new_write, self._run_id))
        if left := self._temporary():
            self.lost.append(f"{len(left)} files are left for ever")


_note = cache(parse_note)


# --- the writer ------------------------------------------------------------------------------


def _write(root: Path, run_id: str, writes: list[Write], tells: int) -> None:
    """Make writes, and tell of each before it is begun and when it has returned."""
    with Project.open(root) as project:
        for number, write in enumerate(writes):
            os.write(tells, f"?{number}\n".encode())
            id = _made(project, write, run_id)
            os.write(tells, f"!{number} {id}\n".encode())


def _made(project: Project, write: Write, run_id: str) -> str:
    """Make a write, with its files, and return the id of what was written."""
    with project.synced():
        return _make(project, write, run_id)


def _make(project: Project, write: Write, run_id: str) -> str:
    if write.do == "edit":
        return project.memory.edit(write.id, content=write.body).memory.id
    if write.do == "delete":
        return project.memory.delete(write.id)[0][0].id
    if write.do == "task":
        return project.tasks.add(f"Mend {write.key}", id=write.id).id
    if write.do == "work":
        begun = project.store.attempts.begin(run_id, WORKER, 60, agent="test")
        if begun is None:
            return ""
        learned = a_memory(write.key, write.body, id="", tags=("work",))
        ended = replace(begun.attempt, outcome=AttemptOutcome.DONE, ended_at=now())
        capture = AttemptResult(attempt=ended, report=None, memories=(learned,), task_status=TaskStatus.DONE)
        project.store.attempts.finish(capture, begun.task.claim_token)
        return begun.task.id
    if write.do == "note":
        return project.memory.add(write.body, type="knowledge", title=write.key, tags=("note",)).memory.id
    return project.memory.add(write.body, tags=("one", "two")).memory.id


# --- the trial -------------------------------------------------------------------------------


def run(folder: Path, size: int, seed: int) -> Shown:
    """End writers so many times, in several projects at the same time."""
    lanes = []
    for number in range(LANES):
        place = folder / f"lane-{number}"
        place.mkdir()
        part = size // LANES + (number < size % LANES)
        words = [sys.executable, "-m", __spec__.name, str(place), str(part), str(seed * LANES + number)]
        lanes.append(subprocess.Popen(words, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE))
    ended = [lane.communicate()[0] for lane in lanes]
    for lane in lanes:
        if lane.returncode:
            raise RuntimeError("A lane failed; what it printed says why.")
    told = [json.loads(text) for text in ended]
    kills = sum((Counter(one["kills"]) for one in told), Counter[str]())
    for problem in [problem for one in told for problem in one["lost"]][:10]:
        print(f"lost: {problem}", file=sys.stderr)
    at_calls = sum(kills.values()) - kills["any moment"]
    acknowledged, cut_off, made = (sum(one[name] for one in told) for name in ("acknowledged", "cut_off", "made"))
    return Shown(
        load=f"{size:,} cycles, store + markdown",
        tried=sum(kills.values()),
        lost=sum(len(one["lost"]) for one in told),
        says=f"{acknowledged:,} writes acknowledged; {at_calls:,} kills at a system call of a write, "
        f"{kills['any moment']:,} at any moment; {cut_off:,} writes cut off, {made:,} of them made all the same",
    )


def figures(shown: Shown) -> list[int]:
    """Give writes acknowledged, kills at a system call and at any moment, writes cut off and made all the same."""
    return [int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", shown.says)]


def main() -> None:
    """Run one lane, and print what it came to."""
    lane = Lane(Path(sys.argv[1]), int(sys.argv[3]))
    lane.run(int(sys.argv[2]))
    told = {"lost": lane.lost, "kills": lane.kills, "acknowledged": lane.acknowledged}
    print(json.dumps({**told, "cut_off": lane.cut_off, "made": lane.cut_in_two, "left": lane.left}))


TRIALS = (Trial(name="kill", test="kill -9", allowed="0 acknowledged lost, 0 duplicates", size=1_000, run=run),)

if __name__ == "__main__":
    main()
