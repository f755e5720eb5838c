"""Sessions of agents in `ralph journal`, beside the attempts of the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.project import Project
from tests.cli.ran import Ralph, run
from tests.make import set_up_project


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def hold(here: Path, id: str, asked: str, said: str = "", ending: str = "exit") -> None:
    """Let a session be held from its start to its end."""
    with Project.open(here) as project:
        sessions = project.sessions
        sessions.record_start(id, "codex", sessions.start_context(id))
        sessions.record_prompt(id, "codex", asked, sessions.prompt_context(id, asked))
        sessions.store_message(id, "codex", said)
        sessions.record_end(id, "codex", ending)


def test_a_session_is_listed_with_what_was_asked_and_how_much_was_learned(here: Path, ralph: Ralph) -> None:
    hold(here, "0193f2aa-1111", "Fix the parser", "Done.\nMEMORY:fix:The parser wants tabs.")

    listed = ralph("journal", "list").out

    assert "session/0193f2aa" in listed
    assert "[1 learned] Fix the parser" in listed


def test_a_session_is_shown_by_a_beginning_of_its_id(here: Path, ralph: Ralph) -> None:
    hold(here, "0193f2aa-1111", "Fix the parser", "It wants tabs.\nMEMORY:fix:The parser wants tabs.")
    with Project.open(here) as project:
        project.sessions.record_compaction("0193f2aa-1111", "codex", "We fixed the parser.")

    shown = ralph("journal", "show", "session/0193f2aa").out

    assert "session/0193f2aa-1111: codex, started " in shown
    assert "(exit)" in shown
    assert "1 prompts, 1 compactions, 0 memories shown, 1 learned" in shown
    assert "First prompt:\nFix the parser" in shown
    assert "Last message:\nWe fixed the parser." in shown
    assert "Learned: mem-" in shown


def test_a_session_is_found_by_what_was_asked_and_said(here: Path, ralph: Ralph) -> None:
    hold(here, "aaaa", "Fix the parser", "It wants tabs.")
    hold(here, "bbbb", "Round the invoices", "To cents.")

    assert "session/aaaa" in ralph("journal", "search", "parser", "tabs").out
    assert "session/bbbb" not in ralph("journal", "search", "parser", "tabs").out
    assert "session/bbbb" in ralph("journal", "search", "cents").out
    assert "No entry matches" in ralph("journal", "search", "weather").out


def test_programs_get_sessions_as_json(here: Path, ralph: Ralph) -> None:
    hold(here, "aaaa", "Fix the parser", "MEMORY:fix:The parser wants tabs.")

    (listed,) = ralph("journal", "list", "--format", "json").json
    (found,) = ralph("journal", "search", "parser", "--format", "json").json
    shown = ralph("journal", "show", "session/aaaa", "--format", "json").json

    assert listed == found == shown
    assert (shown["id"], shown["agent"], shown["title"], shown["ending"]) == ("aaaa", "codex", "Fix the parser", "exit")
    assert len(shown["learned"]) == 1


def test_sessions_that_begin_alike_are_told_apart(here: Path, ralph: Ralph) -> None:
    for id in ("ses_5f3a01", "ses_5f3a02xyz", "ses_5f3a0"):
        hold(here, id, f"Work on {id}")

    listed = ralph("journal", "list").out

    for entry in ("session/ses_5f3a01", "session/ses_5f3a02", "session/ses_5f3a0"):
        assert f"{entry} " in listed
        assert ralph("journal", "show", entry).code == 0
    several = ralph("journal", "show", "session/ses_5f")
    assert (several.code, several.error) == (2, "ambiguous-session")


@pytest.mark.parametrize("entry", ["session/none", "session/", "session/%", "session/_aaa"])
def test_a_session_that_is_not_there_is_said_to_be_so(here: Path, ralph: Ralph, entry: str) -> None:
    hold(here, "aaaa", "Fix the parser")

    ran = ralph("journal", "show", entry)

    assert ran.code == 1
    assert "Session not found" in ran.err
    assert ran.out == ""


def test_the_latest_sessions_are_listed_and_the_loops_filters_leave_them_out(here: Path, ralph: Ralph) -> None:
    for number in range(5):
        hold(here, f"{number}aaaaaaa", f"Task {number}")

    listed = ralph("journal", "list", "--last", "2").out

    assert "Task 4" in listed
    assert "Task 3" in listed
    assert "Task 2" not in listed
    assert ralph("journal", "list", "--outcome", "done").out == "No entry matches.\n"


def test_what_a_session_said_cannot_play_tricks_on_a_terminal(here: Path, ralph: Ralph) -> None:
    hold(here, "a\x1b[31ma", "Fix \x1b]0;title\x07it\x1b[2J", "Done \x1b[31mred", ending="\x1b[2Jx")

    with Project.open(here) as project:
        id = project.sessions.latest(1)[0].id
    printed = ralph("journal", "list").out + ralph("journal", "show", f"session/{id}").out

    assert "\x1b" not in printed
