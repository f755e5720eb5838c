"""Workers killed, and paused for longer than their lease, at any moment: each task is done once, and once only.

They are real: processes in which the loop itself runs, with its heartbeat, on one store. Who is paused comes back with
a claim that somebody else has by then; what it says then must not count, and what its session learned must be kept.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from ralph.agents import SessionOptions
from ralph.core.config import Config
from ralph.core.records import AttemptOutcome, TaskStatus, record, replace
from ralph.loop.options import RunOptions
from ralph.loop.progress import ProgressEvent
from ralph.loop.run import Loop
from ralph.project import Project
from tests.faults.trial import Shown, Trial
from tests.make import ScriptedAgent, damaged_rows, set_up_project

WORKERS = 4
LEASE_SECONDS = 0.6
WORK_SECONDS = 0.5
"""The longest a session takes."""
FAULT_SECONDS = 0.7
"""The longest a worker is left alone."""
OPEN_TASKS = 12
END_SECONDS = 60.0
LOST = "The claim on {} was lost: its lease ran out, or somebody changed the task."


@record
class Left:
    """What is in the store afterwards, and what workers said."""

    double: int = 0
    """Tasks that were done more than once, by what the store or the workers say."""
    undone: int = 0
    unkept: int = 0
    """Sessions whose knowledge was lost though they came to their end."""
    open_attempts: int = 0
    damaged: int = 0
    done: int = 0
    refused: int = 0
    """Attempts of those that came back too late."""
    killed: int = 0
    paused: int = 0

    @property
    def wrong(self) -> int:
        """How often something happened that must not."""
        return self.double + self.undone + self.unkept + self.open_attempts + self.damaged


def run(folder: Path, size: int, seed: int) -> Shown:
    """Kill and pause so often."""
    left = disturb(folder, size, seed)
    if left.wrong:
        print(left, file=sys.stderr)
    return Shown(
        load=f"{WORKERS} workers, {left.done} tasks",
        tried=left.killed + left.paused,
        lost=left.wrong,
        says=f"{left.killed} kills, {left.paused} pauses beyond the lease, {left.refused} late ends refused",
    )


# --- a worker ----------------------------------------------------------------------------


class Worker:
    """A process that works on tasks, and says on a pipe what it got done."""

    def __init__(
        self, root: Path, seed: float, work_seconds: float | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(reading)
                _work(root, writing, seed, work_seconds, lease_seconds)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writing)
        self.says = reading
        self.wakes_at = 0.0
        """When it goes on after a pause; 0 while it is at work."""
        self._rest = b""

    def hear(self) -> list[dict[str, str]]:
        """Give what it has said since it was last heard, without waiting."""
        while select.select([self.says], [], [], 0)[0]:
            said = os.read(self.says, 1 << 16)
            if not said:
                break
            self._rest += said
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]

    def wake(self) -> None:
        """Let it go on, if it is paused."""
        os.kill(self.pid, signal.SIGCONT)
        self.wakes_at = 0.0

    def kill(self) -> list[dict[str, str]]:
        """End it at once; give what it had still said."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        said = self.hear()
        os.close(self.says)
        return said


def _work(root: Path, told: int, seed: float, work_seconds: float | None, lease_seconds: float) -> None:
    chance = random.Random(seed)
    usual = Config()
    config = replace(
        usual,
        execution=replace(usual.execution, lease_seconds=lease_seconds, max_retries=1000),
        memories=replace(usual.memories, files=False, meaning=False),
    )

    def answer(prompt: str, session: SessionOptions) -> str:
        task_id = session.environment["RALPH_TASK_ID"]
        time.sleep(chance.random() * WORK_SECONDS if work_seconds is None else work_seconds)
        name = f"{os.getpid()} {os.urandom(6).hex()}"
        say(session=name, task=task_id)
        return f'<knowledge tags="t" title="Session {name}">It was {name}.</knowledge><task-done>TASK</task-done>'

    def say(**said: str) -> None:
        os.write(told, json.dumps(said).encode() + b"\n")

    def tell(event: ProgressEvent) -> None:
        if event.what == "attempt_ended":
            say(ended=str(event.details["task_id"]), outcome=str(event.details["outcome"]))

    with Project.open(root) as project:
        Loop(
            store=project.store,
            agent=ScriptedAgent(answer),
            config=config,
            directory=root,
            run_options=RunOptions(iterations=100_000, stays=True),
            emit=tell,
        ).run_loop()


