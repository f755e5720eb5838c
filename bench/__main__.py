"""`make bench`: all measurements, or the named ones. Exits with 1 when a bar is missed."""

from __future__ import annotations

import sys

from bench import cold, hooks, loop, memory, parallel, postgres, recall_speed, server, simulate, writers
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
}
BY_NAME_ONLY = {"simulate": simulate.run}
"""It takes minutes and measures no speed."""


def main() -> int:
    """Run the measurements."""
    table = Table()
    for name in sys.argv[1:] or MEASUREMENTS:
        {**MEASUREMENTS, **BY_NAME_ONLY}[name](table)
    return 1 if table.missed else 0


sys.exit(main())
