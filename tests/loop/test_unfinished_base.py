"""What an attempt left that was cut off is no base by which the next ones are judged."""

from __future__ import annotations

from ralph.core.records import TaskStatus
from tests.loop.trial import SAYS_DONE, Trial

CHECK = """\
import pathlib, sys
parts = pathlib.Path("parts").glob("*.txt")
sys.exit(any(part.read_text() != "ok\\n" for part in parts))
"""


def prepare(trial: Trial, session: str) -> None:
    """Let the first session break off in the middle of its work, and later ones do theirs."""
    (trial.root / "check.py").write_text(CHECK)
    (trial.root / "parts").mkdir()
    (trial.root / "parts" / "old.txt").write_text("ok\n")
    trial.settings(
        '[agent]\nname = "command"\ncommand = ["sh", "agent.sh"]\n[execution]\ngates = ["python3 check.py"]\n'
    )
    trial.script(
        f"""
cat > /dev/null
if [ ! -e .ralph/started ]; then
    echo half > parts/$RALPH_TASK_ID.txt; {session}
    touch .ralph/started; sleep 60
fi
echo ok > parts/$RALPH_TASK_ID.txt; echo ok > parts/old.txt
{SAYS_DONE}
"""
    )
    trial.commit_all()


def cut_off(trial: Trial) -> None:
    """Kill a run in the middle of its first session."""
    run = trial.start("run")
    trial.soon(".ralph/started")
    run.kill()
    run.communicate()


def test_a_file_that_a_killed_attempt_left_half_written_can_be_finished(trial: Trial) -> None:
    prepare(trial, "")
    tasks = [trial.project.tasks.add(f"Write part {number}") for number in range(3)]
    cut_off(trial)

    trial.ralph("run")

    assert [trial.status(task) for task in tasks] == [TaskStatus.DONE] * 3
    assert len(trial.git("log", "--format=%(trailers:key=Ralph-Task,valueonly)").split()) == 3


def test_neither_does_what_it_changed_count_for_other_tasks(trial: Trial) -> None:
    prepare(trial, "echo broken > parts/old.txt")
    first = trial.project.tasks.add("Write a part")
    cut_off(trial)
    other = trial.project.tasks.add("Write another part", priority=9)

    trial.ralph("run")

    assert [trial.status(task) for task in (first, other)] == [TaskStatus.DONE] * 2
    assert all("retried" not in str(one.outcome) for one in trial.attempts())


def test_nor_what_a_failed_attempt_left_that_a_later_run_goes_on_with(trial: Trial) -> None:
    prepare(trial, "")
    trial.script(
        f"""
cat > /dev/null
[ -e .ralph/again ] && word=ok || word=bad
echo $word > parts/$RALPH_TASK_ID.txt
{SAYS_DONE}
"""
    )
    trial.commit_all()
    failing = trial.project.tasks.add("Write a part")
    trial.ralph("run", "--max-iterations", "1")
    (trial.root / ".ralph/again").touch()
    other = trial.project.tasks.add("Write another part")

    trial.ralph("run")

    assert [trial.status(task) for task in (failing, other)] == [TaskStatus.DONE] * 2
