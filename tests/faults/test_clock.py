"""A clock that is set while runs are at work: leases, order and durations do not go by it.

A small library sets the clock of real processes while they run, and leaves the steady clock and all waiting alone, as
an administrator or a time server would. (libfaketime cannot: sleeping fails under it when the clock is set meanwhile.)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import AttemptOutcome, TaskStatus, timestamp
from ralph.project import Project
from ralph.store import create_store
from ralph.store.sqlite.leases import is_expired, lease_end
from ralph.store.tasks import TaskDraft
from tests.make import set_up_project

pytestmark = pytest.mark.sqlite
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="setting the clock of a process needs a C compiler")
LIBRARY = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("TEST_CLOCK"), "re");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
"""

HOUR, YEAR = 3600, 365 * 24 * 3600
ACTOR = """
import json, sys
from ralph.core.records import AttemptOutcome, TaskStatus, now
from ralph.store import open_store
from tests.make import a_memory, begin, finish, remember
store = open_store(sys.argv[1], "clock")
names = globals()
for line in sys.stdin:
    exec(line, names)
    print(json.dumps(names.pop("answer", None)), flush=True)
"""


class Clock:
    """A clock that can be set."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "clock"
        self._library = folder / "clock.so"
        assert COMPILER
        command = [COMPILER, "-shared", "-fPIC", "-x", "c", "-o", str(self._library), "-"]
        subprocess.run(command, input=LIBRARY, text=True, check=True)
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let it be so many seconds ahead of what it should say."""
        new = self._path.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._path)

    @property
    def environment(self) -> dict[str, str]:
        """What lets a process go by it."""
        return {**os.environ, "LD_PRELOAD": str(self._library), "TEST_CLOCK": str(self._path)}


Do = Callable[[str], Any]


