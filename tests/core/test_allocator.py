"""What a process allocates and frees is given back."""

from __future__ import annotations

import subprocess
import sys

import pytest

MAPPED = """
import ctypes, sys
from ralph.core import allocator

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena a b blocks mapped c d used free top".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
if "unmap" in sys.argv:
    allocator.unmap_large_blocks()
for _ in range(2):
    before = libc.mallinfo2().mapped
    block = libc.malloc(1_000_000)
    mapped = libc.mallinfo2().mapped - before
    libc.free(block)
print(mapped)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
@pytest.mark.parametrize(("arguments", "is_mapped"), [(["unmap"], True), ([], False)])
def test_a_large_block_is_mapped_however_many_there_were(arguments: list[str], is_mapped: bool) -> None:
    """By default, glibc maps the first one only."""
    done = subprocess.run([sys.executable, "-c", MAPPED, *arguments], capture_output=True, text=True, check=True)

    assert (int(done.stdout) >= 1_000_000) is is_mapped


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
