"""One opened project: the operations all doors share.

Doors parse and print; what an operation means is decided here and below. Text
from outside is cleaned on its way in, here, once.
"""

from __future__ import annotations

import os

from ralph.core.config import DOOR_VARIABLE, load_config, with_flags
from ralph.core.errors import ConflictError, NotFoundError, UsageError
from ralph.core.records import Status, now, record, replace
from ralph.core.text import accept, one_line
from ralph.workspace import find_root, is_agreed, is_project, open_own_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.core.records import (
        Attempt,
        FailureReport,
        Feature,
        LogEntry,
        Outcome,
        Prompt,
        Run,
        Task,
        TaskMetrics,
    )
    from ralph.formats.memory_files import Format
    from ralph.formats.planned import PlannedTask, Unreadable
    from ralph.formats.sources import SourceFile
    from ralph.loop.journal import Past
    from ralph.loop.options import Order, Summary
    from ralph.loop.progress import Tell
    from ralph.loop.stats import Stats
    from ralph.loop.stuck import Trouble
    from ralph.memory.import_export import Brought, Transferring
    from ralph.memory.learning_service import Extracting
    from ralph.memory.service import Remembering
    from ralph.memory.sessions import Attending
    from ralph.projects import Neighbours
    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.store.tasks import NewTask

SHOWN_ATTEMPTS = 20
SHOWN_TASKS = 20
"""So many of each kind an overview shows to who does not want all."""
REPORT_SECONDS = 60.0
"""So long a task may be held while a failure at it is recorded."""
_OPEN = (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED, Status.FAILED)


@record
class Imported:
    """What an import brought."""

    added: tuple[Task, ...]
    known: int
    """Tasks that were there already."""
    unreadable: tuple[Unreadable, ...]


@record
class TaskView:
    """All about one task."""

    task: Task
    metrics: TaskMetrics
    attempts: tuple[Attempt, ...]
    """The latest ones, newest first."""
    parts: tuple[Task, ...]
    needs: tuple[Task, ...]
    needed_by: tuple[Task, ...]
    feature: Feature | None


@record
class TaskLink:
    """Which of two tasks comes first."""

    first: str
    then: str
    kind: str
    """`needs`, or `part` when the first is a part of the other."""


@record
class TaskGraph:
    """How tasks hang together."""

    tasks: tuple[Task, ...]
    links: tuple[TaskLink, ...]
    is_whole: bool
    """Whether these are all tasks there are."""


@record
class FeatureView:
    """A feature with its tasks."""

    feature: Feature
    tasks: tuple[Task, ...]


@record
class FeatureCounts:
    """A feature, and how many of its tasks there are in each status."""

    feature: Feature
    counts: dict[Status, int]


@record
class TaskTrouble:
    """A task that has failed, how stuck it is, and what happens next."""

    task: Task
    metrics: TaskMetrics
    trouble: Trouble
    is_stuck: bool
    next_step: str
    model: str | None
    """What the next attempt would be made with, and why."""
    model_reason: str


@record
class Overview:
    """Where a project stands."""

    root: str
    counts: dict[Status, int]
    running: tuple[Attempt, ...]
    left: tuple[Attempt, ...]
    """Attempts whose worker is gone; the next run takes their tasks again."""
    ready: tuple[Task, ...]
    """Tasks that could start now, the most urgent first; maybe only the first ones, as of those that follow."""
    ready_count: int
    """How many there are in all."""
    waiting: tuple[Task, ...]
    """Tasks that a person has to look at."""
    waiting_count: int
    strategy: str
    """How models are chosen."""
    takes_model: bool
    """Whether the agent can be told which one to use."""
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
    warnings: tuple[str, ...]


