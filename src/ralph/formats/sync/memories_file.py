"""Sync of `.agent/memories.md` with the memories of its four kinds."""

from __future__ import annotations

import json

from ralph.core.limits import MAX_TAGS, MAX_TITLE_LENGTH
from ralph.core.records import Memory, new_memory_id, replace
from ralph.core.text import extract_title, find_paths, sanitize
from ralph.formats.imported import InvalidEntryError, parse_day
from ralph.formats.memories_document import SECTION_HEADINGS, MarkdownEntry, parse_document
from ralph.formats.memories_md import clean_tags, edit_document, header_id, insertion_offsets
from ralph.formats.sync.disk import UnusableFileError, encode_text
from ralph.formats.sync.entries import comparable_row, encode, encode_fields, row_entry, strip_lines
from ralph.formats.sync.file_sync import FileSync, new_memory, split_held
from ralph.formats.sync.regressions import GitProvenance, is_known_version, unseen_by_file
from ralph.formats.sync.three_way import FileChoice, SyncAction, decide_sync, is_suspicious_deletion
from ralph.store.memories import ChangeInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.formats.memories_document import MemoriesDocument
    from ralph.formats.sync.disk import FileContent, SyncedFiles
    from ralph.store import Store

MAX_WRITE_ATTEMPTS = 5
"""Number of attempts to write the file while others keep changing it."""


