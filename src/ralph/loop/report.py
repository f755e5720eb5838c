"""Report of a run: what was done, what failed and why, what waits for a person, what it cost and taught."""

from __future__ import annotations

from ralph.core.records import (
    ASKS,
    EPISODE_PREFIX,
    NEEDS_PERSON,
    UNREVIEWED,
    AttemptOutcome,
    FailureCause,
    MemoryState,
    TaskStatus,
    now,
    record,
)
from ralph.loop.git.run_commits import RunCommit, commits_during, read_commits
from ralph.loop.options import NOT_COMMITTED_KEY, RunEnding, resume_command, stored_text, stored_worker
from ralph.memory.lifecycle.confidence import days_between
from ralph.store.runs import read_waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ralph.core.records import Attempt, FailureReport, Memory, Run, Task
    from ralph.memory.lifecycle.lift import Lift
    from ralph.store import Store

MAX_ATTEMPTS = 20_000
"""Number of latest attempts of a run that are reported on."""
MAX_LEARNED = 1_000
"""Maximum number of learned memories that are counted."""
MAX_OTHERS = 20
"""Maximum number of tasks listed that the run did not work on."""
HELD = "protected_files"
"""Category of failure reports on finished work that changes what the gates depend on."""
STOPPED = "stopped"
"""Cause of attempts that a person ended."""
RUNNING, KILLED, ENDED = "running", "killed", "ended"
"""States of a run. One that was killed did not say how it ended."""
_WAITING = (TaskStatus.BLOCKED, TaskStatus.FAILED)


@record
class TaskReport:
    """What a run did for one task."""

    id: str
    title: str
    status: str
    """Current status; empty if the task was deleted since."""
    is_done: bool
    """Whether the run got it done."""
    is_open: bool
    """Whether its latest attempt has not ended: it is at work, or was cut off with the run."""
    attempts: int
    seconds: float
    cost_usd: float
    files: int
    """Number of files that its attempts changed."""
    commits: tuple[RunCommit, ...]
    has_checkpoint: bool
    """Whether unfinished work was saved, which `ralph task diff` shows."""
    why: str
    """Why the latest attempt failed; empty if it was done."""
    question: str
    """What it waits for a person with; empty if it does not wait."""
    command: str
    """Command that answers or continues it; empty if it does not wait."""
    is_held: bool = False
    """Whether finished work waits for a person's approval."""
    failures: tuple[str, ...] = ()
    """Why its attempts failed, oldest first."""
    asked: str = ""
    """What its latest attempt asked a person, who has answered it or reset the task since; empty if it did not."""


@record
class WaitingTask:
    """Task that waits for a person and that the run did not work on."""

    id: str
    title: str
    question: str
    command: str


@record
class ModelUsage:
    """What a run used of one model."""

    agent: str
    model: str
    """Empty for the agent's own default."""
    attempts: int
    done: int
    tokens: int
    cost_usd: float


@record
class LearnedMemory:
    """Memory that a run added."""

    id: str
    kind: str
    title: str
    is_staged: bool
    """Whether it waits for a review."""


@record
class MemoryUsage:
    """What memory was used for in a run, as far as it was measured."""

    shown: int
    """Number of different memories shown."""
    credited: int
    """Number of them that were shown to an attempt that got its task done."""
    attempts: int
    """Number of attempts whose prompt had memories."""
    done: int
    """Number of those that got their task done."""
    lift: str
    """Effect of memory over all runs, measured by a holdout; empty if it was not measured."""


