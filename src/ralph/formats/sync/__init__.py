"""Two-way sync of `.agent/memories.md` and `.ralph/knowledge/*.md` with the store.

The store is authoritative, but people and git edit the files: their changes are imported, new memories are written out,
and any other text is preserved. If neither side has changed, a sync costs a few stat calls and two queries.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.formats.sync.disk import KNOWLEDGE_DIR, MEMORIES_PATH, UNWRITTEN, SyncedFiles
from ralph.formats.sync.location import working_copy_id
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.sync_state import SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.formats.sync.file_sync import FileSync
    from ralph.store import Store


UNTRUSTED_FILES = (
    f"{MEMORIES_PATH} and {KNOWLEDGE_DIR} are neither read nor written: this directory is not trusted."
    " Review it with: ralph trust"
)
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


def sync(store: Store, root: Path | str) -> SyncResult:
    """Sync the files of a working copy with the store; problems are returned, never raised."""
    disk = SyncedFiles(store, root, working_copy_id(store, root))
    if not disk.is_stale():
        return SyncResult()
    if not _may_sync(disk, root):
        return SyncResult(problems=(UNTRUSTED_FILES,))
    from ralph.formats.sync.knowledge_folder import KnowledgeFolderSync
    from ralph.formats.sync.memories_file import MemoriesFileSync

    change = ChangeInfo(who="file", why="", id=change_id())
    done: list[FileSync] = []
    # The transaction also keeps other Ralph processes from writing the files.
    with store.transaction():
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


def are_files_held(store: Store, root: Path | str) -> bool:
    """Return whether the files are not synced because nobody trusts what they say."""
    disk = SyncedFiles(store, root, working_copy_id(store, root))
    return disk.is_stale() and not _may_sync(disk, root)


def _may_sync(disk: SyncedFiles, root: Path | str) -> bool:
    """Return whether the files count: a person trusts them, or nobody was asked and they are as Ralph left them."""
    from ralph.core.trust_record import are_files_trusted

    is_trusted = are_files_trusted(root)
    return not disk.has_new_content() if is_trusted is None else is_trusted
