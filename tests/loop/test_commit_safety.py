"""What a person had in the tree is neither lost nor committed, whatever a session does to it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ralph.loop.git import working_tree
from tests.loop.test_commits import PROGRAM, changes, plays, repo, subjects
from tests.loop.trial import SAYS_DONE, SAYS_FAILED, Trial

__all__ = ["repo"]

RESETS = '[execution]\non_failure = "reset"\nmax_retries = 0'
ALWAYS = '[execution]\ncommit = "always"'


def nested_repository(directory: Path) -> None:
    """Make a repository with a commit and a change that is not committed."""
    directory.mkdir()
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "theirs")):
        subprocess.run(["git", *name, *words], cwd=directory, check=True)
    (directory / "work.txt").write_text("mine\n")


def committed(trial: Trial) -> list[str]:
    """Give the files of the last commit."""
    return trial.git("-c", "core.quotePath=false", "show", "--format=", "--name-only", "HEAD").splitlines()


@pytest.mark.parametrize("adds", ["git add -A", "git add -A; git commit -qm all", "true"])
def test_a_reset_does_not_delete_a_nested_repository_of_the_person(repo: Trial, adds: str) -> None:
    repo.project.tasks.add("Break it")
    plays(repo, f"echo x > x.txt; {adds}; {SAYS_FAILED}")
    nested_repository(repo.root / "vendor-lib")
    repo.settings(RESETS + '\ncommit = "always"')

    repo.ralph("run", *PROGRAM)

    assert (repo.root / "vendor-lib/work.txt").read_text() == "mine\n"
    assert (repo.root / "vendor-lib/.git/HEAD").exists()
    assert not (repo.root / "x.txt").exists()


@pytest.mark.parametrize("adds", ["git add -A", "true"])
def test_a_nested_repository_of_a_session_is_neither_committed_nor_deleted(repo: Trial, adds: str) -> None:
    repo.project.tasks.add("Write")
    make = "git init -q lib; git -C lib -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x; echo w > lib/w"
    plays(repo, f"{make}; echo x > x.txt; {adds}; {SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert committed(repo) == ["x.txt"]
    assert (repo.root / "lib/w").exists()


@pytest.mark.parametrize("says", [SAYS_DONE, SAYS_FAILED])
@pytest.mark.parametrize("is_new", [False, True])
def test_nothing_is_committed_to_the_repository_around_one_that_a_session_deletes(
    repo: Trial, says: str, is_new: bool
) -> None:
    around = repo.root.parent
    subprocess.run(["git", "init", "-q", "-b", "home", str(around)], check=True)
    who = ["git", "-C", str(around), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (around / "dotfile").write_text("x\n")
    subprocess.run([*who, "add", "dotfile"], check=True)
    subprocess.run([*who, "commit", "-qm", "home"], check=True)
    (around / "private").write_text("x\n")
    first, second = repo.project.tasks.add("Write"), repo.project.tasks.add("Write more")
    plays(repo, f"rm -rf .git; echo x > $RALPH_TASK_ID.txt; {says}")
    if is_new:
        repo.git("update-ref", "-d", "HEAD")
        repo.settings(ALWAYS)

    repo.ralph("run", *PROGRAM)

    refs = subprocess.run([*who, "for-each-ref"], check=True, capture_output=True, text=True).stdout
    assert refs.split()[1:] == ["commit", "refs/heads/home"]
    log = subprocess.run([*who, "log", "--format=%s"], check=True, capture_output=True, text=True).stdout
    assert log.split() == ["home"]
    branch = subprocess.run([*who, "branch", "--show-current"], check=True, capture_output=True, text=True).stdout
    assert branch.strip() == "home"
    assert (repo.root / f"{first.id}.txt").exists()
    assert (repo.root / f"{second.id}.txt").exists()


def test_commits_of_the_person_on_another_branch_stay_there(repo: Trial) -> None:
    plays(repo, f"git switch -q feature; echo x > x.txt; {SAYS_DONE}")
    repo.git("switch", "-qc", "feature")
    repo.git("commit", "-q", "--allow-empty", "-m", "not for main yet")
    repo.git("switch", "-q", "main")
    repo.project.tasks.add("Write")

    repo.ralph("run", *PROGRAM)

    assert "not for main yet" not in repo.git("log", "--format=%s", "main")
    assert repo.git("log", "-1", "--format=%s", "feature").strip() == "not for main yet"
    assert (repo.root / "x.txt").exists()


@pytest.mark.parametrize("adds", ["true", "git add -A", "git add -A; git commit -qm all"])
def test_ignored_files_stay_where_they_are_if_a_session_no_longer_ignores_them(repo: Trial, adds: str) -> None:
    (repo.root / ".gitignore").write_text("local.db\ndata/\n")
    repo.git("add", ".gitignore")
    (repo.root / "local.db").write_text("mine\n")
    (repo.root / "data").mkdir()
    (repo.root / "data/rows.csv").write_text("mine\n")
    repo.project.tasks.add("Break it")
    plays(repo, f"rm .gitignore; echo x > x.txt; {adds}; {SAYS_FAILED}")
    repo.settings(RESETS)

    repo.ralph("run", *PROGRAM)

    assert (repo.root / "local.db").read_text() == "mine\n"
    assert (repo.root / "data/rows.csv").read_text() == "mine\n"
    assert not (repo.root / "x.txt").exists()


def test_files_that_were_ignored_are_not_committed_if_a_session_no_longer_ignores_them(repo: Trial) -> None:
    (repo.root / ".gitignore").write_text("local.db\ndata/\n")
    repo.git("add", ".gitignore")
    (repo.root / "local.db").write_text("mine\n")
    (repo.root / "data").mkdir()
    (repo.root / "data/rows.csv").write_text("mine\n")
    repo.project.tasks.add("Write")
    plays(repo, f"echo > .gitignore; echo x > x.txt; echo n > data/new.csv; {SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert committed(repo) == [".gitignore", "data/new.csv", "x.txt"]
    assert "local.db" in ran.out


@pytest.mark.parametrize("theirs", ["clash", "clash/deep.txt", "ignored"])
def test_putting_work_back_overwrites_nothing_of_the_person(repo: Trial, theirs: str) -> None:
    name = "clash" if theirs != "clash" else "clash/file.txt"
    if theirs == "ignored":
        theirs = name = "local.cfg"
    half = f"mkdir -p $(dirname {name}); echo theirs > {name}; {SAYS_FAILED}; exit 0"
    plays(
        repo,
        f"""
