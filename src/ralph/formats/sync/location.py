"""Identity of a working copy among others that share one store."""

from __future__ import annotations

import os

from ralph.core.config import WORKING_COPY_PATH, read_working_copy
from ralph.core.errors import RalphError
from ralph.store.sync_state import WORKING_COPY_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store


def working_copy_id(store: Store, root: Path | str) -> str:
    """Return the id of a working copy in its store, or an empty string if the store has only one.

    A copied or moved directory gets a new id, because the recorded sync state belongs to the original one.
    """
    if not store.has_multiple_checkouts:
        return ""
    here = os.path.realpath(root)
    id, made_in, _ = read_working_copy(root)
    if id and made_in == here:
        return id
    from pathlib import Path

    return _register(Path(root) / WORKING_COPY_PATH, here, store.project_id)


def _register(path: Path, here: str, project_id: str) -> str:
    from ralph.core.files import write_atomically

    id = WORKING_COPY_PREFIX + os.urandom(6).hex()
    try:
        write_atomically(path, f"{id} {here}\n{project_id}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise RalphError(f"Cannot write {path}: {error.strerror}.") from error
    return id
