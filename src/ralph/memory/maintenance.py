"""Maintenance of the memories as a whole: cleanup, consolidation, embeddings, integrity."""

from __future__ import annotations

from ralph.core.errors import ConfirmationRequiredError, RalphError
from ralph.core.records import Memory, MemoryState, now, record, replace
from ralph.memory.validation import check_removal
from ralph.store.memories import ChangeInfo, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.core.actor import Actor
    from ralph.store import Store


@record
class Removal:
    """Memories that a cleanup or consolidation removed, or would remove."""

    removed: tuple[tuple[Memory, str], ...]
    """Each with the reason."""
    present: int
    """Number of memories before."""
    change_id: str = ""
    """Id of the change to undo; empty when nothing was changed."""
    backup: str = ""


class MemoryMaintenance:
    """Operations on all memories of a project."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._memories = store.memories
        self._actor = actor

    def cleanup(
        self,
        *,
        min_confidence: float | None = None,
        older_than_days: float | None = None,
        unused: bool = False,
        yes: bool = False,
        dry_run: bool = False,
    ) -> Removal:
        """Prune memories that are no longer worth their place; more than a fifth of them only with `yes`."""
        from ralph.memory.lifecycle.confidence import cleanup_candidates

        present = self._memories.all()
        candidates = cleanup_candidates(
            present, now(), min_confidence=min_confidence, older_than_days=older_than_days, unused=unused
        )
        if dry_run or not candidates:
            return Removal(removed=tuple(candidates), present=len(present))
        check_removal(len(candidates), len(present), yes)
        return self._prune(candidates, len(present), "pruned", "cleanup", "before cleanup")

    def clear(self, *, yes: bool = False) -> Removal:
        """Prune all memories; one undo brings them back."""
        self._actor.require_person("clear the memory")
        present = self._memories.all()
        if not yes:
            raise ConfirmationRequiredError(f"remove all {len(present):,} memories")
        return self._prune([(one, "cleared") for one in present], len(present), "cleared", "cleared", "before clearing")

    def _prune(self, removed: list[tuple[Memory, str]], present: int, what: str, why: str, label: str) -> Removal:
        backup = self._store.backup(label)
        change = self._change(why)
        pairs = [
            (one, replace(one, state=MemoryState.PRUNED, state_reason=why, updated_at=now())) for one, why in removed
        ]
        ids = {one.id for one in self._memories.update_unmodified(pairs, what, change)}
        done = tuple((one, reason) for one, reason in removed if one.id in ids)
        return Removal(removed=done, present=present, change_id=change.id, backup=backup)

    def consolidate(self, *, yes: bool = False, dry_run: bool = False) -> Removal:
        """Merge near-duplicates into one memory each; the others stay in the history as superseded."""
        from ralph.memory.consolidation import merge_clusters
        from ralph.memory.lifecycle.duplicates import find_duplicates

        present = self._memories.all()
        found = find_duplicates(present, now())
        removed = [(other, f"says the same as {kept.id} ({kept.title})") for kept, others in found for other in others]
        if dry_run or not removed:
            return Removal(removed=tuple(removed), present=len(present))
        check_removal(len(removed), len(present), yes)
        backup = self._store.backup("before consolidation")
        change = self._change("consolidation")
        ids = merge_clusters(self._store, found, change)
        done = tuple((one, reason) for one, reason in removed if one.id in ids)
        return Removal(removed=done, present=len(present), change_id=change.id, backup=backup)

    def embed(self, goes_on: Callable[[int], bool] = lambda _: True) -> int:
        """Compute missing embeddings; return how many. `goes_on` gets the number done and may stop it."""
        from ralph.memory.recall.vector_search import cached_encoder, embed_missing

        if cached_encoder() is None:
            from ralph.memory.recall.embeddings import missing_extra_message

            raise RalphError(missing_extra_message(), code="missing-extra")
        return embed_missing(self._store, goes_on)

    def verify(self) -> list[str]:
        """Return what is wrong with the stored data, one sentence each."""
        from ralph.store.maintenance.check import check_store

        return list(check_store(self._store, deep=True).problems)

    def _change(self, why: str) -> ChangeInfo:
        return ChangeInfo(who=self._actor.kind, why=why, id=change_id())
