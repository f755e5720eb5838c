"""Adding, changing and removing memories. Every change has a history and can be undone."""

from __future__ import annotations

from ralph.core.actor import PERSON
from ralph.core.errors import DeletedByPersonError, NotFoundError, UsageError
from ralph.core.records import Memory, MemorySource, MemoryState, now, replace
from ralph.core.text import extract_title, find_paths, one_line, sanitize
from ralph.memory.lifecycle.confidence import INITIAL_CONFIDENCE
from ralph.memory.queries import MemoryQueries
from ralph.memory.validation import (
    check_confidence,
    check_type,
    clean_content,
    clean_files,
    clean_tags,
    tags_from_title,
)
from ralph.store.memories import ChangeInfo, change_id, is_change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.memory.maintenance import MemoryMaintenance
    from ralph.memory.rule_service import RuleService
    from ralph.memory.sharing import SharingService
    from ralph.memory.watch import MemoryEvents
    from ralph.store import Store
    from ralph.store.memories import AddResult, ChangeResult


class MemoryService(MemoryQueries):
    """The memories of one opened project."""

    def __init__(
        self, store: Store, root: Path | str, config: Config, actor: Actor = PERSON, *, is_remote: bool = False
    ) -> None:
        """`is_remote`: the project belongs to another directory, so the files its memories name are not here."""
        super().__init__(store, root, config, actor, has_files=not is_remote)

    @property
    def maintenance(self) -> MemoryMaintenance:
        """Cleanup, consolidation, embeddings and checks."""
        from ralph.memory.maintenance import MemoryMaintenance

        return MemoryMaintenance(self._store, self._actor, self._root if self._has_files else None)

    @property
    def rules(self) -> RuleService:
        """Rules for all work: what every prompt tells, what is pinned, and what contradicts each other."""
        from ralph.memory.rule_service import RuleService

        return RuleService(self._store, self._config, self._actor, self)

    @property
    def sharing(self) -> SharingService:
        """Memories shared with all projects of the database."""
        from ralph.memory.sharing import SharingService

        return SharingService(self._store, self._actor)

    @property
    def events(self) -> MemoryEvents:
        """Changes of memories, as a stream."""
        from ralph.memory.watch import MemoryEvents

        return MemoryEvents(self._store)

    # --- adding ----------------------------------------------------------------------

    def add(
        self,
        content: str,
        *,
        type: str | None = None,
        title: str = "",
        tags: Sequence[str] = (),
        files: Sequence[str] = (),
        confidence: float | None = None,
        feature: str | None = None,
    ) -> AddResult:
        """Add a memory, or reinforce the one that already says the same.

        Raises `DeletedByPersonError` when an agent adds what a person has deleted.
        """
        self._actor.require("memory.add")
        text = clean_content(content)
        if not text:
            raise UsageError("There is nothing to remember: the content is empty.", code="empty-content")
        check_confidence(confidence)
        kind = self._check_type(type or "pattern")
        heading = one_line(sanitize(title)) or extract_title(text)
        at = now()
        memory = self._with_file_marks(
            Memory(
                id="",
                kind=kind,
                title=heading,
                content=text,
                tags=clean_tags(tags) or (tags_from_title(heading) if kind == "knowledge" else ()),
                files=clean_files(files) or find_paths(text),
                feature=feature or self._feature_in_progress(),
                source=MemorySource.EXPLICIT,
                confidence=INITIAL_CONFIDENCE[MemorySource.EXPLICIT] if confidence is None else confidence,
                created_at=at,
                updated_at=at,
                **self._actor.origin,
            )
        )
        is_person = not self._actor.is_agent
        stated = _stated_fields(memory, type, title, confidence) if is_person else {}
        added = self._memories.add(memory, self._change("added by command"), by_person=is_person, fields=stated)
        if added.what == "refused":
            raise DeletedByPersonError(added.memory.id)
        return added

    def _feature_in_progress(self) -> str | None:
        """Return the name of the feature that an agent of the loop works on, if any."""
        if not self._actor.is_agent or not self._actor.task_id:
            return None
        task = self._store.tasks.get_many([self._actor.task_id]).get(self._actor.task_id)
        return self._store.features.get(task.feature_id).name if task and task.feature_id else None

    def learn(self, memories: Sequence[Memory], why: str, told: Collection[str] = ()) -> list[AddResult]:
        """Add memories that an agent stated, which was told others (`told`, by id); return what became of each."""
        self._actor.require("memory.add")
        change = ChangeInfo(who="agent", why=why)
        return [self._memories.add(self._with_file_marks(memory), change, told=told) for memory in memories]

    # --- changing --------------------------------------------------------------------

    def edit(
        self,
        id: str,
        *,
        content: str | None = None,
        title: str | None = None,
        type: str | None = None,
        tags: Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        confidence: float | None = None,
        why: str = "",
        check: Callable[[Memory], object] = lambda _: None,
    ) -> ChangeResult:
        """Change a memory; None leaves a field as it is. Returns the memory and the change to undo.

        `check` may raise to reject the memory in its current state.
        """
        self._actor.require("memory.edit")
        current = self._memories.get(id)
        self._check_may_change(id)
        check(current)
        check_confidence(confidence)
        fields: dict[str, object] = {}
        if content is not None:
            text = clean_content(content)
            if not text:
                raise UsageError("A memory needs content. To remove it, delete it.", code="empty-content")
            fields |= {"content": text, "files": find_paths(text)}
            if current.title == extract_title(current.content):
                fields["title"] = extract_title(text)
        if title is not None:
            fields["title"] = one_line(sanitize(title)) or extract_title(str(fields.get("content", current.content)))
        if type is not None:
            fields["kind"] = self._check_type(type)
        if tags is not None:
            fields["tags"] = clean_tags(tags)
        if fields.get("kind", current.kind) == "knowledge" and not fields.get("tags", current.tags):
            fields["tags"] = tags_from_title(str(fields.get("title", current.title)))
        if files is not None:
            fields["files"] = clean_files(files)
        if confidence is not None:
            fields["confidence"] = confidence
        if not fields:
            raise UsageError("Nothing to change: pass the content, tags or another field.", code="nothing-to-change")
        if "files" in fields:
            fields |= {"seen": self._with_file_marks(replace(current, **fields)).seen, "stale": ""}
        change = self._change(sanitize(why))
        with self._store.transaction():
            check(self._memories.get(id))
            return self._memories.update(id, "edited", change, **fields, updated_at=now())

    def confirm(self, *ids: str, why: str = "") -> list[tuple[Memory, ChangeResult]]:
        """Confirm that memories still hold, all or none; return each before and after."""
        from ralph.memory.freshness import confirm_memories

        self._actor.require("memory.confirm")
        with self._store.transaction():
            before = [self._memories.get(id) for id in dict.fromkeys(ids)]
            for memory in before:
                if memory.state is not MemoryState.ACTIVE:
                    raise NotFoundError("Memory", f"{memory.id} (it is {memory.state}; only active ones are confirmed)")
            directory = self._root if self._has_files else None
            after = confirm_memories(
                self._store, ids, directory, self._change(sanitize(why)), now(), include_missing_files=True
            )
        return list(zip(before, after, strict=True))

    def delete(self, *ids: str, why: str = "") -> tuple[list[Memory], str]:
        """Delete memories, all or none; return them and the id of the change to undo."""
        self._actor.require("memory.delete")
        change = replace(self._change(sanitize(why)), id=change_id())
        fields = {
            "state": MemoryState.PRUNED,
            "state_reason": change.why or f"deleted by {change.who}",
            "updated_at": now(),
        }
        with self._store.transaction():
            self._check_may_change(*ids)
            for id in dict.fromkeys(ids):
                memory = self._memories.get(id)
                if memory.state in (MemoryState.PRUNED, MemoryState.SUPERSEDED, MemoryState.REJECTED):
                    raise NotFoundError(
                        "Memory", f"{id} (it is {memory.state}; to restore it: ralph memory undo, or add it again)"
                    )
            deleted = [self._memories.update(id, "deleted", change, **fields).memory for id in dict.fromkeys(ids)]
        return deleted, change.id

    def undo(self, id: str, *, to: int | None = None, only: int | None = None) -> list[Memory]:
        """Undo the latest change of a memory, or everything a change id did; return the memories as they are now.

        `to` restores the memory as it was at an event; `only` undoes one event, if nothing came after it.
        """
        self._actor.require("memory.undo")
        if is_change_id(id) and not self._memories.find_by_id(id):
            if to is not None or only is not None:
                raise UsageError("A change made together is undone as a whole.", code="invalid-undo")
            return self._memories.undo_change(id, self._change(f"undid {id}"))
        if to is not None and only is not None:
            raise UsageError("Use either --to or --only, not both.", code="invalid-undo")
        if to is not None:
            return [self._restore_version(id, to)]
        why = "undid the latest change" if only is None else f"undid event {only}"
        return [self._memories.undo(id, self._change(why), only=only)[0]]

    def _restore_version(self, id: str, event: int) -> Memory:
        before = self._memories.history.version(id, event)
        fields = {name: getattr(before, name) for name in Memory.__slots__ if name != "id"}  # type: ignore[attr-defined]
        fields["updated_at"] = now()
        return self._memories.update(id, "set back", self._change(f"back to event {event}"), **fields).memory

    # --- helpers ---------------------------------------------------------------------

    def _check_may_change(self, *ids: str) -> None:
        """Raise if an agent would change what a person has said."""
        if self._actor.is_agent and any(self._memories.history.is_by_person(id) for id in ids):
            self._actor.require("memory.change-a-persons")

    def _change(self, why: str) -> ChangeInfo:
        return ChangeInfo(who=self._actor.kind, why=why)

    def _check_type(self, name: str) -> str:
        return check_type(name, lambda: self._memories.stats.counts("kind"))

    def _with_file_marks(self, memory: Memory) -> Memory:
        """Return a memory with marks of the files it names, to detect later changes."""
        if not memory.files or not self._has_files:
            return replace(memory, seen="", stale="")
        from ralph.memory.freshness import record_file_marks

        return record_file_marks(memory, self._root)


def _stated_fields(memory: Memory, type: str | None, title: str, confidence: float | None) -> dict[str, object]:
    """Return the fields a person stated explicitly: they also apply to a memory that is already known."""
    stated = {"kind": type, "title": title, "confidence": confidence}
    return {name: getattr(memory, name) for name, value in stated.items() if value not in (None, "")}
