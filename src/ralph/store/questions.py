"""Store for what agents ask a person about their tasks."""

from __future__ import annotations

from ralph.core.records import Question, now
from ralph.store.rows import to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope

# A question waits while its task is blocked, and no reset and no attempt came after the one that asked it.
_WAITING = """
    q.answered_at IS NULL AND t.status = 'blocked' AND a.task_id = q.task_id AND a.number > t.reset_after
    AND a.number = (
        SELECT MAX(b.number) FROM attempts AS b WHERE b.project_id = :project_id AND b.task_id = q.task_id
    )
"""


class QuestionStore:
    """Questions of a project's tasks."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def add(self, question: Question) -> None:
        """Store a question."""
        self._scope.insert("questions", **to_columns(question))

    def of_task(self, task_id: str) -> list[Question]:
        """Return the questions of a task, answered or not, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM questions WHERE project_id = :project_id AND task_id = :id ORDER BY seq", id=task_id
        )
        return [to_record(Question, row, {}) for row in rows]

    def waiting(self, task_id: str) -> Question | None:
        """Return the question that a task waits with, if it does."""
        rows = self._scope.query(
            f"""
            SELECT q.* FROM questions AS q JOIN tasks AS t ON t.project_id = q.project_id AND t.id = q.task_id
            JOIN attempts AS a ON a.project_id = q.project_id AND a.run_id = q.run_id AND a.iteration = q.iteration
            WHERE q.project_id = :project_id AND q.task_id = :id AND {_WAITING}
            ORDER BY q.seq DESC LIMIT 1
            """,
            id=task_id,
        )
        return to_record(Question, rows[0], {}) if rows else None

    def answer(self, question: Question, answer: str, who: str) -> None:
        """Store the answer to a question that waits."""
        self._scope.execute(
            """
            UPDATE questions SET answer = :answer, answered_by = :who, answered_at = :at
            WHERE project_id = :project_id AND task_id = :task AND run_id = :run AND iteration = :iteration
                AND answered_at IS NULL
            """,
            answer=answer,
            who=who,
            at=now(),
            task=question.task_id,
            run=question.run_id,
            iteration=question.iteration,
        )
