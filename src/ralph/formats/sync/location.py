"""Identity of a working copy among others that share one store."""

from __future__ import annotations

import os

from ralph.core.config import PLACE_NAME, noted_place
from ralph.core.errors import RalphError
from ralph.store.sync_state import WORKING_COPY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store


def place_of(store: Store, root: Path | str) -> str:
    """Return the id of a working copy in its store, or an empty string if the store has only one.

    A copied or moved directory gets a new id, because the recorded sync state belongs to the original one.
    """
    if not store.has_copies:
        return ""
    here = os.path.realpath(root)
    id, made_in, _ = noted_place(root)
    if id and made_in == here:
        return id
    from pathlib import Path

    return _register(Path(root) / PLACE_NAME, here, store.project_id)


def _register(path: Path, here: str, project_id: str) -> str:
    from ralph.core.files import write_whole

    id = WORKING_COPY + os.urandom(6).hex()
    try:
        write_whole(path, f"{id} {here}\n{project_id}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise RalphError(f"Cannot write {path}: {error.strerror}.") from error
    return id
