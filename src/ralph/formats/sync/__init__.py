"""Two-way sync of `.agent/memories.md` and `.ralph/knowledge/*.md` with the store.

The store is authoritative, but people and git edit the files: their changes are imported, new memories are written out,
and any other text is preserved. If neither side has changed, a sync costs a few stat calls and two queries.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.tracking import report_progress
from ralph.formats.sync.disk import UNWRITTEN, SyncedFiles
from ralph.formats.sync.location import working_copy_id
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.sync_state import SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ralph.formats.sync.file_sync import FileSync
    from ralph.formats.sync.three_way import FileChoice
    from ralph.store import Store


TRUST_COMMAND = "ralph trust"
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
    held_count: int = 0
    """Number of entries whose file went back to an older version."""
    change_id: str = ""


def held_problems(count: int) -> tuple[str, ...]:
    """Return as a problem that the files of some memories went back to an older version."""
    if not count:
        return ()
    what = "1 memory is" if count == 1 else f"{count:,} memories are"
    return (
        "The memory files went back to an older version (git, or a stale editor?), or a session changed what a person"
        f" wrote: {what} missing from them or different there."
        " Nothing was forgotten. To write the files again: ralph memory files restore."
        " To accept the files as they are: ralph memory files accept",
    )


def untrusted_problem(root: Path | str) -> str:
    """Return as a problem that nobody trusts the files of a directory."""
    from ralph.formats.sync.problems import describe_untrusted

    text = describe_untrusted(root)
    return f"{text[0].upper()}{text[1:]}: {TRUST_COMMAND}"


def files_fingerprint(store: Store, root: Path | str) -> str:
    """Return a fingerprint of the synced files of a working copy."""
    return SyncedFiles(store, root, working_copy_id(store, root)).fingerprint()


def has_unwritten_files(store: Store, root: Path | str) -> bool:
    """Return whether the last sync failed to write a file."""
    return SyncState(store.scope, working_copy_id(store, root)).last_sync()[1] == UNWRITTEN


def held_memory_ids(store: Store, root: Path | str) -> list[tuple[str, str]]:
    """Return path and memory id of the entries whose file went back to an older version."""
    return SyncState(store.scope, working_copy_id(store, root)).held_entries()


def sync(
    store: Store,
    root: Path | str,
    choice: FileChoice | None = None,
    *,
    only_edits: bool = False,
    is_by_agent: Callable[[], bool] = lambda: False,
) -> SyncResult:
    """Sync the files of a working copy with the store; problems are returned, never raised.

    `choice` decides about files that went back to an older version. Until then both sides stay as they are. With
    `only_edits`, nothing is done unless the files have changed: what the files lack is left to a later sync.
    `is_by_agent` says whether a session may have changed the files: what it changes of a person's is held, too.
    """
    disk = SyncedFiles(store, root, working_copy_id(store, root))
    if not choice and not (disk.has_edits() if only_edits else disk.is_stale()):
        return SyncResult(problems=held_problems(disk.held_count), held_count=disk.held_count)
    report_progress("Syncing the memory files")
    # The transaction also keeps other Ralph processes from writing the files.
    with store.transaction():
        disk = SyncedFiles(store, root, working_copy_id(store, root))
        if not choice and not disk.is_stale():  # another process has synced them while this one waited
            return SyncResult(problems=held_problems(disk.held_count), held_count=disk.held_count)
        if not _may_sync(disk, root):
            return SyncResult(problems=(untrusted_problem(root),))
        from ralph.formats.sync.additions import write_additions

        added = None if choice else write_additions(disk)
        if added is None:
            return _full_sync(store, disk, choice, is_by_agent)
        return SyncResult(written=added, problems=held_problems(disk.held_count), held_count=disk.held_count)


def _full_sync(
    store: Store, disk: SyncedFiles, choice: FileChoice | None, is_by_agent: Callable[[], bool]
) -> SyncResult:
    from ralph.formats.sync.knowledge_folder import KnowledgeFolderSync
    from ralph.formats.sync.memories_file import MemoriesFileSync

    change = ChangeInfo(who="file", why="", id=change_id())
    done: list[FileSync] = []
    for _ in range(MAX_PASSES):
        done.append(MemoriesFileSync(store, disk, change, choice, is_by_agent))
        done[-1].sync()
        before = store.memories.history.last_event_seq()
        done.append(KnowledgeFolderSync(store, disk, change, choice, is_by_agent))
        done[-1].sync()
        if store.memories.history.last_event_seq() == before:
            break  # otherwise an edit in the folder may have moved a memory to the file
    disk.finish()
    return SyncResult(
        imported_count=sum(target.imported_count for target in done),
        written=sum(target.written for target in done),
        problems=(
            *dict.fromkeys(problem for target in done for problem in target.problems),
            *held_problems(disk.held_count),
        ),
        has_unwritten=disk.has_unwritten,
        held_count=disk.held_count,
        change_id=change.id,
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
