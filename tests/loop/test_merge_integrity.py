"""What is merged is what the gates saw, and no work is lost with its worktree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from tests.loop.test_parallel import Company, Part, Together, no_settings_of_this_machine
from tests.loop.trial import DONE

__all__ = ["no_settings_of_this_machine"]

TEACH = "MONEY = 1\n"
HAS_MONEY = "grep -q MONEY lib/money.py"


def git(directory: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def together(project: Project, capsys: pytest.CaptureFixture[str]) -> Together:
    """Give a project with a commit and a module."""
    found = Together(project, capsys)
    (found.root / "lib").mkdir()
    (found.root / "lib/old.py").write_text("OLD = 1\n")
    (found.root / "run.sh").write_text("exit 1\n")
    found.commit_all()
    return found


def writes_money(part: Part) -> str:
    (part.directory / "lib").mkdir(exist_ok=True)
    part.write("lib/money.py", TEACH)
    return DONE


# --- work that git leaves out -------------------------------------------------------------------


def ignored_by_the_project(root: Path) -> None:
    (root / ".gitignore").write_text("lib/money.py\n")
    git(root, "add", ".gitignore")
    git(root, "commit", "-qm", "ignore")


def ignored_as_a_directory(root: Path) -> None:
    git(root, "rm", "-rq", "lib")
    (root / ".gitignore").write_text("lib/\n")
    git(root, "add", ".gitignore")
    git(root, "commit", "-qm", "ignore")


def ignored_here_only(root: Path) -> None:
    (root / ".git/info/exclude").write_text("money.py\n")


def ignored_by_the_person(root: Path) -> None:
    home = root.parent / "ignored"
    home.write_text("money.py\n")
    git(root, "config", "core.excludesFile", str(home))


LEFT_OUT = {
    "lib/money.py is ignored by .gitignore:1 and will not be merged.": ignored_by_the_project,
    "lib/money.py is ignored by .gitignore:1 and will not be merged. ": ignored_as_a_directory,
    "/info/exclude:1 and will not be merged.": ignored_here_only,
    "/ignored:1 and will not be merged.": ignored_by_the_person,
}


@pytest.mark.parametrize("sentence", LEFT_OUT, ids=[prepare.__name__ for prepare in LEFT_OUT.values()])
def test_a_gate_does_not_pass_with_files_that_are_not_merged(together: Together, sentence: str) -> None:
    LEFT_OUT[sentence](together.root)
    (task,) = together.add("Teach it money")
    agent = Company(writes_money)

    together.work(agent, 2, iterations=2, execution={"gates": (HAS_MONEY,), "max_retries": 1})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED] * 2
    assert sentence.strip() in together.project.journal.failures_of(task.id)[0].why
    assert sentence.strip() in agent.part(task, 2).prompt
    assert sentence.strip() in together.project.store.tasks.get(task.id).reason
    assert [sentence.strip() in str(event["message"]) for event in together.told("warning")] == [True] * 2
    assert (together.root / f".ralph/worktrees/{task.id}/lib/money.py").read_text() == TEACH
    assert together.merges() == []


def test_a_worktree_with_work_that_is_nowhere_else_is_kept(together: Together) -> None:
    ignored_by_the_project(together.root)
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        part.write("made.txt", "made\n")
        (part.directory / "__pycache__").mkdir()
        part.write("__pycache__/x.pyc", "cached\n")
        return writes_money(part)

    together.work(Company(play), 2, execution={"gates": ("test -f made.txt",)})

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / "made.txt").read_text() == "made\n"
    assert (together.root / f".ralph/worktrees/{task.id}/lib/money.py").read_text() == TEACH
    (warning,) = (str(event["message"]) for event in together.told("warning"))
    assert "lib/money.py is ignored by .gitignore:1" in warning
    assert f".ralph/worktrees/{task.id} is kept" in warning
    assert "is kept" in together.log(task)
    assert "is kept" in together.ralph("task", "show", task.id).out
    assert f"tasks: {task.id}" in together.ralph("doctor").out

    together.work(Company(play), 2)  # nothing to do, and nothing is tidied away
    assert (together.root / f".ralph/worktrees/{task.id}/lib/money.py").exists()

    deleted = together.ralph("task", "delete", task.id).out
    assert f"git worktree remove --force .ralph/worktrees/{task.id}" in deleted
    assert f"tasks: {task.id}" in together.ralph("doctor").out


def test_output_and_dependencies_do_not_keep_a_worktree(together: Together) -> None:
    (together.root / ".gitignore").write_text("node_modules/\ndist/\n*.pyc\n*.log\n.env\n")
    together.git("add", ".gitignore")
    together.git("commit", "-qm", "ignore")
    (together.root / ".env").write_text("KEY=1\n")
    (task,) = together.add("Build it")

    def play(part: Part) -> str:
        for name in ("node_modules/a/index.js", "dist/app.js", "lib/money.pyc", "debug.log", ".env"):
            (part.directory / name).parent.mkdir(parents=True, exist_ok=True)
            part.write(name, "KEY=1\n")
        return DONE

    together.work(Company(play), 2, execution={"gates": ("true",)})

    assert together.status(task) is TaskStatus.DONE
    assert together.told("warning") == []
    assert together.left() == ""


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_behind_a_flag_of_the_index_does_not_pass(together: Together, flag: str) -> None:
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        git(part.directory, "update-index", flag, "lib/old.py")
        part.write("lib/old.py", "MONEY = 1\n")
        return DONE

    together.work(Company(play), 2, iterations=1, execution={"gates": ("grep -q MONEY lib/old.py",)})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED]
    assert "lib/old.py is marked as unchanged" in together.project.journal.failures_of(task.id)[0].why
    assert (together.root / f".ralph/worktrees/{task.id}/lib/old.py").read_text() == TEACH


def test_a_change_behind_a_flag_keeps_the_worktree(together: Together) -> None:
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        git(part.directory, "update-index", "--assume-unchanged", "lib/old.py")
        part.write("lib/old.py", "MONEY = 1\n")
        return DONE

    together.work(Company(play), 2)

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / f".ralph/worktrees/{task.id}/lib/old.py").read_text() == TEACH
    assert "lib/old.py is marked as unchanged" in together.log(task)


# --- work that looks different once it is committed -----------------------------------------------


def forget_mode(part: Part) -> None:
    part.write("lib/money.py", TEACH)
    (part.directory / "lib/money.py").chmod(0o755)


def convert_lines(part: Part) -> None:
    part.write(".gitattributes", "*.py text eol=crlf\n")
    part.write("lib/money.py", TEACH)


def check_out_less(part: Part) -> None:
    git(part.directory, "sparse-checkout", "set", "--no-cone", "/*", "!/run.sh")
    part.write("lib/money.py", TEACH)


DIFFERENT: dict[str, Callable[[Part], None]] = {
    "test -x lib/money.py": forget_mode,
    "! grep -q $(printf '\\r') lib/money.py": convert_lines,
    "! test -e run.sh": check_out_less,
}


@pytest.mark.parametrize("gate", DIFFERENT, ids=[play.__name__ for play in DIFFERENT.values()])
def test_gates_see_files_as_they_will_be_checked_out(together: Together, gate: str) -> None:
    together.git("config", "core.fileMode", "false")
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        DIFFERENT[gate](part)
        return DONE

    together.work(Company(play), 2, iterations=1, execution={"gates": (gate,)})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED]
    assert together.merges() == []


# --- repositories inside of the repository -----------------------------------------------------------


def test_a_nested_repository_that_the_agent_committed_is_not_merged(together: Together) -> None:
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        nested = part.directory / "nested"
        nested.mkdir()
        git(nested, "init", "-q")
        (nested / "money.py").write_text(TEACH)
        git(nested, "add", "-A")
        git(nested, "commit", "-qm", "money")
        git(part.directory, "add", "-A")
        git(part.directory, "commit", "-qm", "money")
        return DONE

    together.work(Company(play), 2, iterations=1, execution={"gates": ("true",)})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED]
    assert "nested is a git repository of its own" in together.project.journal.failures_of(task.id)[0].why
    assert (together.root / f".ralph/worktrees/{task.id}/nested/money.py").exists()
    assert together.merges() == []


@pytest.mark.parametrize("name", [".ralph/knowledge/money.md", ".ralph/specs/money.md", ".agent/memories.md"])
def test_files_of_ralph_that_are_not_committed_keep_the_worktree(together: Together, name: str) -> None:
    (task,) = together.add("Write down how money is counted")

    def play(part: Part) -> str:
        (part.directory / name).parent.mkdir(parents=True, exist_ok=True)
        part.write(name, TEACH)
        part.write("made.txt", "made\n")
        return DONE

    together.work(Company(play), 2, execution={"gates": ("true",)})

    assert together.status(task) is TaskStatus.DONE
    assert f"{name} is a file of Ralph and will not be merged." in together.log(task)
    assert (together.root / f".ralph/worktrees/{task.id}/{name}").read_text() == TEACH


def test_names_that_are_not_utf8_keep_the_worktree(together: Together) -> None:
    (together.root / ".gitignore").write_bytes(b"caf\xe9/\nlocal/\n")
    Path(os.fsdecode(os.fsencode(together.root) + b"/caf\xe9.txt")).write_text("old\n")
    together.commit_all()
    (task,) = together.add("Open a cafe")

    def play(part: Part) -> str:
        for folder, name in ((b"caf\xe9", b"a.txt"), (b"local", b"caf\xe9.txt"), (b".", b"caf\xe9.txt")):
            path = Path(os.fsdecode(os.path.join(os.fsencode(part.directory), folder, name)))  # noqa: PTH118
            path.parent.mkdir(exist_ok=True)
            path.write_text(TEACH)
        git(part.directory, "update-index", "--assume-unchanged", os.fsdecode(b"caf\xe9.txt"))
        return DONE

    together.work(Company(play), 2, execution={"gates": ("true",)})

    log = together.log(task)
    assert together.status(task) is TaskStatus.DONE
    assert "caf\ufffd/ is ignored" in log
    assert "local/caf? is ignored" in log or "local/caf?.txt is ignored" in log
    assert "caf\ufffd.txt is marked as unchanged" in log
    assert together.places() == [task.id]


def test_a_task_that_leaves_its_work_in_an_ignored_directory_only_keeps_it(together: Together) -> None:
    (together.root / ".gitignore").write_text("vendor/\n")
    together.commit_all()
    (task,) = together.add("Add the library")

    def play(part: Part) -> str:
        (part.directory / "vendor").mkdir()
        part.write("vendor/money.py", TEACH)
        return DONE

    together.work(Company(play), 2)

    assert "vendor/money.py is ignored by .gitignore:1 and will not be merged." in together.log(task)
    assert (together.root / f".ralph/worktrees/{task.id}/vendor/money.py").read_text() == TEACH


def test_a_link_in_place_of_a_worktree_leads_nobody_elsewhere(together: Together, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(together.root), str(other))
    (task,) = together.add("Count money")

    def play(part: Part) -> str:
        (other / "money.py").write_text(TEACH)
        part.directory.rename(f"{part.directory}.moved")
        part.directory.symlink_to(other)
        return DONE

    together.work(Company(play), 2, iterations=1, execution={"gates": ("true",)})

    assert together.status(task) is TaskStatus.BLOCKED
    assert (other / "money.py").read_text() == TEACH
    assert git(other, "status", "--porcelain") == "?? money.py\n"
    assert together.merges() == []


def test_the_persons_tree_moves_on_even_if_a_session_has_checked_out_the_base(
    together: Together, tmp_path: Path
) -> None:
    (task,) = together.add("Count money")

    def play(part: Part) -> str:
        git(part.directory, "worktree", "add", "-q", "--force", str(tmp_path / "a"), "main")
        return writes_money(part)

    together.work(Company(play), 2, execution={"gates": (HAS_MONEY,)})

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / "lib/money.py").read_text() == TEACH
    assert together.changes() == ""


def test_a_session_that_deletes_the_locks_does_not_keep_its_work_from_being_merged(together: Together) -> None:
    (task,) = together.add("Count money")

    def play(part: Part) -> str:
        shutil.rmtree(together.root / ".git/ralph")
        return writes_money(part)

    together.work(Company(play), 2, execution={"gates": (HAS_MONEY,)})

    assert together.status(task) is TaskStatus.DONE
    assert together.left() == ""


@pytest.fixture
def library(together: Together, tmp_path: Path) -> Together:
    """Give the project with a submodule."""
    place = tmp_path / "library"
    place.mkdir()
    git(place, "init", "-q")
    (place / "a.txt").write_text("a\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "a")
    git(together.root, "submodule", "add", "-q", str(place), "library")
    git(together.root, "commit", "-qm", "library")
    return together


def test_a_new_commit_of_a_submodule_waits_for_a_person(library: Together) -> None:
    (task,) = library.add("Change the library")

    def play(part: Part) -> str:
        git(part.directory, "submodule", "update", "-q", "--init")
        (part.directory / "library/b.txt").write_text("b\n")
        git(part.directory / "library", "add", "-A")
        git(part.directory / "library", "commit", "-qm", "b")
        return DONE

    library.work(Company(play), 2, iterations=1)

    assert library.status(task) is TaskStatus.BLOCKED
    assert "library is a git repository of its own" in library.reason(task)
    assert (library.root / f".ralph/worktrees/{task.id}/library/b.txt").read_text() == "b\n"


def test_changes_in_a_submodule_keep_the_worktree(library: Together) -> None:
    (task,) = library.add("Change the library")

    def play(part: Part) -> str:
        git(part.directory, "submodule", "update", "-q", "--init")
        (part.directory / "library/b.txt").write_text("b\n")
        part.write("made.txt", "made\n")
        return DONE

    library.work(Company(play), 2, execution={"gates": ("true",)})

    assert library.status(task) is TaskStatus.DONE
    assert "library has changes that are not committed in it" in library.log(task)
    assert (library.root / f".ralph/worktrees/{task.id}/library/b.txt").read_text() == "b\n"


def test_files_in_a_submodule_that_is_not_checked_out_keep_the_worktree(library: Together) -> None:
    (task,) = library.add("Change the library")

    def play(part: Part) -> str:
        part.write("library/b.txt", "b\n")
        part.write("made.txt", "made\n")
        return DONE

    library.work(Company(play), 2, execution={"gates": ("true",)})

    assert library.status(task) is TaskStatus.DONE
    assert "library is a submodule that is not checked out" in library.log(task)
    assert (library.root / f".ralph/worktrees/{task.id}/library/b.txt").read_text() == "b\n"


# --- what gates find there ------------------------------------------------------------------------------


def test_gates_run_on_a_clean_checkout_of_the_commit_that_is_merged(together: Together, tmp_path: Path) -> None:
    (task,) = together.add("Teach it money")
    seen = tmp_path / "seen"
    gate = f"pwd > {seen}; git rev-parse HEAD >> {seen}; git status --porcelain --ignored >> {seen}; touch left.txt"

    together.work(Company(writes_money), 2, execution={"gates": (gate,)})

    directory, commit, *changes = seen.read_text().splitlines()
    assert (together.status(task), changes) == (TaskStatus.DONE, [])
    assert directory == str(together.root / f".ralph/worktrees/.check-{task.id}")
    assert together.git("rev-parse", "main^2").strip() == commit
    assert together.git("rev-parse", "main^{tree}") == together.git("rev-parse", f"{commit}^{{tree}}")
    assert not (together.root / "left.txt").exists()
    assert together.left() == ""
    assert not Path(directory).exists()


def test_after_others_have_merged_the_gates_see_both_together(together: Together, tmp_path: Path) -> None:
    (task,) = together.add("Teach it money")
    seen = tmp_path / "seen"
    # Without the mark of sessions, as a person does.
    moves = f"[ -e {seen} ] || (cd {together.root} && echo 1 > person.txt && git add person.txt && unset "
    moves += "GIT_REFLOG_ACTION && git -c user.name=a -c user.email=a@example.com commit -qm person)"
    gate = f"{moves}; ls >> {seen}; git rev-parse HEAD^{{tree}} > {tmp_path}/tree"

    together.work(Company(writes_money), 2, execution={"gates": (gate,)})

    assert together.status(task) is TaskStatus.DONE
    assert seen.read_text().split().count("person.txt") == 1
    assert (tmp_path / "tree").read_text() == together.git("rev-parse", "main^{tree}")


def test_what_a_gate_changes_is_not_merged(together: Together) -> None:
    (task,) = together.add("Teach it money")

    together.work(Company(writes_money), 2, execution={"gates": ("echo y > new.txt",)})

    assert together.status(task) is TaskStatus.DONE
    assert together.git("show", "main:lib/money.py") == TEACH
    assert not (together.root / "new.txt").exists()


@pytest.mark.parametrize("hide", ["true", "git update-index --assume-unchanged lib/money.py"])
def test_gates_that_saw_another_version_of_a_file_do_not_count(together: Together, hide: str) -> None:
    (task,) = together.add("Teach it money")

    together.work(Company(writes_money), 2, iterations=1, execution={"gates": (f"echo x >> lib/money.py; {hide}",)})

    assert together.status(task) is not TaskStatus.DONE
    assert "lib/money.py changed in the checkout" in together.project.journal.failures_of(task.id)[0].why
    assert together.merges() == []


def test_dependencies_come_from_the_person_and_never_from_the_agent(together: Together) -> None:
    (together.root / ".gitignore").write_text("node_modules/\n.venv/\npackages/a/deps/\n")
    together.git("add", ".gitignore")
    together.git("commit", "-qm", "ignore")
    (together.root / "node_modules/one").mkdir(parents=True)
    (together.root / "node_modules/one/who").write_text("person\n")
    (task,) = together.add("Use them")

    def play(part: Part) -> str:
        for name in ("node_modules/one", ".venv/two", "packages/a/deps"):
            (part.directory / name).mkdir(parents=True)
            part.write(f"{name}/who", "agent\n")
        return DONE

    gate = (
        '[ "$(cat node_modules/one/who)" = person ] && [ ! -e .venv ] && [ ! -e packages/a/deps ]'
        ' && [ -z "$(git status --porcelain)" ]'
    )

    together.work(
        Company(play), 2, execution={"gates": (gate,), "reuse": ("node_modules", ".venv", "packages/a/deps", "none")}
    )

    assert together.status(task) is TaskStatus.DONE
    assert (together.root / "node_modules/one/who").read_text() == "person\n"
    assert together.left() == ""


@pytest.mark.parametrize("kind", ["path", "finder"])
def test_an_editable_install_of_the_person_does_not_hide_the_work(together: Together, kind: str) -> None:
    (together.root / ".gitignore").write_text(".venv/\n")
    (together.root / "src/shop").mkdir(parents=True)
    (together.root / "src/shop/__init__.py").write_text("MONEY = 0\n")
    together.git("add", ".gitignore", "src")
    together.git("commit", "-qm", "shop")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", together.root / ".venv"], check=True)
    (site,) = (together.root / ".venv").glob("lib/python*/site-packages")
    if kind == "path":
        (site / "shop.pth").write_text(f"{together.root}/src\n")
    else:
        (site / "__editable___shop_finder.py").write_text(f"MAPPING = {{'shop': '{together.root}/src/shop'}}\n")
        add = f"import sys; sys.path.append('{together.root}/src')\n"
        (site / "__editable__.shop.pth").write_text(add)
    (task,) = together.add("Teach it money")

    def play(part: Part) -> str:
        part.write("src/shop/__init__.py", f"MONEY = {part.number - 1}\n")
        return DONE

    gate = ".venv/bin/python -c 'import shop; assert shop.MONEY == 1'"
    together.work(Company(play), 2, execution={"gates": (gate,)})

    assert together.outcomes_of(task) == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    assert together.git("show", "main:src/shop/__init__.py") == "MONEY = 1\n"


def test_a_review_looks_at_the_checkout_and_not_at_the_worktree(together: Together) -> None:
    ignored_by_the_project(together.root)
    (task,) = together.add("Teach it money")
    reviewed: list[tuple[str, bool]] = []

    def play(part: Part) -> str:
        if "How to verify" not in part.prompt:
            part.write("made.txt", "made\n")
            return writes_money(part)
        reviewed.append((part.directory.name, (part.directory / "lib/money.py").exists()))
        return "<verify-pass>TASK</verify-pass>"

    together.work(Company(play), 2, execution={"review": True})

    assert together.status(task) is TaskStatus.DONE
    assert reviewed == [(f".check-{task.id}", False)]


def test_a_checkout_that_a_killed_run_left_is_replaced_and_removed(together: Together) -> None:
    (task, other) = together.add("Teach it money", "Another")
    for one in (task.id, "t-gone"):
        git(together.root, "worktree", "add", "-q", "--detach", f".ralph/worktrees/.check-{one}")
    (together.root / f".ralph/worktrees/.check-{task.id}/lib/money.py").write_text("stale\n")

    together.work(
        Company(lambda part: writes_money(part) if part.task_id == task.id else DONE),
        2,
        execution={"gates": ("! grep -q stale lib/money.py",)},
    )

    assert (together.status(task), together.status(other)) == (TaskStatus.DONE, TaskStatus.DONE)
    assert together.left() == ""
    assert list((together.root / ".ralph/worktrees").glob(".check-*")) == []
