"""Files that are not tests themselves, but that tests or gates read: expected results, cases, lists, helpers. Pure.

They are known by the words of what reads them. Such a file counts as a test: its base version has to pass as well.
"""

from __future__ import annotations

import re
from posixpath import basename, dirname, splitext

from ralph.loop.integrity.protected import ProtectedKind, Protection, is_test_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.loop.integrity.snapshot import TreeSnapshot

_HELPER = re.compile(r"(?:^|[_.-])test(?:util\w*|lib|kit|help\w*|support|data|cases?)(?:[_.-]|$)", re.IGNORECASE)
_WORD = re.compile(r"[\w.-]+")
_STRING = re.compile(r"""["'`]([^"'`\n]{1,200})["'`]""")
_SHELL_SUFFIXES = (".sh", ".bash", ".bats", ".mk", "")
_CODE_SUFFIXES = (
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".c", ".h", ".cc", ".cpp", ".hpp"),
    *(".rb", ".rs", ".go", ".java", ".kt", ".php", ".ex", ".exs", ".swift", ".cs", ".lua", ".pl", ".pm"),
)
_PRODUCT_DIRECTORIES = frozenset({"src", "lib", "app", "pkg", ""})
"""Directories that tests name to find what they test."""


class Expectations:
    """What the tests and gates of a base read."""

    def __init__(self, base: TreeSnapshot, protection: Protection) -> None:
        self._base, self._protection = base, protection
        self._words: tuple[frozenset[str], ...] | None = None

    def include(self, path: str) -> bool:
        """Return whether a file of the base, which is not protected by its path, is read by tests or gates."""
        if not self._protection.is_default or self._protection.is_exception(path):
            return False
        if is_test_path(path) or any(map(_HELPER.search, path.split("/"))):
            return True
        suffix = splitext(path)[1].lower()
        if suffix in _CODE_SUFFIXES or basename(path) == "VERSION":
            return False
        in_commands, in_tests, in_any = self._read_words()
        folders = {*dirname(path).split("/")} - _PRODUCT_DIRECTORIES
        if suffix in _SHELL_SUFFIXES and (suffix or self._is_program(path)):
            is_tested = basename(path) in in_tests
            return not is_tested and not {basename(path), *folders}.isdisjoint(in_commands)
        return not {basename(path), *folders}.isdisjoint(in_any)

    def _is_program(self, path: str) -> bool:
        state = self._base.states.get(path)
        is_executable = state is not None and state.is_executable
        return is_executable or (self._base.read(path) or b"").startswith(b"#!")

    def _read_words(self) -> tuple[frozenset[str], ...]:
        """Return the words of gates and of what they run, those of tests that can be names of files, and both."""
        if self._words is None:
            kinds = {path: self._protection.kind_of(path) for path in self._base.states}
            run = [path for path, kind in kinds.items() if kind in (ProtectedKind.GATE, ProtectedKind.BUILD)]
            tests = [path for path, kind in kinds.items() if kind is ProtectedKind.TEST]
            shell = [path for path in tests if splitext(path)[1] in _SHELL_SUFFIXES]
            others = [path for path in tests if splitext(path)[1] in _CODE_SUFFIXES]
            commands = "\n".join((*self._protection.gates, self._base.read_text(run)))
            named = _words(commands)
            lists = [path for path in kinds if basename(path) in named and splitext(path)[1] not in _CODE_SUFFIXES]
            commands += f"\n{self._base.read_text(lists)}"
            strings = " ".join(_STRING.findall(self._base.read_text(others)))
            in_commands, in_tests = _words(commands), _words(f"{strings}\n{self._base.read_text(shell)}")
            self._words = in_commands, in_tests, in_commands | in_tests
        return self._words


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip(".") for word in {*_WORD.findall(text)})