class Project:
    """A project directory with its settings and its store."""

    def __init__(self, root: Path | str, store: Store, config: Config) -> None:
        self._root = os.fspath(root)
        self.store = store
        self.config = config
        self._memory: Remembering | None = None
        self._transfer: Transferring | None = None
        self._stats: Stats | None = None
        self._trouble: tuple[object, tuple[TaskTrouble, ...], int] | None = None
        """With what it was found out for: that takes a while where there are many tasks."""
        self._ready_count: tuple[int, int] | None = None
        """The same, with the event after which it was counted."""

    @classmethod
    def open(cls, start: Path | str, *, unasked: bool = False) -> Project:
        """Open the project a directory belongs to; `unasked`, only where a person agreed to where it is kept."""
        root = find_root(start)
        config = load_config(root)
        if unasked and not is_agreed(root, config):
            raise UsageError(
                f"{root} is kept elsewhere, by its settings or over a link, and nobody agreed to that here: ralph init"
            )
        return cls(root, open_own_store(root, config), config)

    @property
    def directory(self) -> str:
        """The project's directory, for those who need no more than its name."""
        return self._root

    @property
    def root(self) -> Path:
        """The project's directory."""
        from pathlib import Path  # takes milliseconds to load, which a short command need not spend

        return Path(self._root)

    def neighbour(self, name_or_id: str) -> Project:
        """Give another project of the same database, to work on it from here; the files stay those of this one."""
        from ralph.core.actor import refuse_agents

        one = self.store.projects.find(name_or_id)
        if one is None:
            raise NotFoundError("Project", name_or_id)
        if one.id == self.store.project_id:
            return self
        refuse_agents("To work on another project")
        apart = replace(self.config, memories=replace(self.config.memories, files=False))
        beside = self.store.beside(one.id)
        # Its backups are kept apart, or whoever wants the newest one of this project could be given that.
        beside.home = f"{self.store.home}/others/{one.id}" if self.store.home else ""
        other = Project(self._root, beside, apart)
        other.memory.is_elsewhere = True
        return other

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- memory ----------------------------------------------------------------------

    @property
    def memory(self) -> Remembering:
        """What is remembered, and all that can be done with it."""
        from ralph.memory.service import Remembering

        if self._memory is None:
            self._memory = Remembering(self.store, self._root, self.config)
        return self._memory

    @property
    def transfer(self) -> Transferring:
        """The way in and out of the memory."""
        from ralph.memory.import_export import Transferring

        if self._transfer is None:
            self._transfer = Transferring(self.store, self.memory)
        return self._transfer

    @property
    def sessions(self) -> Attending:
        """Sessions of agents that people run themselves."""
        from ralph.memory.sessions import Attending

        return Attending(self.store, self.memory, self.config)

    @property
    def learning(self) -> Extracting:
        """Learnings on their way into the memory."""
        from ralph.memory.learning_service import Extracting

        return Extracting(self.store, self.memory.sync, self.memory.edit)

    @property
    def past(self) -> Past:
        """What happened, page by page."""
        from ralph.loop.journal import Past

        return Past(self.store, self.sessions)

    @property
    def neighbours(self) -> Neighbours:
        """All projects of the same database."""
        from ralph.projects import Neighbours

        return Neighbours(self.root, self.config, self.store.database)

    @property
    def stats(self) -> Stats:
        """What the runs, the models and the memory came to."""
        from ralph.loop.stats import Stats

        if self._stats is None:
            self._stats = Stats(self.store)
        return self._stats

    def bring(
        self, text: str, name: str, *, stage: bool = False, force: bool = False, format: Format | None = None
    ) -> Brought:
        """Take in a file from elsewhere, whatever it holds: memories, learnings, tasks, or a loop's state."""
        from ralph.formats.memory_files import Format, recognise
        from ralph.memory.import_export import Brought

        form = format or recognise(text, name)
        if form is Format.TASKS:
            imported = self.import_tasks(text, name)
            return Brought(
                name=name,
                format=form.value,
                tasks=len(imported.added),
                known=imported.known,
                problems=imported.unreadable,
            )
        if form is Format.LOOP_STATE:
            counts = self.learning.extract_state(text, name)
            note = "staged; look at them with: ralph learn list"
            return Brought(
                name=name, format=form.value, staged=counts.extracted - counts.merged, merged=counts.merged, note=note
            )
        return self.transfer.bring(text, name, stage=stage, force=force, format=form)

    def merge(self, path: Path) -> list[Brought]:
        """Take in all memories of another project, or of anything else that can be brought in."""
        from ralph.memory.import_export import is_store

        if is_store(path):
            return [self.transfer.merge(path)]
        if not (path.is_dir() and is_project(path)):
            return self.bring_path(path)
        other = open_own_store(path, load_config(path))
        try:
            return [self.transfer.merge_store(other, str(path))]
        finally:
            other.close()

    def bring_path(
        self, path: Path, *, stage: bool = False, force: bool = False, format: Format | None = None
    ) -> list[Brought]:
        """Take in a file, or all files of a folder that hold something to remember."""
        from ralph.formats.sources import sources

        return [self._bring_source(source, stage, force, format) for source in sources(path)]

    def _bring_source(self, source: SourceFile, stage: bool, force: bool, format: Format | None) -> Brought:
        from ralph.formats.bundle import is_bundle
        from ralph.formats.memory_files import Format, recognise

        if format is Format.BUNDLE or (format is None and is_bundle(source.start())):
            return self.transfer.bring_bundle(source.lines, source.name, stage=stage, force=force)
        text = source.text()
        form = format or recognise(text, source.name)
        if form in (Format.LEARNINGS, Format.UNKNOWN) and source.path.with_name(source.path.name + ".bak").exists():
            return self.transfer.bring_learnings(source.path, source.name, stage=stage, force=force)
        return self.bring(text, source.name, stage=stage, force=force, format=form)

    # --- tasks -----------------------------------------------------------------------

    def add_task(
        self,
        title: str,
        body: str = "",
        *,
        priority: int = 0,
        parent: str | None = None,
        feature: str | None = None,
        needs: Sequence[str] = (),
        id: str | None = None,
    ) -> Task:
        """Add a task; `feature` is a name or an id.

        With an `id` of the caller's own it can be asked once more, after no answer came: then it is the same task.
        """
        from ralph.store.tasks import NewTask

        return self.store.tasks.add(
            NewTask(
                id=_own_id(id) if id else None,
                title=_title(title),
                body=accept(body),
                priority=priority,
                parent_id=parent,
                feature_id=self.store.features.get(feature).id if feature else None,
                needs=tuple(needs),
            )
        )

    def tasks(self, *, status: Status | None = None, feature: str | None = None, ready: bool = False) -> list[Task]:
        """Give the tasks, most urgent first, of one status or feature if given, or only those that could start now."""
        wanted = self.store.features.get(feature).id if feature else None
        return [task for task, _ in self.store.tasks.placed(status=status, feature_id=wanted, ready=ready or None)]

    def task_page(
        self,
        limit: int,
        after: tuple[int, int] | None = None,
        *,
        status: Status | None = None,
        feature: str | None = None,
        ready: bool | None = None,
    ) -> tuple[list[Task], tuple[int, int] | None]:
        """Give the same tasks in pages: some of them, and the place to go on from if there are more.

        Those that are not `ready` are pending too, but wait for something.
        """
        wanted = self.store.features.get(feature).id if feature else None
        found = self.store.tasks.placed(limit + 1, after, status=status, feature_id=wanted, ready=ready)
        return [task for task, _ in found[:limit]], found[limit - 1][1] if len(found) > limit else None

    def task_counts(self, feature: str | None = None) -> tuple[dict[Status, int], int]:
        """Give how many tasks there are in each status, of one feature if given, and how many could start now."""
        tasks = self.store.tasks
        wanted = self.store.features.get(feature).id if feature else None
        if wanted is None:
            return tasks.counts(), self._count_ready()
        return tasks.counts_by_feature().get(wanted, {}), tasks.count_ready(wanted)

    def task_graph(self, limit: int, *, feature: str | None = None) -> TaskGraph:
        """Give how tasks hang together; when there are more than the limit, without the oldest of the done ones."""
        wanted = self.store.features.get(feature).id if feature else None
        found = self.store.tasks.foremost(limit + 1, wanted)
        tasks = found[:limit]
        ids = {task.id for task in tasks}
        needs = [TaskLink(first=id, then=task.id, kind="needs") for task in tasks for id in task.needs if id in ids]
        wholes = [(task.id, task.parent_id) for task in tasks if task.parent_id and task.parent_id in ids]
        parts = [TaskLink(first=part, then=whole, kind="part") for part, whole in wholes]
        return TaskGraph(tasks=tuple(tasks), links=(*needs, *parts), is_whole=len(found) <= limit)

    def task(self, id: str) -> TaskView:
        """Give all about a task."""
        tasks = self.store.tasks
        task = tasks.get(id)
        needed_by = tasks.needed_by(id)
        linked = tasks.some((*task.needs, *needed_by))
        return TaskView(
            task=task,
            metrics=self.store.attempts.metrics(id),
            attempts=tuple(self.store.attempts.latest(SHOWN_ATTEMPTS, task=id)),
            parts=tuple(tasks.parts(id)),
            needs=tuple(linked[other] for other in task.needs if other in linked),
            needed_by=tuple(linked[other] for other in needed_by if other in linked),
            feature=self.store.features.get(task.feature_id) if task.feature_id else None,
        )

    def tree(self, id: str | None = None) -> list[Task]:
        """Give a task and all below it, or all tasks."""
        return self.store.tasks.below(id) if id else self.store.tasks.all()

    def update_task(
        self,
        id: str,
        *,
        title: str | None = None,
        body: str | None = None,
        priority: int | None = None,
        parent: str | None = None,
        feature: str | None = None,
        needs: Sequence[str] | None = None,
    ) -> Task:
        """Change a task, all or nothing; None leaves a thing as it is, an empty parent or feature takes the link away.

        `needs` are all tasks it waits for from now on.
        """
        return self.store.tasks.update(
            id,
            title=_title(title) if title is not None else None,
            body=accept(body) if body is not None else None,
            priority=priority,
            parent_id=parent,
            feature_id=self.store.features.get(feature).id if feature else feature,
            needs=needs,
        )

    def change_needs(self, id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Change what a task waits for, all or nothing; give the task."""
        tasks = self.store.tasks
        if add or remove:
            with self.store.transaction():
                tasks.remove_needs(id, remove)
                tasks.add_needs(id, add)
        return tasks.get(id)

    def done(self, id: str) -> Task:
        """Say that a task is done."""
        _refuse_sessions(id)
        if os.environ.get(DOOR_VARIABLE) and self.store.tasks.claimed():
            # It may well be an agent of that run, come in by a server that somebody else has started.
            raise UsageError(
                "While a run is at work here, tasks are done when it says so, once their gates have passed."
            )
        return self._move(id, Status.DONE, _OPEN, "")

    def fail(self, id: str, reason: str = "") -> Task:
        """Say that a task has failed for good."""
        return self._move(id, Status.FAILED, (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED), reason)

    def block(self, id: str, reason: str = "") -> Task:
        """Hold a task back until somebody resets it."""
        return self._move(id, Status.BLOCKED, (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED), reason)

    def reset(self, id: str) -> Task:
        """Put a task back to pending with all its retries; a worker that has it loses it."""
        return self._move(id, Status.PENDING, tuple(Status), "")

    def reset_all(self, ids: Sequence[str]) -> list[Task]:
        """Reset several tasks, or none when one of them cannot be."""
        with self.store.transaction():
            return [self.reset(id) for id in ids]

    def _move(self, id: str, status: Status, allowed: Iterable[Status], reason: str) -> Task:
        from ralph.core.actor import who

        reason = accept(reason)
        _refuse_own_task(id)
        with self.store.transaction():
            task = self.store.tasks.move(id, status, allowed, reason)
            self.store.tasks.log(id, f"Set to {status} by hand" + (f": {reason}" if reason else "."), who())
        return task

    def delete_task(self, id: str) -> list[str]:
        """Delete a task with its parts and attempts, and give their ids; what was learned stays."""
        _refuse_own_task(id)
        return self.store.tasks.delete(id)

    def read_log(self, id: str) -> list[LogEntry]:
        """Give a task's log, oldest first."""
        return self.store.tasks.read_log(id)

    def log(self, id: str, message: str) -> None:
        """Add a line to a task's log."""
        text = accept(message)
        if not text:
            raise UsageError("There is nothing to log: the message is empty.")
        from ralph.core.actor import who

        self.store.tasks.log(id, text, who())

    def import_tasks(self, text: str, name: str) -> Imported:
        """Add the tasks of a file; those that are there already stay as they are."""
        from ralph.formats.task_files import read_tasks

        planned, unreadable = read_tasks(text, name)
        with self.store.transaction():
            new, known, complaints = self._resolved(planned)
            added = self.store.tasks.add_all(new)
        problems = sorted([*unreadable, *complaints], key=lambda one: one.line)
        return Imported(added=tuple(added), known=known, unreadable=tuple(problems))

    def _resolved(self, planned: Sequence[PlannedTask]) -> tuple[list[NewTask], int, list[Unreadable]]:
        """Give the planned tasks that are new, with ids of their own and links that lead somewhere."""
        from ralph.core.records import task_id
        from ralph.formats.planned import Unreadable
        from ralph.store.tasks import NewTask

        existing = self.store.tasks.all()
        known_ids = {task.id for task in existing}
        ids = {key: key for key in (*known_ids, *(plan.key for plan in planned if not plan.key.startswith("#")))}
        by_title = {(task.title, task.parent_id): task.id for task in existing}
        features = {key: feature.id for feature in self.store.features.all() for key in (feature.name, feature.id)}
        fresh: list[PlannedTask] = []
        for plan in planned:
            parent = ids.get(plan.parent_key) if plan.parent_key else None
            nameless = plan.key.startswith("#")
            known = by_title.get((plan.title, parent)) if nameless else plan.key if plan.key in known_ids else None
            ids[plan.key] = known or (task_id() if nameless else plan.key)
            by_title.setdefault((plan.title, parent), ids[plan.key])
            if not known:
                fresh.append(plan)
                if plan.feature and plan.feature not in features:
                    features[plan.feature] = self.store.features.add(plan.feature).id
        lost = {plan.key: [other for other in plan.needs_keys if other not in ids] for plan in fresh}
        new = [
            NewTask(
                id=ids[plan.key],
                title=plan.title,
                body=plan.body,
                # A task must not start before something that nobody can find.
                status=Status.BLOCKED if lost[plan.key] and plan.status is Status.PENDING else plan.status,
                reason=f"needs {', '.join(lost[plan.key])}, which was not found" if lost[plan.key] else "",
                priority=plan.priority,
                parent_id=ids.get(plan.parent_key) if plan.parent_key else None,
                feature_id=features[plan.feature] if plan.feature else None,
                needs=tuple(ids[other] for other in plan.needs_keys if other in ids),
            )
            for plan in fresh
        ]
        complaints = [
            Unreadable(
                line=plan.line,
                why=f"{plan.title!r} needs {other}, which was not found; added as blocked.",
                was_read=True,
            )
            for plan in fresh
            for other in lost[plan.key]
        ]
        complaints += [
            Unreadable(
                line=plan.line, why=f"{plan.title!r} is part of {plan.parent_key}, which was not found.", was_read=True
            )
            for plan in fresh
            if plan.parent_key and plan.parent_key not in ids
        ]
        return new, len(planned) - len(fresh), complaints

    # --- features --------------------------------------------------------------------

    def add_feature(self, name: str, spec: str = "", plan: str = "") -> Feature:
        """Add a feature whose spec and plan go into its tasks' prompts."""
        name = one_line(accept(name))
        if not name:
            raise UsageError("A feature needs a name.")
        return self.store.features.add(name, accept(spec), accept(plan))

    def features(self) -> list[FeatureView]:
        """Give all features with their tasks, oldest first."""
        return [FeatureView(feature=one, tasks=tuple(self.tasks(feature=one.id))) for one in self.store.features.all()]

    def feature_counts(self) -> list[FeatureCounts]:
        """Give all features with how far they are, oldest first."""
        counts = self.store.tasks.counts_by_feature()
        return [FeatureCounts(feature=one, counts=counts.get(one.id, {})) for one in self.store.features.all()]

    def feature(self, id_or_name: str) -> FeatureView:
        """Give a feature with its tasks."""
        feature = self.store.features.get(id_or_name)
        return FeatureView(feature=feature, tasks=tuple(self.tasks(feature=feature.id)))

    def delete_feature(self, id_or_name: str) -> Feature:
        """Delete a feature; its tasks stay."""
        feature = self.store.features.get(id_or_name)
        self.store.features.delete(feature.id)
        return feature

    # --- what happened -----------------------------------------------------------

    def journal(
        self, limit: int, *, run: str | None = None, task: str | None = None, outcome: Outcome | None = None
    ) -> list[Attempt]:
        """Give the latest journal entries, newest first, of one run, one task or one outcome if given."""
        if task:
            self.store.tasks.get(task)
        if run:
            self.store.attempts.run(run)
        return self.store.attempts.latest(limit, run=run, task=task, outcome=outcome)

    def report_failure(
        self, id: str, tried: str, why: str, *, category: str = "", files: Sequence[str] = (), trace: str = ""
    ) -> tuple[Attempt, Task]:
        """Record a failed attempt at a task that was made outside the loop; give it, and the task as it is now.

        The task goes back to pending, or waits for a person once its retries are used up, as after any failure.
        """
        from ralph.core.records import Ending, Reply, Report, Sigils, Verdict
        from ralph.loop.options import Order, with_limits
        from ralph.loop.settle import Setting, conclude
        from ralph.loop.workers import worker_name
        from ralph.store.attempts import OUTSIDE

        _refuse_reports(id)
        attempts, tasks = self.store.attempts, self.store.tasks
        report = Report(
            tried=_said(tried, "what was tried"),
            why=_said(why, "why it failed"),
            category="_".join(accept(category).lower().split())[:50] or "unknown",
            files=tuple(dict.fromkeys(filter(None, map(accept, files)))),
            trace=trace,
        )
        tasks.expire()
        attempts.recover(self._gone([one for one in attempts.running() if one.task_id == id]))
        _refuse_unless_open(tasks.get(id))
        run = attempts.start_run(OUTSIDE)
        try:
            begun = attempts.begin(run.id, worker_name(), REPORT_SECONDS, agent=OUTSIDE, only=id)
            if begun is None:
                _refuse_unless_open(tasks.get(id))
                raise _not_ready(self.task(id))
            capture = conclude(
                begun.task,
                begun.attempt,
                Reply(text="", ending=Ending.FINISHED, files=report.files),
                Sigils(failed_ids=(id,), report=report),
                Verdict(),
                Setting(
                    metrics=begun.metrics,
                    max_retries=self.config.execution.max_retries,
                    order=with_limits(Order(), self.config.limits),
                    used=attempts.used_by(begun.task),
                ),
                at=now(),
            )
            attempts.finish(capture, begun.task.claim_token)
        finally:
            attempts.end_run(run.id, "reported from outside the loop")
        return capture.attempt, tasks.get(id)

    def failures(self, limit: int, *, task: str | None = None, category: str | None = None) -> list[FailureReport]:
        """Give failure reports, freshest first, of one task or category if given."""
        if task:
            self.store.tasks.get(task)
        return self.store.attempts.reports(limit, task=task, category=category)

    def journal_entry(self, name: str) -> Attempt:
        """Give one entry by `RUN/ITERATION`, or by an iteration of the latest run."""
        run, _, iteration = name.rpartition("/")
        if not (iteration.isascii() and iteration.isdecimal() and len(iteration) < 10):
            raise UsageError(f"{name!r} is not an entry: say RUN/ITERATION, as ralph journal list shows it.")
        runs = [] if run else self.store.attempts.runs(1)
        return self.store.attempts.get(run or (runs[0].id if runs else "no run"), int(iteration))

    def failure_counts(self) -> list[Row]:
        """Give how many failures there are by category, most frequent first."""
        return self.store.attempts.report_counts()

    def failures_of(self, id: str, attempt: int | None = None) -> list[FailureReport]:
        """Give the failure reports of a task, freshest first."""
        self.store.tasks.get(id)
        reports = self.store.attempts.reports(1000, task=id)
        return [one for one in reports if attempt in (None, one.attempt_number)]

    def last_event(self) -> int:
        """Give the number of the newest event of runs and tasks, or 0."""
        return self.store.events.last()

    # --- the loop --------------------------------------------------------------------

    def prompt(self, id: str, *, model: str | None = None, with_memory: bool = True) -> Prompt:
        """Give the prompt the next attempt at a task would get. Changes nothing."""
        from ralph.loop.prepare import prepare

        metrics = self.store.attempts.metrics(id)
        runs = self.store.attempts.runs(1)
        now_running = runs[0] if runs and runs[0].ended_at is None else None
        return prepare(
            self.store,
            self.config,
            self.store.tasks.get(id),
            metrics,
            run_id=now_running.id if now_running else "",
            iteration=(now_running.iterations if now_running else 0) + 1,
            attempt_number=metrics.total_attempts + 1,
            model=model,
            with_memory=with_memory,
            takes_model=self._takes_model(),
        ).prompt

    def run(
        self,
        order: Order,
        tell: Tell,
        ask: Callable[[Task], str] | None = None,
        *,
        resume: str | None = None,
    ) -> Summary:
        """Run the loop over the project's tasks with the configured agent.

        `resume` names a run to go on with; empty, the latest one.
        """
        from ralph.agents import open_agent
        from ralph.loop.options import options_of, with_limits
        from ralph.loop.run import Loop
        from ralph.loop.run_log import Recording
        from ralph.loop.workers import worker_name

        if order.only:
            self.store.tasks.get(order.only)
        before = self._run_to_resume(resume) if resume is not None else None
        order = self._resumed(order, before) if before else order
        config = with_flags(
            self.config,
            agent=order.agent,
            program=order.program,
            gates=order.gates,
            verify=order.verify,
            review=order.review,
            strategy=order.strategy,
        )
        agent = open_agent(config.agent, self.root, config.models)
        agent.check()
        with Recording(self._root, tell) as told:
            loop = Loop(
                store=self.store,
                agent=agent,
                config=config,
                directory=self.root,
                order=with_limits(order, config.limits),
                tell=told,
                ask=ask,
                resumes=before,
                options=options_of(order, worker_name()),
            )
            return loop.run()

    def _run_to_resume(self, id: str) -> Run:
        """Give a run that has stopped, so that it can go on."""
        attempts = self.store.attempts
        runs = [attempts.run(id)] if id else attempts.runs(1)
        if not runs:
            raise UsageError("There is no run to resume yet: start one with ralph run.")
        if runs[0].ended_at is None and self._is_at_work(runs[0]):
            raise UsageError(f"{runs[0].id} is still being worked on: it cannot be resumed.")
        return runs[0]

    def _resumed(self, order: Order, run: Run) -> Order:
        """Give an order completed by what a run was asked before.

        What others can write must not decide which programs run here.
        """
        from ralph.loop.options import resumed

        again = resumed(order, run.options)
        gates = again.gates if again.verify else order.gates
        if self.store.is_shared and (again.program, gates) != (order.program, order.gates):
            raise UsageError(
                f"{run.id} was started with a program or gates of its own, which a shared database is not asked for:"
                " say them again, as in ralph run --resume --gate COMMAND -- PROGRAM."
            )
        return again

    def _is_at_work(self, run: Run) -> bool:
        """Say whether somebody works on a run, or waits for tasks in it."""
        from ralph.loop.options import worker_of
        from ralph.loop.workers import is_at_work

        if is_at_work(worker_of(run.options)):
            return True
        self.store.tasks.expire()  # a worker of another machine that vanished holds its task no longer than its lease
        claims = {(task.id, task.claimed_by) for task in self.store.tasks.claimed()}
        running = [one for one in self.store.attempts.running() if one.run_id == run.id]
        gone = self._gone(running)
        return any((one.task_id, one.worker) in claims and one.worker not in gone for one in running)

    def overview(self, most: int | None = None) -> Overview:
        """Say where the project stands; of tasks that are ready or wait for a person, so many are given, or all."""
        from ralph.loop.strategy import strategy_name

        takes_model = self._takes_model()
        tasks, attempts = self.store.tasks, self.store.attempts
        totals = attempts.totals()
        runs = attempts.runs(1)
        running = attempts.running()
        gone = self._gone(running)
        blocked = tasks.in_status(Status.BLOCKED, most)
        given_up = tasks.in_status(Status.FAILED, most)
        trouble, trouble_count = self._in_trouble(takes_model)
        return Overview(
            root=self._root,
            counts=tasks.counts(),
            running=tuple(attempt for attempt in running if attempt.worker not in gone),
            left=tuple(attempt for attempt in running if attempt.worker in gone),
            ready=tuple(tasks.ready(most)),
            ready_count=self._count_ready(),
            waiting=(*blocked, *given_up)[:most],
            waiting_count=tasks.count_in_status(Status.BLOCKED) + tasks.count_in_status(Status.FAILED),
            strategy=strategy_name(self.config.models, self.config.agent.model),
            takes_model=takes_model,
            trouble=trouble,
            trouble_count=trouble_count,
            attempts=totals["attempts"],
            done=totals["done"],
            failed=totals["failed"],
            seconds=totals["seconds"],
            cost_usd=totals["cost_usd"],
            memories=self.store.memories.count(),
            last_run=runs[0] if runs else None,
            warnings=(*self.config.warnings, *(self._memory.problems if self._memory else ())),
        )

    def _count_ready(self) -> int:
        """Give how many tasks could start now; counted anew when something has happened."""
        last = self.store.events.last()
        if self._ready_count is None or self._ready_count[0] != last:
            self._ready_count = last, self.store.tasks.count_ready()
        return self._ready_count[1]

    def _in_trouble(self, takes_model: bool) -> tuple[tuple[TaskTrouble, ...], int]:
        """Give the tasks in most trouble, and how many are in some; found out anew when something has happened."""
        key = self.store.events.last(), takes_model
        if self._trouble is None or self._trouble[0] != key:
            worst, count = self.store.attempts.in_trouble()
            tasks = self.store.tasks.some(one.task_id for one in worst)
            found = (self._trouble_of(tasks[one.task_id], one, takes_model) for one in worst if one.task_id in tasks)
            self._trouble = key, tuple(found), count
        return self._trouble[1:]

    def _trouble_of(self, task: Task, metrics: TaskMetrics, takes_model: bool) -> TaskTrouble:
        """Say how stuck a task is and what its next attempt would be."""
        from ralph.loop.choose_model import next_attempt
        from ralph.loop.strategy import next_step, strategy_name
        from ralph.loop.stuck import Step

        plan = next_attempt(self.store, self.config, task, metrics, takes_model=takes_model)
        strategy = strategy_name(self.config.models, self.config.agent.model)
        return TaskTrouble(
            task=task,
            metrics=metrics,
            trouble=plan.trouble,
            is_stuck=plan.trouble.step in (Step.DECOMPOSE, Step.PERSON),
            next_step=next_step(plan.trouble, strategy, takes_model=takes_model),
            model=plan.choice.model,
            model_reason=plan.choice.reason,
        )

    def _takes_model(self) -> bool:
        """Say whether the agent can be told which model to use: the configured one, or else that of the latest run."""
        from ralph.agents import takes_model

        if self.config.agent.command or self.config.agent.name != "command":
            return takes_model(self.config.agent, self._root, self.config.models)
        from ralph.loop.options import Order, resumed

        runs = self.store.attempts.runs(1)
        last = resumed(Order(), runs[0].options) if runs else Order()
        config = with_flags(self.config, agent=last.agent, program=last.program)
        return takes_model(config.agent, self._root, config.models)

    def _gone(self, running: Sequence[Attempt]) -> set[str]:
        """Give the workers of these attempts that are certainly gone."""
        if not running:
            return set()
        from ralph.loop.workers import vanished

        return vanished({attempt.worker for attempt in running if attempt.worker})


def _refuse_sessions(id: str) -> None:
    """What the loop runs must not finish tasks past its gates, nor its own by way of their parts."""
    if os.environ.get("RALPH_SESSION"):
        raise UsageError(f"A session of the loop does not say that {id} is done: the loop does, once the gates pass.")


def _refuse_own_task(id: str) -> None:
    """An agent settles its task with a sigil, which the gates check; not by command, which they would not see."""
    if os.environ.get("RALPH_SESSION") and os.environ.get("RALPH_TASK_ID") == id:
        raise UsageError(f"{id} is this session's own task: end it with the task-done or task-failed sigil.")


def _refuse_reports(id: str) -> None:
    """What the loop runs says in its answer how it went, or the loop would count it twice."""
    if os.environ.get("RALPH_SESSION"):
        raise UsageError(
            f"A session of the loop reports no failure of {id} by itself: write a <failure-report> in the answer."
        )


def _refuse_unless_open(task: Task) -> None:
    """Only what waits to be worked on can have failed just now."""
    if task.status is Status.IN_PROGRESS:
        worker = f" by {task.claimed_by}" if task.claimed_by else ""
        raise ConflictError(f"{task.id} is being worked on{worker}: whoever does that reports how it went.")
    if task.status is not Status.PENDING:
        raise ConflictError(f"{task.id} is {task.status}. To work on it again, first: ralph task reset {task.id}")


def _not_ready(seen: TaskView) -> ConflictError:
    """Give the reason why a pending task could not be taken."""
    task = seen.task
    if seen.parts:
        return ConflictError(
            f"{task.id} is worked on by its parts: report it of {seen.parts[0].id} or another of them."
        )
    waits = [other.id for other in seen.needs if other.status is not Status.DONE]
    return ConflictError(f"{task.id} cannot be worked on yet: {', '.join(waits) or 'a task above it'} comes first.")


def _said(text: str, what: str) -> str:
    said = accept(text)
    if not said:
        raise UsageError(f"A failure report says {what}: that is empty.")
    return said


def _own_id(text: str) -> str:
    """Give the id that a caller has chosen for a task, or refuse it."""
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise UsageError("An id has up to 64 letters, digits, dots, dashes and underscores, a letter or digit first.")
    return text


def _title(text: str) -> str:
    title = one_line(accept(text))
    if not title:
        raise UsageError("A task needs a title.")
    return title
