"""What a cold command costs: the time until `ralph status` is done, against Python doing nothing."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ralph
from bench.measure import Table, best
from ralph.project import init_project

REPEATS = 30


def run(table: Table) -> None:
    """Measure cold commands in a small project."""
    print("Cold start")
    compileall.compile_dir(str(Path(ralph.__file__).parent), quiet=2)  # as after an install
    program = str(Path(sys.executable).parent / "ralph")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        init_project(Path(name))

        def command(*words: str) -> None:
            subprocess.run(words, cwd=name, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))

        command(program, "task", "add", "A task")
        nothing = best(lambda: command(sys.executable, "-c", "pass"), REPEATS)
        table.row("python -c pass", nothing * 1000, 1.0)
        for words, bar in ((("status",), 6.0), (("task", "list"), None), (("journal", "list"), None)):
            spent = best(lambda words=words: command(program, *words), REPEATS)  # type: ignore[misc]
            table.row(f"ralph {' '.join(words)}", spent * 1000, spent / nothing, bar)
