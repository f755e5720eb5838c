"""A run can be watched from elsewhere while it works: bounded, without secrets, and at no risk to the run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.loop import run_log, run_recorder
from ralph.loop.options import RunOptions
from ralph.loop.progress import ProgressEvent, progress_event
from ralph.loop.run_log import (
    LIVE_FOLDER,
    LOG_RESET_MESSAGE,
    current_events,
    logged_runs,
    read_events,
)
from ralph.loop.run_recorder import EVENTS_DROPPED_MESSAGE, RunRecorder
from ralph.project import Project

RUN = "run-00000001"
KEY = "sk-ant-" + "api03-" + "Zq7" * 12
PRIVATE = "".join(random.Random(1).choices("ABCDEFabcdef0123456789+/", k=64))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PRIVATE}\n{PRIVATE[::-1]}\n-----END RSA PRIVATE KEY-----\n"
PUTTY = f"Private-Lines: 2\n{PRIVATE}\n{PRIVATE[::-1]}\nPrivate-MAC: 00\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a directory that looks like a project."""
    (tmp_path / ".ralph").mkdir()
    return tmp_path


@pytest.fixture
def recording(root: Path) -> Iterator[RunRecorder]:
    """Give a run that has begun."""
    with RunRecorder(root, lambda event: None) as begun:
        begun(progress_event("run_started", run_id=RUN))
        yield begun


def file_of(root: Path, run: str = RUN) -> Path:
    return root / LIVE_FOLDER / f"{run}.jsonl"


def output(root: Path) -> str:
    return "".join(str(one.details["text"]) for one in read_events(root, RUN)[0] if one.what == "output")


def say(recording: RunRecorder, *pieces: str) -> None:
    for piece in pieces:
        recording(progress_event("output", text=piece))


# --- a run ---------------------------------------------------------------------------------

WAITS = """
echo "I look at the parser."
while [ ! -e go ]; do sleep 0.02; done
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
READS = """
import sys, time
from ralph.loop import run_log, run_recorder
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    for run in run_log.logged_runs(sys.argv[1]):
        told, _ = run_log.read_events(sys.argv[1], run)
        if any("I look at the parser." in str(one.details.get("text")) for one in told):
            print([one.what for one in told])
            sys.exit(0)
    time.sleep(0.02)
