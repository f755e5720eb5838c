"""A disk that is full, fails or is read-only: a clear sentence, nothing acknowledged, reads go on, the loop waits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.errors import StoreNotWritableError
from ralph.core.files import DISK_FULL, DISK_READ_ONLY, disk_problem
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from tests.faults import disk
from tests.faults.disk import fill
from tests.faults.traced import can_mount, can_trace, command
from tests.make import damaged_rows, set_up_project
from tests.waiting import wait_until

pytestmark = pytest.mark.sqlite
needs_mount = pytest.mark.skipif(not can_mount(), reason="no disk can be mounted here: that takes root on Linux")
needs_strace = pytest.mark.skipif(not can_trace(), reason="there is no strace that may trace here")
READS = (
    ["memory", "list"],
    ["memory", "search", "parser"],
    ["memory", "prime"],
    ["memory", "export"],
    ["status"],
    ["task", "list"],
    ["journal", "list"],
    ["stats"],
)
WRITES = (["memory", "add", "Something new"], ["task", "add", "Another"], ["run", "--", "true"])
AGENT = """
cat > prompt.txt || exit 1
echo "<knowledge tags=\\"task\\" title=\\"About $RALPH_TASK_ID\\">It was $RALPH_TASK_ID.</knowledge>"
{meanwhile}
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
FILLS = "[ -e {mounted}/filled ] || {{ touch {mounted}/filled; dd if=/dev/zero of={mounted}/filler bs=4096; }} 2>&-"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Give a small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def root(mounted: Path) -> Path:
    """Give a project on the small disk, with a memory in the database and one more in its log."""
    root = mounted / "project"
    root.mkdir()
    set_up_project(root)
    with Project.open(root) as project, project.synced():
        project.memory.add("The parser wants tabs.")
        project.tasks.add("Mend the parser")
    code = "import os; from ralph.project import Project; Project.open('.').memory.add('The log is read.'); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    return root


def ralph(root: Path, *words: str, before: tuple[str, ...] = (), given: str = "") -> subprocess.CompletedProcess[str]:
    call = [*before, sys.executable, "-m", "ralph", *words]
    return subprocess.run(call, cwd=root, input=given, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.skipif(not (can_trace() or can_mount()), reason="there is neither strace nor a disk to mount")
def test_what_is_written_to_a_failing_disk_is_refused_in_a_sentence_or_there(tmp_path: Path) -> None:
    shown = disk.run(tmp_path, 12, 3)

    assert shown.lost == 0
    assert shown.tried >= 8
    assert " 0 writes refused" not in shown.says


@needs_mount
@pytest.mark.parametrize("trouble", [DISK_FULL, DISK_READ_ONLY])
def test_all_that_is_there_is_read_and_what_is_new_refused(root: Path, mounted: Path, trouble: str) -> None:
    if trouble == DISK_FULL:
        fill(mounted)
    else:
        (root / ".ralph/ralph.db-shm").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    assert disk_problem(root) == trouble

    read = [ralph(root, *words) for words in READS]
    refused = [ralph(root, *words) for words in WRITES]
    hooked = ralph(root, "hook", "session-start", given=json.dumps({"session_id": "s", "cwd": str(root)}))

    assert [one.returncode for one in read] == [0] * len(READS), [one.stderr for one in read]
    assert all(text in read[0].stdout for text in ("The parser wants tabs", "The log is read"))
    assert "The parser wants tabs" in json.loads(hooked.stdout)["hookSpecificOutput"]["additionalContext"]
    assert [one.returncode for one in refused] == [1] * len(WRITES)
    mend = "Free some space, then try again." if trouble == DISK_FULL else "Make it writable, then try again."
    sentence = f"Error: The database {root}/.ralph/ralph.db cannot be used: {trouble}. {mend}\n"
    assert [one.stderr for one in refused] == [sentence] * len(WRITES)
    if trouble == DISK_READ_ONLY:
        subprocess.run(["mount", "-o", "remount,rw", str(mounted)], check=True)
    else:
        (mounted / "filler").unlink()
    assert ralph(root, "task", "list").stdout.count("t-") == 1


@needs_mount
def test_a_backup_is_refused_at_once_where_nothing_can_be_written(root: Path, mounted: Path) -> None:
    fill(mounted)
    began = time.monotonic()

    with Project.open(root) as project, pytest.raises(StoreNotWritableError, match="the disk is full"):
        project.store.backup("asked for")

    assert time.monotonic() - began < 5


@needs_mount
@pytest.mark.parametrize(("trouble", "mend"), [(DISK_FULL, "free some space"), (DISK_READ_ONLY, "make it writable")])
def test_the_doctor_names_what_the_disk_needs_before_all_else(
    root: Path, mounted: Path, trouble: str, mend: str
) -> None:
    if trouble == DISK_FULL:
        fill(mounted)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)

    looked = json.loads(ralph(root, "doctor", "--format", "json").stdout)

    wrong = {one["about"]: one["mend"] for one in looked if not one["is_fine"]}
    assert wrong["disk"] == mend
    assert wrong.get("database", f"{mend} first, then run again: ralph doctor").startswith(mend)


@needs_mount
def test_a_read_only_project_without_a_log_is_read_too(root: Path, mounted: Path) -> None:
    Project.open(root).close()  # takes the log in
    assert not (root / ".ralph/ralph.db-wal").exists()
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)

    assert "The log is read" in ralph(root, "memory", "list").stdout


