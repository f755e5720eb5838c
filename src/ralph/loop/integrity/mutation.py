"""Mutated tests: gates must fail once existing tests expect what nothing can meet.

Code that defeats tests can be spelled in many ways, but it always shows in the same way: a test passes whatever it
expects, or the gates pass although it fails. Each mutated test notes in a file what becomes of it, because the output
of gates is cut, colored and formatted in as many ways.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from posixpath import basename, dirname, splitext
from typing import TYPE_CHECKING

from ralph.loop.integrity.protected import DEPENDENCY_DIRECTORIES, is_test_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from ralph.core.records import VerificationResult

MAX_MUTATED_FILES = 200
"""Number of test files that are mutated at once."""
_NOTES = ".ralph-notes"
_SCRIPTS = (".js", ".mjs", ".cjs")
_UNDECIDED = re.compile(r"xfail|expectedFailure|skip|flaky", re.IGNORECASE)
"""Decorators of tests whose failure may not count."""
_SKIPS = re.compile(r"skip|pytestmark", re.IGNORECASE)
"""Text of a module whose tests may not run here, for reasons of their own."""
_PYTHON_PRELUDE = """
def _ralph_note(what, error=None):
    import os
    where = ""
    if error is not None:
        last = error.__traceback__
        while last.tb_next:
            last = last.tb_next
        where = last.tb_frame.f_code.co_filename
        what = "skipped" if type(error).__name__ in ("SkipTest", "Skipped") else "failed"
    file = os.open({notes}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{{what}} {index} {{where}}\\n".encode())
    os.close(file)

def _ralph_other(value):
    kind = type(value)
    if kind in (int, float, complex):
        return value + 7731
    if kind in (str, list, tuple):
        return value + kind("ralph")
    if kind is dict:
        return {{**value, "ralph": 7731}}
    if kind is bool:
        return not value
    return object()
"""
_WRAPPER = """
try:
    pass
except BaseException as _error:
    _ralph_note("", _error)
    raise
else:
    _ralph_note("ended")
"""
_SCRIPT_PRELUDE = (
    "const $ralph = (what) => $ralphFs.appendFileSync({notes}, `${{what}} {index} \\n`);"
    " $ralph.check = (run) => {{ $ralph('ran'); try {{ run(Symbol('ralph')); }}"
    " catch (error) {{ $ralph('failed'); throw error; }} $ralph('passed'); }}; $ralph('loaded');"
)
_SCRIPT_CHECK = re.compile(r"(?<![\w.$])(assert(?:\.strict)?\.(?:equal|strictEqual|deepEqual|deepStrictEqual))\(")
_NODE_TEST = re.compile(r"\brequire\(\s*['\"]node:test['\"]")
_MODULE_SYNTAX = re.compile(r"^\s*import\b[^(\n]*['\"]|^\s*\}\s*from\s*['\"]", re.MULTILINE)
_SCRIPT_IMPORT = re.compile(r"^[^\s/*].*(?:\brequire\(\s*['\"]|\bfrom\s*['\"]|^import\s*['\"]).*[;)'\"]$", re.MULTILINE)
_STRICT = re.compile(r"\s*['\"]use strict['\"];?\n")


def can_mutate(path: str) -> bool:
    """Return whether tests in the language of a file can be mutated."""
    return path.endswith((".py", *_SCRIPTS))


def find_defeat(
    copy: Path, tests: Collection[str], changed: Collection[str], run_gates: Callable[[Path], VerificationResult]
) -> str:
    """Run the gates on a copy of a project with mutated tests; return how the tests were defeated, or nothing.

    `changed` are the source files that the work changed: tests that name one of them are mutated, or else all.
    """
    contents = {path: text for path in sorted(tests) if (text := _read(copy, path)) is not None}
    stems = {_module_name(path) for path in changed} - {""}
    named = [path for path, text in contents.items() if stems & {*re.findall(r"\w+", text)}]
    chosen = {path: contents[path] for path in (named or list(contents))[:MAX_MUTATED_FILES]}
    sources = {path: text for path in changed if (text := _read(copy, path)) is not None}
    sources |= {path: text for path, text in contents.items() if path not in chosen}
    mutated = _MutatedTests(copy, chosen, sources, run_gates)
    if not chosen:
        return ""
    notes = mutated.run(_mutate)
    if reason := notes.defeat(mutated.paths, copy):
        return reason
    # What was not reached may be behind another test that failed, or the gates do not look there. It is kept from
    # running if it runs without what the work changed, but not with it.
    steps = ("loaded",) if mutated.may_skip else ("loaded", "ran")
    missing = {(what, index) for what in steps for index in range(len(chosen))} - notes.reached
    if not missing or not (missing := missing & mutated.run(_reduce, has_sources=False).reached):
        return ""
    missing -= mutated.run(_observe).reached
    return f"the work keeps {_named(mutated.paths, {one for _, one in missing})} from being run" if missing else ""


class _Notes:
    """What became of mutated tests."""

    def __init__(self, text: str, passed: bool) -> None:
        self._lines = [line.split(" ", 2) for line in text.splitlines() if line.count(" ") > 1]
        self._passed = passed

    @property
    def reached(self) -> set[tuple[str, int]]:
        return {(what, int(index)) for what, index, _ in self._lines}

    def of(self, what: str) -> set[int]:
        return {int(index) for noted, index, _ in self._lines if noted == what}

    def defeat(self, paths: Sequence[str], copy: Path) -> str:
        if met := self.of("passed"):
            return f"{_named(paths, met)} also passes with an expectation that nothing can meet"
        skipped = {int(i) for noted, i, where in self._lines if noted == "skipped" and _is_product(where, copy)}
        if skipped:
            return f"the code under test skips {_named(paths, skipped)}"
        if self._passed and (failed := self.of("failed")):
            return f"the gates pass although {_named(paths, failed)} fails"
        if self._passed and (left := self.of("loaded") - self.of("ready")):
            return f"the gates pass although {_named(paths, left)} cannot load what it tests"
        if self._passed and (left := self.of("ran") - self.of("failed") - self.of("skipped") - self.of("ended")):
            return f"the gates pass although no test in {_named(paths, left)} comes to its end"
        return ""


class _MutatedTests:
    """Tests of a copy, which are written anew for each run of the gates."""

    def __init__(
        self,
        copy: Path,
        contents: dict[str, str],
        sources: dict[str, str],
        run_gates: Callable[[Path], VerificationResult],
    ) -> None:
        self._copy, self._notes = copy, copy / _NOTES
        self._contents, self._sources = contents, sources
        self._run_gates = run_gates
        self.paths = tuple(contents)

        # Fixtures may skip tests for reasons of their own.
        settings = [f"{folder}/conftest.py".lstrip("/") for path in contents for folder in _folders(path)]
        self.may_skip = any(_SKIPS.search(_read(copy, path) or "") for path in {*settings})

    def run(self, change: Callable[[str, str, str, int], str], *, has_sources: bool = True) -> _Notes:
        self._notes.unlink(missing_ok=True)
        for path, text in self._sources.items():
            (self._copy / path).write_text(text if has_sources else "", encoding="utf-8")
        for index, (path, text) in enumerate(self._contents.items()):
            (self._copy / path).write_text(change(path, text, str(self._notes), index), encoding="utf-8")
        passed = self._run_gates(self._copy).passed
        return _Notes(_read(self._copy, _NOTES) or "", passed)


def _mutate(path: str, text: str, notes: str, index: int) -> str:
    """Return a test with expectations that nothing can meet."""
    if path.endswith(".py"):
        return _change_python(text, notes, index, _mutate_test)
    checks = r"void ((...$a) => $ralph.check(($other) => \1($a[0], $other)))("
    return _change_script(path, _SCRIPT_CHECK.sub(checks, text), notes, index)


def _observe(path: str, text: str, notes: str, index: int) -> str:
    """Return a test that notes that it is loaded and run."""
    if path.endswith(".py"):
        return _change_python(text, notes, index, _observe_test)
    checks = r"void ((...$a) => { $ralph('ran'); \1(...$a); })("
    return _change_script(path, _SCRIPT_CHECK.sub(checks, text), notes, index)


def _reduce(path: str, text: str, notes: str, index: int) -> str:
    """Return a test of which nothing is left but the notes that it is loaded and run."""
    if path.endswith(".py"):
        return _change_python(_skeleton(text), notes, index, _observe_test)
    has_checks = _NODE_TEST.search(text) and _SCRIPT_CHECK.search(text) and not _SKIPS.search(text)
    ran = " require('node:test').test('ralph', () => $ralph('ran'));" if has_checks else ""
    return f"{_prelude(path, text, notes, index)}{ran}"


# --- Python --------------------------------------------------------------------------


_Test = ast.FunctionDef | ast.AsyncFunctionDef


def _change_python(text: str, notes: str, index: int, change: Callable[[_Test], None]) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    prelude = ast.parse(_PYTHON_PRELUDE.format(notes=repr(notes), index=index)).body
    for test in _tests_of(tree.body):
        change(test)
    imports = [number for number, node in enumerate(tree.body, 1) if isinstance(node, ast.Import | ast.ImportFrom)]
    start = max((number for number in imports if _is_future(tree.body[number - 1])), default=0)
    # A module that may skip itself does not have to get as far as its last import.
    tree.body.insert(start if _SKIPS.search(text) else max(imports, default=start), _note("ready"))
    tree.body[start:start] = [*prelude, _note("loaded")]
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _tests_of(body: Sequence[ast.stmt]) -> list[_Test]:
    found: list[_Test] = []
    for node in body:
        if isinstance(node, ast.ClassDef) and not _is_undecided(node):
            found += _tests_of(node.body)
        elif isinstance(node, _Test) and node.name.startswith("test"):
            found += [] if _is_undecided(node) else [node]
    return found


def _is_undecided(node: ast.ClassDef | _Test) -> bool:
    return any(_UNDECIDED.search(ast.unparse(one)) for one in node.decorator_list)


def _mutate_test(test: _Test) -> None:
    mutator = _Mutator()
    test.body = [changed for node in test.body for changed in mutator.statements(node)]
    if not mutator.has_changed:
        test.body.append(ast.parse("raise AssertionError('ralph')").body[0])
    (wrapped,) = ast.parse(_WRAPPER).body
    assert isinstance(wrapped, ast.Try)
    wrapped.body, test.body = [_note("ran"), *test.body], [wrapped]


def _observe_test(test: _Test) -> None:
    test.body.insert(0, _note("ran"))


def _skeleton(text: str) -> str:
    """Return the tests of a module without their content and without what they need."""
    lines = ["import unittest"]
    try:
        body = [] if _SKIPS.search(text) else ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return ""
    for node in body:
        if not isinstance(node, ast.ClassDef):
            lines += [f"def {one.name}({_parameters(one)}): pass" for one in _tests_of([node]) if _is_plain(one)]
        elif any(ast.unparse(one).endswith("TestCase") for one in node.bases) and not node.decorator_list:
            tests = [one for one in _tests_of(node.body) if _is_plain(one)]
            lines += [f"class {node.name}(unittest.TestCase):"] if tests else []
            lines += [f"    def {one.name}(self): pass" for one in tests]
    return "\n".join(lines)


def _is_plain(test: _Test) -> bool:
    """Return whether nothing but its parameters decorates a test, such as a mark by which it is left out."""
    return all("parametrize" in ast.unparse(one) for one in test.decorator_list)


def _parameters(test: _Test) -> str:
    return ", ".join(f"{one.arg}=None" for one in test.args.args)


class _Mutator(ast.NodeTransformer):
    """Replaces what tests expect by another value of the same type, and notes if that is met all the same."""

    def __init__(self) -> None:
        self.has_changed = False

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        changed = self.visit(node)
        return changed if isinstance(changed, list) else [changed]

    def visit_Assert(self, node: ast.Assert) -> ast.stmt | list[ast.stmt]:
        test = node.test
        if not isinstance(test, ast.Compare) or [type(op) for op in test.ops] != [ast.Eq]:
            return node
        test.left, test.comparators[0] = self._replace(test.left, test.comparators[0])
        return [node, _note("passed")]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        call = node.value
        is_check = (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "assertEqual"
        )
        if not is_check or not isinstance(call, ast.Call) or len(call.args) < 2:
            return node
        call.args[:2] = self._replace(call.args[0], call.args[1])
        return [node, _note("passed")]

    def _replace(self, left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Replace the side that calls nothing, which is the expectation; the right one if that does not tell."""
        self.has_changed = True
        calls = [any(isinstance(one, ast.Call) for one in ast.walk(side)) for side in (left, right)]
        return (_other(left), right) if calls == [False, True] else (left, _other(right))

    def _skip(self, node: ast.stmt) -> ast.stmt:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _skip  # not what the test itself checks


def _other(value: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Name(id="_ralph_other", ctx=ast.Load()), args=[value], keywords=[])


def _note(what: str) -> ast.stmt:
    return ast.parse(f"_ralph_note({what!r})").body[0]


# --- JavaScript ----------------------------------------------------------------------


def _change_script(path: str, text: str, notes: str, index: int) -> str:
    prelude = _prelude(path, text, notes, index)
    ends = [found.end() for found in _SCRIPT_IMPORT.finditer(text)]
    strict = _STRICT.match(text)
    start = strict.end() if strict else 0
    end = max((start, *ends))
    return f"{text[:start]}{prelude}\n{text[start:end]}; $ralph('ready');{text[end:]}"


def _prelude(path: str, text: str, notes: str, index: int) -> str:
    is_module = path.endswith(".mjs") or _MODULE_SYNTAX.search(text) is not None
    load = "import * as $ralphFs from 'node:fs';" if is_module else "const $ralphFs = require('node:fs');"
    return f"{load} {_SCRIPT_PRELUDE.format(notes=json.dumps(notes), index=index)}"


# --- names ---------------------------------------------------------------------------


def _folders(path: str) -> list[str]:
    """Return the directories that a file is in, with the top of the project as an empty name."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:number]) for number in range(len(parts) + 1)]


def _module_name(path: str) -> str:
    stem = splitext(basename(path))[0]
    return basename(dirname(path)) if stem in ("__init__", "index", "__main__") else stem


def _is_product(where: str, copy: Path) -> bool:
    if not where.startswith(f"{copy}/"):
        return False
    path = where.removeprefix(f"{copy}/")
    return not is_test_path(path) and DEPENDENCY_DIRECTORIES.isdisjoint(path.split("/"))


def _named(paths: Sequence[str], indexes: Collection[int]) -> str:
    named = [paths[index] for index in sorted(indexes) if index < len(paths)]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")


def _read(copy: Path, path: str) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        if not (copy / path).is_symlink():
            return (copy / path).read_text(encoding="utf-8")
    return None
