"""Mutated tests: gates that cannot fail any more are noticed, honest work is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.records import GateResult, VerificationResult
from ralph.loop.integrity.mutation import find_defeat

pytestmark = pytest.mark.storeless

TEST = """from __future__ import annotations

import unittest

from kit import half


class KitTest(unittest.TestCase):
    def test_half(self):
        self.assertEqual(half(4), 2)
"""
OTHER_TEST = (
    "import unittest\n\n\nclass OtherTest(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 1)\n"
)
HONEST = "def half(n):\n    return n // 2\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/__init__.py").write_text("")
    (tmp_path / "tests/test_kit.py").write_text(TEST)
    (tmp_path / "tests/test_other.py").write_text(OTHER_TEST)
    return tmp_path


def defeat(project: Path, product: str, *gate: str) -> str:
    """Return how a product defeats the tests."""
    (project / "kit.py").write_text(product)
    tests = [str(path.relative_to(project)) for path in project.glob("tests/test_*.py")]
    command = gate or (sys.executable, "-B", "-m", "unittest", "-q")
    assert subprocess.run(command, cwd=project, capture_output=True, check=False).returncode == 0
    return find_defeat(project, tests, ["kit.py"], lambda place: _run(place, command))


def _run(place: Path, command: tuple[str, ...]) -> VerificationResult:
    ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    gate = GateResult(command="", passed=ran.returncode == 0, output=ran.stderr, seconds=0.0)
    return VerificationResult(gates=(gate,))


@pytest.mark.parametrize(
    "product",
    [
        "class Any(int):\n    def __eq__(self, other):\n        return isinstance(other, int)\n\n\n"
        "def half(n):\n    return Any()\n",
        "def half(n):\n    raise next(one for one in Exception.__subclasses__() if one.__name__ == 'SkipTest')\n",
        "import atexit\nfrom os import _exit as leave\n\natexit.register(leave, 0)\n\n\ndef half(n):\n    return 0\n",
        "import os\n\n\ndef half(n):\n    os.execv('/bin/true', ['true'])\n",
        "import os\n\nvars(os)['_exit'](0)\n\n\ndef half(n):\n    return 0\n",
        "import gc\n\nfor one in gc.get_objects():\n    if isinstance(one, type) and one.__name__ == 'TestCase':\n"
        "        one.run = lambda self, result=None: result\n\n\ndef half(n):\n    return 0\n",
    ],
)
def test_code_that_defeats_its_tests_is_noticed(project: Path, product: str) -> None:
    assert "tests/test_kit.py" in defeat(project, product)


def test_code_that_keeps_a_test_from_being_loaded_is_noticed(project: Path) -> None:
    hidden = (
        "import os\nimport sys\nimport types\n\nfake = types.ModuleType('tests.test_zoo')\n"
        "fake.__file__ = os.path.abspath('tests/test_zoo.py')\nsys.modules[fake.__name__] = fake\n\n\n"
    )
    (project / "tests/test_zoo.py").write_text(TEST.replace("half(4), 2", "half(4), 3"))

    assert "tests/test_zoo.py" in defeat(project, hidden + HONEST)


def test_honest_code_fails_mutated_tests(project: Path) -> None:
    assert defeat(project, HONEST) == ""


@pytest.mark.parametrize(
    "test",
    [
        "import unittest\n\n\nclass KitTest(unittest.TestCase):\n"
        "    def test_half(self):\n        self.skipTest('no kit')\n",
        "import unittest\n\n\n@unittest.skip('kit')\nclass KitTest(unittest.TestCase):\n"
        "    def test_half(self):\n        assert 1 == 2\n",
        "import unittest\nfrom kit import half\n\n\nclass KitTest(unittest.TestCase):\n    @unittest.expectedFailure\n"
        "    def test_half(self):\n        self.assertEqual(half(4), 3)\n",
        "import unittest\nfrom kit import half\n\n\nclass KitTest(unittest.TestCase):\n    def test_half(self):\n"
        "        with self.assertRaises(TypeError):\n            half(None)\n",
        "from kit import half\n\nassert half(4) == 2\n",
    ],
)
def test_tests_with_reasons_of_their_own_raise_no_alarm(project: Path, test: str) -> None:
    (project / "tests/test_kit.py").write_text(test)

    assert defeat(project, HONEST) == ""


def test_tests_that_the_gates_do_not_run_raise_no_alarm(project: Path) -> None:
    assert defeat(project, HONEST, sys.executable, "-B", "-m", "unittest", "-q", "tests.test_other") == ""


def test_a_gate_that_stops_at_the_first_failure_raises_no_alarm(project: Path) -> None:
    (project / "tests/test_zoo.py").write_text(TEST)
    each = (
        "for one in tests.test_kit tests.test_zoo; do " + f"'{sys.executable}' -B -m unittest -q $one || exit 1; done"
    )

    assert defeat(project, HONEST, "sh", "-c", each) == ""
