"""A serial run commits each task that is done, and saves what is not, in a real repository with a scripted program."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ralph.core.records import AttemptOutcome, TaskStatus
from tests.loop.trial import SAYS_DONE, SAYS_FAILED, Trial

PROGRAM = ("--", "sh", "agent.sh")


@pytest.fixture
def repo(trial: Trial) -> Trial:
    """Give a project in a repository without changes."""
    (trial.root / "readme.md").write_text("start\n")
    (trial.root / "agent.sh").write_text("")
    trial.git("init", "-q", "-b", "main")
    trial.git("config", "user.name", "Ada")
    trial.git("config", "user.email", "ada@example.com")
    trial.git("add", "readme.md", "agent.sh")
    trial.git("commit", "-qm", "start")
    return trial


def plays(trial: Trial, text: str) -> None:
    """Let the agent do this; the program itself is committed."""
    trial.script(text)
    trial.git("add", "agent.sh")
    trial.git("commit", "-qm", "the agent")


def subjects(trial: Trial) -> list[str]:
    """Give the subjects of the commits, newest first."""
    return trial.git("log", "--format=%s").splitlines()


def changes(trial: Trial) -> list[str]:
    """Give the paths with uncommitted changes, without Ralph's own."""
    lines = trial.git("status", "--short", "--untracked-files=all").splitlines()
    return [line[3:] for line in lines if not line[3:].startswith((".ralph", ".agent"))]


def test_each_done_task_is_a_commit_of_its_own(repo: Trial) -> None:
    first = repo.project.tasks.add("Write the first file")
    second = repo.project.tasks.add("Write the second file")
    plays(repo, f'echo new > "$RALPH_TASK_ID.txt"\n{SAYS_DONE}')

    assert repo.ralph("run", *PROGRAM).code == 0

    assert subjects(repo)[:2] == ["Write the second file", "Write the first file"]
    trailers = repo.git("log", "-1", "--format=%(trailers)", "HEAD").strip().splitlines()
    attempt = repo.attempts()[-1]
    assert trailers == [f"Ralph-Task: {second.id}", f"Ralph-Run: {attempt.run_id}", "Ralph-Attempt: 1"]
    assert repo.git("show", "--format=%an", "--name-only", "HEAD").split() == ["Ada", f"{second.id}.txt"]
    assert repo.git("show", "--format=", "--name-only", "HEAD~1").split() == [f"{first.id}.txt"]
    assert attempt.commits == (repo.git("rev-parse", "HEAD").strip(),)
    assert attempt.start_commit == repo.git("rev-parse", "HEAD~1").strip()
    assert changes(repo) == []


