"""Questions of agents to a person, and the answers."""

from __future__ import annotations

from ralph.core.errors import ConflictError, UsageError
from ralph.core.records import Question, TaskStatus, now
from ralph.core.text import one_line, sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.actor import Actor
    from ralph.core.records import Task
    from ralph.store import Store

_ANSWERABLE = (TaskStatus.BLOCKED, TaskStatus.FAILED)


class QuestionService:
    """The questions about the tasks of one opened project."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    def answer(self, task_id: str, answer: str) -> Task:
        """Answer the question of a blocked or failed task, which makes it ready; the next prompt shows both.

        If its agent asked nothing, the reason why it is blocked or failed counts as the question, and it gets all its
        retries back.
        """
        from ralph.loop.workers import is_loop_at_work

        self._actor.require("task.answer")
        store = self._store
        if self._actor.is_agent and is_loop_at_work(store):
            # It may be an agent of that run that connected through a server somebody else started.
            raise UsageError("While a run is active, only a person answers questions.", code="run-active")
        text = sanitize(answer)
        if not text:
            raise UsageError("The answer is empty.", code="empty-answer")
        with store.transaction():
            task = store.tasks.get(task_id)
            if task.status not in _ANSWERABLE:
                raise ConflictError(_why_unanswerable(task), code="nothing-to-answer")
            asked = store.questions.waiting(task_id)
            if asked:
                store.questions.answer(asked, text, self._actor.kind)
            else:
                store.questions.add(self._reason_as_question(task, text))
            task = store.tasks.set_status(task_id, TaskStatus.PENDING, _ANSWERABLE, restores_retries=asked is None)
            store.tasks.log(task_id, f"Answered: {one_line(text)}", self._actor.kind)
        return task

    def _reason_as_question(self, task: Task, answer: str) -> Question:
        last = next(iter(self._store.attempts.latest(1, task=task.id)), None)
        status = "failed" if task.status is TaskStatus.FAILED else "was blocked"
        return Question(
            task_id=task.id,
            run_id=last.run_id if last else "",
            iteration=last.iteration if last else 0,
            text=task.reason or f"It {status} without a reason.",
            asked_at=task.updated_at,
            answer=answer,
            answered_by=self._actor.kind,
            answered_at=now(),
        )


def _why_unanswerable(task: Task) -> str:
    if task.status is TaskStatus.DONE:
        return f"{task.id} is done and waits for no answer. To have more done: ralph task add TITLE"
    return f"{task.id} has no open question. To tell its next attempt more: ralph task update {task.id} --body TEXT"