sys.exit(1)
"""


def test_another_process_reads_along_while_the_agent_works(project: Project) -> None:
    task = project.tasks.add("Mend the parser")
    reader = subprocess.Popen([sys.executable, "-c", READS, str(project.root)], stdout=subprocess.PIPE, text=True)
    heard: list[str] = []

    def tell(one: ProgressEvent) -> None:
        heard.append(one.what)
        if one.what == "output" and not (project.root / "go").exists():
            assert reader.wait(20) == 0
            (project.root / "go").touch()

    summary = project.runs.start(RunOptions(program=("sh", "-c", WAITS)), tell)

    assert reader.stdout
    seen_meanwhile = reader.stdout.read()
    reader.stdout.close()
    assert "'attempt_started'" in seen_meanwhile
    assert "'attempt_ended'" not in seen_meanwhile
    told, _ = read_events(project.root, summary.run_id)
    assert [one.what for one in told if one.what != "output"] == [what for what in heard if what != "output"]
    assert f"<task-done>{task.id}</task-done>\n" in "".join(str(one.details.get("text", "")) for one in told)
    assert logged_runs(project.root) == [summary.run_id]


def test_what_is_written_is_told_the_same_way_as_at_the_terminal(project: Project) -> None:
    project.tasks.add("Mend the parser")
    told: list[ProgressEvent] = []

    summary = project.runs.start(RunOptions(program=("sh", "-c", "exit 3"), iterations=1, gates=("true",)), told.append)

    found, _ = read_events(project.root, summary.run_id)
    as_json = [json.loads(json.dumps(one.details)) for one in told]
    assert [one.details for one in found] == as_json
    assert [(one.what, one.at) for one in found] == [(one.what, one.at) for one in told]


def test_it_is_for_its_owner_alone_and_git_does_not_see_it(project: Project) -> None:
    project.tasks.add("One")
    summary = project.runs.start(RunOptions(program=("sh", "-c", "true"), iterations=1), lambda event: None)

    file = file_of(project.root, summary.run_id)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    seen = subprocess.run(["git", "status", "--short", "-uall"], cwd=project.root, capture_output=True, text=True)
    assert "live" not in seen.stdout


def test_a_terminal_that_closes_does_not_end_what_others_watch(root: Path) -> None:
    def closed(one: ProgressEvent) -> None:
        raise BrokenPipeError

    with RunRecorder(root, closed) as recording:
        recording(progress_event("run_started", run_id=RUN))
        recording(progress_event("note", message="still here"))

    assert [one.what for one in read_events(root, RUN)[0]] == ["run_started", "note"]


def test_what_is_told_before_the_run_has_a_name_is_kept(root: Path) -> None:
    with RunRecorder(root, lambda event: None) as recording:
        recording(progress_event("recovered", task_id="t-000001"))
        recording(progress_event("run_started", run_id=RUN))

    assert [one.what for one in read_events(root, RUN)[0]] == ["recovered", "run_started"]


@pytest.mark.parametrize("spoil", ["a file in the way", "a link", "a link of the file", "a pipe", "read-only"])
def test_a_run_goes_on_when_nothing_can_be_written_and_says_so_once(
    project: Project, spoil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.root / LIVE_FOLDER
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("ralph.core.records.base.os.urandom", lambda count: b"\x01" * count)
    if spoil == "a file in the way":
        folder.touch()
    elif spoil == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
    file = folder / "run-01010101.jsonl"
    if spoil == "a link of the file":
        file.symlink_to(elsewhere / "target")
    elif spoil == "a pipe":
        os.mkfifo(file)
    elif spoil == "read-only":
        file.mkdir()
    project.tasks.add("One")
    told: list[ProgressEvent] = []

    summary = project.runs.start(
        RunOptions(program=("sh", "-c", 'echo "<task-done>$RALPH_TASK_ID</task-done>"')), told.append
    )

    assert summary.done == 1
    warnings = [str(one.details["message"]) for one in told if one.what == "warning"]
    assert len(warnings) == 1
    assert warnings[0].startswith("This run cannot be watched from another terminal")
    assert list(elsewhere.iterdir()) == []
    assert read_events(project.root, summary.run_id) == ([], 0)


# --- secrets -------------------------------------------------------------------------------


def test_no_secret_is_written_wherever_it_stands(root: Path, recording: RunRecorder) -> None:
    say(recording, f"The key is {KEY}\n")
    recording(progress_event("run_started", run_id=RUN, gates=[f"curl -H 'x-api-key: {KEY}'"], nested={"deep": [KEY]}))
    recording(progress_event("warning", message=f"It failed with \x1b[31m{KEY}"))

    written = file_of(root).read_text()

    assert "Zq7Zq7" not in written
    assert "\\u001b" not in written
    assert written.count("[redacted]") == 4


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_a_key_that_comes_in_pieces_does_not_slip_through(root: Path, recording: RunRecorder, size: int) -> None:
    text = f"Before\nThe key is {KEY} and\npassword:\n  hunter2hunter2\n{PEM}{PUTTY}After\n"

    say(recording, *(text[place : place + size] for place in range(0, len(text), size)))

    shown = output(root)
    assert "Zq7" not in shown
    assert "hunter2" not in shown
    assert PRIVATE[:20] not in shown
    assert PRIVATE[::-1][:20] not in shown
    assert shown.startswith("Before\nThe key is [redacted] and\n")
    assert shown.endswith("After\n")


SECRETS = {KEY: "Zq7Zq7", PEM: PRIVATE[10:30], PUTTY: PRIVATE[10:30], "token =\n 's3cr3t-t0k3n'\n": "s3cr3t"}
PIECES = st.sampled_from([*SECRETS, "\n", " some words ", "x" * 900, "-----", "a line\n", "key: "])


@given(pieces=st.lists(PIECES, max_size=12), cuts=st.lists(st.integers(0, 6000), max_size=25))
def test_no_way_of_cutting_lets_a_secret_through(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(f" {piece}\n" for piece in pieces)
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    lines = run_recorder._LineRedactor()
    given = [lines.add(text[start:end]) for start, end in pairwise(ends)]
    shown = "".join([*given, lines.finish()])

    assert not [part for part in SECRETS.values() if part in shown]


def test_a_line_without_end_is_left_out(root: Path, recording: RunRecorder) -> None:
    say(recording, *["word " * 1_000] * 4, f"{KEY[:20]}", KEY[20:], " more" * 400, "\nThe next line\n")

    assert output(root) == " […]\nThe next line\n"


def test_a_key_without_end_hides_no_more_than_a_key_can_be(root: Path, recording: RunRecorder) -> None:
    say(recording, "-----BEGIN PRIVATE KEY-----\n", *(f"line {n} of a long talk about it\n" for n in range(2_000)))

    shown = output(root)
    assert "line 100 " not in shown
    assert shown.endswith("line 1999 of a long talk about it\n")


def test_half_a_line_is_shown_when_the_session_is_over(root: Path, recording: RunRecorder) -> None:
    say(recording, "no end of line")
    assert output(root) == ""

    recording(progress_event("gate_started", command="make test"))

    assert [one.what for one in read_events(root, RUN)[0]] == ["run_started", "output", "gate_started"]
    assert output(root) == "no end of line"


def test_the_lines_of_several_workers_are_kept_apart(root: Path, recording: RunRecorder) -> None:
    for worker, text in ((1, "the first "), (2, "the second "), (1, "worker\n"), (2, "one\n")):
        recording(progress_event("output", text=text, worker=worker))

    told, _ = read_events(root, RUN)
    assert [(one.details["worker"], one.details["text"]) for one in told[1:]] == [
        (1, "the first worker\n"),
        (2, "the second one\n"),
    ]


# --- bounds --------------------------------------------------------------------------------


def test_of_a_run_that_says_too_much_the_newest_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_recorder, "MAX_LOG_BYTES", 20_000)
    with RunRecorder(root, lambda event: None) as recording:
        recording(progress_event("run_started", run_id=RUN))
        for n in range(1_000):
            recording(progress_event("note", message=f"number {n}"))
            assert file_of(root).stat().st_size <= 20_000

    told, _ = read_events(root, RUN)
    assert told[0].details["message"] == EVENTS_DROPPED_MESSAGE
    numbers = [int(str(one.details["message"]).split()[1]) for one in told[1:]]
    assert numbers == list(range(numbers[0], 1_000))
    assert len(numbers) > 50
    assert [path.name for path in (root / LIVE_FOLDER).iterdir()] == [f"{RUN}.jsonl"]


@pytest.mark.parametrize("every", [1, 10, 150])
def test_who_reads_along_misses_and_repeats_nothing_while_the_file_is_shortened(
    root: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(run_recorder, "MAX_LOG_BYTES", 40_000)
    seen: list[str] = []
    offset = 0
    with RunRecorder(root, lambda event: None) as recording:
        recording(progress_event("run_started", run_id=RUN))
        for n in range(2_000):
            recording(progress_event("note", message=f"number {n}"))
            if n % every == 0:
                told, offset = read_events(root, RUN, offset)
                seen += [str(one.details["message"]) for one in told if one.what == "note"]
    told, _ = read_events(root, RUN, offset)
    seen += [str(one.details["message"]) for one in told]

    assert [one for one in seen if one != EVENTS_DROPPED_MESSAGE] == [f"number {n}" for n in range(2_000)]
    assert seen.count(EVENTS_DROPPED_MESSAGE) == 0


def test_who_was_away_too_long_is_told_that_something_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_recorder, "MAX_LOG_BYTES", 20_000)
    with RunRecorder(root, lambda event: None) as recording:
        recording(progress_event("run_started", run_id=RUN))
        _, offset = read_events(root, RUN)
        for n in range(1_000):
            recording(progress_event("note", message=f"number {n}"))

    told, _ = read_events(root, RUN, offset)

    assert told[0].details["message"] == EVENTS_DROPPED_MESSAGE
    assert told[-1].details["message"] == "number 999"


def test_of_very_much_at_once_only_the_end_is_looked_through(root: Path, recording: RunRecorder) -> None:
    say(recording, *["a test has passed: key, token\n" * 2_000] * 10, f"{KEY}\n")

    shown = output(root)
    assert len(shown) <= 10 * run_recorder.MAX_PENDING_CHARACTERS
    assert shown.count(run_recorder.CUT_MARKER) == 10
    assert shown.endswith("[redacted]\n")


def test_the_files_of_the_last_runs_stay(root: Path) -> None:
    for n in range(8):
        with RunRecorder(root, lambda event: None) as recording:
            recording(progress_event("run_started", run_id=f"run-0000000{n}"))
        os.utime(file_of(root, f"run-0000000{n}"), (n, n))

    assert logged_runs(root) == [f"run-0000000{n}" for n in (7, 6, 5, 4, 3)]


def test_an_event_costs_next_to_nothing(recording: RunRecorder) -> None:
    events = [progress_event("output", text=f"Looking at src/part_{n}.py for the cause of it\n") for n in range(2_000)]
    started = time.process_time()

    for one in events:
        recording(one)

    assert (time.process_time() - started) / len(events) < 200e-6  # about 20 µs; a slow machine has room


# --- reading what may be anything ------------------------------------------------------------


def test_a_line_that_is_being_written_is_read_once_it_is_whole(root: Path, recording: RunRecorder) -> None:
    line = b'{"what": "note", "at": "", "details": {"message": "whole"}}\n'
    _, offset = read_events(root, RUN)

    with file_of(root).open("ab") as file:
        file.write(line[:20])
        file.flush()
        assert read_events(root, RUN, offset) == ([], offset)
        file.write(line[20:])
    told, after = read_events(root, RUN, offset)

    assert [one.details for one in told] == [{"message": "whole"}]
    assert after == offset + len(line)


def test_a_file_that_was_replaced_is_read_from_its_beginning_and_that_is_said(
    root: Path, recording: RunRecorder
) -> None:
    say(recording, "a\n" * 100)
    _, offset = read_events(root, RUN)
    file_of(root).unlink()
    with RunRecorder(root, lambda event: None) as again:
        again(progress_event("run_started", run_id=RUN))

    told, after = read_events(root, RUN, offset)

    assert told[0].details["message"] == LOG_RESET_MESSAGE
    assert [one.what for one in told] == ["note", "run_started"]
    assert read_events(root, RUN, after) == ([], after)


def test_a_run_that_goes_on_is_written_on(root: Path, recording: RunRecorder) -> None:
    recording(progress_event("run_ended", run_id=RUN))
    _, offset = read_events(root, RUN)
    with file_of(root).open("ab") as file:
        file.write(b'{"what": "half a li')  # killed in the middle

    with RunRecorder(root, lambda event: None) as again:
        again(progress_event("run_started", run_id=RUN, is_resumed=True))

    assert [one.what for one in read_events(root, RUN, offset)[0]] == ["run_started"]
    assert [one.what for one in read_events(root, RUN)[0]] == ["run_started", "run_ended", "run_started"]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"null", b"[]", b"3", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"what": 1, "at": "", "details": {}}',
        b'{"what": "note", "at": "", "details": []}', b'{"what": "note", "at": null, "details": {}}', b"9" * 10_000,
    ],
)  # fmt: skip
def test_lines_that_are_none_of_ours_are_passed_over(root: Path, recording: RunRecorder, line: bytes) -> None:
    with file_of(root).open("ab") as file:
        file.write(line + b"\n")
    recording(progress_event("note", message="after it"))

    assert [one.what for one in read_events(root, RUN)[0]] == ["run_started", "note"]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b'{"left_out":"-000000000000001"}\n', b"x" * 100, b'{"left_out":"1"}\n']
)
def test_a_file_that_is_none_of_ours_says_nothing(root: Path, content: bytes) -> None:
    file_of(root).parent.mkdir()
    file_of(root).write_bytes(content)

    assert read_events(root, RUN) == ([], 0)


def test_a_huge_file_is_read_in_bounded_parts_that_come_to_an_end(root: Path, recording: RunRecorder) -> None:
    with file_of(root).open("ab") as file:
        file.write(b"x" * (5 * 1024 * 1024) + b"\n")
    recording._file = None  # whoever wrote that is gone
    offset, parts = 0, 0
    while True:
        _, after = read_events(root, RUN, offset)
        if after == offset:
            break
        offset, parts = after, parts + 1

    assert offset == file_of(root).stat().st_size - len(run_log.HEADER % 0)
    assert parts < 10


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "", ".", "a/b", "x" * 100, "run\n"])
def test_no_name_leads_out_of_the_folder(root: Path, name: str) -> None:
    (root / "secret.jsonl").write_bytes(b'{"left_out":"0000000000000000"}\n')
    (root / LIVE_FOLDER).mkdir()

    assert read_events(root, name) == ([], 0)


def test_links_are_not_followed(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".ralph").mkdir(parents=True)
    with RunRecorder(elsewhere, lambda event: None) as recording:
        recording(progress_event("run_started", run_id=RUN))
    (root / LIVE_FOLDER).mkdir()
    file_of(root).symlink_to(file_of(elsewhere))
    assert read_events(root, RUN) == ([], 0)
    assert logged_runs(root) == []

    file_of(root).unlink()
    (root / LIVE_FOLDER).rmdir()
    (root / LIVE_FOLDER).symlink_to(elsewhere / LIVE_FOLDER)
    assert read_events(root, RUN) == ([], 0)
    assert logged_runs(root) == []


def test_a_project_that_is_reached_over_a_link_is_read_all_the_same(root: Path, tmp_path: Path) -> None:
    with RunRecorder(root, lambda event: None) as recording:
        recording(progress_event("run_started", run_id=RUN))
    (tmp_path / "link").symlink_to(root)

    assert logged_runs(tmp_path / "link") == [RUN]
    assert len(read_events(tmp_path / "link", RUN)[0]) == 1


# --- current -----------------------------------------------------------------------------


def test_what_matters_now_begins_with_the_attempts_at_work() -> None:
    def at(what: str, iteration: int = 0) -> ProgressEvent:
        return progress_event(what, iteration=iteration)

    first = [at("run_started"), at("attempt_started", 1), at("attempt_ended", 1), at("run_ended")]
    again = [at("run_started"), at("attempt_started", 2), at("output"), at("attempt_ended", 2)]
    both = [at("attempt_started", 3), at("attempt_started", 4), at("attempt_ended", 4), at("output")]

    assert current_events([]) == []
    assert current_events(first[:1]) == first[:1]
    assert current_events([*first, *again, *both]) == [again[0], *both]
    assert current_events([*first, *again]) == again
    assert current_events([*first, again[0]]) == [again[0]]


# --- what others write into the file ---------------------------------------------------------


@pytest.mark.parametrize(
    "details",
    [
        b'{"text":"\\ud800"}',
        b'{"a":[{"b":"\\udfff"}]}',
        b'{"\\ud800":1}',
        b'{"n":1e999}',
        b'{"n":NaN}',
        b'{"n":123456789012345678901234567890}',
        b'{"n":' + b"[" * 700 + b"]" * 700 + b"}",
    ],
)
def test_what_cannot_be_told_to_everybody_is_passed_over(root: Path, recording: RunRecorder, details: bytes) -> None:
    with file_of(root).open("ab") as file:
        file.write(b'{"what":"output","at":"x","details":' + details + b"}\n")
    say(recording, "Still here 字 🐝\n")

    told, _ = read_events(root, RUN)

    assert [one.what for one in told] == ["run_started", "output"]
    assert json.dumps([one.details for one in told], ensure_ascii=False, allow_nan=False).encode()


def test_a_file_that_says_too_much_is_gone_from_it_is_none_of_ours(root: Path, recording: RunRecorder) -> None:
    lines = file_of(root).read_bytes().partition(b"\n")[2]
    file_of(root).write_bytes(b'{"left_out":"9999999999999999"}\n' + lines)

    assert read_events(root, RUN, 7) == ([], 7)
