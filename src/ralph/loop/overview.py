"""Where a project stands: tasks by status, active attempts, tasks in trouble, totals."""

from __future__ import annotations

from ralph.core.records import TaskStatus, record
from ralph.loop.strategy import next_step_text, strategy_name
from ralph.loop.stuck import EscalationStep
from ralph.store.memory_stats import MemoryStatistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, Run, Task, TaskMetrics
    from ralph.loop.stuck import StuckState
    from ralph.loop.tasks import TaskService
    from ralph.store import Store


@record
class TaskTrouble:
    """A task that has failed, how stuck it is, and what happens next."""

    task: Task
    metrics: TaskMetrics
    trouble: StuckState
    is_stuck: bool
    next_step: str
    model: str | None
    """Model of the next attempt."""
    model_reason: str


@record
class Overview:
    """Where a project stands."""

    root: str
    counts: dict[TaskStatus, int]
    running: tuple[Attempt, ...]
    left: tuple[Attempt, ...]
    """Attempts whose worker is gone; the next run retries their tasks."""
    ready: tuple[Task, ...]
    """Tasks that can start now, by priority; possibly only the first ones, as for the lists below."""
    ready_count: int
    waiting: tuple[Task, ...]
    """Tasks that need a person."""
    waiting_count: int
    strategy: str
    """How models are chosen."""
    takes_model: bool
    """Whether the agent can be told which model to use."""
    trouble: tuple[TaskTrouble, ...]
    """Open tasks that have failed since they last succeeded, worst first."""
    trouble_count: int
    attempts: int
    done: int
    failed: int
    seconds: float
    cost_usd: float
    memories: int
    last_run: Run | None
    last_run_state: str
    """`ended`, `running` or `killed`; empty if there is no run, or if it is unknown elsewhere."""
    warnings: tuple[str, ...]


class OverviewService:
    """Computes the overview of one opened project, and caches what is expensive."""

    def __init__(
        self, store: Store, config: Config, root: str, tasks: TaskService, takes_model: Callable[[], bool]
    ) -> None:
        self._store = store
        self._config = config
        self._root = root
        self._tasks = tasks
        self._takes_model = takes_model

    def __call__(self, most: int | None = None, *, problems: tuple[str, ...] = ()) -> Overview:
        """Return where the project stands, with up to `most` tasks in each list."""
        takes_model = self._takes_model()
        tasks, attempts = self._store.tasks, self._store.attempts
        last_event, figures = self._store.events.last_seq(), self._store.figures
        totals = figures.get("totals", last_event, self._store.stats.totals)
        runs = self._store.runs.latest(1)
        running = attempts.running()
        gone = _dead_workers(running)
        blocked = tasks.progress.with_status(TaskStatus.BLOCKED, most)
        given_up = tasks.progress.with_status(TaskStatus.FAILED, most)
        trouble, trouble_count = self._in_trouble(takes_model)
        return Overview(
            root=self._root,
            counts=figures.get("counts", last_event, tasks.progress.counts),
            running=tuple(one for one in running if one.worker not in gone),
            left=tuple(one for one in running if one.worker in gone),
            ready=tuple(tasks.progress.ready(most)),
            ready_count=self._tasks.count_ready(),
            waiting=(*blocked, *given_up)[:most],
            waiting_count=tasks.progress.count_with_status(TaskStatus.BLOCKED)
            + tasks.progress.count_with_status(TaskStatus.FAILED),
            strategy=strategy_name(self._config.models, self._config.agent.model),
            takes_model=takes_model,
            trouble=trouble,
            trouble_count=trouble_count,
            attempts=totals["attempts"],
            done=totals["done"],
            failed=totals["failed"],
            seconds=totals["seconds"],
            cost_usd=totals["cost_usd"],
            # Not store.memories: `ralph status` would load all of it for one number.
            memories=MemoryStatistics(self._store.scope).count(),
            last_run=runs[0] if runs else None,
            last_run_state=_run_state(runs[0], running) if runs else "",
            warnings=(*self._config.warnings, *problems),
        )

    def _in_trouble(self, takes_model: bool) -> tuple[tuple[TaskTrouble, ...], int]:
        """Return the tasks in most trouble, and the number of tasks in any."""

        def find() -> tuple[tuple[TaskTrouble, ...], int]:
            worst, count = self._store.stats.failing_tasks()
            tasks = self._store.tasks.get_many(one.task_id for one in worst)
            found = (self._trouble_of(tasks[one.task_id], one, takes_model) for one in worst if one.task_id in tasks)
            return tuple(found), count

        return self._store.figures.get("trouble", (self._store.events.last_seq(), takes_model), find)

    def _trouble_of(self, task: Task, metrics: TaskMetrics, takes_model: bool) -> TaskTrouble:
        from ralph.loop.choose_model import plan_attempt  # only loaded when a task has failed

        plan = plan_attempt(self._store, self._config, task, metrics, takes_model=takes_model)
        strategy = strategy_name(self._config.models, self._config.agent.model)
        return TaskTrouble(
            task=task,
            metrics=metrics,
            trouble=plan.stuck_state,
            is_stuck=plan.stuck_state.step in (EscalationStep.DECOMPOSE, EscalationStep.PERSON),
            next_step=next_step_text(plan.stuck_state, strategy, takes_model=takes_model),
            model=plan.choice.model,
            model_reason=plan.choice.reason,
        )


def _run_state(run: Run, running: Sequence[Attempt]) -> str:
    if run.ended_at:
        return "ended"
    from ralph.loop.options import stored_worker
    from ralph.loop.workers import dead_workers, is_worker_alive, worker_name

    worker = stored_worker(run.options)
    if dead_workers({worker}):
        return "killed"
    is_active = worker == worker_name() or is_worker_alive(worker) or any(one.run_id == run.id for one in running)
    return "running" if is_active else ""


def _dead_workers(running: Sequence[Attempt]) -> set[str]:
    if not running:
        return set()
    from ralph.loop.workers import dead_workers

    return dead_workers({one.worker for one in running if one.worker})
