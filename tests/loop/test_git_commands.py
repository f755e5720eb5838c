"""How often an attempt in the person's working tree starts git, which looks at every file to tell the status."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ralph.core import git as core_git
from ralph.loop.git import serial
from tests.loop.test_commits import PROGRAM, changes, plays, repo, subjects
from tests.loop.trial import SAYS_DONE, SAYS_FAILED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.loop.trial import Trial

__all__ = ["repo"]

COMMANDS = (
    *("status", "add", "update-index", "write-tree", "diff", "commit-tree", "update-ref", "reset", "rev-parse"),
    *("config", "version", "merge-tree", "check-ignore", "ls-files", "ls-tree", "cat-file", "read-tree"),
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the git commands that Ralph starts, while a status holds however slow the machine is."""
    counts: Counter[str] = Counter()
    run = core_git._run

    def counted(directory: Path, arguments: tuple[str, ...], *rest: object) -> core_git.GitResult:
        counts[next((word for word in arguments if word in COMMANDS), " ".join(arguments))] += 1
        return run(directory, arguments, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(core_git, "_run", counted)
    monkeypatch.setattr(serial, "MAX_STATUS_AGE_SECONDS", 3600.0)
    return counts


def count_per_attempt(trial: Trial, started: Counter[str], *options: str) -> Counter[str]:
    """Return the commands that one more task takes in a run."""
    counts = []
    for tasks in (1, 3):
        for number in range(tasks):
            trial.project.tasks.add(f"Write {tasks} {number}")
        started.clear()
        assert trial.ralph("run", *options, *PROGRAM).code == 0
        counts.append(started.copy())
    return Counter({name: (counts[1][name] - count) / 2 for name, count in counts[0].items()})


def test_an_attempt_that_changes_nothing_takes_one_status(repo: Trial, started: Counter[str]) -> None:
    plays(repo, SAYS_DONE)

    assert +count_per_attempt(repo, started) == {"status": 1}


def test_a_commit_takes_one_status_and_adds_only_the_changed_files(repo: Trial, started: Counter[str]) -> None:
    plays(repo, f'echo "$RALPH_TASK_ID" > x.txt\n{SAYS_DONE}')

    counts = +count_per_attempt(repo, started)

    once = ("status", "update-index", "write-tree", "diff", "commit-tree", "update-ref", "reset")
    assert counts == dict.fromkeys(once, 1)
    assert subjects(repo)[:4] == ["Write 3 2", "Write 3 1", "Write 3 0", "Write 1 0"]


def test_the_tree_is_looked_at_again_after_gates(repo: Trial, started: Counter[str]) -> None:
    plays(repo, f'echo "$RALPH_TASK_ID" > x.txt\n{SAYS_DONE}')

    counts = count_per_attempt(repo, started, "--gate", "echo $RALPH_TASK_ID >> readme.md")

    assert counts["status"] == 2
    assert counts["add"] == 0
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["readme.md", "x.txt"]


def test_a_commit_of_others_between_two_attempts_is_seen(repo: Trial, started: Counter[str]) -> None:
    for title in ("First", "Second"):
        repo.project.tasks.add(title)
    plays(repo, f'echo "$RALPH_TASK_ID" > x.txt\n{SAYS_DONE}')
    finish = serial.SerialWork.finish

    def finish_and_commit(work: serial.SerialWork, title: str, trailers: str) -> serial.RecordedWork:
        recorded = finish(work, title, trailers)
        repo.git("commit", "-q", "--allow-empty", "-m", f"after {title}")
        return recorded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serial.SerialWork, "finish", finish_and_commit)
        repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:4] == ["after Second", "Second", "after First", "First"]


def test_a_file_of_the_person_stays_out_of_the_commits_of_all_tasks(repo: Trial, started: Counter[str]) -> None:
    plays(repo, f'echo "$RALPH_TASK_ID" > x.txt\n{SAYS_DONE}')
    repo.settings('[execution]\ncommit = "always"')
    (repo.root / "notes.txt").write_text("mine\n")

    count_per_attempt(repo, started)

    assert changes(repo) == ["notes.txt"]
    assert repo.git("log", "--format=", "--name-only", "-4").split() == ["x.txt"] * 4


def test_work_that_stays_in_the_tree_is_told_from_what_a_person_changes_meanwhile(
    repo: Trial, started: Counter[str]
) -> None:
    repo.project.tasks.add("Hard one")
    plays(
        repo, f'[ "$RALPH_ATTEMPT" = 1 ] && echo half > x.txt && {SAYS_FAILED} && exit 0\necho x >> x.txt\n{SAYS_DONE}'
    )
    leave = serial.SerialWork.leave

    def leave_and_write(work: serial.SerialWork, title: str, trailers: str, *, resets: bool) -> serial.RecordedWork:
        recorded = leave(work, title, trailers, resets=resets)
        (repo.root / "notes.txt").write_text("mine\n")
        return recorded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serial.SerialWork, "leave", leave_and_write)
        repo.ralph("run", *PROGRAM)

    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["x.txt"]
    assert changes(repo) == ["notes.txt"]


def test_a_name_that_is_not_utf8_is_committed_and_recorded(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > \"$(printf 'latin\\351.txt')\"\n{SAYS_DONE}")

    assert repo.ralph("run", *PROGRAM).code == 0

    assert repo.git("show", "--format=", "--name-only", "HEAD").strip() == r'"latin\351.txt"'
    assert repo.attempts()[-1].files == ("latin\ufffd.txt",)
