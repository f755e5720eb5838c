"""Tables that hold the data of a project."""

from __future__ import annotations

from ralph.core.records import record


@record
class ProjectTable:
    """A table that holds data of a project."""

    table: str
    key: tuple[str, ...] = ("seq",)
    number: str = "seq"
    """Column numbered by the database. Empty if there is none."""
    references: tuple[tuple[str, str], ...] = ()
    """Columns that refer to the number of another table, with that table."""


_OF_MEMORY = (("seq", "memory"),)
_OF_EPISODE = (("seq", "episodes"),)
PROJECT_TABLES = (
    ProjectTable(table="features"),
    ProjectTable(table="tasks"),
    ProjectTable(table="task_needs", key=("task_id", "needs_id"), number=""),
    ProjectTable(table="task_log"),
    ProjectTable(table="held_changes"),
    ProjectTable(table="questions"),
    ProjectTable(table="runs"),
    ProjectTable(table="attempts"),
    ProjectTable(table="failures"),
    ProjectTable(table="run_events"),
    ProjectTable(table="memory"),
    ProjectTable(table="memory_events", references=(("undoes", "memory_events"),)),
    ProjectTable(table="memory_links", key=("memory_id", "title_key"), number=""),
    ProjectTable(table="memory_files", key=("path", "seq"), number="", references=_OF_MEMORY),
    ProjectTable(table="memory_words", number="", references=_OF_MEMORY),
    ProjectTable(table="attempt_words", number="", references=(("seq", "attempts"),)),
    ProjectTable(table="failure_words", number="", references=(("seq", "failures"),)),
    ProjectTable(table="sessions"),
    ProjectTable(table="memory_vectors", key=("made",), number="made", references=_OF_MEMORY),
    ProjectTable(table="episodes"),
    ProjectTable(table="episode_words", number="", references=_OF_EPISODE),
    ProjectTable(table="episode_vectors", key=("made",), number="made", references=_OF_EPISODE),
    ProjectTable(table="import_cursors", key=("source",), number=""),
)
"""Tables that a copy of a project includes, parents before children."""
SYNC_TABLES = ("synced_entries", "synced_files")
"""Tables with the sync state between a working copy and this store. Copies do not include them."""
PLACES_TABLE = "synced_places"
"""Table of known working copies, which is kept when their sync state is discarded."""
SUM_TABLES = ("attempt_sums", "attempt_summed")
"""Tables with sums over attempts that older versions stored. Nothing reads them any more."""
ALL_PROJECT_TABLES = (*SYNC_TABLES, PLACES_TABLE, *SUM_TABLES, *(part.table for part in reversed(PROJECT_TABLES)))
"""All tables with data of a project, children before parents."""