@record
class RunReport:
    """Report of a run."""

    run: Run
    state: str
    """`running`, `killed` or `ended`."""
    created_at: str
    seconds: float
    """How long the run has worked and waited."""
    attempts: int
    failed: int
    """Number of attempts that failed."""
    causes: dict[str, int]
    """Number of unsuccessful attempts by cause, or `stopped` if a person ended them, most frequent first.

    Attempts whose work is held for a person are none of them.
    """
    cost_usd: float
    tokens: int
    done: tuple[TaskReport, ...]
    waiting: tuple[TaskReport, ...]
    """Tasks that wait for a person, latest first."""
    unfinished: tuple[TaskReport, ...]
    """Tasks that were worked on and are neither done nor waiting."""
    done_since: tuple[TaskReport, ...]
    """Tasks that the run left unfinished and that another run or a person has got done."""
    other_waiting: int
    """Number of tasks that the run did not work on and that wait for a person."""
    others: tuple[WaitingTask, ...]
    """The first of these tasks."""
    open_tasks: int
    """Number of tasks that are left to do now and wait for nobody."""
    models: tuple[ModelUsage, ...]
    not_committed: str
    """Why work of tasks that are done is not committed; empty if it is."""
    other_commits: int
    """Number of commits on the branch during the run that hold no work of its tasks."""
    learned: tuple[LearnedMemory, ...]
    memory: MemoryUsage
    waits: dict[str, float]
    """Seconds spent waiting, by reason, longest first."""
    next_command: str
    """Command to go on with; empty if there is nothing to do."""


def read_report(store: Store, root: Path | str, run_id: str) -> RunReport:
    """Return the report of a run from what is stored and what git tells."""
    from ralph.loop.stats import Stats

    run = store.runs.get(run_id)
    attempts = store.attempts.latest(MAX_ATTEMPTS, run=run.id)[::-1]
    tasks = store.tasks.get_many(one.task_id for one in attempts)
    found = [one for status in _WAITING for one in store.tasks.progress.with_status(status, len(tasks) + MAX_OTHERS)]
    others = [one for one in found if one.id not in tasks][:MAX_OTHERS]
    asking = [one.id for one in (*tasks.values(), *others) if _is_asking(one)]
    asked = {id: question.text for id in asking if (question := store.questions.waiting(id))}
    latest = store.runs.latest(1)
    return build_report(
        run,
        attempts,
        tasks,
        store.failures.of_run(run.id, MAX_ATTEMPTS),
        asked,
        read_commits(root, [id for one in attempts for id in one.commits]),
        store.memories.listing.learned_in_run(run.id, MAX_LEARNED),
        Stats(store).lift(),
        is_active=_is_active(run, [one for one in attempts if one.outcome is None]),
        is_latest=not latest or latest[0].id == run.id,
        made_during=commits_during(root, run),
        others=others,
        waiting=sum(store.tasks.progress.count_with_status(status) for status in _WAITING),
        open_tasks=store.tasks.progress.count_with_status(TaskStatus.PENDING),
        is_any_ready=bool(store.tasks.progress.ready(1)),
    )


def _is_active(run: Run, running: Sequence[Attempt]) -> bool:
    """Return whether a run goes on: in this process, in another one, or waiting elsewhere."""
    from ralph.loop.run_log import is_run_active, is_run_over
    from ralph.loop.workers import worker_name

    is_own = stored_worker(run.options) == worker_name()
    is_waiting = run.waits_until > now()
    return is_run_active(run, running) or (not is_run_over(run) and (is_own or is_waiting))


