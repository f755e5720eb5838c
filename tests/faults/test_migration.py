"""Databases of other versions: an older one is brought up to date or left as it was, a newer one is not touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from ralph.cli import main
from ralph.project import Project
from ralph.store.database import SCHEMA_VERSION
from tests.faults import migration
from tests.faults.traced import can_trace
from tests.make import set_up_project

pytestmark = pytest.mark.sqlite

NEWER = SCHEMA_VERSION + 1
REFUSED = (
    f"was written by a newer Ralph (schema {NEWER}, this program knows {SCHEMA_VERSION}). "
    "Nothing was changed: upgrade ralph to open it."
)
COMMANDS = (
    ["memory", "list"],
    ["memory", "add", "Something new"],
    ["task", "add", "Another"],
    ["status"],
    ["run", "--", "true"],
    ["backup"],
    ["serve", "--port", "0"],
    ["init"],
    ["project", "list"],
)


@pytest.mark.skipif(not can_trace(), reason="there is no strace that may trace here")
def test_a_migration_that_is_killed_leaves_the_old_or_the_new_and_can_be_run_again(tmp_path: Path) -> None:
    shown = migration.run(tmp_path, 6, 4)

    assert shown.lost == 0
    assert shown.tried == 6
    assert not shown.says.startswith("0 ")


@pytest.fixture(params=["no log", "log"])
def newer(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Give a project of a newer version, whose program was killed or has ended well."""
    set_up_project(tmp_path)
    with Project.open(tmp_path) as project:
        project.memory.add("The parser wants tabs.")
    connection = apsw.Connection(str(tmp_path / ".ralph/ralph.db"))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("user_version", NEWER)
    connection.execute("CREATE TABLE from_the_future (x)")
    if request.param == "no log":
        connection.pragma("wal_checkpoint(truncate)")
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    connection.close()
    assert (tmp_path / ".ralph/ralph.db-wal").exists() == (request.param == "log")
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    """Give all that matters of a project: what others must find again as it was, the log too."""
    skipped = (".lock", "-shm")  # a queue of writers, and an index of the log that SQLite makes anew
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(skipped) and path.stat().st_size
    }


def test_a_newer_database_is_refused_in_a_sentence_by_every_command_and_not_a_byte_changes(
    newer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(newer)
    before = contents(newer)

    for words in COMMANDS:
        assert main(words) == 1, words
        said = capsys.readouterr().err
        assert said == f"Error: {newer}/.ralph/ralph.db {REFUSED}\n", words

    assert contents(newer) == before


def test_the_doctor_hooks_and_agents_tools_leave_a_newer_database_alone_too(newer: Path) -> None:
    before = contents(newer)
    start = {"session_id": "s", "cwd": str(newer), "source": "startup"}
    call = {"name": "search_memories", "arguments": {"query": "parser"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}

    looked = ralph(newer, ["doctor"], "")
    hooked = ralph(newer, ["hook", "session-start"], json.dumps(start))
    answered = ralph(newer, ["mcp"], json.dumps(asked) + "\n")

    assert looked.returncode == 1
    assert "upgrade ralph" in looked.stdout
    assert "ralph restore" not in looked.stdout
    assert (hooked.returncode, json.loads(hooked.stdout)) == (0, {})
    assert REFUSED in hooked.stderr
    assert REFUSED in answered.stdout
    assert contents(newer) == before


def ralph(root: Path, words: list[str], given: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "ralph", *words]
    return subprocess.run(call, cwd=root, input=given, capture_output=True, text=True, check=False, timeout=30)
