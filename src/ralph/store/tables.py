"""Tables that hold the data of a project."""

from __future__ import annotations

from ralph.core.records import record


@record
class Part:
    """A table that holds data of a project."""

    table: str
    key: tuple[str, ...] = ("seq",)
    number: str = "seq"
    """Column numbered by the database. Empty if there is none."""
    numbers_of: tuple[tuple[str, str], ...] = ()
    """Columns that refer to the number of another table, with that table."""


_OF_MEMORY = (("seq", "memory"),)
PARTS = (
    Part(table="features"),
    Part(table="tasks"),
    Part(table="task_needs", key=("task_id", "needs_id"), number=""),
    Part(table="task_log"),
    Part(table="runs"),
    Part(table="attempts"),
    Part(table="failures"),
    Part(table="run_events"),
    Part(table="memory"),
    Part(table="memory_events", numbers_of=(("undoes", "memory_events"),)),
    Part(table="memory_links", key=("memory_id", "title_key"), number=""),
    Part(table="memory_files", key=("path", "seq"), number="", numbers_of=_OF_MEMORY),
    Part(table="memory_words", number="", numbers_of=_OF_MEMORY),
    Part(table="attempt_words", number="", numbers_of=(("seq", "attempts"),)),
    Part(table="failure_words", number="", numbers_of=(("seq", "failures"),)),
    Part(table="sessions"),
    Part(table="memory_vectors", key=("made",), number="made", numbers_of=_OF_MEMORY),
)
"""Tables that a copy of a project includes, parents before children."""
AGREED = ("synced_entries", "synced_files")
"""Tables with the sync state between a working copy and this store. Copies do not include them."""
PLACES = "synced_places"
"""Table of known working copies, which is kept when their sync state is discarded."""
SUMS = ("attempt_sums", "attempt_summed")
"""Tables with sums over attempts, computed by each database. Copies do not include them."""
HELD = (*AGREED, PLACES, *SUMS, *(part.table for part in reversed(PARTS)))
"""All tables with data of a project, children before parents."""
