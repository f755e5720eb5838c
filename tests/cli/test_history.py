"""`ralph import` and `ralph forget`, as people and scripts use them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ralph.cli.import_ import foreign_data_hint
from ralph.core.consent import may_read_sessions
from ralph.core.hashing import sha256_hex
from ralph.formats.transcripts import gemini
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.store.maintenance.check import check_store
from ralph.store.memory_queries import MemoryFilter
from tests.cli.ran import Ralph, run
from tests.cli.terminal import at_terminal
from tests.formats.claude_mem_db import ClaudeMem
from tests.formats.transcripts.make import write
from tests.memory.test_episodes import commit, git, home, write_session

__all__ = ["home"]

TALK = (("user", "We moved the login to JWT. What is left?"), ("assistant", "Refresh tokens; skew must be 30 s."))


@pytest.fixture
def ralph(project: Project, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one command in the project."""
    return lambda *words: run(capsys, Path(project.directory), *words)


@pytest.fixture
def past(project: Project, home: Path) -> Project:
    """Give a project with two commits and a session."""
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, "Cap retries at seven\n\nEight trips the window.", "Bump version to 1.2.3")
    write_session(home, project.directory, "s1", *TALK)
    return project


def test_commits_are_imported_and_what_is_left_out_is_named(past: Project, ralph: Ralph) -> None:
    first, second = ralph("import", "git"), ralph("import", "git", "--format", "json")

    assert first.code == 0
    assert first.out == "git: 1 commit read, 1 new; left out: version bumps (1)\n"
    assert second.json[0]["added"] == 0


def test_sessions_need_consent_which_can_be_revoked(past: Project, ralph: Ralph) -> None:
    assert ralph("import", "sessions").error == "no-terminal"
    assert may_read_sessions() is None

    agreed = ralph("import", "sessions", "--yes", "--agent", "claude")
    assert agreed.out == "Claude Code: 1 session read, 1 passage new\n"
    assert ralph("import", "sessions").out.startswith("Claude Code: nothing new; 1 session unchanged")

    assert ralph("import", "--revoke").code == 0
    assert may_read_sessions() is False
    assert ralph("import", "sessions").error == "no-terminal"


def test_a_dry_run_says_what_would_come_in(past: Project, ralph: Ralph) -> None:
    shown = ralph("import", "--dry-run", "--yes")

    assert "1 would be new" in shown.out
    assert "Nothing was imported, because of --dry-run." in shown.out
    assert past.store.episodes.is_empty()


