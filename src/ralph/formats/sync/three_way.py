"""Three-way merge of one file entry and its memory.

Each side is the text of the entry, or None if it is missing. An edit in the file wins over one in the store, and
a change wins over a deletion.

If several working copies share a store, only edits to entries that this file had at its last sync count. Switching
branches removes entries and brings old ones back, which must neither delete nor revive memories for the whole team.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.memory.lifecycle.confidence import needs_confirmation


class SyncAction(StrEnum):
    """Action that brings one entry in sync."""

    NOTHING = "nothing"
    IMPORT = "import the text from the file into the store"
    EXPORT = "write the text from the store to the file"
    REMOVE = "remove the entry from the file"
    DELETE = "delete the memory in the store"


class FileChoice(StrEnum):
    """What to do with files that went back to an older version."""

    RESTORE = "restore"
    ACCEPT = "accept"


def is_suspicious_deletion(gone: int, known: int) -> bool:
    """Return whether so many entries vanished at once that the file is probably damaged or from another branch."""
    return needs_confirmation(gone, known) or (gone > 1 and gone == known)


def decide_sync(
    base: str | None, file: str | None, store: str | None, *, is_shared: bool = False, is_inactive: bool = False
) -> tuple[SyncAction, bool]:
    """Return the action that syncs file and store, and whether both had changed.

    `base` is the text at the last sync. `is_shared` means that other working copies use the same store, `is_inactive`
    that the store has the memory but it is no longer active.
    """
    if file == store:
        return SyncAction.NOTHING, False
    if is_shared and base is None and store is not None:
        return SyncAction.EXPORT, False
    if is_shared and base is None and is_inactive:
        return SyncAction.REMOVE, False
    if file is None:
        # Deleted in the file, unless the memory is new or has changed since the last sync.
        if base is None or is_shared:
            return SyncAction.EXPORT, False
        return (SyncAction.DELETE, False) if store == base else (SyncAction.EXPORT, True)
    if store is None:
        # Deleted in the store, unless a person added or changed the entry since the last sync.
        if base is None:
            return SyncAction.IMPORT, False
        return (SyncAction.REMOVE, False) if file == base else (SyncAction.IMPORT, True)
    if file == base:
        return SyncAction.EXPORT, False
    return SyncAction.IMPORT, base != store
