"""Keep `.ralph/knowledge/*.md` in step with the knowledge entries, a file for each."""

from __future__ import annotations

import json
import os
import re

from ralph.formats.imported import InvalidEntryError
from ralph.formats.knowledge_md import Note, file_name, new_note, read_note, rewritten
from ralph.memory.knowledge import title_key
from ralph.memory.lifecycle import START
from ralph.records import Memory, Source, State, now, record, replace
from ralph.store.known_memories import Wanted
from ralph.store.memories import Change
from ralph.store.synced import HELD
from ralph.sync.agree import Step, decide, is_too_much
from ralph.sync.disk import KNOWLEDGE, MANY_FILES, FileUnusableError
from ralph.text import paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.store import Store
    from ralph.sync.disk import Content, Disk


@record
class NoteFile:
    """A knowledge file that could be read."""

    content: Content
    note: Note


class KnowledgeFolder:
    """One sync of the folder, inside a transaction of the store."""

    def __init__(self, store: Store, disk: Disk, change: Change) -> None:
        self._memories = store.memories
        self._disk = disk
        self._change = change
        agreed = disk.synced.entries_under(KNOWLEDGE)
        self._base = {path: (id, text.removeprefix(HELD)) for path, (id, text) in agreed.items()}
        """Memory id and agreed text of each file, by path."""
        self._held = {path for path, (_, text) in agreed.items() if text.startswith(HELD)}
        """Files that are gone together with too many others to be believed."""
        self._left: dict[str, Memory] = {}
        """The entries whose file was not found yet."""
        self._homeless: dict[str, str] = {}
        """Of those, the ones that never had a file: their ids by title."""
        self.taken = self.written = 0
        self.problems: list[str] = []

    def sync(self) -> None:
        """Take in what the files say, then write what they lack."""
        paths = self._disk.knowledge_paths()
        if (
            set(paths) == set(self._base) - self._held
            and not any(map(self._disk.has_changed, paths))
            and self._disk.is_untouched(("knowledge",), KNOWLEDGE)
        ):
            return
        wanted = Wanted(kinds=("knowledge",))
        self._left = {memory.id: memory for memory in self._memories.find(wanted) if memory.tags}
        # A folder that is gone is no sign that somebody wants everything forgotten.
        if self._base and not self._disk.exists(KNOWLEDGE):
            for path in self._base:
                self._disk.synced.forget(path)
            self._base = {}
        changed = self._read_changed(paths)
        self._follow_renames(changed, set(paths))
        with_file = {id for id, _ in self._base.values()}
        self._homeless = {title_key(one.title): id for id, one in self._left.items() if id not in with_file}
        for path, file in changed.items():
            self._step(path, file)
        for path in (self._held & set(self._base)) - set(paths):
            id, base = self._base[path]
            if id in self._left and _stored(self._left[id]) == base:
                del self._left[id]
            else:  # deleted since, or changed: then it is written anew
                self._disk.synced.forget(path)
        vanished = sorted(set(self._base) - set(paths) - self._held)
        if is_too_much(len(vanished), len(set(self._base) - self._held)) and not self._disk.is_shared:
            self.problems.append(
                f"{len(vanished)} of {len(self._base)} files are gone from {KNOWLEDGE}: too many to be believed, so"
                " what they held is kept. To write them back remove the folder; to delete them: ralph memory delete ID"
            )
            for path in vanished:
                id, base = self._base[path]
                self._left.pop(id, None)
                self._disk.synced.forget(path)
                self._disk.synced.agree(path, {id: HELD + base})
        else:
            for path in vanished:
                self._vanished(path)
        self._write_new({path.removeprefix(KNOWLEDGE) for path in paths})

    def _read_changed(self, paths: list[str]) -> dict[str, NoteFile]:
        """Give the files that may need something done; what the others hold is dealt with."""
        changed: dict[str, NoteFile] = {}
        for path in paths:
            id, agreed = self._base.get(path, ("", ""))
            memory = self._left.get(id)
            is_known = path not in self._held and not self._disk.has_changed(path)
            if memory and is_known and _stored(memory) == agreed:
                del self._left[id]
                continue
            content = None
            try:
                if content := self._disk.read(path):
                    _refuse_conflict(content.text)
                    changed[path] = NoteFile(content=content, note=read_note(content.text))
            except FileUnusableError as error:
                self._left.pop(id, None)
                self.problems.append(str(error))
            except InvalidEntryError as error:
                self._left.pop(id, None)
                self.problems.append(f"{path} is no knowledge entry: {error}.")
                if content:
                    self._disk.note(content)  # read again when it changes, and named by `ralph doctor` until then
        return changed

    def _follow_renames(self, changed: dict[str, NoteFile], paths: set[str]) -> None:
        """Let a file under a new name keep its memory: one with the text or title of a file that is gone."""
        gone = {path: base for path, base in self._base.items() if path not in paths}
        by_text = {agreed: path for path, (_, agreed) in gone.items()}
        by_title = {title_key(json.loads(agreed)[0]): path for path, (_, agreed) in gone.items()}
        for path, file in changed.items():
            if path in self._base:
                continue
            old = by_text.get(_said(file.note)) or by_title.get(title_key(file.note.title))
            if old and old in gone:
                self._base[path] = gone.pop(old)
                del self._base[old]
                self._disk.synced.forget(old)

    def _step(self, path: str, file: NoteFile) -> None:
        id, base = self._base.get(path) or (self._adopted(file.note), None)
        memory = self._left.pop(id, None)
        said, stored = _said(file.note), _stored(memory) if memory else None
        step, is_conflict = decide(
            base,
            said,
            stored,
            is_shared=self._disk.is_shared,
            is_out_of_use=bool(id) and memory is None,
        )
        if self._disk.is_restored and memory and said != stored:
            self._keep_aside(memory, file.note, path)
            step = Step.WRITE
        content: Content | None = file.content
        try:
            if step is Step.TAKE:
                id = self._take(id, file.note, path, is_conflict)
            elif step is Step.WRITE and memory:
                content = self._disk.write(path, rewritten(file.content.text, _note(memory)), file.content)
                self.written += content is not None
                self._disk.is_unwritten |= content is None
            elif step is Step.REMOVE:
                self.written += self._disk.delete(path, file.content)
                self._disk.synced.forget(path)
                return
        except FileUnusableError as error:
            self.problems.append(str(error))
            return
        if content:
            self._disk.synced.agree(path, {id: said if step is not Step.WRITE else stored})
            self._disk.note(content)

    def _adopted(self, note: Note) -> str:
        """Give the entry without a file that a new file is about, if there is one; also one that is out of use."""
        key = title_key(note.title)
        if key in self._homeless:
            return self._homeless.pop(key)
        known = self._memories.by_title(note.title, State.PRUNED)
        return known.id if known else ""

    def _keep_aside(self, restored: Memory, note: Note, path: str) -> None:
        """Note what the file said in the history of an entry whose restored text stands."""
        self._take(restored.id, note, path, is_conflict=True)
        names = ("kind", "title", "body", "tags", "feature", "files", "state", "state_reason")
        fields = {name: getattr(restored, name) for name in names}
        self._memories.change(restored.id, "restored", replace(self._change, why=path), **fields, updated_at=now())

    def _take(self, id: str, note: Note, path: str, is_conflict: bool) -> str:
        """Take a file's text into the store; give the id of its memory."""
        self.taken += 1
        at = now()
        change = replace(self._change, why=path)
        fields: dict[str, Any] = {
            "title": note.title,
            "body": note.body,
            "tags": note.tags,
            "feature": note.feature,
            "files": paths_in(note.body),
        }
        if id:
            what = "conflict" if is_conflict else "edited"
            state = {"kind": "knowledge", "state": State.ACTIVE, "state_reason": "", "updated_at": at}
            self._memories.change(id, what, change, **fields, **state)
            return id
        source = Source.EXPLICIT
        memory = Memory(
            id="",
            kind="knowledge",
            source=source,
            confidence=START[source],
            created_at=note.created_at or at,
            updated_at=at,
            verified_at=at,
            **fields,
        )
        return self._memories.insert(memory, change).id

    def _vanished(self, path: str) -> None:
        """Deal with a file that was taken away: its entry goes too, unless it has changed since."""
        id, base = self._base[path]
        self._disk.synced.forget(path)
        memory = self._left.get(id)
        if memory and decide(base, None, _stored(memory), is_shared=self._disk.is_shared)[0] is Step.DELETE:
            self.taken += 1
            del self._left[id]
            reason = f"{path} was deleted"
            change = replace(self._change, why=path)
            self._memories.change(id, "deleted", change, state=State.PRUNED, state_reason=reason, updated_at=now())

    def _write_new(self, taken: set[str]) -> None:
        """Write the entries that have no file yet, oldest first."""
        durably = len(self._left) < MANY_FILES
        for id, memory in reversed(self._left.items()):
            name = file_name(memory.title, taken)
            try:
                content = self._disk.write(KNOWLEDGE + name, new_note(_note(memory)), None, durably=durably)
            except FileUnusableError as error:
                self.problems.append(str(error))
                return
            taken.add(name)
            if content:
                self.written += 1
                self._disk.synced.agree(content.path, {id: _stored(memory)})
                self._disk.note(content)
        if not durably:
            os.sync()


def _refuse_conflict(text: str) -> None:
    """Leave a file alone that git could not merge: half of it is somebody else's."""
    if re.search(r"^<{7} ", text, re.MULTILINE) and re.search(r"^>{7} ", text, re.MULTILINE):
        raise InvalidEntryError("it has conflict markers of git: please resolve them")


def _said(note: Note) -> str:
    """Give what a file says, in the form that is compared."""
    return json.dumps([note.title, list(note.tags), note.feature, note.body], ensure_ascii=False)


def _stored(memory: Memory) -> str:
    return _said(_note(memory))


def _note(memory: Memory) -> Note:
    return Note(
        title=memory.title,
        tags=memory.tags,
        body=memory.body,
        feature=memory.feature,
        created_at=memory.created_at,
    )