def test_files_come_in_by_the_same_door(past: Project, ralph: Ralph, tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text(
        "## Patterns\n\n### mem-1700000000-abcd\n> Use UTC in tests\n<!-- tags: time | created: 2026-01-20 -->\n"
    )

    assert ralph("import", str(path)).code == 0
    assert "Use UTC in tests" in ralph("memory", "list").out
    assert "ralph import git" in ralph("import", str(tmp_path / "none.md")).err


def test_what_claude_mem_recorded_comes_in_by_the_same_door(project: Project, ralph: Ralph, home: Path) -> None:
    database = ClaudeMem(home / ".claude-mem" / "claude-mem.db")
    for session, name in (("s1", Path(project.directory).name), ("s2", "billing")):
        database.session(session, name)
        database.observe(session, name, title="Retries are capped at seven")
    database.close()

    first = ralph("import", str(database.path))
    second = ralph("import", str(database.path), "--format", "json")

    assert first.code == 0
    added = "1 passage added; left out: 1 of other projects (billing 1)"
    assert first.out == f"{database.path} (claude-mem): {added}\n"
    assert [(one["episodes"], one["known"], "billing" in one["note"]) for one in second.json] == [(0, 1, True)]
    assert "Retries are capped" in ralph("memory", "search", "--episodes", "retries").out
    tasks = ralph("task", "import", str(database.path))
    assert (tasks.code, "ralph import" in tasks.err) == (1, True)


def test_data_of_other_tools_is_mentioned_and_not_imported(past: Project, ralph: Ralph, home: Path) -> None:
    hint = "Found data of other tools. To import it: ralph import "
    assert hint not in ralph("import", "--yes").out
    issues = Path(past.directory) / ".beads" / "issues.jsonl"
    issues.parent.mkdir()
    issues.write_text('{"id": "bd-1", "title": "First", "status": "open", "priority": 1, "issue_type": "task"}\n')
    ClaudeMem(home / ".claude-mem" / "claude-mem.db").close()

    ran = ralph("import")

    assert ran.out.splitlines()[-1] == f"{hint}{issues} {home}/.claude-mem/claude-mem.db"
    assert past.tasks.list() == []
    assert hint not in ralph("import", "git").out
    assert isinstance(ralph("import", "--format", "json").json, list)
    ralph("import", "--revoke")
    assert foreign_data_hint(past) == f"{hint}{issues}"


def test_a_wrong_date_is_refused_before_anything_is_read(past: Project, ralph: Ralph) -> None:
    assert ralph("import", "git", "--since", "yesterday").error == "invalid-date"
    assert ralph("forget", "--before", "soon").error == "invalid-date"


def test_without_a_repository_git_is_refused_and_sessions_are_imported(
    project: Project, ralph: Ralph, home: Path
) -> None:
    write_session(home, project.directory, "s1", *TALK)

    assert ralph("import", "git").error == "no-repository"
    assert "1 passage new" in ralph("import", "--yes").out


def test_broken_lines_are_named_and_the_rest_is_imported(past: Project, ralph: Ralph, home: Path) -> None:
    path = write_session(home, past.directory, "s2", ("user", "Something else that was said in a session"))
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":"broken \xff\n')
    write_session(home, past.directory, "s2", ("assistant", "It goes on after the broken line"), start=5)

    ran = ralph("import", "sessions", "--yes", "--agent", "claude")

    assert ran.code == 4
    assert "2 sessions read" in ran.out
    assert path.name in ran.err
    assert ralph("memory", "search", "nothing").code in (0, 1)


def test_what_is_forgotten_is_asked_for_and_gone(past: Project, ralph: Ralph) -> None:
    ralph("import", "--yes")

    assert ralph("forget").error == "nothing-to-forget"
    assert "1 passage found" in ralph("forget", "--session", "s1", "--dry-run").out
    assert ralph("forget", "--session", "s1").error == "no-terminal"
    erased = ralph("forget", "--session", "s1", "--yes")
    assert erased.out.startswith("Erased 1 passage.\n")
    assert "Later imports leave them out, unless you use --again." in erased.out
    assert "Nothing was erased" in ralph("forget", "--matching", "JWT", "--yes").out
    assert [one.kind for one in past.episodes.counts()] == ["commit"]


def run_once(ralph: Ralph, project: Project, said: str) -> str:
    """Let an agent say something in an attempt; return the id of its run."""
    script = Path(project.directory).parent / "agent.sh"
    script.write_text(f"cat > /dev/null\necho {said}\n")
    ralph("task", "add", "Do the thing")
    ralph("run", "--max-iterations", "1", "--", "sh", str(script))
    return str(ralph("journal", "list", "--format", "json").json[0]["run_id"])


def holds(project: Project, word: str) -> list[str]:
    """Return the files below .ralph that contain a word."""
    files = (path for path in (Path(project.directory) / ".ralph").rglob("*") if path.is_file())
    return [path.name for path in files if word.encode() in path.read_bytes()]


@pytest.mark.sqlite
@pytest.mark.parametrize("chosen", [("--session", "RUN/1"), ("--session", "RUN"), ("--matching", "liveword")])
def test_the_words_of_a_forgotten_attempt_are_in_no_file(past: Project, ralph: Ralph, chosen: tuple[str, str]) -> None:
    run_id = run_once(ralph, past, "LIVEWORD is what the agent has said")
    assert len(holds(past, "LIVEWORD")) >= 2

    erased = ralph("forget", chosen[0], chosen[1].replace("RUN", run_id), "--yes")

    assert erased.code == 0
    assert "the live output of 1 run" in erased.out
    assert holds(past, "LIVEWORD") == []
    assert check_store(past.store, deep=True).problems == ()


def test_output_that_was_not_captured_is_forgotten_as_well(past: Project, ralph: Ralph) -> None:
    (Path(past.directory) / ".ralph.toml").write_text("[episodes]\ncapture = false\n")
    run_once(ralph, past, "LIVEWORD is what the agent has said")
    run_id = run_once(ralph, past, "OTHERWORD is what it has said later")

    assert ralph("forget", "--kind", "commit", "--matching", "liveword", "--yes").code == 1
    assert ralph("forget", "--matching", "liveword", "--yes").code == 0
    assert ralph("forget", "--matching", "liveword", "--yes").code == 1
    assert holds(past, "OTHERWORD") or run_id in ralph("journal", "list").out


def test_backups_hold_what_is_forgotten_until_the_command_that_is_named_deletes_them(
    past: Project, ralph: Ralph
) -> None:
    ralph("import", "--yes")
    assert "rm -r" not in ralph("forget", "--kind", "commit", "--yes").out
    ralph("backup")

    erased = ralph("forget", "--session", "s1", "--yes").out
    assert "Earlier backups still hold them." in erased
    subprocess.run(erased.rpartition(": ")[2], shell=True, check=True)

    assert not list(Path(past.directory).rglob("backups/*"))
    assert ralph("backup", "--list").code == 0


def test_doctor_mentions_what_was_never_imported(past: Project, ralph: Ralph) -> None:
    assert "never imported: 1 Claude Code session and 2 commits of this project" in " ".join(
        ralph("doctor").out.split()
    )
    ralph("import", "--yes")
    assert "never imported" not in ralph("doctor").out


@pytest.fixture
def unborn(tmp_path: Path, home: Path) -> Path:
    """Give a directory with a commit and a session, in which Ralph is not set up."""
    directory = tmp_path / "new"
    directory.mkdir()
    git(str(directory), "init", "-q", "-b", "main")
    commit(str(directory), "Cap retries at seven")
    write_session(home, str(directory), "s1", *TALK)
    return directory


def test_init_offers_what_it_finds_and_imports_it(unborn: Path) -> None:
    question = "Found 1 Claude Code session and 1 commit for this project. Import them? [Y/n]"

    code, shown = at_terminal(unborn, "init", typed=[(question, "\r")])

    assert code == 0
    assert "Claude Code: 1 session read, 1 passage new" in shown
    with Project.open(unborn) as opened:
        assert {one.kind for one in opened.episodes.counts()} == {"commit", "session"}
    assert may_read_sessions()


def test_init_takes_no_for_an_answer(unborn: Path) -> None:
    _, shown = at_terminal(unborn, "init", typed=[("Import them? [Y/n]", "n\r")])

    assert "To import past work later: ralph import" in shown
    assert may_read_sessions() is None


def test_init_without_a_terminal_only_says_what_it_finds(unborn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, unborn, "init")

    assert "Found 1 Claude Code session and 1 commit for this project. To import past work: ralph import" in ran.out
    with Project.open(unborn) as opened:
        assert opened.store.episodes.is_empty()


@pytest.mark.parametrize(("date", "found"), [("2026-11-01", 0), ("20261101", 0), ("2026-11-01T12:00+02:00", 0)])
def test_what_is_newer_than_a_date_is_not_forgotten_however_it_is_written(
    past: Project, ralph: Ralph, date: str, found: int
) -> None:
    ralph("import", "sessions", "--yes")

    ran = ralph("forget", "--kind", "session", "--before", date, "--dry-run", "--format", "json")

    assert ran.error == "invalid-date" or ran.json["episodes"] == found


def test_init_mentions_data_of_other_tools(unborn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (unborn / ".beads").mkdir()
    (unborn / ".beads" / "issues.jsonl").write_text("")

    ran = run(capsys, unborn, "init")

    assert f"ralph import {unborn}/.beads/issues.jsonl" in ran.out


# --- transcripts that a person names ------------------------------------------------------


def codex(home: Path, cwd: str, session: str, *said: str) -> Path:
    """Write a session of Codex, a prompt and a reply in turns."""
    roles = [("user", "input_text"), ("assistant", "output_text")]
    items = [
        {"type": "message", "role": roles[n % 2][0], "content": [{"type": roles[n % 2][1], "text": text}]}
        for n, text in enumerate(said)
    ]
    at = {"timestamp": "2026-11-05T10:00:00.000Z"}
    meta = {**at, "type": "session_meta", "payload": {"id": session, "cwd": cwd}}
    path = home / f".codex/sessions/2026/11/05/rollout-2026-11-05T10-00-00-{session}.jsonl"
    return write(path, meta, *({**at, "type": "response_item", "payload": item} for item in items))


AIDER = (
    "# aider chat started at 2026-09-01 10:00:00\n\n#### Should we cache thumbnails?\n\nYes, for a week on disk.\n\n"
)


@pytest.fixture
def named(project: Project, home: Path) -> dict[str, Path]:
    """Give transcripts of every agent in this project and of one in another, by what they are called here."""
    root, hashed = project.directory, sha256_hex(os.fsencode(os.path.realpath(project.directory)))
    chats = home / ".gemini/tmp" / hashed / "chats"
    message = {"id": "m", "timestamp": "2026-01-10T10:00:00.000Z", "type": "user", "content": "Which font is it then?"}
    head = {"sessionId": "g1", "projectHash": hashed, "startTime": "2026-01-10T10:00:00.000Z"}
    chats.mkdir(parents=True)
    (chats / "session-1.json").write_text(json.dumps({**head, "messages": [message]}))
    (Path(root) / ".aider.chat.history.md").write_text(AIDER)
    return {
        "claude": write_session(home, root, "s1", *TALK),
        "other": write_session(home, "/somewhere/else", "s9", *TALK),
        "codex": codex(home, root, "c1", "Which queue do we use for mails?", "Rabbit, as Kafka was too heavy."),
        "gemini": chats / "session-1.json",
        "aider": Path(root) / ".aider.chat.history.md",
    }


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "aider"])
def test_a_transcript_named_by_its_path_becomes_episodes_without_consent(
    project: Project, ralph: Ralph, named: dict[str, Path], agent: str
) -> None:
    ralph("import", "--revoke")

    ran = ralph("import", str(named[agent]))

    assert ran.code == 0
    assert "1 session read, 1 passage new" in ran.out
    assert "nothing new; 1 session unchanged" in ralph("import", str(named[agent])).out
    assert [one.agent for one in project.store.episodes.newest(EpisodeFilter(), 5)] == [agent]
    assert project.memory.list(MemoryFilter()) == []


