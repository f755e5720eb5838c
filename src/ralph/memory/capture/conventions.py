"""Conventions of a project that the files of a loop show: where tests and sources are, and how they are named."""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.text import sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    K = TypeVar("K", bound=Hashable)

TESTS_CONFIDENCE, MODULES_CONFIDENCE, LAYOUT_CONFIDENCE = 0.7, 0.8, 0.6
"""Confidence of conventions about tests, modules and source layout."""
MIN_FILES = 2
"""Minimum number of files that must show a convention."""
MAX_EXAMPLES = 5
"""Maximum number of example files kept with a convention."""
MAX_ROOTS = 3
"""Maximum number of source directories reported."""
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
_PACKAGES = {
    "__init__.py": "Python packages have an __init__.py",
    "mod.rs": "Rust submodules are directories with a mod.rs",
}
# Prefixes and suffixes of test file names.
_TEST_NAMES = {
    ".py": (("test_", ""), ("", "_test")),
    ".go": (("", "_test"),),
    ".rs": (("test_", ""), ("", "_test")),
    ".java": (("", "Test"), ("", "Tests"), ("", "IT"), ("Test", "")),
    ".kt": (("", "Test"), ("", "Tests")),
}
_SCRIPT_TEST_NAMES = (("", ".test"), ("", ".spec"))
_TEST_DIRECTORIES = ("tests", "test", "__tests__", "spec", "specs")
_JVM_SOURCES = (["src", "main", "java"], ["src", "main", "kotlin"])
_JVM_TESTS = (["src", "test", "java"], ["src", "test", "kotlin"])
_GROUPS = ("packages", "crates", "apps", "libs", "modules", "services")
_IGNORED_DIRECTORIES = ("node_modules", "vendor", "third_party", ".venv", "venv", "target", "dist", "build")


@record
class Convention:
    """A convention that several files follow."""

    pattern: str
    examples: tuple[str, ...]
    glob: str
    confidence: float


def find_conventions(files: Sequence[str]) -> Iterator[Convention]:
    """Yield how tests, modules and source directories are laid out, as far as the files show it."""
    tests = {path: test_pattern for path in files if (test_pattern := _test_pattern(path))}
    sources = [path for path in files if path not in tests and _extension(path) in _MODULES and not _is_in_tests(path)]
    yield from _test_conventions(tests, sources)
    for extension, group in _grouped(sources, _extension).items():
        yield from _convention(
            f"Modules are {_MODULES[extension]} ({extension})", group, MODULES_CONFIDENCE, f"*{extension}"
        )
    for name, pattern in _PACKAGES.items():
        yield from _convention(
            pattern, [path for path in sources if _name(path) == name], MODULES_CONFIDENCE, f"*/{name}"
        )
    for root, group in _source_roots(sources):
        yield from _convention(f"Source is in {root}/", group, LAYOUT_CONFIDENCE, f"{root}/*")


def _convention(
    pattern: str, examples: list[str], confidence: float, glob: str, least: int = MIN_FILES
) -> Iterator[Convention]:
    if len(examples) >= least:
        yield Convention(pattern=pattern, examples=tuple(examples[:MAX_EXAMPLES]), glob=glob, confidence=confidence)


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
    """Yield where the tests of each language are and how they are named, if at least half of them agree."""
    has_top_level_sources = any(not _directories(path) for path in sources)
    for paths in _grouped(tests, _extension).values():
        places = _grouped(paths, lambda path: (*_test_location(path, has_top_level_sources), tests[path]))
        for (where, glob, pattern), group in places.items():
            if 2 * len(group) >= len(paths):
                yield from _convention(
                    f"Tests are {where} {pattern}",
                    group,
                    TESTS_CONFIDENCE,
                    (glob + pattern).replace("**", "*"),
                    least=1,
                )


def _test_location(path: str, has_top_level_sources: bool) -> tuple[str, str]:
    """Return the location of a test, as a phrase and as the start of a glob."""
    parts = _directories(path)
    for depth, part in enumerate(parts):
        if part in _TEST_DIRECTORIES:
            if depth and parts[depth - 1 : depth + 2] in _JVM_TESTS:
                root = "/".join(parts[depth - 1 : depth + 2])
                return f"in {root}/ as", f"*{root}/*"
            return (f"in {part}/ as", f"{part}/*") if depth == 0 else (f"in {part}/ directories as", f"*/{part}/*")
    return ("next to the source as" if parts or has_top_level_sources else "named"), "*"


def _source_roots(paths: list[str]) -> list[tuple[str, list[str]]]:
    """Return the directories that contain most of the source."""
    groups = _grouped(paths, _source_root)
    groups.pop("", None)
    return sorted(groups.items(), key=lambda item: -len(item[1]))[:MAX_ROOTS]


def _source_root(path: str) -> str:
    parts = _directories(path)
    if not parts or not parts[0]:
        return ""
    if parts[:3] in _JVM_SOURCES:
        return "/".join(parts[:3])
    if parts[0] in _GROUPS and len(parts) > 2:
        return f"{parts[0]}/*/{parts[2]}" if parts[2] in ("src", "lib") else f"{parts[0]}/*"
    if parts[0] == "src" and len(parts) > 1 and path.endswith(".py"):
        return f"src/{parts[1]}"
    return parts[0]
