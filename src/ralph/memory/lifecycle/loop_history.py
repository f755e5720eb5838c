"""History of one loop, the input of learning extraction.

Our own attempts and the state files of other loops are converted to this shape, so that the same rules apply to both.
"""

from __future__ import annotations

from ralph.core.records import record


@record
class LoopIteration:
    """One iteration of a loop, with the details needed to extract learnings."""

    number: int
    succeeded: bool
    failed: bool
    """An iteration can be neither: still running, cut off, or completed without progress."""
    seconds: float = 0.0
    learnings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    error: str = ""


@record
class LoopHistory:
    """A loop from its objective to its current state."""

    loop_id: str
    objective: str
    task_type: str = ""
    """Task type, if known; otherwise it is derived from the objective."""
    tasks: int = 1
    """Number of tasks the iterations were spent on."""
    iterations: tuple[LoopIteration, ...] = ()
    is_complete: bool = False