def test_a_long_title_with_a_key_becomes_a_short_subject_without_it(repo: Trial) -> None:
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    repo.project.tasks.add(f"Stop sending token {key} " + "and use the vault instead " * 5)
    plays(repo, f"echo x > x.txt\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert len(subjects(repo)[0]) <= 72
    assert key not in repo.git("log", "-1", "--format=%B")


def test_what_the_agent_committed_is_not_committed_again(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; git add x.txt; git commit -qm 'Add x by myself'\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:2] == ["Add x by myself", "the agent"]
    assert repo.attempts()[-1].commits == (repo.git("rev-parse", "HEAD").strip(),)


def test_the_rest_is_committed_on_top_of_the_agents_own_commits(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; git add x.txt; git commit -qm 'Add x'; echo y > y.txt\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:2] == ["Write", "Add x"]
    assert len(repo.attempts()[-1].commits) == 2


def test_commits_of_an_agent_on_another_branch_end_up_on_the_persons(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"git switch -qc fix; echo x > x.txt; git add x.txt; git commit -qm 'Add x'\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert repo.git("branch", "--show-current").strip() == "main"
    assert subjects(repo)[0] == "Add x"


def test_commits_that_an_agent_amended_are_put_back(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; git add x.txt; git commit -q --amend -m 'Mine now'\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:2] == ["Write", "the agent"]
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["x.txt"]
    assert "Mine now" in repo.git("log", "--format=%s", "--glob=refs/ralph/rewritten")


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_changes_of_the_person_are_not_committed(repo: Trial, mode: str) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt\n{SAYS_DONE}")
    (repo.root / "readme.md").write_text("mine\n")
    (repo.root / "notes.txt").write_text("mine\n")
    repo.git("add", "notes.txt")
    repo.settings(f'[execution]\ncommit = "{mode}"')

    ran = repo.ralph("run", *PROGRAM)

    assert ("Work is not committed: you have uncommitted changes" in ran.out) == (mode == "auto")
    assert subjects(repo)[0] == ("Write" if mode == "always" else "the agent")
    assert "readme.md" in changes(repo)
    assert repo.git("status", "--short", "notes.txt") == "A  notes.txt\n"
    if mode == "always":
        assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["x.txt"]


def test_new_files_of_the_person_keep_no_run_from_committing(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; echo more >> SPEC.md\n{SAYS_DONE}")
    (repo.root / "SPEC.md").write_text("mine\n")
    (repo.root / "drafts").mkdir()
    (repo.root / "drafts/a.py").write_text("mine\n")

    ran = repo.ralph("run", *PROGRAM)

    assert "Work is not committed" not in ran.out
    assert repo.git("show", "--format=%s", "--name-only", "HEAD").split() == ["Write", "x.txt"]
    assert changes(repo) == ["SPEC.md", "drafts/a.py"]
    assert "SPEC.md had changes of others" in ran.out


def test_before_the_first_commit_nothing_is_committed(trial: Trial) -> None:
    trial.project.tasks.add("Write")
    trial.script(f"echo x > x.txt\n{SAYS_DONE}")
    trial.git("init", "-q")

    assert "Work is not committed" in trial.ralph("run", *PROGRAM).out

    assert trial.git("rev-list", "--all").split() == []


def test_never_and_other_reasons_are_said_in_a_sentence(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x >> x.txt\n{SAYS_DONE}")
    head = repo.git("rev-parse", "HEAD").strip()

    def said(*task: str) -> str:
        repo.project.tasks.add(f"Write {task}")
        ran = repo.ralph("run", *PROGRAM)
        assert ran.code == 0
        assert repo.git("rev-parse", "HEAD").strip() == head
        repo.git("checkout", "-q", "-f", "main")
        (repo.root / "x.txt").unlink()
        return next(line for line in ran.out.splitlines()[:4] if "Work is not committed" in line)

    repo.git("checkout", "-q", "--detach")
    assert "no branch is checked out" in said()
    (repo.root / ".git/MERGE_HEAD").write_text(f"{head}\n")
    assert "a merge is in progress" in said()
    (repo.root / ".git/MERGE_HEAD").unlink(missing_ok=True)
    repo.settings('[execution]\ncommit = "never"')
    assert "never" in said()


def test_without_a_repository_the_run_says_so_and_works(trial: Trial) -> None:
    task = trial.project.tasks.add("Write")
    trial.script(f"echo x > x.txt\n{SAYS_DONE}")

    ran = trial.ralph("run", *PROGRAM)

    assert "not a git repository" in ran.out
    assert trial.project.tasks.get(task.id).task.status is TaskStatus.DONE


def test_without_an_identity_ralph_commits_and_says_so(repo: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    plays(repo, f"echo x > x.txt\n{SAYS_DONE}")
    repo.git("config", "--unset", "user.name")
    repo.git("config", "--unset", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repo.project.tasks.add("Write")

    ran = repo.ralph("run", *PROGRAM)

    assert "git config user.email" in ran.out
    assert repo.git("log", "-1", "--format=%an <%ae>").strip() == "Ralph <ralph@localhost>"


def test_a_repository_without_a_commit_gets_its_first_one(trial: Trial) -> None:
    trial.git("init", "-q", "-b", "main")
    (trial.root / ".gitignore").write_text("agent.sh\n.gitignore\n")
    trial.project.tasks.add("Write")
    trial.script(f"echo x > x.txt\n{SAYS_DONE}")

    trial.ralph("run", *PROGRAM)

    assert trial.git("show", "--format=%s", "--name-only", "HEAD").split() == ["Write", "x.txt"]


def test_ralphs_data_ignored_files_and_secrets_are_not_committed(repo: Trial) -> None:
    (repo.root / ".gitignore").write_text("*.log\n")
    repo.git("add", ".gitignore")
    repo.git("commit", "-qm", "ignore")
    repo.project.tasks.add("Write")
    plays(
        repo,
        f"echo x > x.txt; echo a > a.log; echo KEY=1 > .env; mkdir -p .agent; echo m >> .agent/memories.md\n"
        f"git add -A -f .\n{SAYS_DONE}",
    )

    repo.ralph("run", *PROGRAM)

    committed = repo.git("show", "--format=", "--name-only", "HEAD").split()
    assert ".env" not in committed
    assert not [path for path in committed if path.startswith((".ralph/", ".agent/"))]
    assert "x.txt" in committed


def test_a_new_file_with_the_name_of_a_secret_stays_out(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; echo KEY=1 > .env; echo KEY= > .env.example\n{SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == [".env.example", "x.txt"]
    assert ".env may hold secrets" in ran.out
    assert (repo.root / ".env").exists()


def test_what_gates_leave_behind_is_not_committed(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt\n{SAYS_DONE}")

    repo.ralph("run", "--gate", "echo report > report.xml; test -f x.txt", *PROGRAM)

    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["x.txt"]
    assert changes(repo) == ["report.xml"]


FAILS_FIRST = f"""
if [ "$RALPH_TASK_TITLE" ]; then :; fi
case "$(cat .ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT)" in
*"Hard one"*) [ "$RALPH_ATTEMPT" = 1 ] && echo half >> hard.txt && {SAYS_FAILED} && exit 0; echo rest >> hard.txt;;
*) echo other > other.txt;;
esac
{SAYS_DONE}
"""


def test_failed_work_stays_for_the_next_attempt_and_its_commit_has_all_of_it(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    plays(repo, FAILS_FIRST)

    repo.ralph("run", *PROGRAM)

    assert repo.outcomes() == [AttemptOutcome.FAILED, AttemptOutcome.DONE]
    assert (repo.root / "hard.txt").read_text() == "half\nrest\n"
    failed, done = repo.attempts()
    assert repo.git("show", f"{failed.checkpoint}:hard.txt") == "half\n"
    assert repo.git("rev-parse", f"refs/ralph/attempts/{failed.run_id}/{failed.iteration}").strip() == failed.checkpoint
    assert done.start_commit == failed.checkpoint
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["hard.txt"]
    assert task.id in repo.git("log", "-1", "--format=%B")


def test_failed_work_is_not_in_the_commit_of_another_task_and_comes_back(repo: Trial) -> None:
    hard = repo.project.tasks.add("Hard one", priority=5)
    plays(repo, FAILS_FIRST)
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    assert changes(repo) == ["hard.txt"]
    repo.project.tasks.add("Another", priority=9)

    ran = repo.ralph("run", *PROGRAM)

    assert "Work is not committed" not in ran.out
    assert subjects(repo)[:2] == ["Hard one", "Another"]
    assert repo.git("show", "--format=", "--name-only", "HEAD~1").split() == ["other.txt"]
    assert repo.git("show", "HEAD:hard.txt") == "half\nrest\n"
    assert changes(repo) == []
    assert repo.attempts()[-1].task_id == hard.id


def test_a_reset_returns_to_the_start_and_loses_nothing(repo: Trial) -> None:
    task = repo.project.tasks.add("Break it")
    plays(repo, f"echo broken > readme.md; echo more > more.txt; git add -A; {SAYS_FAILED}")
    repo.settings('[execution]\non_failure = "reset"\nmax_retries = 0')

    repo.ralph("run", *PROGRAM)

    assert changes(repo) == []
    assert (repo.root / "readme.md").read_text() == "start\n"
    attempt = repo.attempts()[-1]
    assert repo.git("show", f"{attempt.checkpoint}:readme.md") == "broken\n"
    assert repo.git("show", f"{attempt.checkpoint}:more.txt") == "more\n"
    assert attempt.checkpoint[:12] in repo.ralph("task", "show", task.id).out


def test_a_reset_leaves_the_persons_changes_alone_where_nothing_is_committed(repo: Trial) -> None:
    repo.project.tasks.add("Break it")
    plays(repo, f"echo broken > readme.md; echo more > more.txt; {SAYS_FAILED}")
    (repo.root / "notes.txt").write_text("mine\n")
    repo.settings('[execution]\non_failure = "reset"\nmax_retries = 0')

    repo.ralph("run", *PROGRAM)

    assert changes(repo) == ["notes.txt"]
    assert (repo.root / "notes.txt").read_text() == "mine\n"


def test_commits_of_a_failed_attempt_do_not_stay_on_the_branch_of_others(repo: Trial) -> None:
    repo.project.tasks.add("Hard one", priority=5)
    plays(
        repo,
        FAILS_FIRST.replace("&& {SAYS_FAILED}", "").replace(
            "echo half >> hard.txt", "echo half >> hard.txt && git add hard.txt && git commit -qm half"
        ),
    )
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    assert subjects(repo)[0] == "half"
    repo.project.tasks.add("Another", priority=9)

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:3] == ["Hard one", "Another", "the agent"]
    assert repo.git("show", "HEAD:hard.txt") == "half\nrest\n"


def test_the_work_of_a_killed_run_is_a_checkpoint_and_the_next_run_commits(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    plays(
        repo,
        f"""
if [ "$RALPH_ATTEMPT" = 1 ]; then echo half > hard.txt; touch .ralph/started; sleep 60; fi
echo rest >> hard.txt
{SAYS_DONE}""",
    )
    started = repo.start("run", *PROGRAM)
    repo.soon(".ralph/started")
    started.send_signal(signal.SIGKILL)
    started.wait()

    ran = repo.ralph("run", *PROGRAM)

    assert "Work is not committed" not in ran.out
    killed, done = repo.attempts()
    assert killed.outcome is AttemptOutcome.INTERRUPTED
    assert repo.git("show", f"{killed.checkpoint}:hard.txt") == "half\n"
    assert repo.git("show", "HEAD:hard.txt") == "half\nrest\n"
    assert done.commits == (repo.git("rev-parse", "HEAD").strip(),)
    assert repo.project.tasks.get(task.id).task.status is TaskStatus.DONE


def test_what_was_there_before_a_killed_attempt_is_not_its_unfinished_work(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    repo.settings('[execution]\ncommit = "always"')
    (repo.root / "notes.txt").write_text("mine\n")
    (repo.root / ".ralph.toml").open("a").write("# changed\n")
    began = 'if [ "$RALPH_ATTEMPT" = 1 ]; then echo half > hard.txt; touch .ralph/started; sleep 60; fi'
    repo.script(f"{began}\n{SAYS_DONE}")
    started = repo.start("run", *PROGRAM)
    repo.soon(".ralph/started")
    started.send_signal(signal.SIGKILL)
    started.wait()

    preview = repo.ralph("prompt", task.id).out
    repo.ralph("run", *PROGRAM)

    for prompt in (preview, repo.kept_prompt(task, 2)):
        listed = prompt.partition("### Unfinished Work")[2].partition("###")[0]
        assert [line for line in listed.splitlines() if line.startswith("- ")] == ["- ? hard.txt"]


def test_unfinished_work_that_a_person_committed_is_not_said_to_be_in_the_tree(repo: Trial) -> None:
    task = repo.project.tasks.add("Half of it")
    plays(repo, f"echo half > half.txt\n{SAYS_FAILED}")
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    repo.project.tasks.block(task.id, "not now")
    repo.git("add", "half.txt")
    repo.git("commit", "-qm", "Keep the half")
    repo.project.tasks.add("Something else")
    plays(repo, f"echo new > new.txt\n{SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert task.id not in ran.out.split("Stopped:")[0]
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["new.txt"]


def test_what_a_person_changes_between_two_attempts_is_not_committed(repo: Trial) -> None:
    repo.project.tasks.add("Hard one")
    plays(repo, FAILS_FIRST)
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    (repo.root / "notes.txt").write_text("mine\n")
    repo.settings('[execution]\ncommit = "always"')

    repo.ralph("run", *PROGRAM)

    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["hard.txt"]
    assert changes(repo) == ["notes.txt"]


def test_hooks_of_the_repository_are_not_run(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt\n{SAYS_DONE}")
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        hook = repo.root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {repo.root}/.git/ran-{name}\nexit 1\n")
        hook.chmod(0o755)

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[0] == "Write"
    assert not list((repo.root / ".git").glob("ran-*"))


def test_a_submodule_does_not_stop_the_commit(repo: Trial, tmp_path: Path) -> None:
    inner = tmp_path / "inner-repository"
    inner.mkdir()
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "inner")):
        repo.git("-C", str(inner), *words)
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    repo.git("commit", "-qm", "submodule")
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; echo y > inner/y.txt\n{SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["x.txt"]
    assert (repo.root / "inner/y.txt").exists()


def test_the_diff_of_an_attempt_is_shown_everywhere(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    plays(repo, FAILS_FIRST)
    repo.ralph("run", *PROGRAM)

    whole = repo.ralph("task", "diff", task.id).out
    first = repo.ralph("task", "diff", task.id, "--attempt", "1").out
    second = repo.ralph("task", "diff", task.id, "--attempt", "2").out

    assert [line for line in whole.splitlines() if line.startswith("+")][1:] == ["+half", "+rest"]
    assert [line for line in first.splitlines() if line.startswith("+")][1:] == ["+half"]
    assert [line for line in second.splitlines() if line.startswith("+")][1:] == ["+rest"]
    failed, done = repo.attempts()
    shown = repo.ralph("task", "show", task.id).out
    assert failed.checkpoint[:12] in shown
    assert done.commits[0][:12] in shown
    assert repo.ralph("task", "diff", task.id, "--attempt", "9").error == "attempt-not-found"
    found = repo.ralph("task", "diff", task.id, "--format", "json").json
    assert (found["after"], found["is_cut"]) == (done.commits[0], False)


def added_lines(diff: str) -> list[str]:
    """Give the lines that a diff adds."""
    return [line[1:] for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]


def test_the_diff_of_an_unfinished_task_is_that_of_all_attempts(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    plays(repo, f'echo "$RALPH_ATTEMPT" >> hard.txt; {SAYS_FAILED}')
    repo.ralph("run", "--max-iterations", "3", *PROGRAM)

    assert added_lines(repo.ralph("task", "diff", task.id).out) == ["1", "2", "3"]
    assert added_lines(repo.ralph("task", "diff", task.id, "--attempt", "3").out) == ["3"]


def test_the_diff_of_an_unfinished_task_has_no_work_of_others(repo: Trial) -> None:
    hard = repo.project.tasks.add("Hard one", priority=5)
    plays(repo, FAILS_FIRST.replace(SAYS_DONE, f"grep -q Hard .ralph/prompt.* && [ -e hard.txt ] || {SAYS_DONE}"))
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    repo.project.tasks.add("Another", priority=9)
    repo.ralph("run", "--max-iterations", "2", *PROGRAM)

    assert subjects(repo)[0] == "Another"
    assert added_lines(repo.ralph("task", "diff", hard.id).out) == ["half", "rest"]


def test_a_diff_is_bounded_and_without_secrets(repo: Trial) -> None:
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    task = repo.project.tasks.add("Write")
    plays(repo, f"echo 'token = {key}' > a.txt; seq 100000 > numbers.txt\n{SAYS_DONE}")
    repo.ralph("run", *PROGRAM)

    shown = repo.ralph("task", "diff", task.id).out

    assert key not in shown
    assert len(shown) < 210_000
    assert "The diff is longer" in shown


def test_a_task_without_recorded_changes_says_so(trial: Trial) -> None:
    task = trial.project.tasks.add("Write")
    assert trial.ralph("task", "diff", task.id).error == "no-attempts"
    trial.script(f"echo x > x.txt\n{SAYS_DONE}")
    trial.ralph("run", *PROGRAM)

    ran = trial.ralph("task", "diff", task.id)

    assert (ran.code, "No changes are recorded" in ran.out) == (0, True)


def test_a_parallel_run_records_the_same(repo: Trial) -> None:
    task = repo.project.tasks.add("Hard one")
    plays(repo, FAILS_FIRST.replace(".ralph/prompt", f"{repo.root}/.ralph/prompt"))
    script = (repo.root / "agent.sh").read_text()
    (repo.root / "agent.sh").write_text(
        script.replace('"prompt', f'"{repo.root}/prompt').replace('> ".ralph', f'> "{repo.root}/.ralph')
    )
    repo.git("commit", "-qam", "where prompts are")

    ran = repo.ralph("run", "--parallel", "2", *PROGRAM)

    failed, done = repo.attempts()
    assert ran.code == 0
    assert done.commits == (repo.git("rev-parse", "HEAD").strip(),)
    trailers = repo.git("log", "-1", "--format=%(trailers)", "HEAD").strip().splitlines()
    assert trailers == [f"Ralph-Task: {task.id}", f"Ralph-Run: {done.run_id}", "Ralph-Attempt: 2"]
    assert "+half" in repo.ralph("task", "diff", task.id, "--attempt", "1").out
    assert failed.checkpoint == repo.git("rev-parse", f"refs/ralph/attempts/{failed.run_id}/1").strip()


@pytest.mark.parametrize("mode", ["keep", "reset"])
def test_approved_work_is_verified_and_committed_after_another_task(repo: Trial, mode: str) -> None:
    (repo.root / "Makefile").write_text("test:\n\ttest -f readme.md\n")
    repo.git("add", "Makefile")
    held = repo.project.tasks.add("Write", priority=5)
    repo.project.tasks.add("Another")
    plays(
        repo,
        f"""
case "$(cat .ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT)" in
*"Another"*) echo other > other.txt;;
*) echo x > x.txt; echo "\ttrue" >> Makefile;;
esac
{SAYS_DONE}""",
    )
    repo.settings(f'[execution]\ngates = ["make test"]\non_failure = "{mode}"')
    repo.ralph("run", *PROGRAM)
    assert repo.project.tasks.get(held.id).task.status is TaskStatus.BLOCKED
    assert subjects(repo)[0] == "Another"
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["other.txt"]

    repo.ralph("task", "approve", held.id, "--yes")
    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[:2] == ["Write", "Another"]
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["Makefile", "x.txt"]
    assert changes(repo) == []


def test_what_setup_writes_does_not_keep_a_run_from_committing(repo: Trial) -> None:
    repo.project.tasks.add("Write a file")
    plays(repo, f"echo new > new.txt\n{SAYS_DONE}")
    assert repo.ralph("setup", "claude", "--yes").code == 0

    assert repo.ralph("run", *PROGRAM).code == 0

    assert subjects(repo)[0] == "Write a file"
    assert repo.git("show", "--format=", "--name-only", "HEAD").split() == ["new.txt"]
