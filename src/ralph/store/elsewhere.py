"""The store of another project, seen without touching it."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path

from ralph.errors import UsageError
from ralph.store import open_store
from ralph.store.backup import copy_database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.store import Store


@contextmanager
def open_copy(path: Path) -> Iterator[Store]:
    """Open a copy of the store of a project folder or a database file, brought up to what we know."""
    places = (path, path / "ralph.db", path / ".ralph" / "ralph.db")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(f"There is no Ralph project at {path}.")
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(copy_database(found, Path(folder))))
        try:
            yield store
        finally:
            store.close()
