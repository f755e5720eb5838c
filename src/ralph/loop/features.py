"""Features: named groups of tasks with a spec and a plan."""

from __future__ import annotations

from ralph.core.errors import UsageError
from ralph.core.records import new_task_id, record
from ralph.core.text import one_line, sanitize
from ralph.store.tasks import TaskDraft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.actor import Actor
    from ralph.core.records import Feature, Task, TaskStatus
    from ralph.loop.outline import TextPart
    from ralph.loop.plan import FeaturePlan
    from ralph.store import Store


@record
class FeatureView:
    """A feature with its tasks."""

    feature: Feature
    tasks: tuple[Task, ...]


@record
class FeatureCounts:
    """A feature with the number of its tasks by status."""

    feature: Feature
    counts: dict[TaskStatus, int]


def _clean_name(text: str) -> str:
    name = one_line(sanitize(text))
    if not name:
        raise UsageError("A feature needs a name.", code="empty-name")
    return name


class FeatureService:
    """The features of one opened project."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    def add(self, name: str, spec: str = "", plan: str = "") -> Feature:
        """Add a feature whose spec and plan go into the prompts of its tasks."""
        self._actor.require("feature.add")
        return self._store.features.add(_clean_name(name), sanitize(spec), sanitize(plan), self._actor.kind)

    def update(
        self, id_or_name: str, *, name: str | None = None, spec: str | None = None, plan: str | None = None
    ) -> Feature:
        """Change a feature; None leaves a field as it is. Running attempts keep the prompt that they have."""
        from ralph.loop.authored_text import is_all_replaced

        self._actor.require("feature.update")
        feature = self._store.features.get(id_or_name)
        new_spec, new_plan = (None if text is None else sanitize(text) for text in (spec, plan))
        new_name = _clean_name(name) if name is not None else None
        # What an agent wrote stays an agent's as long as some of it is left.
        is_rewritten = is_all_replaced((feature.name, new_name), (feature.spec, new_spec), (feature.plan, new_plan))
        return self._store.features.update(
            feature.id,
            name=new_name,
            spec=new_spec,
            plan=new_plan,
            written_by=self._actor.kind if is_rewritten else None,
        )

    def read_parts(self, id_or_name: str, numbers: Sequence[int]) -> list[TextPart]:
        """Return parts of the spec and the plan by their numbers, which prompts name."""
        from ralph.loop.outline import split_parts

        feature = self._store.features.get(id_or_name)
        parts = split_parts(feature.spec) if feature.spec else []
        parts += split_parts(feature.plan, len(parts) + 1) if feature.plan else []
        known = {part.number: part for part in parts}
        if missing := [str(number) for number in numbers if number not in known]:
            raise UsageError(
                f"{feature.id} has {len(parts)} parts, none with the number {', '.join(missing)}.", code="no-such-part"
            )
        return [known[number] for number in numbers]

    def add_planned(self, plan: FeaturePlan, spec: str = "", *, is_read: bool = False) -> FeatureView:
        """Add a feature with the tasks that an agent proposed and a person accepted: all of it or nothing.

        Only if the person has read them (`is_read`), they count as the person's words.
        """
        self._actor.require("feature.plan")
        with self._store.transaction():
            feature = self.add(plan.name, spec)
            ids = {one.key: new_task_id() for one in plan.tasks}
            added = self._store.tasks.add_all(
                [
                    TaskDraft(
                        id=ids[one.key],
                        title=one.title,
                        body=one.body,
                        needs=tuple(ids[key] for key in one.needs),
                        priority=one.priority,
                        feature_id=feature.id,
                        written_by="person" if is_read else "agent",
                    )
                    for one in plan.tasks
                ]
            )
        return FeatureView(feature=feature, tasks=tuple(added))

    def counts(self) -> list[FeatureCounts]:
        """Return all features with the number of their tasks by status, oldest first."""
        counts = self._store.tasks.progress.counts_by_feature()
        return [FeatureCounts(feature=one, counts=counts.get(one.id, {})) for one in self._store.features.all()]

    def show(self, id_or_name: str) -> FeatureView:
        """Return a feature with its tasks."""
        return self._view(self._store.features.get(id_or_name))

    def delete(self, id_or_name: str) -> Feature:
        """Delete a feature; its tasks stay."""
        self._actor.require("feature.delete")
        feature = self._store.features.get(id_or_name)
        self._store.features.delete(feature.id)
        return feature

    def _view(self, feature: Feature) -> FeatureView:
        placed = self._store.tasks.page(feature_id=feature.id)
        return FeatureView(feature=feature, tasks=tuple(task for task, _ in placed))

    def list(self) -> list[FeatureView]:
        """Return all features with their tasks, oldest first."""
        return [self._view(one) for one in self._store.features.all()]