@pytest.mark.parametrize(("folder", "read"), [(".codex", 1), (".codex/sessions", 1), (".gemini", 1), (".claude", 1)])
def test_a_folder_of_transcripts_brings_those_of_this_project(
    project: Project, ralph: Ralph, named: dict[str, Path], home: Path, folder: str, read: int
) -> None:
    ran = ralph("import", str(home / folder), "--format", "json")

    assert [one["read"] for one in ran.json] == [read]
    assert not may_read_sessions()


def test_sessions_of_other_projects_are_left_out_unless_a_person_wants_them(
    project: Project, ralph: Ralph, named: dict[str, Path]
) -> None:
    assert "left out: sessions that are not of this project" in ralph("import", str(named["other"])).out
    assert "1 passage new" in ralph("import", str(named["other"]), "--any-project").out
    named["codex"].write_text(named["codex"].read_text().replace('"cwd"', '"was"'))
    assert "left out: sessions that are not" in ralph("import", str(named["codex"])).out
    assert "1 passage new" in ralph("import", str(named["codex"]), "--any-project").out


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "aider"])
def test_chat_never_becomes_memories(project: Project, ralph: Ralph, named: dict[str, Path], agent: str) -> None:
    ran = ralph("memory", "import", str(named[agent]))

    assert ran.code == 1
    assert "ralph import" in ran.err
    assert project.memory.list(MemoryFilter()) == []