case "$(cat .ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT)" in
*"Hard one"*) [ "$RALPH_ATTEMPT" = 1 ] && {{ {half}; }}; echo rest > rest.txt;;
*) echo local.cfg > .gitignore;;
esac
{SAYS_DONE}""",
    )
    repo.project.tasks.add("Hard one", priority=5)
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    repo.project.tasks.add("Another", priority=9)
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    assert not (repo.root / name).exists()
    if theirs == "clash":
        (repo.root / theirs).rmdir()
    (repo.root / theirs).parent.mkdir(exist_ok=True)
    (repo.root / theirs).write_text("mine\n")
    repo.settings(ALWAYS)

    repo.ralph("run", *PROGRAM)

    assert (repo.root / theirs).read_text() == "mine\n"
    assert (repo.root / "rest.txt").exists()


def test_a_name_that_is_not_utf8_is_told_apart(repo: Trial) -> None:
    Path(os.fsdecode(os.fsencode(repo.root) + b"/mine-\xff.txt")).write_text("mine\n")
    task = repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; printf s > \"$(printf '\\376.env')\"; echo y > \"$(printf 'y-\\376')\"; {SAYS_DONE}")
    repo.settings(ALWAYS)

    assert repo.ralph("run", *PROGRAM).code == 0

    assert repo.git("show", "--format=", "--name-only", "HEAD").splitlines() == ["x.txt", '"y-\\376"']
    assert repo.ralph("report").code == repo.ralph("task", "diff", task.id).code == 0


def test_a_secret_that_a_session_intends_to_add_is_not_committed(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"echo k > .env; echo x > x.txt; git add -N .env x.txt; {SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert committed(repo) == ["x.txt"]


def test_what_a_killed_attempt_must_not_save_stays_in_the_tree(repo: Trial) -> None:
    repo.project.tasks.add("Hard one", priority=5)
    plays(
        repo,
        f"""
