"""Gate integrity: what decides whether a task is done cannot be changed by its work."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable

import pytest

from ralph.core.actor import AGENT
from ralph.core.errors import ConflictError, UsageError
from ralph.core.records import SubtaskSigil, Task, TaskStatus
from ralph.project import Project
from ralph.store.explained import DoneWatch
from ralph.store.tasks import TaskDraft
from tests.loop.trial import SAYS_DONE, SAYS_FAILED, Trial

GATE = "sh check.sh"
ALWAYS_FAILS = "#!/bin/sh\ntest -e really-done\n"


@pytest.fixture
def checked(trial: Trial) -> Trial:
    """Give a project with a gate script that nothing honest can pass yet."""
    (trial.root / "check.sh").write_text(ALWAYS_FAILS)
    (trial.root / "tests").mkdir()
    (trial.root / "tests/test_it.sh").write_text("exit 1\n")
    trial.settings(f'[execution]\ngates = ["{GATE}"]\n\n[memories]\nmeaning = false\n')
    return trial


def go(trial: Trial, script: str, *words: str) -> None:
    """Run the loop once with an agent that does what a script says."""
    trial.script(f"{script}\n{SAYS_DONE}\n")
    trial.ralph("run", "--max-iterations", "1", *words, "--", "sh", "agent.sh")


def held(trial: Trial, task: Task) -> str:
    found = trial.project.tasks.get(task.id).held
    return found.diff if found else ""


def test_an_edited_gate_script_needs_a_person_who_sees_the_diff(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")

    checked.script(f"echo exit 0 > check.sh\n{SAYS_DONE}\n")
    ran = checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert checked.project.tasks.get(task.id).task.reason.startswith("needs a person")
    assert "+exit 0" in held(checked, task)
    assert "+exit 0" in ran.out
    assert "+exit 0" in checked.ralph("task", "show", task.id).out
    assert "check.sh" in checked.ralph("status").out
    assert "check.sh" in checked.ralph("journal", "list").out


def test_a_diff_is_shown_exactly(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    (checked.root / "check.sh").write_text("test -e really-done\nexit 0\n")
    edit = r"printf 'for x in; do\n\ttest -e  really-done\n\tdone\nexit 0 # \033[1A\r' > check.sh"
    checked.script(f"{edit}\n{SAYS_DONE}\n")

    ran = checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    shown = checked.ralph("task", "show", task.id).out
    approved = checked.ralph("task", "approve", task.id, "--yes").out
    for text in (ran.out, shown, approved):
        assert "+\ttest -e  really-done" in text
        assert r"+exit 0 # \x1b[1A\r" in text
        assert "No newline at end of file" in text
        assert "\x1b" not in text


def test_a_secret_in_the_diff_is_not_stored(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")

    go(checked, "echo 'export TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789; exit 0' > check.sh")

    assert "ghp_abcdefghij" not in held(checked, task)
    assert "TOKEN" in held(checked, task)


def test_an_approved_change_is_verified_again_without_a_session(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, "echo exit 0 > check.sh")
    (checked.root / "agent.sh").write_text("touch asked-again\n")

    approved = checked.ralph("task", "approve", task.id, "--yes")
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert approved.code == 0
    assert "+exit 0" in approved.out
    assert checked.status(task) is TaskStatus.DONE
    assert not (checked.root / "asked-again").exists()


def test_approval_is_for_exactly_one_change(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, "echo exit 0 > check.sh")

    with pytest.raises(ConflictError) as caught:
        checked.project.tasks.approve(task.id, "another digest")

    assert caught.value.code == "nothing-to-approve"


def test_agents_can_neither_approve_nor_widen_their_scope(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, "echo exit 0 > check.sh")
    agents = Project(checked.root, checked.project.store, checked.project.config, AGENT)

    attempts: tuple[Callable[[], object], ...] = (
        lambda: agents.tasks.approve(task.id),
        lambda: agents.tasks.add("Another", allow=("**",)),
        lambda: agents.tasks.update(task.id, allow=("**",)),
    )
    for attempt in attempts:
        with pytest.raises(UsageError) as caught:
            attempt()
        assert caught.value.code == "person-required"


def test_a_glob_of_a_person_allows_the_change(checked: Trial) -> None:
    added = checked.ralph("task", "add", "Do it", "--allow", "check.sh", "--format", "json")
    task = checked.project.store.tasks.get(json.loads(added.out)["id"])

    go(checked, "echo exit 0 > check.sh")

    assert task.allow == ("check.sh",)
    assert checked.status(task) is TaskStatus.DONE


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Change check.sh so that it prints a line", TaskStatus.DONE),
        ("Make check.sh pass", TaskStatus.BLOCKED),
        ("Do it, but do not touch check.sh", TaskStatus.BLOCKED),
    ],
)
def test_the_words_of_a_person_name_what_may_change(checked: Trial, title: str, expected: TaskStatus) -> None:
    task = checked.project.tasks.add(title)

    go(checked, "echo exit 0 > check.sh")

    assert checked.status(task) is expected


def test_words_of_an_agent_do_not_widen_the_scope(checked: Trial) -> None:
    agents = Project(checked.root, checked.project.store, checked.project.config, AGENT)
    task = agents.tasks.add("Rewrite check.sh")

    go(checked, "echo exit 0 > check.sh")

    assert checked.status(task) is TaskStatus.BLOCKED


def test_a_part_of_a_task_may_change_what_its_whole_may(checked: Trial) -> None:
    whole = checked.project.tasks.add("Rewrite check.sh")
    agents = Project(checked.root, checked.project.store, checked.project.config, AGENT)
    part = agents.tasks.add("Do the first half", parent=whole.id)

    go(checked, "echo exit 0 > check.sh")

    assert checked.status(part) is TaskStatus.DONE


def test_a_change_of_an_earlier_attempt_is_not_the_base_of_a_later_one(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    checked.script(f'if [ "$RALPH_ATTEMPT" = 1 ]; then echo exit 0 > check.sh; {SAYS_FAILED}; else {SAYS_DONE}; fi\n')

    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert "+exit 0" in held(checked, task)


WEAK = "echo exit 0 > tests/test_it.sh"


@pytest.mark.parametrize("says", [SAYS_DONE, SAYS_FAILED, "kill -9 $$"])
def test_a_test_that_unfinished_work_weakened_is_not_the_base_of_a_later_run(checked: Trial, says: str) -> None:
    (checked.root / "check.sh").write_text("sh tests/test_it.sh\n")
    task = checked.project.tasks.add("Do it")
    checked.script(f"{WEAK}\n{says}\n")
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    checked.ralph("task", "reset", task.id)

    go(checked, "touch x")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert "+exit 0" in held(checked, task)
    checked.ralph("task", "approve", task.id, "--yes")
    go(checked, ":")
    assert checked.status(task) is TaskStatus.DONE


def test_a_test_that_another_task_weakened_in_an_earlier_run_helps_nobody(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("sh tests/test_it.sh\n")
    first, second = checked.project.tasks.add("First", priority=1), checked.project.tasks.add("Second")
    checked.script(f"{WEAK}\n{SAYS_FAILED}\n")
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    checked.ralph("task", "block", first.id)

    go(checked, "touch x")

    assert checked.status(second) is TaskStatus.BLOCKED
    assert f"left by {first.id}" in checked.project.tasks.get(second.id).task.reason


def test_a_test_that_unfinished_work_extended_does_not_ask_a_person(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("sh tests/test_it.sh\n")
    (checked.root / "tests/test_it.sh").write_text("grep -q a state\n")
    task = checked.project.tasks.add("Do it")
    checked.script(f"echo 'grep -q b state' >> tests/test_it.sh\n{SAYS_FAILED}\n")
    printed = checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    assert "test_it.sh" not in printed.out + printed.err
    assert held(checked, task) == ""

    go(checked, "echo ab > state")

    assert checked.status(task) is TaskStatus.DONE


def test_a_package_that_unfinished_work_edited_is_noticed_by_a_later_run(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("cat node_modules/a/index.js\n")
    (checked.root / "node_modules/a").mkdir(parents=True)
    (checked.root / "node_modules/a/index.js").write_text("1\n")
    task = checked.project.tasks.add("Do it")
    checked.script(f"echo 2 > node_modules/a/index.js\n{SAYS_FAILED}\n")
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    go(checked, "touch x")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert "node_modules/a/index.js" in checked.project.tasks.get(task.id).task.reason


@pytest.mark.parametrize("says", [SAYS_DONE, SAYS_FAILED])
def test_a_change_of_an_earlier_run_is_not_the_base_of_a_later_one(checked: Trial, says: str) -> None:
    task = checked.project.tasks.add("Do it")
    checked.script(f"echo exit 0 > check.sh\n{says}\n")
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    checked.ralph("task", "reset", task.id)

    go(checked, ":")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert "+exit 0" in held(checked, task)


def test_a_change_of_the_settings_needs_a_person_whatever_the_task_says(checked: Trial) -> None:
    (checked.root / "really-done").touch()
    task = checked.project.tasks.add("Add a gate to .ralph.toml")

    go(checked, "echo >> .ralph.toml")

    assert checked.status(task) is TaskStatus.BLOCKED


def test_what_a_task_left_behind_does_not_help_the_next_one(checked: Trial) -> None:
    first = checked.project.tasks.add("First", priority=1)
    second = checked.project.tasks.add("Second")
    checked.script(f"[ $RALPH_TASK_ID = {first.id} ] && echo exit 0 > check.sh\n{SAYS_DONE}\n")

    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert checked.status(first) is TaskStatus.BLOCKED
    assert checked.status(second) is TaskStatus.BLOCKED


def test_what_a_person_changed_before_the_run_is_the_base(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("exit 0\n")
    task = checked.project.tasks.add("Do it")

    go(checked, "echo work > work.txt")

    assert checked.status(task) is TaskStatus.DONE


def test_existing_tests_are_run_in_their_base_version(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("sh tests/test_it.sh\n")
    (checked.root / "tests/test_it.sh").write_text("grep -q ready state\n")
    honest, cheat = checked.project.tasks.add("Honest", priority=1), checked.project.tasks.add("Cheat")
    added = 'echo ready > state; echo "grep -q r state" >> tests/test_it.sh'
    cheats = "echo > state; echo : > tests/test_it.sh"
    checked.script(f"if [ $RALPH_TASK_ID = {honest.id} ]; then {added}; else {cheats}; fi\n{SAYS_DONE}\n")

    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert checked.status(honest) is TaskStatus.DONE
    assert checked.status(cheat) is TaskStatus.BLOCKED
    assert (checked.root / "tests/test_it.sh").read_text() == ":\n", "the working directory is left alone"


def test_a_project_can_protect_more_and_less(checked: Trial) -> None:
    checked.settings(f'[execution]\ngates = ["{GATE}"]\nprotect = ["default", "golden/**", "!check.sh"]\n')
    (checked.root / "golden").mkdir()
    (checked.root / "golden/one").write_text("1\n")
    allowed, refused = checked.project.tasks.add("A", priority=1), checked.project.tasks.add("B")
    edit = f"[ $RALPH_TASK_ID = {allowed.id} ] && echo exit 0 > check.sh || echo 2 > golden/one"

    checked.script(f"{edit}\n{SAYS_DONE}\n")
    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert checked.status(allowed) is TaskStatus.DONE
    assert checked.status(refused) is TaskStatus.BLOCKED


@pytest.mark.sqlite
def test_a_done_written_into_the_database_is_taken_back(checked: Trial) -> None:
    own, other = checked.project.tasks.add("Do it", priority=1), checked.project.tasks.add("Another")
    forge = (
        "import sqlite3; c = sqlite3.connect('.ralph/ralph.db', timeout=20);"
        "c.execute(\"UPDATE tasks SET status = 'done', claimed_by = NULL\"); c.commit()"
    )

    checked.script(f'"{sys.executable}" -c "{forge.replace(chr(34), chr(92) + chr(34))}"\n{SAYS_FAILED}\n')
    ran = checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert checked.status(own) is TaskStatus.PENDING
    assert checked.status(other) is TaskStatus.PENDING
    assert other.id in ran.out + ran.err
    assert sqlite3.connect(checked.root / ".ralph/ralph.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("before", ["logged by the agent", "done and reset", "split", "with a forged part"])
def test_a_task_that_a_session_writes_as_done_is_not_explained_by(trial: Trial, before: str) -> None:
    other = trial.project.tasks.add("Another one", priority=-1)
    trial.project.tasks.add("Do it")
    tasks, agents = trial.project.tasks, Project(trial.root, trial.project.store, trial.project.config, AGENT)
    if before == "done and reset":
        tasks.done(other.id)
        tasks.reset(other.id)
    elif before == "split":
        trial.project.store.tasks.split(other.id, [SubtaskSigil(title="Part", body="")])
    watch = DoneWatch(trial.project.store.scope)
    if before == "logged by the agent":
        agents.tasks.log(other.id, "Set to done by hand.")
    elif before == "with a forged part":
        trial.project.store.tasks.add(TaskDraft(title="Part", parent_id=other.id, status=TaskStatus.DONE))
    with trial.project.store.transaction():
        watch._set(other.id, "status = 'done'")

    assert [task.id for task in watch.revert_unexplained()] == [other.id]
    assert trial.status(other) is TaskStatus.PENDING


def test_a_task_that_a_person_finishes_part_by_part_stays_done(trial: Trial) -> None:
    task, whole = trial.project.tasks.add("A"), trial.project.tasks.add("B")
    first, second = (trial.project.tasks.add(title, parent=whole.id) for title in ("C", "D"))
    trial.project.tasks.done(first.id)
    watch = DoneWatch(trial.project.store.scope)

    trial.project.tasks.done(task.id)
    trial.project.tasks.done(second.id)

    assert watch.revert_unexplained() == []
    assert trial.status(whole) is TaskStatus.DONE


def test_a_done_by_a_person_during_a_session_stays(checked: Trial) -> None:
    task, other = checked.project.tasks.add("Do it", priority=1), checked.project.tasks.add("Another")
    checked.script(f"touch started; while [ ! -e go ]; do sleep 0.05; done\n{SAYS_FAILED}\n")
    process = checked.start("run", "--max-iterations", "1", "--", "sh", "agent.sh")
    checked.soon("started")
    checked.project.tasks.done(other.id)
    (checked.root / "go").touch()
    process.communicate(timeout=60)

    assert checked.status(other) is TaskStatus.DONE
    assert checked.status(task) is TaskStatus.PENDING


@pytest.mark.parametrize(
    ("gate", "passes"), [("false | tee log", False), ("yes | head -1", True), ("echo ok | grep -q ok", True)]
)
def test_a_failure_inside_of_a_pipe_fails_the_gate(trial: Trial, gate: str, passes: bool) -> None:
    trial.script(SAYS_DONE)
    task = trial.project.tasks.add("Do it")

    trial.ralph("run", "--max-iterations", "1", "--gate", gate, "--", "sh", "agent.sh")

    assert (trial.status(task) is TaskStatus.DONE) is passes


def calc(trial: Trial) -> None:
    """Give a project whose gate loads every test into one process."""
    (trial.root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (trial.root / "tests/test_add.py").write_text("import calc\nassert calc.add(2, 3) == 5\n")
    (trial.root / "run_tests.py").write_text(
        "import glob, runpy\n[runpy.run_path(path) for path in sorted(glob.glob('tests/test_*.py'))]\n"
    )
    trial.settings(
        f'[execution]\ngates = ["PYTHONPATH=. {sys.executable} run_tests.py"]\n\n[memories]\nmeaning = false\n'
    )


def test_gates_must_pass_without_new_tests_that_patch_the_product(checked: Trial) -> None:
    calc(checked)
    task = checked.project.tasks.add("Do it")

    go(checked, "printf 'import calc\\ncalc.add = lambda a, b: a + b\\n' > tests/test_aaa.py")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert "calc.add = lambda" in held(checked, task)


def test_the_tests_of_a_done_task_count_for_the_next(checked: Trial) -> None:
    calc(checked)
    first, second = checked.project.tasks.add("Add sub"), checked.project.tasks.add("Speed")
    added = "printf 'import calc\\nassert calc.sub(5, 3) == 2\\n' > tests/test_sub.py"
    sub = "printf 'def add(a, b):\\n    return a + b\\ndef sub(a, b):\\n    return a - b\\n' > calc.py"
    undone = "printf 'import calc\\n' > tests/test_sub.py; sed -i '/def sub/,$d' calc.py"

    checked.script(f"if [ $RALPH_TASK_ID = {first.id} ]; then {added}; {sub}; else {undone}; fi\n{SAYS_DONE}\n")
    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert checked.status(first) is TaskStatus.DONE
    assert checked.status(second) is TaskStatus.BLOCKED


def test_a_program_that_runs_the_tests_is_part_of_the_gate(checked: Trial) -> None:
    calc(checked)
    (checked.root / "run_tests.py").rename(checked.root / "all.py")
    (checked.root / "all.py").write_text(f"import subprocess\n{(checked.root / 'all.py').read_text()}")
    checked.settings(f'[execution]\ngates = ["PYTHONPATH=. {sys.executable} all.py"]\n\n[memories]\nmeaning = false\n')
    task = checked.project.tasks.add("Do it")

    go(checked, "echo pass > all.py")

    assert checked.status(task) is TaskStatus.BLOCKED
