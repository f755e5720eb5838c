"""Transcripts of Claude Code, by version, made by hand. Real ones are in `tests/real_agents`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import Speaker, replace
from ralph.formats.transcripts.base import Transcript
from ralph.formats.transcripts.claude import _slug_prefix
from tests.formats.transcripts.make import Claude, Found, find, json_lines, read, write

pytestmark = pytest.mark.storeless


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "home" / "project"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def home(project: Path) -> Path:
    return project.parent


def slug(directory: Path) -> str:
    return _slug_prefix(str(directory.resolve()))


def path_of(home: Path, directory: Path, name: str = "s1.jsonl") -> Path:
    return home / ".claude" / "projects" / slug(directory) / name


def found(home: Path, project: Path, *entries: object) -> Found:
    write(path_of(home, project), *entries)
    return find("claude", home, [project])


# --- what is kept ---------------------------------------------------------------------


def test_what_people_and_agents_said_and_what_failed_is_kept(home: Path, project: Path) -> None:
    claude = Claude(project)

    result = found(
        home,
        project,
        claude.user("Fix the parser."),
        claude.block({"type": "thinking", "thinking": "Hm.", "signature": "x"}),
        claude.says("I look."),
        claude.calls("Read", file_path=str(project / "parser.py")),
        claude.result("def parse(): ..."),
        claude.calls("Edit", "toolu_2", file_path=str(project / "src" / "parser.py"), old_string="a", new_string="b"),
        claude.result("The file has been updated.", "toolu_2"),
        claude.calls("Bash", "toolu_3", command="make test"),
        claude.result("Exit code 2\nFAILED test_tabs", "toolu_3", is_error=True),
        claude.says("Tabs are the reason."),
        claude.calls("Write", "toolu_4", file_path="/elsewhere/notes.md", content="x"),
    )

    assert result.said == [
        ("person", "Fix the parser."),
        ("agent", "I look."),
        ("tool", "$ make test\nExit code 2\nFAILED test_tabs"),
        ("agent", "Tabs are the reason."),
    ]
    assert [turn.files for turn in result.turns] == [(), (), ("src/parser.py",), ()]
    assert {turn.branch for turn in result.turns} == {"main"}
    assert result.turns[0].at == "2026-11-17T06:30:01.414Z"
    assert result.turns[0].key == "s1-1"
    assert result.problems == ()
    [transcript] = result.transcripts
    assert (transcript.agent, transcript.session, transcript.directory) == ("claude", "s1", str(project))
    assert transcript.size == Path(transcript.path).stat().st_size


def test_edits_without_a_word_are_a_turn_of_their_own(home: Path, project: Path) -> None:
    claude = Claude(project)

    result = found(
        home,
        project,
        claude.user("Fix it."),
        claude.calls("Write", "toolu_1", file_path=str(project / "a.py"), content="x"),
        claude.calls("Edit", "toolu_2", file_path=str(project / "b.py"), old_string="x", new_string="y"),
        claude.result("<tool_use_error>String to replace not found</tool_use_error>", "toolu_2", is_error=True),
        claude.user("Stop."),
        claude.calls("Write", "toolu_3", file_path=str(project / "c.py"), content="x"),
    )

    assert [(turn.text, turn.files) for turn in result.turns] == [
        ("Fix it.", ()),
        ("", ("a.py",)),
        ("Stop.", ()),
        ("", ("c.py",)),
    ]


def test_what_a_person_says_in_other_ways_is_kept(home: Path, project: Path) -> None:
    claude = Claude(project)
    rejected = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the"
        " new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse JWT instead."
        "\n\nNote: The user's next message may contain a correction or preference."
    )
    command = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"

    result = found(
        home,
        project,
        claude.user(f"{command}<command-args>the parser</command-args>"),
        claude.user([{"type": "text", "text": "The expanded command."}], isMeta=True),
        claude.user(f"{command}<command-args></command-args>"),
        claude.calls("Write", file_path=str(project / "a.py"), content="x"),
        claude.result(rejected, is_error=True),
        claude.calls("AskUserQuestion", "toolu_2", questions=[{"question": "Which database?"}]),
        claude.result("User has answered…", "toolu_2", toolUseResult={"answers": {"Which database?": "PostgreSQL"}}),
        claude.block({"type": "tool_use", "id": "toolu_3", "name": "ExitPlanMode", "input": {"plan": "1. Tabs."}}),
        claude.user(
            [{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}, {"type": "text", "text": "Go."}]
        ),
    )

    assert result.said == [
        ("person", "/review the parser"),
        ("person", "Use JWT instead."),
        ("person", "Which database? PostgreSQL"),
        ("agent", "1. Tabs."),
        ("person", "Go."),
    ]
    assert all(turn.files == () for turn in result.turns)


@pytest.mark.parametrize(
    ("version", "content", "flags"),
    [
        ("2.0.0", "<session-start-hook>Memories</session-start-hook>", {}),
        ("2.0.0", "Stop hook feedback:\n- ralph: go on", {}),
        ("2.0.0", "<user-prompt-submit-hook>x</user-prompt-submit-hook>", {"isVisibleInTranscriptOnly": True}),
        ("2.1.30", "Stop hook feedback: x", {"isMeta": True}),
        ("2.1.325", "Continue.", {"promptSource": "system"}),
        ("2.1.325", "This session is being continued from a previous conversation.", {"isCompactSummary": True}),
        ("1.0.60", "This session is being continued from a previous conversation that ran out of context.", {}),
        ("1.0.60", "Caveat: The messages below were generated by the user while running local commands.", {}),
        ("2.1.325", "<local-command-caveat>Caveat: x</local-command-caveat>", {}),
        ("2.1.325", "<local-command-stdout>x</local-command-stdout>", {}),
        ("2.1.325", "<bash-input>ls</bash-input>", {}),
        ("2.1.325", "<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>", {}),
        ("2.1.325", "<ide_selection>x</ide_selection>", {}),
        ("2.1.325", '<teammate-message teammate_id="a">x</teammate-message>', {}),
        ("2.1.325", "<task-notification>\n<result>x</result>\n</task-notification>", {}),
        ("2.1.325", "[Request interrupted by user for tool use]", {}),
        ("2.1.325", "<system-reminder>\nToday is x.\n</system-reminder>", {}),
        ("2.1.325", "<system-reminder>\nCut off", {}),
        ("2.1.325", "# Memories\n\n## Patterns\n> Tabs.", {}),
        ("1.0.60", "A prompt of a subagent.", {"isSidechain": True}),
    ],
)
def test_what_programs_write_under_a_persons_role_is_dropped(
    home: Path, project: Path, version: str, content: str, flags: dict[str, Any]
) -> None:
    claude = Claude(project, version)

    result = found(
        home,
        project,
        claude.user(content, **flags),
        claude.user([{"type": "text", "text": content}], **flags),
        claude.user("Fix it."),
    )

    assert (result.texts, result.problems) == (["Fix it."], ())


def test_other_records_are_dropped(home: Path, project: Path) -> None:
    claude = Claude(project)
    message = {"role": "user", "content": "Fix it."}

    result = found(
        home,
        project,
        {"type": "summary", "summary": "Parser", "leafUuid": "x"},
        {"type": "queue-operation", "operation": "enqueue", "content": "Fix it."},
        claude.user("Fix it."),
        {"type": "api-request-blob", "message": message, "content": [{"type": "user"}]},
        {"type": "api-request", "messages": [{"type": "user", **message}], "cwd": str(project)},
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": "Memories"}},
        {"type": "last-prompt", "lastPrompt": "Fix it."},
        {"type": "progress", "data": {"type": "user", "message": message}},
        {"type": "system", "subtype": "compact_boundary", "content": "x"},
        claude.says("API Error: 529", isApiErrorMessage=True),
        claude.block({"type": "text", "text": "No response requested."}, "x")
        | {"message": {"model": "<synthetic>", "content": [{"type": "text", "text": "No response requested."}]}},
        claude.says("A subagent.", isSidechain=True),
        claude.says("Done."),
    )

    assert (result.texts, result.problems) == (["Fix it.", "Done."], ())


def test_a_reminder_within_a_prompt_is_cut_out_and_a_quoted_tag_is_not(home: Path, project: Path) -> None:
    claude = Claude(project)

    result = found(
        home,
        project,
        claude.user("Fix it.\n<system-reminder>\nA file changed.\n</system-reminder>\nSoon."),
        claude.user("Why do I see <system-reminder> in the log?"),
    )

    assert result.texts == ["Fix it.\n\nSoon.", "Why do I see <system-reminder> in the log?"]


def test_long_output_of_a_failed_command_is_cut_to_its_telling_lines(home: Path, project: Path) -> None:
    claude = Claude(project)
    noise = "\n".join(f"compiling module {number}" for number in range(5_000))
    output = f"Exit code 1\n{noise}\nE   TypeError: tabs are not spaces\n{noise}\nmake: *** [test] Stopped"

    result = found(home, project, claude.calls("Bash", command="x" * 5_000), claude.result(output, is_error=True))

    [turn] = result.turns
    assert len(turn.text) <= 1_000
    assert "make: *** [test] Stopped" in turn.text

    shorter = output[:15_000] + "\nE   TypeError: tabs are not spaces" + "\nmodule" * 100
    result = found(home, project, claude.calls("Bash", command="make"), claude.result(shorter, is_error=True))
    assert "TypeError: tabs are not spaces" in result.turns[0].text


# --- copies ---------------------------------------------------------------------------


def test_a_session_resumed_by_1x_has_the_same_keys_in_its_copy(home: Path, project: Path) -> None:
    original, copy = Claude(project, "1.0.60", "old"), Claude(project, "1.0.60", "new")
    copy._number = 30  # later
    block = [{"type": "text", "text": "Fix it."}]
    call = {"command": "make"}
    write(
        path_of(home, project, "old.jsonl"),
        original.user("Fix it."),
        original.says("I look.", "msg_1"),
        original.calls("Bash", "toolu_9", **call) | {"x": 1},
        original.result("Exit code 1\nFAILED", "toolu_9", is_error=True),
        original.says("Done.", "msg_2"),
    )
    write(
        path_of(home, project, "new.jsonl"),
        {"type": "summary", "summary": "Parser", "leafUuid": "x"},
        copy.user(block),
        copy.says("I look.", "msg_1"),
        copy.calls("Bash", "toolu_9", **call),
        copy.result("Exit code 1\nFAILED", "toolu_9", is_error=True),
        copy.says("Done.", "msg_2"),
        copy.user("And now?"),
        copy.says("More.", "msg_3"),
    )
    write(
        path_of(home, project, "other.jsonl"),
        Claude(project, "1.0.60", "other").user("Fix it."),
        Claude(project, "1.0.60", "other").says("I look.", "msg_8"),
    )

    result = find("claude", home, [project])

    by_session = {one.session: {turn.key for turn in read(one).turns} for one in result.transcripts}
    assert [one.session for one in result.transcripts if one.session != "other"] == ["old", "new"]
    assert len(by_session["old"]) == 4
    assert by_session["old"] < by_session["new"]
    assert len(by_session["new"]) == 6
    assert not by_session["other"] & by_session["new"]


@pytest.mark.parametrize("keeps_session", [True, False])
def test_a_fork_of_2x_has_the_keys_of_its_original_and_comes_after_it(
    home: Path, project: Path, keeps_session: bool
) -> None:
    claude = Claude(project, "2.1.30")
    history = [claude.user("Fix it."), claude.says("Done.")]
    copied = [entry if keeps_session else {**entry, "sessionId": "a-fork"} for entry in history]
    enqueued = {"type": "queue-operation", "timestamp": "2026-11-17T07:00:00.000Z"}
    write(path_of(home, project, "a-fork.jsonl"), enqueued, *copied, claude.user("And now?"))
    write(path_of(home, project, "s1.jsonl"), *history)

    result = find("claude", home, [project])

    assert [one.session for one in result.transcripts] == ["s1", "a-fork"]
    first, second = (read(one).turns for one in result.transcripts)
    assert [turn.key for turn in second[:2]] == [turn.key for turn in first]


def test_subagents_come_after_their_parents_with_their_own_words_only(home: Path, project: Path) -> None:
    claude = Claude(project)
    lines = (
        claude.user("Search for the parser.", isSidechain=True, agentId="x"),
        claude.says("It is in src.", isSidechain=True, agentId="x"),
        claude.calls("Bash", command="make") | {"isSidechain": True},
        claude.result("Exit code 1", is_error=True, isSidechain=True),
    )
    write(path_of(home, project, "s1/subagents/agent-x.jsonl"), *lines)
    write(path_of(home, project, "s1/subagents/agent-x.meta.json"), {"agentType": "Explore"})
    write(path_of(home, project, "agent-y.jsonl"), *lines)
    write(path_of(home, project, "s1.jsonl"), Claude(project).user("Fix it."))

    result = find("claude", home, [project])

    names = [(one.session, one.is_subagent) for one in result.transcripts]
    assert names[0] == ("s1", False)
    assert sorted(names[1:]) == [("s1/agent-x", True), ("s1/agent-y", True)]
    assert result.said[1:3] == [("agent", "It is in src."), ("tool", "$ make\nExit code 1")]


# --- which sessions belong to the project ---------------------------------------------


def test_only_sessions_below_the_directories_are_found(home: Path, project: Path) -> None:
    worktree, other, sibling = home / "tree", home / "other", home / "project-2"
    (project / "sub").mkdir()
    for place in (project, project / "sub", worktree, other, sibling):
        write(path_of(home, place), Claude(place).user(str(place)))
    # The name of this folder is the same as that of project/sub, which is another directory.
    write(path_of(home, project / "sub", "s2.jsonl"), Claude(home / "project-sub").user("x"))

    result = find("claude", home, [project, worktree])

    assert set(result.texts) == {str(project), str(project / "sub"), str(worktree)}
    assert {one.root for one in result.transcripts} == {str(project), str(worktree)}


def test_the_first_directory_counts_and_not_where_the_agent_went(home: Path, project: Path) -> None:
    write(path_of(home, project, "s1.jsonl"), Claude(project).user("Here."), Claude("/tmp").says("Gone."))
    write(path_of(home, project, "s2.jsonl"), Claude("/tmp").user("There."), Claude(project).says("Come."))

    assert find("claude", home, [project]).texts == ["Here.", "Gone."]


def test_long_and_foreign_paths_are_found(home: Path) -> None:
    long, foreign = home / ("a" * 150) / ("b" * 150), home / "Größe" / "x"
    for place, name in ((long, slug(long)[:200] + "-1x2y3z"), (foreign, slug(home) + "-Gr--e-x")):
        place.mkdir(parents=True)
        write(home / ".claude" / "projects" / name / "s.jsonl", Claude(place).user(place.name))

    assert find("claude", home, [long]).texts == [long.name]
    assert find("claude", home, [foreign]).texts == [foreign.name]


def test_the_folder_can_be_elsewhere(home: Path, project: Path, tmp_path: Path) -> None:
    write(tmp_path / "config" / "projects" / slug(project) / "s.jsonl", Claude(project).user("Here."))

    assert find("claude", home, [project], {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}).texts == ["Here."]
    assert find("claude", home, [project]).transcripts == ()


# --- reading on -----------------------------------------------------------------------


def test_reading_goes_on_where_it_stopped(home: Path, project: Path) -> None:
    claude = Claude(project)
    entries = [
        claude.user("Fix it."),
        claude.says("I look."),
        claude.calls("Bash", command="make test"),
        claude.result("Exit code 1\nFAILED", is_error=True),
        claude.calls("Edit", "toolu_2", file_path=str(project / "a.py"), old_string="a", new_string="b"),
        claude.says("Done."),
    ]
    whole = found(home, project, *entries)
    lines = [json_lines(entry).encode() for entry in entries]
    text = b"".join(lines)

    for end in range(len(text) + 1):
        if end % 7 and end not in {sum(map(len, lines[:count])) for count in range(7)}:
            continue
        path = write(path_of(home, project), text[:end])
        transcript = replace(whole.transcripts[0], path=str(path.resolve()))
        first = read(transcript)
        path.write_bytes(text)
        second = read(transcript, first.turns[-1].offset if first.turns else 0)

        assert first.problems == second.problems == ()
        joined = [turn for turn in (*first.turns, *second.turns) if turn.text]
        assert [(turn.key, turn.text) for turn in joined] == [(turn.key, turn.text) for turn in whole.turns]
        files = {file for turn in (*first.turns, *second.turns) for file in turn.files}
        assert files == {"a.py"}


def test_a_file_that_was_replaced_is_read_from_its_start(home: Path, project: Path) -> None:
    transcript = found(home, project, Claude(project).user("Fix the parser, please.")).transcripts[0]

    assert read(transcript, 10**9).texts == ["Fix the parser, please."]
    assert read(transcript, 5).texts == ["Fix the parser, please."]
    assert read(transcript, transcript.size).texts == []


def test_a_transcript_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    result = read(Transcript(agent="claude", session="s", path=str(tmp_path / "gone.jsonl"), directory="/p"))

    assert (result.turns, result.reasons) == ((), [("gone.jsonl", 0)])


def test_json_with_spaces_is_read_too(home: Path, project: Path) -> None:
    import json

    claude = Claude(project)
    entries = [claude.user("Fix it."), claude.says("I look."), claude.calls("Bash", command="make")]
    entries.append(claude.result("Exit code 1", is_error=True))

    result = found(home, project, "".join(json.dumps(entry) + "\n" for entry in entries))

    assert [turn.speaker for turn in result.turns] == [Speaker.PERSON, Speaker.AGENT, Speaker.TOOL]
