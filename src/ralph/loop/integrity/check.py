"""Check that what gates depend on is as it was when the task started."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from posixpath import basename, splitext
from typing import TYPE_CHECKING

from ralph.core.git import run_git
from ralph.core.records import IntegrityResult
from ralph.loop.integrity.dependencies import changed_dependencies, discard_caches, installed_places
from ralph.loop.integrity.judge import (
    ChangeReport,
    FileChange,
    change_digest,
    compare,
    describe,
    digest_of,
    is_code,
    protection_for,
    render_diff,
)
from ralph.loop.integrity.overlay import (
    CopyRefusedError,
    copied_project,
    remove_moved_tests,
    restore_files,
    write_new_tests,
)
from ralph.loop.integrity.protected import MAX_SCRIPT_BYTES, RECIPES, ProtectedKind, Protection, is_script
from ralph.loop.integrity.scope import Scope, scope_of
from ralph.loop.integrity.snapshot import DirectorySnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.core.records import HeldChange, Task, VerificationResult
    from ralph.loop.integrity.snapshot import TreeSnapshot
    from ralph.store import Store

    RunGates = Callable[[Path], VerificationResult]

MAX_SECONDS_FOR_NEW_TESTS = 10.0
"""Duration of the gates up to which they also run without new tests, and new tests on the base, in seconds."""
_COVERAGE = re.compile(r"fail[-_]under|coverageThreshold|check-coverage|thresholds?\b")
_COVERAGE_FILES = ("pyproject.toml", "setup.cfg", "tox.ini", ".coveragerc", "pytest.ini", "package.json", "Makefile")


class InstalledPackages:
    """Directories with installed packages that exist before the sessions of a run."""

    def __init__(self, root: Path) -> None:
        self._known = frozenset(installed_places(root))
        self._since_ns = time.time_ns()

    def changes(self, directory: Path, base: TreeSnapshot, now: TreeSnapshot) -> list[FileChange]:
        """Return what sessions changed in the packages that gates find in a directory."""
        return changed_dependencies(installed_places(directory), self._known, self._since_ns, base, now)

    def discard_caches(self, directory: Path) -> None:
        """Delete compiled Python files that sessions may have written where gates would load them."""
        for place in (os.fspath(directory), *installed_places(directory).values()):
            discard_caches(place, self._since_ns)


class RunBase:
    """State of a directory in which one task after another works; safe to use from several threads.

    What a person accepted moves the base; what a task left behind without being accepted does not, so that neither
    a later attempt nor a later task starts from it.
    """

    def __init__(self, root: Path, protect: Sequence[str], gates: Sequence[str]) -> None:
        self.root = root
        self.protect, self.gates = tuple(protect), tuple(gates)
        self._lock = threading.Lock()
        self._base: DirectorySnapshot | None = None
        self._latest: DirectorySnapshot | None = None
        self._started: dict[str, DirectorySnapshot] = {}
        self._named = Protection(protect=self.protect)
        self._recipes = "\n".join((*self.gates, *_recipe_texts(root)))

    def begin(self, task_id: str) -> None:
        """Record the state before the first session of a task in this run."""
        with self._lock:
            if task_id not in self._started:
                self._started[task_id] = self._take()

    def base(self) -> DirectorySnapshot:
        """Return the state that gates may depend on."""
        with self._lock:
            return self._base or self._take()

    def started(self, task_id: str) -> DirectorySnapshot:
        """Return the state before the first session of a task in this run."""
        return self._started.get(task_id) or self.base()

    def observe(self) -> DirectorySnapshot:
        """Return the state now."""
        with self._lock:
            return self._take()

    def accept(self, now: TreeSnapshot, paths: Collection[str]) -> None:
        """Make the present version of some files part of the base."""
        base = self.base()
        for path in paths:
            if path in now.states:
                base.states[path] = now.states[path]
            else:
                base.states.pop(path, None)
            content = now.read(path)
            if content is not None:
                base.contents[path] = content
            base.hijacks[path] = now.hijacks_in(path)

    def _take(self) -> DirectorySnapshot:
        taken = DirectorySnapshot(self.root, self._is_kept, self._latest)
        self._latest = taken
        if self._base is None:
            # A copy of the tables: accepted files are written into them.
            self._base = DirectorySnapshot(self.root, self._is_kept, taken)
        return taken

    def _is_kept(self, path: str) -> bool:
        if self._named.kind_of(path) is not None or is_script(path, is_executed=True):
            return True
        name = basename(path)  # a program that a gate may run
        return is_code(path) and (name == "__main__.py" or splitext(name)[0] in self._recipes)


def _recipe_texts(root: Path) -> Iterator[str]:
    for name in RECIPES:
        with suppress(OSError):
            yield (root / name).read_text(encoding="utf-8", errors="replace")[:MAX_SCRIPT_BYTES]


def task_scope(store: Store, task: Task) -> Scope:
    """Return what a person said a task may change: its own words, or for a task of an agent those of its parent."""
    while task.written_by != "person" and task.parent_id:
        task = store.tasks.get(task.parent_id)
    if task.written_by != "person":
        return scope_of(task.allow, ())
    feature = store.features.get(task.feature_id) if task.feature_id else None
    texts = (task.title, task.body, *((feature.spec, feature.plan) if feature else ()))
    return scope_of(task.allow, texts)


class IntegrityCheck:
    """Comparison of one task's work with its base."""

    def __init__(
        self,
        base: TreeSnapshot,
        started: TreeSnapshot,
        protect: Sequence[str],
        gates: Sequence[str],
        scope: Scope,
        approved: Collection[str],
        unapproved: Sequence[HeldChange],
        root: Path,
        installed: InstalledPackages,
    ) -> None:
        """`started` is the state before the task's first session; `root` the directory that is judged."""
        self._base, self._started, self._scope, self._root = base, started, scope, root
        self._installed = installed
        self._approved = approved
        self._unapproved = unapproved
        self._gates = tuple(gates)
        self._created_at = time.monotonic()
        self.protection = protection_for(base, protect, gates, _program_directories(root))

    def judge(self, states: Sequence[TreeSnapshot], run_gates: RunGates) -> tuple[IntegrityResult, tuple[str, ...]]:
        """Return the result and the paths that were accepted; `states` are those before and after the gates."""
        now = states[-1]
        reports = [compare(self._base, state, self.protection, self._scope) for state in states]
        report = _union([self._without_approved(one) for one in reports])
        installed = [one for one in self._installed.changes(self._root, self._base, now) if not self._is_approved(one)]
        own = [one for one in report.for_person if self._is_own(one, states)] + installed
        accepted = tuple(one.path for one in report.allowed)
        if earlier := self._held_before(now):
            return earlier, accepted
        if own:
            reason = f"the work changes what decides whether it is done: {describe(own)}"
            return self._held(reason, own, now), accepted
        left_behind = [one for one in report.for_person if one not in own]
        repeated = (*report.tests, *left_behind)
        additions = self._removable(report, now)
        notes = [f"within the task's scope: {describe(report.allowed)}"] if report.allowed else []
        if repeated or additions:
            restored = (*repeated, *additions)
            problem = self._run_with_base(restored, report.new_tests, run_gates)
            if problem:
                return self._held(f"{problem}: {describe(restored)}", restored, now), accepted
            notes.append(f"the gates also pass with the base version of {describe(restored)}")
        return IntegrityResult(notes=tuple(notes)), (*accepted, *report.new_tests)

    def _removable(self, report: ChangeReport, now: TreeSnapshot) -> list[FileChange]:
        """Return new tests and fixtures without which the gates must pass too: they may change what others test.

        Kept are those that the build files or the gates name, and all if that would take long, if nothing else is left
        to test, or if the gates count what is tested.
        """
        seconds = time.monotonic() - self._created_at
        others = [path for path in self._base.states if self._is_test_code(path) and path in now.states]
        changed = [one for one in report.allowed if one.kind is ProtectedKind.BUILD]
        texts = [*self._gates, *(_text(now, one.path) for one in changed)]
        if not others or seconds > MAX_SECONDS_FOR_NEW_TESTS or self._counts_coverage():
            return []
        tests = [
            FileChange(path=path, kind=ProtectedKind.TEST, what="added", digest=digest_of(now.states[path]))
            for path in report.new_tests
            if path in now.states and not any(splitext(basename(path))[0] in text for text in texts)
        ]
        fixtures = [one for one in report.allowed if basename(one.path) == "conftest.py"]
        return [
            one
            for one in (*tests, *fixtures)
            if not self._is_approved(one) and not self._scope.allows(one.path, one.kind)
        ]

    def _is_test_code(self, path: str) -> bool:
        return self.protection.kind_of(path) is ProtectedKind.TEST and is_code(path) and "__init__" not in path

    def _counts_coverage(self) -> bool:
        texts = (_text(self._base, name) for name in _COVERAGE_FILES if name in self._base.states)
        return any(_COVERAGE.search(text) for text in (*self._gates, *texts))

    def unfinished(self, now: TreeSnapshot) -> IntegrityResult | None:
        """Return what unfinished work changed that needs a person, so that a later run does not start from it."""
        report = self._without_approved(compare(self._base, now, self.protection, self._scope))
        own = [one for one in report.for_person if self._is_own(one, [now])]
        return (
            self._held(f"unfinished work changes what decides whether it is done: {describe(own)}", own, now)
            if own
            else None
        )

    def _held_before(self, now: TreeSnapshot) -> IntegrityResult | None:
        """Return a change of an earlier run that is still there and that nobody has approved."""
        for held in self._unapproved:
            marks = [mark for mark in held.marks if mark not in self._approved]
            if self._base.taken_at_ns and any(
                _is_present(mark, self._base) and _is_present(mark, now) for mark in marks
            ):
                reason = f"a change that waits for approval is still there: {', '.join(held.files[:5])}"
                return IntegrityResult(
                    passed=False,
                    reason=reason,
                    files=held.files,
                    marks=held.marks,
                    digest=held.digest,
                    diff=held.diff,
                )
        return None

    def new_tests(self, now: TreeSnapshot) -> tuple[str, ...]:
        """Return the tests that the work adds."""
        return compare(self._base, now, self.protection, self._scope).new_tests

    def _is_own(self, change: FileChange, states: Sequence[TreeSnapshot]) -> bool:
        """Return whether this task made a change, rather than one whose work was not accepted."""
        before = self._started.states.get(change.path)
        return any(state.states.get(change.path) != before for state in states)

    def _is_approved(self, change: FileChange) -> bool:
        return _mark(change) in self._approved

    def _without_approved(self, report: ChangeReport) -> ChangeReport:
        changes = (*report.for_person, *report.tests)
        approved = tuple(one for one in changes if self._is_approved(one))
        return ChangeReport(
            for_person=tuple(one for one in report.for_person if one not in approved),
            tests=tuple(one for one in report.tests if one not in approved),
            new_tests=report.new_tests,
            allowed=(*report.allowed, *approved),
        )

    def _held(self, reason: str, changes: Sequence[FileChange], now: TreeSnapshot) -> IntegrityResult:
        return IntegrityResult(
            passed=False,
            reason=reason,
            files=tuple(one.path for one in changes),
            marks=tuple(map(_mark, changes)),
            digest=change_digest(changes),
            diff=render_diff(self._base, now, [one.path for one in changes]),
        )

    def _run_with_base(self, changes: Sequence[FileChange], new_tests: Sequence[str], run_gates: RunGates) -> str:
        """Run the gates on a copy with the base version of some files; return why they did not pass."""
        paths = [one.path for one in changes]
        try:
            with copied_project(self._root) as copy:
                if lost := restore_files(copy, self._base, paths):
                    return f"the base version of {lost[0]} is too large to run"
                remove_moved_tests(copy, paths, new_tests)
                verdict = run_gates(copy)
        except (CopyRefusedError, OSError) as error:
            return f"the base version could not be run ({error})"
        return "" if verdict.passed else "the gates do not pass with the base version of files the work changed"