def test_the_chat_of_aider_in_the_project_needs_no_consent(
    project: Project, ralph: Ralph, named: dict[str, Path]
) -> None:
    ran = ralph("import")

    assert "aider: 1 session read, 1 passage new" in ran.out
    assert "Claude Code" not in ran.out
    assert "ralph import sessions --yes" in ran.err
    assert ralph("import", "sessions", "--agent", "aider").code == 0
    assert may_read_sessions() is None


def test_sessions_of_every_agent_are_counted_by_names_before_consent(
    project: Project, ralph: Ralph, named: dict[str, Path], home: Path
) -> None:
    codex(home, "/somewhere/else", "c2", "Something else", "Yes.")
    (home / ".local/share/opencode").mkdir(parents=True)
    (home / ".local/share/opencode/opencode.db").write_bytes(b"")
    counted = (
        "1 Claude Code session, up to 2 Codex sessions, 1 Gemini CLI session, opencode sessions and 1 aider session"
    )
    assert counted in " ".join(ralph("doctor").out.split())

    ralph("import", "--yes")
    assert "never imported" not in ralph("doctor").out


# --- what is said -------------------------------------------------------------------------


def test_consent_is_revoked_outside_of_projects(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path, "import", "--revoke").code == 0
    assert may_read_sessions() is False


