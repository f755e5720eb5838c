"""Estimates of a project: computed from the tasks it has finished, else taken from imported learnings."""

from __future__ import annotations

from ralph.memory.lifecycle.estimates import Estimate, as_learnings, estimate_tasks, imported_estimate
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory
    from ralph.store import Store

MAX_EXPORTED_TASKS = 1_000
"""Number of latest finished tasks behind exported estimates."""
_COMPLEXITY = {"trivial": "low", "easy": "low", "moderate": "medium", "hard": "high"}
"""Complexity in imported estimates, by the difficulty that agents state."""


def estimate_for(store: Store, task_type: str, difficulty: str = "") -> Estimate | None:
    """Return what tasks of a type took so far, and of a difficulty if there are enough; None if nothing is known."""
    if estimate := estimate_tasks(store.stats.finished_tasks(task_type), difficulty):
        return estimate
    imported = store.memories.find(MemoryFilter(kinds=("estimate",), task_type=task_type))
    return imported_estimate(imported, _COMPLEXITY.get(difficulty))


def estimates_by_type(store: Store) -> list[Estimate]:
    """Return what tasks took by type, the type with the most finished tasks first."""
    finished = store.stats.finished_tasks(limit=MAX_EXPORTED_TASKS)
    types = dict.fromkeys(one.task_type for one in finished)
    estimates = (estimate_tasks([one for one in finished if one.task_type == kind]) for kind in types)
    return sorted(filter(None, estimates), key=lambda one: (-one.tasks, one.task_type))


def estimates_as_learnings(store: Store) -> list[Memory]:
    """Return the estimates of this project as learnings, for export."""
    return as_learnings(store.stats.finished_tasks(limit=MAX_EXPORTED_TASKS))


def is_own_estimate(store: Store, memory: Memory) -> bool:
    """Return whether an estimate was exported from this project, which computes it anew."""
    return memory.kind == "estimate" and bool(memory.origin_loops) and store.runs.count_known(memory.origin_loops) > 0
