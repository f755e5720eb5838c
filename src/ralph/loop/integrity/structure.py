"""Changes to build and configuration files that cannot change what a gate decides. Pure.

A feature often needs a dependency, a version or a fixture. Such a change is told from one that redefines the tests by
comparing the parsed files, never by their text alone.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import tomllib
from posixpath import basename

from ralph.loop.integrity.protected import TOOL_PROGRAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

_PLAIN_VERSION = re.compile(r"[\^~<>=!*\s\dxX.|,a-zA-Z+-]{1,60}")
_LOCATION = re.compile(
    r"(?:file|git|http|https|link|npm|workspace|portal|patch|github)[:+@]|[/\\]|@\s*\S+:", re.IGNORECASE
)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,. -]+\])?\s*(?:[<>=!~]=?[^;@]*)?(?:;.*)?")
_NODE_METADATA = frozenset(
    {
        *("version", "description", "keywords", "author", "contributors", "license", "repository", "bugs", "homepage"),
        *("files", "private", "funding", "types", "typings", "engines"),
    }
)
_NODE_DEPENDENCIES = frozenset({"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"})
_NODE_HOOKS = re.compile(
    r"(?:pre|post).*|(?:un)?install|prepare|prepack|prepublish\w*|dependencies|test|start|stop|restart|version"
)
_PROJECT_METADATA = frozenset(
    {
        *("version", "description", "keywords", "authors", "maintainers", "license", "license-files", "classifiers"),
        *("urls", "readme", "scripts", "gui-scripts", "dynamic"),
    }
)
_CARGO_METADATA = frozenset(
    {
        "version",
        "description",
        "keywords",
        "authors",
        "license",
        "categories",
        "repository",
        "homepage",
        "documentation",
        "readme",
    }
)
_FIXTURE_NODES = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
)
_RUNNING_FUNCTIONS = frozenset({"exec", "eval", "compile", "__import__", "setattr", "delattr", "globals", "vars"})
_SOURCE_WORD = re.compile(r"(?:\$\([A-Z_]+\)/)?[\w./-]+\.(?:c|cc|cpp|cxx|h|hpp|o|s|S)|(?:[\w.-]+/)*test_\w+")
_RULE = re.compile(r"([^\s:=#][^:=#]*?)\s*::?(?!=)\s*(.*)")
_VARIABLE = re.compile(
    r"(?:(?:override|export|private)\s+)*(?:define\s+)?([A-Za-z_.][\w.-]*)\s*(?:[+?!]|:{1,3})?=\s*(.*)"
)
_PREREQUISITE = re.compile(r"[\w./%-]+|\$[({]\w+[)}]")
_COMPILE = re.compile(r"\t@?\$[({](?:CC|CXX|AR)[)}]\s[^;|&`<>]*")
_RUN_TEST = re.compile(r"\t@?\./(?:[\w./-]*/)?test_\w+|\t@?\./\$<|\t@?\./\$\^")


_INCOMPARABLE = (configparser.Error, ValueError, SyntaxError, RecursionError, TypeError, AttributeError)
"""Errors of files whose content is not what their name promises."""


def is_harmless(path: str, before: bytes | None, after: bytes | None, text_of_tests: str = "") -> bool:
    """Return whether a change of a file cannot change what existing gates and tests decide.

    `text_of_tests` are the existing tests, whose use of a fixture matters.
    """
    if after is None:
        return False
    compare = _COMPARISONS.get(basename(path))
    try:
        texts = [(content or b"").decode("utf-8") for content in (before, after)]
        if basename(path) == "conftest.py":
            return is_fixture_change(texts[0], texts[1], text_of_tests)
        if basename(path) == "entry_points.txt":
            return _is_harmless_entry_points(texts[0], texts[1])
        return compare is not None and before is not None and compare(texts[0], texts[1])
    except _INCOMPARABLE:
        return False


def _changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in {*before, *after}:
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


# --- JavaScript ----------------------------------------------------------------------


def _is_plain_version(value: object) -> bool:
    return isinstance(value, str) and bool(_PLAIN_VERSION.fullmatch(value)) and not _LOCATION.search(value)


def _is_harmless_package_json(before: str, after: str) -> bool:
    for key, old, new in _changed_keys(_unique_json(before), _unique_json(after)):
        if key in _NODE_METADATA:
            continue
        if key in _NODE_DEPENDENCIES:
            changed = _changed_keys(old or {}, new or {})
            if all(value is None or _is_plain_version(value) for _, _, value in changed):
                continue
        if key == "bin" and not _names_tool(new):
            continue
        if key == "scripts" and all(
            was is None and not _NODE_HOOKS.fullmatch(name) for name, was, _ in _changed_keys(old or {}, new or {})
        ):
            continue
        return False
    return True


def _names_tool(programs: object) -> bool:
    """Return whether a package declares a program that gates start by name."""
    return isinstance(programs, dict) and not TOOL_PROGRAMS.isdisjoint(programs)


def _unique_json(text: str) -> dict[str, Any]:
    """Parse a JSON object; refuse duplicate keys, of which readers choose different ones."""

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("duplicate key")
        return dict(pairs)

    parsed = json.loads(text, object_pairs_hook=build)
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    return parsed


# --- Python --------------------------------------------------------------------------


def _is_requirement_list(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and _REQUIREMENT.fullmatch(item.strip()) and "@" not in item for item in value
    )


def _is_harmless_pyproject(before: str, after: str) -> bool:
    for key, old, new in _changed_keys(tomllib.loads(before), tomllib.loads(after)):
        if key == "project" and _is_harmless_project(old or {}, new or {}):
            continue
        if key == "build-system" and _is_harmless_build_system(old or {}, new or {}):
            continue
        if key == "dependency-groups" and all(
            value is None or _is_requirement_list(value) for value in (new or {}).values()
        ):
            continue
        return False
    return True


def _is_harmless_build_system(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether only the versions of what builds the project changed, which are dependencies like others."""
    changed = {key for key, _, _ in _changed_keys(before, after)}
    return changed == {"requires"} and _is_requirement_list(after.get("requires"))


