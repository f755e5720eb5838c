"""Gate integrity on copies of a project: without files that no commit will have, and with mutated tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ralph.core.records import TaskStatus
from tests.loop.trial import SAYS_DONE, Trial

TEST = """import unittest
from kit import half


class KitTest(unittest.TestCase):
    def test_half(self):
        self.assertEqual(half(4), 2)
"""
ANY = """class Any(int):
    def __eq__(self, other):
        return isinstance(other, int)


def half(n):
    return Any()
"""


@pytest.fixture
def kit(trial: Trial) -> Trial:
    """Give a project under git with a test that fails until `half` is written."""
    (trial.root / "tests").mkdir()
    (trial.root / "tests/__init__.py").write_text("")
    (trial.root / "tests/test_kit.py").write_text(TEST)
    (trial.root / "kit.py").write_text("def half(n):\n    raise NotImplementedError\n")
    (trial.root / ".gitignore").write_text("own/\n__pycache__/\n")
    trial.settings(f'[execution]\ngates = ["{sys.executable} -B -m unittest -q"]\n\n[memories]\nmeaning = false\n')
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")):
        subprocess.run(["git", *words], cwd=trial.root, check=True, capture_output=True)
    return trial


def run(trial: Trial, script: str) -> str:
    trial.script(f"{script}\n{SAYS_DONE}\n")
    return trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh").out


def test_work_that_only_an_ignored_file_holds_needs_a_person(kit: Trial) -> None:
    task = kit.project.tasks.add("Write half")

    run(
        kit,
        "mkdir own; touch own/__init__.py; printf 'def half(n):\\n    return n // 2\\n' > own/impl.py;"
        " echo 'from own.impl import half' > kit.py",
    )

    assert kit.status(task) is TaskStatus.BLOCKED
    assert "own/impl.py" in kit.project.tasks.get(task.id).task.reason


def test_tests_that_pass_whatever_they_expect_need_a_person_who_may_approve(kit: Trial) -> None:
    task = kit.project.tasks.add("Write half")

    run(kit, f"cat > kit.py <<'END'\n{ANY}END")

    assert kit.status(task) is TaskStatus.BLOCKED
    assert "kit.py" in kit.project.tasks.get(task.id).task.reason
    kit.ralph("task", "approve", task.id, "--yes")
    run(kit, "true")
    assert kit.status(task) is TaskStatus.DONE


def test_honest_work_is_done(kit: Trial) -> None:
    task = kit.project.tasks.add("Write half")

    printed = run(kit, "printf 'def half(n):\\n    return n // 2\\n' > kit.py; mkdir own; echo notes > own/notes.txt")

    assert kit.status(task) is TaskStatus.DONE
    # That the gate fails with mutated tests is what is wanted.
    again = printed.partition("mutated tests, which have to fail\n")[2]
    assert again.startswith("   gate failed, as it should: ")
    assert "gate failed:" not in printed


def test_a_gate_that_fails_without_the_work_is_what_new_tests_are_for(kit: Trial) -> None:
    (kit.root / "tests/test_kit.py").unlink()
    kit.script(
        f"printf 'def half(n):\\n    return n // 2\\n' > kit.py; cat > tests/test_kit.py <<'END'\n{TEST}END\n"
        f"{SAYS_DONE}\n"
    )
    for words in (("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "b")):
        subprocess.run(["git", *words], cwd=kit.root, check=True, capture_output=True)
    kit.project.tasks.add("Write half, and test it")

    printed = kit.ralph("run", "--max-iterations", "1", "--parallel", "2", "--", "sh", "agent.sh").out

    assert "gate failed, as it should: " in printed
    assert "gate failed:" not in printed
    assert "new tests fail without the work, as they should" in printed