class MemoriesFileSync(FileSync):
    """One sync of the file."""

    def __init__(
        self,
        store: Store,
        disk: SyncedFiles,
        change: ChangeInfo,
        choice: FileChoice | None = None,
        is_by_agent: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(store, disk, replace(change, why=disk.memories), choice, is_by_agent)
        self._path = disk.memories
        self._base, self._held, self._held_for_person = split_held(disk.sync_state.entries(self._path))
        self._imported_texts: dict[str, str | None] = {}
        """Texts imported by an attempt that has to be repeated because the file changed meanwhile, by id."""

    def sync(self) -> None:
        """Import changes from the file, then write what it lacks."""
        is_unchanged = not self._disk.has_changed(self._path)
        if not self._choice and is_unchanged and self._disk.is_unchanged(tuple(SECTION_HEADINGS), self._path):
            return
        try:
            for _ in range(MAX_WRITE_ATTEMPTS):
                content = self._disk.read(self._path)
                if self._sync_once(content):
                    return
            self._disk.has_unwritten = True
            self.problems.append(f"{self._path} kept changing; it will be synced later.")
        except UnusableFileError as error:
            self.problems.append(str(error))

    def _sync_once(self, content: FileContent | None) -> bool:
        """Sync the file in its current form; return False if it changed meanwhile."""
        text = content.text if content else ""
        document = parse_document(text)
        self.problems = [f"{self._path}, line {problem.line}: {problem.why}" for problem in document.problems]
        if document.has_conflict:
            self._import_both_sides(document)
            self.problems.append(
                f"{self._path} has git conflict markers. Both sides were imported; resolve the conflict."
            )
            return True
        entries, new_ids = self._entries_by_id(document)
        # A missing or empty file does not mean that everything should be deleted.
        is_emptied = not text.strip()
        unread = {*document.ids_without_text, *(entry.id for entry in document.entries)} - set(entries)
        synced_texts, put, remove = self._decide(entries, unread, is_emptied)
        written = content
        after = edit_document(text, put=put, remove=remove, rename=new_ids) if put or remove or new_ids else text
        while remove and (again := {entry.id for entry in parse_document(after).entries} & set(remove)):
            after = edit_document(after, remove=again)  # the file had the same entry twice
        if after != text:
            written = self._disk.write(self._path, encode_text(after), content)
            if written is None:
                return False
            self.written += len(put) + len(remove)
        self._disk.sync_state.save_entries(self._path, synced_texts)
        if written:
            self._disk.mark_synced(written)
            self._disk.insertion_offsets = insertion_offsets(after)
        return True

    def _entries_by_id(self, document: MemoriesDocument) -> tuple[dict[str, MarkdownEntry], dict[int, str]]:
        """Return the entries by id, and new ids for entries whose id is already used with another text."""
        entries: dict[str, MarkdownEntry] = {}
        new_ids: dict[int, str] = {}
        for index, entry in enumerate(document.entries):
            is_synced = _encode(entry) == self._base.get(entry.id)  # cleaning each entry would take most of the time
            if not is_synced and (not sanitize(entry.body) or sanitize(entry.id) != entry.id):
                continue
            first = entries.get(entry.id)
            if first is None:
                entries[entry.id] = entry
            elif _comparable(first) != _comparable(entry):
                new_ids[index] = new_memory_id()
                entries[new_ids[index]] = replace(entry, id=new_ids[index])
        return entries, new_ids

    def _decide(
        self, entries: dict[str, MarkdownEntry], unread: set[str], is_emptied: bool
    ) -> tuple[dict[str, str | None], list[MarkdownEntry], list[str]]:
        """Update the store; return the synced texts by id, the entries to write and the ids to remove from the file."""
        known = {header_id(row["id"]): row for row in self._memories.listing.texts_of_kinds(tuple(SECTION_HEADINGS))}
        synced_texts: dict[str, str | None] = {}
        put: list[MarkdownEntry] = []
        remove: list[str] = []
        new: list[MarkdownEntry] = []
        bases = {header_id(id): (id, text) for id, text in self._base.items()}
        held = {header_id(id) for id in self._held}
        gone = [key for key in bases if key not in entries and key not in unread and key in known and key not in held]
        if gone and not is_emptied and not self._disk.is_shared and self._choice is not FileChoice.ACCEPT:
            agreed = {
                id
                for key, (id, base) in bases.items()
                if key in entries
                and key in known
                and _comparable(entries[key], base) == base
                and comparable_row(known[key], base) == base
            }
            held |= self._not_deleted({key: bases[key][0] for key in gone}, len(bases) - len(held), agreed)
        for key in dict.fromkeys([*entries, *bases, *reversed(known)]):
            if key in unread:
                continue
            entry, row = entries.get(key), known.get(key)
            id, base = bases.get(key, (row["id"] if row else key, None))
            if self._choice is FileChoice.ACCEPT and key in held and row is None:
                base = None  # as if the entry were new, because the memory was inactive before it came back
            file_text = _comparable(entry, base) if entry else None
            store_text = comparable_row(row, base) if row else None
            is_new = entry is not None and row is None and base is None
            known_before = self._memories.find_by_id(id) if is_new else None
            action, is_conflict = decide_sync(
                None if is_emptied else self._imported_texts.get(id, base),
                file_text,
                store_text,
                is_shared=self._disk.is_shared,
                is_inactive=known_before is not None,
            )
            if self._disk.is_restored and entry is not None and row is not None and file_text != store_text:
                self._record_file_version(self._memories.get(id), _fields(entry), self._path)
                action = SyncAction.EXPORT
            if self._choice is FileChoice.RESTORE and key in held:
                action = SyncAction.EXPORT if row else SyncAction.REMOVE
            is_stored = row is not None or base is not None or known_before is not None
            if is_stored and self._is_regression(
                action, id, file_text, comparable_memory, is_held=key in held, is_active=row is not None
            ):
                synced_texts[id] = self._held_text(id, base or file_text or "")
                continue
            if action is SyncAction.IMPORT and entry is not None:
                if is_new and known_before is None:
                    new.append(entry)
                else:
                    self._import(id, entry, is_conflict)
            elif action is SyncAction.DELETE:
                self._delete(id, self._path, f"removed from {self._path}")
            elif action is SyncAction.EXPORT and row is not None:
                put.append(row_entry(row))
            elif action is SyncAction.REMOVE:
                remove.append(key)
            if action in (SyncAction.IMPORT, SyncAction.DELETE):
                self._imported_texts[id] = file_text
            result = (
                file_text
                if action in (SyncAction.IMPORT, SyncAction.NOTHING)
                else store_text
                if action is SyncAction.EXPORT
                else None
            )
            if result != base or key in held:
                synced_texts[id] = result
        if new:
            self._memories.insert_all_unchecked([_memory(entry) for entry in new], self._author(self._path))
        self.imported_count += len(new)
        return synced_texts, put, remove

    def _not_deleted(self, gone: dict[str, str], total: int, agreed: set[str]) -> set[str]:
        """Return the missing entries that nobody deleted, because the file is damaged or an older version.

        `gone` maps entries to memory ids; `agreed` has the ids of entries that are in the file as Ralph wrote them.
        """
        if is_suspicious_deletion(len(gone), total):
            return set(gone)
        unseen = unseen_by_file(self._memories, gone.values(), agreed)
        lost = {key for key, id in gone.items() if id in unseen}
        texts = {key: json.loads(self._base[id])[1] for key, id in gone.items()}
        first_lines = {key: text.split("\n")[0] for key, text in texts.items() if key not in lost}
        return lost | GitProvenance(self._disk.root).entries_unknown_to_file(self._path, first_lines)

    def _import(self, id: str, entry: MarkdownEntry, is_conflict: bool) -> None:
        fields = _fields(entry)
        known = self._memories.find_by_id(id)
        if known is None:
            self.imported_count += 1
            self._memories.insert_unchecked(_memory(entry), self._author(self._path))
            return
        if known.title != extract_title(known.content):
            fields.pop("title")  # the file has no custom titles
        self._update(known.id, fields, self._path, is_conflict=is_conflict)

    def _import_both_sides(self, document: MemoriesDocument) -> None:
        """Import both sides of a merge conflict: theirs into the history, ours as the current text."""
        sides: dict[str, list[MarkdownEntry]] = {}
        for entry in document.entries:
            sides.setdefault(entry.id, []).append(entry)
        bases = {header_id(id): text for id, text in self._base.items()}
        for id, entries in sides.items():
            base = bases.get(id)
            if all(_comparable(entry, base) == base for entry in entries):
                continue  # neither side has changed it, so the store is up to date
            theirs = [entry for entry in entries if entry.side == "theirs"]
            ours = [entry for entry in entries if entry.side != "theirs"]
            for entry in (*theirs, *ours[:1]):
                known = self._memories.find_by_id(id)
                if known and not self._choice and self._is_for_person(SyncAction.IMPORT, known.id):
                    held = self._held_text(known.id, base or comparable_memory(known))
                    self._disk.sync_state.save_entries(self._path, {known.id: held})
                    continue
                if known is None or (
                    comparable_memory(known) != _comparable(entry)
                    and not is_known_version(self._memories, id, _comparable(entry), comparable_memory)
                    and not (entry in theirs and self._is_in_history(id, entry))
                ):
                    self._import(id, entry, is_conflict=True)

    def _is_in_history(self, id: str, entry: MarkdownEntry) -> bool:
        """Return whether an earlier sync has already imported this side of a conflict."""
        body = _fields(entry)["content"]
        return any(json.loads(event.became or "{}").get("body") == body for event in self._memories.history.of(id))


def _encode(entry: MarkdownEntry) -> str:
    return encode([entry.kind, entry.body, entry.tags])


def _comparable(entry: MarkdownEntry, base: str | None = None) -> str:
    """Return an entry in a form that can be compared; an unchanged one is not cleaned again."""
    if base is not None and _encode(entry) == base:
        return base
    return encode_fields(entry.kind, sanitize(entry.body), map(sanitize, entry.tags))


def comparable_memory(memory: Memory) -> str:
    """Return a memory in the form of its entry in the file, for comparison."""
    return encode_fields(memory.kind, memory.content, memory.tags)


def _fields(entry: MarkdownEntry) -> dict[str, Any]:
    body = strip_lines(sanitize(entry.body))
    return {
        "kind": entry.kind,
        "title": sanitize(entry.title)[:MAX_TITLE_LENGTH] or extract_title(body),
        "content": body,
        "tags": clean_tags(sanitize(tag).lower() for tag in entry.tags)[:MAX_TAGS],
        "files": find_paths(body),
    }


def _memory(entry: MarkdownEntry) -> Memory:
    try:
        created = parse_day(entry.created, entry.id)
    except InvalidEntryError:
        created = ""
    return new_memory(entry.id, created, _fields(entry))
