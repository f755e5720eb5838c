"""Import and export of memories, in every format; tasks and features are imported too.

`ImportExport.import_path` is the way in for every file: it detects the format, imports what it finds and returns what
came in and what did not, by line and with the reason. Importing the same file twice changes nothing the second time.
What an agent imports is quarantined until a person reviews it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext, suppress

from ralph.core.errors import RalphError, UsageError
from ralph.core.files import write_atomically
from ralph.core.records import Memory, MemoryEvent, MemoryState, now, record, replace
from ralph.core.text import one_line
from ralph.core.tracking import is_tracked, report_progress, track
from ralph.formats.bundle import write_bundle
from ralph.formats.databases import detect_database, is_sqlite, open_foreign
from ralph.formats.detection import FileSample
from ralph.formats.loop_state import find_state_problems
from ralph.formats.planned import PassageImport, ReadProblem
from ralph.formats.registry import FORMATS, UNKNOWN_FORMAT, detect_format, export_formats, import_formats
from ralph.formats.sources import BACKUP_EXTENSION, find_sources
from ralph.formats.task_files import read_tasks
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.named import MAX_START_BYTES, recognize
from ralph.memory.estimates import estimates_as_learnings, is_own_estimate
from ralph.memory.import_types import remarks_on_types, unknown_types, with_known_type
from ralph.store.external import open_copy
from ralph.store.memories import ChangeInfo, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.formats.planned import PlannedPassage, PlannedProject, TaskImport
    from ralph.formats.registry import FileFormat
    from ralph.formats.sources import SourceFile
    from ralph.memory.learning_service import LearningService
    from ralph.memory.service import MemoryService
    from ralph.store import Store
    from ralph.store.memory_queries import MemoryFilter

STORE = "store"
"""Format reported for memories that are read from another database."""
BULK = 50
"""Number of new memories from which an import makes a backup first."""
MAX_COMPARED = 2_000
"""Number of new memories up to which an import looks for those that say something else about the same."""
IMPORT_BATCH = 5_000
"""Number of new memories from which an import compacts the word index."""


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
    superseded: int = 0
    """Number of earlier memories whose place imported statements take."""
    quarantined: int = 0
    """Number of new ones that wait for review, because an agent imported them."""
    problems: tuple[ReadProblem, ...] = ()
    tasks: int = 0
    """Number of tasks added."""
    features: int = 0
    """Number of features added."""
    episodes: int = 0
    """Number of passages of sessions added."""
    staged: int = 0
    """Number of learnings staged from the state of a loop."""
    change_id: str = ""
    note: str = ""

    @property
    def rejected(self) -> int:
        """Number of entries that were not imported; `problems` names each of them."""
        return sum(not problem.was_read for problem in self.problems)

    @property
    def has_content(self) -> bool:
        """Whether anything in the file could be read, even if all of it was known."""
        memories = self.new or self.merged or self.revived or self.known or self.again or self.refused
        return bool(memories or self.tasks or self.features or self.episodes or self.staged) or not self.problems


class _DryRunEnd(Exception):
    """Ends the transaction of a dry run without committing it."""


@record
class ExportResult:
    """Memories in an export format."""

    files: Iterable[tuple[str, Iterable[str]]]
    """Name and chunks of each file; the name is empty for formats of a single file."""
    count: int
    left_out: int
    """Number of memories the format cannot express."""


class ImportExport:
    """Import into and export from the memory of one opened project."""

    def __init__(
        self,
        store: Store,
        memory: MemoryService,
        learnings: LearningService,
        actor: Actor,
        *,
        import_tasks: Callable[[PlannedProject], TaskImport],
        import_passages: Callable[[Sequence[PlannedPassage]], PassageImport],
        open_project: Callable[[Path], Store | None],
    ) -> None:
        """`open_project` opens the store of a project directory, and returns None for any other directory."""
        self._store = store
        self._memories = store.memories
        self._memory = memory
        self._learnings = learnings
        self._actor = actor
        self._import_tasks = import_tasks
        self._import_passages = import_passages
        self._open_project = open_project
        self._change_id = ""
        self._has_backup = False
        self._is_dry_run = False

    @contextmanager
    def together(self, *, dry_run: bool = False) -> Iterator[str]:
        """Make all imports inside the block one change, and yield its id; a dry run is taken back at the end."""
        self._change_id = change_id()
        self._is_dry_run = dry_run
        try:
            with suppress(_DryRunEnd), self._store.transaction() if dry_run else nullcontext():
                yield self._change_id
                if dry_run:
                    raise _DryRunEnd
        finally:
            self._change_id = ""
            self._has_backup = self._is_dry_run = False

    def import_text(
        self, text: str, name: str, *, stage: bool = False, force: bool = False, format: str | None = None
    ) -> ImportResult:
        """Import the text of a file, whatever it contains: memories, learnings, tasks, or the state of a loop."""
        self._actor.require("memory.import")
        if not format and (agent := recognize(name, text[:MAX_START_BYTES] or " ")):
            return _transcript(name, agent)
        found = _import_format(format) if format else detect_format(text, name)
        if found is None:
            why = f"No memories found in {name}." if text.strip("\ufeff \t\r\n") else f"{name} is empty."
            return ImportResult(name=name, format=UNKNOWN_FORMAT, problems=(ReadProblem(line=1, why=why),))
        if found.is_database:
            raise UsageError(f"The {found.name} format is a database. Pass the path of its file.")
        if found.content in ("project", "tasks"):
            planned = found.read_project(text, now()) if found.content == "project" else read_tasks(text, name)
            return self._import_project(planned, name, found.name, stage=stage)
        if found.content == "loop-state":
            counts = self._learnings.extract_state(text, name)
            note = "staged; review them with: ralph learn review"
            staged = counts.extracted - counts.merged
            problems = find_state_problems(text)
            return ImportResult(
                name=name, format=found.name, staged=staged, merged=counts.merged, note=note, problems=problems
            )
        if found.is_streamed:
            lines = text.split("\n")
            return self._import_lines(found, lambda: lines, name, stage=stage, force=force)
        memories, problems = found.read(text, now(), force=force)
        return self.import_memories(memories, name, found.name, problems=problems, stage=stage)

    def import_path(
        self, path: Path, *, stage: bool = False, force: bool = False, format: str | None = None
    ) -> list[ImportResult]:
        """Import a file, or every file of a directory that can be imported: memories, tasks and features.

        In a directory, a file that cannot be read is a problem of its result, and the others are imported.
        """
        self._actor.require("memory.import")
        sources = find_sources(path)
        if not path.is_dir():
            return [self._import_source(source, stage, force, format) for source in sources]
        return [self._import_or_name(source, stage, force, format) for source in sources]

    def _import_or_name(self, source: SourceFile, stage: bool, force: bool, format: str | None) -> ImportResult:
        try:
            return self._import_source(source, stage, force, format)
        except UsageError as error:
            problem = ReadProblem(line=1, why=str(error))
            return ImportResult(name=source.name, format=format or UNKNOWN_FORMAT, problems=(problem,))

    def _import_source(self, source: SourceFile, stage: bool, force: bool, format: str | None) -> ImportResult:
        if not format and (agent := recognize(str(source.path))):
            return _transcript(source.name, agent)
        if is_sqlite(source.path):
            return self._import_database(source, format, stage=stage)
        if streamed := _streamed_format(source, format):
            return self._import_lines(streamed, source.lines, source.name, stage=stage, force=force)
        text = source.text()
        found = _import_format(format) if format else detect_format(text, source.name)
        if backup := _usable_backup(source, found, text):
            result = self.import_text(backup, source.name, stage=stage)
            note = "the file is damaged, so its backup was imported; the file was not changed"
            return replace(result, note=note)
        return self.import_text(text, source.name, stage=stage, force=force, format=found.name if found else None)

    def _import_database(self, source: SourceFile, format: str | None, *, stage: bool) -> ImportResult:
        """Import the database of another program, which is only read."""
        with open_foreign(source.path) as database:
            found = _import_format(format) if format else detect_database(database)
            if found is None or not found.is_database:
                why = f"{source.name} is a SQLite database without the tables of a supported program."
                hint = f" For the database of another Ralph project: ralph memory merge {source.path}"
                problem = ReadProblem(line=1, why=why + hint)
                return ImportResult(name=source.name, format=UNKNOWN_FORMAT, problems=(problem,))
            project = found.read_project(database, now())
        return self._import_project(project, source.name, found.name, stage=stage)

    def _import_project(self, project: PlannedProject, name: str, form: str, *, stage: bool = False) -> ImportResult:
        """Import tasks, features, memories and passages of sessions that belong together."""
        passages = self._import_passages(project.passages) if project.passages else PassageImport()
        tasks = self._import_tasks(project)
        result = ImportResult(name=name, format=form)
        if project.memories:
            result = self.import_memories(project.memories, name, form, stage=stage)
        return replace(
            result,
            tasks=len(tasks.added),
            features=tasks.features,
            episodes=passages.added,
            known=result.known + tasks.known + passages.known,
            problems=tasks.unreadable,
            note="; ".join(filter(None, (project.note, passages.note))),
        )

    def merge(self, path: Path) -> list[ImportResult]:
        """Import all memories of another project, or of anything else that can be imported."""
        self._actor.require("memory.merge")
        if is_store(path) and not _is_foreign(path):
            with open_copy(path) as other:
                return [self.import_memories(other.memories.history.all_with_history(), str(path), STORE)]
        other_project = self._open_project(path)
        if other_project is None:
            return self.import_path(path)
        try:
            return [self.import_memories(other_project.memories.history.all_with_history(), str(path), STORE)]
        finally:
            other_project.close()

    def _import_lines(
        self, format: FileFormat, lines: Callable[[], Iterable[str]], name: str, *, stage: bool, force: bool
    ) -> ImportResult:
        """Import a file of any size, line by line; a damaged one only with `force`."""
        if not force and (why := format.verify(lines())):
            problem = ReadProblem(line=1, why=why, needs_force=True)
            return ImportResult(name=name, format=format.name, problems=(problem,))
        total = sum(1 for _ in lines()) if is_tracked() else 0
        tracked = track(f"Importing lines of {one_line(name, 40)}", lines(), total)
        return self.import_memories(format.read_lines(tracked), name, format.name, stage=stage)

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
        self._actor.require("memory.import")
        change = ChangeInfo(
            who=self._actor.kind, why=f"imported from {one_line(name, 100)}", id=self._change_id or change_id()
        )
        counts = dict.fromkeys(("added", "merged", "revived", "known", "again", "refused"), 0)
        quarantined = superseded = 0
        added: list[Memory] = []
        unreadable = list(problems)
        if isinstance(items, list | tuple):
            items = track(f"Importing memories of {one_line(name, 40)}", items, len(items))
        for number, batch in enumerate(_batches(items, unreadable)):
            own = [one for one, _ in batch if is_own_estimate(self._store, one)]
            counts["known"] += len(own)
            memories = [one for one, _ in batch]
            unknown = set() if _has_history(form) else unknown_types(self._store, memories)
            unreadable += remarks_on_types(memories, unknown)
            incoming = [
                (self._incoming(with_known_type(memory, unknown), stage, form), events)
                for memory, events in batch
                if memory not in own
            ]
            if (
                number == 0
                and not self._has_backup
                and not self._is_dry_run
                and not self._actor.is_agent  # its imports change nothing that is known, and backups replace others
                and self._memories.index.count_unknown([one for one, _ in incoming]) > BULK
            ):
                self._store.backup(f"before importing {one_line(name, 40)}")
                self._has_backup = bool(self._change_id)
            for one in self._memories.import_memories(incoming, change):
                counts[one.what] += 1
                quarantined += one.what == "added" and one.memory.state is MemoryState.QUARANTINED
                if one.what == "added" and len(added) <= MAX_COMPARED:
                    added.append(one.memory)
        if added and len(added) <= MAX_COMPARED and not _has_history(form):
            from ralph.store.superseded_rules import supersede_in_order

            superseded = supersede_in_order(self._memories, added, change)
        if counts["added"] > IMPORT_BATCH and not self._is_dry_run:
            report_progress("Optimizing the search indexes")
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
            superseded=superseded,
            quarantined=quarantined,
            problems=tuple(unreadable),
            change_id=change.id if counts["added"] or counts["merged"] or counts["revived"] else "",
        )

    def _incoming(self, memory: Memory, stage: bool, form: str) -> Memory:
        """Return a memory as it is stored: active when a person imports it, quarantined when an agent does."""
        if not _has_history(form) and memory.verified_at is None:
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
        format = _writable_format(form)
        found = list(self._memory.list(replace(filter, with_figures=True), oldest=True))
        if format.has_estimates and MemoryState.ACTIVE in filter.states and not filter.tags:
            found += [one for one in estimates_as_learnings(self._store) if _is_asked_for(one, filter)]
        exported = [one for one in found if format.can_express(one)]
        items = self.with_history(exported) if format.has_history else exported
        written = format.write(items, project=self._store.project_name, at=now())
        if format.is_directory:
            files: Iterable[tuple[str, Iterable[str]]] = ((name, [text]) for name, text in written)
        else:
            files = [("", [written] if isinstance(written, str) else written)]
        left_out = sum(not format.can_express(one) for one in found if one.kind != "estimate")
        return ExportResult(files=files, count=len(exported), left_out=left_out)

    def bundle(self, memories: Iterable[tuple[Memory, Sequence[MemoryEvent]]]) -> Iterator[str]:
        """Yield the lines of a bundle of memories with their history."""
        return write_bundle(memories, self._store.project_name, now())

    def with_history(self, memories: Iterable[Memory]) -> Iterator[tuple[Memory, Sequence[MemoryEvent]]]:
        """Yield memories, each with its history."""
        return ((memory, self._memories.history.of(memory.id)) for memory in memories)

    def save(self, exported: ExportResult, form: str, to: Path, *, force: bool = False) -> None:
        """Write an export to a file, or to a directory for formats of many files."""
        format = _writable_format(form)
        files = [(to / name if name else to, "".join(pieces)) for name, pieces in exported.files]
        taken = next((path for path, _ in files if os.path.lexists(path)), None)
        if taken and not force and not format.keeps_backup:
            raise UsageError(f"{taken} already exists. To replace it: --force", code="file-exists")
        try:
            for path, text in files:
                if format.keeps_backup:
                    save_with_backup(format, path, text)
                else:
                    write_atomically(path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise RalphError(f"{to} cannot be written: {error.strerror}.", code="file-unusable") from error


def _has_history(form: str) -> bool:
    """Return whether memories come from a store or a format that keeps everything as it was."""
    return form == STORE or (form in FORMATS and FORMATS[form].has_history)


def _is_asked_for(estimate: Memory, filter: MemoryFilter) -> bool:
    """Return whether an estimate of this project matches a filter."""
    return (
        (not filter.kinds or estimate.kind in filter.kinds)
        and filter.task_type in (None, estimate.task_type)
        and estimate.confidence >= filter.min_confidence
        and filter.after <= estimate.created_at <= (filter.before or "9999")
    )


def save_with_backup(format: FileFormat, path: Path, text: str) -> None:
    """Replace a file atomically, and keep the previous one, as other programs that use these files expect.

    An intact file becomes the backup. A damaged one is saved as `.damaged`, so that a good backup is not overwritten.
    """
    try:
        current = path.read_bytes()
    except FileNotFoundError:
        current = b""
    if current:
        ending = BACKUP_EXTENSION if format.is_intact(current.decode("utf-8", "replace")) else ".damaged"
        write_atomically(path.with_name(path.name + ending), current)
    write_atomically(path.resolve(), text.encode())


def _transcript(name: str, agent: str) -> ImportResult:
    """Return the result for a transcript: chat becomes episodes, never memories."""
    why = f"{name} is a transcript of {READERS[agent].title}. To import it as past work: ralph import {name}"
    return ImportResult(name=name, format=UNKNOWN_FORMAT, problems=(ReadProblem(line=1, why=why),))


def _writable_format(name: str) -> FileFormat:
    if name not in export_formats():
        raise UsageError(f"Unknown export format: {name!r}. Use one of {', '.join(export_formats())}.")
    return FORMATS[name]


def _streamed_format(source: SourceFile, name: str | None) -> FileFormat | None:
    """Return the format of a file that is read line by line; None for all others."""
    if name:
        format = _import_format(name)
        return format if format.is_streamed else None
    sample = FileSample(source.start(), source.name)
    return next((format for format in FORMATS.values() if format.is_streamed and format.detect(sample)), None)


def _usable_backup(source: SourceFile, format: FileFormat | None, text: str) -> str | None:
    """Return the text of the backup of a damaged file, if there is an intact one."""
    if format is not None and (not format.keeps_backup or format.is_intact(text)):
        return None
    backup = source.backup()
    content = backup.text() if backup else ""
    found = detect_format(content, source.name)
    return content if found and found.keeps_backup and found.is_intact(content) else None


def is_store(path: Path) -> bool:
    """Return whether a path is a database file, or a directory that contains one."""
    if path.is_dir():
        return any((path / name).is_file() for name in ("ralph.db", ".ralph/ralph.db"))
    return is_sqlite(path)


def _is_foreign(path: Path) -> bool:
    """Return whether a path is the database of another program that can be imported."""
    if not is_sqlite(path):
        return False
    with suppress(UsageError), open_foreign(path) as database:
        return detect_database(database) is not None
    return False


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


def _import_format(name: str) -> FileFormat:
    known = import_formats()
    if name not in known:
        raise UsageError(f"Unknown format: {name!r}. Use one of: {', '.join(known)}.", code="unknown-format")
    return FORMATS[name]
