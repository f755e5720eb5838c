"""Files that a task may change because a person said so. Pure.

Two things widen the scope of a task: globs that a person set (`--allow`), and the person's own words. Text written by
agents never does.
"""

from __future__ import annotations

import re
from posixpath import basename

from ralph.core.records import ALLOW_TESTS, record
from ralph.loop.integrity.protected import ProtectedKind, matches_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_VERBS = (
    "add adds adding append extend change edit update adjust modify rewrite rework refactor rename move migrate convert"
    " port split merge reorganize restructure remove delete drop replace raise bump upgrade downgrade pin unpin lower"
    " increase decrease set setup configure enable disable switch introduce create write put include exclude ignore"
    " register declare list define simplify sort reformat format document generate regenerate record parametrize mark"
    " expose publish require allow make print turn"
)
_TEST_VERBS = (
    "update updating adjust adjusting change edit rewrite rewriting rework rename renaming move refactor migrate"
    " convert port split reorganize restructure remove delete drop replace parametrize simplify deduplicate reformat"
    " regenerate modernize unskip"
)
_BETWEEN = (
    "the its their all any our existing old affected unit integration corresponding related outdated obsolete flaky"
    " slow failing snapshot stale redundant duplicate duplicated legacy code docs documentation caller callers"
    " and of up"
)
"""Words that may stand between a verb and the tests it is about."""


def _any(words: str) -> str:
    return "|".join(words.split())


