"""Who writes next."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ralph.store.queueing import Queue

pytestmark = pytest.mark.sqlite

HOLD = """
import sys
from ralph.store.queueing import Queue
queue = Queue(sys.argv[1])
print(queue.enter(5), flush=True)
sys.stdin.readline()
queue.leave()
print(queue.enter(5), flush=True)
sys.stdin.readline()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    return process


def in_line(queues: list[Queue], order: list[int]) -> list[threading.Thread]:
    """Let each queue up after the one before it, and note when it has its turn."""

    def wait(number: int) -> None:
        assert queues[number].enter(10)
        order.append(number)
        queues[number].leave()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(len(queues))]
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    return threads


def test_who_came_first_goes_first(tmp_path: Path) -> None:
    path = str(tmp_path / "ralph.db")
    first, queues, order = Queue(path), [Queue(path) for _ in range(12)], list[int]()
    assert first.enter(1)
    threads = in_line(queues, order)

    first.leave()
    assert first.enter(10)
    order.append(-1)
    first.close()
    for thread in threads:
        thread.join()
    for queue in queues:
        queue.close()

    assert [number for number in order if number >= 0] == [*range(12)]
    # Who has just had a turn is not the next. It may come between two that change places, but then only once.
    assert order[0] == 0


def test_a_turn_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    process, queue = holder(tmp_path / "ralph.db"), Queue(str(tmp_path / "ralph.db"))

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert queue.enter(5)
    queue.close()


def test_nobody_waits_for_ever_for_one_that_is_stopped_and_it_can_go_on(tmp_path: Path) -> None:
    process, queue = holder(tmp_path / "ralph.db"), Queue(str(tmp_path / "ralph.db"))
    os.kill(process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert not queue.enter(0.2)
        assert not queue.enter(0.2)
        assert 0.4 <= time.monotonic() - began < 5
    finally:
        os.kill(process.pid, signal.SIGCONT)

    # Those that gave up pass their turns on: both can have theirs again.
    output, _ = process.communicate("\n\n", timeout=10)
    assert output == "True\n"
    assert queue.enter(5)
    queue.close()


def test_who_gave_up_keeps_no_file_open(tmp_path: Path) -> None:
    queue = Queue(str(tmp_path / "ralph.db"))
    with (tmp_path / "ralph.db.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(3):
            assert not queue.enter(0.05)
    deadline = time.monotonic() + 5
    while any(str(tmp_path) in target for target in _open_files()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _open_files() -> list[str]:
    """Give where the open files are; one that is closed meanwhile is none."""
    return [os.path.realpath(f"/proc/self/fd/{file.name}") for file in Path("/proc/self/fd").iterdir()]
