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
    """An iteration can be neither: still running, cut off, completed without progress, or failed for a reason that
    says nothing about the project."""
    task: str = ""
    """Task it worked on, for our own iterations."""
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
    is_own: bool = False
    """Whether it is a run of this project rather than the loop of another program."""
    files: tuple[str, ...] = ()
    """Files that show the conventions of this project, for our own runs."""
    iterations: tuple[LoopIteration, ...] = ()
    is_complete: bool = False
