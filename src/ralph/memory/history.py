"""What happened in one loop, iteration by iteration: what learnings are drawn from.

One shape for our own attempts and for the state files of other loops, so that
both are learned from by the same rules.
"""

from __future__ import annotations

from ralph.records import record


@record
class Iteration:
    """One pass through a loop, as far as it teaches something."""

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
    """One loop from its objective to where it stands."""

    loop_id: str
    objective: str
    task_type: str = ""
    """What kind of task it worked on, when that is known; else the objective tells."""
    tasks: int = 1
    """On so many tasks the iterations were spent."""
    iterations: tuple[Iteration, ...] = ()
    is_complete: bool = False
