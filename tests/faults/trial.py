"""What a trial of a fault is: the same function runs small in CI and at full size in `make torture`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ralph.core.records import record


@record
class Shown:
    """What a trial showed."""

    load: str
    """What was really run, in a few words."""
    tried: int
    """How many faults were produced."""
    lost: int
    """How often something happened that must not: lost, done twice, not noticed, left alive, let in."""
    says: str = ""
    """Further figures, for the table."""


@record
class Trial:
    """A fault, produced for real as often as wanted."""

    name: str
    test: str
    """What it is called in the table."""
    allowed: str
    """What may be lost, in the words of the table."""
    size: int
    """How large the whole of it is."""
    run: Callable[[Path, int, int], Shown]
    """Takes an empty folder, a size and a seed. Whoever runs it small asserts on what it shows."""
