"""What the syncs of both kinds of memory files have in common: how a file changes the store."""

from __future__ import annotations

from ralph.core.actor import AGENT
from ralph.core.records import Memory, MemorySource, MemoryState, now, replace
from ralph.formats.sync.regressions import is_known_version, was_removed_by_file
from ralph.formats.sync.three_way import FileChoice, SyncAction
from ralph.memory.lifecycle.confidence import INITIAL_CONFIDENCE
from ralph.store.sync_state import HELD_FOR_PERSON_PREFIX, HELD_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ralph.formats.sync.disk import SyncedFiles
    from ralph.store import Store
    from ralph.store.memories import ChangeInfo


class FileSync:
    """One sync of memory files with the store, inside a store transaction."""

    def __init__(
        self,
        store: Store,
        disk: SyncedFiles,
        change: ChangeInfo,
        choice: FileChoice | None = None,
        is_by_agent: Callable[[], bool] = lambda: False,
    ) -> None:
        """`choice`: what to do with held entries, whose file went back to an older version.

        `is_by_agent`: whether a session may have changed the files, in which agents may add entries, but not change
        those of people.
        """
        self._memories = store.memories
        self._disk = disk
        self._change = change
        self._choice = choice
        self._is_by_agent = is_by_agent
        self._held_for_person: set[str] = set()
        """Ids of memories of a person that a session has changed or removed in the files."""
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
        if not self._choice and self._is_for_person(action, id):
            return True
        if action is SyncAction.IMPORT and text:
            is_older = is_known_version(self._memories, id, text, comparable)
            return is_older and (is_active or not was_removed_by_file(self._memories, id))
        return is_held and not self._choice and action in (SyncAction.DELETE, SyncAction.REMOVE)

    def _is_for_person(self, action: SyncAction, id: str) -> bool:
        """Return whether a session would change or delete what a person has said; that is held until they decide."""
        if action not in (SyncAction.IMPORT, SyncAction.DELETE):
            return False
        if id not in self._held_for_person and self._memories.history.is_by_person(id) and self._is_by_agent():
            self._held_for_person.add(id)
        return id in self._held_for_person

    def _held_text(self, id: str, text: str) -> str:
        return (HELD_FOR_PERSON_PREFIX if id in self._held_for_person else HELD_PREFIX) + text

    def _author(self, path: str) -> ChangeInfo:
        """Return who has added or edited entries in a file."""
        return replace(self._change, why=path, who=AGENT.kind if self._is_by_agent() else self._change.who)

    def _update(self, id: str, fields: dict[str, Any], path: str, *, is_conflict: bool) -> None:
        """Change a memory to what a file says."""
        self.imported_count += 1
        self._memories.update(
            id,
            "conflict" if is_conflict else "edited",
            self._author(path),
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


def split_held(agreed: Mapping[str, str]) -> tuple[dict[str, str], set[str], set[str]]:
    """Return the synced texts by id, the ids of held entries, and those of them that a session has changed."""
    texts = {id: text.removeprefix(HELD_FOR_PERSON_PREFIX).removeprefix(HELD_PREFIX) for id, text in agreed.items()}
    held = {id for id, text in agreed.items() if text.startswith(HELD_PREFIX)}
    return texts, held, {id for id in held if agreed[id].startswith(HELD_FOR_PERSON_PREFIX)}


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
