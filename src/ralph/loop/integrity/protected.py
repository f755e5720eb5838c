"""Files that gates depend on, and the kind of each. Pure.

Everything here decides by the path alone; what a change to a file means is decided in `structure` and `judge`.
"""

from __future__ import annotations

import re
import shlex
import sys
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from posixpath import basename, dirname, normpath, splitext

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

DEFAULT = "default"
"""Item of `protect` that stands for the table below."""


class ProtectedKind(StrEnum):
    """Why a file is protected."""

    GATE = "gate script"
    BUILD = "build file"
    CI = "CI file"
    TEST_CONFIG = "test configuration"
    SETTINGS = "settings"
    INTERPRETER = "interpreter"
    GIT = "git attributes"
    CUSTOM = "protected file"
    TEST = "test"


PATTERNS: dict[ProtectedKind, tuple[str, ...]] = {
    ProtectedKind.SETTINGS: (".ralph.toml", "ralph.yml", "ralph.yaml"),
    ProtectedKind.BUILD: (
        *("Makefile", "GNUmakefile", "makefile", "*.mk", "CMakeLists.txt", "*.cmake", "meson.build", "BUILD.bazel"),
        *("WORKSPACE", "justfile", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "Rakefile", "SConstruct"),
        *("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "pnpm-workspace.yaml", "tsconfig*.json", "jsconfig.json"),
        *("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py"),
        *("Cargo.toml", "build.rs", ".cargo/config", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml"),
        *("go.mod", "go.work", "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "gradle.properties"),
        *("Gemfile", "*.gemspec", "composer.json", "mix.exs", "dune-project", "configure", "configure.ac"),
        *(".python-version", ".node-version", ".nvmrc", ".tool-versions", "mise.toml", ".env", ".env.test", ".envrc"),
        *("babel.config.*", ".babelrc*", "webpack.config.*", "vite.config.*", "rollup.config.*", ".swcrc"),
    ),
    ProtectedKind.CI: (
        *(".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".circleci/**", "Jenkinsfile", ".travis.yml"),
        *("azure-pipelines.yml", "bitbucket-pipelines.yml", ".drone.yml", ".buildkite/**", "appveyor.yml"),
        *(".pre-commit-config.yaml", ".husky/**", "lefthook.yml"),
    ),
    ProtectedKind.TEST_CONFIG: (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "mypy.ini"),
        *(".mypy.ini", "**/*.egg-info/entry_points.txt", "**/*.dist-info/entry_points.txt"),
        *("ruff.toml", ".ruff.toml", ".flake8", ".pylintrc", "pylintrc", "pyrightconfig.json", "unittest.cfg"),
        *("nose.cfg", ".noserc", "jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*"),
        *("vitest.setup.*", "karma.conf.*", "ava.config.*", ".mocharc*", ".nycrc*", ".c8rc*", ".taprc"),
        *("playwright.config.*", "cypress.config.*", "cypress.json", ".eslintrc*", "eslint.config.*", ".eslintignore"),
        *(".prettierrc*", ".prettierignore", "biome.json", "clippy.toml", ".clippy.toml", ".golangci.y*ml"),
        *(".rspec", "rspec.opts", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", "phpunit.xml*", ".clang-tidy"),
        *("nextest.toml", "testng.xml", "junit-platform.properties", ".shellcheckrc", ".bats"),
    ),
    ProtectedKind.INTERPRETER: (
        *("sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "pyvenv.cfg", "python*._pth"),
        *(
            "assert.h",
            "stdlib.h",
            "stdio.h",
            "string.h",
            "setjmp.h",
            "signal.h",
            "unistd.h",
        ),  # hide those of the system
        *(".bashrc", ".bash_env", ".profile", ".inputrc", ".gdbinit", ".irbrc"),
    ),
    ProtectedKind.GIT: (".gitattributes", ".gitmodules"),
    ProtectedKind.TEST: (
        *("test/**", "tests/**", "__tests__/**", "spec/**", "specs/**", "testdata/**", "__snapshots__/**"),
        *("**/test/**", "**/tests/**", "**/__tests__/**", "**/spec/**", "**/testdata/**", "**/__snapshots__/**"),
        *("test_*.py", "*_test.py", "tests.py", "*.test.*", "*.spec.*", "*_test.go", "*_test.rs", "*_tests.rs"),
        *("test.js", "test.mjs", "test.cjs", "test.ts", "test.sh", "*Test.java", "*Tests.java", "*IT.java", "*Test.kt"),
        *("*_spec.rb", "*_test.rb", "test_*.rb", "test_*.c", "*_test.c", "test_*.cc", "*_test.cc", "*_test.cpp"),
        *("test_*.cpp", "*_test.sh", "test_*.sh", "*.bats", "*Test.php", "*_test.exs", "*.snap", "*.golden"),
    ),
}
"""Default patterns: a pattern without a slash matches the name of a file anywhere."""

DEPENDENCY_DIRECTORIES = frozenset({"node_modules", ".venv", "venv", ".tox", ".nox"})
"""Directories with installed packages, whose files are compared by the time of their last change."""
SKIPPED_DIRECTORIES = frozenset(
    {".git", ".ralph", ".agent", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache"}
)
"""Directories that hold nothing gates should depend on; only source code in them is compared."""
TEST_DIRECTORIES = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing"})

TEST_TOOLS = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "py", "nose", "nose2", "hypothesis", "coverage", "mock", "tox"),
        *("nox", "xdist", "pytest_cov", "pytest_mock", "pytest_asyncio", "mypy", "ruff", "flake8", "pylint", "pyright"),
        *("black", "behave", "robot", "ward", "testtools", "twisted", "django", "six", "attr", "typing_extensions"),
    }
)
"""Modules that gates import and that a file of the same name would replace."""
STANDARD_MODULES = frozenset(sys.stdlib_module_names) | {"site", "parser", "distutils", "imp", "asyncore", "cgi"}
TOOL_PROGRAMS = frozenset(
    {
        *("sh", "bash", "dash", "env", "true", "test", "make", "gmake", "cmake", "ninja", "cc", "gcc", "clang", "c99"),
        *("python", "python3", "pytest", "py.test", "tox", "nox", "uv", "poetry", "coverage", "mypy", "ruff", "node"),
        *("npm", "npx", "pnpm", "yarn", "bun", "deno", "tsc", "jest", "vitest", "mocha", "ava", "eslint", "prettier"),
        *("cargo", "rustc", "go", "java", "javac", "mvn", "gradle", "ruby", "rake", "rspec", "bundle", "git", "diff"),
        *("grep", "tee", "cat", "find", "xargs", "timeout", "cmp", "awk", "sed", "head", "tail", "sort", "expr"),
    }
)
"""Programs that gates start by name."""
_MODULE_SUFFIXES = (".py", ".pyc", ".pyd", ".so", ".pyi")
_SCRIPT_SUFFIXES = (".sh", ".bash", ".zsh", ".mk", ".bats", ".ps1")
_SCRIPT_DIRECTORIES = frozenset({"scripts", "script", "tools", "ci", "hack", "bin", "build", "gates", ".ci", "etc"})
_SCRIPT_NAMES = re.compile(
    r"(?:^|[_.-])(?:check|checks|test|tests|verify|gate|gates|lint|ci|validate|selftest)(?:[_.-]|$)"
)
_INTERPRETERS = re.compile(
    r"(?:.*/)?(?:sh|bash|dash|zsh|ksh|source|\.|exec|env|time|nice|python[\d.]*|node|ruby|perl|php|bun|deno)$"
)
_SEPARATORS = frozenset({"&&", "||", "|", ";", "&", "(", "{", "!", "then", "do", "if"})
MAX_SCRIPT_BYTES = 200_000
"""Size of a gate script up to which it is searched for other scripts, in bytes."""


@lru_cache(2048)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a glob; `**` also matches slashes."""
    pattern = pattern.strip().removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    anchored = pattern.startswith("/") or "/" in pattern
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern.lstrip("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(
        words.get(part, part if part.startswith("[") and part.endswith("]") else re.escape(part)) for part in parts
    )
    return re.compile(body if anchored else f"(?:.*/)?{body}", re.DOTALL)


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of some globs."""
    return any(glob_regex(pattern).fullmatch(path) for pattern in patterns)


@lru_cache(32768)
def default_kind(path: str) -> ProtectedKind | None:
    """Return the kind of a file by the table of default patterns."""
    name = basename(path)
    if name not in _FOUND_EVERYWHERE and _DATA_DIRECTORIES.search(path):
        return ProtectedKind.TEST  # an example that tests read, not a file of this project's own build
    return _EXACT.get(name) or next(
        (kind for kind, names, paths in _COMPILED if names.fullmatch(name) or paths.fullmatch(path)), None
    )


_TEST_WORDS = re.compile(r"(?:^|[_.-])(?:tests?|testing)(?:[_.-]|$)", re.IGNORECASE)


def is_test_path(path: str) -> bool:
    """Return whether a file belongs to the tests or to what runs them, by its path."""
    return default_kind(path) is not None or any(map(_TEST_WORDS.search, path.split("/")))


def _joined(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{glob_regex(pattern).pattern})" for pattern in patterns) or r"(?!)", re.DOTALL)


_DATA_DIRECTORIES = re.compile(
    r"(?:^|/)(?:tests?|spec|__tests__)/(?:.*/)?(?:fixtures?|data|golden|examples|snapshots)/|(?:^|/)testdata/"
)
_FOUND_EVERYWHERE = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})
"""Files that a test tool also obeys among the data of tests."""
_EXACT = {name: kind for kind, names in reversed(PATTERNS.items()) for name in names if not re.search(r"[*?\[/]", name)}
_COMPILED = tuple(
    (
        kind,
        _joined(name for name in names if "/" not in name and name not in _EXACT),
        _joined(name for name in names if "/" in name),
    )
    for kind, names in PATTERNS.items()
)


@record
class Protection:
    """Which files of a project are protected."""

    protect: tuple[str, ...] = (DEFAULT,)
    """Value of the setting: globs, `default` for the table, and `!glob` for exceptions."""
    gates: tuple[str, ...] = ()
    """Commands of the gates."""
    scripts: frozenset[str] = frozenset()
    """Scripts that gates run, directly or through each other."""
    program_directories: frozenset[str] = frozenset()
    """Directories of the project in which gates look for programs."""

    @property
    def _globs(self) -> tuple[str, ...]:
        return tuple(item for item in self.protect if item != DEFAULT and not item.startswith("!"))

    @property
    def _exceptions(self) -> tuple[str, ...]:
        return tuple(item[1:] for item in self.protect if item.startswith("!"))

    @property
    def is_default(self) -> bool:
        """Whether the table of default patterns counts, and what it stands for."""
        return DEFAULT in self.protect

    def is_exception(self, path: str) -> bool:
        """Return whether a person said that a file is not protected."""
        return bool(self._exceptions) and matches_any(path, self._exceptions)

    def kind_of(self, path: str) -> ProtectedKind | None:
        """Return why a file is protected, or None if it is not."""
        if self.is_exception(path):
            return None
        if path in self.scripts:
            return ProtectedKind.TEST if default_kind(path) is ProtectedKind.TEST else ProtectedKind.GATE
        if self._globs and matches_any(path, self._globs):
            return ProtectedKind.CUSTOM
        if not self.is_default:
            return None
        if kind := default_kind(path):
            return kind
        if dirname(path) in self.program_directories and basename(path) in TOOL_PROGRAMS:
            return ProtectedKind.INTERPRETER
        return None

    def shadows(self, path: str, directories: Collection[str], packages: Collection[str]) -> bool:
        """Return whether a new file would be imported instead of a module that gates rely on.

        `directories` are those of tests; `packages` those with an `__init__` file.
        """
        if not self.is_default or self.is_exception(path):
            return False
        found = module_at(path)
        if not found:
            return False
        folder, name = found
        if name not in STANDARD_MODULES and name not in TEST_TOOLS:
            return False
        is_on_path = folder in ("", "src", "lib") or folder in directories or basename(folder) in TEST_DIRECTORIES
        return is_on_path or folder not in packages


def changes_what_runs(path: str, protect: Sequence[str]) -> bool:
    """Return whether a file that no commit has changes what gates run, rather than being made by them."""
    protection, parts = Protection(protect=tuple(protect)), {*path.split("/")}
    if not parts.isdisjoint({*DEPENDENCY_DIRECTORIES, "site-packages"}) or basename(path) == "entry_points.txt":
        return False
    kinds = (ProtectedKind.INTERPRETER, ProtectedKind.TEST_CONFIG)
    return protection.kind_of(path) in kinds or protection.shadows(path, (), {dirname(path)})


def module_at(path: str) -> tuple[str, str] | None:
    """Return the directory and the name of the top-level module that a file would be, if it is Python."""
    folder, name = dirname(path), basename(path)
    stem = name.split(".", 1)[0]
    if not name.endswith(_MODULE_SUFFIXES):
        return None
    return (dirname(folder), basename(folder)) if stem == "__init__" else (folder, stem)


def gate_scripts(gates: Sequence[str], files: Mapping[str, bytes | None]) -> frozenset[str]:
    """Return the scripts that gates run; `files` are those of the base, with their contents if they are small."""
    found: set[str] = set()
    pending = [(gate, "", False) for gate in gates]
    build_files = [name for name in RECIPES if name in files]
    while pending:
        text, folder, is_test = pending.pop()
        named = {path for path in _named_scripts(text, folder, files, is_test=is_test) if path not in found}
        found |= named
        read = [*named, *(name for name in build_files if RECIPES[name].search(text))]
        build_files = [name for name in build_files if name not in read]
        pending += [
            (small, dirname(path), default_kind(path) is ProtectedKind.TEST)
            for path in read
            if (small := _small_text(files.get(path)))
        ]
    return frozenset(found)


RECIPES = {
    **dict.fromkeys(("Makefile", "makefile", "GNUmakefile"), re.compile(r"\bg?make\b")),
    "package.json": re.compile(r"\b(?:npm|pnpm|yarn|bun)\b"),
    **dict.fromkeys(("justfile", "Justfile", ".justfile"), re.compile(r"\bjust\b")),
    **dict.fromkeys(("tox.ini", "noxfile.py"), re.compile(r"\b(?:tox|nox)\b")),
}
"""Files whose recipes a gate runs, and the programs that read them."""


def _small_text(content: bytes | None) -> str:
    is_text = content and len(content) <= MAX_SCRIPT_BYTES and b"\0" not in content
    return content.decode("utf-8", "replace") if content and is_text else ""


def _named_scripts(
    text: str, folder: str, files: Mapping[str, bytes | None], *, is_test: bool = False
) -> Iterable[str]:
    for line in text.splitlines():
        words = _words(line)
        folders = ["", folder, *(after for cd, after in pairwise(words) if cd == "cd")]
        for index, word in enumerate(words):
            if " " in word and word != line:  # a command in quotes: sh -c '…', or a script of package.json
                yield from _named_scripts(word, folder, files, is_test=is_test)
                continue
            word = word.rstrip(";),}").replace("$(dirname $0)", ".").replace("${0%/*}", ".").lstrip("@-")
            before = words[index - 1].lstrip("@") if index else ""
            if not word or len(word) >= 400:
                continue
            for path in {
                normpath(f"{one}/{name}").lstrip("/") for one in folders for name in _file_names(word, before)
            }:
                if is_test and before not in _SOURCES and _is_tested(path):
                    continue
                is_new = before in _INCLUDES and "$" not in path  # make reads it once it exists
                if is_new or (path in files and _decides(path, before, _is_executed(word, before, index), files)):
                    yield path


def _is_tested(path: str) -> bool:
    """Return whether a script that a test runs is what it tests, rather than a part of the test."""
    is_helper = dirname(path).split("/")[0] in _SCRIPT_DIRECTORIES - {"bin", "build", "etc"}
    return not (is_helper or is_test_path(path) or _SCRIPT_NAMES.search(splitext(basename(path))[0]))


_SOURCES = frozenset({".", "source", "include", "-include", "sinclude"})
_INCLUDES = frozenset({"include", "-include", "sinclude"})
_FILE_OPTIONS = frozenset({"--config", "--config-file", "--rcfile", "-c", "-f", "-p"})
"""Options of test tools and of make that name a file to obey."""
_JUDGES = re.compile(r"\b(?:unittest|pytest|doctest|assert\w*|subprocess|child_process|execSync|spawnSync|node:test)\b")
"""Words of a program that tests others, rather than being what a gate tests."""


def _decides(path: str, before: str, is_executed: bool, files: Mapping[str, bytes | None]) -> bool:
    if before in _FILE_OPTIONS or is_script(path, is_executed=is_executed):
        return True
    return is_executed and _JUDGES.search(_small_text(files.get(path))) is not None


def _file_names(word: str, before: str) -> tuple[str, ...]:
    """Return the files that a word may mean: `-m quality` is quality/__main__.py."""
    if before in ("-m", "-p"):
        stem = word.replace(".", "/")
        return (f"{stem}/__main__.py", f"{stem}.py")
    return (word,)


def _is_executed(word: str, before: str, index: int) -> bool:
    return (
        word.startswith("./")
        or index == 0
        or before in _SEPARATORS
        or before == "-m"
        or bool(_INTERPRETERS.match(before))
    )


def is_script(path: str, *, is_executed: bool) -> bool:
    """Return whether a file named in a gate decides, rather than being what the gate checks."""
    name, suffix = basename(path), splitext(path)[1]
    if suffix in _SCRIPT_SUFFIXES:
        return True
    if dirname(path).split("/")[0] in _SCRIPT_DIRECTORIES or _SCRIPT_NAMES.search(splitext(name)[0]):
        return True
    return is_executed and suffix == ""


def _words(line: str) -> list[str]:
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        return list(lexer)
    except ValueError:
        return line.split()
