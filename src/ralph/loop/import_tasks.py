"""Imports tasks from a file, resolving their links against the tasks that already exist."""

from __future__ import annotations

from ralph.core.actor import PERSON
from ralph.core.records import TaskStatus, new_task_id, replace
from ralph.formats.planned import ReadProblem, TaskImport
from ralph.formats.task_files import read_tasks
from ralph.loop.tasks import check_parents
from ralph.store.tasks import TaskDraft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.core.actor import Actor
    from ralph.formats.planned import PlannedProject, PlannedTask
    from ralph.store import Store


def import_tasks(store: Store, text: str, name: str, actor: Actor = PERSON) -> TaskImport:
    """Add the new tasks of a task file."""
    return import_planned(store, read_tasks(text, name), actor)


def import_planned(store: Store, project: PlannedProject, actor: Actor = PERSON) -> TaskImport:
    """Add new tasks and features; only a person's file decides their status and which protected files they change."""
    planned = project.tasks
    ignored = [_status_problem(plan) for plan in planned if actor.is_agent and plan.status is not TaskStatus.PENDING]
    if actor.is_agent:
        planned = tuple(replace(plan, status=TaskStatus.PENDING, reason="", allow=()) for plan in planned)
    # Another program's records hold the words of whoever reported to it.
    written_by = "import" if project.is_foreign and not actor.is_agent else actor.kind
    with store.transaction():
        features = _add_features(store, project, written_by)
        new, known, problems = _resolve(store, planned, written_by)
        new = [replace(task, written_by=written_by) for task in new]
        check_parents(store, actor, {task.parent_id for task in new} - {task.id for task in new})
        added = store.tasks.add_all(new)
    found = sorted([*project.problems, *ignored, *problems], key=lambda one: one.line)
    return TaskImport(added=tuple(added), known=known, features=features, unreadable=tuple(found))


def _add_features(store: Store, project: PlannedProject, written_by: str) -> int:
    """Add the features that do not exist yet, and return their number."""
    known = {feature.name for feature in store.features.all()}
    new = {feature.name: feature for feature in project.features if feature.name not in known}
    for feature in new.values():
        store.features.add(feature.name, feature.spec, feature.plan, written_by)
    return len(new)


def _status_problem(plan: PlannedTask) -> ReadProblem:
    why = f"{plan.title!r} is {plan.status} in the file; agents add tasks as pending."
    return ReadProblem(line=plan.line, why=why, was_read=True)


def _resolve(
    store: Store, planned: Sequence[PlannedTask], written_by: str
) -> tuple[list[TaskDraft], int, list[ReadProblem]]:
    """Return the planned tasks that are new, with ids and resolved links, and the links that lead nowhere."""
    existing = store.tasks.all()
    known_ids = {task.id for task in existing}
    ids = {key: key for key in (*known_ids, *(plan.key for plan in planned if not plan.key.startswith("#")))}
    by_title = {(task.title, task.parent_id): task.id for task in existing}
    features = {key: feature.id for feature in store.features.all() for key in (feature.name, feature.id)}
    fresh: list[PlannedTask] = []
    for plan in planned:
        parent = ids.get(plan.parent_key) if plan.parent_key else None
        is_nameless = plan.key.startswith("#")
        known = by_title.get((plan.title, parent)) if is_nameless else plan.key if plan.key in known_ids else None
        ids[plan.key] = known or (new_task_id() if is_nameless else plan.key)
        by_title.setdefault((plan.title, parent), ids[plan.key])
        if not known:
            fresh.append(plan)
            if plan.feature and plan.feature not in features:
                features[plan.feature] = store.features.add(plan.feature, written_by=written_by).id
    missing = {plan.key: [other for other in plan.dependency_keys if other not in ids] for plan in fresh}
    new = [_new_task(plan, ids, features, missing[plan.key]) for plan in fresh]
    return new, len(planned) - len(fresh), _problems(fresh, ids, missing)


def _new_task(plan: PlannedTask, ids: Mapping[str, str], features: Mapping[str, str], missing: list[str]) -> TaskDraft:
    return TaskDraft(
        id=ids[plan.key],
        title=plan.title,
        body=plan.body,
        # A task must not start before a dependency that cannot be found.
        status=TaskStatus.BLOCKED if missing and plan.status is TaskStatus.PENDING else plan.status,
        reason=f"needs {', '.join(missing)}, which was not found" if missing else plan.reason,
        priority=plan.priority,
        parent_id=ids.get(plan.parent_key) if plan.parent_key else None,
        feature_id=features[plan.feature] if plan.feature else None,
        needs=tuple(ids[other] for other in plan.dependency_keys if other in ids),
        allow=plan.allow,
        log=plan.log,
    )


def _problems(
    fresh: Sequence[PlannedTask], ids: Mapping[str, str], missing: Mapping[str, list[str]]
) -> list[ReadProblem]:
    problems = []
    for plan in fresh:
        for other in missing[plan.key]:
            why = f"{plan.title!r} needs {other}, which was not found; added as blocked."
            problems.append(ReadProblem(line=plan.line, why=why, was_read=True))
        if plan.parent_key and plan.parent_key not in ids:
            why = f"{plan.title!r} is part of {plan.parent_key}, which was not found."
            problems.append(ReadProblem(line=plan.line, why=why, was_read=True))
    return problems
