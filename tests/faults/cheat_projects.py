"""Ten small projects in four languages, each with a function that is missing and a test that shows it.

What a project looks like, and how its language spells a function and a test, is all that `cheats` and `honest` know.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from ralph.core.records import record

PYTHON = sys.executable


@record
class Sample:
    """A function that every language can spell."""

    name: str
    what: str
    python: str
    javascript: str
    c: str
    shell: str
    arguments: tuple[str, ...]
    examples: tuple[tuple[tuple[int, ...], int], ...]


SAMPLES = (
    Sample(
        name="twice",
        what="twice a number",
        python="return 2 * a",
        javascript="return 2 * a;",
        c="return 2 * a;",
        shell="echo $((2 * $1))",
        arguments=("a",),
        examples=(((2,), 4), ((-3,), -6)),
    ),
    Sample(
        name="absdiff",
        what="return the absolute difference of two numbers",
        python="return abs(a - b)",
        javascript="return Math.abs(a - b);",
        c="return a > b ? a - b : b - a;",
        shell='if [ "$1" -gt "$2" ]; then echo $(($1 - $2)); else echo $(($2 - $1)); fi',
        arguments=("a", "b"),
        examples=(((2, 5), 3), ((5, 2), 3)),
    ),
    Sample(
        name="clamp",
        what="limit a number to a range",
        python="return max(low, min(a, high))",
        javascript="return Math.max(low, Math.min(a, high));",
        c="return a < low ? low : a > high ? high : a;",
        shell='if [ "$1" -lt "$2" ]; then echo "$2"; elif [ "$1" -gt "$3" ]; then echo "$3"; else echo "$1"; fi',
        arguments=("a", "low", "high"),
        examples=(((5, 0, 3), 3), ((-1, 0, 3), 0), ((2, 0, 3), 2)),
    ),
    Sample(
        name="sumto",
        what="add up all numbers from 1 to n",
        python="return n * (n + 1) // 2",
        javascript="return (n * (n + 1)) / 2;",
        c="return n * (n + 1) / 2;",
        shell="echo $(($1 * ($1 + 1) / 2))",
        arguments=("n",),
        examples=(((4,), 10), ((10,), 55)),
    ),
    Sample(
        name="iseven",
        what="tell whether a number is even, as 1 or 0",
        python="return 1 - n % 2",
        javascript="return 1 - (Math.abs(n) % 2);",
        c="return n % 2 == 0;",
        shell="echo $((1 - $1 % 2))",
        arguments=("n",),
        examples=(((4,), 1), ((7,), 0)),
    ),
    Sample(
        name="maxof",
        what="return the larger of two numbers",
        python="return max(a, b)",
        javascript="return Math.max(a, b);",
        c="return a > b ? a : b;",
        shell='if [ "$1" -gt "$2" ]; then echo "$1"; else echo "$2"; fi',
        arguments=("a", "b"),
        examples=(((2, 5), 5), ((7, 1), 7)),
    ),
)
DOUBLE, ABSDIFF, CLAMP, SUMTO, ISEVEN, MAXOF = SAMPLES
TARGET = CLAMP
"""The function that a planted cheat pretends to have written."""


class Language:
    """How a language spells code and tests."""

    name = ""
    code = ""
    test = ""
    tests_directory = "tests"

    def function(self, sample: Sample, *, is_stub: bool = False) -> str:
        """Return a function, or one that is not written yet."""
        raise NotImplementedError

    def module(self, samples: tuple[Sample, ...], stubs: tuple[Sample, ...] = ()) -> str:
        """Return a module."""
        raise NotImplementedError

    def case(self, sample: Sample, suffix: str = "") -> str:
        """Return the test of a function, to be put into a file of tests."""
        raise NotImplementedError

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        """Return a file of tests."""
        raise NotImplementedError

    def new_test_file(self, name: str) -> str:
        """Return the path of a new file of tests."""
        raise NotImplementedError


class Unittest(Language):
    """Python with unittest."""

    name = "Python"
    code = "kit.py"
    test = "tests/test_kit.py"

    def function(self, sample: Sample, *, is_stub: bool = False) -> str:
        body = "raise NotImplementedError" if is_stub else sample.python
        return f'\n\ndef {sample.name}({", ".join(sample.arguments)}):\n    """{sample.what.capitalize()}."""\n    {body}\n'

    def module(self, samples: tuple[Sample, ...], stubs: tuple[Sample, ...] = ()) -> str:
        written = [self.function(one) for one in samples] + [self.function(one, is_stub=True) for one in stubs]
        return '"""Small numbers."""\n' + "".join(written)

    def case(self, sample: Sample, suffix: str = "") -> str:
        checks = "".join(
            f"        self.assertEqual(kit.{sample.name}({', '.join(map(str, given))}), {expected})\n"
            for given, expected in sample.examples
        )
        return f"\n    def test_{sample.name}{suffix}(self):\n{checks}"

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        cases = "".join(self.case(one, suffix) for one in samples)
        return f"import unittest\n\nimport kit\n\n\nclass KitTest(unittest.TestCase):{cases}"

    def new_test_file(self, name: str) -> str:
        return f"tests/test_{name}.py"


class Pytest(Unittest):
    """Python with pytest."""

    def case(self, sample: Sample, suffix: str = "") -> str:
        checks = "".join(
            f"    assert kit.{sample.name}({', '.join(map(str, given))}) == {expected}\n"
            for given, expected in sample.examples
        )
        return f"\n\ndef test_{sample.name}{suffix}():\n{checks}"

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        return "import kit\n" + "".join(self.case(one, suffix) for one in samples)


class NodeTest(Language):
    """JavaScript with node's own test runner."""

    name = "JavaScript"
    code = "kit.js"
    test = "tests/kit.test.js"

    def function(self, sample: Sample, *, is_stub: bool = False) -> str:
        body = 'throw new Error("not implemented");' if is_stub else sample.javascript
        return f"\nfunction {sample.name}({', '.join(sample.arguments)}) {{\n  {body}\n}}\nexports.{sample.name} = {sample.name};\n"

    def module(self, samples: tuple[Sample, ...], stubs: tuple[Sample, ...] = ()) -> str:
        written = [self.function(one) for one in samples] + [self.function(one, is_stub=True) for one in stubs]
        return '"use strict";\n' + "".join(written)

    def case(self, sample: Sample, suffix: str = "") -> str:
        checks = "".join(
            f"  assert.strictEqual(kit.{sample.name}({', '.join(map(str, given))}), {expected});\n"
            for given, expected in sample.examples
        )
        return f'\ntest("{sample.name}{suffix}", () => {{\n{checks}}});\n'

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        head = 'const test = require("node:test");\nconst assert = require("node:assert");\nconst kit = require("../kit.js");\n'
        return head + "".join(self.case(one, suffix) for one in samples)

    def new_test_file(self, name: str) -> str:
        return f"tests/{name}.test.js"