@contextmanager
def an_actor(url: str, clock: Clock) -> Iterator[Do]:
    """Give a process that goes by the clock, and does what it is told with the store."""
    with subprocess.Popen(
        [sys.executable, "-c", ACTOR, url],
        env=clock.environment,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        told, said = process.stdin, process.stdout

        def do(code: str) -> Any:
            told.write(code + "\n")
            told.flush()
            return json.loads(said.readline())

        yield do
        told.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    store = create_store(str(tmp_path / "ralph.db"), "clock")
    store.tasks.add(TaskDraft(title="A task"))
    store.close()
    return str(tmp_path / "ralph.db")


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


START = "run = store.attempts.start_run('test')"
BEGIN = "begun = store.attempts.begin(run.id, {worker!r}, {lease}, agent='test'); answer = begun is not None"
BEAT = "answer = store.tasks.heartbeat(begun.task.id, begun.task.claim_token, {lease})"
FINISH = "finish(store, begun.task, begun.attempt, AttemptOutcome.DONE, TaskStatus.DONE); answer = 'done'"


@needs_compiler
def test_the_clock_of_a_process_can_be_set_while_it_runs(url: str, clock: Clock) -> None:
    with an_actor(url, clock) as actor:
        before = actor("answer = now()")
        clock.set(-YEAR)
        assert actor("answer = now()") < before
        clock.set(YEAR)
        assert actor("answer = now()") > before


@needs_compiler
def test_a_clock_set_forward_takes_no_task_from_a_living_worker(url: str, clock: Clock) -> None:
    with an_actor(url, clock) as first, an_actor(url, clock) as second:
        first(START)
        second(START)
        assert first(BEGIN.format(worker="first", lease=60))

        clock.set(YEAR)

        assert not second(BEGIN.format(worker="second", lease=60))
        assert first(BEAT.format(lease=60))
        assert not second(BEGIN.format(worker="second", lease=60))
        assert first(FINISH) == "done"


@needs_compiler
def test_a_clock_set_back_holds_no_task_of_a_dead_worker_back(url: str, clock: Clock) -> None:
    with an_actor(url, clock) as first:
        first(START)
        assert first(BEGIN.format(worker="first", lease=0.5))
    clock.set(-HOUR)
    with an_actor(url, clock) as second:
        second(START)
        time.sleep(0.6)

        assert second(BEGIN.format(worker="second", lease=60))
        assert second(FINISH) == "done"
        attempts = "answer = [(a.worker, a.outcome) for a in store.attempts.latest(5)]"
        assert second(attempts) == [["second", "done"], ["first", "interrupted"]]


@needs_compiler
def test_a_clock_set_back_leaves_a_living_worker_its_task(url: str, clock: Clock) -> None:
    with an_actor(url, clock) as first, an_actor(url, clock) as second:
        first(START)
        second(START)
        assert first(BEGIN.format(worker="first", lease=60))

        clock.set(-HOUR)

        assert first(BEAT.format(lease=60))
        assert not second(BEGIN.format(worker="second", lease=60))
        assert first(FINISH) == "done"


@needs_compiler
def test_what_happened_is_told_in_the_order_in_which_it_did(url: str, clock: Clock) -> None:
    with an_actor(url, clock) as actor:
        for number, ahead in enumerate((0, -HOUR, YEAR, -YEAR, 0)):
            clock.set(ahead)
            actor(f"run = store.attempts.start_run('agent {number}')")
            actor(BEGIN.format(worker="w", lease=60))
            actor("finish(store, begun.task, begun.attempt, AttemptOutcome.FAILED, notes='n')")
            actor(f"memory = remember(store, a_memory('Title', 'Body {number}', id='mem-{number}-0000'))")
            actor(f"store.tasks.log(begun.task.id, 'line {number}', 'test')")

        assert actor("answer = [r.agent for r in store.attempts.runs(9)]") == [f"agent {n}" for n in (4, 3, 2, 1, 0)]
        assert actor("answer = [a.number for a in store.attempts.latest(9)]") == [5, 4, 3, 2, 1]
        assert actor("answer = [a.number for a, _ in store.attempts.attempts_since_reset(begun.task, 9)]") == [
            5,
            4,
            3,
            2,
            1,
        ]
        lines = actor("answer = [e.message for e in store.tasks.read_log(begun.task.id) if e.who == 'test']")
        assert lines == [f"line {n}" for n in range(5)]
        seqs = actor("answer = [e.seq for e in store.memories.events(0, 99)]")
        assert seqs == sorted(seqs)
        runs = actor("answer = [e.run_id for e in store.events.since(0, 99) if e.what == 'run_started']")
        assert runs == actor("answer = [r.id for r in reversed(store.attempts.runs(9))]")


@needs_compiler
@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_run_takes_as_long_as_it_takes_while_the_clock_is_set(tmp_path: Path, clock: Clock, jump: int) -> None:
    root = tmp_path / "project"
    root.mkdir()
    set_up_project(root)
    with Project.open(root) as project:
        project.tasks.add("A")
        project.tasks.add("B")
    agent = f"echo {jump} > {tmp_path}/clock; sleep 0.1; echo '<task-done>'$RALPH_TASK_ID'</task-done>'"

    done = subprocess.run(
        [sys.executable, "-m", "ralph", "run", "--max-minutes", "1", "--", "sh", "-c", agent],
        cwd=root,
        env=clock.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    with Project.open(root) as project:
        attempts = project.store.attempts.latest(5)
        assert [one.outcome for one in attempts] == [AttemptOutcome.DONE, AttemptOutcome.DONE]
        assert all(0.1 <= one.seconds < 30 for one in attempts)
        assert 0.2 <= project.store.attempts.runs(1)[0].seconds < 60
        assert all(task.status is TaskStatus.DONE for task in project.store.tasks.all())


# --- a lease ---------------------------------------------------------------------------------


def test_a_lease_runs_out_by_the_steady_clock() -> None:
    assert not is_expired(lease_end("60"))
    assert is_expired(lease_end("-0.01"))


@pytest.mark.parametrize(
    ("ends_in", "length", "expected"),
    [
        (30, 60, False),
        (-1, 60, True),
        (100, 60, False),  # two clocks a little apart
        (3600, 60, True),  # made before the clock was set back
    ],
)
def test_a_lease_of_another_start_of_the_machine_goes_by_the_clock_if_that_can_be(
    ends_in: float, length: float, expected: bool
) -> None:
    lease = f"{timestamp(time.time() + ends_in)} {length} 00000000 1.0"

    assert is_expired(lease) is expected


@pytest.mark.parametrize(("ends_in", "expected"), [(5, False), (-5, True), (HOUR, False)])
def test_a_lease_of_an_older_version_goes_by_the_clock(ends_in: float, expected: bool) -> None:
    assert is_expired(timestamp(time.time() + ends_in)) is expected


@pytest.mark.parametrize(
    "lease", [None, "", " ", "2026-01-01T00:00:00.000Z y", "2999-01-01T00:00:00.000Z 1 a b", "~ 1"]
)
def test_a_lease_that_nobody_can_read_holds_nothing(lease: str | None) -> None:
    assert is_expired(lease)