# --- the trial ---------------------------------------------------------------------------


class Said:
    """What all workers said."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.sessions: set[str] = set()
        """The sessions that came to an end which their worker lived to tell."""
        self._latest: dict[int, str] = {}

    def hear(self, worker: Worker, lines: list[dict[str, str]]) -> None:
        """Write down what a worker said."""
        for line in lines:
            if "session" in line:
                self._latest[worker.pid] = line["session"]
            else:
                self.done[line["ended"]] += line["outcome"] == "done"
                if session := self._latest.pop(worker.pid, ""):
                    self.sessions.add(session)


def disturb(folder: Path, faults: int, seed: int) -> Left:
    """Let workers work, and kill or pause one after the other; give what is left of it."""
    chance = random.Random(seed)
    set_up_project(folder)
    tasks = _add_tasks(folder, OPEN_TASKS)
    said = Said()
    workers = [Worker(folder, chance.random()) for _ in range(WORKERS)]
    next_fault = [time.monotonic() + 0.3 + chance.random() * FAULT_SECONDS for _ in workers]
    killed = paused = 0
    try:
        while killed + paused < faults:
            time.sleep(0.01)
            for place, worker in enumerate(workers):
                said.hear(worker, worker.hear())
                if time.monotonic() < next_fault[place]:
                    continue
                next_fault[place] = time.monotonic() + chance.random() * FAULT_SECONDS
                if chance.random() < (0.15 if worker.wakes_at else 0.4):
                    said.hear(worker, worker.kill())
                    workers[place] = Worker(folder, chance.random())
                    killed += 1
                elif worker.wakes_at:
                    worker.wake()
                    paused += 1
                else:
                    os.kill(worker.pid, signal.SIGSTOP)
                    next_fault[place] = worker.wakes_at = time.monotonic() + LEASE_SECONDS * (1.1 + chance.random())
            if sum(said.done.values()) > len(tasks) - OPEN_TASKS // 2:
                for worker in workers:
                    worker.wake()  # one of them may have been stopped in the middle of a change
                tasks += _add_tasks(folder, OPEN_TASKS)
        for worker in workers:
            worker.wake()
        deadline = time.monotonic() + END_SECONDS
        while _has_open(folder) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2 * WORK_SECONDS)  # whoever still has a session comes too late with it
    finally:
        for worker in workers:
            said.hear(worker, worker.kill())
    return _left(folder, tasks, said, killed, paused)


def _add_tasks(folder: Path, count: int) -> list[str]:
    with Project.open(folder) as project:
        return [project.tasks.add(f"Task {number}").id for number in range(count)]


def _has_open(folder: Path) -> bool:
    with Project.open(folder) as project:
        return project.store.tasks.progress.has_unfinished()


def _left(folder: Path, tasks: list[str], said: Said, killed: int, paused: int) -> Left:
    with Project.open(folder) as project:
        store = project.store
        store.attempts.release_vanished({task.claimed_by for task in store.tasks.claims.claimed() if task.claimed_by})
        attempts = store.attempts.latest(100_000)
        done = Counter(one.task_id for one in attempts if one.outcome is AttemptOutcome.DONE)
        lost = [one for one in attempts if one.task_id and one.reason == LOST.format(one.task_id)]
        titles = {memory.title for memory in store.memories.all()}
        return Left(
            double=sum(max(done[id], said.done[id]) > 1 for id in tasks),
            undone=sum(done[id] < 1 for id in tasks)
            + sum(task.status is not TaskStatus.DONE for task in store.tasks.all())
            + sum(count and not done[id] for id, count in said.done.items()),
            unkept=sum(f"Session {name}" not in titles for name in said.sessions),
            open_attempts=len(store.attempts.running()),
            damaged=len(damaged_rows(store)),
            done=len(tasks),
            refused=len(lost),
            killed=killed,
            paused=paused,
        )


TRIALS = (Trial(name="leases", test="leases", allowed="0 double completions", size=500, run=run),)
