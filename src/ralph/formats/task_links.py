"""Links between the tasks of other programs, whose rules are not ours."""

from __future__ import annotations

from itertools import pairwise

from ralph.core.records import replace
from ralph.formats.planned import PlannedTask, ReadProblem
from ralph.store.cycles import find_cycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.formats.planned import Reading

MAX_CYCLES = 100
"""Number of cycles that are resolved; a file with more is refused as a whole when its tasks are added."""


def without_cycles(tasks: Sequence[PlannedTask]) -> Reading:
    """Return the tasks without the dependencies that make them wait for each other, and a note for each of those.

    Other programs allow a task to wait for one of its own parts, or a part for the whole.
    """
    by_key = {task.key: task for task in tasks}
    problems: list[ReadProblem] = []
    for _ in range(MAX_CYCLES):
        cycle = find_cycle(
            {key: task.parent_key for key, task in by_key.items()},
            {key: task.dependency_keys for key, task in by_key.items()},
        )
        link = next((pair for pair in pairwise(cycle or ()) if _needs(by_key, *pair)), None)
        if link is None:
            break
        key, needed = link
        task = by_key[key]
        others = tuple(other for other in task.dependency_keys if other != needed)
        by_key[key] = replace(task, dependency_keys=others)
        why = f"{task.title!r} needs {needed}, which waits for it in turn; left out this dependency."
        problems.append(ReadProblem(line=task.line, why=why, was_read=True))
    return tuple(by_key.values()), tuple(problems)


def _needs(tasks: dict[str, PlannedTask], key: str, other: str) -> bool:
    return key in tasks and other in tasks[key].dependency_keys