def _is_harmless_project(before: dict[str, Any], after: dict[str, Any]) -> bool:
    for key, _, new in _changed_keys(before, after):
        if key in _PROJECT_METADATA:
            continue
        if key == "dependencies" and (new is None or _is_requirement_list(new)):
            continue
        if key == "optional-dependencies" and all(map(_is_requirement_list, (new or {}).values())):
            continue
        return False
    return True


def is_fixture_change(before: str, after: str, text_of_tests: str) -> bool:
    """Return whether a change of a conftest.py only adds fixtures and helpers that existing tests do not use."""
    old, new = ast.parse(before), ast.parse(after)
    known = {ast.dump(node) for node in old.body}
    if any(ast.dump(node) not in {ast.dump(one) for one in new.body} for node in old.body if not _is_import(node)):
        return False
    added = [node for node in new.body if ast.dump(node) not in known]
    return all(_is_harmless_statement(node, text_of_tests, before) for node in added)


def _is_known_path(node: ast.Expr, known: str) -> bool:
    """Return whether a statement only adds a directory to the import path as an existing test does."""
    text = ast.unparse(node)
    return text.startswith(("sys.path.insert(", "sys.path.append(")) and text in known.replace('"', "'")


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_harmless_statement(node: ast.stmt, text_of_tests: str, before: str) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_known_path(node, f"{before}\n{text_of_tests}")
    if not isinstance(node, _FIXTURE_NODES):
        return False
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return _is_plain_assignment(node)
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not any(_is_hook(one.asname or one.name) for one in node.names)
    if isinstance(node, ast.ClassDef) and not all(map(_is_plain_member, node.body)):
        return False
    name = getattr(node, "name", "")
    is_used = re.search(rf"\b{re.escape(name)}\b", f"{text_of_tests}\n{before}") is not None
    source = ast.unparse(node)
    return not (_is_hook(name) or is_used or re.search(r"\bautouse\b|\bpytest\.(?:skip|exit|xfail)\b|_exit\b", source))


def _is_hook(name: str) -> bool:
    """Return whether pytest finds a name in a conftest.py by itself; a star stands for every name."""
    return name == "*" or name.startswith(("pytest_", "collect_ignore"))


