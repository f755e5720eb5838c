"""A damaged database: found wherever it was hit, told in plain words, and brought back with the gap named.

The same damage as in `make torture`, in small; and what each door says while the file is damaged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ralph.core.errors import StoreError
from ralph.project import Project
from ralph.store import open_store
from ralph.store.maintenance.backup import make_backup
from ralph.store.maintenance.check import check_database
from ralph.store.maintenance.restore import restore
from ralph.store.tasks import TaskDraft
from tests.cli.ran import Ralph, run
from tests.faults import corruption
from tests.faults.corruption import DATABASE, KINDS, _copied, _empty_log, build
from tests.make import set_up_project
from tests.web.asking import Served

pytestmark = pytest.mark.sqlite


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a project with all there is in one, with a write-ahead log."""
    return build(tmp_path_factory.mktemp("built") / "project")


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    """Give a copy of it that may be damaged, without a log."""
    _copied(built, tmp_path / ".ralph")
    _empty_log(tmp_path / ".ralph")
    return tmp_path / ".ralph"


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return lambda *words: run(capsys, tmp_path, *words)


# --- what is found ---------------------------------------------------------------------------


def test_damage_of_every_kind_is_found_and_what_is_lost_is_told(tmp_path: Path) -> None:
    shown = corruption.run(tmp_path, 2 * len(KINDS), seed=4)

    effect, found = map(int, re.findall(r"(\d+) had an effect, (\d+) of them found", shown.says)[0])
    assert shown.tried == 2 * len(KINDS)
    assert shown.lost == 0
    assert effect == found >= len(KINDS) // 2


TWINS = {
    "projects": "created_at",
    "tasks": "claim_token",
    "task_log": "message",
    "runs": "options",
    "run_events": "what",
    "memory_events": "why",
    "memory_vectors": "vector",
    "synced_places": "files_mark",
    "synced_files": "changed_ns",
    "synced_entries": "agreed",
}


@pytest.mark.parametrize("table", TWINS)
def test_a_value_without_a_checksum_that_changes_on_the_disk_is_found(home: Path, table: str) -> None:
    path, column = home / DATABASE, TWINS[table]
    assert check_database(str(path)).problems == ()

    change_on_disk(path, table, column)

    assert any(table in problem for problem in check_database(str(path)).problems)


def change_on_disk(path: Path, table: str, column: str) -> None:
    """Change one value of a table's first row and no index of it, as only a disk does."""
    connection = apsw.Connection(str(path))
    twins = connection.execute(
        "SELECT name, sql, rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
        (table,),
    ).fetchall()
    connection.pragma("writable_schema", True)
    connection.pragma("ignore_check_constraints", True)
    connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (table,))
    connection.close()
    connection = apsw.Connection(str(path))
    connection.pragma("ignore_check_constraints", True)
    (kind,) = connection.execute(f"SELECT typeof({column}) FROM {table}").fetchall()[0]
    other = {"integer": f"{column} + 1", "real": f"{column} + 1", "blob": f"zeroblob(length({column}))"}
    value = other.get(str(kind), f"'x' || substr({column}, 2)")
    connection.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT MIN(rowid) FROM {table})")
    connection.pragma("writable_schema", True)
    for name, sql, root in twins:
        connection.execute("INSERT INTO sqlite_schema VALUES ('index', ?, ?, ?, ?)", (name, table, root, sql))
    connection.close()


def test_a_column_whose_name_changed_on_the_disk_is_reported(home: Path, tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    shutil.copy(home / DATABASE, path)
    connection = apsw.Connection(str(path))
    connection.pragma("writable_schema", True)
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'version BIGINT', 'Version BIGINT') WHERE name = 'memory_words'"
    )
    connection.close()

    problems = check_database(str(path), deep=True).problems

    assert "The definition of memory_words is damaged." in problems
    assert "The search index of memories cannot be read." in problems


def test_no_question_is_answered_from_a_twin(home: Path) -> None:
    connection = apsw.Connection(str(home / DATABASE))
    questions = ("SELECT * FROM runs", "SELECT seq, what FROM memory_events WHERE seq > 3 ORDER BY seq")

    plans = [str(connection.execute(f"EXPLAIN QUERY PLAN {question}").fetchall()) for question in questions]

    connection.close()
    assert "twin" not in " ".join(plans)


# --- the write-ahead log ---------------------------------------------------------------------


WRITE_AND_DIE = """
import os, sys
from ralph.store import open_store
from ralph.store.tasks import TaskDraft
store = open_store(sys.argv[1])
store.tasks.add(TaskDraft(title="In the log"))
store.tasks.add(TaskDraft(title="In the log alone"))
os._exit(9)
"""


