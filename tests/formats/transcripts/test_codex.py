"""Transcripts of Codex, by version, made by hand after those of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.transcripts.make import Codex, Found, find, json_lines, read, write

pytestmark = pytest.mark.storeless

VERSIONS = ("0.20.0", "0.39.0", "0.92.0", "0.166.0")
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: src/b.py\n+x\n*** End Patch\nEOF"


def path_of(home: Path, name: str = "rollout-2026-11-17T06-30-00-c1.jsonl") -> Path:
    return home / ".codex" / "sessions" / "2026" / "11" / "17" / name


def found(home: Path, project: Path, *entries: object) -> Found:
    write(path_of(home), *entries)
    return find("codex", home, [project])


def conversation(codex: Codex, project: Path) -> list[object]:
    return [
        codex.message("developer", "<permissions instructions>", kind="x"),
        codex.message("user", "<user_instructions>\nUse tabs.\n</user_instructions>", kind="x"),
        codex.message("user", "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>", kind="x"),
        codex.message("user", "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>", kind="x"),
        codex.message("user", "Fix the parser."),
        codex.event("user_message", message="Fix the parser."),
        codex.event("item_completed", item={"type": "UserMessage", "content": [{"text": "Fix the parser."}]}),
        codex.item("reasoning", summary=[{"text": "Hm."}], encrypted_content="x"),
        codex.message("assistant", "I look."),
        codex.event("agent_message", message="I look."),
        codex.runs("cat parser.py", "call_0", workdir=str(project)),
        codex.output(0, "Exit code: 5\nexited with code 6", "call_0"),
        codex.runs("make test"),
        codex.output(2, "FAILED test_tabs"),
        codex.runs(PATCH, "call_2"),
        codex.output(0, "Success.", "call_2"),
        codex.message("assistant", "Tabs are the reason."),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_people_and_agents_said_and_what_failed_is_kept(tmp_path: Path, version: str) -> None:
    codex = Codex(tmp_path, version)

    result = found(tmp_path, tmp_path, codex.meta(), *conversation(codex, tmp_path))

    assert result.said == [
        ("person", "Fix the parser."),
        ("agent", "I look."),
        ("tool", "$ make test\nExit code 2\nFAILED test_tabs"),
        ("agent", "Tabs are the reason."),
    ]
    assert [turn.files for turn in result.turns] == [(), (), (), ("src/b.py",)]
    assert all(turn.at for turn in result.turns)
    assert result.problems == ()
    [transcript] = result.transcripts
    assert (transcript.session, transcript.directory) == ("c1", str(tmp_path))
    assert {turn.branch for turn in result.turns} == ({""} if version == "0.20.0" else {"main"})


@pytest.mark.parametrize("version", VERSIONS)
def test_reading_goes_on_where_it_stopped(tmp_path: Path, version: str) -> None:
    codex = Codex(tmp_path, version)
    entries = [codex.meta(), *conversation(codex, tmp_path)]
    whole = found(tmp_path, tmp_path, *entries)
    [transcript] = whole.transcripts
    path, lines = Path(transcript.path), [json_lines(entry).encode() for entry in entries]

    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]) + lines[count][:40])
        first = read(transcript).turns
        path.write_bytes(b"".join(lines))
        second = read(transcript, first[-1].offset if first else 0).turns

        joined = [(turn.key, turn.text, turn.branch) for turn in (*first, *second) if turn.text]
        assert joined == [(turn.key, turn.text, turn.branch) for turn in whole.turns]


def test_a_fork_that_copied_its_history_has_the_same_keys(tmp_path: Path) -> None:
    old, new = Codex(tmp_path, "0.39.0", "c1"), Codex(tmp_path, "0.39.0", "c2")
    history = conversation(old, tmp_path)
    write(path_of(tmp_path), old.meta(), *history)
    write(
        path_of(tmp_path, "rollout-2026-11-17T06-31-00-c2.jsonl"),
        new.meta(timestamp="2026-11-17T06:31:00.000Z"),
        old.meta(),
        *conversation(new, tmp_path),
        new.message("user", "And now?"),
    )

    result = find("codex", tmp_path, [tmp_path])

    first, second = (read(one).turns for one in result.transcripts)
    assert [one.session for one in result.transcripts] == ["c1", "c2"]
    assert [turn.key for turn in second[:-1]] == [turn.key for turn in first]
    assert len({turn.key for turn in second}) == 5


def test_compactions_are_dropped(tmp_path: Path) -> None:
    codex = Codex(tmp_path)
    summary = codex.message("assistant", "A summary.")
    replaced = {"message": "A summary.", "replacement_history": [codex.message("user", "Fix it.")["payload"]]}

    result = found(
        tmp_path,
        tmp_path,
        codex.meta(),
        codex.message("user", "Fix it."),
        {**summary, "metadata": {"compaction_output": True}},
        {"timestamp": "x", "type": "compacted", "payload": replaced},
    )

    assert (result.texts, result.problems) == (["Fix it."], ())


def test_a_subagent_gets_its_prompts_from_no_person(tmp_path: Path) -> None:
    codex = Codex(tmp_path)

    result = found(
        tmp_path,
        tmp_path,
        codex.meta(source={"subagent": "review"}),
        codex.message("user", "Search for it."),
        codex.message("assistant", "It is in src."),
    )

    assert [one.is_subagent for one in result.transcripts] == [True]
    assert result.texts == ["It is in src."]


def test_sessions_of_other_directories_are_left_alone_and_archived_ones_found(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(path_of(tmp_path, "rollout-1-a.jsonl"), Codex("/elsewhere", session="a").meta())
    archived = Codex(project, session="b")
    write(
        tmp_path / ".codex" / "archived_sessions" / "rollout-2-b.jsonl", archived.meta(), archived.message("user", "x")
    )

    result = find("codex", tmp_path, [project])

    assert ([one.session for one in result.transcripts], result.problems) == (["b"], ())


def test_what_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        codex = Codex(tmp_path, "0.20.0", name)
        write(path_of(tmp_path, f"rollout-{name}.jsonl"), codex.meta(), codex.message("user", "x"))
        write(path_of(tmp_path, f"rollout-{name}{name}.jsonl.zst"), b"\x28\xb5\x2f\xfd")
    kept = Codex(tmp_path, session="both")
    write(path_of(tmp_path, "rollout-both.jsonl"), kept.meta(), kept.message("user", "Here."))
    write(path_of(tmp_path, "rollout-both.jsonl.zst"), b"\x28\xb5\x2f\xfd")

    result = find("codex", tmp_path, [tmp_path])

    assert result.texts == ["Here."]
    assert result.reasons == [("rollout-a.jsonl", 0), ("rollout-aa.jsonl.zst", 0)]
