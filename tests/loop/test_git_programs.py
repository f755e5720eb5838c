"""Nothing of a session outlives it through git: no program it configures runs, and its changes are undone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ralph.core import git as core_git
from ralph.core.git import run_git, trust_git_programs
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from tests.loop.test_parallel import Together, no_settings_of_this_machine
from tests.loop.trial import SAYS_DONE, is_alive, leave

__all__ = ["no_settings_of_this_machine"]

EVIL = """#!{python}
import os, sys, time
if os.fork() == 0:
    os.setsid()
    open({mark!r}, "a").write(f"{{os.getpid()}}\\n")
    os.closerange(0, 3)
    time.sleep(600)
    os._exit(0)
sys.stdout.write(sys.stdin.read() if not sys.stdin.isatty() else "")
"""
"""A program that leaves a process behind, and copies its input so that a filter works."""

WAYS = {
    "clean filter": "git config filter.evil.clean $EVIL; echo '* filter=evil' > .gitattributes",
    "required filter": "git config filter.evil.clean $EVIL; git config filter.evil.required true;"
    " git config filter.evil.smudge $EVIL; echo '* filter=evil' > .gitattributes",
    "filter process": "git config filter.evil.process $EVIL; echo '* filter=evil' > .gitattributes",
    "odd name": "git config 'filter.e=v il.clean' $EVIL; git config --get-regexp . >/dev/null;"
    " git config filter.evil.clean $EVIL; echo '* filter=evil' > .gitattributes",
    "attributes of the repository": "git config filter.evil.clean $EVIL;"
    " echo '* filter=evil' > $(git rev-parse --git-path info/attributes)",
    "hook": "for h in post-checkout post-commit pre-commit post-merge reference-transaction post-index-change;"
    " do cp $EVIL $(git rev-parse --git-common-dir)/hooks/$h; done",
    "hooks path": "mkdir -p $PLACE/h; cp $EVIL $PLACE/h/post-checkout; cp $EVIL $PLACE/h/post-index-change;"
    " cp $EVIL $PLACE/h/reference-transaction; git config core.hooksPath $PLACE/h",
    "file system monitor": "git config core.fsmonitor $EVIL",
    "merge driver": "git config merge.evil.driver \"$EVIL %A\"; echo '* merge=evil' > .gitattributes",
    "external diff": "git config diff.external $EVIL; git config diff.evil.command $EVIL;"
    " git config diff.evil.textconv $EVIL; echo '* diff=evil' > .gitattributes",
    "include": "printf '[filter \"evil\"]\\n clean = %s\\n' $EVIL > $PLACE/more; git config include.path $PLACE/more;"
    " echo '* filter=evil' > .gitattributes",
    "configuration of the worktree": "git config extensions.worktreeConfig true;"
    " git config --worktree filter.evil.clean $EVIL; echo '* filter=evil' > .gitattributes",
    "signature": "git config gpg.program $EVIL; git config commit.gpgSign true; git config log.showSignature true",
    "editor": "git config core.editor $EVIL; git config sequence.editor $EVIL; git config core.pager $EVIL",
    "fetch": "git config core.sshCommand $EVIL; git config core.askPass $EVIL; git config credential.helper $EVIL;"
    " git config remote.origin.url 'ext::sh -c $EVIL'; git config protocol.ext.allow always;"
    " git config remote.origin.promisor true; git config core.alternateRefsCommand $EVIL",
}


class Place:
    """Where the evil program is, and where it says that it ran."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.program = directory / "evil"
        self.mark = directory / "ran"
        self.program.write_text(EVIL.format(python=sys.executable, mark=str(self.mark)))
        self.program.chmod(0o755)

    def pids(self) -> list[int]:
        """Give the processes that it left."""
        return [int(line) for line in self.mark.read_text().splitlines()] if self.mark.exists() else []

    def script(self, way: str, then: str = SAYS_DONE) -> str:
        """Give an agent that takes a way and says done."""
        where = f"EVIL={self.program}; PLACE={self.directory}; export EVIL PLACE\n"
        return f"cat > /dev/null\n{where}{way}\necho made > made.txt\n{then}\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Give the evil program."""
    return Place(tmp_path / "evil")


