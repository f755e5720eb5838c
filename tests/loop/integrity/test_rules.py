"""Rules of gate integrity: which files are protected, what a task may change, and which changes cannot matter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ralph.loop.integrity.dependencies import InstalledPackages
from ralph.loop.integrity.hijacks import find_hijacks
from ralph.loop.integrity.judge import compare
from ralph.loop.integrity.overlay import copied_project
from ralph.loop.integrity.protected import ProtectedKind, Protection, gate_scripts
from ralph.loop.integrity.scope import scope_of
from ralph.loop.integrity.snapshot import CommitSnapshot, DirectorySnapshot, FileState, TreeSnapshot
from ralph.loop.integrity.structure import is_harmless, redefined_parts, unmade_targets

pytestmark = pytest.mark.storeless


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("Makefile", ProtectedKind.BUILD),
        ("sub/package.json", ProtectedKind.BUILD),
        (".github/workflows/test.yml", ProtectedKind.CI),
        ("tests/conftest.py", ProtectedKind.TEST_CONFIG),
        ("tests/test_a.py", ProtectedKind.TEST),
        ("src/a.test.ts", ProtectedKind.TEST),
        ("pkg/a_test.go", ProtectedKind.TEST),
        ("src/test/java/ATest.java", ProtectedKind.TEST),
        ("tests/fixtures/app/package.json", ProtectedKind.TEST),
        ("tests/fixtures/conftest.py", ProtectedKind.TEST_CONFIG),
        (".pytest.toml", ProtectedKind.TEST_CONFIG),
        ("fast.egg-info/entry_points.txt", ProtectedKind.TEST_CONFIG),
        (".ralph.toml", ProtectedKind.SETTINGS),
        ("lib/sitecustomize.py", ProtectedKind.INTERPRETER),
        ("src/assert.h", ProtectedKind.INTERPRETER),
        ("src/parser.py", None),
        ("README.md", None),
        ("latest/report.md", None),
    ],
)
def test_files_that_decide_are_known_by_their_path(path: str, kind: ProtectedKind | None) -> None:
    assert Protection().kind_of(path) is kind


def test_scripts_that_a_gate_runs_are_found_through_each_other() -> None:
    files = {"check.sh": b"sh ci/run.sh\npython app.py\n", "ci/run.sh": b"./ci/lint\n", "ci/lint": b"", "app.py": b""}

    assert gate_scripts(["./check.sh --fast"], files) == {"check.sh", "ci/run.sh", "ci/lint"}


@pytest.mark.parametrize(
    ("gate", "files", "found"),
    [
        ("make t", {"Makefile": b"t:\n\t@python qa/run.py\n", "qa/run.py": b"import unittest\n"}, {"qa/run.py"}),
        ("make t", {"Makefile": b"-include local.conf\nt:\n\ttrue\n"}, {"local.conf"}),
        (
            "npm test",
            {"package.json": b'{"scripts": {"test": "node scripts/run.js"}}', "scripts/run.js": b""},
            {"scripts/run.js"},
        ),
        ("python -m quality", {"quality/__main__.py": b"import unittest\n"}, {"quality/__main__.py"}),
        ("cd qa && python run.py", {"qa/run.py": b"import subprocess\n"}, {"qa/run.py"}),
        ("bash -c 'sh qa/one.sh'", {"qa/one.sh": b"make test\n"}, {"qa/one.sh"}),
        ("pytest -c etc_pytest.cfg -p plug", {"etc_pytest.cfg": b"", "plug.py": b""}, {"etc_pytest.cfg", "plug.py"}),
        ("python app.py --version", {"app.py": b"print(1)\n"}, set()),
        ("mypy calc.py", {"calc.py": b"assert True\n", "Makefile": b"t:\n\tsh x.sh\n", "x.sh": b""}, set()),
    ],
)
def test_what_a_gate_runs_is_found_behind_build_files_and_options(
    gate: str, files: dict[str, bytes], found: set[str]
) -> None:
    assert gate_scripts([gate], files) == found


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("unittest.py", True),
        ("json/__init__.py", True),
        ("tests/pytest.py", True),
        ("src/logging.py", True),
        ("app/types.py", False),
        ("helpers.py", False),
    ],
)
def test_a_new_module_must_not_hide_another(path: str, hides: bool) -> None:
    assert Protection().shadows(path, {"tests"}, {"app"}) is hides


@pytest.mark.parametrize(
    ("text", "path", "kind", "allowed"),
    [
        ("Add a lint target to the Makefile", "Makefile", ProtectedKind.BUILD, True),
        ("Raise the version in package.json", "package.json", ProtectedKind.BUILD, True),
        ("Rewrite tests/test_parser.py", "tests/test_parser.py", ProtectedKind.TEST, True),
        ("Return 404 instead of 400 and update the tests", "tests/test_api.py", ProtectedKind.TEST, True),
        ("Set up GitHub Actions", ".github/workflows/ci.yml", ProtectedKind.CI, True),
        ("Make tests/test_parser.py pass", "tests/test_parser.py", ProtectedKind.TEST, False),
        ("Fix the failing tests", "tests/test_parser.py", ProtectedKind.TEST, False),
        ("Fix the parser. Do not change tests/test_parser.py.", "tests/test_parser.py", ProtectedKind.TEST, False),
        ("Add a parser. All tests must pass.", "tests/test_parser.py", ProtectedKind.TEST, False),
        ("Update the parser so that package.json is read", "package.json", ProtectedKind.BUILD, False),
        ("Add tests for the parser", "tests/test_parser.py", ProtectedKind.TEST, False),
        ("Rename mul to multiply everywhere, also in tests", "tests/test_mul.py", ProtectedKind.TEST, True),
        ("Rename calc to arith, including the imports in the tests", "tests/test_a.py", ProtectedKind.TEST, True),
        ("Fix bin/clamp: it must print 5", "bin/clamp", ProtectedKind.GATE, True),
        ("Fix clamp", "check.sh", ProtectedKind.GATE, False),
        ("Fix tests/test_parser.py", "tests/test_parser.py", ProtectedKind.TEST, False),
    ],
)
def test_words_allow_what_they_ask_for(text: str, path: str, kind: ProtectedKind, allowed: bool) -> None:
    assert scope_of((), [text]).allows(path, kind) is allowed


def test_a_task_about_one_part_of_a_file_does_not_cover_another() -> None:
    before = b"test:\n\t./run\n"
    lint, cheat = before + b"\nlint:\n\truff check\n", b"test:\n\ttrue\n\nlint:\n\truff check\n"
    scope = scope_of((), ["Add a lint target to the Makefile"])

    assert scope.covers("Makefile", redefined_parts("Makefile", before, lint))
    assert not scope.covers("Makefile", redefined_parts("Makefile", before, cheat))
    assert scope_of((), ["Rewrite the Makefile"]).covers("Makefile", redefined_parts("Makefile", before, cheat))
    assert scope_of(("Makefile",), []).covers("Makefile", redefined_parts("Makefile", before, cheat))


@pytest.mark.parametrize(
    "line",
    [
        "override SHELL := /bin/true",
        ".DEFAULT_GOAL := lint",
        "lint test: SHELL = /bin/true",
        "x: $(eval SHELL := /bin/true)",
        "sinclude lint.conf",
        "RUN = true",
    ],
)
def test_a_new_target_does_not_cover_a_line_that_redefines_others(line: str) -> None:
    before = "test:\n\t$(RUN) ./run\n"
    after = f"{before}\nlint:\n\truff check\n\n{line}\n"

    scope = scope_of((), ["Refactor clamp and add a lint target to the Makefile"])
    parts = redefined_parts("Makefile", before.encode(), after.encode())

    assert not scope.covers("Makefile", parts)


@pytest.mark.parametrize("title", ["Add a clean target", "Make it installable with make install"])
def test_a_target_is_asked_for_by_its_name(title: str) -> None:
    assert scope_of((), [title]).allows("Makefile", ProtectedKind.BUILD)


@pytest.mark.parametrize(
    ("path", "before", "after", "harmless"),
    [
        ("package.json", '{"scripts": {"test": "a"}}', '{"scripts": {"test": "a"}, "dependencies": {"x": "^1"}}', True),
        ("package.json", '{"scripts": {"test": "a"}}', '{"scripts": {"test": "a", "lint": "b"}}', True),
        ("package.json", '{"scripts": {"test": "a"}}', '{"scripts": {"test": "true"}}', False),
        ("package.json", '{"scripts": {"test": "a"}}', '{"scripts": {"test": "a", "pretest": "b"}}', False),
        ("package.json", '{"scripts": {"test": "a"}}', '{"scripts": {"test": "b", "test": "a"}}', False),
        ("package.json", "{}", '{"dependencies": {"x": "file:./evil"}}', False),
        ("package.json", "{}", '{"jest": {"testMatch": []}}', False),
        ("pyproject.toml", "[project]\nversion = '1'", "[project]\nversion = '2'\ndependencies = ['a>=1']", True),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = '--co'", False),
        ("pyproject.toml", "[project]\n", "[project]\ndependencies = ['a @ file:///x']", False),
        ("Cargo.toml", "[package]\nname = 'a'", "[package]\nname = 'a'\n[dependencies]\nserde = '1'", True),
        ("Cargo.toml", "[package]\nname = 'a'", "[package]\nname = 'a'\n[lib]\ntest = false", False),
        ("Makefile", "SRCS = a.c\n", "SRCS = a.c b.c\n", True),
        ("Makefile", "test:\n\t./run\n", "test:\n\t./run || true\n", False),
        ("conftest.py", "", "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n", True),
        ("conftest.py", "", "def pytest_collection_modifyitems(items):\n    items.clear()\n", False),
        ("conftest.py", "", "import pytest\n\n@pytest.fixture(autouse=True)\ndef one():\n    pytest.skip()\n", False),
        ("conftest.py", "", "import unittest\nunittest.TestCase.run = None\n", False),
        ("conftest.py", "", "import json\nfrom calc import App\n", True),
        ("conftest.py", "", "class Fake:\n    total = 0\n\n    def run(self):\n        return 1\n", True),
        ("conftest.py", "", "from hooks import pytest_collection_modifyitems\n", False),
        ("conftest.py", "", "from hooks import clear as pytest_collection_modifyitems\n", False),
        ("conftest.py", "", "from hooks import *\n", False),
        ("conftest.py", "", "X = exec('import calc')\n", False),
        ("conftest.py", "import sys\nsys.path.append('src')\n", 'sys.path.append("src")\nX = 1\n', True),
        ("conftest.py", "", "import sys\nsys.path.insert(0, 'fakes')\n", False),
        ("package.json", "{}", '{"bin": {"kit": "cli.js"}, "engines": {"node": ">=20"}}', True),
        ("package.json", "{}", '{"bin": {"node": "cli.js"}}', False),
        ("pyproject.toml", "[build-system]\nrequires = ['a']", "[build-system]\nrequires = ['a>=2']", True),
        (
            "pyproject.toml",
            "[build-system]\nrequires = []",
            "[build-system]\nrequires = []\nbackend-path = ['.']",
            False,
        ),
        (".env", "A=1\n", "A=1\nLIMIT=3\n# why\n", True),
        (".env", "A=1\n", "A=2\n", False),
        (".env", "A=1\n", "A=1\nPYTEST_ADDOPTS=--co\n", False),
        (".env", "A=1\n", "A=1\nB=$(touch x)\n", False),
        ("conftest.py", "", "class H:\n    import calc\n    calc.add = None\n", False),
        ("a.egg-info/entry_points.txt", "", "[console_scripts]\ncalc = calc:main\n", True),
        ("a.egg-info/entry_points.txt", "", "[pytest11]\na = plugin\n", False),
        ("Makefile", "t: a.c\n\t./a\n", "t: a.c\n\t./a\n\nb: b.c\n\t$(CC) -o $@ b.c\n", True),
        ("Makefile", "t:\n\t./a\n", "noop:\n\nt:\n\t./a\n", False),
        ("Makefile", "t:\n\t./a\n", "t:\n\t./a\n\nx: $(eval SHELL:=/bin/true)\n", False),
        ("Makefile", "t:\n\t./a\n", "t:\n\t./a\n\nx: SHELL=/bin/true\n", False),
        ("Makefile", "t: b/a\n\t./b/a\n", "t: b/a\n\t./b/a\n\nb/a: a.c\n\t$(CC) -DNDEBUG -o $@ a.c\n", False),
        ("Makefile", "PY = python\nt:\n\t$(PY)\n", "PY = ./test_py python\nt:\n\t$(PY)\n", False),
        (".gitattributes", "", "*.md text\n", True),
        (".gitattributes", "", "* filter=evil\n", False),
    ],
)
def test_a_change_that_cannot_matter_is_told_by_its_structure(
    path: str, before: str, after: str, harmless: bool
) -> None:
    assert is_harmless(path, before.encode(), after.encode()) is harmless


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "unittest.TestCase.run = fake\n", True),
        ("a.py", "atexit.register(os._exit, 0)\n", True),
        ("a.py", "sys.modules['pytest'] = fake\n", True),
        ("a.py", "sys.exit(main())\n", False),
        ("tests/a.py", "import unittest\n\nself.assertEqual(a, b)\n", False),
        ("run_tests.py", "import unittest\nunittest.main()\n", False),
        ("a.py", "import unittest\n\n\ndef f():\n    raise unittest.SkipTest('x')\n", True),
        ("a.py", "from pytest import skip\n", True),
        ("a.py", "import doctest\ndoctest.testmod()\n", False),
        ("tests/a.py", "from unittest import TestCase as C\nC.assertEqual = print\n", True),
        ("a.py", "class A:\n    def __eq__(self, other):\n        return True\n", True),
        ("a.py", "class A:\n    def __eq__(self, other):\n        return self.a == other.a\n", False),
        ("a.py", f"import unittest\nunittest.TestCase.run = f\n{'# x' * 200_000}\n", True),
        ("a.py", "# x" * 1_000_000, True),
        ("a.py", "import os\npid = os.fork()\nif pid == 0:\n    main()\n    os._exit(0)\n", False),
        ("a.py", "import os\npid = os.fork()\nif pid:\n    os._exit(0)\n", True),
        ("a.py", "import os\nos.fork()\nx = 0\nif x == 0:\n    os._exit(0)\n", True),
        ("a.py", "def finders():\n    return list(sys.meta_path)\n", False),
        ("a.py", "finders = sys.meta_path\nfinders.insert(0, F())\n", True),
        ("a.js", "const check = require('node:assert');\ncheck.strictEqual = () => {};\n", True),
        ("a.js", "const assert = require('node:assert');\nassert(x);\n", False),
        ("a.js", "const { test } = require('node:test');\n", True),
        ("a.js", "assert.strictEqual = () => {};\n", True),
        ("a.js", "process.exit(1);\n", False),
        ("a.js", "process.exit(0);\nexports.add = 1;\n", True),
        ("a.py", "import sys\nsys.exit(0)\n", True),
        ("a.py", "def main():\n    sys.exit(0)\n", False),
        ("a.py", "import os\nos.execv('/bin/true', ['true'])\n", True),
        ("a.h", "#define assert(x) (void)0\n", True),
        ("a.sh", "trap 'exit 0' EXIT\n", True),
        ("a.sh", "trap 'exit 0' TERM EXIT\n", True),
        ("a.sh", 'trap "exit 0" TERM INT\n', False),
        ("a.h", "#define EXPECTED 5\n", False),
        ("a.h", "#define EXPECT_EQ(a, b)\n", True),
        ("a.py", "class C: pass\n\nSession.timeout = 5\n", False),
        ("a.py", "Session.runtestloop = None\n", True),
        ("a.py", "for one in sys.meta_path:\n    print(one)\n", False),
        ("a.py", "sys.meta_path.insert(0, Fake())\n", True),
        ("a.sh", "trap 'rm -f tmp' EXIT\nexit 0\n", False),
    ],
)
def test_statements_that_change_how_a_gate_ends_are_found(path: str, text: str, found: bool) -> None:
    assert bool(find_hijacks(path, text.encode())) is found


def tree(files: dict[str, str], links: dict[str, str] | None = None) -> TreeSnapshot:
    """Give a snapshot of files and links."""
    texts = {**files, **(links or {})}
    found = TreeSnapshot({path: FileState(digest=text, is_link=path in (links or {})) for path, text in texts.items()})
    found.contents = {path: text.encode() for path, text in texts.items()}
    found.hijacks = {path: find_hijacks(path, text.encode()) for path, text in files.items()}
    return found


@pytest.mark.parametrize("before", [{}, {"calc.py": "x = 1\n"}])
def test_a_link_out_of_the_project_needs_a_person_also_in_place_of_a_file(before: dict[str, str]) -> None:
    outside, inside = tree({}, {"calc.py": "../x.py"}), tree({}, {"calc.py": "lib/x.py"})
    scope = scope_of((), ["Change calc.py"])

    assert compare(tree(before), outside, Protection(), scope).for_person
    assert not compare(tree(before), inside, Protection(), scope).for_person
    assert not compare(tree(before), outside, Protection(), scope_of(("calc.py",), [])).for_person


@pytest.mark.parametrize(
    ("title", "path", "before", "after", "is_renaming"),
    [
        ("Rename kit.py to box.py", "Makefile", "t:\n\tpython kit.py\n", "t:\n\tpython box.py\n", True),
        ("Rename kit.py to box.py", "Makefile", "t:\n\tpython kit.py\n", "t:\n\ttrue box.py\n", False),
        ("Change kit.py to be like box.py", "Makefile", "t:\n\tpython kit.py\n", "t:\n\tpython box.py\n", False),
        ("Do not rename kit to box", "Makefile", "t:\n\tpython -m kit\n", "t:\n\tpython -m box\n", False),
    ],
)
def test_names_may_change_where_a_person_asks_for_it(
    title: str, path: str, before: str, after: str, is_renaming: bool
) -> None:
    report = compare(tree({path: before}), tree({path: after}), Protection(), scope_of((), [title]))

    assert bool(report.for_person) is not is_renaming


TESTS = {"tests/test_a.py": "cases = json.load(open('cases.json'))\nsee(HERE / 'golden')\n"}


@pytest.mark.parametrize(
    ("path", "gate", "counts"),
    [
        ("cases.json", "make test", True),
        ("golden/one.txt", "make test", True),
        ("golden/plain", "make test", True),
        ("data/other.json", "make test", False),
        ("Tests/one.py", "make test", True),
        ("testutil.py", "make test", True),
        ("contest/data.csv", "make test", False),
        ("notes.txt", "cd . && make test", False),
        ("qa/a.sh", "for f in qa/*.sh; do sh $f; done", True),
        ("qa/run", "D=qa; sh $D/run", True),
        ("out.txt", "./kit | diff - out.txt", True),
        ("src/kit.py", "ruff check src", False),
        ("src/units.json", "ruff check src", False),
    ],
)
def test_what_tests_and_gates_read_counts_as_a_test(path: str, gate: str, counts: bool) -> None:
    base, now = tree({**TESTS, path: "1\n"}), tree({**TESTS, path: "2\n"})

    report = compare(base, now, Protection(gates=(gate,)), scope_of((), []))

    assert ([one.path for one in report.tests] == [path]) is counts


def test_a_list_that_a_gate_reads_names_what_it_runs() -> None:
    files = {"list": "qa/all\n", "qa/all": "1\n"}
    protection = Protection(gates=("for f in $(cat list); do sh $f; done",))

    report = compare(tree(files), tree({**files, "qa/all": "2\n"}), protection, scope_of((), []))

    assert [one.path for one in report.tests] == ["qa/all"]


def test_tests_are_known_by_their_content_where_they_have_no_usual_name() -> None:
    case = "import unittest\n\n\nclass A(unittest.TestCase):\n    pass\n"
    base = tree({"t/one.py": case, "kit.py": "x = 1\n"})
    now = tree({"t/one.py": "", "t/two.py": case, "kit.py": f"x = 1\n{case}"})

    report = compare(base, now, Protection(), scope_of((), []))

    assert [one.path for one in report.tests] == ["t/one.py"]
    assert [one.path for one in report.for_person] == ["kit.py"]


def test_a_task_that_names_a_file_does_not_allow_every_statement_in_it() -> None:
    base, now = tree({"calc.py": "x = 1\n"}), tree({"calc.py": "import os\nos._exit(0)\n"})

    assert compare(base, now, Protection(), scope_of((), ["Add rounding to calc.py"])).for_person
    assert not compare(base, now, Protection(), scope_of(("calc.py",), [])).for_person


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def test_files_above_a_project_are_compared_and_copied(tmp_path: Path) -> None:
    write(tmp_path, "app/calc.py", "shared/util.py", "conftest.py")
    (tmp_path / "shared/link").symlink_to("util.py")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    commit = CommitSnapshot(tmp_path, "HEAD", "app/")

    assert commit.states.keys() == {"calc.py", "../shared/util.py", "../shared/link", "../conftest.py"}
    assert [str(one) for one in compare(tree({}), commit, Protection(), scope_of((), [])).for_person] == [
        "../conftest.py (test configuration, added)"
    ]
    with copied_project(tmp_path / "app") as copy:
        assert (copy / "calc.py").exists()
        assert (copy / "../shared/util.py").exists()


def test_a_directory_is_compared_with_the_files_above_it_and_the_code_in_caches(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", ".git/objects/a.py", "top/app/calc.py", "top/other/x.py")
    base = DirectorySnapshot(tmp_path / "top/app", lambda path: True)
    write(tmp_path, "conftest.py", "top/app/.cache/h.py", "top/app/.cache/h.json", "top/app/.mypy_cache/x/y.py")

    now = DirectorySnapshot(tmp_path / "top/app", lambda path: True, base)

    assert base.states.keys() == {"calc.py"}
    assert now.states.keys() == {"calc.py", "../../conftest.py", ".cache/h.py", ".mypy_cache/x/y.py"}


def test_packages_that_are_installed_again_with_the_same_content_are_not_changed(tmp_path: Path) -> None:
    same, other, nested = (
        tmp_path / "node_modules/a/same.js",
        tmp_path / "node_modules/a/other.js",
        tmp_path / "web/node_modules/b.js",
    )
    write(tmp_path, "node_modules/a/same.js", "node_modules/a/other.js", "web/package.json", "web/node_modules/b.js")
    installed = InstalledPackages(tmp_path)
    installed.wait()
    content = same.read_bytes()
    for path in (same, other, nested):
        path.unlink()
    same.write_bytes(content)
    other.write_text("edited")
    nested.write_text("edited")

    found = installed.changes(tmp_path, tree({}), tree({}))

    assert [one.path for one in found] == ["node_modules/a/other.js", "web/node_modules/b.js"]
    again = InstalledPackages(tmp_path)
    assert again.changes(tmp_path, tree({}), tree({})) == []
    assert again.has_found(found[0].path, found[0].digest)


@pytest.mark.parametrize("planted", ["pytest/__init__.py", "tests/helper.py", "test/node_modules/check/index.js"])
def test_a_directory_that_only_looks_like_installed_packages_is_compared(tmp_path: Path, planted: str) -> None:
    write(tmp_path, "tests/test_a.py")
    base = DirectorySnapshot(tmp_path, lambda path: True)
    write(tmp_path, planted, "pytest/pyvenv.cfg", "pytest/bin/python", "tests/pyvenv.cfg", "tests/bin/python")
    write(
        tmp_path, "env/pyvenv.cfg", "env/bin/python", "env/lib/typing.py", "web/package.json", "web/node_modules/a.js"
    )

    now = DirectorySnapshot(tmp_path, lambda path: True, base)

    assert planted in now.states
    assert {"env", "web/node_modules"} <= now.dependencies


@pytest.mark.parametrize(
    "text",
    [
        "Rewrite parse_amount in shop/money.py, tests are in tests/test_money.py",
        "Add parse_amount to shop/money.py as tests/test_money.py expects",
        "Implement parse_amount (see tests/test_money.py) and update README.md",
        "Update the implementation to the behavior described in tests/test_money.py",
        "Update shop/money.py for the new cases in tests/test_money.py",
    ],
)
def test_a_file_that_a_task_refers_to_is_not_in_its_scope(text: str) -> None:
    assert not scope_of((), (text,)).allows("tests/test_money.py", ProtectedKind.TEST)


def test_a_file_that_a_task_is_about_is_in_its_scope() -> None:
    for text in ("Rewrite the cases in tests/test_money.py", "Add new cases to tests/test_money.py"):
        assert scope_of((), (text,)).allows("tests/test_money.py", ProtectedKind.TEST)


def test_a_renamed_function_does_not_rename_the_module_of_its_name() -> None:
    scope = scope_of((), ("Rename slug to slugify",))

    assert scope.rename(b"const { slug } = require('../lib/slug');") == b"const { slugify } = require('../lib/slug');"
    assert scope.rename(b"from lib.slug import slug") == b"from lib.slug import slugify"


def test_targets_that_stand_for_no_file_are_known() -> None:
    text = ".PHONY: lint\ncheck: prog\n\t./prog\nlint:\n\truff .\nprog: a.c\n\tcc -o $@ a.c\nout:\n\tmkdir -p out\n"

    assert unmade_targets(text) == {"check"}


def test_a_file_with_the_name_of_a_target_needs_a_person() -> None:
    base = TreeSnapshot({"Makefile": FileState(digest="m")})
    base.contents["Makefile"] = b"test:\n\tsh tests/run.sh\n"
    now = TreeSnapshot({**base.states, "test": FileState(digest="t")})

    assert [one.path for one in compare(base, now, Protection(), scope_of((), ())).for_person] == ["test"]


def test_a_script_that_a_test_runs_is_what_it_tests() -> None:
    files: dict[str, bytes | None] = {
        "tests/run.sh": b". ./lib/common.sh\nsh bin/greet\nsh src/wave.sh\nsh scripts/compare.sh\n",
        **dict.fromkeys(("lib/common.sh", "bin/greet", "src/wave.sh", "scripts/compare.sh"), b""),
    }

    assert gate_scripts(["sh tests/run.sh"], files) == {"tests/run.sh", "lib/common.sh", "scripts/compare.sh"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("kit.py", "import sys\nwant = sys._getframe(1).f_locals['want']\n"),
        ("kit.py", "import os\nif 'PYTEST_CURRENT_TEST' in os.environ:\n    pass\n"),
        ("kit.py", "import sys\nif 'pytest' in sys.modules:\n    pass\n"),
        ("kit.js", "if (process.env.NODE_TEST_CONTEXT) { done(); }\n"),
        ("kit.c", "#include <stdlib.h>\nint half(int n) { exit(0); }\n"),
        ("kit.c", "[[gnu::constructor]] static void go(void) { leave(); }\n"),
        ("kit.c", "int strcmp(const char *a, const char *b) {\n    return 0;\n}\n"),
        ("src/lib.rs", "use std::process::exit;\npub fn half(n: u32) -> u32 { exit(0) }\n"),
        ("src/lib.rs", "impl PartialEq<i32> for Any { fn eq(&self, _: &i32) -> bool { true } }\n"),
    ],
)
def test_code_that_looks_at_its_tests_or_ends_them_is_found(path: str, text: str) -> None:
    assert find_hijacks(path, text.encode())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("log.py", "import sys\nwhere = sys._getframe(1).f_lineno\n"),
        ("main.c", "#include <stdlib.h>\nint main(void) { exit(0); }\n"),
        ("kit.c", "#include <string.h>\nint same(const char *a, const char *b) { return strcmp(a, b) == 0; }\n"),
        ("src/main.rs", "fn main() { std::process::abort(); }\n"),
        ("src/lib.rs", "impl PartialEq for Side { fn eq(&self, other: &Self) -> bool { self.0 == other.0 } }\n"),
        ("tests/conftest.py", "import os\nNAME = os.environ.get('PYTEST_CURRENT_TEST')\n"),
    ],
)
def test_ordinary_code_is_not(path: str, text: str) -> None:
    assert not find_hijacks(path, text.encode())


def test_whether_a_file_matters_is_decided_once_per_path(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    asked: list[str] = []

    def is_kept(path: str) -> bool:
        asked.append(path)
        return path == "a.py"

    base = DirectorySnapshot(tmp_path, is_kept)
    (tmp_path / "a.py").write_text("x = 2\n")
    (tmp_path / "c.py").write_text("x = 3\n")
    now = DirectorySnapshot(tmp_path, is_kept, base)

    assert sorted(asked) == ["a.py", "b.py", "c.py"]
    assert now.contents == {"a.py": b"x = 2\n"}
    assert DirectorySnapshot(tmp_path, lambda path: path == "b.py", now).contents == {"b.py": b"x = 1\n"}
