"""Maintenance of the memories as a whole: cleanup, consolidation, staleness, embeddings, integrity.

A run consolidates and retires memories when it ends. Nothing is erased.
"""

from __future__ import annotations

import time

from ralph.core.errors import ConfirmationRequiredError, RalphError
from ralph.core.guides import stated_sources
from ralph.core.records import Memory, MemoryState, now, record, replace, timestamp
from ralph.memory.lifecycle.confidence import (
    ALWAYS_REMOVABLE,
    LEARNING_EXPIRY_DAYS,
    cleanup_candidates,
    is_expired,
    needs_confirmation,
)
from ralph.memory.lifecycle.duplicates import (
    Paraphrases,
    find_duplicates,
    find_paraphrases,
    is_consolidation_due,
    merge_duplicates,
)
from ralph.memory.validation import DAY_SECONDS, check_removal
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.store import Store

MAX_COMPARED_OF_RUN = 500
"""Number of memories of a run, the newest first, that are compared with known ones when it ends."""


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
    left: tuple[tuple[Memory, str], ...] = ()
    """Memories that a consolidation looked at and left, each with the reason."""


class MemoryMaintenance:
    """Operations on all memories of a project."""

    def __init__(self, store: Store, actor: Actor, root: Path | str | None) -> None:
        """`root` is the directory of the files that memories name; None if they are not here."""
        self._store = store
        self._memories = store.memories
        self._actor = actor
        self._root = root

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
        if not dry_run:
            self._actor.require("memory.cleanup")
        present = self._memories.all()
        guided = stated_sources(self._root) if self._root else {}  # used without being shown
        unguided = [one for one in present if one.id not in guided]
        candidates = cleanup_candidates(
            unguided, now(), min_confidence=min_confidence, older_than_days=older_than_days, unused=unused
        )
        if dry_run or not candidates:
            return Removal(removed=tuple(candidates), present=len(present))
        # A memory that was never used is not bad for that: of a small store, too, only a fifth goes unasked.
        check_removal(len(candidates), len(present), yes, always_removable=0 if unused else ALWAYS_REMOVABLE)
        return self._prune(candidates, len(present), "pruned", "cleanup", "before cleanup")

    def clear(self, *, yes: bool = False) -> Removal:
        """Prune all memories; one undo brings them back."""
        self._actor.require("memory.clear")
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
        if not dry_run:
            self._actor.require("memory.consolidate")
        present = self._memories.all()
        found = find_redundant(present)
        removed = [
            (other, f"says the same as {kept.id} ({kept.title})") for kept, others in found.clusters for other in others
        ]
        left = tuple(
            (other, f"says something else about the same as {one.id} ({one.title})") for one, other in found.conflicts
        )
        if dry_run or not removed:
            return Removal(removed=tuple(removed), present=len(present), left=left)
        check_removal(len(removed), len(present), yes)
        backup = self._store.backup("before consolidation")
        change = self._change("consolidation")
        ids = merge_clusters(self._store, found.clusters, change)
        done = tuple((one, reason) for one, reason in removed if one.id in ids)
        changed = tuple((one, "was changed meanwhile") for one, _ in removed if one.id not in ids)
        return Removal(removed=done, present=len(present), change_id=change.id, backup=backup, left=left + changed)

    def embed(self, goes_on: Callable[[int], bool] = lambda _: True) -> int:
        """Compute missing embeddings; return how many. `goes_on` gets the number done and may stop it."""
        from ralph.memory.recall.vector_search import cached_encoder, embed_missing

        self._actor.require("memory.embed")
        if cached_encoder() is None:
            from ralph.memory.recall.embeddings import missing_extra_message

            raise RalphError(missing_extra_message(), code="missing-extra")
        return embed_missing(self._store, goes_on)

    def update_staleness(self) -> None:
        """Mark memories whose files have changed since, and clear the mark of those whose files are as before."""
        self._actor.require("memory.check-staleness")
        if self._root is not None:
            from ralph.memory.freshness import check_staleness

            check_staleness(self._store, self._root)

    def verify(self) -> list[str]:
        """Return what is wrong with the stored data, one sentence each."""
        from ralph.store.maintenance.check import check_store

        return list(check_store(self._store, deep=True).problems)

    def _change(self, why: str) -> ChangeInfo:
        return ChangeInfo(who=self._actor.kind, why=why, id=change_id())