def _union(reports: Sequence[ChangeReport]) -> ChangeReport:
    def joined(name: str) -> tuple[FileChange, ...]:
        return tuple({one.path: one for report in reports for one in getattr(report, name)}.values())

    return ChangeReport(
        for_person=joined("for_person"),
        tests=joined("tests"),
        new_tests=tuple(dict.fromkeys(path for report in reports for path in report.new_tests)),
        allowed=joined("allowed"),
    )


def _text(tree: TreeSnapshot, path: str) -> str:
    return (tree.read(path) or b"").decode("utf-8", "replace")


def _mark(change: FileChange) -> str:
    return f"{change.path}\n{change.digest}"


def _is_present(mark: str, now: TreeSnapshot) -> bool:
    path, _, digest = mark.partition("\n")
    state = now.states.get(path)
    return state is not None and digest in (state.digest, f"{state.digest}x")


def _program_directories(root: Path) -> set[str]:
    """Return the directories of PATH that lie in the project, relative to it."""
    here, found = os.path.realpath(root), set()
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.realpath(Path(here, entry or "."))
        if path == here or path.startswith(f"{here}/"):
            found.add(os.path.relpath(path, here).removeprefix("."))
    return found


def new_tests_note(
    repository: Path, commit: str, prefix: str, now: TreeSnapshot, tests: Sequence[str], run_gates: RunGates
) -> str:
    """Run new tests on a commit that lacks the work, and say how that ended; empty if it could not be done."""
    with tempfile.TemporaryDirectory(prefix="ralph-base-", ignore_cleanup_errors=True) as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        copy = Path(folder) / "project"
        read = run_git(repository, "read-tree", commit, environment=index)
        if not read.ok or not run_git(repository, "checkout-index", "-a", f"--prefix={copy}/", environment=index).ok:
            return ""
        write_new_tests(copy / prefix, now.read, tests)
        passed = run_gates(copy / prefix).passed
    named = ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")
    return (
        f"new tests already pass without the work: {named}"
        if passed
        else f"new tests fail without the work, as they should: {named}"
    )
