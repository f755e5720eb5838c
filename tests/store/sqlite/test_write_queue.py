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

from ralph.store.sqlite import write_queue
from ralph.store.sqlite.write_queue import STALL_SECONDS, WriterQueue

pytestmark = pytest.mark.sqlite

HOLD = """
import sys
from ralph.store.sqlite.write_queue import WriterQueue
queue = WriterQueue(sys.argv[1])
print(queue.acquire(5), flush=True)
sys.stdin.readline()
queue.release()
print(queue.acquire(5), flush=True)
sys.stdin.readline()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    return process


def count_waiting(pid: int) -> int:
    """Return how many lock requests of a process are waiting."""
    return sum(" -> " in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


def wait_until_waiting(pid: int, count: int) -> None:
    deadline = time.monotonic() + 30
    while count_waiting(pid) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_line(queues: list[WriterQueue], order: list[int]) -> list[threading.Thread]:
    """Let each queue up after the one before it, and note when it has its turn."""

    def wait(number: int) -> None:
        assert queues[number].acquire(60)
        order.append(number)
        queues[number].release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(len(queues))]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until_waiting(os.getpid(), number + 1)
    return threads


def test_who_has_just_had_a_turn_is_not_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "STALL_SECONDS", 60.0)  # however long it takes until all are waiting
    path = str(tmp_path / "ralph.db")
    first, queues, order = WriterQueue(path), [WriterQueue(path) for _ in range(12)], list[int]()
    assert first.acquire(1)
    threads = in_line(queues, order)

    first.release()
    assert first.acquire(60)
    order.append(-1)
    first.close()
    for thread in threads:
        thread.join()
    for queue in queues:
        queue.close()

    # The kernel wakes those who wait in order, but on a busy machine a later one may run first.
    assert sorted(order) == [*range(-1, 12)]
    assert order[0] != -1


def test_a_turn_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    process, queue = holder(tmp_path / "ralph.db"), WriterQueue(str(tmp_path / "ralph.db"))

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert queue.acquire(5)
    queue.close()


def test_nobody_waits_for_ever_for_one_that_is_stopped_and_it_can_go_on(tmp_path: Path) -> None:
    process, queue = holder(tmp_path / "ralph.db"), WriterQueue(str(tmp_path / "ralph.db"))
    os.kill(process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert not queue.acquire(30)
        assert not queue.acquire(30)
        assert STALL_SECONDS <= time.monotonic() - began < 5
    finally:
        os.kill(process.pid, signal.SIGCONT)

    # Those that gave up pass their turns on: both can have theirs again.
    output, _ = process.communicate("\n\n", timeout=10)
    assert output == "True\n"
    assert queue.acquire(5)
    queue.close()


def test_one_that_is_stopped_while_it_waits_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    first = WriterQueue(str(path))
    assert first.acquire(5)
    waiting = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_until_waiting(waiting.pid, 1)
    os.kill(waiting.pid, signal.SIGSTOP)
    try:
        first.release()  # the one that is stopped has the turn now, and does nothing with it
        began = time.monotonic()
        assert not first.acquire(30)
        assert not first.acquire(30)
        assert time.monotonic() - began < 5
    finally:
        os.kill(waiting.pid, signal.SIGKILL)
        waiting.communicate()

    deadline = time.monotonic() + 5
    while not first.acquire(1):
        assert time.monotonic() < deadline
    first.close()


def test_as_long_as_others_write_one_waits(tmp_path: Path) -> None:
    path = str(tmp_path / "ralph.db")
    busy, waiting = WriterQueue(path), WriterQueue(path)
    assert busy.acquire(1)

    def write() -> None:
        for _ in range(8):
            busy.record_progress()
            time.sleep(STALL_SECONDS / 3)
        busy.release()

    thread = threading.Thread(target=write)
    thread.start()

    assert waiting.acquire(30)

    thread.join()
    busy.close()
    waiting.close()


def test_who_writes_without_a_turn_does_not_make_others_wait_for_theirs(tmp_path: Path) -> None:
    process, aside, late = (
        holder(tmp_path / "ralph.db"),
        WriterQueue(str(tmp_path / "ralph.db")),
        WriterQueue(str(tmp_path / "ralph.db")),
    )
    os.kill(process.pid, signal.SIGSTOP)
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.1):
            aside.record_progress()

    thread = threading.Thread(target=write)
    try:
        assert not aside.acquire(30)
        thread.start()
        began = time.monotonic()

        assert not late.acquire(30)

        assert time.monotonic() - began < 5
    finally:
        ended.set()
        process.kill()
        process.communicate()
    thread.join()
    aside.close()
    late.close()


def test_without_a_thread_to_wait_in_nobody_keeps_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "ralph.db")
    first, second, third = WriterQueue(path), WriterQueue(path), WriterQueue(path)
    assert first.acquire(1)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", refuse)
        assert not second.acquire(1)
    first.release()

    assert third.acquire(1)
    for queue in (first, second, third):
        queue.close()


def test_who_gave_up_keeps_no_file_open(tmp_path: Path) -> None:
    queue = WriterQueue(str(tmp_path / "ralph.db"))
    with (tmp_path / "ralph.db.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(3):
            assert not queue.acquire(0.05)
        assert sum(str(tmp_path) in target for target in _open_files()) == 3
        queue.close()
    deadline = time.monotonic() + 5
    while any(str(tmp_path) in target for target in _open_files()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _open_files() -> list[str]:
    """Give where the open files are; one that is closed meanwhile is none."""
    return [os.path.realpath(f"/proc/self/fd/{file.name}") for file in Path("/proc/self/fd").iterdir()]
