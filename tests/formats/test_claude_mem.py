"""The database of claude-mem moves in: what it observed and summarized in this project becomes episodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.actor import AGENT
from ralph.core.consent import record_session_consent
from ralph.core.errors import UsageError
from ralph.core.records import Episode, EpisodeKind, Speaker
from ralph.formats.claude_mem import database_path
from ralph.memory.import_export import ImportResult
from ralph.project import Project
from tests.formats.claude_mem_db import ClaudeMem
from tests.memory.test_episodes import commit, git, home, write_session

__all__ = ["home"]

SECRET = "ghp_" + "A1b2C3d4" * 4 + "e5F6"
TITLE = "Retries are capped at seven"
NARRATIVE = "Eight retries trip the rate limit window of the gateway."
ASKED = "How often should the client retry before it gives up?"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ClaudeMem]:
    """Give an open database without rows."""
    database = ClaudeMem(tmp_path / "claude-mem" / "claude-mem.db")
    yield database
    database.close()


@pytest.fixture
def name(project: Project) -> str:
    """Give the name of the project as claude-mem stores it."""
    return Path(project.directory).name


def import_one(project: Project, database: ClaudeMem) -> ImportResult:
    (result,) = project.transfer.import_path(database.path)
    return result


def episodes(project: Project, session: str = "s1") -> list[Episode]:
    return project.store.episodes.of_source(EpisodeKind.SESSION, session)


def test_observations_and_summaries_become_episodes(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe(
        "s1",
        name,
        title=TITLE,
        narrative=NARRATIVE,
        facts=["The window is 60 s", f"The key was {SECRET}"],
        files_modified=[f"{project.directory}/src/client.py"],
        files_read=["src/gateway.py", "/etc/passwd"],
    )
    memory.summarize(
        "s1", name, request="Stop the outages", learned="The gateway counts retries", next_steps="Add jitter", notes=""
    )

    result = import_one(project, memory)

    assert (result.format, result.episodes, result.known, result.problems) == ("claude-mem", 2, 0, ())
    observed, summary = episodes(project)
    assert (observed.kind, observed.agent, observed.speaker) == (EpisodeKind.SESSION, "claude", Speaker.AGENT)
    assert observed.at == "2026-02-26T08:01:52.902Z"
    assert observed.files == ("src/client.py", "src/gateway.py")
    lines = observed.text.splitlines()
    assert lines[:3] == [f"decision: {TITLE}", NARRATIVE, "- The window is 60 s"]
    assert SECRET not in observed.text
    assert summary.text.splitlines() == [
        "Request: Stop the outages",
        "Learned: The gateway counts retries",
        "Next steps: Add jitter",
    ]


def test_what_was_imported_is_found(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe("s1", name, title=TITLE, narrative=NARRATIVE)
    import_one(project, memory)

    (found,) = project.episodes.search("which number of retries trips the gateway", 5)

    assert found.episode.source == "s1"


def test_a_second_import_adds_only_what_is_new(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe("s1", name, title=TITLE, narrative=NARRATIVE)
    first = import_one(project, memory)
    memory.observe("s1", name, title="Jitter was added to all retries")

    second, third = import_one(project, memory), import_one(project, memory)

    assert [(one.episodes, one.known) for one in (first, second, third)] == [(1, 0), (1, 1), (0, 2)]
    assert [one.text.splitlines()[0] for one in episodes(project)] == [
        f"decision: {TITLE}",
        "decision: Jitter was added to all retries",
    ]


def test_older_databases_are_read(project: Project, name: str, tmp_path: Path) -> None:
    memory = ClaudeMem(tmp_path / "old" / "claude-mem.db", is_old=True)
    memory.session("s1", name, user_prompt=ASKED)
    memory.observe("s1", name, text=NARRATIVE)
    memory.summarize("s1", name, learned="The gateway counts retries")
    memory.close()

    result = import_one(project, memory)

    assert (result.format, result.episodes, result.problems) == ("claude-mem", 3, ())
    assert [(one.speaker, one.text) for one in episodes(project)] == [
        (Speaker.PERSON, ASKED),
        (Speaker.AGENT, f"decision: {NARRATIVE}"),
        (Speaker.AGENT, "Learned: The gateway counts retries"),
    ]


def test_other_projects_are_counted_and_named(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe("s1", name, title=TITLE)
    for session, other in (("s2", "billing"), ("s3", "billing"), ("s4", "web\x1b[31m")):
        memory.session(session, other)
        memory.observe(session, other, title="Something of another project")

    result = import_one(project, memory)

    assert (result.episodes, result.rejected) == (1, 1)  # a name that is not printable is none
    assert result.note == "left out: 2 of other projects (billing 2)"
    assert episodes(project, "s2") == []


def test_linked_worktrees_belong_to_the_project(project: Project, name: str, memory: ClaudeMem) -> None:
    git(project.directory, "init", "-q", "-b", "main")
    commit(project.directory, "First commit of all")
    linked = f"{project.directory}-fix"
    git(project.directory, "worktree", "add", "-q", linked)
    memory.session("s1", f"{name}/{name}-fix")
    memory.observe("s1", f"{name}/{name}-fix", title=TITLE, files_modified=[f"{linked}/client.py"])
    memory.session("s2", f"{name}/gone")
    memory.observe("s2", f"{name}/gone", title="A branch that was merged", merged_into_project=name)

    assert import_one(project, memory).episodes == 2
    assert episodes(project)[0].files == ("client.py",)


def test_prompts_are_kept_as_turns_of_the_person(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.ask("s1", ASKED)
    memory.ask("s1", "yes")
    memory.ask("s1", "# How to work here\nYou are in a loop, and this is the task.")

    result = import_one(project, memory)

    assert (result.episodes, result.note) == (1, "left out: 1 too short, 1 prompts of the loop")
    assert [(one.speaker, one.text) for one in episodes(project)] == [(Speaker.PERSON, ASKED)]


def test_what_a_transcript_holds_already_is_known(project: Project, name: str, memory: ClaudeMem, home: Path) -> None:
    write_session(home, project.directory, "s1", ("user", ASKED), ("assistant", "Seven times, then it gives up."))
    record_session_consent(True)
    project.episodes.import_sessions()
    memory.session("s1", name)
    memory.ask("s1", ASKED)

    result = import_one(project, memory)

    assert (result.episodes, result.known) == (0, 1)


def test_rows_that_cannot_be_read_are_named(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name, platform_source="codex")
    memory.observe("s1", name, title=None)
    memory.observe("", name, title="It belongs to no session at all")
    memory.observe("s1", name, title=TITLE, facts="not JSON", created_at_epoch=-1)
    memory.observe("gone", name, title="Its session was deleted since", type=b"\xff\x00")
    memory.summarize("s1", name)

    result = import_one(project, memory)

    assert (result.episodes, [problem.line for problem in result.problems]) == (2, [1, 1, 2])
    (kept,) = episodes(project)
    assert (kept.agent, kept.text, kept.at[:4]) == ("codex", f"decision: {TITLE}\n- not JSON", "2026")
    assert [one.text for one in episodes(project, "memory-gone")] == ["Its session was deleted since"]


def test_an_agent_may_not_import_them(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe("s1", name, title=TITLE)
    agent = Project(project.directory, project.store, project.config, AGENT)

    with pytest.raises(UsageError) as refused:
        agent.transfer.import_path(memory.path)

    assert refused.value.code == "person-required"
    assert project.store.episodes.is_empty()


def test_a_dry_run_adds_nothing(project: Project, name: str, memory: ClaudeMem) -> None:
    memory.session("s1", name)
    memory.observe("s1", name, title=TITLE)

    with project.transfer.together(dry_run=True):
        assert import_one(project, memory).episodes == 1

    assert project.store.episodes.is_empty()


def test_the_database_is_where_the_environment_says() -> None:
    assert database_path("/home/a", {}) == "/home/a/.claude-mem/claude-mem.db"
    assert database_path("/home/a", {"CLAUDE_MEM_DATA_DIR": "~/mem"}) == "/home/a/mem/claude-mem.db"
