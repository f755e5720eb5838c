"""Linked worktrees of git: every way into Ralph finds the project of the main worktree, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ralph
from ralph.core.errors import ProjectNotFoundError, RalphError, UsageError
from ralph.integrations import hook_errors
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.trust import accept_review, review_trust
from ralph.workspace import find_root, find_worktree, init_project
from tests.cli.ran import run
from tests.integrations.mcp.asking import Served, tool_call
from tests.integrations.test_hooks import LEARNED, LESSON, Hooks, transcript
from tests.make import set_up_project
from tests.trusting import SECRET, git, make_bank


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A project with what people commit of it."""
    directory = tmp_path / "main"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "one.py").write_text("1\n")
    set_up_project(directory)
    (directory / ".ralph" / "knowledge" / "setup.md").write_text(
        "---\ntitle: Setup\ntags: [setup]\n---\n\nRun make setup.\n"
    )
    commit(directory)
    return directory


@pytest.fixture
def linked(main: Path) -> Path:
    git(main, "worktree", "add", "-q", "../linked")
    return main.parent / "linked"


def commit(directory: Path) -> None:
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "Change it")


def memories(directory: Path) -> list[str]:
    with Project.open(directory) as project:
        return sorted(one.content for one in project.memory.list(MemoryFilter()))


def untracked(directory: Path) -> str:
    return git(directory, "status", "--short", "--ignored")


# --- ways in -------------------------------------------------------------------------


def test_commands_use_the_project_of_the_main_worktree(
    main: Path, linked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, linked / "src", "memory", "add", "Use tabs.", "--type", "fix").code == 0
    assert run(capsys, linked, "task", "add", "Fix the parser").code == 0

    status = run(capsys, linked, "status")

    assert status.code == 0
    assert status.out.splitlines()[0].endswith(f": {main}")
    assert "1 ready" in status.out
    assert run(capsys, main, "status").out.splitlines()[0] == f"Project {main}"
    assert "Use tabs." in memories(main)
    assert untracked(linked) == ""


def test_a_session_is_told_and_what_it_says_is_kept(main: Path, linked: Path, tmp_path: Path) -> None:
    with Project.open(main) as project, project.synced():
        project.memory.add("Run make lint before make test.", type="fix")
    hooks = Hooks(linked)

    assert "> Run make lint before make test." in hooks("session-start", source="startup").told
    hooks("stop", last_assistant_message=f"Done.\n{LESSON}\n")
    path = transcript(tmp_path / "t.jsonl", "MEMORY:decision:Sessions use JWT.", "Bye.")
    hooks("session-end", transcript_path=path, reason="exit")

    assert {LEARNED, "Sessions use JWT."} <= set(memories(main))
    assert LEARNED in Hooks(main)("session-start", session_id="s-2").told
    assert untracked(linked) == ""


def test_an_mcp_client_uses_it(main: Path, linked: Path) -> None:
    with Served(linked) as served:
        served.ask(tool_call("remember", content="The parser wants tabs."))
        answer = served.ask(tool_call("search_memories", query="parser"))

    assert "The parser wants tabs." in json.dumps(answer)
    assert "The parser wants tabs." in memories(main)


def test_python_uses_it(main: Path, linked: Path) -> None:
    with ralph.open(linked / "src") as project:
        project.memory.add("Use tabs.", type="fix")

        assert project.root == main
        assert project.worktree == str(linked)
    assert "Use tabs." in memories(main)


def test_a_project_in_a_subdirectory_is_found_from_there(tmp_path: Path) -> None:
    main = tmp_path / "main"
    (main / "app" / "src").mkdir(parents=True)
    (main / "app" / "src" / "one.py").write_text("1\n")
    (main / "other").mkdir()
    (main / "other" / "two.py").write_text("2\n")
    set_up_project(main / "app")
    commit(main)
    git(main, "worktree", "add", "-q", "../linked")
    linked = tmp_path / "linked"

    assert find_worktree(linked / "app" / "src") == (str(main / "app"), str(linked / "app"))
    assert find_worktree(linked / "app") == (str(main / "app"), str(linked / "app"))
    with pytest.raises(ProjectNotFoundError):
        find_root(linked / "other")


def test_a_worktree_inside_the_main_one_has_files_of_its_own(main: Path) -> None:
    git(main, "worktree", "add", "-q", ".claude/worktrees/side")

    assert find_worktree(main / ".claude" / "worktrees" / "side") == (str(main), f"{main}/.claude/worktrees/side")