def write_and_die(path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=False)
    assert Path(f"{path}-wal").stat().st_size


def test_a_file_that_was_cut_to_nothing_keeps_its_log_until_it_is_restored(tmp_path: Path, ralph: Ralph) -> None:
    set_up_project(tmp_path)
    path, log = tmp_path / ".ralph" / DATABASE, tmp_path / ".ralph" / f"{DATABASE}-wal"
    ralph("backup")
    write_and_die(path)
    content = log.read_bytes()
    os.truncate(path, 0)

    told = [ralph("status"), ralph("doctor"), ralph("init"), ralph("backup"), ralph("restore", "--dry-run")]
    kept = log.read_bytes()
    ralph("restore", "--yes")

    assert "is empty. Restore a backup with: ralph restore." in told[0].err
    assert "-> ralph restore" in told[1].out
    assert "nobody knows how much" in told[4].out
    assert kept == content
    assert next((tmp_path / ".ralph/damaged").glob(f"*/{DATABASE}-wal")).read_bytes() == content


def test_who_has_a_database_open_whose_log_is_removed_acknowledges_nothing_more(tmp_path: Path) -> None:
    set_up_project(tmp_path)
    path = tmp_path / ".ralph" / DATABASE
    store = open_store(str(path))
    store.tasks.add(TaskDraft(title="Before"))
    Path(f"{path}-wal").unlink()

    with pytest.raises(StoreError, match="was moved or deleted while it was in use"):
        store.tasks.add(TaskDraft(title="After"))

    store.close()


# --- a person's way back ---------------------------------------------------------------------


