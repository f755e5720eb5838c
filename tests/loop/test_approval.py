"""Approval of changes to protected files: for one task, for one content, and only while it is there."""

from __future__ import annotations

import pytest

from ralph.core.errors import ConflictError
from ralph.core.records import AttemptOutcome, Task, TaskStatus
from tests.loop.trial import SAYS_DONE, SAYS_FAILED, Trial

ALWAYS_FAILS = "#!/bin/sh\ntest -e really-done\n"
CHEAT = "echo exit 0 > check.sh"


@pytest.fixture
def checked(trial: Trial) -> Trial:
    """Give a repository with a gate script that nothing honest can pass yet."""
    (trial.root / "check.sh").write_text(ALWAYS_FAILS)
    (trial.root / "lint.sh").write_text("#!/bin/sh\ntrue\n")
    (trial.root / "agent.sh").touch()
    trial.settings('[execution]\ngates = ["sh check.sh", "sh lint.sh"]\n\n[memories]\nmeaning = false\n')
    trial.commit_all()
    return trial


def go(trial: Trial, script: str, says: str = SAYS_DONE) -> str:
    """Run the loop once with an agent that does what a script says; give what was printed."""
    trial.script(f"{script}\n{says}\n")
    return trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh").out


def approve(trial: Trial, task: Task) -> int:
    return trial.ralph("task", "approve", task.id, "--yes").code


def is_offered(trial: Trial, task: Task) -> bool:
    return f"ralph task approve {task.id}" in trial.ralph("task", "show", task.id).out


def test_an_approval_does_not_count_for_another_task(checked: Trial) -> None:
    first, second = checked.project.tasks.add("First", priority=1), checked.project.tasks.add("Second")
    go(checked, CHEAT)
    approve(checked, first)
    approved = go(checked, ":")
    checked.git("checkout", "check.sh")

    again = go(checked, CHEAT)

    assert checked.status(first) is TaskStatus.DONE
    assert checked.status(second) is TaskStatus.BLOCKED
    assert "approved by a person" not in again
    assert "within the task's scope" not in approved