def test_the_project_of_a_repository_comes_before_one_above_the_worktree(main: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    set_up_project(above)
    git(main, "worktree", "add", "-q", str(above / "linked"))

    assert find_root(above / "linked") == str(main)


def test_a_directory_of_several_repositories_is_the_project_of_their_worktrees(tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "main").mkdir(parents=True)
    set_up_project(above)
    (above / "main" / "one.py").write_text("1\n")
    commit(above / "main")
    git(above / "main", "worktree", "add", "-q", str(tmp_path / "linked"))

    assert find_worktree(tmp_path / "linked") == (str(above), str(above))


# --- files ---------------------------------------------------------------------------


def test_memory_files_of_the_main_worktree_are_synced_and_those_of_the_linked_one_are_left(
    main: Path, linked: Path
) -> None:
    (linked / ".ralph" / "knowledge" / "own.md").write_text(
        "---\ntitle: Own\ntags: [own]\n---\n\nOnly on this branch.\n"
    )
    before = (linked / ".ralph" / "knowledge" / "setup.md").read_bytes()
    (main / ".ralph" / "knowledge" / "more.md").write_text(
        "---\ntitle: More\ntags: [more]\n---\n\nSaid in the main worktree.\n"
    )

    with ralph.open(linked) as project:
        project.memory.add("Use tabs.", type="fix")

    assert "Use tabs." in (main / ".agent" / "memories.md").read_text()
    assert not (linked / ".agent").exists()
    assert (linked / ".ralph" / "knowledge" / "setup.md").read_bytes() == before
    assert "Said in the main worktree." in memories(main)
    assert "Only on this branch." not in memories(main)


def test_whether_a_memory_is_stale_depends_on_the_files_of_the_worktree_in_use(main: Path, linked: Path) -> None:
    with ralph.open(linked) as project:
        project.memory.add("One is 1.", type="fix", files=["src/one.py"])
    (linked / "src" / "one.py").write_text("2\n")
    stale = MemoryFilter(is_stale=True)

    with ralph.open(linked) as project:
        assert [one.content for one in project.memory.list(stale)] == ["One is 1."]
    with ralph.open(main) as project:
        assert not project.memory.list(stale)


# --- setting up ----------------------------------------------------------------------


def test_init_says_which_project_is_used_and_changes_nothing(
    main: Path, linked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, linked, "init")

    assert said.code == 0
    assert said.out.splitlines()[0].endswith(f": {main}")
    assert untracked(linked) == ""


def test_a_worktree_with_a_project_of_its_own_keeps_it(
    main: Path, linked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--project", "separate") if "RALPH_STORE" in os.environ else ("--separate",)
    with Project.open(main) as project:
        project.memory.add("Said in the main worktree.", type="fix")

    assert run(capsys, linked, "init", *words).code == 0
    assert run(capsys, linked, "init").code == 0

    assert find_worktree(linked) == (str(linked), str(linked))
    assert "Said in the main worktree." not in memories(linked)
    assert run(capsys, linked, "status").out.splitlines()[0] == f"Project {linked}"


def test_without_a_project_in_the_main_worktree_init_sets_one_up_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = tmp_path / "main"
    main.mkdir()
    (main / "one.py").write_text("1\n")
    commit(main)
    git(main, "worktree", "add", "-q", "../linked")
    linked = tmp_path / "linked"

    refused = run(capsys, linked, "status")
    assert (refused.code, refused.error) == (2, "no-project")
    assert str(main) in refused.err

    assert run(capsys, linked, "init").code == 0
    assert find_root(linked) == str(linked)


def test_worktrees_of_a_bare_repository_have_a_project_each(
    main: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", "../linked")
    git(tmp_path / "bare", "worktree", "add", "-q", "-b", "side", "../side")
    if "RALPH_STORE" not in os.environ:
        refused = run(capsys, tmp_path / "linked", "status")
        assert (refused.code, refused.error) == (2, "no-project")

    init_project(tmp_path / "linked", name="of-linked" if "RALPH_STORE" in os.environ else "")

    assert find_root(tmp_path / "linked") == str(tmp_path / "linked")


def test_a_run_does_not_change_another_worktree_than_the_one_it_is_started_in(
    main: Path, linked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, linked, "task", "add", "Fix the parser")

    refused = run(capsys, linked, "run", "--", "touch", "ran")

    assert (refused.code, refused.error) == (2, "linked-worktree")
    with ralph.open(linked) as project, pytest.raises(UsageError):
        project.runs.start()
    assert untracked(main).count("ran") == 0


def test_an_agent_is_connected_where_setup_is_run(
    main: Path, linked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert run(capsys, main, "setup", "claude", "--yes").code == 0
    assert run(capsys, linked, "setup", "claude", "--yes").code == 0

    assert (linked / ".mcp.json").exists()
    doctor = run(capsys, linked, "doctor", "--format", "json").json
    assert {"project", "claude"} <= {one["about"] for one in doctor}
    assert run(capsys, linked, "setup", "claude", "--uninstall", "--yes").code == 0
    assert not (linked / ".mcp.json").exists()
    assert ".mcp.json" not in git(main, "status", "--short")


def test_a_hook_that_fails_is_reported_for_the_main_worktree(main: Path, linked: Path) -> None:
    (main / ".ralph.toml").write_text("[store\n")
    Hooks(linked)("stop", last_assistant_message=LESSON)

    assert hook_errors.list_hook_errors(str(main))
    assert hook_errors.has_queued(str(main))


# --- worktrees of the loop -----------------------------------------------------------


def test_the_worktree_of_a_task_belongs_to_the_project_it_was_created_for(main: Path) -> None:
    git(main, "worktree", "add", "-q", ".ralph/worktrees/t-1")
    place = main / ".ralph" / "worktrees" / "t-1"

    assert find_worktree(place) == find_worktree(place / "src") == (str(main), str(main))


# --- what somebody else makes --------------------------------------------------------


def test_a_clone_that_points_to_another_repository_does_not_open_its_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = make_bank(tmp_path / "bank")
    commit(bank)
    git(bank, "worktree", "add", "-q", "../linked")
    evil = tmp_path / "evil"
    evil.mkdir()
    for place in (".git", ".git/worktrees/linked"):
        (evil / ".git").write_text(f"gitdir: {bank / place}\n")

        with pytest.raises(ProjectNotFoundError):
            find_root(evil)
        assert run(capsys, evil, "memory", "search", "vault").error == "no-project"
        assert Hooks(evil)("session-start").envelope == {}
        with Served(evil) as served:
            assert SECRET not in json.dumps(served.ask(tool_call("search_memories", query="vault")))
    assert SECRET in Hooks(tmp_path / "linked")("session-start").told


def test_a_submodule_belongs_to_the_project_around_it_and_only_that(main: Path, linked: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "two.py").write_text("2\n")
    commit(library)
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".git").write_text(f"gitdir: {main / '.git' / 'modules' / 'lib'}\n")

    assert find_worktree(main / "lib") == (str(main), str(main))
    with pytest.raises(ProjectNotFoundError):
        find_root(elsewhere)


def test_links_that_form_a_circle_end(tmp_path: Path) -> None:
    main, inner = tmp_path / "main", tmp_path / "linked" / "inner"
    main.mkdir()
    (main / "one.py").write_text("1\n")
    commit(main)
    git(main, "worktree", "add", "-q", "../linked")
    inner.mkdir()
    (inner / "two.py").write_text("2\n")
    commit(inner)
    git(inner, "worktree", "add", "-q", str(main / "inner"))

    for start in (inner, main / "inner"):
        with pytest.raises(ProjectNotFoundError):
            find_root(start)


# --- trust ---------------------------------------------------------------------------


@pytest.fixture
def nobody_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RALPH_TRUST")


def set_gate(directory: Path) -> None:
    text = (directory / ".ralph.toml").read_text()
    (directory / ".ralph.toml").write_text(text.replace("# [execution]", '[execution]\ngates = ["touch gate"]'))


@pytest.mark.usefixtures("nobody_trusts")
def test_settings_are_those_of_the_main_worktree(main: Path, linked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_gate(linked)

    with Project.open(linked) as project:
        assert project.config.execution.gates == ()
        assert not project.config.untrusted
        assert not project.config.warnings

    set_gate(main)
    with Project.open(linked) as project:
        assert project.config.execution.gates == ()
        assert project.config.untrusted == ("execution.gates",)

    assert run(capsys, linked, "trust", "--yes").code == 0
    assert review_trust(main).is_trusted
    with Project.open(linked) as project:
        assert project.config.execution.gates == ("touch gate",)


@pytest.mark.usefixtures("nobody_trusts")
def test_trusting_the_main_worktree_is_enough_for_a_store_elsewhere(tmp_path: Path) -> None:
    main, url = tmp_path / "main", os.environ.get("RALPH_STORE") or str(tmp_path / "shared.db")
    main.mkdir()
    init_project(main, url=url, name="team")
    (main / ".ralph" / "knowledge" / "setup.md").write_text(
        "---\ntitle: Setup\ntags: [setup]\n---\n\nRun make setup.\n"
    )
    accept_review(review_trust(main))
    commit(main)
    git(main, "worktree", "add", "-q", "../linked")

    with ralph.open(tmp_path / "linked") as project:
        project.memory.add("Use tabs.", type="fix")

    assert not (tmp_path / "linked" / ".ralph" / "place").exists()
    assert "Use tabs." in memories(main)


@pytest.mark.own_store
@pytest.mark.usefixtures("nobody_trusts")
def test_broken_settings_of_a_branch_do_not_matter(main: Path, linked: Path) -> None:
    (linked / ".ralph.toml").write_text("[store\n")

    assert find_root(linked) == str(main)
    with Project.open(linked):
        pass


# --- cold start ----------------------------------------------------------------------


def test_git_is_not_started(main: Path, linked: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}

    for words in (("status",), ("hook", "session-start"), ("memory", "prime")):
        command = [sys.executable, "-m", "ralph", *words]
        subprocess.run(command, cwd=linked, env=environment, input=b"{}", check=True, capture_output=True)

    assert not (tmp_path / "started").exists()


@pytest.mark.own_store
def test_a_missing_database_of_the_main_worktree_is_reported(main: Path, linked: Path) -> None:
    (main / ".ralph" / "backups").mkdir()
    (main / ".ralph" / "ralph.db").rename(main / ".ralph" / "backups" / "one.db")

    with pytest.raises(RalphError) as caught:
        find_root(linked)

    assert caught.value.code == "database-missing"