def page_with(content: bytes, text: bytes) -> bytes:
    at = content.index(text) // 4096 * 4096
    return content[:at] + bytes(4096) + content[at + 4096 :]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "a flipped bit": (
        lambda content: content.replace(b"Second task", b"Recond task"),
        "In tasks, 1 row does not match its checksum: t-",
        "Lost: 1 task added after ",
    ),
    "a lost page": (
        lambda content: page_with(content, b"Second task"),
        "Its structure is damaged: ",
        "unreadable data",
    ),
    "half of it": (
        lambda content: content[: len(content) // 2],
        "It cannot be read: database disk image is malformed.",
        "The database is unreadable, so nobody knows how much that is.",
    ),
    "noise": (
        lambda content: os.urandom(len(content)),
        "It cannot be read: file is not a database.",
        "The database is unreadable, so nobody knows how much that is.",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_doctor_names_the_command_that_mends_it_and_after_that_all_is_well(
    tmp_path: Path, ralph: Ralph, kind: str
) -> None:
    change, says, gap = DAMAGE[kind]
    set_up_project(tmp_path)
    ralph("task", "add", "First task")
    ralph("memory", "add", "Docker first", "-t", "fix")
    ralph("backup")
    ralph("task", "add", "Second task")
    ralph("memory", "add", "Podman second", "-t", "fix")
    path = tmp_path / ".ralph" / DATABASE
    path.write_bytes(change(path.read_bytes()))
    damaged = path.read_bytes()

    doctor = ralph("doctor", "--format", "json")
    wrong = [one for one in doctor.json if not one["is_fine"]]
    assert doctor.code == 1
    assert any(one["says"].startswith(says) for one in wrong)
    assert {one["mend"] for one in wrong if one["about"] == "database"} == {"ralph restore"}
    assert ralph("backup").code == 1
    looked = ralph("restore", "--dry-run")
    assert path.read_bytes() == damaged
    done = ralph(*wrong[0]["mend"].split()[1:], "--yes")

    assert done.code == 0
    assert gap in looked.out
    assert gap in done.out
    assert next((tmp_path / ".ralph/damaged").glob(f"*/{DATABASE}")).read_bytes() == damaged
    assert ralph("doctor").out.endswith("No problems found.\n")
    assert "First task" in ralph("task", "list").out
    assert "Podman second" in ralph("memory", "list").out  # the file that mirrors it had it, if nothing else


def test_a_database_that_is_gone_is_told_by_every_command_and_one_further_up_is_not_taken_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    set_up_project(tmp_path)
    set_up_project(inner)
    run(capsys, inner, "backup")
    for file in (inner / ".ralph").glob(f"{DATABASE}*"):
        file.unlink()

    told = [run(capsys, inner, *words) for words in (("status",), ("doctor",), ("memory", "add", "x"), ("init",))]
    restored = run(capsys, inner, "restore", "--yes")

    for one in told:
        assert (one.code, one.error) == (1, "database-missing")
    assert restored.code == 0
    assert run(capsys, inner, "status").code == 0


def test_the_gap_names_all_that_people_would_miss(home: Path) -> None:
    done = restore(str(home / DATABASE))

    assert done.loss.is_exact
    assert done.loss.added == {
        "memory": 13, "attempt": 4, "task": 1, "failure report": 1, "session": 1, "run": 2, "note on a task": 1,
    }  # fmt: skip
    assert done.loss_message.startswith(
        "Lost: 13 memories, 4 attempts, 1 task, 1 failure report, 1 session, 2 runs and 1 note"
    )


def test_a_newer_backup_that_is_damaged_is_passed_over_by_name(home: Path, ralph: Ralph) -> None:
    newest = next((home / "backups").glob("*newer.db"))
    content = newest.read_bytes()
    newest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (home / DATABASE).write_bytes(b"noise" * 1000)

    verified, done = ralph("backup", "--verify"), ralph("restore", "--yes")

    assert verified.code == 1
    states = {line.split()[0]: line.split()[1] for line in verified.out.splitlines()[1:]}
    assert states[newest.name] == "damaged"
    assert list(states.values()).count("ok") == 1
    assert f"{newest.name} is damaged" in done.out
    assert "-older.db" in done.out


# --- doors -----------------------------------------------------------------------------------


AGENT = """
dd if=/dev/urandom of=.ralph/ralph.db bs=4096 seek=1 count=60 conv=notrunc 2>/dev/null
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


def test_a_run_whose_database_is_damaged_under_it_says_so_once_and_stops(tmp_path: Path, ralph: Ralph) -> None:
    set_up_project(tmp_path)
    for n in range(5):
        ralph("task", "add", f"Task {n}")
    ralph("backup")
    (tmp_path / "agent.sh").write_text(AGENT)

    done = subprocess.run(
        [sys.executable, "-m", "ralph", "run", "--format", "json", "--", "sh", "agent.sh"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [one["event"] for one in events].count("attempt_started") == 1
    assert not [one for one in events if one["event"] == "attempt_ended" and one["outcome"] == "done"]
    assert any("ralph restore" in one.get("message", "") for one in events) or "ralph restore" in done.stderr
    assert ralph("restore", "--yes").code == 0
    assert ralph("status", "--format", "json").code == 0


def test_a_server_answers_that_the_database_is_damaged_and_goes_on_once_it_is_restored(
    tmp_path: Path, ralph: Ralph
) -> None:
    set_up_project(tmp_path)
    ralph("memory", "add", "Docker first", "-t", "fix")
    ralph("backup")
    path = tmp_path / ".ralph" / DATABASE
    with Project.open(tmp_path) as project:
        served = Served(tmp_path, project)
        try:
            assert served.get("/api/projects/-/memories")[0] == 200
            path.with_suffix(".new").write_bytes(b"noise" * 1000)
            path.with_suffix(".new").replace(path)

            status, said = served.get("/api/projects/-/memories")
            written = served.post("/api/projects/-/memories", {"content": "Not acknowledged"})
            ralph("restore", "--yes")
            again = served.get("/api/projects/-/memories")
        finally:
            served.close()

    assert (status, written[0]) == (503, 503)
    assert "ralph restore" in json.dumps(said)
    assert again[0] == 200
    assert "Not acknowledged" not in json.dumps(again[1])


def test_hooks_and_mcp_say_that_the_database_is_damaged_and_acknowledge_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up_project(tmp_path)
    make_backup(str(tmp_path / ".ralph" / DATABASE), "by hand")
    (tmp_path / ".ralph" / DATABASE).write_bytes(b"noise" * 1000)
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "remember", "arguments": {"content": "Not acknowledged"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "search_memories", "arguments": {"query": "docker"}}},
    ]  # fmt: skip

    hook = said_to(tmp_path, json.dumps({"session_id": "s", "cwd": str(tmp_path)}), "hook", "session-start")
    mcp = said_to(tmp_path, "".join(f"{json.dumps(call)}\n" for call in calls), "mcp")

    assert hook.returncode == 0  # an agent is never held up
    assert "ralph restore" in hook.stderr
    answers = [json.loads(line) for line in mcp.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    for answer in answers[1:]:
        assert answer["result"]["isError"]
        assert "ralph restore" in answer["result"]["content"][0]["text"]


def said_to(directory: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ralph", *words],
        cwd=directory, input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
