"""Where the ralph command starts: here, so that Ctrl+C while it is being loaded is no fault either."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and give its exit code."""
    try:
        from ralph.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
