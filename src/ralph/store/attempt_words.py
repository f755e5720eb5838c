"""Erasing of what attempts said in their own words: notes of the journal, and failure reports."""

from __future__ import annotations

from ralph.core.records import EpisodeKind
from ralph.store.memory_queries import like_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope
    from ralph.store.episodes import EpisodeFilter

ERASED = "Erased by ralph forget."
_WORDS = {
    "attempts": {"notes": ""},
    "failures": {"tried": ERASED, "why": ERASED, "trace": "", "retry_suggestion": ""},
}
"""Columns with words of the agent by table, and what they hold when these are erased."""
_TIMES = {"attempts": "started_at", "failures": "created_at"}


class AttemptWords:
    """Notes and failure reports of the attempts that a filter of episodes names, or whose words match it.

    What merely is old is not among them: later attempts learn from it.
    """

    def __init__(self, scope: ProjectScope, filter: EpisodeFilter) -> None:
        self._scope = scope
        self._filter = filter
        is_about_attempts = EpisodeKind.ATTEMPT in (filter.kinds or (EpisodeKind.ATTEMPT,))
        self._tables = tuple(_WORDS) if is_about_attempts and (filter.within or filter.matching) else ()

    def count(self) -> int:
        """Return their number."""
        count = 0
        for table in self._tables:
            condition, values = self._condition(table)
            sql = f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :project_id AND {condition}"
            count += int(self._scope.query(sql, **values)[0]["n"])
        return count

    def erase(self) -> int:
        """Erase their words and search entries, and return their number."""
        from ralph.store.index import write_index

        count = 0
        for table in self._tables:
            condition, values = self._condition(table)
            assignments = ", ".join(f"{name} = '{text}'" for name, text in _WORDS[table].items())
            rows = self._scope.update_where(table, assignments, condition, **values)
            count += len(rows)
            if table == "failures":
                write_index(self._scope.database, "failure", rows)
                continue
            for row in rows:  # Attempts without notes are not indexed.
                self._scope.execute(
                    "DELETE FROM attempt_words WHERE project_id = :project_id AND seq = :seq", seq=row["seq"]
                )
        return count

    def _condition(self, table: str) -> tuple[str, dict[str, str]]:
        first = next(iter(_WORDS[table]))
        conditions, values = [f"{first} NOT IN ('', '{ERASED}')"], {}
        if self._filter.within:
            conditions.append("(run_id = :within OR run_id || '/' || iteration = :within)")
            values["within"] = self._filter.within
        if self._filter.before:
            conditions.append(f"{_TIMES[table]} < :before")
            values["before"] = self._filter.before
        if self._filter.matching:
            like = f"{self._scope.database.ilike} :matching ESCAPE '\\'"
            conditions.append(f"({' OR '.join(f'{name} {like}' for name in _WORDS[table])})")
            values["matching"] = like_pattern(self._filter.matching)
        return " AND ".join(conditions), values
