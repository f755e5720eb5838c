"""Features: named groups of tasks with a spec and a plan."""

from __future__ import annotations

from ralph.core.errors import UsageError
from ralph.core.records import record
from ralph.core.text import one_line, sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.actor import Actor
    from ralph.core.records import Feature, Task, TaskStatus
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


class FeatureService:
    """The features of one opened project."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    def add(self, name: str, spec: str = "", plan: str = "") -> Feature:
        """Add a feature whose spec and plan go into the prompts of its tasks."""
        self._actor.require("feature.add")
        name = one_line(sanitize(name))
        if not name:
            raise UsageError("A feature needs a name.", code="empty-name")
        return self._store.features.add(name, sanitize(spec), sanitize(plan))

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
