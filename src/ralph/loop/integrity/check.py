"""Check that what gates depend on is as it was when the task started."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from posixpath import basename, splitext
from typing import TYPE_CHECKING

from ralph.core.git import run_git
from ralph.core.records import IntegrityResult, replace
from ralph.loop.git.left_out import is_output
from ralph.loop.integrity.held import mark_of, marks_digest
from ralph.loop.integrity.judge import (
    ChangeReport,
    ProtectedChange,
    compare,
    describe,
    is_code,
    protection_for,
    render_diff,
)
from ralph.loop.integrity.mutation import can_mutate, find_defeat
from ralph.loop.integrity.overlay import (
    CopyRefusedError,
    copied_project,
    remove_moved_tests,
    restore_files,
)
from ralph.loop.integrity.protected import (
    SKIPPED_DIRECTORIES,
    ProtectedKind,
)
from ralph.loop.integrity.scope import Scope, scope_of
from ralph.loop.integrity.snapshot import TreeSnapshot, state_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.records import HeldChange, Task, VerificationResult
    from ralph.loop.integrity.dependencies import InstalledPackages
    from ralph.loop.integrity.held import ContentMark, HeldChanges
    from ralph.store import Store

    RunOnCopy = Callable[[Path, str, bool], VerificationResult]
    """Runs the gates in a directory; says with what, and whether they should fail."""

MAX_SECONDS_FOR_NEW_TESTS = 10.0
"""Duration of the gates up to which they also run without new tests, with mutated tests, and new tests on the base, in
seconds."""
MAX_IGNORED_FILES = 1000
"""Number of new files up to which git is asked which of them it ignores."""
_COVERAGE = re.compile(r"fail[-_]under|coverageThreshold|check-coverage|thresholds?\b")
_COVERAGE_FILES = ("pyproject.toml", "setup.cfg", "tox.ini", ".coveragerc", "pytest.ini", "package.json", "Makefile")


def task_scope(store: Store, task: Task) -> Scope:
    """Return what a person said a task may change: its own words, or for a task of an agent those of its parent.

    What a person imported counts: they decided that it is to be done.
    """
    while task.written_by == "agent" and task.parent_id:
        task = store.tasks.get(task.parent_id)
    if task.written_by == "agent":
        return scope_of(task.allow, ())
    feature = store.features.get(task.feature_id) if task.feature_id else None
    is_ours = feature is not None and feature.written_by != "agent"
    texts = (task.title, task.body, *((feature.spec, feature.plan) if feature and is_ours else ()))
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
        held: HeldChanges,
        root: Path,
        installed: InstalledPackages,
    ) -> None:
        """`started` is the state before the task's first session; `root` the directory that is judged."""
        self._base, self._started, self._scope, self._root = base, started, scope, root
        self._installed = installed
        self._held = held
        self._gates = tuple(gates)
        self._created_at = time.monotonic()
        self.protection = protection_for(base, protect, gates, _program_directories(root))

    def judge(self, states: Sequence[TreeSnapshot], run_gates: RunOnCopy) -> tuple[IntegrityResult, tuple[str, ...]]:
        """Return the result and the paths that were accepted; `states` are those before and after the gates."""
        is_fast = time.monotonic() - self._created_at <= MAX_SECONDS_FOR_NEW_TESTS
        now = states[-1]
        report = _union(
            [self._without_approved(compare(self._base, state, self.protection, self._scope)) for state in states]
        )
        installed = self._changed_packages(now)
        own = [one for one in report.for_person if self._is_own(one, states)]
        own += [one for one in installed if not self._held.owner_of(one)]
        tests = [one for one in report.tests if self._is_own(one, states)]
        others = [one for one in (*report.for_person, *report.tests) if not self._is_own(one, states)]
        left = [one for one in others if not self._is_settled(one)]
        spoiled = [one for one in installed if one not in own]
        approved = tuple(one.path for one in report.approved)
        accepted = (*(one.path for one in report.allowed), *approved)
        if held := self._without_gates(own, tests, spoiled, report, now):
            return held, accepted
        notes = [f"within the task's scope: {describe(report.allowed)}"] if report.allowed else []
        notes += [f"approved by a person: {describe(report.approved)}"] if report.approved else []
        additions = self._removable(report, now)
        if tests or left or additions:
            named = ", ".join(filter(None, (describe([*tests, *additions]), self._describe_left(left))))
            if problem := self._run_with_base((*tests, *left, *additions), report.new_tests, run_gates):
                marked = [*tests, *additions, *(one for one in left if not self._held.owner_of(one))]
                return self._hold([f"{problem}: {named}"], marked, now, left), accepted
            notes.append(f"the gates also pass with the base version of {named}")
        if is_fast and (defeat := self._run_mutated(now, run_gates)):
            reason, sources = defeat
            return self._hold([f"{reason}: {describe(sources)}"], sources, now), accepted
        return IntegrityResult(notes=tuple(notes), approved=approved), (*accepted, *report.new_tests)

    def _removable(self, report: ChangeReport, now: TreeSnapshot) -> list[ProtectedChange]:
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
            ProtectedChange(path=path, kind=ProtectedKind.TEST, what="added", digest=state_digest(now.states[path]))
            for path in report.new_tests
            if path in now.states and not any(splitext(basename(path))[0] in text for text in texts)
        ]
        fixtures = [one for one in report.allowed if basename(one.path) == "conftest.py"]
        return [
            one
            for one in (*tests, *fixtures, *self._ignored(now))
            if not self._held.is_approved(one) and not self._scope.allows(one.path, one.kind)
        ]

    def _ignored(self, now: TreeSnapshot) -> list[ProtectedChange]:
        """Return new files that no commit will have, although they are neither installed, built nor cached."""
        added = [path for path in now.states.keys() - self._base.states.keys() if not path.startswith("../")]
        added = [path for path in added if not is_output(path) and SKIPPED_DIRECTORIES.isdisjoint(path.split("/"))]
        if not self._base.taken_at_ns or not 0 < len(added) <= MAX_IGNORED_FILES:
            return []
        found = run_git(self._root, "-c", "core.quotePath=false", "check-ignore", "--", *sorted(added)).stdout
        return [
            ProtectedChange(path=path, kind=ProtectedKind.BUILD, what="ignored by git", digest=state_digest(state))
            for path in found.splitlines()
            if (state := now.states.get(path))
        ]

    def _is_test_code(self, path: str) -> bool:
        return self.protection.kind_of(path) is ProtectedKind.TEST and is_code(path) and "__init__" not in path

    def _counts_coverage(self) -> bool:
        texts = (_text(self._base, name) for name in _COVERAGE_FILES if name in self._base.states)
        return any(_COVERAGE.search(text) for text in (*self._gates, *texts))

    def unfinished(self, now: TreeSnapshot) -> IntegrityResult | None:
        """Return what unfinished work changed, so that a later run does not start from it.

        Tests that it changed need no person yet: the gates have to pass with their base version once it is finished.
        """
        report = self._without_approved(compare(self._base, now, self.protection, self._scope))
        own = [one for one in report.for_person if self._is_own(one, [now])]
        own += [one for one in self._changed_packages(now) if not self._held.owner_of(one)]
        tests = [one for one in report.tests if self._is_own(one, [now])]
        if not own and not tests:
            return None
        reasons = [f"unfinished work changes {_protected(own)}: {describe(own)}"] if own else []
        return self._hold(reasons, [*own, *tests], now)

    def _changed_packages(self, now: TreeSnapshot) -> list[ProtectedChange]:
        return [
            one
            for one in self._installed.changes(self._root, self._base, now)
            if not self._held.is_approved(one) and not self._is_settled(one)
        ]

    def changed_tests(self, now: TreeSnapshot) -> tuple[str, ...]:
        """Return the existing tests that differ from the base."""
        return tuple(one.path for one in compare(self._base, now, self.protection, self._scope).tests)

    def _without_gates(
        self,
        own: Sequence[ProtectedChange],
        tests: Sequence[ProtectedChange],
        spoiled: Sequence[ProtectedChange],
        report: ChangeReport,
        now: TreeSnapshot,
    ) -> IntegrityResult | None:
        """Return what a person has to decide whatever the gates say with the base version.

        `spoiled` are files of installed packages that another task changed: there is no base version of them.
        """
        altered = self._altered(report, now)
        waiting = self._held.waiting(lambda mark: self._was_found(mark, now))
        earlier = [one for one in waiting if self._held.is_own(one[0])]
        others = [one for one in waiting if not self._held.is_own(one[0])]
        reasons = []
        if own:
            reasons.append(f"the work changes {_protected(own)}: {describe(own)}")
        if altered:
            reasons.append(f"this is not what a person approved: {describe(altered)}")
        if earlier:
            reasons.append(
                f"a change that waits for approval is still there: {_name(earlier)}. Approve it, or put it back"
                " (git checkout FILE) before the task is reset"
            )
        for id in dict.fromkeys(held.task_id for held, _ in others):
            left = [one for one in others if one[0].task_id == id]
            reasons.append(f"{_name(left)} was left by {id}, which is not done: ralph task show {id}")
        if spoiled:
            reasons.append(self._describe_left(spoiled))
        if not reasons:
            return None
        # Existing tests are part of it: a later run takes the directory as it finds it.
        result = self._hold(reasons, [*own, *(tests if own else ())], now, spoiled, altered)
        marks = dict.fromkeys((*result.marks, *(str(mark) for _, marks in earlier for mark in marks)))
        files = (*result.files, *(mark.path for _, marks in waiting for mark in marks))
        return replace(
            result,
            files=tuple(dict.fromkeys(files)),
            marks=tuple(marks),
            digest=marks_digest(marks),
            diff="\n".join(dict.fromkeys(filter(None, (result.diff, *(held.diff for held, _ in waiting))))),
        )

    def _was_found(self, mark: ContentMark, now: TreeSnapshot) -> bool:
        """Return whether a run found a change in the directory, so that comparing with its base does not show it."""
        is_found = bool(self._base.taken_at_ns) and mark.is_in(self._base) and mark.is_in(now)
        return is_found or self._installed.has_found(mark.path, mark.digest)

    def _altered(self, report: ChangeReport, now: TreeSnapshot) -> list[ProtectedChange]:
        """Return files that a run found with another content than a person approved for this task."""
        compared = {one.path for one in (*report.for_person, *report.tests, *report.allowed, *report.approved)}
        return [
            ProtectedChange(
                path=mark.path,
                kind=self.protection.kind_of(mark.path) or ProtectedKind.CUSTOM,
                what="changed since it was approved",
                digest=state_digest(now.states.get(mark.path)),
                was=mark.was,
            )
            for mark in self._held.approved
            if self._base.taken_at_ns and mark.path not in compared and mark.is_replaced_in(now)
        ]

    def new_tests(self, now: TreeSnapshot) -> tuple[str, ...]:
        """Return the tests that the work adds."""
        return compare(self._base, now, self.protection, self._scope).new_tests

    def _is_own(self, change: ProtectedChange, states: Sequence[TreeSnapshot]) -> bool:
        """Return whether this task made a change, rather than one whose work was not accepted."""
        before = self._started.states.get(change.path)
        return any(state.states.get(change.path) != before for state in states)

    def _is_settled(self, change: ProtectedChange) -> bool:
        """Return whether a person approved a change for the other task that made it."""
        owner = self._held.owner_of(change)
        return bool(owner) and self._held.is_approved(change, owner)

    def _describe_left(self, changes: Sequence[ProtectedChange]) -> str:
        """Return changes of earlier tasks as a list in a sentence, with who made them."""
        owners = {one.path: self._held.owner_of(one) for one in changes}
        parts = []
        for owner in dict.fromkeys(owners.values()):
            named = describe([one for one in changes if owners[one.path] == owner])
            parts.append(
                f"{named}, left by {owner}, which is not done" if owner else f"{named}, left by unfinished work"
            )
        return "; ".join(parts)

    def _without_approved(self, report: ChangeReport) -> ChangeReport:
        changes = (*report.for_person, *report.tests)
        approved = tuple(one for one in changes if self._held.is_approved(one))
        return replace(
            report,
            for_person=tuple(one for one in report.for_person if one not in approved),
            tests=tuple(one for one in report.tests if one not in approved),
            approved=approved,
        )

    def _hold(
        self,
        reasons: Sequence[str],
        changes: Sequence[ProtectedChange],
        now: TreeSnapshot,
        left: Sequence[ProtectedChange] = (),
        altered: Sequence[ProtectedChange] = (),
    ) -> IntegrityResult:
        """Return that a person has to decide about changes; `left` are those of others, `altered` have no base."""
        marks = tuple(dict.fromkeys(str(mark_of(one)) for one in (*changes, *altered)))
        paths = tuple(dict.fromkeys(one.path for one in (*changes, *left)))
        other_paths = [one.path for one in altered]
        diffs = (render_diff(self._base, now, paths), render_diff(TreeSnapshot({}), now, other_paths))
        return IntegrityResult(
            passed=False,
            reason="; ".join(reasons),
            files=(*paths, *other_paths),
            marks=marks,
            digest=marks_digest(marks),
            diff="\n".join(filter(None, diffs)),
        )

    def _run_mutated(self, now: TreeSnapshot, run_gates: RunOnCopy) -> tuple[str, list[ProtectedChange]] | None:
        """Run the gates with mutated tests; return how the source files that the work changed defeat them."""
        sources = [
            ProtectedChange(
                path=path,
                kind=ProtectedKind.CUSTOM,
                what="changed",
                digest=state_digest(after),
                was=state_digest(self._started.states.get(path)),
            )
            for path, after in sorted(now.states.items())
            if can_mutate(path) and self._started.states.get(path) != after and self.protection.kind_of(path) is None
        ]
        tests = [path for path in now.states if path in self._base.states and self._is_test_code(path)]
        tests = [path for path in tests if can_mutate(path)]
        if not tests or all(map(self._held.is_approved, sources)):
            return None
        try:
            with copied_project(self._root) as copy:
                changed = [one.path for one in sources]
                mutated = "mutated tests, which have to fail"
                reason = find_defeat(copy, tests, changed, lambda place: run_gates(place, mutated, True))
        except (CopyRefusedError, OSError):
            return None  # nothing speaks against the work
        return (reason, sources) if reason else None

    def _run_with_base(self, changes: Sequence[ProtectedChange], new_tests: Sequence[str], run_gates: RunOnCopy) -> str:
        """Run the gates on a copy with the base version of some files; return why they did not pass."""
        paths = [one.path for one in changes]
        try:
            with copied_project(self._root) as copy:
                if lost := restore_files(copy, self._base, paths, self._scope.rename):
                    return f"the base version of {lost[0]} is too large to run"
                remove_moved_tests(copy, paths, new_tests)
                verdict = run_gates(copy, "the base version of changed files", False)
        except (CopyRefusedError, OSError) as error:
            return f"the base version could not be run ({error})"
        return "" if verdict.passed else "the gates do not pass with the base version of changed files"


