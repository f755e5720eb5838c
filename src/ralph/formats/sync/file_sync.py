"""What the syncs of both kinds of memory files have in common: how a file changes the store."""

from __future__ import annotations

from ralph.core.records import Memory, MemorySource, MemoryState, now, replace
from ralph.formats.sync.regressions import is_known_version, was_removed_by_file
from ralph.formats.sync.three_way import FileChoice, SyncAction
from ralph.memory.lifecycle.confidence import INITIAL_CONFIDENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ralph.formats.sync.disk import SyncedFiles
    from ralph.store import Store
    from ralph.store.memories import ChangeInfo


class FileSync:
    """One sync of memory files with the store, inside a store transaction."""

    def __init__(self, store: Store, disk: SyncedFiles, change: ChangeInfo, choice: FileChoice | None = None) -> None:
        """`choice`: what to do with held entries, whose file went back to an older version."""
        self._memories = store.memories
        self._disk = disk
        self._change = change
        self._choice = choice
        self.imported_count = self.written = 0
        self.problems: list[str] = []

    def sync(self) -> None:
        """Import changes from the files, then write what they lack."""
        raise NotImplementedError

    def _is_regression(
        self,
        action: SyncAction,
        id: str,
        text: str | None,
        comparable: Callable[[Memory], str],
        *,
        is_held: bool,
        is_active: bool,
    ) -> bool:
        """Return whether an action would take a memory back to what an older version of its file says."""
        if self._choice is FileChoice.ACCEPT:
            return False
        if action is SyncAction.IMPORT and text:
            is_older = is_known_version(self._memories, id, text, comparable)
            return is_older and (is_active or not was_removed_by_file(self._memories, id))
        return is_held and not self._choice and action in (SyncAction.DELETE, SyncAction.REMOVE)

    def _update(self, id: str, fields: dict[str, Any], path: str, *, is_conflict: bool) -> None:
        """Change a memory to what a file says."""
        self.imported_count += 1
        self._memories.update(
            id,
            "conflict" if is_conflict else "edited",
            replace(self._change, why=path),
            **fields,
            state=MemoryState.ACTIVE,
            state_reason="",
            updated_at=now(),
        )

    def _record_file_version(self, restored: Memory, fields: dict[str, Any], path: str) -> None:
        """Record the text of the file in the history of a restored memory, which keeps its own text."""
        self._update(restored.id, fields, path, is_conflict=True)
        names: Collection[str] = (*fields, "state", "state_reason")
        own = {name: getattr(restored, name) for name in names}
        self._memories.update(restored.id, "restored", replace(self._change, why=path), **own, updated_at=now())

    def _delete(self, id: str, path: str, reason: str) -> None:
        """Delete a memory because it is gone from the files."""
        self.imported_count += 1
        self._memories.update(
            id,
            "deleted",
            replace(self._change, why=path),
            state=MemoryState.PRUNED,
            state_reason=reason,
            updated_at=now(),
        )


def new_memory(id: str, created_at: str, fields: dict[str, Any]) -> Memory:
    """Return the memory of an entry that a person wrote."""
    at = now()
    source = MemorySource.EXPLICIT
    return Memory(
        id=id,
        source=source,
        confidence=INITIAL_CONFIDENCE[source],
        created_at=created_at or at,
        updated_at=at,
        verified_at=at,
        **fields,
    )