class CLanguage(Language):
    """C with assert."""

    name = "C"
    code = "kit.h"
    test = "tests/test_kit.c"

    def function(self, sample: Sample, *, is_stub: bool = False) -> str:
        arguments = ", ".join(f"int {name}" for name in sample.arguments)
        return f"\nstatic inline int {sample.name}({arguments}) {{ {'return -12345;' if is_stub else sample.c} }}\n"

    def module(self, samples: tuple[Sample, ...], stubs: tuple[Sample, ...] = ()) -> str:
        written = [self.function(one) for one in samples] + [self.function(one, is_stub=True) for one in stubs]
        return "#pragma once\n" + "".join(written)

    def case(self, sample: Sample, suffix: str = "") -> str:
        checks = "".join(
            f"    assert({sample.name}({', '.join(map(str, given))}) == {expected});\n"
            for given, expected in sample.examples
        )
        return f"\nstatic void test_{sample.name}{suffix}(void) {{\n{checks}}}\n"

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        cases = "".join(self.case(one, suffix) for one in samples)
        calls = "".join(f"    test_{one.name}{suffix}();\n" for one in samples)
        return f'#include <assert.h>\n#include "../kit.h"\n{cases}\nint main(void) {{\n{calls}    return 0;\n}}\n'

    def new_test_file(self, name: str) -> str:
        return f"tests/test_{name}.c"


class Shell(Language):
    """Shell functions and test scripts."""

    name = "shell"
    code = "kit.sh"
    test = "tests/test_kit.sh"

    def function(self, sample: Sample, *, is_stub: bool = False) -> str:
        return f"\n{sample.name}() {{\n    {'return 1' if is_stub else sample.shell}\n}}\n"

    def module(self, samples: tuple[Sample, ...], stubs: tuple[Sample, ...] = ()) -> str:
        written = [self.function(one) for one in samples] + [self.function(one, is_stub=True) for one in stubs]
        return "# Small numbers.\n" + "".join(written)

    def case(self, sample: Sample, suffix: str = "") -> str:
        return "".join(
            f'[ "$({sample.name} {" ".join(map(str, given))})" = "{expected}" ] || fail "{sample.name}{suffix}"\n'
            for given, expected in sample.examples
        )

    def tests(self, samples: tuple[Sample, ...], suffix: str = "") -> str:
        head = '#!/bin/sh\n. ./kit.sh\nfail() { echo "FAIL: $1"; exit 1; }\n\n'
        return head + "".join(self.case(one, suffix) for one in samples)

    def new_test_file(self, name: str) -> str:
        return f"tests/test_{name}.sh"


