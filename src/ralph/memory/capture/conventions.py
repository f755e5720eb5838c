"""Conventions of a project that the files of a loop show: where tests and sources are, and how they are named.

A convention needs several witnesses and no exception among the files. What any reader sees at once, such as the
language of a project or a source directory at its top, is not kept.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.text import sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    K = TypeVar("K", bound=Hashable)

TESTS_CONFIDENCE, MODULES_CONFIDENCE, LAYOUT_CONFIDENCE = 0.7, 0.8, 0.6
"""Confidence of conventions about tests, modules and source layout."""
MIN_FILES = 3
"""Minimum number of files that must show a convention."""
MAX_EXAMPLES = 5
"""Maximum number of example files kept with a convention."""
MAX_PATH_LENGTH = 300
"""Length above which a path is ignored, in characters."""

_MODULES = {
    ".py": "Python",
    ".rs": "Rust",
    ".go": "Go",
    ".java": "Java",
    ".kt": "Kotlin",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".mjs": "ES modules",
    ".cjs": "CommonJS modules",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
}
_MODULE_SYSTEMS = {".mjs": ".js", ".cjs": ".js"}
"""Extensions that were chosen over another one of the same language."""
_RUST_MODULE = "mod.rs"
# Prefixes and suffixes of test file names.
_TEST_NAMES = {
    ".py": (("test_", ""), ("", "_test")),
    ".go": (("", "_test"),),
    ".rs": (("test_", ""), ("", "_test")),
    ".java": (("", "Test"), ("", "Tests"), ("", "IT"), ("Test", "")),
    ".kt": (("", "Test"), ("", "Tests")),
}
_SCRIPT_TEST_NAMES = (("", ".test"), ("", ".spec"))
_TEST_DIRECTORIES = ("tests", "test", "__tests__", "spec", "specs", "e2e", "cypress", "playwright")
_JVM_SOURCES = (["src", "main", "java"], ["src", "main", "kotlin"])
_JVM_TESTS = (["src", "test", "java"], ["src", "test", "kotlin"])
_GROUPS = ("packages", "crates", "apps", "libs", "modules", "services")
_IGNORED_DIRECTORIES = ("node_modules", "vendor", "third_party", ".venv", "venv", "target", "dist", "build")


@record
class Convention:
    """A convention that several files follow, and none breaks."""

    pattern: str
    examples: tuple[str, ...]
    glob: str
    confidence: float
    witnesses: int
    """Number of files that follow it."""


def find_conventions(files: Sequence[str]) -> Iterator[Convention]:
    """Yield how tests, modules and source directories are laid out, as far as the files show it without exception."""
    tests = {path: test_pattern for path in files if (test_pattern := _test_pattern(path))}
    sources = [path for path in files if path not in tests and _extension(path) in _MODULES and not _is_in_tests(path)]
    yield from _test_conventions(tests, sources)
    by_extension = _grouped(sources, _extension)
    for extension, other in _MODULE_SYSTEMS.items():
        if other not in by_extension:
            pattern = f"Modules are {_MODULES[extension]} ({extension})"
            yield from _convention(pattern, by_extension.get(extension, []), MODULES_CONFIDENCE, f"*{extension}")
    yield from _rust_submodules(by_extension.get(".rs", []))
    yield from _layout(sources)


def _convention(pattern: str, examples: Sequence[str], confidence: float, glob: str) -> Iterator[Convention]:
    if len(examples) >= MIN_FILES:
        yield Convention(
            pattern=pattern,
            examples=tuple(examples[:MAX_EXAMPLES]),
            glob=glob,
            confidence=confidence,
            witnesses=len(examples),
        )


def _rust_submodules(sources: Sequence[str]) -> Iterator[Convention]:
    """Yield that submodules are directories with a mod.rs, unless one is a file beside its directory."""
    directories = {"/".join(_directories(path)) for path in sources}
    if not any(path.removesuffix(".rs") in directories for path in sources):
        modules = [path for path in sources if _name(path) == _RUST_MODULE]
        pattern = "Rust submodules are directories with a mod.rs"
        yield from _convention(pattern, modules, MODULES_CONFIDENCE, f"*/{_RUST_MODULE}")


def _layout(sources: Sequence[str]) -> Iterator[Convention]:
    """Yield where the source of each language is, if all of it is there and the place is not obvious."""
    for group in _grouped([path for path in sources if _directories(path)], _extension).values():
        roots = _grouped(group, _source_root)
        if len(roots) == 1:
            (root,) = roots
            if "/" in root and root.split("/") not in _JVM_SOURCES:
                yield from _convention(f"Source is in {root}/", group, LAYOUT_CONFIDENCE, f"{root}/*")


def own_files(paths: Iterable[str]) -> list[str]:
    """Return the distinct paths with forward slashes, without those of dependencies and build results."""
    plain = dict.fromkeys(
        sanitize(path).replace("\\", "/").removeprefix("./") for path in paths if len(path) <= MAX_PATH_LENGTH
    )
    return [path for path in plain if path and not any(part in _IGNORED_DIRECTORIES for part in _directories(path))]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _directories(path: str) -> list[str]:
    return path.split("/")[:-1]


def _extension(path: str) -> str:
    name = _name(path)
    return "." + name.rsplit(".", 1)[1] if "." in name[1:] and not name.endswith(".d.ts") else ""


def _grouped(paths: Iterable[str], key: Callable[[str], K]) -> dict[K, list[str]]:
    groups: dict[K, list[str]] = {}
    for path in paths:
        groups.setdefault(key(path), []).append(path)
    return groups


def _is_in_tests(path: str) -> bool:
    return any(part in _TEST_DIRECTORIES for part in _directories(path))


def _test_pattern(path: str) -> str:
    """Return the naming pattern of a test file, such as `test_*.py`; empty if it is not a test."""
    extension = _extension(path)
    if extension not in _MODULES:
        return ""
    stem = _name(path).removesuffix(extension)
    for prefix, suffix in _TEST_NAMES.get(extension, _SCRIPT_TEST_NAMES):
        if len(stem) > len(prefix + suffix) and stem.startswith(prefix) and stem.endswith(suffix):
            return f"{prefix}*{suffix}{extension}"
    # Rust integration tests and scripts in __tests__ can have any name.
    is_in_test_directory = path.startswith("tests/") if extension == ".rs" else "__tests__" in _directories(path)
    return f"*{extension}" if is_in_test_directory and stem not in ("mod", "index") else ""


def _test_conventions(tests: Mapping[str, str], sources: list[str]) -> Iterator[Convention]:
    """Yield where the tests of each language are and how they are named, if all of them agree."""
    stems = {path.removesuffix(_extension(path)) for path in sources}
    for paths in _grouped(tests, _extension).values():
        places = _grouped(paths, lambda path: (*_test_location(path, tests[path], stems), tests[path]))
        # A test whose source is not among the files says nothing about where it is.
        known = {place: group for place, group in places.items() if place[0]}
        if len(known) == 1 and len({pattern for *_, pattern in places}) == 1:
            ((where, glob, pattern), group) = next(iter(known.items()))
            yield from _convention(
                f"Tests are {where} {pattern}", group, TESTS_CONFIDENCE, (glob + pattern).replace("**", "*")
            )


def _test_location(path: str, pattern: str, source_stems: Collection[str]) -> tuple[str, str]:
    """Return the location of a test, as a phrase and as the start of a glob; empty if it is not known."""
    parts = _directories(path)
    for depth, part in enumerate(parts):
        if part in _TEST_DIRECTORIES:
            if depth and parts[depth - 1 : depth + 2] in _JVM_TESTS:
                root = "/".join(parts[depth - 1 : depth + 2])
                return f"in {root}/ as", f"*{root}/*"
            return (f"in {part}/ as", f"{part}/*") if depth == 0 else (f"in {part}/ directories as", f"*/{part}/*")
    prefix, suffix = pattern.removesuffix(_extension(path)).split("*", 1)
    stem = _name(path).removesuffix(_extension(path)).removeprefix(prefix).removesuffix(suffix)
    return ("next to the source as", "*") if "/".join([*parts, stem]) in source_stems else ("", "")


def _source_root(path: str) -> str:
    parts = _directories(path)
    if parts[:3] in _JVM_SOURCES:
        return "/".join(parts[:3])
    if parts[0] in _GROUPS and len(parts) > 2:
        return parts[0] if parts[2] in ("src", "lib") else f"{parts[0]}/*"  # where a package has its source is obvious
    if parts[0] == "src" and len(parts) > 1 and path.endswith(".py"):
        return f"src/{parts[1]}"
    return parts[0]
