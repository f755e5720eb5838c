"""Estimates: what finished tasks took, by type of task. Figures, computed from attempts whenever they are needed."""

from __future__ import annotations

import json

from ralph.core.records import Memory, MemorySource, MemoryState, record
from ralph.core.text import format_usd
from ralph.memory.lifecycle.confidence import MAX_ESTIMATE_CONFIDENCE
from ralph.memory.lifecycle.learnings import describe_learning, format_seconds, number_field, parse_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FULL_CONFIDENCE_TASKS = 5
"""Number of finished tasks or iterations at which an estimate reaches full confidence."""
MIN_SAME_DIFFICULTY = 3
"""Number of finished tasks of the same difficulty from which the others of their type are left out."""


@record
class FinishedTask:
    """What a task that was done took, over all its attempts."""

    task_type: str
    attempts: int
    done: int
    """Number of its attempts that got something done: the task, or the part of a hat."""
    seconds: float
    cost_usd: float
    files: int
    """Number of files its attempts changed."""
    difficulty: str = ""
    runs: tuple[str, ...] = ()
    ended_at: str


@record
class Estimate:
    """What tasks of a type took, as medians over finished ones."""

    task_type: str
    tasks: int
    """Number of finished tasks behind it; for an imported estimate, of loops."""
    attempts: float
    seconds: float
    """Total duration of a task."""
    cost_usd: float | None = None
    """Total cost of a task; None if it is unknown."""
    difficulty: str = ""
    """Difficulty of the tasks it was narrowed down to."""
    is_imported: bool = False
    """Whether it comes from loops of another program, because no such task was finished here yet."""

    @property
    def text(self) -> str:
        """The figures as text, such as "2 attempts, 6 min, $0.40 (median of 7 done)"."""
        attempts = f"{self.attempts:.1f}".removesuffix(".0")
        parts = [f"{attempts} attempt{'' if attempts == '1' else 's'}", format_seconds(self.seconds)]
        if self.cost_usd:
            parts.append(format_usd(self.cost_usd))
        if self.is_imported:
            origin = f"imported, {self.tasks} loop{'' if self.tasks == 1 else 's'}"
        else:
            origin = f"median of {self.tasks} done" if self.tasks > 1 else "1 done"
        return f"{', '.join(parts)} ({origin})"


def estimate_tasks(finished: Sequence[FinishedTask], difficulty: str = "") -> Estimate | None:
    """Return what finished tasks of a type took; those of the given difficulty if there are enough of them."""
    same = [one for one in finished if difficulty and one.difficulty == difficulty]
    narrowed = same if len(same) >= MIN_SAME_DIFFICULTY else list(finished)
    if not narrowed:
        return None
    costs = [one.cost_usd for one in narrowed if one.cost_usd]
    return Estimate(
        task_type=narrowed[0].task_type,
        tasks=len(narrowed),
        attempts=median(one.attempts for one in narrowed),
        seconds=round(median(one.seconds for one in narrowed), 3),
        cost_usd=round(median(costs), 6) if costs else None,
        difficulty=difficulty if narrowed is same else "",
    )


def median(values: Iterable[float]) -> float:
    """Return the median; importing `statistics` would take longer than all else here."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def imported_estimate(memories: Iterable[Memory], complexity: str | None = None) -> Estimate | None:
    """Return the most trusted estimate among imported ones; of the given complexity if there is one."""
    found = [(memory, content) for memory in memories if (content := parse_content(memory.structured_content))]
    same = [one for one in found if complexity and one[1].get("complexity") == complexity]
    trusted = sorted(same or found, key=lambda one: (one[0].confidence, one[0].support, one[0].updated_at))
    for memory, content in reversed(trusted):
        iterations, milliseconds = number_field(content, "totalIterations"), number_field(content, "avgIterationTime")
        if iterations is not None and milliseconds is not None:
            return Estimate(
                task_type=memory.task_type or "",
                tasks=memory.support,
                attempts=iterations,
                seconds=round(iterations * milliseconds / 1000, 3),
                is_imported=True,
            )
    return None


# --- in the learnings format -------------------------------------------------------


def estimate_confidence(completed: int) -> float:
    """Return the confidence of an estimate by the number of completed iterations or tasks behind it."""
    return min(completed / FULL_CONFIDENCE_TASKS, MAX_ESTIMATE_CONFIDENCE)


def complexity(iterations: int, files: int) -> str:
    """Return the complexity of a task from the number of iterations and files it took."""
    if iterations <= 2 and files <= 2:
        return "low"
    return "medium" if iterations <= 5 and files <= 5 else "high"


def as_learnings(finished: Iterable[FinishedTask]) -> list[Memory]:
    """Return estimates as learnings, by task type and complexity, for other programs. They are never stored."""
    groups: dict[tuple[str, str], list[FinishedTask]] = {}
    for one in finished:
        groups.setdefault((one.task_type, complexity(one.attempts, one.files)), []).append(one)
    return [_learning(kind, grade, tasks) for (kind, grade), tasks in sorted(groups.items())]


def _learning(task_type: str, grade: str, tasks: Sequence[FinishedTask]) -> Memory:
    attempts = sum(one.attempts for one in tasks)
    rate = sum(one.done for one in tasks) / attempts
    content: dict[str, object] = {
        "avgIterationTime": round(1000 * sum(one.seconds for one in tasks) / attempts, 3),
        "totalIterations": round(attempts / len(tasks), 3),
        "complexity": grade,
        "successRate": round(rate, 6),
    }
    content = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in content.items()
    }
    title, body = describe_learning("estimate", task_type, content)
    return Memory(
        id=f"est-{task_type}-{grade}",
        kind="estimate",
        title=title,
        content=body,
        structured_content=json.dumps(content, ensure_ascii=False, separators=(",", ":")),
        task_type=task_type,
        source=MemorySource.AUTOMATIC,
        state=MemoryState.ACTIVE,
        confidence=estimate_confidence(len(tasks)),
        success_rate=round(rate, 6),
        support=len(tasks),
        origin_loops=tuple(dict.fromkeys(run for one in tasks for run in one.runs)),
        created_at=min(one.ended_at for one in tasks),
        updated_at=max(one.ended_at for one in tasks),
    )