case "$(cat .ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT)" in
*"Hard one"*) echo half > hard.txt; touch .ralph/started; sleep 60;;
esac
echo other > other.txt
{SAYS_DONE}""",
    )
    started = repo.start("run", *PROGRAM)
    repo.soon(".ralph/started")
    started.send_signal(signal.SIGKILL)
    started.wait()
    nested_repository(repo.root / "lib")
    (repo.root / ".env").write_text("KEY=mine\n")
    repo.project.tasks.add("Another", priority=9)

    repo.ralph("run", "--max-iterations", "1", *PROGRAM)

    assert committed(repo) == ["other.txt"]
    assert not (repo.root / "hard.txt").exists()
    assert (repo.root / "lib/work.txt").read_text() == "mine\n"
    assert (repo.root / ".env").read_text() == "KEY=mine\n"
    checkpoint = repo.attempts()[0].checkpoint
    assert repo.git("ls-tree", "--name-only", checkpoint).split() == ["agent.sh", "hard.txt", "readme.md"]


def test_a_commit_left_behind_on_the_branch_is_saved(repo: Trial) -> None:
    repo.project.tasks.add("Break it")
    plays(
        repo,
        f"echo x > x.txt; git add x.txt; git commit -qm 'on main'; git switch -qc aside HEAD~1; echo y > y.txt"
        f"\n{SAYS_FAILED}",
    )
    repo.settings(RESETS)

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[0] == "the agent"
    assert changes(repo) == []
    assert "on main" in repo.git("log", "--format=%s", "--glob=refs/ralph")


def test_a_name_with_escape_codes_reaches_no_terminal(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"""n=$(printf 'a\\033]0;evil\\007\\nb'); echo k > "$n.env"; echo x > "$n.txt"; {SAYS_DONE}""")

    outs = [repo.ralph("run", *PROGRAM), repo.ralph("run", "another", *PROGRAM)]
    outs += [repo.ralph(*words) for words in (("report",), ("status",), ("journal", "list"))]

    assert "may hold secrets" in outs[0].out
    assert outs[1].code == 0
    assert not any("\033" in out.out + out.err or "\007" in out.out + out.err for out in outs)


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_work_whose_checkpoint_was_deleted_stays_in_the_tree(repo: Trial, mode: str) -> None:
    repo.project.tasks.add("Hard one")
    plays(repo, f"echo half >> hard.txt; {SAYS_FAILED}")
    repo.ralph("run", "--max-iterations", "1", *PROGRAM)
    repo.git("update-ref", "-d", repo.git("for-each-ref", "--format=%(refname)", "refs/ralph/attempts").strip())
    repo.git("prune", "--expire=now")
    repo.settings(f'[execution]\ncommit = "{mode}"')
    repo.project.tasks.add("Another", priority=9)
    plays(repo, f"echo x > x.txt; {SAYS_DONE}")

    assert repo.ralph("run", *PROGRAM).code == 0

    assert (repo.root / "hard.txt").read_text() == "half\n"
    assert "hard.txt" in changes(repo)


@pytest.mark.parametrize("adds", ["git add -A", "true"])
def test_a_linked_worktree_of_a_session_is_not_committed(repo: Trial, adds: str) -> None:
    repo.project.tasks.add("Write")
    make = "git worktree add -q -b helper trees/helper; echo w > trees/helper/w"
    plays(repo, f"{make}; echo x > x.txt; {adds}; {SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert committed(repo) == ["x.txt"]
    assert "trees/helper" in ran.out
    assert (repo.root / "trees/helper/w").exists()


def test_a_submodule_that_a_session_adds_is_committed(repo: Trial, tmp_path: Path) -> None:
    nested_repository(tmp_path / "inner")
    repo.project.tasks.add("Write")
    plays(repo, f"git -c protocol.file.allow=always submodule -q add {tmp_path}/inner inner; {SAYS_DONE}")

    repo.ralph("run", *PROGRAM)

    assert committed(repo) == [".gitmodules", "inner"]


CONFLICT = """
echo x > x.txt
git switch -qc other; echo theirs > readme.md; git commit -qam theirs
git switch -q main; echo ours > readme.md; git commit -qam ours
"""
OPERATIONS = ["merge", "rebase", "cherry-pick"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_conflicts_that_a_session_leaves_are_not_committed(repo: Trial, operation: str) -> None:
    repo.project.tasks.add("Write")
    plays(repo, f"{CONFLICT} git {operation} other; {SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert repo.git("show", "main:readme.md") == "ours\n"
    assert (repo.root / "x.txt").exists()
    assert f"a {operation} is in progress" in ran.out


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_reset_ends_what_a_session_has_begun(repo: Trial, operation: str) -> None:
    repo.project.tasks.add("Break it")
    plays(repo, f"{CONFLICT} git {operation} other; {SAYS_FAILED}")
    repo.settings(RESETS)

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[0] == "the agent"
    assert changes(repo) == []
    assert not any((repo.root / ".git" / name).exists() for name in ("MERGE_HEAD", "rebase-merge", "CHERRY_PICK_HEAD"))
    assert repo.git("branch", "--show-current") == "main\n"


def test_an_index_that_stays_locked_is_mentioned(repo: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_tree, "INDEX_LOCK_TIMEOUT_SECONDS", 0.1)
    repo.project.tasks.add("Write")
    plays(repo, f"echo x > x.txt; touch .git/index.lock; {SAYS_DONE}")

    ran = repo.ralph("run", *PROGRAM)

    assert committed(repo) == ["x.txt"]
    assert ".git/index.lock" in ran.out


def test_a_commit_whose_run_was_killed_at_once_is_not_taken_back_by_the_index(repo: Trial) -> None:
    repo.project.tasks.add("Write")
    plays(
        repo,
        f"""
if [ "$RALPH_ATTEMPT" = 1 ]; then
    echo x > x.txt
    export GIT_INDEX_FILE=.ralph/index; git read-tree HEAD; git add x.txt
    commit=$(git commit-tree $(git write-tree) -p HEAD -m Write); git update-ref -m "ralph: Write" HEAD $commit
    touch .ralph/started; sleep 60
fi
{SAYS_DONE}""",
    )
    started = repo.start("run", *PROGRAM)
    repo.soon(".ralph/started")
    started.send_signal(signal.SIGKILL)
    started.wait()

    repo.ralph("run", *PROGRAM)

    assert subjects(repo)[0] == "Write"
    assert changes(repo) == []