def test_an_approval_does_not_count_for_the_same_task_once_it_is_done(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    approve(checked, task)
    go(checked, ":")
    checked.git("checkout", "check.sh")
    checked.ralph("task", "reset", task.id)

    go(checked, CHEAT)

    assert checked.status(task) is TaskStatus.BLOCKED


def test_an_approved_change_in_the_same_run_is_named_as_such(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    approve(checked, task)
    checked.git("checkout", "check.sh")

    printed = go(checked, CHEAT)

    assert checked.status(task) is TaskStatus.DONE
    assert "approved by a person: check.sh" in printed
    assert "within the task's scope" not in printed


def test_work_that_was_undone_is_not_done_but_tried_again(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    checked.git("checkout", "check.sh")
    approve(checked, task)

    go(checked, "touch asked-again")

    assert checked.status(task) is TaskStatus.PENDING
    assert (checked.root / "asked-again").exists()


def test_other_content_than_the_approved_one_asks_again(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    approve(checked, task)
    (checked.root / "check.sh").write_text("exit 0 # and more\n")

    go(checked, "touch asked-again")

    assert checked.status(task) is TaskStatus.BLOCKED
    assert not (checked.root / "asked-again").exists()
    assert "+exit 0 # and more" in checked.ralph("task", "show", task.id).out
    approve(checked, task)
    go(checked, ":")
    assert checked.status(task) is TaskStatus.DONE


@pytest.mark.parametrize("words", [("reset",), ("done",)])
def test_a_change_is_no_longer_offered_after(checked: Trial, words: tuple[str, ...]) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    assert is_offered(checked, task)

    checked.ralph("task", *words, task.id)

    assert not is_offered(checked, task)
    assert approve(checked, task) != 0


def test_a_change_is_no_longer_offered_after_another_attempt(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT, says=SAYS_FAILED)
    assert is_offered(checked, task)
    checked.git("checkout", "check.sh")

    go(checked, ":", says=SAYS_FAILED)

    assert not is_offered(checked, task)


def test_a_reset_withdraws_the_approval(checked: Trial) -> None:
    task = checked.project.tasks.add("Do it")
    go(checked, CHEAT)
    approve(checked, task)
    checked.ralph("task", "reset", task.id)

    go(checked, "touch asked-again")

    assert (checked.root / "asked-again").exists()
    assert checked.status(task) is TaskStatus.BLOCKED
    assert is_offered(checked, task)


def test_a_deletion_of_an_earlier_run_is_not_the_base_of_a_later_one(checked: Trial) -> None:
    (checked.root / "pytest.ini").touch()
    (checked.root / "check.sh").write_text("true\n")
    task = checked.project.tasks.add("Do it")
    go(checked, "rm pytest.ini")
    checked.ralph("task", "reset", task.id)

    go(checked, ":")

    assert checked.status(task) is TaskStatus.BLOCKED


def test_a_change_is_not_blamed_on_the_next_task(checked: Trial) -> None:
    first, second = checked.project.tasks.add("First", priority=1), checked.project.tasks.add("Second")
    edit = f"[ $RALPH_TASK_ID = {first.id} ] && {CHEAT}"
    checked.script(f"{edit}\n{SAYS_DONE}\n")
    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    reason = checked.project.tasks.get(second.id).task.reason
    assert checked.status(second) is TaskStatus.BLOCKED
    assert f"left by {first.id}" in reason
    with pytest.raises(ConflictError) as caught:
        checked.project.tasks.approve(second.id)
    assert caught.value.code == "change-of-another-task"
    assert is_offered(checked, first)

    approve(checked, first)
    approve(checked, second)
    checked.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")
    assert checked.status(first) is TaskStatus.DONE
    assert checked.status(second) is TaskStatus.DONE


@pytest.mark.parametrize("iterations", [1, 2])
def test_approving_one_task_does_not_approve_what_another_left(checked: Trial, iterations: int) -> None:
    first, second = checked.project.tasks.add("First", priority=1), checked.project.tasks.add("Second")
    edit = f"[ $RALPH_TASK_ID = {first.id} ] && {CHEAT} || echo : >> lint.sh"
    checked.script(f"{edit}\n{SAYS_DONE}\n")
    for _ in range(3 - iterations):
        checked.ralph("run", "--max-iterations", str(iterations), "--", "sh", "agent.sh")

    held = checked.project.tasks.get(second.id).held
    assert held
    assert [mark.split("\n")[0] for mark in held.marks] == ["lint.sh"]
    approve(checked, second)
    checked.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert checked.status(second) is TaskStatus.BLOCKED
    assert f"left by {first.id}" in checked.project.tasks.get(second.id).task.reason
    assert is_offered(checked, first)


def test_own_changes_are_held_along_with_what_is_still_there(checked: Trial) -> None:
    first, second = checked.project.tasks.add("First", priority=1), checked.project.tasks.add("Second")
    go(checked, CHEAT)
    go(checked, "echo : >> lint.sh")
    checked.git("checkout", "check.sh")
    (checked.root / "check.sh").write_text("true\n")
    checked.ralph("task", "reset", second.id)
    checked.project.tasks.done(first.id)

    go(checked, ":")

    assert checked.status(second) is TaskStatus.BLOCKED
    assert "lint.sh" in checked.project.tasks.get(second.id).task.reason


def test_tests_that_changed_as_well_are_shown_and_approved_with_the_rest(checked: Trial) -> None:
    (checked.root / "tests").mkdir()
    (checked.root / "tests/test_it.sh").write_text("exit 1\n")
    task = checked.project.tasks.add("Do it")

    go(checked, f"{CHEAT}; echo exit 0 > tests/test_it.sh")

    assert "b/tests/test_it.sh" in checked.ralph("task", "show", task.id).out


def test_an_approved_change_of_the_settings_is_merged(checked: Trial) -> None:
    (checked.root / "check.sh").write_text("true\n")
    (checked.root / "agent.sh").write_text(f"echo '# more' >> .ralph.toml\n{SAYS_DONE}\n")
    checked.git("add", "-A")
    checked.git("commit", "-qm", "passes")
    task = checked.project.tasks.add("Do it")
    command = ("run", "--max-iterations", "1", "--parallel", "2", "--", "sh", "agent.sh")
    checked.ralph(*command)
    assert checked.status(task) is TaskStatus.BLOCKED

    approve(checked, task)
    checked.ralph(*command)

    assert checked.status(task) is TaskStatus.DONE
    assert "# more" in checked.git("show", "HEAD:.ralph.toml")


def test_a_held_change_reads_as_held_and_recalls_nothing_when_approved(checked: Trial) -> None:
    checked.project.memory.add("Check things with check.sh before doing it.")
    task = checked.project.tasks.add("Do it with check.sh")

    held = go(checked, CHEAT)
    approve(checked, task)
    approved = go(checked, ":")

    assert "⏸ held" in held
    assert "retried" not in held
    assert checked.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE]
    assert "recalled:" in held
    assert "recalled:" not in approved
