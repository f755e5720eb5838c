"""Agents and gates confined by bubblewrap: what they reach, what they do not, and that limits hold as ever."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ralph.agents import Limits
from ralph.agents.supervisor.process import ProcessResult, run_program
from ralph.agents.supervisor.sandbox import Sandbox, check_sandbox, git_directory, sandbox_of, sandbox_problem
from ralph.core.config import AgentConfig, Config, StoreConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AttemptOutcome, SessionEnding, TaskStatus, replace
from ralph.core.trust_record import record_paths, save_trust
from ralph.project import Project
from tests.loop.trial import SAYS_DONE, Trial
from tests.make import set_up_project

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(bool(sandbox_problem()), reason=f"no sandbox here: {sandbox_problem()}"),
]
LONG_ENOUGH = 60.0
TOKEN = "the-token-nobody-sees"


class Confined:
    """A project in a home directory with secrets, and a way to run shell commands in its sandbox."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = self.directory = self.home / "project"
        self.outside = folder / "outside"
        self.state = self.home / ".local/state/ralph"
        for directory in (self.root, self.outside, self.state / "serve", self.home / ".claude"):
            directory.mkdir(parents=True)
        for name in (".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".npmrc"):
            self.write(self.home / name, TOKEN)
        self.write(self.state / "serve/token", TOKEN)
        self.write(self.home / ".claude/.credentials.json", "{}")
        self.write(self.home / ".claude/settings.json", "{}")
        self.git("init", "-q", "-b", "main")
        set_up_project(self.root)
        self.write(self.root / "ralph.yaml", "")
        self.sandbox = Sandbox(root=str(self.root), agent="claude")

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def run(
        self, script: str, *, limits: Limits | None = None, program: Path | None = None, path: str = "", **changes: Any
    ) -> ProcessResult:
        path = f"{path or Path(sys.executable).parent}:{os.environ['PATH']}"
        return run_program(
            [str(program)] if program else ["sh", "-c", script],
            directory=self.directory,
            limits=replace(limits or Limits(seconds=LONG_ENOUGH), sandbox=replace(self.sandbox, **changes)),
            environment={"HOME": str(self.home), "PATH": path, "GIT_CONFIG_NOSYSTEM": "1"},
            merge_stderr=True,
        )

    def fails(self, script: str, **changes: Any) -> bool:
        """Return whether a command could be started and failed."""
        ended = self.run(f"if {{ {script}; }}; then echo worked; else echo refused; fi", **changes)
        assert ended.ending is SessionEnding.FINISHED, ended.detail
        return ended.text.endswith("refused\n")


@pytest.fixture
def confined(tmp_path: Path) -> Confined:
    return Confined(tmp_path)


# --- files -----------------------------------------------------------------------------


def test_the_project_can_be_changed_and_committed(confined: Confined) -> None:
    ended = confined.run(
        "echo new > file.txt && git add file.txt && git -c user.name=a -c user.email=a@a commit -qm work"
        " && mkdir sub && mv file.txt sub/ && pwd"
    )

    assert (ended.ending, ended.text) == (SessionEnding.FINISHED, f"{confined.root}\n")
    assert (confined.root / "sub/file.txt").read_text() == "new\n"
    assert confined.git("log", "--format=%s") == "work\n"


@pytest.mark.parametrize(
    "script",
    [
        "touch /etc/ralph-was-here",
        "touch /usr/local/bin/ralph-was-here",
        "echo evil >> {outside}/file",
        "touch .ralph/file",
        "echo evil > .ralph/ralph.db",
        "rm -rf .ralph/ralph.db",
        "mv .ralph elsewhere",
        "echo evil >> .ralph.toml",
        "echo evil >> ralph.yaml",
        "git config core.fsmonitor evil",
        "echo evil >> .git/config",
        "mv .git elsewhere",
        "mkdir -p .git/hooks && touch .git/hooks/post-commit",
        "mkdir -p .git/info && touch .git/info/attributes",
        "echo ../.evil > .git/commondir",
        "rm .git/commondir",
        "mv .git/commondir .git/elsewhere",
        "echo /evil > .git/objects/info/alternates",
        "mv .git/objects/info elsewhere",
        "mv .git/objects elsewhere",
        "echo evil > .git/config.worktree",
        "echo '{{}}' > ~/.claude/settings.json",
        "mount -o remount,rw /",
        "umount .ralph",
        "unshare --user --map-root-user --mount umount .ralph",
    ],
)
def test_nothing_else_can_be_changed(confined: Confined, script: str) -> None:
    config = (confined.root / ".git/config").read_text()

    assert confined.fails(script.format(outside=confined.outside))

    assert not list(confined.outside.iterdir())
    assert not Path("/etc/ralph-was-here").exists()
    assert (confined.root / ".git/config").read_text() == config
    with Project.open(confined.root) as project:
        assert project.memory.list() == []


def test_git_works_with_what_protects_it(confined: Confined) -> None:
    commit = "git -c user.name=a -c user.email=a@a commit -qm"
    ended = confined.run(
        f"set -e; echo 1 > a; git add -A; {commit} one; git checkout -qb side; echo 2 > a; {commit} two -a;"
        f" git checkout -q main; git merge -q side; git stash -q; git branch -D side; git gc -q; git fsck; git tag x"
    )

    assert ended.exit_code == 0, ended.text
    assert confined.git("log", "--format=%s", "main") == "two\none\n"
    assert confined.git("rev-parse", "--is-bare-repository", "--show-toplevel") == f"false\n{confined.root}\n"
    confined.git("worktree", "add", "-q", str(confined.outside / "w"))
    confined.git("clone", "-q", str(confined.root), str(confined.outside / "clone"))
    assert (confined.outside / "clone/a").read_text() == (confined.outside / "w/a").read_text() == "2\n"


def test_a_session_cannot_lead_worktrees_elsewhere(confined: Confined) -> None:
    confined.git("commit", "-q", "--allow-empty", "-m", "first")
    places = {name: confined.root / ".ralph/worktrees" / name for name in ("own", "other")}
    for place in places.values():
        confined.git("worktree", "add", "-q", str(place))
    linked = f"{confined.root}/.git/worktrees"
    rename = f"{sys.executable} -c 'import os, sys; os.rename(*sys.argv[1:])'"  # mv would copy and remove
    moves = [f"{rename} {linked} {linked}-elsewhere", f"{rename} {linked}/own {linked}/moved"]
    writes = [f"echo ../evil > {linked}/{name}/{file}" for name in places for file in ("commondir", "gitdir")]
    writes += [f"echo evil > {linked}/{name}/config.worktree" for name in places]

    assert all(confined.fails(script) for script in (*moves, *writes))

    confined.directory = places["own"]
    assert all(confined.fails(script) for script in (*moves, *writes, f"echo x > {linked}/other/HEAD"))
    assert not confined.fails("echo 1 > a && git add a && git -c user.name=a -c user.email=a@a commit -qm own")
    assert confined.git("log", "--format=%s", "own") == "own\nfirst\n"


def test_what_is_written_to_the_home_and_temporary_directories_is_gone_afterwards(confined: Confined) -> None:
    ended = confined.run("touch ~/.bashrc ~/.profile /tmp/left /var/tmp/left && mkdir ~/.ssh && ls /tmp")

    assert ended.exit_code == 0
    assert not (confined.home / ".bashrc").exists()
    assert not Path("/tmp/left").exists()
    assert [path.name for path in (confined.home / ".ssh").iterdir()] == ["id_ed25519"]


def test_secrets_of_the_home_directory_are_hidden_and_the_login_is_not(confined: Confined) -> None:
    found = confined.run(
        f"cat ~/.ssh/* ~/.aws/* ~/.config/gh/* ~/.netrc ~/.npmrc {confined.state}/serve/token;"
        f" grep -rl {TOKEN} ~ /tmp /run 2>/dev/null; echo searched; echo refreshed > ~/.claude/.credentials.json"
    )

    assert confined.fails(f"cat {confined.state}/serve/token", readable=("~/.local",))
    assert found.exit_code == 0
    assert TOKEN not in found.text
    assert found.text.endswith("searched\n")
    assert (confined.home / ".claude/.credentials.json").read_text() == "refreshed\n"
    assert confined.fails("cat ~/.claude/.credentials.json", agent="")  # gates need no login


@pytest.mark.parametrize("place", [".", "tools"])
def test_a_program_in_the_home_directory_does_not_show_it(confined: Confined, place: str) -> None:
    (confined.home / "lib").mkdir()  # as in the prefix of a toolchain
    program = confined.home / place / "agent.sh"
    confined.write(program, f"#!/bin/sh\necho started; cat {confined.home}/.ssh/*\n")
    program.chmod(0o755)

    ended = confined.run("", program=program)

    assert ended.text.startswith("started\n")
    assert TOKEN not in ended.text


def test_a_path_with_the_home_directory_does_not_show_it(confined: Confined) -> None:
    assert confined.fails("cat ~/.ssh/*", path=str(confined.home))
    assert confined.fails("cat ~/.ssh/*", path=str(confined.home.parent))


def test_more_paths_can_be_allowed(confined: Confined) -> None:
    data = confined.home / "data"
    confined.write(data / "in", "input")

    assert confined.fails("cat ~/data/in")
    assert not confined.fails("cat ~/data/in", readable=("~/data",))
    assert confined.fails("touch ~/data/out", readable=("~/data",))
    assert not confined.fails(f"touch ~/data/out {confined.outside}/x", writable=("~/data", str(confined.outside)))
    assert (data / "out").exists()


def test_a_review_cannot_change_the_project(confined: Confined) -> None:
    confined.write(confined.root / "file.txt", "as it was")

    assert confined.fails("echo changed > file.txt", is_read_only=True)
    assert confined.fails("git commit --allow-empty -qm x", is_read_only=True)
    assert not confined.fails("cat file.txt && git status && echo x > /tmp/x", is_read_only=True)


def test_a_project_that_contains_the_home_directory_is_refused(
    confined: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(confined.home))

    with pytest.raises(AgentUnavailableError) as refused:
        check_sandbox(Config(agent=AgentConfig(sandbox="bubblewrap")), confined.home)

    assert refused.value.code == "sandbox-unavailable"


def test_a_database_elsewhere_in_the_project_can_be_read_and_not_written(confined: Confined) -> None:
    for folder in (confined.root / "some/data", confined.home / ".cache/data"):
        database = folder / "ralph.db"
        confined.write(database, "data")
        writes = [f"echo evil > {path}" for path in (database, f"{database}-wal", f"{database}-journal")]
        rename = f"{sys.executable} -c 'import os, sys; os.rename(*sys.argv[1:])'"
        moves = [f"{rename} {path} {path}-elsewhere" for path in (database, folder, confined.root / "some")]
        config = Config(agent=AgentConfig(sandbox="bubblewrap"), store=StoreConfig(url=str(database)))
        confined.sandbox = sandbox_of(config, confined.root) or confined.sandbox

        for script in (*writes, *(moves if folder.parent.name == "some" else moves[:2])):
            assert confined.fails(script), script

        assert not confined.fails(f"cat {database} && touch some/file")
        assert database.read_text() == "data"


def test_a_database_that_cannot_be_protected_is_refused(confined: Confined) -> None:
    (confined.root / "link").symlink_to(confined.outside)

    for url in ("ralph.db", "link/ralph.db"):
        with pytest.raises(AgentUnavailableError) as refused:
            check_sandbox(Config(agent=AgentConfig(sandbox="bubblewrap"), store=StoreConfig(url=url)), confined.root)
        assert refused.value.code == "sandbox-unavailable"
    check_sandbox(
        Config(agent=AgentConfig(sandbox="bubblewrap"), store=StoreConfig(url="data/ralph.db")), confined.root
    )


# --- ralph inside of a session ---------------------------------------------------------------


def test_the_memory_can_be_read_and_not_written(confined: Confined) -> None:
    with Project.open(confined.root) as project:
        with project.synced():
            project.memory.add("Tabs are fine in the parser.")
        read = confined.run(f"{sys.executable} -m ralph memory search parser")
        added = confined.run(f"{sys.executable} -m ralph memory add 'Never use tabs.'")
        task = confined.run(f"{sys.executable} -m ralph task add 'Remove the tabs'")

        assert "Tabs are fine" in read.text
        assert added.exit_code == 1
        assert "MEMORY:" in added.text  # which says how it is told instead
        assert len(project.memory.list()) == 1
        assert task.exit_code == 1
        assert "sigils" in task.text


def test_the_trust_of_this_project_is_seen_and_that_of_others_is_not(
    confined: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(confined.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (confined.root / ".ralph.toml").write_text('[execution]\ngates = ["true"]\n')
    ralph = f"{sys.executable} -m ralph status"
    save_trust(confined.outside, {}, files=True)

    before = confined.run(ralph)
    save_trust(confined.root, {"execution.gates": ["true"]}, files=True)
    after = confined.run(ralph)

    assert "execution.gates" in before.text
    assert (after.exit_code, "execution.gates" in after.text) == (0, False)
    assert confined.fails(f"echo evil > {record_paths(confined.root)[0]}")
    assert confined.fails(f"cat {record_paths(confined.outside)[0]}")


# --- processes ---------------------------------------------------------------------------------


def test_no_process_survives_and_none_of_others_is_seen(confined: Confined) -> None:
    with subprocess.Popen(["sleep", "611"]) as other:
        ended = confined.run(
            "ps -eo args; kill -9 $(pgrep -x sleep);"
            " (setsid nohup sh -c 'trap \"\" TERM HUP; sleep 612; sleep 612' >/dev/null 2>&1 &); echo $$"
        )
        assert "sleep 611" not in ended.text
        assert other.poll() is None
        other.kill()

    assert ended.exit_code == 0
    assert not [process for process in psutil.process_iter() if "612" in _arguments(process)]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_limits_exit_codes_and_output_are_as_ever(confined: Confined) -> None:
    assert confined.run("echo out; exit 7").exit_code == 7
    late = confined.run("trap '' TERM; sleep 613 & sleep 613", limits=Limits(seconds=1.0))
    silent = confined.run("sleep 613", limits=Limits(seconds=LONG_ENOUGH, idle_seconds=1.0))
    flooded = confined.run("yes", limits=Limits(seconds=LONG_ENOUGH, output_bytes=100_000))

    endings = [ended.ending for ended in (late, silent, flooded)]
    assert endings == [SessionEnding.TIMED_OUT, SessionEnding.WENT_SILENT, SessionEnding.FLOODED]
    assert late.detail.startswith("sh ")
    assert not [process for process in psutil.process_iter() if "613" in _arguments(process)]


def test_an_agent_behind_an_absolute_link_in_the_home_directory_starts(confined: Confined) -> None:
    program = confined.home / ".local/share/agent/versions/2/agent"
    confined.write(program, "#!/bin/sh\necho Hello.\n")
    program.chmod(0o755)
    link = confined.home / ".local/bin/agent"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(program)

    ended = confined.run("", program=link, path=str(link.parent))

    assert (ended.text, ended.ending) == ("Hello.\n", SessionEnding.FINISHED)


def test_an_agent_that_talks_over_acp_is_confined(tmp_path: Path) -> None:
    pytest.importorskip("acp")
    from tests.agents import test_acp

    reply = test_acp.work(
        test_acp.light(test_acp.says("Hello.")),  # a clone in /tmp is hidden, so no file of the tests can be used
        tmp_path,
        limits=Limits(seconds=LONG_ENOUGH, sandbox=Sandbox(root=str(tmp_path))),
    )

    assert (reply.text, reply.ending) == ("Hello.", SessionEnding.FINISHED)


# --- network -----------------------------------------------------------------------------------


def test_without_network_not_even_this_machine_is_reached(confined: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = (
            f"{sys.executable} -c \"import socket; socket.create_connection(('127.0.0.1',"
            f' {server.getsockname()[1]}), 5)"'
        )

        assert not confined.fails(connect)
        assert confined.fails(connect, has_network=False)


# --- runs --------------------------------------------------------------------------------------

ATTACK = f"""
cat > /dev/null
(echo evil >> .git/config; echo evil > .ralph/ralph.db; touch "$OUTSIDE/file"; cat ~/.ssh/id) 2>/dev/null
echo "$RALPH_TASK_ID" > "$RALPH_TASK_ID.txt"
echo "MEMORY:pattern:Written in a sandbox."
{SAYS_DONE}
"""


@pytest.fixture
def trial(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Trial:
    one = Trial(project, capsys)
    monkeypatch.setenv("OUTSIDE", str(tmp_path))
    (one.root / "agent.sh").write_text(ATTACK)
    one.settings('[agent]\nsandbox = "bubblewrap"\nenvironment = ["OUTSIDE"]\n[execution]\ngates = ["ls t-*.txt"]')
    one.commit_all()
    return one


@pytest.mark.parametrize("options", [(), ("--parallel", "2")], ids=["serial", "parallel"])
def test_a_run_works_in_the_sandbox(trial: Trial, tmp_path: Path, options: tuple[str, ...]) -> None:
    tasks = [trial.project.tasks.add(f"Task {n}") for n in range(1 + bool(options))]
    config = (trial.root / ".git/config").read_text()

    done = trial.ralph("run", *options, "--", "sh", "agent.sh")

    assert done.code == 0, done.err
    assert [trial.status(task) for task in tasks] == [TaskStatus.DONE] * len(tasks)
    assert all((trial.root / f"{task.id}.txt").exists() for task in tasks)
    assert "Written in a sandbox." in {memory.content for memory in trial.memories()}
    assert (trial.root / ".git/config").read_text() == config
    assert not (tmp_path / "file").exists()


def test_a_gate_is_confined_too(trial: Trial, tmp_path: Path) -> None:
    trial.settings('[agent]\nsandbox = "bubblewrap"\n[execution]\ngates = ["touch $HOME/../gate-was-here /etc/gate"]')
    trial.project.tasks.add("Task")

    trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert not Path("/etc/gate").exists()


def test_a_run_refuses_to_start_without_its_sandbox(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "git", "touch"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    trial.project.tasks.add("Task")

    refused = trial.ralph("run", "--", "sh", "agent.sh")
    report = trial.ralph("doctor")

    assert refused.code != 0
    assert "bubblewrap" in refused.err
    assert trial.attempts() == []
    assert report.code == 1
    assert "apt install bubblewrap" in report.out


def test_doctor_says_that_it_works(trial: Trial) -> None:
    report = trial.ralph("doctor")

    assert "bubblewrap works" in report.out


def test_the_git_directory_is_looked_up_before_a_session_can_move_it(confined: Confined) -> None:
    root = os.path.realpath(confined.root)

    assert git_directory(root) == f"{root}/.git"
