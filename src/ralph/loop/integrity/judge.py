"""Judgment of what a task changed among the files that gates depend on. Pure."""

from __future__ import annotations

import difflib
from posixpath import basename, dirname

from ralph.core.records import record
from ralph.core.redaction import redact
from ralph.core.text import escape_invisible
from ralph.loop.integrity.expectations import Expectations
from ralph.loop.integrity.hijacks import is_test_use
from ralph.loop.integrity.protected import (
    MAX_SCRIPT_BYTES,
    TEST_DIRECTORIES,
    ProtectedKind,
    Protection,
    gate_scripts,
    module_at,
)
from ralph.loop.integrity.snapshot import state_digest
from ralph.loop.integrity.structure import is_harmless, redefined_parts, unmade_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ralph.loop.integrity.scope import Scope
    from ralph.loop.integrity.snapshot import TreeSnapshot

MAX_DIFF_CHARACTERS = 20_000
"""Maximum length of a stored diff, in characters."""
MAX_FILE_DIFF_LINES = 200
"""Maximum length of the diff of one file, in lines."""
_CODE_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".c", ".cc", ".cpp", ".sh", ".rb", ".rs", ".go", ".java")


@record
class ProtectedChange:
    """Change of a file that gates depend on."""

    path: str
    kind: ProtectedKind
    what: str
    """added, changed, deleted, mode changed, replaced by a link, or a statement that changes how gates end."""
    digest: str = ""
    """Content after the change, by which a person approves it."""
    was: str = ""
    """Content before the change; empty if it is not known."""
    needs_glob: bool = False
    """Whether only a glob of a person allows it; words that name a file do not mean this."""

    def __str__(self) -> str:
        """Return the change in a few words."""
        return f"{self.path} ({self.kind}, {self.what})"


@record
class ChangeReport:
    """Changes of protected files between the base and the judged work."""

    for_person: tuple[ProtectedChange, ...] = ()
    """Changes that only a person may accept."""
    tests: tuple[ProtectedChange, ...] = ()
    """Existing tests that changed and have to pass in their base version."""
    new_tests: tuple[str, ...] = ()
    allowed: tuple[ProtectedChange, ...] = ()
    """Changes within the scope of the task, or harmless ones."""
    approved: tuple[ProtectedChange, ...] = ()
    """Changes that a person approved for this task."""


def protection_for(
    base: TreeSnapshot, protect: Sequence[str], gates: Sequence[str], programs: Iterable[str]
) -> Protection:
    """Return the protection of a project; `programs` are the directories of PATH that lie in it."""
    small = _ScriptContents(base)
    return Protection(
        protect=tuple(protect),
        gates=tuple(gates),
        scripts=gate_scripts(gates, small),
        program_directories=frozenset(programs),
    )


class _ScriptContents(dict[str, "bytes | None"]):
    """Contents of the files of a snapshot, read when they are asked for."""

    def __init__(self, base: TreeSnapshot) -> None:
        super().__init__(dict.fromkeys(base.states))
        self._base = base

    def get(self, key: str, default: bytes | None = None) -> bytes | None:  # type: ignore[override]
        content = self._base.read(key)
        return content if content is not None and len(content) <= MAX_SCRIPT_BYTES else default


def compare(base: TreeSnapshot, now: TreeSnapshot, protection: Protection, scope: Scope) -> ChangeReport:
    """Return the changes of protected files, sorted by who has to accept them."""
    changes = list(_changes(base, now, protection))
    tests_text = _text_of_tests(base, protection) if any(basename(one.path) == "conftest.py" for one in changes) else ""
    for_person, tests, allowed = [], [], []
    for change in changes:
        if _is_allowed(change, scope) and _is_covered(change, scope, base, now):
            allowed.append(change)
        elif change.kind is ProtectedKind.TEST:
            tests.append(change)
        elif _is_harmless(change, base, now, tests_text) or _is_renaming(change, scope, base, now):
            allowed.append(change)
        else:
            for_person.append(change)
    new_tests = [
        path
        for path in now.states.keys() - base.states.keys()
        if protection.kind_of(path) is ProtectedKind.TEST and is_code(path)
    ]
    return ChangeReport(
        for_person=tuple(sorted(for_person, key=lambda one: one.path)),
        tests=tuple(sorted(tests, key=lambda one: one.path)),
        new_tests=tuple(sorted(new_tests)),
        allowed=tuple(sorted(allowed, key=lambda one: one.path)),
    )