_CHANGE = re.compile(rf"\b(?:{_any(_VERBS)}|clean up|set up)\b", re.IGNORECASE)
_REPAIR = re.compile(r"\b(?:fix|fixes|correct|repair)\b", re.IGNORECASE)
_TESTS = re.compile(
    rf"\b(?:{_any(_TEST_VERBS)}|clean up|speed up)\s+(?:(?:{_any(_BETWEEN)})\s+)*(?:[\w./-]+\s+)?"
    r"(?:tests?|test suite|test files?|specs?|snapshots?|fixtures?|golden files?|expectations?)\b"
    r"(?!\s+(?:pass|passes|green|succeed|run|runs|work|target|command|gate|script|runner|config\w*)\b)",
    re.IGNORECASE,
)
_ALSO_TESTS = re.compile(
    r"\b(?:rename|move)\b.*\b(?:including|also in|and in|as well as)"
    r"\s+(?:(?:the|its|their|all|imports|in|of)\s+)*tests?\b",
    re.IGNORECASE,
)
_RENAME = re.compile(
    r"\brenam(?:e|ing)\s+(?:(?:the|a|function|method|class|module|file|variable|package|command|option|field)\s+)*"
    r"[`'\"]?([A-Za-z_][\w./]*\w)(?:\(\))?[`'\"]?\s+(?:to|into|as)\s+[`'\"]?([A-Za-z_][\w./]*\w)",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:do not|don't|dont|never|without|must not|mustn't|should not|shouldn't|cannot|leave|keep|untouched"
    r"|unchanged)\b",
    re.IGNORECASE,
)
_PASSING = re.compile(r"\b(?:pass|passes|passing|green|succeeds?|fails?|failing)\b", re.IGNORECASE)
_CLAUSES = re.compile(
    r"(?:[.!?;:](?=\s|$)|\n|\bso that\b|\bso\b|\buntil\b|\bbut\b|\bwhile\b|\bthen\b|\bthat\b"
    r"|\band (?=make sure|ensure|run|check|verify|do not|don't|keep|leave))"
)
_REFERENCE = re.compile(
    r"\b(?:as|per|like|by|see|against|match|matches|satisfy|satisfies|meet|meets)\s+(?:in\s+|the\s+)?[`'\"(]*$"
    r"|\b(?:described|defined|specified|documented|expected|required|asserted|shown|listed|are|is|lives?)\s+(?:in|by)"
    r"\s+[`'\"(]*$"
    r"|\bfor\s+(?:(?:the|its|all|new|existing|more)\s+)*(?:cases?|tests?|examples?|expectations?|assertions?)"
    r"\s+(?:in|of|from)\s+[`'\"(]*$",
    re.IGNORECASE,
)
"""What stands before a file that a clause only refers to."""
_PATH = re.compile(r"[\w.@*/-]*[\w*](?:\.[\w*]+)?")
_TOPICS: tuple[tuple[str, str], ...] = (
    (
        r"\b(?:make|makefile|build|phony) (?:targets?|rules?|file)\b|\btargets?\b.*\bmake\b"
        r"|\b(?:an?|the) [\w-]+ target\b|\bmake (?:install|clean|lint|dist|format|docs?|release|help)\b"
        r"|\b(?:build system|build flags?|compiler flags?|cmake)\b",
        "Makefile makefile GNUmakefile *.mk CMakeLists.txt justfile meson.build",
    ),
    (
        r"\bnpm scripts?\b|\bscripts? (?:to|in) (?:the )?package\b|\bnode version\b|\b(?:es|ecmascript) modules?\b",
        "package.json .nvmrc .npmrc",
    ),
    (r"\bnpm registry\b", ".npmrc"),
    (r"\b(?:typescript|tsconfig|strict mode)\b", "tsconfig*.json"),
    (
        r"\b(?:eslint|lint rules?|linter|linting)\b",
        ".eslintrc* eslint.config.* .eslintignore biome.json package.json ruff.toml .ruff.toml .flake8 .pylintrc"
        " pyproject.toml setup.cfg",
    ),
    (
        r"\b(?:ruff|flake8|pylint|black|isort)\b",
        "ruff.toml .ruff.toml .flake8 .pylintrc pyproject.toml setup.cfg tox.ini",
    ),
    (r"\b(?:mypy|pyright|type check\w*)\b", "mypy.ini .mypy.ini pyrightconfig.json pyproject.toml setup.cfg"),
    (
        r"\bpytest (?:config\w*|options?|settings?|plugins?|markers?|addopts|ini)\b|\b(?:configure|set up) pytest\b",
        "pytest.ini conftest.py pyproject.toml setup.cfg tox.ini",
    ),
    (r"\b(?:shared|common|pytest|session|autouse) fixtures?\b", "conftest.py"),
    (
        r"\bcoverage (?:config\w*|settings?|threshold|limit|report\w*)\b|\b(?:nyc|c8)\b",
        ".coveragerc pyproject.toml setup.cfg .nycrc* .c8rc* package.json jest.config.*",
    ),
    (
        r"\b(?:jest|vitest|mocha) (?:config\w*|options?|settings?|setup)\b"
        r"|\b(?:configure|set up|switch to|migrate to) (?:jest|vitest|mocha)\b",
        "jest.config.* vitest.config.* .mocharc* package.json",
    ),
    (
        r"\b(?:dependenc(?:y|ies)|packaging|requirements?|version|release|entry points?|console scripts?|extras?)\b",
        "setup.py *.gemspec Gemfile pom.xml build.gradle .python-version .nvmrc",
    ),
    (
        r"\b(?:python|node) (?:version|\d)",
        "pyproject.toml setup.py setup.cfg tox.ini noxfile.py package.json .python-version .nvmrc .tool-versions",
    ),
    (r"\b(?:gitattributes|line endings|git lfs)\b", ".gitattributes"),
    (r"\bsubmodules?\b", ".gitmodules"),
    (r"\b(?:tox|nox)\b", "tox.ini noxfile.py"),
    (r"\b(?:cargo|crate) (?:features?|profiles?)\b|\bfeature flags?\b", "Cargo.toml"),
)
"""What a clause is about, and the files that it may then change."""
_COMPILED_TOPICS = tuple((re.compile(pattern, re.IGNORECASE), files.split()) for pattern, files in _TOPICS)
_WHOLE_FILE = re.compile(
    r"\b(?:rewrite|rework|refactor|restructure|reorganize|simplify|clean up|convert|migrate|replace|modernize)\b",
    re.IGNORECASE,
)
_CI = re.compile(
    r"\b(?:ci|github actions?|gitlab ci|workflows?|pipelines?|circleci|jenkins\w*|travis|pre-commit|husky)\b",
    re.IGNORECASE,
)


