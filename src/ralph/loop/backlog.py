"""Order and parts of the tasks that are still to be done."""

from __future__ import annotations

from itertools import pairwise

from ralph.core.errors import ConflictError, UsageError
from ralph.core.records import TaskStatus
from ralph.core.text import one_line, sanitize
from ralph.store.tasks import TaskDraft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.core.actor import Actor
    from ralph.core.records import Task
    from ralph.store import Store

MAX_PARTS = 100
"""Maximum number of parts that a task is split into at once."""
Place = tuple[str, int, int]
"""Id of a task, its priority, and its number among all tasks by age."""
_SPLITTABLE = (TaskStatus.PENDING, TaskStatus.BLOCKED, TaskStatus.FAILED)


class BacklogService:
    """The pending tasks of one opened project, in the order in which runs take them."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    def move(self, id: str, *, before: str = "", after: str = "") -> list[Task]:
        """Move a pending task directly before or after another one; return the tasks whose priority changed.

        The order is that of priorities, then of age. As few priorities change as possible.
        """
        self._actor.require("task.update")
        if bool(before) == bool(after):
            raise UsageError("Name the task before or after which it should run.", code="missing-place")
        other = before or after
        with self._store.transaction():
            page = self._store.tasks.page(None, status=TaskStatus.PENDING)
            order = [(task.id, *cursor) for task, cursor in page]
            known = {one for one, _, _ in order}
            for one in (id, other):
                if self._store.tasks.get(one).id not in known:
                    raise ConflictError(f"{one} is not pending: only pending tasks have an order.", code="not-pending")
            changes = {} if id == other else changed_priorities(_moved(order, id, other, is_after=bool(after)), id)
            return [self._store.tasks.update(one, priority=priority) for one, priority in changes.items()]

    def split(self, id: str, titles: Sequence[str], *, in_order: bool = False) -> list[Task]:
        """Split a task into parts, all or none; it is done when they are. `in_order`: each needs the one before it."""
        self._actor.require("task.update")
        cleaned = [title for one in titles if (title := one_line(sanitize(one)))]
        if not cleaned or len(cleaned) > MAX_PARTS:
            raise UsageError(f"Name 1 to {MAX_PARTS} parts, each with a title.", code="invalid-parts")
        with self._store.transaction():
            task = self._store.tasks.get(id)
            if task.status not in _SPLITTABLE:
                raise ConflictError(
                    f"{id} is {task.status.replace('_', ' ')}: only a task that is pending, blocked or failed can be"
                    " split.",
                    code="not-splittable",
                )
            parts: list[Task] = []
            for title in cleaned:
                parts.append(
                    self._store.tasks.add(
                        TaskDraft(
                            title=title,
                            priority=task.priority,
                            parent_id=id,
                            feature_id=task.feature_id,
                            needs=(parts[-1].id,) if in_order and parts else (),
                            written_by=self._actor.kind,
                        )
                    )
                )
            self._store.tasks.log(id, f"Split into {len(parts)} parts.", self._actor.kind)
            return parts


def _moved(order: Sequence[Place], id: str, other: str, *, is_after: bool) -> list[Place]:
    """Return the order with a task moved next to another one."""
    rest = [one for one in order if one[0] != id]
    at = next(at for at, one in enumerate(rest) if one[0] == other) + is_after
    return [*rest[:at], *(one for one in order if one[0] == id), *rest[at:]]


def changed_priorities(order: Sequence[Place], moved: str) -> dict[str, int]:
    """Return the priorities that give tasks an order in which one of them was moved, by id: the fewest of two ways.

    All but the moved task are in order already.
    """
    if all((-one[1], one[2]) < (-then[1], then[2]) for one, then in pairwise(order)):
        return {}
    at = next(at for at, (id, _, _) in enumerate(order) if id == moved)
    raised = dict(_raised(order, at))
    lowered = dict(_lowered(order, at))
    return raised if len(raised) < len(lowered) else lowered


def _raised(order: Sequence[Place], at: int) -> Iterator[tuple[str, int]]:
    """Yield new priorities from the moved task upwards, which let it stay above the one below it."""
    below = order[at + 1] if at + 1 < len(order) else None
    for place in range(at, -1, -1):
        id, priority, seq = order[place]
        least = priority if below is None else below[1] if seq < below[2] else below[1] + 1
        wanted = least if place == at else max(priority, least)
        if wanted != priority:
            yield id, wanted
        elif place != at:
            return
        below = id, wanted, seq


def _lowered(order: Sequence[Place], at: int) -> Iterator[tuple[str, int]]:
    """Yield new priorities from the moved task downwards, which let it stay below the one above it."""
    above = order[at - 1] if at else None
    for place in range(at, len(order)):
        id, priority, seq = order[place]
        most = priority if above is None else above[1] if above[2] < seq else above[1] - 1
        wanted = most if place == at else min(priority, most)
        if wanted != priority:
            yield id, wanted
        elif place != at:
            return
        above = id, wanted, seq