def _is_plain_assignment(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    is_plain = len(names) == len(targets) and not any(map(_is_dangerous_call, ast.walk(node)))
    return is_plain and not any(map(_is_hook, names))


def _is_plain_member(node: ast.stmt) -> bool:
    """Return whether a statement in the body of a class only defines something."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return _is_plain_assignment(node)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Pass)


def _is_dangerous_call(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not isinstance(node.func, ast.Name) or node.func.id in _RUNNING_FUNCTIONS
    return isinstance(node, ast.Lambda)


def _is_harmless_entry_points(before: str, after: str) -> bool:
    """Return whether the metadata of a package only adds commands, rather than plugins of a test tool."""
    parsers = [configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None) for _ in range(2)]
    for parser, text in zip(parsers, (before, after), strict=True):
        parser.read_string(text)
    old, new = ({name: dict(parser[name]) for name in parser.sections()} for parser in parsers)
    return all(name in ("console_scripts", "gui_scripts") for name, _, _ in _changed_keys(old, new))


# --- Rust, Go, make, git -------------------------------------------------------------


def _is_harmless_cargo(before: str, after: str) -> bool:
    for key, old, new in _changed_keys(tomllib.loads(before), tomllib.loads(after)):
        changed = list(_changed_keys(old or {}, new or {}))
        if key == "package" and all(name in _CARGO_METADATA for name, _, _ in changed):
            continue
        if key in ("dependencies", "dev-dependencies") and all(_is_plain_crate(value) for _, _, value in changed):
            continue
        return False
    return True


def _is_plain_crate(value: object) -> bool:
    if isinstance(value, dict):
        return {*value} <= {"version", "features", "default-features", "optional"} and _is_plain_version(
            value.get("version")
        )
    return value is None or _is_plain_version(value)


def _is_harmless_go_mod(before: str, after: str) -> bool:
    def others(text: str) -> list[str]:
        text = re.sub(r"require\s*\([^)]*\)", "", text)
        return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith(("require ", "//"))]

    return others(before) == others(after)


def _is_harmless_makefile(before: str, after: str) -> bool:
    """Return whether a change only adds source files and rules that compile or run new ones."""
    import difflib

    old, new = before.splitlines(), after.splitlines()
    known = {word for line in old for word in re.split(r"[\s:=]+", line)}
    if _first_target(old) != _first_target(new):
        return False
    added_rule = ""
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for number, line in enumerate(new[k:m]):
            was = old[i + number] if tag == "replace" and i + number < j else None
            if was is not None and _adds_words(was, line):
                continue
            rule = _RULE.match(line)
            if was is None and rule and _is_new_rule(rule.group(1), rule.group(2), known):
                added_rule = rule.group(1)
            elif (was is None and line.strip() and not _is_new_recipe(line, added_rule)) or was is not None:
                return False
        if j - i > m - k:
            return False
    return True


def _first_target(lines: Sequence[str]) -> str:
    """Return the target that make builds if none is named."""
    found = (_RULE.match(line) for line in lines if not line.startswith(("\t", ".")) and not _VARIABLE.match(line))
    return next((rule.group(1).split()[0] for rule in found if rule and "%" not in rule.group(1)), "")


def _is_new_rule(target: str, prerequisites: str, known: Collection[str]) -> bool:
    """Return whether a rule makes something that nothing else in the file mentions, from plain files."""
    is_plain = re.fullmatch(r"[\w/-][\w./-]*", target) is not None
    return is_plain and target not in known and all(map(_PREREQUISITE.fullmatch, prerequisites.split()))


def _adds_words(before: str, after: str) -> bool:
    old, new = before.split(), after.split()
    if (found := _VARIABLE.match(before)) and not any(map(_SOURCE_WORD.fullmatch, found.group(2).split())):
        return False  # not a list of sources: its first word may be a program
    rest = list(new)
    for word in old:
        if word not in rest:
            return False
        rest.remove(word)
    kept = [word for word in new if word in old]
    is_list = bool(re.match(r"[A-Z_]+\s*[:+?]?=|[\w./-]+\s*:(?!=)", before)) and not before.startswith("\t")
    return is_list and kept == old and all(_SOURCE_WORD.fullmatch(word) for word in rest)


def _is_new_recipe(line: str, target: str) -> bool:
    if line.strip().startswith("#") or _RUN_TEST.fullmatch(line):
        return True
    output = re.search(r"-o\s+(\S+)", line)
    return bool(target and _COMPILE.fullmatch(line)) and (output is None or output.group(1) in ("$@", target))


def _is_harmless_gitattributes(before: str, after: str) -> bool:
    old = before.splitlines()
    added = [line for line in after.splitlines() if line not in old and line.strip() and not line.startswith("#")]
    removed = [line for line in old if line not in after.splitlines() and line.strip() and not line.startswith("#")]
    harmless = re.compile(r"\S+(?:\s+(?:linguist-[\w-]+(?:=\S+)?|text(?:=auto)?|eol=lf|binary|-?diff(?:=\w+)?))+\s*")
    return not removed and all(harmless.fullmatch(line) for line in added)


def _is_harmless_dotenv(before: str, after: str) -> bool:
    """Return whether variables are only added, and none that programs obey by themselves."""
    old, new = _variables(before), _variables(after)
    added = new.keys() - old.keys()
    is_kept = all(new.get(name) == value for name, value in old.items())
    return is_kept and not any(map(_OBEYED.fullmatch, added))


def _variables(text: str) -> dict[str, str]:
    """Parse assignments; refuse what a shell would run."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _ASSIGNMENT.fullmatch(line)
        if match is None and not line.startswith("#"):
            raise ValueError("not an assignment")
        if match:
            found[match.group(1)] = match.group(2)
    return found


_ASSIGNMENT = re.compile(r"(?:export\s+)?(\w+)=([^`$;&|<>()]*)")
_OBEYED = re.compile(
    r"(?:PATH|SHELL|ENV|BASH_ENV|HOME|IFS|CI|DEBUG|(?:LD|DYLD|PYTHON|PYTEST|NODE|NPM|MAKE|GNUMAKE|GIT|RUST|CARGO|GO|JAVA"
    r"|RUBY|PERL|JEST|VITEST|MOCHA|COVERAGE|TOX|UV|PIP|RALPH)\w*|CC|CXX|CFLAGS|CPPFLAGS|LDFLAGS|\w*(?:SKIP|TEST|OPTS)\w*)"
)
"""Variables that change how programs run."""
_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "package.json": _is_harmless_package_json,
    "pyproject.toml": _is_harmless_pyproject,
    "Cargo.toml": _is_harmless_cargo,
    "go.mod": _is_harmless_go_mod,
    **dict.fromkeys(("Makefile", "makefile", "GNUmakefile"), _is_harmless_makefile),
    ".gitattributes": _is_harmless_gitattributes,
    **dict.fromkeys((".env", ".env.test"), _is_harmless_dotenv),
}
"""Comparison of the old and the new text of a file, by its name."""


