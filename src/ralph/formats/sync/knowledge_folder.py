"""Sync of `.ralph/knowledge/*.md` with knowledge entries, one file per entry."""

from __future__ import annotations

import json
import os
import re

from ralph.core.memory_files import KNOWLEDGE_DIR
from ralph.core.records import Memory, MemoryState, record
from ralph.core.text import find_paths
from ralph.formats.imported import InvalidEntryError
from ralph.formats.knowledge_md import KnowledgeNote, format_note, note_of, parse_note, unused_file_name, update_note
from ralph.formats.sync.disk import BULK_FLUSH_FILES, UnusableFileError, encode_text
from ralph.formats.sync.entries import encode_note
from ralph.formats.sync.file_sync import FileSync, new_memory, split_held
from ralph.formats.sync.regressions import GitProvenance
from ralph.formats.sync.three_way import FileChoice, SyncAction, decide_sync, is_suspicious_deletion
from ralph.memory.lifecycle.knowledge import title_key
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.formats.sync.disk import FileContent, SyncedFiles
    from ralph.store import Store


@record
class ParsedKnowledgeFile:
    """A valid knowledge file."""

    content: FileContent
    note: KnowledgeNote


class KnowledgeFolderSync(FileSync):
    """One sync of the directory."""

    def __init__(
        self,
        store: Store,
        disk: SyncedFiles,
        change: ChangeInfo,
        choice: FileChoice | None = None,
        is_by_agent: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(store, disk, change, choice, is_by_agent)
        agreed = disk.sync_state.entries_under(KNOWLEDGE_DIR)
        texts, self._held, for_person = split_held({path: text for path, (_, text) in agreed.items()})
        self._held_for_person = {agreed[path][0] for path in for_person}
        self._base = {path: (id, texts[path]) for path, (id, _) in agreed.items()}
        """Memory id and text of each file at the last sync, by path."""
        """Files that went back to an older version, or vanished although nobody deleted them."""
        self._unmatched: dict[str, Memory] = {}
        """Entries that have not been matched with a file yet, by id."""
        self._without_file: dict[str, str] = {}
        """Ids of the unmatched entries that never had a file, by title key."""

    def sync(self) -> None:
        """Import changes from the files, then write what they lack."""
        paths = self._disk.knowledge_paths()
        if (
            not self._choice
            and set(paths) == set(self._base) - self._held
            and not any(map(self._disk.has_changed, paths))
            and self._disk.is_unchanged(("knowledge",), KNOWLEDGE_DIR)
        ):
            return
        entries = self._memories.find(MemoryFilter(kinds=("knowledge",)))
        self._unmatched = {memory.id: memory for memory in entries if memory.tags}
        # A missing directory does not mean that everything should be deleted.
        if self._base and not self._disk.exists(KNOWLEDGE_DIR):
            for path in self._base:
                self._disk.sync_state.delete_file(path)
            self._base = {}
        changed = self._read_changed(paths)
        self._follow_renames(changed, set(paths))
        with_file = {id for id, _ in self._base.values()}
        self._without_file = {
            title_key(entry.title): id for id, entry in self._unmatched.items() if id not in with_file
        }
        for path, file in changed.items():
            self._sync_file(path, file)
        self._sync_missing(set(paths))
        self._write_new({path.removeprefix(KNOWLEDGE_DIR) for path in paths})

    def _sync_missing(self, paths: set[str]) -> None:
        """Delete the entries of files that somebody deleted, and hold those of files that just vanished."""
        if self._choice is FileChoice.ACCEPT:
            self._held.clear()
        for path in (self._held & set(self._base)) - paths:
            id, base = self._base[path]
            is_same = id in self._unmatched and _comparable_memory(self._unmatched[id]) == base
            if is_same and self._choice is None:
                del self._unmatched[id]
            else:  # deleted, or changed or to be restored, and therefore written to a new file
                self._disk.sync_state.delete_file(path)
        vanished = sorted(set(self._base) - paths - self._held)
        not_deleted = self._not_deleted(vanished, paths)
        for path in vanished:
            if path in not_deleted:
                id, base = self._base[path]
                self._unmatched.pop(id, None)
                self._hold(path, id, base)
            else:
                self._delete_vanished(path)

    def _not_deleted(self, vanished: list[str], paths: set[str]) -> set[str]:
        """Return the missing files that nobody deleted: too many at once, or taken by git."""
        if self._disk.is_shared or self._choice is FileChoice.ACCEPT:
            return set()
        if is_suspicious_deletion(len(vanished), len(set(self._base) - self._held)):
            return set(vanished)
        git, present = GitProvenance(self._disk.root), sorted(paths & set(self._base))
        for_person = {path for path in vanished if self._is_for_person(SyncAction.DELETE, self._base[path][0])}
        return for_person | {path for path in vanished if git.is_file_taken_by_git(path, present)}

    def _hold(self, path: str, id: str, text: str) -> None:
        """Record that a file went back to an older version while its entry stays as it is."""
        self._disk.sync_state.delete_file(path)
        self._disk.sync_state.save_entries(path, {id: self._held_text(id, text)})

    def _read_changed(self, paths: list[str]) -> dict[str, ParsedKnowledgeFile]:
        """Return the files that may differ from their entry, and mark the other entries as matched."""
        changed: dict[str, ParsedKnowledgeFile] = {}
        for path in paths:
            id, agreed = self._base.get(path, ("", ""))
            memory = self._unmatched.get(id)
            is_known = path not in self._held and not self._disk.has_changed(path)
            if memory and is_known and _comparable_memory(memory) == agreed:
                del self._unmatched[id]
                continue
            content = None
            try:
                if content := self._disk.read(path):
                    _refuse_conflict(content.text)
                    changed[path] = ParsedKnowledgeFile(content=content, note=parse_note(content.text))
            except UnusableFileError as error:
                self._unmatched.pop(id, None)
                self.problems.append(str(error))
            except InvalidEntryError as error:
                self._unmatched.pop(id, None)
                self.problems.append(f"Skipped {path}: {error}.")
                if content:
                    self._disk.mark_synced(content)  # not read again until it changes; `ralph doctor` reports it
        return changed

    def _follow_renames(self, changed: dict[str, ParsedKnowledgeFile], paths: set[str]) -> None:
        """Match new files that have the text or title of a missing file with its memory."""
        gone = {path: base for path, base in self._base.items() if path not in paths}
        by_text = {agreed: path for path, (_, agreed) in gone.items()}
        by_title = {title_key(json.loads(agreed)[0]): path for path, (_, agreed) in gone.items()}
        for path, file in changed.items():
            if path in self._base:
                continue
            old = by_text.get(encode_note(file.note)) or by_title.get(title_key(file.note.title))
            if old and old in gone:
                self._base[path] = gone.pop(old)
                del self._base[old]
                self._disk.sync_state.delete_file(old)

    def _sync_file(self, path: str, file: ParsedKnowledgeFile) -> None:
        id, base = self._base.get(path) or (self._find_entry(file.note), None)
        memory = self._unmatched.pop(id, None)
        is_held = path in self._held
        if self._choice is FileChoice.ACCEPT and is_held and memory is None:
            base = None  # as if the file were new, because the entry was inactive before it came back
        file_text, store_text = encode_note(file.note), _comparable_memory(memory) if memory else None
        action, is_conflict = decide_sync(
            base,
            file_text,
            store_text,
            is_shared=self._disk.is_shared,
            is_inactive=bool(id) and memory is None,
        )
        if self._disk.is_restored and memory and file_text != store_text:
            self._record_file_version(memory, _fields(file.note), path)
            action = SyncAction.EXPORT
        if self._choice is FileChoice.RESTORE and is_held:
            action = SyncAction.EXPORT if memory else SyncAction.REMOVE
        if id and self._is_regression(
            action, id, file_text, _comparable_memory, is_held=is_held, is_active=bool(memory)
        ):
            self._hold(path, id, base or file_text)
            self._disk.mark_synced(file.content)
            return
        content: FileContent | None = file.content
        try:
            if action is SyncAction.IMPORT:
                id = self._import(id, file.note, path, is_conflict)
            elif action is SyncAction.EXPORT and memory:
                content = self._disk.write(
                    path, encode_text(update_note(file.content.text, note_of(memory))), file.content
                )
                self.written += content is not None
                self._disk.has_unwritten |= content is None
            elif action is SyncAction.REMOVE:
                self.written += self._disk.delete(path, file.content)
                self._disk.sync_state.delete_file(path)
                return
        except UnusableFileError as error:
            self.problems.append(str(error))
            return
        if content:
            self._disk.sync_state.save_entries(path, {id: file_text if action is not SyncAction.EXPORT else store_text})
            self._disk.mark_synced(content)

    def _find_entry(self, note: KnowledgeNote) -> str:
        """Return the id of an entry without a file that has this title, even a pruned one, or an empty string."""
        key = title_key(note.title)
        if key in self._without_file:
            return self._without_file.pop(key)
        known = self._memories.index.by_title(note.title, MemoryState.PRUNED)
        return known.id if known else ""

    def _import(self, id: str, note: KnowledgeNote, path: str, is_conflict: bool) -> str:
        """Import the text of a file; return the id of its memory."""
        if id:
            self._update(id, _fields(note), path, is_conflict=is_conflict)
            return id
        self.imported_count += 1
        memory = new_memory("", note.created_at, _fields(note))
        return self._memories.insert_unchecked(memory, self._author(path)).id

    def _delete_vanished(self, path: str) -> None:
        """Delete the entry of a deleted file, unless it has changed since the last sync."""
        id, base = self._base[path]
        self._disk.sync_state.delete_file(path)
        memory = self._unmatched.get(id)
        if (
            memory
            and decide_sync(base, None, _comparable_memory(memory), is_shared=self._disk.is_shared)[0]
            is SyncAction.DELETE
        ):
            del self._unmatched[id]
            self._delete(id, path, f"{path} was deleted")

    def _write_new(self, taken: set[str]) -> None:
        """Write the entries without a file, oldest first."""
        durably = len(self._unmatched) < BULK_FLUSH_FILES
        for id, memory in reversed(self._unmatched.items()):
            name = unused_file_name(memory.title, taken)
            try:
                content = self._disk.write(
                    KNOWLEDGE_DIR + name, encode_text(format_note(note_of(memory))), None, is_durable=durably
                )
            except UnusableFileError as error:
                self.problems.append(str(error))
                return
            taken.add(name)
            if content:
                self.written += 1
                self._disk.sync_state.save_entries(content.path, {id: _comparable_memory(memory)})
                self._disk.mark_synced(content)
        if not durably:
            os.sync()


def _refuse_conflict(text: str) -> None:
    """Raise `InvalidEntryError` for a file with git conflict markers."""
    if re.search(r"^<{7} ", text, re.MULTILINE) and re.search(r"^>{7} ", text, re.MULTILINE):
        raise InvalidEntryError("it has git conflict markers; resolve them")


def _fields(note: KnowledgeNote) -> dict[str, Any]:
    return {
        "kind": "knowledge",
        "title": note.title,
        "content": note.body,
        "tags": note.tags,
        "feature": note.feature,
        "files": find_paths(note.body),
    }


def _comparable_memory(memory: Memory) -> str:
    return encode_note(note_of(memory))
