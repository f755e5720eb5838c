"""Transcripts of the Gemini CLI, by version, made by hand after those of real ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ralph.formats.transcripts.gemini import MAX_JSON_BYTES
from tests.formats.transcripts.make import Found, Gemini, find, json_lines, read, write

pytestmark = pytest.mark.storeless

SHELL = "<untrusted_context>\nOutput: {}\nExit Code: {}\nProcess Group PGID: 9013\n</untrusted_context>"


def chats(home: Path, directory: Path) -> Path:
    """Return the folder of the transcripts of a directory, as 0.61 names it."""
    folder = home / ".gemini" / "tmp" / directory.name.lower()
    write(folder / ".project_root", str(directory.resolve()))
    return folder / "chats"


def hashed_chats(home: Path, directory: Path) -> Path:
    """Return the folder of the transcripts of a directory, as 0.25 names it."""
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return home / ".gemini" / "tmp" / name / "chats"


def conversation(gemini: Gemini, project: Path) -> list[dict[str, object]]:
    edit = gemini.called("replace", {"file_path": str(project / "src" / "a.py")}, "Done.")
    failed_edit = gemini.called("write_file", {"file_path": str(project / "b.py")}, "No.", "error")
    return [
        gemini.user("<session_context>\nThis is the Gemini CLI.\n</session_context>"),
        gemini.user("<hook_context>Memories</hook_context>\n\nFix the parser."),
        gemini.says("I look.", edit, failed_edit),
        gemini.user({"functionResponse": {"name": "replace", "response": {"output": "x"}}}),
        gemini.says("", gemini.ran("ls", SHELL.format("a.py", 0)), gemini.ran("make", SHELL.format("FAILED tabs", 2))),
        {**gemini.says("A notice."), "type": "info"},
        gemini.user(
            "See @a.py", "\n--- Content from referenced files ---", "Content of a.py", "--- End of content ---"
        ),
        gemini.says("Tabs are the reason."),
    ]


SAID = [
    ("person", "Fix the parser."),
    ("agent", "I look."),
    ("tool", "$ make\nExit code 2\nFAILED tabs"),
    ("person", "See @a.py"),
    ("agent", "Tabs are the reason."),
]


def in_lines(home: Path, project: Path, *entries: object) -> Found:
    write(chats(home, project) / "session-2026-11-17T06-30-g1.jsonl", Gemini().header(), *entries)
    return find("gemini", home, [project])


def test_what_people_and_agents_said_and_what_failed_is_kept(tmp_path: Path) -> None:
    result = in_lines(tmp_path, tmp_path, *conversation(Gemini(), tmp_path))

    assert (result.said, result.problems) == (SAID, ())
    assert [turn.files for turn in result.turns] == [(), ("src/a.py",), (), (), ()]
    [transcript] = result.transcripts
    assert (transcript.session, transcript.directory) == ("g1", str(tmp_path))


def test_a_transcript_of_an_old_version_is_read_and_read_on(tmp_path: Path) -> None:
    whole = {**Gemini().header(), "messages": conversation(Gemini(), tmp_path)}
    path = write(hashed_chats(tmp_path, tmp_path) / "session-1.json", json.dumps(whole, indent=2))

    result = find("gemini", tmp_path, [tmp_path])

    [transcript] = result.transcripts
    assert (result.said, result.problems) == (SAID, ())
    assert (transcript.session, transcript.path) == ("g1", str(path.resolve()))
    for count, turn in enumerate(result.turns, start=1):
        assert read(transcript, turn.offset).turns == result.turns[count:]

    path.write_text(json.dumps(whole)[:-20])
    assert read(transcript).reasons == [("session-1.json", 0)]
    path.write_text(json.dumps({**whole, "more": "x" * MAX_JSON_BYTES}))
    assert read(transcript).reasons == [("session-1.json", 0)]


def test_the_last_version_of_a_message_counts_and_what_was_taken_back_does_not(tmp_path: Path) -> None:
    gemini = Gemini()
    first, reply, wrong, second = (
        gemini.user("First."),
        gemini.says("I write."),
        gemini.user("Wrong."),
        gemini.user("Right."),
    )
    edited = {**reply, "toolCalls": [gemini.called("write_file", {"file_path": str(tmp_path / "a.py")}, "x")]}

    result = in_lines(
        tmp_path,
        tmp_path,
        {"$set": {"messages": [gemini.user("Gone."), first]}},
        gemini.user("Gone too."),
        {"$set": {"messages": [first], "lastUpdated": "x"}},
        reply,
        {"$set": {"lastUpdated": "x"}},
        edited,
        wrong,
        gemini.says("Never."),
        {"$rewindTo": wrong["id"]},
        second,
    )

    assert [(turn.text, turn.files) for turn in result.turns] == [
        ("First.", ()),
        ("I write.", ("a.py",)),
        ("Right.", ()),
    ]


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    entries = conversation(Gemini(), tmp_path)
    whole = in_lines(tmp_path, tmp_path, *entries)
    [transcript] = whole.transcripts
    path, lines = Path(transcript.path), [json_lines(entry).encode() for entry in (Gemini().header(), *entries)]

    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]) + lines[count][:20])
        first = read(transcript)
        path.write_bytes(b"".join(lines))
        second = read(transcript, first.turns[-1].offset if first.turns else 0)

        assert first.problems == second.problems == ()
        assert (*first.turns, *second.turns) == whole.turns


def test_broken_lines_are_reported(tmp_path: Path) -> None:
    result = in_lines(tmp_path, tmp_path, '{"id":"x","type":"user","content"}\n', Gemini().user("Here."))

    assert result.texts == ["Here."]
    assert len(result.problems) == 1


def test_only_sessions_below_the_directories_are_found(tmp_path: Path) -> None:
    project, sub, other = tmp_path / "project", tmp_path / "project" / "sub", tmp_path / "other"
    for place in (project, sub, other):
        write(
            chats(tmp_path, place) / "session-1.jsonl", Gemini(place.name).header(), Gemini(place.name).user(place.name)
        )
    write(hashed_chats(tmp_path, other) / "session-2.jsonl", Gemini("x").header(), Gemini("x").user("x"))
    write(
        chats(tmp_path, project) / "parent" / "session-3.jsonl", Gemini("sub").header(), Gemini("sub").user("Search.")
    )

    result = find("gemini", tmp_path, [project])

    assert sorted(result.texts) == ["project", "sub"]
    assert [one.session for one in result.transcripts if one.is_subagent] == ["parent/sub"]


def test_the_home_can_be_elsewhere(tmp_path: Path) -> None:
    write(chats(tmp_path / "there", tmp_path) / "s.jsonl", Gemini().header(), Gemini().user("Here."))

    assert find("gemini", tmp_path, [tmp_path], {"GEMINI_CLI_HOME": str(tmp_path / "there")}).texts == ["Here."]