@pytest.fixture
def together(
    project: Project, capsys: pytest.CaptureFixture[str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> Together:
    """Give a project in a repository, with a copy of its settings."""
    monkeypatch.setenv("RALPH_EXECUTION_PROTECT", "!.gitattributes")  # otherwise a person would have to look at it
    found = Together(project, capsys)
    (found.root / "shared.txt").write_text("one\n")
    (found.root / "agent.sh").write_text("exit 1\n")
    found.commit_all()
    return found


def settings_of(root: Path) -> dict[str, bytes]:
    folder = root / ".git"
    paths = [folder / "config", folder / "info/exclude", folder / "info/attributes", folder / "config.worktree"]
    return {str(path): path.read_bytes() for path in (*paths, *sorted((folder / "hooks").iterdir())) if path.exists()}


def assert_nothing_runs(place: Place) -> None:
    pids = place.pids()
    alive = [pid for pid in pids if is_alive(pid)]
    for pid in alive:
        leave(pid)
    assert (pids, alive) == ([], [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", ["", "2"], ids=["serial", "parallel"])
def test_no_program_that_a_session_configures_is_run(together: Together, place: Place, way: str, workers: str) -> None:
    (together.root / "agent.sh").write_text(place.script(WAYS[way]))
    together.git("commit", "-qam", "agent")
    (task,) = together.add("A")
    before = settings_of(together.root)
    parallel = ["--parallel", workers] if workers else []

    ran = together.ralph("run", *parallel, "--gate", "true", "--format", "json", "--", "sh", "agent.sh")

    assert ran.code == 0, ran
    assert together.status(task) is TaskStatus.DONE
    assert_nothing_runs(place)
    assert settings_of(together.root) == before
    warnings = [json.loads(line) for line in ran.out.splitlines() if json.loads(line)["event"] == "warning"]
    assert any(".git/" in event["message"] and "put back" in event["message"] for event in warnings)
    assert "put back" in together.log(task)


@pytest.mark.parametrize("way", ["clean filter", "hook", "include", "file system monitor"])
def test_a_review_that_configures_a_program_fails_and_is_undone(together: Together, place: Place, way: str) -> None:
    review = place.script(
        WAYS[way].replace("> .gitattributes", "> $(git rev-parse --git-path info/attributes)"), "true"
    )
    (together.root / "agent.sh").write_text(
        f'if [ "$RALPH_READ_ONLY" ]; then\n{review}\nrm made.txt; echo "<verify-pass/>"; exit\nfi\n{SAYS_DONE}\n'
    )
    together.git("commit", "-qam", "agent")
    together.add("A")
    before = settings_of(together.root)

    together.ralph("run", "--review", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert together.outcomes() == [AttemptOutcome.RETRIED]
    assert_nothing_runs(place)
    assert settings_of(together.root) == before


@pytest.mark.parametrize("way", ["clean filter", "filter process", "file system monitor", "include", "hook"])
def test_commands_of_a_person_do_not_run_what_a_killed_session_left(together: Together, place: Place, way: str) -> None:
    together.ralph("memory", "add", "shared.txt has one line", "--tags", "shared.txt")
    subprocess.run(["sh", "-c", place.script(WAYS[way], "true")], cwd=together.root, check=True, input=b"")
    (together.root / "shared.txt").write_text("two\n")

    for words in (("status",), ("doctor",), ("memory", "list"), ("memory", "stale"), ("memory", "search", "line")):
        together.ralph(*words)

    assert_nothing_runs(place)


def test_gates_cannot_leave_settings_either(together: Together, place: Place) -> None:
    (together.root / "agent.sh").write_text(place.script("true"))
    together.git("commit", "-qam", "agent")
    (task,) = together.add("A")
    before = settings_of(together.root)
    gate = f"git config filter.evil.clean {place.program}; echo x > $(git rev-parse --git-common-dir)/hooks/pre-push"

    together.ralph("run", "--parallel", "2", "--gate", gate, "--", "sh", "agent.sh")

    assert together.status(task) is TaskStatus.DONE
    assert settings_of(together.root) == before


# --- what stays possible -----------------------------------------------------------------------------


def test_filters_of_the_person_still_work(together: Together, tmp_path: Path) -> None:
    for scope, name in (("--local", "near"), ("--global", "far")):
        (tmp_path / "home").mkdir(exist_ok=True)
        together.git("config", scope, f"filter.{name}.clean", f"sed s/plain/{name}/")
    (together.root / ".gitattributes").write_text("*.near filter=near\n*.far filter=far\n")
    (together.root / "agent.sh").write_text(
        f"echo plain > a.near; echo plain > a.far; git config filter.far.clean 'sed s/plain/evil/'\n{SAYS_DONE}\n"
    )
    together.git("add", "-A")
    together.git("commit", "-qm", "agent")
    together.add("A")

    ran = together.ralph("run", "--parallel", "2", "--", "sh", "agent.sh")

    assert together.git("show", "main:a.near", "main:a.far") == "near\nfar\n", ran


def test_a_branch_that_an_agent_follows_is_left_alone(together: Together) -> None:
    together.git("remote", "add", "origin", str(together.root))
    (together.root / "agent.sh").write_text(
        f"git fetch -q; git checkout -q -b topic --track origin/main\n{SAYS_DONE}\n"
    )
    together.git("commit", "-qam", "agent")
    together.add("A")

    ran = together.ralph("run", "--", "sh", "agent.sh")

    assert together.git("config", "branch.topic.remote") == "origin\n"
    assert "put back" not in ran.out


def test_what_is_undone_is_kept_for_the_person(together: Together) -> None:
    (together.root / "agent.sh").write_text(f"git config alias.st '!evil'\n{SAYS_DONE}\n")
    together.git("commit", "-qam", "agent")
    (task,) = together.add("A")

    together.ralph("run", "--", "sh", "agent.sh")

    (copy,) = (together.root / ".git/ralph/undone").iterdir()
    assert "st = !evil" in copy.read_text()
    assert str(copy) in together.log(task)


HOOK_CHANGES = {
    "deleted": "rm -rf .git/hooks",
    "a link": 'mv .git/hooks .git/other; ln -s "$HOME" .git/hooks',
    "a file": "rm -rf .git/hooks; echo x > .git/hooks",
    "changed": "echo x > .git/hooks/pre-commit; echo y > .git/hooks/post-commit",
}


@pytest.mark.parametrize("way", HOOK_CHANGES)
def test_hooks_of_the_person_come_back(together: Together, way: str) -> None:
    hook = together.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (together.root / "agent.sh").write_text(f'mkdir -p "$HOME"; {HOOK_CHANGES[way]}\n{SAYS_DONE}\n')
    together.add("A")

    together.ralph("run", "--", "sh", "agent.sh")

    assert not hook.parent.is_symlink()
    assert [path for path in hook.parent.iterdir() if path.suffix != ".sample"] == [hook]
    assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("#!/bin/sh\n", 0o755)


USER_CHANGES = {
    "hooks": "git config --global core.hooksPath /nowhere",
    "alias": "git config --global alias.st '!evil'",
    "file system monitor": "git config --global core.fsmonitor /nowhere",
    "difftool": "git config --global difftool.x.cmd evil",
    "deleted": 'rm "$HOME/.gitconfig"',
}


@pytest.mark.parametrize("way", USER_CHANGES)
def test_programs_in_the_persons_own_configuration_are_taken_out(together: Together, tmp_path: Path, way: str) -> None:
    config = tmp_path / "home/.gitconfig"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[user]\n\tname = a\n")
    (together.root / "agent.sh").write_text(f"{USER_CHANGES[way]}\n{SAYS_DONE}\n")
    (task,) = together.add("A")

    together.ralph("run", "--", "sh", "agent.sh")

    assert config.read_text() == "[user]\n\tname = a\n"
    assert "put back" in together.log(task)


def test_settings_of_submodules_are_put_back(together: Together, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "library")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    run_git(tmp_path / "library", *who, "commit", "-q", "--allow-empty", "-m", "a")
    adding, from_file = ("submodule", "add", "-q"), {"GIT_ALLOW_PROTOCOL": "file"}
    run_git(together.root, *adding, str(tmp_path / "library"), "library", environment=from_file)
    git_directory = together.root / ".git/modules/library"
    before = (git_directory / "config").read_text()
    (together.root / "agent.sh").write_text(
        "git -C library config core.fsmonitor evil; echo evil > .git/modules/library/hooks/pre-commit\n"
        f"cp -r .git/modules/library .git/modules/new\n{SAYS_DONE}\n"
    )
    together.add("A")

    together.ralph("run", "--", "sh", "agent.sh")

    assert (git_directory / "config").read_text() == before
    assert not (git_directory / "hooks/pre-commit").exists()
    assert (together.root / ".git/modules/new/config").exists()


def test_a_link_does_not_lead_what_is_undone_elsewhere(together: Together, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (together.root / "agent.sh").write_text(
        f"rm -rf .git/ralph; mkdir .git/ralph; ln -s {tmp_path}/elsewhere .git/ralph/undone\n"
        f"git config alias.st '!evil'\n{SAYS_DONE}\n"
    )
    together.add("A")

    together.ralph("run", "--", "sh", "agent.sh")

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "alias" not in (together.root / ".git/config").read_text()


@pytest.mark.storeless
@pytest.mark.parametrize("has_own", [True, False])
def test_programs_that_are_added_to_the_persons_own_configuration_during_a_run_do_not_run(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch, has_own: bool
) -> None:
    monkeypatch.setattr(core_git, "_trusted", {})
    monkeypatch.setattr(core_git, "_trusted_user", None)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    own = '[filter "own"]\n\tclean = sed s/one/two/\n'
    (home / ".gitconfig").write_text(own if has_own else "")
    run_git(tmp_path, "init", "-q", "root")
    root = tmp_path / "root"
    (root / ".gitattributes").write_text("a.txt filter=evil\nb.txt filter=own\n")
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("one\n")
    trust_git_programs(root)
    added = f'[filter "evil"]\n\tclean = {place.program}\n\trequired = true\n'
    (home / ".gitconfig").write_text((own if has_own else "") + added)

    ran = run_git(root, "add", "-A")

    assert ran.ok, ran.stderr
    assert_nothing_runs(place)
    assert run_git(root, "show", ":b.txt").stdout == ("two\n" if has_own else "one\n")


def test_a_branch_that_another_session_deletes_loses_no_work(together: Together) -> None:
    (together.root / "agent.sh").write_text(
        "git commit -q --allow-empty -m x; echo made > made.txt;"
        f" git update-ref -d refs/heads/ralph/$RALPH_TASK_ID\n{SAYS_DONE}\n"
    )
    together.git("config", "user.name", "a")
    together.git("config", "user.email", "a@example.com")
    together.git("commit", "-qam", "agent")
    (task,) = together.add("A")

    together.ralph("run", "--parallel", "2", "--gate", "test -f made.txt", "--", "sh", "agent.sh")

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / "made.txt").exists()
    assert together.left() == ""


def test_a_session_cannot_move_the_base_branch_to_its_own_commit(together: Together) -> None:
    (together.root / "agent.sh").write_text(
        "echo bad > bad.txt; git add bad.txt; git -c user.name=a -c user.email=a@b commit -qm bad;"
        ' git update-ref refs/heads/main HEAD; echo "<task-failed>$RALPH_TASK_ID</task-failed>"\n'
    )
    together.git("commit", "-qam", "agent")
    before = together.git("rev-parse", "main")
    (task,) = together.add("A")

    together.ralph("run", "--parallel", "2", "--max-iterations", "1", "--gate", "false", "--", "sh", "agent.sh")

    assert together.git("rev-parse", "main") == before
    assert together.changes() == ""
    assert "main was moved to" in together.log(task)
    assert together.git("show", f"ralph/{task.id}:bad.txt") == "bad\n"


def test_a_worktree_that_points_to_another_repository_is_put_right(together: Together, place: Place) -> None:
    way = (
        "git init -q $PLACE/other; git -C $PLACE/other config filter.evil.clean $EVIL;"
        " echo '* filter=evil' > .gitattributes; [ -f .git ] && echo gitdir: $PLACE/other/.git > .git"
    )
    (together.root / "agent.sh").write_text(place.script(way))
    together.git("commit", "-qam", "agent")
    (task,) = together.add("A")

    together.ralph("run", "--parallel", "2", "--gate", "true", "--", "sh", "agent.sh")

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / "made.txt").exists()
    assert_nothing_runs(place)


# --- one command -------------------------------------------------------------------------------------


@pytest.mark.storeless
def test_a_repository_without_programs_costs_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "config", "branch.x.merge", "refs/heads/x")
    commands: list[object] = []
    start = subprocess.Popen.__init__

    def counted(self: subprocess.Popen[bytes], *words: object, **options: object) -> None:
        commands.append(words[0])
        start(self, *words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    run_git(tmp_path, "status")
    assert len(commands) == 1

    run_git(tmp_path, "config", "filter.a.clean", "cat")
    commands.clear()
    for _ in range(3):
        run_git(tmp_path, "status")
    assert len(commands) == 4


@pytest.mark.storeless
@pytest.mark.parametrize("way", WAYS)
def test_while_a_session_works_git_does_not_run_what_it_configures(tmp_path: Path, place: Place, way: str) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    run_git(root, "init", "-q", "-b", "main")
    for branch in ("main", "other"):
        run_git(root, "checkout", "-q", "-B", branch)
        (root / "a.txt").write_text(f"{branch}\ntwo\nthree\n")
        run_git(root, "add", "-A")
        run_git(root, *who, "commit", "-qm", branch)
    run_git(root, "checkout", "-q", "main")
    (root / "a.txt").write_text("main\ntwo\nthree\nfour\n")
    run_git(root, *who, "commit", "-qam", "four")
    subprocess.run(["sh", "-c", place.script(WAYS[way], "true")], cwd=root, check=True, input=b"")

    for words in (
        ("status", "--porcelain"),
        ("add", "-A"),
        ("commit", "-qm", "evil"),
        ("merge-tree", "--write-tree", "main", "other"),
        ("merge", "-q", "--no-edit", "other"),
        ("diff", "--name-only", "HEAD~1", "HEAD"),
        ("diff", "--cached", "--quiet"),
        ("log", "--no-show-signature", "--name-only"),
        ("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "main"),
        ("reset", "-q", "--hard"),
        ("ls-files", "--others"),
    ):
        run_git(root, *who, "-c", "commit.gpgSign=false", *words)

    assert (tmp_path / "tree/a.txt").exists()
    assert_nothing_runs(place)


@pytest.mark.storeless
def test_trust_is_for_the_programs_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_git, "_trusted", {})
    run_git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt filter=a\n")
    (tmp_path / "a.txt").write_text("one\n")
    run_git(tmp_path, "config", "filter.a.clean", "sed s/one/two/")

    def added() -> str:
        run_git(tmp_path, "rm", "-q", "--cached", "a.txt")
        run_git(tmp_path, "add", "a.txt")
        return run_git(tmp_path, "show", ":a.txt").stdout

    assert added() == "one\n"
    assert trust_git_programs(tmp_path) == {"filter.a.clean": "sed s/one/two/"}
    assert added() == "two\n"
    run_git(tmp_path, "config", "filter.a.clean", "sed s/one/three/")
    assert added() == "one\n"


@pytest.mark.storeless
def test_what_a_trusted_filter_leaves_running_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_git, "_trusted", {})
    run_git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt filter=a\n")
    (tmp_path / "a.txt").write_text("one\n")
    run_git(tmp_path, "config", "filter.a.clean", f"sleep 600 >/dev/null 2>&1 & echo $! > {tmp_path}/pid; cat")
    trust_git_programs(tmp_path)

    run_git(tmp_path, "add", "a.txt")

    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_a_trusted_filter_that_a_session_has_changed_leaves_nothing_running(together: Together, place: Place) -> None:
    """A filter may be a file of the project, which a session can edit."""
    filter = together.root / "filter.sh"
    filter.write_text("#!/bin/sh\ncat\n")
    filter.chmod(0o755)
    (together.root / ".gitattributes").write_text("*.txt filter=own\n")
    together.git("config", "filter.own.clean", "./filter.sh")
    together.commit_all()
    together.project.tasks.add("Do it")
    (place.directory / "filter").write_text(f"#!/bin/sh\n: > {place.directory}/was-run\nexec {place.program}\n")
    together.script(f"cat {place.directory}/filter > filter.sh; echo two > shared.txt\n{SAYS_DONE}")

    ran = together.ralph("run", "--max-iterations", "1", "--gate", "true", "--", "sh", "agent.sh")

    assert (place.directory / "was-run").exists(), ran.out + ran.err
    assert [pid for pid in place.pids() if is_alive(pid)] == []


REPLACEMENTS = {
    "a link": "mv .git $PLACE/git; ln -s $PLACE/git .git",
    "a file": "mv .git $PLACE/git; echo gitdir: $PLACE/git > .git",
    "a copy": "mv .git $PLACE/git; cp -r $PLACE/git .git",
}


@pytest.mark.parametrize("way", REPLACEMENTS)
def test_a_git_directory_that_a_session_moves_away_comes_back(together: Together, place: Place, way: str) -> None:
    together.project.tasks.add("Do it")
    together.script(place.script(f"{REPLACEMENTS[way]}; git config core.fsmonitor $EVIL"))

    ran = together.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    together.git("status")  # as the person does

    assert (together.root / ".git").is_dir()
    assert not (together.root / ".git").is_symlink()
    assert place.pids() == []
    assert ".git/config was changed" in ran.out + ran.err


@pytest.mark.parametrize("leads", ["ln -s $PLACE/other/.git .git", "echo gitdir: $PLACE/other/.git > .git"])
def test_a_git_directory_that_leads_to_another_repository_is_reported(
    together: Together, place: Place, leads: str
) -> None:
    together.project.tasks.add("Do it")
    subprocess.run(["git", "init", "-q", str(place.directory / "other")], check=True)
    together.script(place.script(f"mv .git $PLACE/git; {leads}"))

    ran = together.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert "leads git to another place" in ran.out + ran.err
    assert (place.directory / "other" / ".git" / "HEAD").exists()


def test_settings_of_other_worktrees_are_put_back(together: Together, place: Place) -> None:
    linked = place.directory / "linked"
    together.git("config", "extensions.worktreeConfig", "true")
    together.git("worktree", "add", "-q", str(linked))
    together.project.tasks.add("Do it")
    together.script(place.script(f"git -C {linked} config --worktree core.fsmonitor $EVIL"))

    together.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    subprocess.run(["git", "status"], cwd=linked, check=True, capture_output=True)  # as the person does

    assert place.pids() == []


FETCHES = {
    "program of a remote": "git config remote.evil.uploadpack $EVIL; git config remote.evil.url $PLACE",
    "file of a remote": "mkdir .git/remotes; printf 'URL: %s\\n' $PLACE > .git/remotes/evil;"
    " git config remote.evil.uploadpack $EVIL",
    "proxy": "git config core.gitProxy $EVIL; git config remote.evil.url git://localhost/x",
    "protocol": 'git config protocol.ext.allow always; git config remote.evil.url "ext::$EVIL"',
}


@pytest.mark.storeless
@pytest.mark.parametrize("way", FETCHES)
def test_a_missing_object_is_not_fetched_by_a_program(tmp_path: Path, place: Place, way: str) -> None:
    """Git takes the first of these settings, so that a later one cannot override it."""
    root = tmp_path / "repository"
    root.mkdir()
    run_git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    run_git(root, "add", "-A")
    run_git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "one")
    (root / "a.txt").write_text("two\n")
    blob = run_git(root, "rev-parse", "HEAD:a.txt").stdout.strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    promise = "git config core.repositoryFormatVersion 1; git config extensions.partialClone evil;"
    script = place.script(f"{promise} git config remote.evil.promisor true; {FETCHES[way]}", "true")
    subprocess.run(["sh", "-c", script], cwd=root, check=True, input=b"")

    ran = run_git(root, "diff", "HEAD")

    assert not ran.ok
    assert_nothing_runs(place)
