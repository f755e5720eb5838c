"""Many processes that write to one SQLite file at once: none is refused, and none waits long.

What is measured is a whole call, from asking to having it durably. All writers are up and have read once before the
first of them writes: what fifty programs take to start is another question.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from ralph.core.records import record
from ralph.store import Store, create_store, open_store
from ralph.store.memories import ChangeInfo
from tests.faults.trial import Shown, Trial
from tests.make import a_memory, damaged_rows

WRITES = 200
LONGEST_SECONDS = 1.0
KINDS = ("memory", "run", "heartbeat")


@record
class Written:
    """What writers came to."""

    waits: list[float]
    """Of all of them, the shortest first."""
    errors: list[str]
    missing: int
    seconds: float

    def at(self, part: float) -> float:
        """Give the wait that so many had at most."""
        return self.waits[min(len(self.waits) - 1, int(part * len(self.waits)))]


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let so many processes write, each 200 times."""
    done = write(folder, size, WRITES)
    late = sum(wait >= LONGEST_SECONDS for wait in done.waits)
    print(*done.errors[:3], sep="\n", end="", file=sys.stderr)
    return Shown(
        load=f"{size} writers × {WRITES}",
        tried=len(done.waits),
        lost=len(done.errors) + done.missing + late,
        says=f"waits: p50 {done.at(0.5) * 1000:.0f} ms, p99 {done.at(0.99) * 1000:.0f} ms,"
        f" worst {done.waits[-1] * 1000:.0f} ms; {len(done.waits) / done.seconds:.0f} writes/s",
    )


def write(folder: Path, writers: int, each: int) -> Written:
    """Let processes write at once; give how long each write took, and what is not there of what they wrote."""
    url = str(folder / "ralph.db")
    store = create_store(url, "contention")
    for turn in range(len(KINDS)):  # so that all is loaded that the writers share
        _write(store, writers, turn)
    store.close()
    ready, go = os.pipe(), os.pipe()
    children = []
    for number in range(writers):
        child = os.fork()
        if not child:
            _be_writer(folder, number, each, ready[1], go)
        children.append(child)
    os.close(go[0])
    left = writers
    while left:
        left -= len(os.read(ready[0], left))
    began = time.monotonic()
    os.close(go[1])
    for child in children:
        os.waitpid(child, 0)
    seconds = time.monotonic() - began
    for end in ready:
        os.close(end)
    waits: list[float] = []
    errors: list[str] = []
    for number in range(writers):
        told = json.loads((folder / f"{number}.json").read_text())
        waits += told["waits"]
        errors += told["errors"]
    store = open_store(url, "contention")
    memories = {memory.id for memory in store.memories.all()}
    wanted = {_id(number, turn) for number in range(writers) for turn in range(each) if _kind(turn) == "memory"}
    missing = len(wanted - memories) + len(damaged_rows(store))
    store.close()
    return Written(waits=sorted(waits), errors=errors, missing=missing, seconds=seconds)


def _be_writer(folder: Path, number: int, each: int, ready: int, go: tuple[int, int]) -> None:
    waits: list[float] = []
    errors: list[str] = []
    try:
        os.close(go[1])
        store = open_store(str(folder / "ralph.db"), "contention")
        store.memories.history.last_event_seq()
        store.tasks.all()
        os.write(ready, b".")
        os.read(go[0], 1)
        for turn in range(each):
            began = time.monotonic()
            try:
                _write(store, number, turn)
            except Exception as error:  # whatever it is, it counts
                errors.append(repr(error))
            waits.append(time.monotonic() - began)
        store.close()
    except BaseException:
        errors.append(traceback.format_exc())
    (folder / f"{number}.json").write_text(json.dumps({"waits": waits or [LONGEST_SECONDS], "errors": errors}))
    os._exit(0)


def _write(store: Store, number: int, turn: int) -> None:
    """Write what runs write: something learned, a run, a sign of life."""
    kind = _kind(turn)
    if kind == "memory":
        title = f"What writer {number} learned in turn {turn}"
        memory = a_memory(title, "It has several words. " * 8, id=_id(number, turn))
        store.memories.add(memory, ChangeInfo(who="test", why="contention"))
    elif kind == "run":
        store.runs.start("test")
    else:
        store.tasks.claims.heartbeat("t-000000", 1, 60)


def _kind(turn: int) -> str:
    return KINDS[turn % len(KINDS)]


def _id(number: int, turn: int) -> str:
    return f"mem-{1_000_000 + number}-{turn:04x}"


TRIALS = (Trial(name="contention", test="contention", allowed="0 lock errors, worst < 1 s", size=50, run=run),)
