"""Run the tests as `make test` does, on a busy machine and with the signals ignored that nohup and shells ignore.

    python -m tests.loaded 8 -m "not slow"

Whatever fails here and not otherwise depends on a quiet machine or on how the suite was started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass"
"""A program that keeps a core busy for as long as whoever started it lives."""
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def main(busy: int, arguments: list[str]) -> int:
    """Run pytest beside that many busy processes and return its exit status."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    load = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(busy)]
    try:
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    finally:
        for process in load:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
