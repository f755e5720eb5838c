"""Memories on their way in from elsewhere and out again, in every format.

Importing the same thing twice changes nothing the second time. What an agent brings in
waits for a person.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ralph.core.actor import by, in_session, origin
from ralph.core.errors import RalphError, UsageError
from ralph.core.records import Memory, MemoryEvent, State, now, record, replace
from ralph.core.text import one_line
from ralph.store.memories import BATCH, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ralph.formats.memory_files import Format
    from ralph.formats.planned import Unreadable
    from ralph.memory.service import Remembering
    from ralph.store import Store
    from ralph.store.memory_queries import Wanted

WHOLE = ("bundle", "store")
"""Where memories come from with all that is known of them."""
BULK = 50
"""An import of more than this is preceded by a backup."""
SQLITE = b"SQLite format 3\0"
"""How a database file begins."""


@record
class Brought:
    """What an import came to."""

    name: str
    format: str
    new: int = 0
    merged: int = 0
    revived: int = 0
    """Were out of use, and are in use again."""
    known: int = 0
    again: int = 0
    """Said more than once in the file."""
    refused: int = 0
    """A person has deleted them here, so they stay deleted."""
    quarantined: int = 0
    """Of the new ones, those that wait for a person, because an agent brought them."""
    problems: tuple[Unreadable, ...] = ()
    tasks: int = 0
    """Tasks that were added, when the file was one of tasks."""
    staged: int = 0
    """Learnings that were staged, when the file was the state of a loop."""
    change_id: str = ""
    note: str = ""


@record
class Exported:
    """Memories in a format for elsewhere."""

    files: Iterable[tuple[str, Iterable[str]]]
    """Name and pieces of each file; a format of one file gives it no name."""
    count: int
    left_out: int
    """Of the wanted memories, those the format has no place for."""


def states_in(form: str) -> tuple[State, ...]:
    """Give in which states memories are exported in a format, unless somebody says otherwise."""
    return (State.STAGED, State.REJECTED) if form == "staging" else (State.ACTIVE,)


class Transferring:
    """The way in and out of one opened project's memory."""

    def __init__(self, store: Store, memory: Remembering) -> None:
        self._store = store
        self._memories = store.memories
        self._memory = memory
        self._together = ""
        self._has_backup = False

    @contextmanager
    def together(self) -> Iterator[str]:
        """Make all that is imported inside one change, whose id is given; the files are brought in step around it."""
        self._memory.sync()
        self._memory.is_paused = True
        self._together = change_id()
        try:
            yield self._together
        finally:
            self._together = ""
            self._has_backup = False
            self._memory.is_paused = False
            self._memory.sync()

    def bring(
        self, text: str, name: str, *, stage: bool = False, force: bool = False, format: Format | None = None
    ) -> Brought:
        """Keep the memories of a file from elsewhere; doing it once more changes nothing."""
        from ralph.formats.memory_files import Format, read_memories, recognise

        if (format or recognise(text, name)) is Format.BUNDLE:
            rows = text.split("\n")
            return self.bring_bundle(lambda: rows, name, stage=stage, force=force)
        form, (memories, problems) = read_memories(text, name, now(), format, force=force)
        return self.bring_all(memories, name, form.value, problems=problems, stage=stage)

    def bring_bundle(
        self, lines: Callable[[], Iterable[str]], name: str, *, stage: bool = False, force: bool = False
    ) -> Brought:
        """Keep the memories of a bundle, however large, as its lines come; one that was changed only by force."""
        from ralph.formats.bundle import read_bundle, verify_bundle
        from ralph.formats.memory_files import BY_FORCE
        from ralph.formats.planned import Unreadable

        if not force and (why := verify_bundle(lines())):
            problem = Unreadable(line=1, why=f"{why} What can be read of it {BY_FORCE}")
            return Brought(name=name, format="bundle", problems=(problem,))
        return self.bring_all(read_bundle(lines()), name, "bundle", stage=stage)

    def bring_learnings(self, path: Path, name: str, *, stage: bool = False, force: bool = False) -> Brought:
        """Keep the learnings of a file that has a backup next to it; the backup is read when the file is damaged."""
        from ralph.formats.learnings_json import load_learnings

        try:
            file, note = load_learnings(path, now())
        except ValueError:
            return self.bring(path.read_bytes().decode("utf-8", "replace"), name, stage=stage, force=force)
        brought = self.bring_all(file.memories, name, "learnings", problems=file.problems, stage=stage)
        return replace(brought, note=note)

    def bring_all(
        self,
        items: Iterable[Memory | MemoryEvent | Unreadable],
        name: str,
        form: str,
        *,
        problems: Sequence[Unreadable] = (),
        stage: bool = False,
    ) -> Brought:
        """Keep memories from elsewhere, a batch at a time; events are the history of the memory before them."""
        self._memory.sync()
        change = replace(by(f"imported from {one_line(name, 100)}"), id=self._together or change_id())
        counts = dict.fromkeys(("added", "merged", "revived", "known", "again", "refused"), 0)
        held = 0
        complaints = list(problems)
        for number, batch in enumerate(_batches(items, complaints)):
            arriving = [(_arriving(memory, stage, form), events) for memory, events in batch]
            if number == 0 and not self._has_backup and self._memories.count_news([one for one, _ in arriving]) > BULK:
                self._store.backup(f"before importing {one_line(name, 40)}")
                self._has_backup = bool(self._together)
            for one in self._memories.bring(arriving, change):
                counts[one.what] += 1
                held += one.what == "added" and one.memory.state is State.QUARANTINED
        if counts["added"] > BATCH:
            self._store.database.tidy(whole=True)
        self._memory.sync()
        return Brought(
            name=name,
            format=form,
            new=counts["added"],
            merged=counts["merged"],
            revived=counts["revived"],
            known=counts["known"],
            again=counts["again"],
            refused=counts["refused"],
            quarantined=held,
            problems=tuple(complaints),
            change_id=change.id if counts["added"] or counts["merged"] or counts["revived"] else "",
        )

    def merge(self, path: Path) -> Brought:
        """Take in all memories of another project; they are the same whether brought once or twice."""
        from ralph.store.external import open_copy

        with open_copy(path) as other:
            return self.merge_store(other, str(path))

    def merge_store(self, other: Store, name: str) -> Brought:
        """Take in all memories of another project that is open."""
        return self.bring_all(other.memories.everything(), name, "store")

    def export(self, form: str, wanted: Wanted) -> Exported:
        """Give the wanted memories in a format for elsewhere, oldest first."""
        found = self._memory.find(wanted)[::-1]
        if form == "knowledge":
            kept = [one for one in found if one.kind == "knowledge" and one.tags]
            return Exported(files=_notes(kept), count=len(kept), left_out=len(found) - len(kept))
        kept, pieces = self._written(form, found)
        return Exported(files=[("", pieces)], count=len(kept), left_out=len(found) - len(kept))

    def bundle(self, memories: Iterable[tuple[Memory, Sequence[MemoryEvent]]]) -> Iterator[str]:
        """Give the lines of a bundle of memories with their history, as they come."""
        from ralph.formats.bundle import write_bundle

        return write_bundle(memories, self._store.project_name, now())

    def with_history(self, memories: Iterable[Memory]) -> Iterator[tuple[Memory, Sequence[MemoryEvent]]]:
        """Give memories, each with all that happened to it."""
        return ((memory, self._memories.history(memory.id)) for memory in memories)

    def save(self, exported: Exported, form: str, to: Path, *, force: bool = False) -> None:
        """Write what was exported to a file, or for a format of many files to a folder."""
        from ralph.core.files import write_whole
        from ralph.formats.learnings_json import save_learnings

        files = [(to / name if name else to, "".join(pieces)) for name, pieces in exported.files]
        # The programs that share these two files expect the one before as a backup next to it.
        has_backup = form in ("learnings", "staging")
        taken = next((path for path, _ in files if os.path.lexists(path)), None)
        if taken and not force and not has_backup:
            raise UsageError(f"{taken} is there already: replace it with --force.")
        try:
            for path, text in files:
                if has_backup:
                    save_learnings(path, text)
                else:
                    write_whole(path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise RalphError(f"{to} cannot be written: {error.strerror}.") from error

    def _written(self, form: str, found: list[Memory]) -> tuple[list[Memory], Iterable[str]]:
        """Give those of the memories that a format has a place for, and what it makes of them."""
        if form == "bundle":
            return found, self.bundle(self.with_history(found))
        if form == "json":
            from ralph.formats.memories_json import write_memories_json

            return found, [write_memories_json(found, self._store.project_name, now())]
        if form == "csv":
            from ralph.formats.memories_csv import write_memories_csv

            return found, [write_memories_csv(found)]
        if form == "markdown":
            from ralph.formats.memories_md import SECTIONS, write_memories_md

            kept = [one for one in found if one.kind in SECTIONS]
            return kept, [write_memories_md(kept)]
        from ralph.formats.learnings_json import write_learnings_json, write_staging_json
        from ralph.memory.lifecycle.learnings import LEARNING_KINDS

        kept = [one for one in found if one.kind in LEARNING_KINDS]
        if form == "learnings":
            return kept, [write_learnings_json(kept)]
        kept = [one for one in kept if one.state in (State.STAGED, State.REJECTED)]
        return kept, [write_staging_json(kept, now())]


def is_store(path: Path) -> bool:
    """Say whether a path is a project with a store, or the file of one."""
    if path.is_dir():
        return any((path / name).is_file() for name in ("ralph.db", ".ralph/ralph.db"))
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _notes(memories: Iterable[Memory]) -> Iterator[tuple[str, list[str]]]:
    """Give knowledge entries as files, each under a name of its own."""
    from ralph.formats.knowledge_md import Note, file_name, new_note

    taken: set[str] = set()
    for one in memories:
        name = file_name(one.title, taken)
        taken.add(name)
        note = Note(title=one.title, tags=one.tags, body=one.body, feature=one.feature, created_at=one.created_at)
        yield name, [new_note(note)]


def _batches(
    items: Iterable[Memory | MemoryEvent | Unreadable], complaints: list[Unreadable]
) -> Iterator[list[tuple[Memory, list[MemoryEvent]]]]:
    """Give memories with their history, so many at a time that any number takes the same room."""
    batch: list[tuple[Memory, list[MemoryEvent]]] = []
    for item in items:
        if isinstance(item, Memory):
            if len(batch) == BATCH:
                yield batch
                batch = []
            batch.append((item, []))
        elif isinstance(item, MemoryEvent):
            if batch:
                batch[-1][1].append(item)
        else:
            complaints.append(item)
    if batch:
        yield batch


def _arriving(memory: Memory, stage: bool, form: str) -> Memory:
    """Give a memory as it comes in: active when a person brings it, held back when an agent does."""
    if form not in WHOLE and memory.verified_at is None:
        # Somebody vouches for it today, however old it is: it must not fade before it was ever used here.
        memory = replace(memory, verified_at=now())
    if in_session():
        held = State.QUARANTINED if memory.state in (State.ACTIVE, State.STAGED) else memory.state
        return replace(memory, id="", state=held, state_reason="brought in by an agent", validated_at=None, **origin())
    if memory.state is State.ACTIVE and stage:
        return replace(memory, state=State.STAGED)
    return memory
