"""Quality gates: shell commands that an agent's work must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.agents.supervisor.process import run_program
from ralph.core.records import GateResult, SessionEnding, VerificationResult
from ralph.core.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ralph.agents import Limits
    from ralph.agents.supervisor.process import ProcessResult

REDACTED_OUTPUT_CHARACTERS = 200_000
"""Number of characters at the end of a gate's output that are redacted."""
STORED_OUTPUT_CHARACTERS = 20_000
"""Number of characters at the end of a gate's output that are stored."""


def run_gates(
    gates: Sequence[str],
    directory: Path,
    limits: Limits,
    environment: Mapping[str, str],
    should_stop: Callable[[], bool],
    on_gate: Callable[[str, GateResult | None], None],
) -> VerificationResult:
    """Run the gates in order until one fails; call `watch` at the start and the end of each.

    `environment` is their whole environment, because they run code that an agent wrote.
    """
    results: list[GateResult] = []
    for gate in gates:
        on_gate(gate, None)
        results.append(_run_gate(gate, directory, limits, environment, should_stop))
        on_gate(gate, results[-1])
        if not results[-1].passed:
            break
    return VerificationResult(gates=tuple(results))


def _run_gate(
    gate: str,
    directory: Path,
    limits: Limits,
    environment: Mapping[str, str],
    should_stop: Callable[[], bool],
) -> GateResult:
    if not directory.is_dir():
        return GateResult(command=gate, passed=False, output="", seconds=0.0, detail=f"{directory} no longer exists")
    ended = run_program(
        ["/bin/sh", "-c", gate],
        stdin="",
        directory=directory,
        environment=environment,
        limits=limits,
        should_stop=should_stop,
        merge_stderr=True,
    )
    passed = ended.ending is SessionEnding.FINISHED and ended.exit_code == 0
    return GateResult(
        command=gate,
        passed=passed,
        # Redact before cutting: half a key is not recognized as one.
        output=redact(ended.text[-REDACTED_OUTPUT_CHARACTERS:])[-STORED_OUTPUT_CHARACTERS:],
        seconds=ended.seconds,
        detail="" if passed else _failure_detail(ended, limits.seconds),
        timed_out=ended.ending is SessionEnding.TIMED_OUT,
    )


def _failure_detail(ended: ProcessResult, seconds: float) -> str:
    if ended.ending is SessionEnding.TIMED_OUT:
        return f"timed out after {seconds:.4g} s"
    has_exited = ended.ending is SessionEnding.CRASHED and ended.exit_code and ended.exit_code > 0
    return f"exited with {ended.exit_code}" if has_exited else ended.detail
