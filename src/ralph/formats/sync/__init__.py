"""Two-way sync of `.agent/memories.md` and `.ralph/knowledge/*.md` with the store.

The store is authoritative, but people and git edit the files: their changes are imported, new memories are written out,
and any other text is preserved. If neither side has changed, a sync costs a few stat calls and two queries.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.store.memories import Change, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store


PASSES = 3
"""Maximum number of passes over the files in one sync."""


@record
class Outcome:
    """The result of a sync."""

    taken: int = 0
    """Number of memories added, changed or deleted because of the files."""
    written: int = 0
    """Number of entries added, changed or removed in the files."""
    problems: tuple[str, ...] = ()
    is_unwritten: bool = False
    """Whether a file could not be written; the next sync retries."""


def mark(store: Store, root: Path | str) -> str:
    """Return a fingerprint of the synced files of a working copy."""
    from ralph.formats.sync.disk import Disk
    from ralph.formats.sync.location import place_of

    return Disk(store, root, place_of(store, root)).files_mark()


def is_unwritten(store: Store, root: Path | str) -> bool:
    """Return whether the last sync failed to write a file."""
    from ralph.formats.sync.disk import UNWRITTEN
    from ralph.formats.sync.location import place_of
    from ralph.store.sync_state import Synced

    return Synced(store.scope, place_of(store, root)).mark()[1] == UNWRITTEN


def written_ids(store: Store, kinds: tuple[str, ...]) -> dict[str, bool]:
    """Return the ids of active memories of the given kinds that were written to the files of this working copy.

    The value says whether the memory is held: it vanished from the files together with too many others to be deleted.
    """
    from ralph.store.sync_state import Synced

    # In a shared store, missing entries are normal: they are written with the next memory command.
    if store.has_copies:
        return {}
    written = Synced(store.scope).held()
    return {row["id"]: written[row["id"]] for row in store.memories.texts(kinds) if row["id"] in written}


def sync(store: Store, root: Path | str) -> Outcome:
    """Sync the files of a working copy with the store; problems are returned, never raised."""
    from ralph.formats.sync.disk import Disk
    from ralph.formats.sync.location import place_of

    disk = Disk(store, root, place_of(store, root))
    if not disk.is_stale():
        return Outcome()
    from ralph.formats.sync.knowledge_folder import KnowledgeFolder
    from ralph.formats.sync.memories_file import MemoriesFile

    change = Change(who="file", why="", id=change_id())
    done: list[KnowledgeFolder | MemoriesFile] = []
    # The transaction also keeps other Ralph processes from writing the files.
    with store.transaction():
        for _ in range(PASSES):
            before = store.memories.last_event()
            targets = [target(store, disk, change) for target in (MemoriesFile, KnowledgeFolder)]
            for target in targets:
                target.sync()
            done += targets
            if store.memories.last_event() == before:
                break  # otherwise an edit in one file may have moved a memory to the other
        disk.settle()
    return Outcome(
        taken=sum(target.taken for target in done),
        written=sum(target.written for target in done),
        problems=tuple(dict.fromkeys(problem for target in done for problem in target.problems)),
        is_unwritten=disk.is_unwritten,
    )
