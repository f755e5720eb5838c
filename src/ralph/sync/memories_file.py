"""Keep `.agent/memories.md` in step with the memories of its four kinds."""

from __future__ import annotations

import json

from ralph.formats.imported import InvalidEntryError, moment_of
from ralph.formats.memories_md import SECTIONS, Entry, clean_tags, edited, header_id, read_document
from ralph.memory.lifecycle import START
from ralph.memory.limits import MOST_TAGS
from ralph.records import Memory, Source, State, memory_id, now, replace
from ralph.store.memories import Change
from ralph.store.synced import HELD
from ralph.sync.agree import Step, decide, is_too_much
from ralph.sync.disk import FileUnusableError
from ralph.text import accept, paths_in, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ralph.formats.memories_md import Document
    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.sync.disk import Content, Disk

TRIES = 5


class MemoriesFile:
    """One sync of the file, inside a transaction of the store."""

    def __init__(self, store: Store, disk: Disk, change: Change) -> None:
        self._memories = store.memories
        self._disk = disk
        self._path = disk.memories
        self._change = replace(change, why=self._path)
        self._base = disk.synced.entries(self._path)
        self._met: dict[str, str | None] = {}
        """What was taken from the file by a step that has to be done once more, because the file changed meanwhile."""
        self.taken = self.written = 0
        self.problems: list[str] = []

    def sync(self) -> None:
        """Take in what the file says, then write what it lacks."""
        if not self._disk.has_changed(self._path) and self._disk.is_untouched(tuple(SECTIONS), self._path):
            return
        try:
            for _ in range(TRIES):
                content = self._disk.read(self._path)
                if self._step(content):
                    return
            self._disk.is_unwritten = True
            self.problems.append(f"{self._path} kept changing; it will be brought up to date later.")
        except FileUnusableError as error:
            self.problems.append(str(error))

    def _step(self, content: Content | None) -> bool:
        """Do all there is to do for the file as it is now; False when it changed meanwhile."""
        text = content.text if content else ""
        document = read_document(text)
        self.problems = [f"{self._path}, line {one.line}: {one.why}" for one in document.problems]
        if document.has_conflict:
            self._take_both_sides(document)
            self.problems.append(
                f"{self._path} has conflict markers: what both sides say is kept; please resolve them."
            )
            return True
        entries, renamed = self._told_apart(document)
        # A file that is gone or empty is no sign that somebody wants everything forgotten.
        is_emptied = not text.strip()
        unread = {*document.unread_ids, *(entry.id for entry in document.entries)} - set(entries)
        agreed, put, remove = self._decide(entries, unread, is_emptied)
        written = content
        after = edited(text, put=put, remove=remove, rename=renamed) if put or remove or renamed else text
        while remove and (again := {one.id for one in read_document(after).entries} & set(remove)):
            after = edited(after, remove=again)  # the same entry stood there twice
        if after != text:
            written = self._disk.write(self._path, after, content)
            if written is None:
                return False
            self.written += len(put) + len(remove)
        self._disk.synced.agree(self._path, agreed)
        if written:
            self._disk.note(written)
        return True

    def _told_apart(self, document: Document) -> tuple[dict[str, Entry], dict[int, str]]:
        """Give the entries by id; of two with one id the second gets an id of its own, unless they say the same."""
        entries: dict[str, Entry] = {}
        renamed: dict[int, str] = {}
        for place, entry in enumerate(document.entries):
            if not accept(entry.body) or accept(entry.id) != entry.id:
                continue
            first = entries.get(entry.id)
            if first is None:
                entries[entry.id] = entry
            elif _said(first) != _said(entry):
                renamed[place] = memory_id()
                entries[renamed[place]] = replace(entry, id=renamed[place])
        return entries, renamed

    def _decide(
        self, entries: dict[str, Entry], unread: set[str], is_emptied: bool
    ) -> tuple[dict[str, str | None], list[Entry], list[str]]:
        """Bring the store up to date; give what is agreed on now, and what to put into and take out of the file."""
        known = {header_id(row["id"]): row for row in self._memories.texts(tuple(SECTIONS))}
        agreed: dict[str, str | None] = {}
        put: list[Entry] = []
        remove: list[str] = []
        new: list[Entry] = []
        bases = {header_id(id): (id, text.removeprefix(HELD)) for id, text in self._base.items()}
        held = {header_id(id) for id, text in self._base.items() if text.startswith(HELD)}
        gone = [key for key in bases if key not in entries and key not in unread and key in known and key not in held]
        is_held = not is_emptied and not self._disk.is_shared and is_too_much(len(gone), len(bases) - len(held))
        if is_held:
            self.problems.append(
                f"{len(gone)} of {len(bases)} entries are gone from {self._path}: too many to be believed, so they are"
                " kept. To write them back: ralph memory init --force. To delete them: ralph memory delete ID"
            )
        for key in dict.fromkeys([*entries, *bases, *reversed(known)]):
            if key in unread:
                continue
            entry, row = entries.get(key), known.get(key)
            id, base = bases.get(key, (row["id"] if row else key, None))
            said = _said(entry, base) if entry else None
            stored = _stored(row) if row else None
            is_new = entry is not None and row is None and base is None
            known_before = self._memories.find_one(id) if is_new else None
            step, is_conflict = decide(
                None if is_emptied else self._met.get(id, base),
                said,
                stored,
                is_shared=self._disk.is_shared,
                is_out_of_use=known_before is not None,
            )
            if step is Step.DELETE and base and (is_held or key in held):
                agreed[id] = HELD + base
                continue
            if self._disk.is_restored and entry is not None and row is not None and said != stored:
                self._keep_aside(id, entry)
                step = Step.WRITE
            if step is Step.TAKE and entry is not None:
                if is_new and known_before is None:
                    new.append(entry)
                else:
                    self._take(id, entry, is_conflict)
            elif step is Step.DELETE:
                self._delete(id)
            elif step is Step.WRITE and row is not None:
                put.append(_entry(row))
            elif step is Step.REMOVE:
                remove.append(key)
            if step in (Step.TAKE, Step.DELETE):
                self._met[id] = said
            outcome = said if step in (Step.TAKE, Step.NOTHING) else stored if step is Step.WRITE else None
            if outcome != base or key in held:
                agreed[id] = outcome
        self._memories.insert_all([_memory(entry) for entry in new], self._change)
        self.taken += len(new)
        return agreed, put, remove

    def _take(self, id: str, entry: Entry, is_conflict: bool) -> None:
        self.taken += 1
        fields = _fields(entry)
        known = self._memories.find_one(id)
        if known is None:
            self._memories.insert(_memory(entry), self._change)
            return
        if known.title != title_of(known.body):
            fields.pop("title")  # a title somebody gave is not in the file
        what = "conflict" if is_conflict else "edited"
        self._memories.change(
            known.id, what, self._change, **fields, state=State.ACTIVE, state_reason="", updated_at=now()
        )

    def _keep_aside(self, id: str, entry: Entry) -> None:
        """Note what the file said in the history of a memory whose restored text stands."""
        restored = self._memories.get(id)
        self._take(id, entry, is_conflict=True)
        fields = {name: getattr(restored, name) for name in (*_fields(entry), "state", "state_reason")}
        self._memories.change(id, "restored", self._change, **fields, updated_at=now())

    def _delete(self, id: str) -> None:
        self.taken += 1
        reason = f"taken out of {self._path}"
        self._memories.change(id, "deleted", self._change, state=State.PRUNED, state_reason=reason, updated_at=now())

    def _take_both_sides(self, document: Document) -> None:
        """Keep what both sides of a merge say: theirs in the history, ours as it stands."""
        sides: dict[str, list[Entry]] = {}
        for entry in document.entries:
            sides.setdefault(entry.id, []).append(entry)
        bases = {header_id(id): text.removeprefix(HELD) for id, text in self._base.items()}
        for id, entries in sides.items():
            base = bases.get(id)
            if all(_said(entry, base) == base for entry in entries):
                continue  # no side has changed it: what happened to it in the store since stands
            theirs = [entry for entry in entries if entry.side == "theirs"]
            ours = [entry for entry in entries if entry.side != "theirs"]
            for entry in (*theirs, *ours[:1]):
                known = self._memories.find_one(id)
                if known is None or (
                    _compared(known.kind, known.body, known.tags) != _said(entry)
                    and not self._was_taken(id, entry, entry in ours)
                ):
                    self._take(id, entry, is_conflict=True)

    def _was_taken(self, id: str, entry: Entry, is_ours: bool) -> bool:
        """Say whether the history has this text already; ours has to be the one that stands."""
        if is_ours:
            return False
        body = _fields(entry)["body"]
        return any(json.loads(event.became or "{}").get("body") == body for event in self._memories.history(id))


