"""Read access to the store of another project through a temporary copy."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.store import open_store
from ralph.store.maintenance.backup import copy_database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.store import Store


@contextmanager
def open_copy(path: Path) -> Iterator[Store]:
    """Open a migrated temporary copy of the store of a project directory or database file."""
    candidates = (path, path / "ralph.db", path / ".ralph" / "ralph.db")
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None:
        raise UsageError(f"No Ralph project found at {path}.")
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(copy_database(found, Path(folder))))
        try:
            yield store
        finally:
            store.close()
