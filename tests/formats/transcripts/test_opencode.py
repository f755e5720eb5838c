"""Sessions of opencode, in a database and in JSON files, made by hand after those of real ones."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.formats.transcripts.make import find, read, write

pytestmark = pytest.mark.storeless

START = 1_700_000_000_000
SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL,
                      time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, data text NOT NULL);
"""
Message = tuple[dict[str, Any], list[dict[str, Any]]]


def tool(name: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": name, "callID": f"call_{name}", "state": {"status": status, **state}}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def by_user(*parts: dict[str, Any]) -> Message:
    return {"role": "user", "time": {"created": 1}, "summary": {"diffs": []}}, list(parts)


def by_agent(*parts: dict[str, Any], **more: Any) -> Message:
    return {"role": "assistant", "time": {"created": 1, "completed": 2}, **more}, list(parts)


def conversation(project: Path) -> list[Message]:
    failed: dict[str, Any] = {"input": {"command": "make"}, "output": "FAILED tabs\n", "metadata": {"exit": 2}}
    return [
        by_user(said('"Fix the \\"parser\\""'), said("A file.", synthetic=True), said("No.", ignored=True)),
        by_agent(
            {"type": "step-start"},
            {"type": "reasoning", "text": "Hm."},
            said("I look."),
            tool("write", input={"filePath": str(project / "src" / "a.py"), "content": "x"}, output="Done."),
            tool("edit", "error", input={"filePath": str(project / "b.py")}, error="No."),
            tool("bash", input={"command": "ls"}, output="a.py", metadata={"exit": 0}),
        ),
        by_agent(tool("bash", **failed), {"type": "step-finish"}),
        by_agent(tool("bash", "error", input={"command": "sleep"}, error="Timed out.")),
        by_agent(said("A summary."), summary=True),
        by_agent(tool("apply_patch", input={"patchText": "*** Begin Patch\n*** Update File: c.py\n"}), said("Tabs.")),
    ]


SAID = [
    ("person", 'Fix the "parser"'),
    ("agent", "I look."),
    ("tool", "$ make\nExit code 2\nFAILED tabs"),
    ("tool", "$ sleep\nTimed out."),
    ("agent", "Tabs."),
]


class Database:
    """A database of opencode, open as opencode has it."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".local" / "share" / "opencode" / "opencode.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = apsw.Connection(str(self.path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.execute(SCHEMA)

    def session(self, id: str, directory: Path, *messages: Message, parent: str | None = None) -> None:
        self.connection.execute(
            "INSERT INTO session VALUES (?, ?, ?, 't', ?, ?)", (id, parent, str(directory), START, START)
        )
        self.add(id, *messages)

    def add(self, id: str, *messages: Message, start: int = START) -> None:
        for number, (message, parts) in enumerate(messages):
            at, name = start + number * 1_000, f"msg_{start}_{number}_{id}"
            self.connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (name, id, at, json.dumps(message)))
            for place, part in enumerate(parts):
                row = (f"prt_{start}_{number}_{place}_{id}", name, id, json.dumps(part))
                self.connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


@pytest.mark.parametrize("is_open", [True, False])
def test_what_people_and_agents_said_and_what_failed_is_kept(tmp_path: Path, database: Database, is_open: bool) -> None:
    database.session("ses_1", tmp_path, *conversation(tmp_path))
    if not is_open:
        database.connection.close()
    before = sorted(one.name for one in database.path.parent.iterdir())

    result = find("opencode", tmp_path, [tmp_path])

    assert (result.said, result.problems) == (SAID, ())
    assert [turn.files for turn in result.turns] == [(), (), ("src/a.py",), (), ("c.py",)]
    assert result.turns[0].at == "2023-11-14T22:13:20.000Z"
    [transcript] = result.transcripts
    assert (transcript.session, transcript.directory, transcript.size) == ("ses_1", str(tmp_path), 15)
    assert sorted(one.name for one in database.path.parent.iterdir()) == before
    for count, turn in enumerate(result.turns, start=1):
        rest = read(transcript, turn.offset).turns
        assert [one.key for one in rest if one.text] == [one.key for one in result.turns[count:]]


def test_json_files_of_old_versions_are_read_unless_the_database_has_them(tmp_path: Path) -> None:
    storage = tmp_path / ".local" / "share" / "opencode" / "storage"
    head = {"directory": str(tmp_path), "time": {"created": START, "updated": START}}
    for session in ("ses_1", "ses_2"):
        write(storage / "session" / "global" / f"{session}.json", {"id": session, **head})
        for number, (message, parts) in enumerate(conversation(tmp_path)):
            name = f"msg_{number}_{session}"
            write(
                storage / "message" / session / f"{name}.json", {**message, "time": {"created": START, "completed": 1}}
            )
            for place, part in enumerate(parts):
                write(storage / "part" / name / f"prt_{place}.json", part)

    alone = find("opencode", tmp_path, [tmp_path])

    assert [one.session for one in alone.transcripts] == ["ses_1", "ses_2"]
    assert (alone.said, alone.problems) == (SAID * 2, ())
    half = read(alone.transcripts[0], alone.turns[1].offset)
    assert [turn.text for turn in half.turns if turn.text] == [text for _, text in SAID[2:]]

    Database(tmp_path).session("ses_1", tmp_path, by_user(said("Newer.")))
    both = find("opencode", tmp_path, [tmp_path])
    assert {one.session for one in both.transcripts} == {"ses_1", "ses_2"}
    assert "Newer." in both.texts
    assert len(both.turns) == 1 + len(SAID)


def test_a_fork_has_the_keys_of_its_original(tmp_path: Path, database: Database) -> None:
    database.session("ses_1", tmp_path, *conversation(tmp_path))
    database.session("ses_2", tmp_path, *conversation(tmp_path), by_user(said("And now?")))

    first, second = (read(one).turns for one in find("opencode", tmp_path, [tmp_path]).transcripts)

    assert [turn.key for turn in second[:-1]] == [turn.key for turn in first]


def test_a_message_that_is_still_written_waits(tmp_path: Path, database: Database) -> None:
    database.session("ses_1", tmp_path, by_user(said("Fix it.")))
    unfinished = by_agent(said("I am wri"), time={"created": 1})
    database.add("ses_1", unfinished, start=int(time.time() * 1_000))

    assert find("opencode", tmp_path, [tmp_path]).texts == ["Fix it."]

    database.connection.execute("UPDATE message SET time_created = ? WHERE time_created > ?", (START + 1, START))
    assert find("opencode", tmp_path, [tmp_path]).texts == ["Fix it.", "I am wri"]


def test_sessions_of_other_directories_are_left_alone_and_subagents_marked(tmp_path: Path, database: Database) -> None:
    database.session("ses_1", tmp_path / "project" / "sub", by_user(said("Here.")))
    database.session("ses_2", tmp_path / "other", by_user(said("There.")))
    database.session("ses_3", tmp_path / "project", by_user(said("Search.")), by_agent(said("Found.")), parent="ses_1")

    result = find("opencode", tmp_path, [tmp_path / "project"])

    assert {(one.session, one.is_subagent) for one in result.transcripts} == {("ses_1", False), ("ses_3", True)}
    assert sorted(result.texts) == ["Found.", "Here."]


def test_bad_databases_are_problems(tmp_path: Path, database: Database) -> None:
    database.session("ses_1", tmp_path, by_user(said("Here.")))
    database.connection.execute("INSERT INTO part SELECT 'prt_0', message_id, session_id, '{' FROM part")
    broken = find("opencode", tmp_path, [tmp_path])
    assert (broken.texts, broken.reasons) == (["Here."], [("opencode.db", 0)])
    database.connection.close()

    elsewhere = tmp_path / "elsewhere.db"
    database.path.rename(elsewhere)
    database.path.symlink_to(elsewhere)
    assert (find("opencode", tmp_path, [tmp_path]).reasons) == [("opencode.db", 0)]
    by_name = find("opencode", tmp_path, [tmp_path], {"OPENCODE_DB": str(elsewhere)})
    assert by_name.texts == ["Here."]

    database.path.unlink()
    for content in (b"no database", b"SQLite format 3\0" + b"\xff" * 5_000):
        database.path.write_bytes(content)
        result = find("opencode", tmp_path, [tmp_path])
        assert (result.transcripts, result.reasons) == ((), [("opencode.db", 0)])
    database.path.unlink()
    apsw.Connection(str(database.path)).execute("CREATE TABLE session (id text)")
    assert find("opencode", tmp_path, [tmp_path]).reasons == [("opencode.db", 0)]
