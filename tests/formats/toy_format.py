"""A file format in a module of its own: the reader and writer of the worked example in the contributor guide."""

from __future__ import annotations

from collections.abc import Iterable

from ralph.core.records import Memory
from ralph.formats.databases import ForeignDatabase
from ralph.formats.detection import DatabaseSample, FileSample
from ralph.formats.imported import imported_memory
from ralph.formats.planned import PlannedProject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.imported import Reading


def is_toy(sample: FileSample) -> bool:
    """Return whether a file starts with the mark of the format."""
    return sample.text.startswith("!toy")


def read_toy(text: str, at: str) -> Reading:
    """Return a memory for every line `type: text`."""
    lines = [line.partition(": ") for line in text.splitlines() if ": " in line]
    return tuple(imported_memory(kind=kind, content=body, at=at) for kind, _, body in lines), ()


def write_toy(memories: Iterable[Memory]) -> str:
    """Return one line per memory."""
    return "!toy\n" + "".join(f"{memory.kind}: {memory.content}\n" for memory in memories)


def is_toy_database(sample: DatabaseSample) -> bool:
    """Return whether a database has the table of the format."""
    return "toys" in sample.columns


def read_toy_database(database: ForeignDatabase, at: str) -> PlannedProject:
    """Return a memory for every row."""
    rows = database.rows("toys")
    return PlannedProject(memories=tuple(imported_memory(kind="fix", content=row["body"], at=at) for row in rows))