def build_report(
    run: Run,
    attempts: Sequence[Attempt],
    tasks: Mapping[str, Task],
    failures: Iterable[FailureReport],
    questions: Mapping[str, str],
    commits: Sequence[RunCommit],
    learned: Sequence[Memory],
    lift: Lift,
    *,
    is_active: bool,
    is_latest: bool,
    made_during: Sequence[str],
    others: Sequence[Task],
    waiting: int,
    open_tasks: int,
    is_any_ready: bool,
) -> RunReport:
    """Return the report of a run.

    `failures` are newest first, `questions` those that tasks wait with, `made_during` the hashes of all
    commits on the branch; `others` are waiting tasks without an attempt in the run; `waiting` and `open_tasks`
    count all tasks, and `is_any_ready` says whether one of them can start.
    """
    state = ENDED if run.ended_at else RUNNING if is_active else KILLED
    reasons: dict[str, str] = {}
    held: set[int] = set()
    for failure in failures:
        reasons.setdefault(failure.task_id, failure.why)
        held |= {failure.iteration} if failure.category == HELD else set()
    by_task: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_task.setdefault(attempt.task_id or "", []).append(attempt)
    by_id = {one.id: one for one in commits}
    reports = [
        _task_report(
            *(id, some, tasks.get(id), reasons.get(id, ""), questions.get(id, "")),
            [by_id[one] for attempt in some for one in attempt.commits if one in by_id],
        )
        for id, some in by_task.items()
    ]
    done = tuple(one for one in reports if one.is_done)
    left = [one for one in reports if not one.is_done and not one.question]
    waits_here = tuple(one for one in reversed(reports) if one.question)
    return RunReport(
        run=run,
        state=state,
        created_at=now(),
        seconds=_duration(run, attempts, state),
        attempts=len(attempts),
        failed=sum(_has_failed(one) for one in attempts),
        causes=_causes([one for one in attempts if one.iteration not in held and not _is_unreviewed(one)]),
        cost_usd=sum(one.cost_usd for one in attempts),
        tokens=sum(map(_tokens, attempts)),
        done=done,
        waiting=waits_here,
        unfinished=tuple(one for one in left if one.status != TaskStatus.DONE),
        done_since=tuple(one for one in left if one.status == TaskStatus.DONE),
        others=tuple(
            WaitingTask(
                id=one.id,
                title=one.title,
                question=_question(one, "", questions.get(one.id, "")),
                command=_command(one, is_asking=one.id in questions),
            )
            for one in others
        ),
        other_waiting=max(0, waiting - len(waits_here)),
        open_tasks=open_tasks,
        models=_models(attempts),
        not_committed=_not_committed(run, done),
        other_commits=len(set(made_during).difference(*(one.commits for one in attempts))),
        learned=_learned(learned),
        memory=_memory_usage(attempts, lift),
        waits=dict(sorted(read_waits(run.waited).items(), key=lambda one: -one[1])),
        next_command=_next_command(run, state, is_any_ready=is_any_ready, is_latest=is_latest),
    )


def _task_report(
    id: str, attempts: Sequence[Attempt], task: Task | None, why: str, asked: str, commits: Sequence[RunCommit]
) -> TaskReport:
    is_done = any(map(_is_done, attempts)) and (task is None or task.status is TaskStatus.DONE)
    last = attempts[-1]
    question = _question(task, why or last.reason, asked) if task else ""
    is_settled = not question and last.reason.startswith(ASKS)
    is_held = bool(question) and task is not None and task.reason.startswith(NEEDS_PERSON)
    return TaskReport(
        id=id,
        title=task.title if task else "a task that was deleted",
        status=task.status.value if task else "",
        is_done=is_done,
        is_open=last.outcome is None,
        attempts=len(attempts),
        seconds=sum(one.seconds for one in attempts),
        cost_usd=sum(one.cost_usd for one in attempts),
        files=len({path for one in attempts for path in one.files}),
        commits=tuple(commits),
        has_checkpoint=not is_done and any(one.checkpoint for one in attempts),
        why="" if is_done or asked or is_settled or is_held else _why(last, why),
        question=question,
        command=_command(task, is_asking=bool(asked)) if task and question else "",
        is_held=is_held,
        failures=tuple(one.reason for one in attempts if _has_failed(one) and one.reason),
        asked=last.reason.removeprefix(ASKS).lstrip(": ") if is_settled else "",
    )


def _not_committed(run: Run, done: Iterable[TaskReport]) -> str:
    """Return why work is not committed, if there is any."""
    is_any = any(one.files and not one.commits for one in done)
    return stored_text(run.options, NOT_COMMITTED_KEY) if is_any else ""


def _is_asking(task: Task) -> bool:
    return task.status is TaskStatus.BLOCKED and task.reason.startswith(ASKS)


def _why(last: Attempt, why: str) -> str:
    return last.reason if last.outcome is AttemptOutcome.INTERRUPTED else why or last.reason


