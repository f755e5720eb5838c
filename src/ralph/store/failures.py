"""Store for failure reports."""

from __future__ import annotations

from ralph.core.records import FailureReport
from ralph.store.database import WordMatches
from ralph.store.rows import from_json, page_conditions, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.core.records import Attempt
    from ralph.store.database import ProjectScope, Row


class FailureStore:
    """Failure reports of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def latest(self, limit: int, *, task: str | None = None, category: str | None = None) -> list[FailureReport]:
        """Return failure reports, newest first."""
        return [report for report, _ in self.page(limit, task=task, category=category)]

    def page(
        self,
        limit: int,
        before: int | None = None,
        *,
        task: str | None = None,
        category: str | None = None,
        fingerprint: str | None = None,
    ) -> list[tuple[FailureReport, int]]:
        """Return failure reports, newest first, each with its cursor, which `before` accepts for the next page."""
        conditions, values = page_conditions("seq", before, task_id=task, category=category, fingerprint=fingerprint)
        rows = self._scope.query(
            f"SELECT * FROM failures WHERE project_id = :project_id{conditions} ORDER BY seq DESC LIMIT :limit",
            **values,
            limit=limit,
        )
        return [(row_to_failure_report(row), int(row["seq"])) for row in rows]

    def of_attempt(self, attempt: Attempt) -> FailureReport | None:
        """Return the failure report of an attempt, or None."""
        rows = self._scope.query(
            "SELECT * FROM failures WHERE project_id = :project_id AND run_id = :run AND iteration = :iteration",
            run=attempt.run_id,
            iteration=attempt.iteration,
        )
        return row_to_failure_report(rows[0]) if rows else None

    def of_run(self, run: str, limit: int) -> list[FailureReport]:
        """Return the failure reports of a run, newest first."""
        rows = self._scope.query(
            """
            SELECT * FROM failures WHERE project_id = :project_id AND run_id = :run
            ORDER BY iteration DESC LIMIT :limit
            """,
            run=run,
            limit=limit,
        )
        return [row_to_failure_report(row) for row in rows]

    def counts(self) -> list[Row]:
        """Count failures by category, most frequent first."""
        return self._scope.query(
            """
            SELECT category, COUNT(*) AS failures, COUNT(DISTINCT task_id) AS tasks, MAX(created_at) AS latest
            FROM failures WHERE project_id = :project_id GROUP BY category ORDER BY COUNT(*) DESC, category
            """
        )

    def groups(self, limit: int) -> list[tuple[Row, FailureReport]]:
        """Group failures by fingerprint, most frequent first, each with its latest report."""
        rows = self._scope.query(
            """
            SELECT f.*, g.failures, g.tasks, g.first FROM (
                SELECT COUNT(*) AS failures, COUNT(DISTINCT task_id) AS tasks, MIN(created_at) AS first,
                    MAX(seq) AS latest FROM failures
                WHERE project_id = :project_id AND fingerprint <> '' GROUP BY fingerprint
                ORDER BY COUNT(*) DESC, MAX(seq) DESC LIMIT :limit
            ) AS g JOIN failures AS f ON f.project_id = :project_id AND f.seq = g.latest
            ORDER BY g.failures DESC, f.seq DESC
            """,
            limit=limit,
        )
        return [(row, row_to_failure_report(row)) for row in rows]

    def tasks_with(self, fingerprint: str) -> set[str]:
        """Return the ids of tasks that had a failure with this fingerprint."""
        rows = self._scope.query(
            "SELECT DISTINCT task_id FROM failures WHERE project_id = :project_id AND fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )
        return {row["task_id"] for row in rows}

    def with_fingerprint(self, fingerprint: str, limit: int, exclude_task: str = "") -> list[FailureReport]:
        """Return the latest reports of the same failure, newest first, except those of a task."""
        rows = self._scope.query(
            """
            SELECT * FROM failures
            WHERE project_id = :project_id AND fingerprint = :fingerprint AND task_id <> :not_task
            ORDER BY seq DESC LIMIT :limit
            """,
            fingerprint=fingerprint,
            not_task=exclude_task,
            limit=limit,
        )
        return [row_to_failure_report(row) for row in rows]

    def search(self, words: Mapping[str, float], limit: int, exclude_task: str = "") -> WordMatches:
        """Return rows of failure reports that contain the words, except those of a task."""
        if not self._has_others(exclude_task):
            return WordMatches([], {}, 0)
        return self._scope.database.words.search(
            "failure",
            words,
            limit,
            "r.project_id = :project_id AND r.task_id <> :not_task",
            project_id=self._scope.project_id,
            not_task=exclude_task,
        )

    def _has_others(self, task: str) -> bool:
        """Return whether other tasks have failed: a search that excludes every match is slow."""
        return bool(
            self._scope.query(
                """
                SELECT 1 WHERE EXISTS (SELECT 1 FROM failures WHERE project_id = :project_id AND task_id < :task)
                    OR EXISTS (SELECT 1 FROM failures WHERE project_id = :project_id AND task_id > :task)
                """,
                task=task,
            )
        )


def row_to_failure_report(row: Row) -> FailureReport:
    """Return the failure report in a row."""
    return to_record(FailureReport, row, {"files": from_json})
