"""Two-way sync of `.agent/memories.md` and `.ralph/knowledge/*.md` with the store.

The store is authoritative, but people and git edit the files: their changes are imported, new memories are written out,
and any other text is preserved. If neither side has changed, a sync costs a few stat calls and two queries.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.formats.sync.disk import UNWRITTEN, SyncedFiles
from ralph.formats.sync.location import working_copy_id
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.sync_state import SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.formats.sync.file_sync import FileSync
    from ralph.store import Store


MAX_PASSES = 3
"""Maximum number of passes over the files in one sync."""


@record
class SyncResult:
    """The result of a sync."""

    imported_count: int = 0
    """Number of memories added, changed or deleted because of the files."""
    written: int = 0
    """Number of entries added, changed or removed in the files."""
    problems: tuple[str, ...] = ()
    has_unwritten: bool = False
    """Whether a file could not be written; the next sync retries."""


def files_fingerprint(store: Store, root: Path | str) -> str:
    """Return a fingerprint of the synced files of a working copy."""
    return SyncedFiles(store, root, working_copy_id(store, root)).fingerprint()


def has_unwritten_files(store: Store, root: Path | str) -> bool:
    """Return whether the last sync failed to write a file."""
    return SyncState(store.scope, working_copy_id(store, root)).last_sync()[1] == UNWRITTEN


def synced_memory_ids(store: Store, kinds: tuple[str, ...]) -> dict[str, bool]:
    """Return the ids of active memories of the given kinds that were written to the files of this working copy.

    The value says whether the memory is held: it vanished from the files together with too many others to be deleted.
    """
    # In a shared store, missing entries are normal: they are written with the next memory command.
    if store.has_multiple_checkouts:
        return {}
    written = SyncState(store.scope).synced_memories()
    return {
        row["id"]: written[row["id"]] for row in store.memories.listing.texts_of_kinds(kinds) if row["id"] in written
    }


def sync(store: Store, root: Path | str, *, only_edits: bool = False) -> SyncResult:
    """Sync the files of a working copy with the store; problems are returned, never raised.

    With `only_edits`, nothing is done unless the files have changed: what the files lack is left to a later sync.
    """
    disk = SyncedFiles(store, root, working_copy_id(store, root))
    if not (disk.has_edits() if only_edits else disk.is_stale()):
        return SyncResult()
    # The transaction also keeps other Ralph processes from writing the files.
    with store.transaction():
        disk = SyncedFiles(store, root, working_copy_id(store, root))
        if not disk.is_stale():
            return SyncResult()  # another process has synced them while this one waited
        from ralph.formats.sync.additions import write_additions

        added = write_additions(disk)
        return _full_sync(store, disk) if added is None else SyncResult(written=added)


def _full_sync(store: Store, disk: SyncedFiles) -> SyncResult:
    from ralph.formats.sync.knowledge_folder import KnowledgeFolderSync
    from ralph.formats.sync.memories_file import MemoriesFileSync

    change = ChangeInfo(who="file", why="", id=change_id())
    done: list[FileSync] = []
    for _ in range(MAX_PASSES):
        before = store.memories.history.last_event_seq()
        targets = [target(store, disk, change) for target in (MemoriesFileSync, KnowledgeFolderSync)]
        for target in targets:
            target.sync()
        done += targets
        if store.memories.history.last_event_seq() == before:
            break  # otherwise an edit in one file may have moved a memory to the other
    disk.finish()
    return SyncResult(
        imported_count=sum(target.imported_count for target in done),
        written=sum(target.written for target in done),
        problems=tuple(dict.fromkeys(problem for target in done for problem in target.problems)),
        has_unwritten=disk.has_unwritten,
    )