@needs_mount
def test_a_server_that_read_from_a_full_disk_writes_as_soon_as_there_is_room(root: Path, mounted: Path) -> None:
    fill(mounted)
    opened = ProjectHandle(str(root))
    assert opened.call_with_project(lambda project: len(project.store.memories.all())) == 2
    with pytest.raises(StoreNotWritableError, match="the disk is full"):
        opened.call_with_project(lambda project: project.memory.add("Something new"))

    (mounted / "filler").unlink()
    kept = opened.call_with_project(lambda project: project.memory.add("Something new"))

    assert kept.what == "added"
    opened.close()


@needs_mount
def test_what_the_files_lack_because_the_disk_was_full_is_written_later(root: Path, mounted: Path) -> None:
    path = root / ".agent/memories.md"
    with Project.open(root) as project:  # it holds all that SQLite needs to write a little
        path.write_text(path.read_text() + "\n## Fixes\n\n### mem-1700000000-abcd\n> A person wrote this.\n")
        fill(mounted)
        project.files.sync()
        listed = project.store.memories.all()
        problems = project.files.problems
        (mounted / "filler").unlink()
        project.files.sync()

        assert len(listed) in (2, 3)
        assert listed[0].content == "The parser wants tabs."
        assert problems or len(listed) == 3
        assert project.memory.get("mem-1700000000-abcd").content == "A person wrote this."


# --- the loop ---------------------------------------------------------------------------------


@needs_mount
@pytest.mark.parametrize("crashes", [False, True])
def test_a_run_waits_for_room_and_loses_nothing_of_what_the_session_said(
    root: Path, mounted: Path, crashes: bool
) -> None:
    meanwhile = FILLS.format(mounted=mounted) + (f"\n[ -e {mounted}/filler ] && exit 7" if crashes else "")
    (root / "agent.sh").write_text(AGENT.format(meanwhile=meanwhile))
    with Project.open(root) as project:
        project.tasks.add("Mend the lexer")
    run = subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--", "sh", "agent.sh"], cwd=root, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: (mounted / "filler").exists() and disk_problem(root) == DISK_FULL)
    time.sleep(1.0)
    assert run.poll() is None

    (mounted / "filler").unlink()
    output, _ = run.communicate(timeout=30)

    assert run.returncode == 0, output
    assert "the disk is full. Free some space, then try again. Waiting until it can be written." in output
    assert "The database can be written again." in output
    with Project.open(root) as project:
        outcomes = [one.outcome for one in reversed(project.store.attempts.latest(10))]
        assert outcomes == [*[AttemptOutcome.INTERRUPTED] * crashes, AttemptOutcome.DONE, AttemptOutcome.DONE]
        titles = [one.title for one in project.store.memories.all() if one.kind == "knowledge"]
        assert sorted(titles) == sorted(f"About {task.id}" for task in project.tasks.list())


IMPATIENT = """
import sys
from ralph.loop import context
context.DISK_WAIT_SECONDS = 0.5
from ralph.cli import main
sys.exit(main())
"""


@needs_mount
@pytest.mark.parametrize("in_session", [True, False])
def test_a_run_that_waited_too_long_says_so_and_can_be_resumed(root: Path, mounted: Path, in_session: bool) -> None:
    meanwhile = FILLS.format(mounted=mounted)
    (root / "agent.sh").write_text(AGENT.format(meanwhile=meanwhile if in_session else ""))
    nearly_full = f"[ -e {mounted}/filled ] || head -c 4900k /dev/zero > {mounted}/filler; touch {mounted}/filled"
    gate = "true" if in_session else nearly_full
    with Project.open(root) as project:
        project.tasks.add("Mend the lexer")
    run = subprocess.run(
        [sys.executable, "-c", IMPATIENT, "run", "--gate", gate, "--", "sh", "agent.sh"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    assert (
        "the disk could not be written for too long; free space, then continue with: ralph run --resume" in run.stdout
    )
    assert "Traceback" not in run.stdout + run.stderr
    with Project.open(root) as project:
        assert [task.status for task in project.tasks.list()].count(TaskStatus.DONE) == (0 if in_session else 1)
    (mounted / "filler").unlink()
    resumed = ralph(root, "run", "--resume", "--no-verify")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    with Project.open(root) as project:
        assert {task.status for task in project.tasks.list()} == {TaskStatus.DONE}


# --- calls that fail --------------------------------------------------------------------------


@needs_strace
@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["memory", "add", "Something new"], "fdatasync"),
        (["task", "add", "Another"], "pwrite64"),
        (["backup"], "fsync"),
    ],
)
def test_a_command_whose_disk_fails_says_so_in_one_line(tmp_path: Path, words: list[str], call: str) -> None:
    set_up_project(tmp_path)
    with Project.open(tmp_path) as project:
        project.memory.add("The parser wants tabs.")

    failed = ralph(tmp_path, *words, before=tuple(command(call, "error=EIO:when=1+")))

    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: ")
    assert failed.stderr.count("\n") == 1
    assert failed.stderr.endswith(".\n")
    assert failed.stdout == ""
    with Project.open(tmp_path) as project:
        assert len(project.store.memories.all()) == 1
        assert project.tasks.list() == []
        assert damaged_rows(project.store) == []
    assert list(tmp_path.glob(".ralph/backups/*.db")) == []