@record
class Scope:
    """What a task may change among protected files."""

    globs: tuple[str, ...] = ()
    """Files that a person allowed by glob."""
    named: tuple[str, ...] = ()
    """Files that a person's words are about."""
    words: str = ""
    """The clauses that name them."""
    kinds: frozenset[str] = frozenset()
    allows_tests: bool = False
    repaired: tuple[str, ...] = ()
    """Files that a person asked to fix, which may be programs that a gate runs."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names that a person asked to replace by others."""

    def rename(self, content: bytes) -> bytes:
        """Return the content of a file with the names that a person asked for."""
        files = {basename(old).split(".")[0] for old, _ in self.renames if "." in old}
        for old, new in self.renames:
            # A function is not the module of the same name, which keeps it.
            start, end = (r"\b", r"\b") if "." in old or old in files else (r"(?<![/\w])", r"\b(?!\s+import\b)")
            content = re.sub(f"{start}{re.escape(old)}{end}".encode(), new.encode(), content)
        return content

    def allows(self, path: str, kind: ProtectedKind) -> bool:
        """Return whether a protected file may be changed."""
        if kind is ProtectedKind.TEST and self.allows_tests:
            return True
        if kind is ProtectedKind.GATE and matches_any(path, self.repaired):
            return True
        return kind.value in self.kinds or matches_any(path, self.globs) or matches_any(path, self.named)

    def allows_path(self, path: str) -> bool:
        """Return whether a person allowed a file by glob, whatever becomes of it."""
        return matches_any(path, self.globs)

    def covers(self, path: str, parts: Collection[str]) -> bool:
        """Return whether a person also meant the parts of a file that gates run: all of it, or each by its name."""
        if not parts or matches_any(path, self.globs) or self._means_whole(path):
            return True
        return all(re.search(rf"\b{re.escape(part)}s?\b", self.words, re.IGNORECASE) for part in parts)

    def _means_whole(self, path: str) -> bool:
        """Return whether a person asked for another version of a file; in "refactor x and add y to z", z is not."""
        pieces = re.split(r",|\n|\band\b", self.words)
        return any(_WHOLE_FILE.search(piece) and matches_any(path, _files_of(piece)) for piece in pieces)


def scope_of(allow: Iterable[str], texts: Iterable[str]) -> Scope:
    """Return the scope given by globs and by texts that a person wrote."""
    globs = tuple(item for item in allow if item != ALLOW_TESTS)
    named: list[str] = []
    clauses: list[str] = []
    kinds: set[str] = set()
    allows_tests = ALLOW_TESTS in allow
    repaired: list[str] = []
    renames: list[tuple[str, str]] = []
    for text in texts:
        for clause in _clauses(text):
            if _NEGATION.search(clause):
                continue
            allows_tests |= bool(_TESTS.search(clause) or _ALSO_TESTS.search(clause))
            renames += _renames_of(clause)
            if _REPAIR.search(clause) and not _PASSING.search(clause):
                repaired += [word.rstrip(".") for word in _PATH.findall(clause) if "/" in word or "." in word[1:-1]]
            if _CHANGE.search(clause) and not _PASSING.search(clause):
                clauses.append(clause)
                named += _files_of(clause)
                if _CI.search(clause):
                    kinds.add(ProtectedKind.CI)
    return Scope(
        globs=globs,
        named=tuple(dict.fromkeys(named)),
        words="\n".join(clauses),
        kinds=frozenset(kinds),
        allows_tests=allows_tests,
        repaired=tuple(repaired),
        renames=tuple(renames),
    )


def _renames_of(clause: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a clause asks to replace: a file that is renamed is a module of another name as well."""
    for old, new in _RENAME.findall(clause):
        old, new = old.rstrip("."), new.rstrip(".")
        yield old, new
        stems = [basename(name).split(".")[0] for name in (old, new)]
        if "." in old and "." in new and all(stems) and stems[0] != stems[1]:
            yield stems[0], stems[1]


def _clauses(text: str) -> list[str]:
    return [clause for clause in _CLAUSES.split(text) if clause.strip()]


def _files_of(clause: str) -> list[str]:
    """Return the files that a clause names or is about."""
    topics = [file for pattern, files in _COMPILED_TOPICS if pattern.search(clause) for file in files]
    return [*_named_files(clause), *topics]


def _named_files(clause: str) -> list[str]:
    """Return the files that a clause names; a directory alone names none."""
    found = []
    for match in _PATH.finditer(clause):
        if _REFERENCE.search(clause[: match.start()]):
            continue
        word = match.group()
        word = word.strip("`'\"()[],").removeprefix("./").rstrip(".")
        is_file = "." in basename(word)[1:] or basename(word) in _FILES_WITHOUT_SUFFIX or basename(word).startswith(".")
        if is_file and basename(word).strip("*."):
            found += [word, f"**/{word}"] if "/" in word else [word]
    return found


_FILES_WITHOUT_SUFFIX = frozenset(
    {
        "Makefile",
        "GNUmakefile",
        "makefile",
        "justfile",
        "Justfile",
        "Rakefile",
        "Gemfile",
        "Jenkinsfile",
        "configure",
        "SConstruct",
    }
)
