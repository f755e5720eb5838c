"""Where the ralph command starts: here, so that Ctrl+C while it is being loaded is no fault either."""

from __future__ import annotations

import gc
import sys

MANY_OBJECTS = 100_000
"""More than a short command ever makes: looking for garbage while it is being loaded takes a tenth of its time."""


def main() -> int:
    """Run the command line and give its exit code."""
    gc.set_threshold(MANY_OBJECTS)
    try:
        if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
            from ralph.hooks import main as answer

            return answer(sys.argv[2:])
        from ralph.cli import main as run

        return run()
    except KeyboardInterrupt:
        if sys.argv[1:2] == ["hook"]:
            print("{}")  # an agent waits for it, and takes nothing else
            return 0
        print("Interrupted.", file=sys.stderr)
        return 130
    finally:
        gc.freeze()  # the process ends: nobody needs to look through all that is left
