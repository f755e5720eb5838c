"""Changes to attempts that have ended: where their work is, and whether they count."""

from __future__ import annotations

from ralph.core.records import OUT_OF_RETRIES, TaskStatus
from ralph.store.tasks import TaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Attempt
    from ralph.store.database import ProjectScope


class SettledAttempts:
    """Attempts of a project that have ended."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope
        self._tasks = TaskStore(scope)

    def record_checkpoint(self, run: str, iteration: int, checkpoint: str) -> None:
        """Store where the work of a killed attempt was saved."""
        with self._scope.transaction():
            self._scope.update_where(
                "attempts",
                "checkpoint = :checkpoint",
                "run_id = :run AND iteration = :iteration",
                run=run,
                iteration=iteration,
                checkpoint=checkpoint,
            )

    def excuse(self, attempts: Sequence[Attempt]) -> list[str]:
        """Let failures count against nothing; return the tasks that were out of retries and are pending again."""
        reopened = []
        with self._scope.transaction():
            for attempt in attempts:
                self._scope.update_where(
                    "attempts",
                    "excused = 1",
                    "run_id = :run AND iteration = :iteration",
                    run=attempt.run_id,
                    iteration=attempt.iteration,
                )
            for task in self._tasks.get_many(one.task_id for one in attempts if one.task_id).values():
                if task.status is TaskStatus.BLOCKED and OUT_OF_RETRIES in task.reason:
                    self._tasks.set_status(task.id, TaskStatus.PENDING, (TaskStatus.BLOCKED,))
                    self._tasks.log(task.id, "Pending again: the agent failed, not the task.", "ralph")
                    reopened.append(task.id)
        return reopened

    def was_planned(self, task: str) -> bool:
        """Return whether a planner has completed its part of a task."""
        return bool(
            self._scope.query(
                """
                SELECT 1 FROM attempts WHERE project_id = :project_id AND task_id = :task AND hat = 'planner'
                    AND outcome = 'done' LIMIT 1
                """,
                task=task,
            )
        )