def _changes(base: TreeSnapshot, now: TreeSnapshot, protection: Protection) -> Iterable[ProtectedChange]:
    test_directories = {dirname(path) for path in base.states if protection.kind_of(path) is ProtectedKind.TEST}
    packages, expectations = now.packages(), Expectations(base, protection)
    targets = _make_targets(base) if protection.is_default else frozenset()
    for path in base.states.keys() | now.states.keys():
        before, after = base.states.get(path), now.states.get(path)
        if before == after:
            continue
        kind = protection.kind_of(path)
        if kind is None and before and (_is_test_by_content(path, base) or expectations.include(path)):
            kind = ProtectedKind.TEST if base.read(path) is not None else None
        digest, was = state_digest(after), state_digest(before)
        if after and after.is_link and _escapes(path, now.read(path)):
            what = "a link that leaves the project"
            yield ProtectedChange(
                path=path, kind=ProtectedKind.INTERPRETER, what=what, digest=digest, was=was, needs_glob=True
            )
        elif before is None:
            if protection.shadows(path, test_directories, packages) and not _has_module(base, path):
                yield ProtectedChange(
                    path=path,
                    kind=ProtectedKind.INTERPRETER,
                    what="added, hides a module of the same name",
                    digest=digest,
                    was=was,
                )
            elif path.split("/")[0] in targets and not protection.is_exception(path):
                what = "added, has the name of a make target, which make then skips"
                yield ProtectedChange(path=path, kind=ProtectedKind.BUILD, what=what, digest=digest, was=was)
            elif kind and kind is not ProtectedKind.TEST and not _is_own_subproject(path, kind, base):
                yield ProtectedChange(path=path, kind=kind, what="added", digest=digest, was=was)
        elif kind:
            yield ProtectedChange(path=path, kind=kind, what=_what(before, after), digest=digest, was=was)
        if after and (found := _new_hijacks(path, base, now)):
            what = "; ".join(sorted(found))
            yield ProtectedChange(
                path=path, kind=ProtectedKind.INTERPRETER, what=what, digest=digest, was=was, needs_glob=True
            )


def _make_targets(base: TreeSnapshot) -> frozenset[str]:
    """Return the names that a new file at the top of the project must not have, because make would skip a target."""
    names = ("GNUmakefile", "makefile", "Makefile")
    text = base.read_text([name for name in names if name in base.states])
    return frozenset(name for name in unmade_targets(text) if name not in base.states and not base.has_directory(name))


def _new_hijacks(path: str, base: TreeSnapshot, now: TreeSnapshot) -> frozenset[str]:
    """Return the new statements of a file that change how gates end; tests may use test tools wherever they are."""
    found = now.hijacks_in(path) - base.hijacks_in(path)
    if any(map(is_test_use, found)):
        others = [one for one in base.states if dirname(one) == dirname(path) and is_code(one) and one != path]
        others = [one for one in others if not basename(one).startswith("__init__.")]
        if _is_test_by_content(path, base) or (others and all(_is_test_by_content(one, base) for one in others)):
            return frozenset(one for one in found if not is_test_use(one))
    return found


def _is_test_by_content(path: str, base: TreeSnapshot) -> bool:
    return any(map(is_test_use, base.hijacks_in(path)))


def is_code(path: str) -> bool:
    """Return whether a file is source code, by its name."""
    return path.endswith(_CODE_SUFFIXES)


def _what(before: object, after: object) -> str:
    from ralph.loop.integrity.snapshot import FileState

    if not isinstance(before, FileState) or not isinstance(after, FileState):
        return "deleted"
    if after.is_link != before.is_link:
        return "replaced by a link" if after.is_link else "no longer a link"
    return "changed" if after.digest != before.digest else "mode changed"


def _escapes(path: str, target: bytes | None) -> bool:
    """Return whether a link leads out of the project, or for one above the project still further up."""
    from posixpath import isabs, join, normpath

    text = (target or b"/").decode("utf-8", "replace")
    return isabs(text) or normpath(join(dirname(path), text)).split("/").count("..") > path.split("/").count("..")


