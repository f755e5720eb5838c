"""Import and export of memories, in every format.

Importing the same file twice changes nothing the second time. What an agent imports is quarantined until a person
reviews it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ralph.core.errors import RalphError, UsageError
from ralph.core.records import Memory, MemoryEvent, MemoryState, now, record, replace
from ralph.core.text import one_line
from ralph.store.memories import IMPORT_BATCH, ChangeInfo, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.formats.memory_files import ImportFormat
    from ralph.formats.planned import ReadProblem, TaskImport
    from ralph.formats.sources import SourceFile
    from ralph.memory.learning_service import LearningService
    from ralph.memory.service import MemoryService
    from ralph.store import Store
    from ralph.store.memory_queries import MemoryFilter

WHOLE = ("bundle", "store")
"""Formats that carry a memory with its whole history."""
BULK = 50
"""Number of new memories from which an import makes a backup first."""
SQLITE = b"SQLite format 3\0"
"""First bytes of a SQLite file."""


@record
class ImportResult:
    """Result of importing one file."""

    name: str
    format: str
    new: int = 0
    merged: int = 0
    revived: int = 0
    """Number that were pruned and are active again."""
    known: int = 0
    again: int = 0
    """Number of repeated entries in the file."""
    refused: int = 0
    """Number that a person has deleted here, so they stay deleted."""
    quarantined: int = 0
    """Number of new ones that wait for review, because an agent imported them."""
    problems: tuple[ReadProblem, ...] = ()
    tasks: int = 0
    """Number of tasks added from a task file."""
    staged: int = 0
    """Number of learnings staged from the state of a loop."""
    change_id: str = ""
    note: str = ""


@record
class ExportResult:
    """Memories in an export format."""

    files: Iterable[tuple[str, Iterable[str]]]
    """Name and chunks of each file; the name is empty for formats of a single file."""
    count: int
    left_out: int
    """Number of memories the format cannot express."""


def states_in(form: str) -> tuple[MemoryState, ...]:
    """Return the states that a format exports by default."""
    return (MemoryState.STAGED, MemoryState.REJECTED) if form == "staging" else (MemoryState.ACTIVE,)


class ImportExport:
    """Import into and export from the memory of one opened project."""

    def __init__(
        self,
        store: Store,
        memory: MemoryService,
        learnings: LearningService,
        actor: Actor,
        *,
        import_tasks: Callable[[str, str], TaskImport],
        open_project: Callable[[Path], Store | None],
    ) -> None:
        """`open_project` opens the store of a project directory, and returns None for any other directory."""
        self._store = store
        self._memories = store.memories
        self._memory = memory
        self._learnings = learnings
        self._actor = actor
        self._import_tasks = import_tasks
        self._open_project = open_project
        self._change_id = ""
        self._has_backup = False

    @contextmanager
    def together(self) -> Iterator[str]:
        """Make all imports inside the block one change, and yield its id."""
        self._change_id = change_id()
        try:
            yield self._change_id
        finally:
            self._change_id = ""
            self._has_backup = False

    def import_text(
        self, text: str, name: str, *, stage: bool = False, force: bool = False, format: ImportFormat | None = None
    ) -> ImportResult:
        """Import the text of a file, whatever it holds: memories, learnings, tasks, or the state of a loop."""
        from ralph.formats.memory_files import ImportFormat, detect_format, read_memories

        found = format or detect_format(text, name)
        if found is ImportFormat.TASKS:
            tasks = self._import_tasks(text, name)
            return ImportResult(
                name=name, format=found.value, tasks=len(tasks.added), known=tasks.known, problems=tasks.unreadable
            )
        if found is ImportFormat.LOOP_STATE:
            counts = self._learnings.extract_state(text, name)
            note = "staged; review them with: ralph learn review"
            staged = counts.extracted - counts.merged
            return ImportResult(name=name, format=found.value, staged=staged, merged=counts.merged, note=note)
        if found is ImportFormat.BUNDLE:
            rows = text.split("\n")
            return self._import_bundle(lambda: rows, name, stage=stage, force=force)
        form, (memories, problems) = read_memories(text, name, now(), found, force=force)
        return self.import_memories(memories, name, form.value, problems=problems, stage=stage)

    def import_path(
        self, path: Path, *, stage: bool = False, force: bool = False, format: ImportFormat | None = None
    ) -> list[ImportResult]:
        """Import a file, or every file of a folder that holds something to remember."""
        from ralph.formats.sources import find_sources

        return [self._import_source(source, stage, force, format) for source in find_sources(path)]

    def _import_source(self, source: SourceFile, stage: bool, force: bool, format: ImportFormat | None) -> ImportResult:
        from ralph.formats.bundle import is_bundle
        from ralph.formats.memory_files import ImportFormat, detect_format

        if format is ImportFormat.BUNDLE or (format is None and is_bundle(source.start())):
            return self._import_bundle(source.lines, source.name, stage=stage, force=force)
        text = source.text()
        found = format or detect_format(text, source.name)
        if (
            found in (ImportFormat.LEARNINGS, ImportFormat.UNKNOWN)
            and source.path.with_name(source.path.name + ".bak").exists()
        ):
            return self._import_learnings(source.path, source.name, stage=stage, force=force)
        return self.import_text(text, source.name, stage=stage, force=force, format=found)

    def merge(self, path: Path) -> list[ImportResult]:
        """Import all memories of another project, or of anything else that can be imported."""
        from ralph.store.external import open_copy

        if is_store(path):
            with open_copy(path) as other:
                return [self.import_memories(other.memories.history.all_with_history(), str(path), "store")]
        other_project = self._open_project(path)
        if other_project is None:
            return self.import_path(path)
        try:
            return [self.import_memories(other_project.memories.history.all_with_history(), str(path), "store")]
        finally:
            other_project.close()

    def _import_bundle(
        self, lines: Callable[[], Iterable[str]], name: str, *, stage: bool = False, force: bool = False
    ) -> ImportResult:
        """Import a bundle of any size, line by line; one that was tampered with only with `force`."""
        from ralph.formats.bundle import read_bundle, verify_bundle
        from ralph.formats.memory_files import NEEDS_FORCE
        from ralph.formats.planned import ReadProblem

        if not force and (why := verify_bundle(lines())):
            problem = ReadProblem(line=1, why=f"{why} What can be read of it {NEEDS_FORCE}")
            return ImportResult(name=name, format="bundle", problems=(problem,))
        return self.import_memories(read_bundle(lines()), name, "bundle", stage=stage)

    def _import_learnings(self, path: Path, name: str, *, stage: bool = False, force: bool = False) -> ImportResult:
        """Import a learnings file that has a backup next to it, which is read when the file is damaged."""
        from ralph.formats.learnings_json import load_learnings

        try:
            file, note = load_learnings(path, now())
        except ValueError:
            return self.import_text(path.read_bytes().decode("utf-8", "replace"), name, stage=stage, force=force)
        result = self.import_memories(file.memories, name, "learnings", problems=file.problems, stage=stage)
        return replace(result, note=note)

    def import_memories(
        self,
        items: Iterable[Memory | MemoryEvent | ReadProblem],
        name: str,
        form: str,
        *,
        problems: Sequence[ReadProblem] = (),
        stage: bool = False,
    ) -> ImportResult:
        """Import memories in batches; events are the history of the memory before them."""
        change = ChangeInfo(
            who=self._actor.kind, why=f"imported from {one_line(name, 100)}", id=self._change_id or change_id()
        )
        counts = dict.fromkeys(("added", "merged", "revived", "known", "again", "refused"), 0)
        held = 0
        unreadable = list(problems)
        for number, batch in enumerate(_batches(items, unreadable)):
            incoming = [(self._incoming(memory, stage, form), events) for memory, events in batch]
            if (
                number == 0
                and not self._has_backup
                and self._memories.index.count_unknown([one for one, _ in incoming]) > BULK
            ):
                self._store.backup(f"before importing {one_line(name, 40)}")
                self._has_backup = bool(self._change_id)
            for one in self._memories.import_memories(incoming, change):
                counts[one.what] += 1
                held += one.what == "added" and one.memory.state is MemoryState.QUARANTINED
        if counts["added"] > IMPORT_BATCH:
            self._store.database.words.optimize(is_full=True)
        return ImportResult(
            name=name,
            format=form,
            new=counts["added"],
            merged=counts["merged"],
            revived=counts["revived"],
            known=counts["known"],
            again=counts["again"],
            refused=counts["refused"],
            quarantined=held,
            problems=tuple(unreadable),
            change_id=change.id if counts["added"] or counts["merged"] or counts["revived"] else "",
        )

    def _incoming(self, memory: Memory, stage: bool, form: str) -> Memory:
        """Return a memory as it is stored: active when a person imports it, quarantined when an agent does."""
        if form not in WHOLE and memory.verified_at is None:
            # Somebody vouches for it today, however old it is: it must not decay before it was ever used here.
            memory = replace(memory, verified_at=now())
        if self._actor.is_agent:
            state = (
                MemoryState.QUARANTINED if memory.state in (MemoryState.ACTIVE, MemoryState.STAGED) else memory.state
            )
            reason = "imported by an agent"
            return replace(memory, id="", state=state, state_reason=reason, validated_at=None, **self._actor.origin)
        if memory.state is MemoryState.ACTIVE and stage:
            return replace(memory, state=MemoryState.STAGED)
        return memory

    def export(self, form: str, filter: MemoryFilter) -> ExportResult:
        """Export the memories that match a filter, oldest first."""
        found = self._memory.list(filter, oldest=True)
        if form == "knowledge":
            kept = [one for one in found if one.kind == "knowledge" and one.tags]
            return ExportResult(files=_notes(kept), count=len(kept), left_out=len(found) - len(kept))
        kept, pieces = self._render(form, found)
        return ExportResult(files=[("", pieces)], count=len(kept), left_out=len(found) - len(kept))

    def bundle(self, memories: Iterable[tuple[Memory, Sequence[MemoryEvent]]]) -> Iterator[str]:
        """Yield the lines of a bundle of memories with their history."""
        from ralph.formats.bundle import write_bundle

        return write_bundle(memories, self._store.project_name, now())

    def with_history(self, memories: Iterable[Memory]) -> Iterator[tuple[Memory, Sequence[MemoryEvent]]]:
        """Yield memories, each with its history."""
        return ((memory, self._memories.history.of(memory.id)) for memory in memories)

    def save(self, exported: ExportResult, form: str, to: Path, *, force: bool = False) -> None:
        """Write an export to a file, or to a folder for formats of many files."""
        from ralph.core.files import write_atomically
        from ralph.formats.learnings_json import save_learnings

        files = [(to / name if name else to, "".join(pieces)) for name, pieces in exported.files]
        # Other programs that use these two files expect the previous version as a backup next to it.
        has_backup = form in ("learnings", "staging")
        taken = next((path for path, _ in files if os.path.lexists(path)), None)
        if taken and not force and not has_backup:
            raise UsageError(f"{taken} already exists. To replace it: --force", code="file-exists")
        try:
            for path, text in files:
                if has_backup:
                    save_learnings(path, text)
                else:
                    write_atomically(path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise RalphError(f"{to} cannot be written: {error.strerror}.", code="file-unusable") from error

    def _render(self, form: str, found: list[Memory]) -> tuple[list[Memory], Iterable[str]]:
        """Return the memories that a format can express, and the text it makes of them."""
        if form == "bundle":
            return found, self.bundle(self.with_history(found))
        if form == "json":
            from ralph.formats.memories_json import write_memories_json

            return found, [write_memories_json(found, self._store.project_name, now())]
        if form == "csv":
            from ralph.formats.memories_csv import write_memories_csv

            return found, [write_memories_csv(found)]
        if form == "markdown":
            from ralph.formats.memories_md import SECTION_HEADINGS, write_memories_md

            kept = [one for one in found if one.kind in SECTION_HEADINGS]
            return kept, [write_memories_md(kept)]
        from ralph.formats.learnings_json import write_learnings_json, write_staging_json
        from ralph.memory.lifecycle.learnings import LEARNING_KINDS

        kept = [one for one in found if one.kind in LEARNING_KINDS]
        if form == "learnings":
            return kept, [write_learnings_json(kept)]
        kept = [one for one in kept if one.state in (MemoryState.STAGED, MemoryState.REJECTED)]
        return kept, [write_staging_json(kept, now())]


def is_store(path: Path) -> bool:
    """Return whether a path is a database file, or a directory that contains one."""
    if path.is_dir():
        return any((path / name).is_file() for name in ("ralph.db", ".ralph/ralph.db"))
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _notes(memories: Iterable[Memory]) -> Iterator[tuple[str, list[str]]]:
    """Yield knowledge entries as files, each under a unique name."""
    from ralph.formats.knowledge_md import KnowledgeNote, format_note, unused_file_name

    taken: set[str] = set()
    for one in memories:
        name = unused_file_name(one.title, taken)
        taken.add(name)
        note = KnowledgeNote(
            title=one.title, tags=one.tags, body=one.body, feature=one.feature, created_at=one.created_at
        )
        yield name, [format_note(note)]


def _batches(
    items: Iterable[Memory | MemoryEvent | ReadProblem], unreadable: list[ReadProblem]
) -> Iterator[list[tuple[Memory, list[MemoryEvent]]]]:
    """Yield memories with their history in batches, so that memory use does not grow with the import."""
    batch: list[tuple[Memory, list[MemoryEvent]]] = []
    for item in items:
        if isinstance(item, Memory):
            if len(batch) == IMPORT_BATCH:
                yield batch
                batch = []
            batch.append((item, []))
        elif isinstance(item, MemoryEvent):
            if batch:
                batch[-1][1].append(item)
        else:
            unreadable.append(item)
    if batch:
        yield batch