def test_an_import_without_anything_new_says_so_for_each_source(past: Project, ralph: Ralph) -> None:
    ralph("import", "--yes")
    lines = ralph("import").out.splitlines()
    assert lines[0] == "git: nothing new"
    assert lines[1].startswith("Claude Code: nothing new; ")
    assert "less than 0.1 MB" in ralph("doctor").out


def test_outside_of_git_an_import_says_that_nothing_was_found(project: Project, ralph: Ralph) -> None:
    assert ralph("import").out == "Nothing else was found to import.\n"  # than the sessions that nobody agreed to
    assert ralph("import", "--yes").out == "Nothing was found to import.\n"


def test_doctor_mentions_new_commits_and_deleted_passages(
    past: Project, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    ralph("import", "git")
    commit(past.directory, "Use jitter")
    assert "1 commit since the last import" in " ".join(ralph("doctor").out.split())
    monkeypatch.setenv("RALPH_EPISODES_MAX_MB", "0.00001")
    assert "the least useful first: 2" in ralph("import", "git").out
    assert "deleted, because of max_mb" in " ".join(ralph("doctor").out.split())


def test_imported_commits_are_counted_for_a_progress_bar(past: Project) -> None:
    seen: list[tuple[int, int]] = []

    past.episodes.import_commits(progress=lambda done, total: seen.append((done, total)))

    assert seen == [(1, 2)]


def test_a_refused_file_is_not_counted_as_read(
    project: Project, ralph: Ralph, named: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemini, "MAX_JSON_BYTES", 10)

    first, second = (ralph("import", "sessions", "--agent", "gemini", "--yes") for _ in range(2))

    assert (first.code, second.code) == (4, 4)
    assert "0 sessions read" in first.out
    assert "larger than" in second.err


def test_sessions_of_a_worktree_whose_files_are_gone_are_found(past: Project, ralph: Ralph, home: Path) -> None:
    tree = f"{past.directory}-tree"
    git(past.directory, "worktree", "add", "-q", tree)
    write_session(home, tree, "s2", ("user", "Which icons does the worktree have?"), ("assistant", "Lucide."))
    shutil.rmtree(tree)

    assert "2 sessions read" in ralph("import", "sessions", "--yes").out


def test_an_imported_session_is_shown_without_its_transcript(past: Project, ralph: Ralph) -> None:
    ralph("import", "sessions", "--yes")

    shown = ralph("journal", "show", "session/s1")

    assert shown.out.startswith("session/s1: claude, started ")
    assert "1 passage; to read them: ralph journal show session/s1 --transcript" in shown.out
    assert ralph("journal", "show", "session/s1", "--format", "json").json["passages"] == 1
    assert ralph("journal", "show", "session/none").code == 1
