"""Importing, searching and erasing past work."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ralph.core.consent import record_session_consent
from ralph.core.errors import UsageError
from ralph.core.records import EpisodeKind, now
from ralph.memory.episodes import TRIMMED
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.store.maintenance.check import check_store
from tests.make import an_episode


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home directory of its own, in which nobody has agreed to anything."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


def git(directory: str, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", directory, *identity, *words], check=True, capture_output=True)


def commit(directory: str, *messages: str) -> None:
    for message in messages:
        git(directory, "commit", "--allow-empty", "-m", message)


def write_session(home: Path, cwd: str, session: str, *turns: tuple[str, str], start: int = 0) -> Path:
    """Write, or append to, a session as Claude Code does."""
    folder = home / ".claude/projects" / "".join(c if c.isalnum() else "-" for c in cwd)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    with path.open("a") as file:
        for n, (role, text) in enumerate(turns, start):
            content = text if role == "user" else [{"type": "text", "text": text}]
            line = {
                "type": role,
                "uuid": f"{session}-{n}",
                "sessionId": session,
                "cwd": cwd,
                "gitBranch": "main",
                "version": "2.1.325",
                "timestamp": f"2026-11-01T10:00:{n:02}.000Z",
                "message": {"role": role, "content": content},
            }
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return path


def test_commits_are_imported_once_and_then_only_new_ones(project: Project) -> None:
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, "Cap retries at seven\n\nEight trips the rate limit window.", "Bump version to 1.2.3")

    first = project.episodes.import_commits()
    assert (first.read, first.added, sum(n for _, n in first.left_out)) == (1, 1, 1)
    assert project.episodes.available().commits == 0
    commit(project.directory, "Use UTC in the login tests, they failed at night")
    second = project.episodes.import_commits()

    assert (second.read, second.added) == (1, 1)
    (found,) = project.episodes.search("rate limit window", 5)
    assert found.episode.text == "Cap retries at seven\n\nEight trips the rate limit window."


def test_a_dry_run_stores_nothing(project: Project, home: Path) -> None:
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, "Cap retries at seven")
    write_session(home, project.directory, "s1", ("user", "How is the clock skew handled?"), ("assistant", "30 s."))
    record_session_consent(True)

    assert project.episodes.import_commits(dry_run=True).added == 1
    assert [one.added for one in project.episodes.import_sessions(["claude"], dry_run=True)] == [1]
    assert project.store.episodes.is_empty()
    assert project.store.episodes.cursors.all() == {}


def test_sessions_are_read_only_after_a_person_has_agreed(project: Project, home: Path) -> None:
    write_session(home, project.directory, "s1", ("user", "How is the clock skew handled?"), ("assistant", "30 s."))

    assert str(project.episodes.available()) == "1 Claude Code session"
    with pytest.raises(UsageError, match="ralph import sessions --yes") as refused:
        project.episodes.import_sessions()
    assert refused.value.code == "consent-required"
    assert project.store.episodes.is_empty()
    record_session_consent(False)
    assert not project.episodes.available()


def test_a_session_that_goes_on_is_read_from_where_it_stopped(project: Project, home: Path) -> None:
    record_session_consent(True)
    write_session(home, project.directory, "s1", ("user", "Move the login to JWT, please"), ("assistant", "Moved."))
    (first, *_) = project.episodes.import_sessions(["claude"])
    (again, *_) = project.episodes.import_sessions(["claude"])
    later = (("user", "And what is still to do there?"), ("assistant", "Refresh tokens; clock skew must be 30 s."))
    write_session(home, project.directory, "s1", *later, start=2)
    (second, *_) = project.episodes.import_sessions(["claude"])

    assert (first.read, first.added, again.unchanged, second.read, second.added) == (1, 1, 1, 1, 1)
    passages = project.episodes.transcript(EpisodeKind.SESSION, "s1")
    assert [one.position for one in passages] == [0, 1]
    assert "clock skew must be 30 s" in passages[1].text
    assert project.episodes.available().sessions == ()


def test_an_interrupted_import_is_completed_by_the_next_one(project: Project, home: Path) -> None:
    record_session_consent(True)
    turns = [("user" if n % 2 == 0 else "assistant", f"Sentence number {n} of a long talk?") for n in range(20)]
    write_session(home, project.directory, "s1", *turns)
    project.episodes.import_sessions(["claude"])
    with project.store.transaction():  # as if it had been killed half way: some episodes, no cursor
        project.store.scope.execute("DELETE FROM import_cursors WHERE project_id = :project_id")
        project.store.scope.execute("DELETE FROM episodes WHERE project_id = :project_id AND position > 4")

    (second, *_) = project.episodes.import_sessions(["claude"])

    assert (second.added, second.known) == (5, 5)
    assert len(project.episodes.transcript(EpisodeKind.SESSION, "s1")) == 10


def test_sessions_of_the_loop_and_of_other_directories_are_left_alone(project: Project, home: Path) -> None:
    record_session_consent(True)
    write_session(home, project.directory, "own", ("user", "# How to work here\n\nYou work on one task of this"))
    write_session(home, f"{project.directory}-other", "s2", ("user", "Something about another project entirely"))

    (summary,) = project.episodes.import_sessions(["claude"])

    assert (summary.read, summary.added) == (1, 0)
    assert project.store.episodes.is_empty()


def test_what_is_forgotten_is_nowhere_in_the_file(project: Project) -> None:
    secret = "zanzibarquux"
    project.store.episodes.add(
        [an_episode(f"The code word is {secret} number {n}", source=f"s{n % 2}") for n in range(200)]
    )
    project.sessions.record_prompt("s0", "claude", f"Is it {secret}?", project.sessions.prompt_context("s0", ""))

    expected = project.episodes.forget(EpisodeFilter(matching=secret), dry_run=True)
    forgotten = project.episodes.forget(EpisodeFilter(matching=secret))

    assert (expected.episodes, expected.sessions) == (200, 1)
    assert (forgotten.episodes, forgotten.sessions) == (200, 1)
    assert project.episodes.search(secret, 5) == []
    assert check_store(project.store, deep=True).problems == ()
    if not project.store.is_shared:
        files = Path(project.store.database.display_url).parent.glob("ralph.db*")
        assert not any(secret[:12].encode() in path.read_bytes() for path in files)


def test_nothing_is_forgotten_without_saying_what(project: Project) -> None:
    with pytest.raises(UsageError) as refused:
        project.episodes.forget(EpisodeFilter())
    assert refused.value.code == "nothing-to-forget"


def test_the_size_limit_of_the_settings_holds_after_an_import(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_EPISODES_MAX_MB", "0.001")
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, *(f"Change number {n}\n\n{'why ' * 60}" for n in range(10)))
    with Project.open(project.directory) as limited:
        summary = limited.episodes.import_commits()
        (count,) = limited.episodes.counts()

    assert count.bytes <= 1000
    assert now() > count.newest
    assert "max_mb = 0.001" in summary.notes[0]
    assert project.store.episodes.cursors.get(TRIMMED).position == 10 - count.episodes


def test_a_raised_size_limit_brings_back_what_was_deleted_but_not_what_was_forgotten(
    project: Project, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_session_consent(True)
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, *(f"Change number {n}\n\n{'why ' * 60}" for n in range(10)))
    write_session(home, project.directory, "s1", ("user", f"What of number {'why ' * 60}?"), ("assistant", "30 s."))
    with monkeypatch.context() as patched:
        patched.setenv("RALPH_EPISODES_MAX_MB", "0.001")
        with Project.open(project.directory) as limited:
            limited.episodes.import_commits()
            limited.episodes.import_sessions(["claude"])
            assert limited.episodes.import_commits().read == 0
    kept = project.episodes.search("", 1)[0].episode
    project.episodes.forget(EpisodeFilter(within=kept.source))

    assert project.episodes.import_commits(dry_run=True).read == 10
    project.episodes.import_commits()
    project.episodes.import_sessions(["claude"])

    assert sum(one.episodes for one in project.episodes.counts()) == 10
    assert project.store.episodes.cursors.get(TRIMMED).position == 0
    assert project.episodes.import_commits().read == 0
