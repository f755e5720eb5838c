"""Entry point of the ralph command. It handles Ctrl+C during imports, too."""

from __future__ import annotations

import gc
import sys

GC_THRESHOLD = 100_000
"""Garbage collection threshold, above what a short command allocates; collecting takes a tenth of its time."""


def main() -> int:
    """Run the command line and return its exit code."""
    gc.set_threshold(GC_THRESHOLD)
    try:
        if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
            from ralph.integrations.hooks import main as answer

            return answer(sys.argv[2:])
        from ralph.cli import main as run

        return run()
    except KeyboardInterrupt:
        if sys.argv[1:2] == ["hook"]:
            print("{}")  # the agent expects a JSON object
            return 0
        print("Interrupted.", file=sys.stderr)
        return 130
    finally:
        gc.freeze()  # the process exits: skip the final collection


if __name__ == "__main__":
    sys.exit(main())