def _has_module(base: TreeSnapshot, path: str) -> bool:
    """Return whether the base had a module of the same name in the same place, which this file extends."""
    found = module_at(path)
    if not found:
        return False
    stem = f"{found[0]}/{found[1]}".lstrip("/")
    return f"{stem}.py" in base.states or f"{stem}/__init__.py" in base.states


def _is_own_subproject(path: str, kind: ProtectedKind, base: TreeSnapshot) -> bool:
    """Return whether a build file belongs to a directory that is new as well, which no existing gate looks into."""
    folder = dirname(path)
    is_local = kind is ProtectedKind.BUILD and folder not in ("", ".cargo") and not base.has_directory(folder)
    return is_local and not {*folder.split("/")} & TEST_DIRECTORIES


def _is_harmless(change: ProtectedChange, base: TreeSnapshot, now: TreeSnapshot, tests_text: str) -> bool:
    if change.kind not in (ProtectedKind.BUILD, ProtectedKind.TEST_CONFIG, ProtectedKind.GIT):
        return False
    if change.what not in ("added", "changed"):
        return False
    before = base.read(change.path)
    return is_harmless(change.path, before, now.read(change.path), tests_text)


def _is_renaming(change: ProtectedChange, scope: Scope, base: TreeSnapshot, now: TreeSnapshot) -> bool:
    """Return whether a change only replaces names as a person asked."""
    before, after = base.read(change.path), now.read(change.path)
    is_plain = change.what == "changed" and before is not None and bool(scope.renames)
    return is_plain and before is not None and scope.rename(before) == after


def _is_allowed(change: ProtectedChange, scope: Scope) -> bool:
    """Return whether a person allowed a change."""
    return scope.allows_path(change.path) if change.needs_glob else scope.allows(change.path, change.kind)


def _is_covered(change: ProtectedChange, scope: Scope, base: TreeSnapshot, now: TreeSnapshot) -> bool:
    """Return whether the scope covers what a change redefines in a file that the task may change."""
    if change.kind is ProtectedKind.SETTINGS:
        return False
    parts = redefined_parts(change.path, base.read(change.path), now.read(change.path))
    return scope.covers(change.path, parts)


def _text_of_tests(base: TreeSnapshot, protection: Protection) -> str:
    tests = (path for path in base.states if path.endswith(".py") and protection.kind_of(path) is ProtectedKind.TEST)
    return "\n".join((base.read(path) or b"").decode("utf-8", "replace") for path in tests)


# --- for people ------------------------------------------------------------------------


def describe(changes: Sequence[ProtectedChange], limit: int = 5) -> str:
    """Return changes as a list in a sentence."""
    more = len(changes) - limit
    return ", ".join(map(str, changes[:limit])) + (f" and {more} more" if more > 0 else "")


def render_diff(base: TreeSnapshot, now: TreeSnapshot, paths: Collection[str]) -> str:
    """Return the changes of files as a unified diff, exact but redacted and bounded."""
    parts = [_file_diff(path, base.read(path), now.read(path), path in now.states) for path in dict.fromkeys(paths)]
    text = redact(escape_invisible("\n".join(parts)))
    return text if len(text) <= MAX_DIFF_CHARACTERS else f"{text[:MAX_DIFF_CHARACTERS]}\n… (the diff is longer)"


def _file_diff(path: str, before: bytes | None, after: bytes | None, exists: bool) -> str:
    old, new, name = _lines(before), _lines(after), path.replace("\n", "\\n")
    if b"\0" in (before or b"") + (after or b"") or (exists and after is None):
        return f"--- a/{name}\n+++ b/{name}\n(binary, large or not kept; see git diff)"
    names = (f"a/{name}" if before is not None else "/dev/null", f"b/{name}" if exists else "/dev/null")
    lines = list(difflib.unified_diff(old, new, *names, lineterm=""))
    if not lines:
        return f"--- {names[0]}\n+++ {names[1]}\n(only its mode or kind changed)"
    more = [f"… ({len(lines) - MAX_FILE_DIFF_LINES} more lines)"] if len(lines) > MAX_FILE_DIFF_LINES else []
    return "\n".join(lines[:MAX_FILE_DIFF_LINES] + more)


def _lines(content: bytes | None) -> list[str]:
    *lines, last = (content or b"").decode("utf-8", "backslashreplace").split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines
