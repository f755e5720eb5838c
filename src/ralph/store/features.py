"""Store for features."""

from __future__ import annotations

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.records import Feature, new_feature_id, now, replace
from ralph.store.rows import to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope, Row


class FeatureStore:
    """The features of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def add(self, name: str, spec: str = "", plan: str = "", written_by: str = "person") -> Feature:
        """Add a feature. Names are unique within a project."""
        at = now()
        with self._scope.transaction():
            self._require_free(name)
            feature = Feature(
                id=new_feature_id(),
                name=name,
                spec=spec,
                plan=plan,
                written_by=written_by,
                created_at=at,
                updated_at=at,
            )
            while self._scope.query(
                "SELECT 1 FROM features WHERE project_id = :project_id AND id = :id", id=feature.id
            ):
                feature = replace(feature, id=new_feature_id())
            self._scope.insert("features", **to_columns(feature))
        return feature

    def update(
        self,
        id: str,
        *,
        name: str | None = None,
        spec: str | None = None,
        plan: str | None = None,
        written_by: str | None = None,
    ) -> Feature:
        """Update a feature; None leaves a field as it is."""
        given = {"name": name, "spec": spec, "plan": plan, "written_by": written_by}
        changes = {field: value for field, value in given.items() if value is not None}
        with self._scope.transaction():
            feature = self.get(id)
            if name is not None:
                self._require_free(name, feature.id)
            changes["updated_at"] = now()
            fields = ", ".join(f"{field} = :{field}" for field in changes)
            self._scope.update_where("features", fields, "id = :id", id=feature.id, **changes)
        return self.get(feature.id)

    def _require_free(self, name: str, except_id: str = "") -> None:
        rows = self._scope.query("SELECT id FROM features WHERE project_id = :project_id AND name = :name", name=name)
        if any(row["id"] != except_id for row in rows):
            raise UsageError(f"Feature {name!r} already exists. See: ralph feature list", code="feature-exists")

    def all(self) -> list[Feature]:
        """Return all features, oldest first."""
        rows = self._scope.query("SELECT * FROM features WHERE project_id = :project_id ORDER BY seq")
        return [_feature(row) for row in rows]

    def get(self, id_or_name: str) -> Feature:
        """Return a feature by its id or name, or raise `NotFoundError`."""
        rows = self._scope.query(
            "SELECT * FROM features WHERE project_id = :project_id AND (id = :key OR name = :key) ORDER BY seq",
            key=id_or_name,
        )
        if not rows:
            raise NotFoundError("Feature", id_or_name)
        return _feature(rows[0])

    def delete(self, id: str) -> None:
        """Delete a feature. Its tasks are kept."""
        from ralph.store.run_events import RunEventFeed

        with self._scope.transaction():
            rows = self._scope.update_where(
                "tasks", "feature_id = NULL, updated_at = :at", "feature_id = :id", id=id, at=now()
            )
            RunEventFeed(self._scope).publish_tasks([row["id"] for row in rows])
            self._scope.execute("DELETE FROM features WHERE project_id = :project_id AND id = :id", id=id)


def _feature(row: Row) -> Feature:
    return to_record(Feature, row, {})