# --- parts of a file that gates run ----------------------------------------------------


def redefined_parts(path: str, before: bytes | None, after: bytes | None) -> frozenset[str]:
    """Return the existing scripts, targets or tools that a change of a build file redefines, by name."""
    read = _PARTS.get(basename(path))
    if read is None or before is None or after is None:
        return frozenset()
    try:
        old, new = (read(content.decode("utf-8")) for content in (before, after))
    except _INCOMPARABLE:
        return frozenset({"syntax"})
    changed = {name for name, value in old.items() if new.get(name) != value}
    used = {*re.findall(r"\$[({]([\w.-]+)[)}]", before.decode("utf-8", "replace"))}
    added = new.keys() - old.keys()
    return frozenset(changed | (added & used) | {name for name in added if _REDEFINING.fullmatch(name)})


_REDEFINING = re.compile(
    r"(?:pre|post)\w*|SHELL|\.[A-Z_]+|MAKEFLAGS|MAKEFILES|VPATH|GNUMAKEFLAGS|include|eval|pytest|jest|mocha|ava"
)
"""Parts that change what runs although they are new."""


def _package_parts(text: str) -> dict[str, object]:
    parsed = _unique_json(text)
    scripts = parsed.get("scripts")
    tools = {name: parsed[name] for name in ("jest", "mocha", "ava", "nyc", "c8", "type", "imports") if name in parsed}
    return {**(scripts if isinstance(scripts, dict) else {}), **tools}


def _pyproject_parts(text: str) -> dict[str, object]:
    tools = tomllib.loads(text).get("tool")
    return dict(tools) if isinstance(tools, dict) else {}


def _makefile_parts(text: str) -> dict[str, object]:
    parts: dict[str, object] = {"default goal": _first_target(text.splitlines())}
    targets: list[str] = []

    def append(name: str, value: str) -> None:
        parts[name] = f"{parts.get(name, '')}{value}\n"

    for line in text.splitlines():
        if re.search(r"\$[({](?:eval|shell|file|guile)\b", line) and not line.startswith("\t"):
            append("eval", line)
        if line.startswith("\t"):
            for target in targets:
                append(target, line)
        elif found := _VARIABLE.match(line):
            append(found.group(1), found.group(2))
        elif found := re.match(r"[-s]?include\s+(.*)", line):
            append("include", found.group(1))
        elif found := _RULE.match(line):
            targets = [name for name in found.group(1).split() if name != ".PHONY"]
            for target in targets:
                append(target, found.group(2))
    return parts


def unmade_targets(text: str) -> frozenset[str]:
    """Return the targets of a Makefile that stand for no file: make skips them once a file has their name."""
    phony = {name for line in re.findall(r"^\.PHONY\s*:(.*)", text, re.MULTILINE) for name in line.split()}
    rules = {name: str(recipe) for name, recipe in _makefile_parts(text).items() if re.fullmatch(r"[\w-]+", name)}
    made = {name for name, recipe in rules.items() if "$@" in recipe or re.search(rf"\b{re.escape(name)}\b", recipe)}
    targets = {name for rule in re.findall(r"^([\w -]+?)\s*::?(?!=)", text, re.MULTILINE) for name in rule.split()}
    return frozenset(targets - phony - made)


_PARTS: dict[str, Callable[[str], dict[str, object]]] = {
    "package.json": _package_parts,
    "pyproject.toml": _pyproject_parts,
    **dict.fromkeys(("Makefile", "makefile", "GNUmakefile"), _makefile_parts),
}