def _question(task: Task, why: str, asked: str) -> str:
    """Return what a task asks of a person, or an empty string."""
    return asked or task.reason or why or "no reason given" if task.status in _WAITING else ""


def _command(task: Task, *, is_asking: bool) -> str:
    if is_asking:
        return f'ralph task answer {task.id} "…"'
    return f"ralph task {'approve' if task.reason.startswith(NEEDS_PERSON) else 'reset'} {task.id}"


def _is_done(attempt: Attempt) -> bool:
    return attempt.outcome is AttemptOutcome.DONE and not attempt.handed_to


def _has_failed(attempt: Attempt) -> bool:
    return attempt.outcome not in (None, AttemptOutcome.DONE, AttemptOutcome.INTERRUPTED) and not attempt.excused


def _is_unreviewed(attempt: Attempt) -> bool:
    return attempt.reason.startswith(UNREVIEWED)


def _tokens(attempt: Attempt) -> int:
    return (attempt.tokens_in or 0) + (attempt.tokens_out or 0)


def _duration(run: Run, attempts: Sequence[Attempt], state: str) -> float:
    """Return how long a run took, without the time between a stop and its continuation."""
    if state == ENDED:
        return run.seconds or days_between(run.started_at, run.ended_at or run.started_at) * 86_400
    if state == KILLED and run.seconds:
        return run.seconds  # until its last sign of life
    ends = [one.ended_at or one.started_at for one in attempts]
    return days_between(run.started_at, now() if state == RUNNING else max([run.started_at, *ends])) * 86_400


def _causes(attempts: Sequence[Attempt]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in attempts:
        if one.outcome not in (None, AttemptOutcome.DONE) and not one.reason.startswith(ASKS):
            is_stopped = one.outcome is AttemptOutcome.INTERRUPTED and one.cause is FailureCause.PERSON
            cause = STOPPED if is_stopped else one.cause.value if one.cause else "unknown"
            counts[cause] = counts.get(cause, 0) + 1
    return dict(sorted(counts.items(), key=lambda one: -one[1]))


def _models(attempts: Sequence[Attempt]) -> tuple[ModelUsage, ...]:
    groups: dict[tuple[str, str], list[Attempt]] = {}
    for one in attempts:
        groups.setdefault((one.agent, one.model or ""), []).append(one)
    found = [
        ModelUsage(
            agent=agent,
            model=model,
            attempts=len(some),
            done=sum(map(_is_done, some)),
            tokens=sum(map(_tokens, some)),
            cost_usd=sum(one.cost_usd for one in some),
        )
        for (agent, model), some in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.cost_usd, -one.attempts)))


def _learned(memories: Sequence[Memory]) -> tuple[LearnedMemory, ...]:
    """Return the memories that are in use or wait for a review."""
    states = (MemoryState.ACTIVE, MemoryState.STAGED, MemoryState.QUARANTINED)
    return tuple(
        LearnedMemory(id=one.id, kind=one.kind, title=one.title, is_staged=one.state is not MemoryState.ACTIVE)
        for one in memories
        if one.state in states
    )


def _memory_usage(attempts: Sequence[Attempt], lift: Lift) -> MemoryUsage:
    shown = [(one, {id for id in one.shown if not id.startswith(EPISODE_PREFIX)}) for one in attempts]
    return MemoryUsage(
        shown=len({id for _, ids in shown for id in ids}),
        credited=len({id for one, ids in shown for id in ids if _is_done(one)}),
        attempts=sum(bool(ids) for _, ids in shown),
        done=sum(bool(ids) for one, ids in shown if _is_done(one)),
        lift=lift.says if lift.is_enough else "",
    )


def _next_command(run: Run, state: str, *, is_any_ready: bool, is_latest: bool) -> str:
    if state == RUNNING:
        return "ralph watch"
    ending = next((one for one in RunEnding if one == run.ending), None)
    if state == KILLED or (ending and ending.is_resumable):
        return resume_command(run.ending, "" if is_latest else run.id)
    return "ralph run" if is_any_ready else ""