def _said(entry: Entry, base: str | None = None) -> str:
    """Give what an entry says, in the form that is compared; one that stands as agreed need not be cleaned again."""
    if base is not None and _encode([entry.kind, entry.body, list(entry.tags)]) == base:
        return base
    return _compared(entry.kind, accept(entry.body), map(accept, entry.tags))


def _stored(row: Row) -> str:
    """Give what the file would say of a memory, in the form that is compared."""
    return _compared(row["kind"], row["body"], json.loads(row["tags"]))


def _compared(kind: str, body: str, tags: Iterable[str]) -> str:
    """Give a clean text and its tags as they come back from a file."""
    return _encode([kind, _trimmed(body), list(clean_tags(tag.lower() for tag in tags))])


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _trimmed(text: str) -> str:
    if " \n" not in text and "\t\n" not in text:
        return text.strip()
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _entry(row: Row) -> Entry:
    return Entry(
        id=header_id(row["id"]),
        kind=row["kind"],
        body=row["body"],
        tags=tuple(json.loads(row["tags"])),
        created=row["created_at"][:10],
    )


def _fields(entry: Entry) -> dict[str, Any]:
    body = _trimmed(accept(entry.body))
    return {
        "kind": entry.kind,
        "title": title_of(body),
        "body": body,
        "tags": clean_tags(accept(tag).lower() for tag in entry.tags)[:MOST_TAGS],
        "files": paths_in(body),
    }


def _memory(entry: Entry) -> Memory:
    at = now()
    try:
        created = moment_of(entry.created) or at
    except InvalidEntryError:
        created = at
    source = Source.EXPLICIT
    return Memory(
        id=entry.id,
        source=source,
        confidence=START[source],
        created_at=created,
        updated_at=at,
        verified_at=at,
        **_fields(entry),
    )