def _union(reports: Sequence[ChangeReport]) -> ChangeReport:
    def joined(name: str) -> tuple[ProtectedChange, ...]:
        return tuple({one.path: one for report in reports for one in getattr(report, name)}.values())

    return ChangeReport(
        for_person=joined("for_person"),
        tests=joined("tests"),
        new_tests=tuple(dict.fromkeys(path for report in reports for path in report.new_tests)),
        allowed=joined("allowed"),
        approved=joined("approved"),
    )


def _protected(changes: Sequence[ProtectedChange]) -> str:
    return "a protected file" if len({one.path for one in changes}) == 1 else "protected files"


def _name(found: Sequence[tuple[HeldChange, list[ContentMark]]]) -> str:
    """Return the files of held changes as a list in a sentence."""
    paths = list(dict.fromkeys(mark.path for _, marks in found for mark in marks))
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def _text(tree: TreeSnapshot, path: str) -> str:
    return (tree.read(path) or b"").decode("utf-8", "replace")


def _program_directories(root: Path) -> set[str]:
    """Return the directories of PATH that lie in the project, relative to it."""
    here, found = os.path.realpath(root), set()
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.realpath(Path(here, entry or "."))
        if path == here or path.startswith(f"{here}/"):
            found.add(os.path.relpath(path, here).removeprefix("."))
    return found
