"""The tables with rows of a project, and how these are numbered."""

from __future__ import annotations

from ralph.records import record


@record
class Part:
    """A table with rows of a project, and how they are numbered."""

    table: str
    key: tuple[str, ...] = ("seq",)
    number: str = "seq"
    """The column that the database numbers by itself; empty where there is none."""
    numbers_of: tuple[tuple[str, str], ...] = ()
    """Columns that hold a number of another table, and which."""


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
"""All that a project is made of and a copy of it has, parents before children."""
AGREED = ("synced_entries", "synced_files")
"""What files and store last agreed on, which is between one working copy and one store: no copy has it."""
PLACES = "synced_places"
"""The working copies there are, which outlive what was agreed on."""
SUMS = ("attempt_sums", "attempt_summed")
"""What attempts add up to, which each database works out for itself: no copy has it."""
HELD = (*AGREED, PLACES, *SUMS, *(part.table for part in reversed(PARTS)))
"""All tables with rows of a project, children before parents."""
