"""`make bench`: all measurements, or the named ones. Exits with 1 when a bar is missed."""

from __future__ import annotations

import argparse
import sys

from bench import (
    cold,
    git_history,
    growth,
    hooks,
    loop,
    memory,
    overhead,
    parallel,
    postgres,
    recall_speed,
    scale,
    server,
    simulate,
    transcripts,
    writers,
)
from bench.measure import Table

MEASUREMENTS = {
    "loop": loop.run,
    "memory": memory.run,
    "cold": cold.run,
    "hooks": hooks.run,
    "recall": recall_speed.run,
    "postgres": postgres.run,
    "parallel": parallel.run,
    "server": server.run,
    "writers": writers.run,
    "git-history": git_history.run,
    "transcripts": transcripts.run,
    "growth": growth.run,
}
BY_NAME_ONLY = {"simulate": simulate.run, "scale": scale.run, "overhead": overhead.run}
"""One takes minutes and measures no speed, one needs tantivy, and one makes 200,000 files."""


def main() -> int:
    """Run the measurements."""
    known = {**MEASUREMENTS, **BY_NAME_ONLY}
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"default: all but simulate, scale and overhead; of: {', '.join(known)}",
    )
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown measurement: {unknown[0]}")
    table = Table()
    for name in names or MEASUREMENTS:
        known[name](table)
    return 1 if table.missed else 0


sys.exit(main())
