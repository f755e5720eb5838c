"""What attempts fail because of: only failures of the project teach something."""

from __future__ import annotations

import pytest

from ralph.core.records import AttemptOutcome, FailureCause
from ralph.loop.options import RunEnding
from ralph.memory.lifecycle.evidence import lower_bound
from ralph.memory.lifecycle.failure_cause import NO_REASON, failure_cause

ERROR, FAILED, RETRIED = AttemptOutcome.ERROR, AttemptOutcome.FAILED, AttemptOutcome.RETRIED
BLOCKED, INTERRUPTED = AttemptOutcome.BLOCKED, AttemptOutcome.INTERRUPTED


@pytest.mark.parametrize(
    ("outcome", "category", "reason", "cause"),
    [
        (RETRIED, "test_failure", "the gate `pytest` failed: 2 failed", "project"),
        (RETRIED, "timeout", "the gate `pytest` failed: was still running after 600 s", "project"),
        (RETRIED, "test_failure", "the gate `pytest` failed: assert response.status == 401", "project"),
        (RETRIED, "verification", "the verification failed: the flag is not documented", "project"),
        (RETRIED, "findings", "handed back to the creator: the lock is never released", "project"),
        (FAILED, "missing_file", "FileNotFoundError: config.toml", "project"),
        (FAILED, "unknown", NO_REASON, "agent"),
        (FAILED, "refusal", "claude was refused by the model", "agent"),
        (FAILED, "too_large", "split into 3 subtasks", "agent"),
        (BLOCKED, "no_sigil", "no sigil", "agent"),
        (BLOCKED, "out_of_turns", "claude reached a limit: max turns", "agent"),
        (RETRIED, "not_verified", "the verification failed: no verdict", "agent"),
        (ERROR, "output_flood", "printed more than 100 MB", "agent"),
        (ERROR, "timeout", "claude was still running after 1800 s and was terminated", "agent"),
        (ERROR, "crash", "sh exited with 1: FileNotFoundError: agent.cfg", "agent"),
        (ERROR, "timeout", "claude printed nothing for 300 s and was terminated", "service"),
        (ERROR, "crash", "claude exited with 1: Not logged in · Please run /login", "service"),
        (ERROR, "crash", "Failed to authenticate. API Error: 401 …", "service"),
        (ERROR, "crash", "Credit balance is too low", "service"),
        (FAILED, "other", "Not logged in. Please run /login", "service"),
        (FAILED, "other", "Credit balance is too low", "service"),
        (FAILED, "test_failure", "the login test still gets a 401 Unauthorized", "project"),
        (RETRIED, "test_failure", "the gate `pytest` failed: expected 'run /login'", "project"),
        (ERROR, "crash", "codex: You’ve hit your usage limit. … try again at 9:39 AM.", "service"),
        (ERROR, "crash", "unexpected status 401 Unauthorized: …, url: …", "service"),
        (ERROR, "crash", "[API Error: You have exhausted your daily quota on this model.]", "service"),
        (ERROR, "crash", "API Error: Repeated 529 …", "service"),
        (ERROR, "model_failed", "anything", "service"),
        (INTERRUPTED, "", "stopped by a person", "person"),
        (INTERRUPTED, "", RunEnding.STOPPED, "person"),
        (RETRIED, "not_merged", "main has uncommitted changes", "person"),
        (INTERRUPTED, "", "the claim was lost", "ralph"),
        (INTERRUPTED, "", "Ralph was terminated", "ralph"),
        (ERROR, "memory_limit", "used more than 4096 MB", "ralph"),
        (RETRIED, "memory_limit", "the gate `pytest` failed: used more than 4096 MB", "ralph"),
        (RETRIED, "merge_conflict", "src/a.py conflicts with main", "ralph"),
        (ERROR, "crash", "Ralph failed: KeyError: 'x'", "ralph"),
    ],
)
def test_failures_are_told_apart(outcome: AttemptOutcome, category: str, reason: str, cause: str) -> None:
    assert failure_cause(outcome, category, reason) is FailureCause(cause)


def test_what_was_done_has_no_cause_and_an_outage_always_the_service() -> None:
    assert failure_cause(AttemptOutcome.DONE, "", "") is None
    assert failure_cause(None, "", "") is None
    assert failure_cause(ERROR, "timeout", "timed out", excused=True) is FailureCause.SERVICE


def test_the_bound_is_that_of_wilson() -> None:
    assert [round(lower_bound(n, n), 3) for n in (0, 1, 2, 5, 10, 35)] == [0.0, 0.207, 0.342, 0.566, 0.722, 0.901]
    assert lower_bound(0, 10) == 0.0
    assert round(lower_bound(8, 10), 3) == 0.49
