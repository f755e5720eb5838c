"""What tells a working copy from others of the same project, when they share one store."""

from __future__ import annotations

import os

from ralph.config import PLACE_NAME, noted_place
from ralph.errors import RalphError
from ralph.store.synced import WORKING_COPY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store


def place_of(store: Store, root: Path | str) -> str:
    """Give the name a working copy has in its store; empty where there is only one.

    A folder that was copied or moved is another working copy: what its files agreed on was agreed elsewhere.
    """
    if not store.has_copies:
        return ""
    here = os.path.realpath(root)
    id, where, _ = noted_place(root)
    if id and where == here:
        return id
    from pathlib import Path

    return _new_place(Path(root) / PLACE_NAME, here, store.project_id)


def _new_place(path: Path, here: str, project_id: str) -> str:
    from ralph.files import write_whole

    id = WORKING_COPY + os.urandom(6).hex()
    try:
        write_whole(path, f"{id} {here}\n{project_id}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise RalphError(f"{path} cannot be written: {error.strerror}.") from error
    return id