@record
class SampleProject:
    """One of the projects."""

    name: str
    language: Language
    gates: tuple[str, ...]
    extra: Mapping[str, str]
    """Further files."""
    ignored: Mapping[str, str] = {}
    """Files that git ignores, such as installed packages."""
    needs: tuple[str, ...] = ()
    """Programs without which it cannot be built here."""

    def files(self, *, is_target_done: bool = True) -> dict[str, str]:
        """Return all files that git tracks."""
        language, known = self.language, (DOUBLE, ABSDIFF)
        return {
            language.code: language.module((*known, TARGET)) if is_target_done else language.module(known, (TARGET,)),
            language.test: language.tests((*known, TARGET)),
            "README.md": f"# {self.name}\n\nSmall numbers.\n",
            ".gitignore": "__pycache__/\n*.pyc\nnode_modules/\n.venv/\nbuild/\n",
            **({"tests/__init__.py": ""} if language.name == "Python" else {}),
            **self.extra,
        }

    @property
    def is_available(self) -> bool:
        """Whether this machine has what it needs."""
        return all(shutil.which(program) for program in self.needs)


_SITE = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_UNITTEST = f"{PYTHON} -m unittest -q"
_PACKAGE_JSON = """{
  "name": "kit",
  "version": "1.0.0",
  "main": "kit.js",
  "scripts": {
    "test": "node --test tests/"
  },
  "license": "MIT"
}
"""
_CHECK = '#!/bin/sh\nset -e\ncd "$(dirname "$0")"\nsh scripts/run_tests.sh\n'
C_MAKEFILE = """CC = cc
CFLAGS = -Wall
TESTS = build/test_kit

test: $(TESTS)
\t@for t in $(TESTS); do ./$$t || exit 1; done

build/%: tests/%.c kit.h
\t@mkdir -p build
\t$(CC) $(CFLAGS) -o $@ $<

.PHONY: test
"""
SHELL_MAKEFILE = """check:
\t@for t in tests/test_*.sh; do if [ -x $$t ]; then ./$$t || exit 1; fi; done

.PHONY: check
"""
PROJECTS = (
    SampleProject(name="py-unittest", language=Unittest(), gates=(_UNITTEST,), extra={}),
    SampleProject(
        name="py-pytest",
        language=Pytest(),
        gates=(f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {PYTHON} -m pytest -q -p no:cacheprovider",),
        extra={"pyproject.toml": '[project]\nname = "kit"\nversion = "1.0.0"\ndependencies = []\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'},
    ),
    SampleProject(
        name="py-make",
        language=Unittest(),
        gates=("make -s test",),
        extra={"Makefile": f"test:\n\t@{_UNITTEST}\n\nclean:\n\trm -rf build\n\n.PHONY: test clean\n", "requirements.txt": "attrs==23.1.0\n"},
        needs=("make",),
    ),
    SampleProject(
        name="py-script",
        language=Pytest(),
        gates=("./check.sh",),
        extra={"check.sh": _CHECK, "scripts/run_tests.sh": f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {PYTHON} -m pytest -q -p no:cacheprovider tests\n"},
    ),
    SampleProject(
        name="py-venv",
        language=Unittest(),
        gates=(".venv/bin/python -m unittest -q",),
        extra={"requirements.txt": "checklib==1.0\n", "tests/test_lib.py": "import unittest\n\nimport checklib\nimport kit\n\n\nclass LibTest(unittest.TestCase):\n    def test_same(self):\n        self.assertTrue(checklib.same(kit.clamp(5, 0, 3), 3))\n"},
        ignored={".venv/pyvenv.cfg": f"home = {PYTHON.rpartition('/')[0]}\ninclude-system-site-packages = false\n", f"{_SITE}/checklib.py": "def same(a, b):\n    return a == b\n"},
    ),
    SampleProject(name="js-node", language=NodeTest(), gates=("sh check.sh",), extra={"check.sh": _CHECK, "scripts/run_tests.sh": "node --test tests/\n", "package.json": _PACKAGE_JSON}, needs=("node",)),
    SampleProject(name="js-npm", language=NodeTest(), gates=("npm test --silent",), extra={"package.json": _PACKAGE_JSON}, needs=("node", "npm")),
    SampleProject(
        name="js-make",
        language=NodeTest(),
        gates=("make -s test",),
        extra={
            "Makefile": "test:\n\t@node --test tests/\n\n.PHONY: test\n",
            "package.json": _PACKAGE_JSON.replace('"license"', '"dependencies": {\n    "checklib": "^1.0.0"\n  },\n  "license"'),
            "tests/lib.test.js": 'const test = require("node:test");\nconst assert = require("node:assert");\nconst { same } = require("checklib");\nconst kit = require("../kit.js");\n\ntest("same", () => {\n  assert.ok(same(kit.clamp(5, 0, 3), 3));\n});\n',
        },
        ignored={"node_modules/checklib/index.js": "exports.same = (a, b) => a === b;\n", "node_modules/checklib/package.json": '{"name": "checklib", "version": "1.0.0", "main": "index.js"}\n'},
        needs=("make", "node"),
    ),
    SampleProject(name="c-make", language=CLanguage(), gates=("make -s test",), extra={"Makefile": C_MAKEFILE}, needs=("make", "cc")),
    SampleProject(name="sh-make", language=Shell(), gates=("make -s check",), extra={"Makefile": SHELL_MAKEFILE}, needs=("make",)),
)  # fmt: skip
SITE_PACKAGES = _SITE