# --- at the end of a run -----------------------------------------------------------------


@record
class ConsolidationResult:
    """What the consolidation at the end of a run did and left."""

    superseded: int = 0
    left: int = 0
    """Near-duplicates that were left, because they are suspiciously many: a person decides."""


def find_redundant(memories: Sequence[Memory]) -> Paraphrases:
    """Return near-duplicates and paraphrases; these by meaning as well, where the extra is installed."""
    from ralph.memory.recall.similarity import PairSimilarity

    at = now()
    clusters: dict[str, tuple[Memory, tuple[Memory, ...]]] = {
        kept.id: (kept, tuple(others)) for kept, others in find_duplicates(memories, at)
    }
    redundant = {other.id for _, others in clusters.values() for other in others}
    found = find_paraphrases([one for one in memories if one.id not in redundant], at, PairSimilarity())
    for kept, others in found.clusters:
        more = [*others, *(one for other in others for one in clusters.pop(other.id, (other, ()))[1])]
        clusters[kept.id] = (kept, (*clusters.get(kept.id, (kept, ()))[1], *more))
    return replace(found, clusters=tuple(clusters.values()))


def consolidate_memories(store: Store, run_id: str = "") -> ConsolidationResult:
    """Merge what a run learned in other words than known and, when there are many, all near-duplicates."""
    total = store.memories.stats.count()
    is_due = is_consolidation_due(total, store.stats.count_since(store.memories.history.last_time("consolidated")))
    memories = store.memories.all() if is_due else _similar_to_run(store, run_id)
    clusters = find_redundant(memories).clusters
    count = sum(len(others) for _, others in clusters)
    if not count or needs_confirmation(count, total):
        return ConsolidationResult(left=count)
    store.backup("before consolidation")
    change = ChangeInfo(who="ralph", why="consolidation", id=change_id())
    return ConsolidationResult(superseded=len(merge_clusters(store, clusters, change)))


def _similar_to_run(store: Store, run_id: str) -> list[Memory]:
    """Return the active memories that a run learned, and those that have the most words in common with them."""
    from ralph.store.paraphrases import similar_memories

    learned = store.memories.listing.learned_in_run(run_id, MAX_COMPARED_OF_RUN) if run_id else []
    similar = {one.id: one for memory in learned for one in (memory, *similar_memories(store.memories, memory))}
    return [one for one in similar.values() if one.state is MemoryState.ACTIVE]


def merge_clusters(store: Store, clusters: Iterable[tuple[Memory, Sequence[Memory]]], change: ChangeInfo) -> set[str]:
    """Supersede the other memories of each cluster by its first; return the superseded ids."""
    superseded: set[str] = set()
    with store.transaction():
        at = now()
        for first, others in clusters:
            if store.memories.consolidate(first, merge_duplicates(first, others, at), others, change):
                superseded |= {other.id for other in others}
    return superseded


@record
class RetirementResult:
    """What became of old learnings at the end of a run."""

    retired: int = 0
    left: int = 0
    """Old learnings that were left, because they are suspiciously many: a person decides."""


def retire_memories(store: Store, directory: Path | str) -> RetirementResult:
    """Prune old learnings of runs that have not been used since; leave them if they are more than a fifth of all.

    Those that a guide in the directory says are used without being shown.
    """
    at = now()
    filter = MemoryFilter(before=timestamp(time.time() - LEARNING_EXPIRY_DAYS * DAY_SECONDS))
    guided = stated_sources(directory)
    outdated = [one for one in store.memories.find(filter) if is_expired(one, at) and one.id not in guided]
    if not outdated or needs_confirmation(len(outdated), store.memories.stats.count()):
        return RetirementResult(left=len(outdated))
    why = "old, and not used for a month"
    change = ChangeInfo(who="ralph", why=why, id=change_id())
    pruned = [(one, replace(one, state=MemoryState.PRUNED, state_reason=why, updated_at=at)) for one in outdated]
    return RetirementResult(retired=len(store.memories.update_unmodified(pruned, "pruned", change)))
