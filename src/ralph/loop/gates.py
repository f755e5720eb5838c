"""Quality gates: shell commands that an agent's work must pass."""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from typing import TYPE_CHECKING

from ralph.agents.supervisor.process import run_program
from ralph.core.excerpt import excerpt
from ralph.core.records import GateResult, SessionEnding, VerificationResult
from ralph.core.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ralph.agents import Limits
    from ralph.agents.supervisor.process import ProcessResult

REDACTED_OUTPUT_CHARACTERS = 200_000
"""Number of characters of a gate's output that are redacted."""
STORED_OUTPUT_CHARACTERS = 20_000
"""Number of characters of a gate's output that are stored."""


SIGPIPE_STATUS = 141
"""Exit status of a program whose reader has gone away."""
_EARLY_READER = re.compile(r"\|\s*(?:head\b|grep\s+(?:-\S+\s+)*-\S*(?:q|m)|sed\s+\S*q|awk\b[^|]*exit)")
_STARTUP_VARIABLES = ("BASH_ENV", "ENV")
"""Variables that name a script which a shell runs before the gate."""
_LIMITS = (
    *(SessionEnding.TIMED_OUT, SessionEnding.FLOODED),
    *(SessionEnding.OUT_OF_MEMORY, SessionEnding.TOO_MANY_PROCESSES),
)
"""Endings of a gate that reached a limit."""


@lru_cache(1)
def _shell() -> tuple[str, ...]:
    """Return the shell of gates: one in which a failure anywhere in a pipe counts, if there is one."""
    bash = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash")
    if bash:
        return bash, "--posix", "-o", "pipefail", "-c"
    import subprocess

    probe = subprocess.run(["/bin/sh", "-o", "pipefail", "-c", ":"], capture_output=True, check=False)
    return ("/bin/sh", "-o", "pipefail", "-c") if probe.returncode == 0 else ("/bin/sh", "-c")


def gate_command(gate: str) -> list[str]:
    """Return the command line that runs a gate: POSIX syntax, and `check | tee log` fails if the check does."""
    return [*_shell(), gate]


def has_pipefail() -> bool:
    """Return whether a failure inside of a pipe fails a gate on this machine."""
    return "pipefail" in _shell()


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

    def run(command: list[str]) -> ProcessResult:
        return run_program(
            command,
            stdin="",
            directory=directory,
            environment={name: value for name, value in environment.items() if name not in _STARTUP_VARIABLES},
            limits=limits,
            should_stop=should_stop,
            merge_stderr=True,
        )

    ended = run(gate_command(gate))
    if ended.exit_code == SIGPIPE_STATUS and _EARLY_READER.search(gate):
        # The last command of the pipe had read enough, as `| grep -q` does: its own status decides.
        ended = run(["/bin/sh", "-c", gate])
    passed = ended.ending is SessionEnding.FINISHED and ended.exit_code == 0
    return GateResult(
        command=gate,
        passed=passed,
        # Redact before cutting: half a key is not recognized as one.
        output=excerpt(redact(excerpt(ended.text, REDACTED_OUTPUT_CHARACTERS)), STORED_OUTPUT_CHARACTERS),
        seconds=ended.seconds,
        detail="" if passed else _failure_detail(ended, limits),
        limit=ended.ending if ended.ending in _LIMITS else None,
    )


def _failure_detail(ended: ProcessResult, limits: Limits) -> str:
    if ended.ending is SessionEnding.TIMED_OUT:
        return f"timed out after {limits.seconds:.4g} s"
    if ended.ending is SessionEnding.OUT_OF_MEMORY:
        return f"terminated: it used more than memory_mb = {limits.memory_bytes >> 20} of [agent]"
    if ended.ending is SessionEnding.TOO_MANY_PROCESSES:
        return f"terminated: it had more than processes = {limits.processes} of [agent]"
    has_exited = ended.ending is SessionEnding.CRASHED and ended.exit_code and ended.exit_code > 0
    return f"exited with {ended.exit_code}" if has_exited else ended.detail
