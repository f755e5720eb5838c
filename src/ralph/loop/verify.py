"""Run the quality gates over an agent's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.agents import Limits
from ralph.agents.process import run_program
from ralph.records import Ending, GateResult, Verdict
from ralph.text import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ralph.agents.process import Ended

READ_CHARACTERS = 200_000
OUTPUT_CHARACTERS = 20_000


def run_gates(
    gates: Sequence[str],
    directory: Path,
    seconds: float,
    environment: Mapping[str, str],
    should_stop: Callable[[], bool],
    watch: Callable[[str, GateResult | None], None],
) -> Verdict:
    """Run the gates one after the other until one fails; `watch` hears of each start and end.

    `environment` is all that they get: they run what an agent wrote.
    """
    results: list[GateResult] = []
    for gate in gates:
        watch(gate, None)
        results.append(_run(gate, directory, seconds, environment, should_stop))
        watch(gate, results[-1])
        if not results[-1].passed:
            break
    return Verdict(gates=tuple(results))


def _run(
    gate: str, directory: Path, seconds: float, environment: Mapping[str, str], should_stop: Callable[[], bool]
) -> GateResult:
    if not directory.is_dir():
        return GateResult(command=gate, passed=False, output="", seconds=0.0, detail=f"{directory} is gone")
    ended = run_program(
        ["/bin/sh", "-c", gate],
        stdin="",
        directory=directory,
        environment=environment,
        limits=Limits(seconds=seconds, idle_seconds=seconds + 1),
        should_stop=should_stop,
        merge_stderr=True,
    )
    passed = ended.ending is Ending.FINISHED and ended.exit_code == 0
    return GateResult(
        command=gate,
        passed=passed,
        # Secrets first: half a key is no longer known as one.
        output=redact(ended.text[-READ_CHARACTERS:])[-OUTPUT_CHARACTERS:],
        seconds=ended.seconds,
        detail="" if passed else _why(ended, seconds),
        timed_out=ended.ending is Ending.TIMED_OUT,
    )


def _why(ended: Ended, seconds: float) -> str:
    if ended.ending is Ending.TIMED_OUT:
        return f"timed out after {seconds:.4g} s"
    return f"exited with {ended.exit_code}" if ended.exit_code and ended.exit_code > 0 else ended.detail
