"""The integrity check as a step of verification: which base, which scope, and what becomes of the result."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core.git import query_git, run_git
from ralph.core.records import IntegrityResult, replace
from ralph.loop.integrity.check import (
    MAX_SECONDS_FOR_NEW_TESTS,
    IntegrityCheck,
    task_scope,
)
from ralph.loop.integrity.held import HeldChanges, parse_marks
from ralph.loop.integrity.overlay import write_new_tests
from ralph.loop.integrity.snapshot import CommitSnapshot
from ralph.loop.progress import progress_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.records import HeldChange, Task, VerificationResult
    from ralph.loop.context import RunContext
    from ralph.loop.git.commits import TaskWorktree
    from ralph.loop.integrity.check import RunOnCopy
    from ralph.loop.integrity.snapshot import TreeSnapshot
    from ralph.loop.progress import EventHandler
    from ralph.loop.verify import JudgedWork
    from ralph.store import Store

    RunGates = Callable[[Path, bool], VerificationResult]
    """Runs the gates in a directory; says whether they should fail."""


class WorkIntegrity:
    """Integrity of the work of one attempt; create it before the gates run."""

    def __init__(
        self,
        context: RunContext,
        store: Store,
        task: Task,
        work: JudgedWork,
        run_gates: RunGates,
        emit: EventHandler,
    ) -> None:
        self._context, self._work, self._emit, self._run_gates = context, work, emit, run_gates
        self._task = task
        execution = context.config.execution
        scope, held = context.with_retries(lambda: (task_scope(store, task), store.held_changes.of_unfinished()))
        self._prefix = _prefix(context.root)
        base, started = self._base()
        self._check = IntegrityCheck(
            base,
            started,
            execution.protect,
            execution.gates,
            scope,
            HeldChanges(held, task.id),
            work.directory,
            context.installed,
        )
        context.installed.discard_caches(work.directory)
        self._before = self._observe()

    def judge(self, verdict: VerificationResult) -> VerificationResult:
        """Compare what the gates depended on with the base, and add the result to that of the gates."""
        states = [self._before, self._observe()]
        result, accepted = self._check.judge(states, self._run_again)
        if result.passed:
            result = replace(result, notes=(*result.notes, *self._new_tests(states[-1], verdict)))
            if not self._work.commit and self._context.base:
                self._context.base.accept(states[-1], accepted)
        else:
            self._keep_tests(states[-1])
        self._report(result)
        return replace(verdict, integrity=result)

    def unfinished(self) -> IntegrityResult | None:
        """Return what unfinished work changed that a later run must not start from."""
        self._keep_tests(self._before)
        return self._check.unfinished(self._before)

    def _keep_tests(self, now: TreeSnapshot) -> None:
        """Keep the base version of changed tests in a shared directory, where a later run finds the new one."""
        if not self._work.commit and self._context.base:
            self._context.base.keep(self._check.changed_tests(now))

    def _base(self) -> tuple[TreeSnapshot, TreeSnapshot]:
        if self._work.commit:
            base = CommitSnapshot(self._context.root, self._work.base, self._prefix)
            return base, base
        assert self._context.base
        return self._context.base.base(), self._context.base.started(self._task.id)

    def _observe(self) -> TreeSnapshot:
        if self._work.commit:
            return CommitSnapshot(self._context.root, self._work.commit, self._prefix)
        assert self._context.base
        return self._context.base.observe()

    def _run_again(self, directory: Path, what: str, should_fail: bool) -> VerificationResult:
        self._emit(progress_event("note", message=f"running the gates again with {what}"))
        return self._run_gates(directory, should_fail)

    def _new_tests(self, now: TreeSnapshot, verdict: VerificationResult) -> Sequence[str]:
        """Run new tests without the work, if that is cheap and the state without it is a commit."""
        tests = self._check.new_tests(now)
        if not tests or not self._work.base:
            return ()
        if sum(gate.seconds for gate in verdict.gates) > MAX_SECONDS_FOR_NEW_TESTS:
            return (f"new tests were not run without the work: the gates take over {MAX_SECONDS_FOR_NEW_TESTS:g} s",)
        note = _new_tests_note(self._context.root, self._work.base, self._prefix, now, tests, self._run_again)
        return (note,) if note else ()

    def _report(self, result: IntegrityResult) -> None:
        for note in result.notes:
            self._emit(progress_event("note", message=note))
        if not result.passed:
            self._emit(
                progress_event(
                    "held", task_id=self._task.id, reason=result.reason, files=list(result.files), diff=result.diff
                )
            )


def is_undone(held: HeldChange, context: RunContext, worktree: TaskWorktree | None) -> bool:
    """Return whether a held change is no longer there, because the files are as they were before the work."""
    if worktree:
        tree: TreeSnapshot = CommitSnapshot(context.root, worktree.branch, _prefix(context.root))
    elif context.base:
        tree = context.base.observe()
    else:
        return False
    return any(mark.is_undone_in(tree) for mark in parse_marks(held))


def _prefix(root: Path) -> str:
    return (query_git(root, "rev-parse", "--show-prefix") or "").strip("\n")


def _new_tests_note(
    repository: Path, commit: str, prefix: str, now: TreeSnapshot, tests: Sequence[str], run_gates: RunOnCopy
) -> str:
    """Run new tests on a commit that lacks the work, and say how that ended; empty if it could not be done."""
    with tempfile.TemporaryDirectory(prefix="ralph-base-", ignore_cleanup_errors=True) as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        copy = Path(folder) / "project"
        read = run_git(repository, "read-tree", commit, environment=index)
        if not read.ok or not run_git(repository, "checkout-index", "-a", f"--prefix={copy}/", environment=index).ok:
            return ""
        write_new_tests(copy / prefix, now.read, tests)
        passed = run_gates(copy / prefix, "new tests but without the work, where they should fail", True).passed
    named = ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")
    return (
        f"new tests already pass without the work: {named}"
        if passed
        else f"new tests fail without the work, as they should: {named}"
    )
