"""What a process allocates and frees is given back."""

from __future__ import annotations

import subprocess
import sys


def test_cycles_are_collected_before_many_pile_up() -> None:
    code = (
        "import gc; from ralph.core import allocator; allocator.collect_garbage_early(); most = 0\n"
        "for _ in range(200_000):\n"
        "    one = {}; one['self'] = one; most = max(most, gc.get_count()[2])\n"
        "print(most, gc.get_freeze_count() > 1_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    most, is_frozen = done.stdout.split()
    assert int(most) <= 3
    assert is_frozen == "True"
