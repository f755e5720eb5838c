"""Endpoints for importing and exporting memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ralph.core.paging import Page
from ralph.core.records import Memory, MemoryEvent, now, replace
from ralph.formats.memories_json import EXPORT_VERSION, export_fields
from ralph.formats.registry import FORMATS, UNKNOWN_FORMAT, export_formats, import_formats
from ralph.memory.import_export import ImportResult
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.api.filters import MemoryFilters, memory_filter_from, selected_project
from ralph.web.endpoints import EndpointGroup, Listing, RequestBody, ResponseChunk, encode_json
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    ImportFormat: TypeAlias = str
    ExportFormat: TypeAlias = str
else:
    ImportFormat = Literal[(*import_formats(), UNKNOWN_FORMAT)]
    ExportFormat = Literal[tuple(name for name in export_formats() if not FORMATS[name].is_directory)]

calls = EndpointGroup("memories")

MAX_IMPORT_NAME_CHARS = 200
"""Maximum length of a file name, in characters."""
EXPORT_CHUNK_SIZE = 500
"""Number of memories exported at a time."""


class ExportedMemory(Struct, kw_only=True, omit_defaults=True):
    """Memory in the published export format; fields beyond version 1 are omitted if empty."""

    id: str
    type: str
    title: str
    content: str
    confidence: float
    tags: tuple[str, ...]
    file_refs: tuple[str, ...]
    created_by_hat: str | None
    source: str
    use_count: int
    created_at: str | None = None
    updated_at: str | None = None
    last_used_at: str | None = None
    verified_at: str | None = None
    validated_at: str | None = None
    success_rate: float | None = None
    support: int | None = None
    """Number of times it was learned, if more than once."""
    task_type: str | None = None
    feature: str | None = None
    structured_content: Any = None
    source_loops: tuple[str, ...] | None = None
    state: str | None = None
    """State; omitted if active."""
    state_reason: str | None = None
    superseded_by: str | None = None


class MemoryExport(Struct):
    """Memories in the published export format, version 1."""

    version: int
    project: str
    exported_at: str
    memories: list[ExportedMemory]


class MemoryImportRequest(RequestBody):
    """File to import."""

    text: Annotated[str, Meta(min_length=1, description="Contents of the file: JSON, CSV, Markdown, …")]
    name: Annotated[str, Meta(max_length=MAX_IMPORT_NAME_CHARS, description="Name of the file.")] = "import"
    stage: Annotated[bool, Meta(description="Stage the memories for review.")] = False
    format: Annotated[ImportFormat, Meta(description="`unknown` detects the format.")] = UNKNOWN_FORMAT
    force: Annotated[bool, Meta(description="Import despite a checksum mismatch.")] = False


class ImportProblem(Struct):
    """Part of the file that was skipped or interpreted."""

    line: int
    why: str


class ImportSummary(Struct, kw_only=True):
    """Result of an import."""

    name: str
    format: str
    new: int
    merged: int
    revived: int
    known: int
    again: int
    """Number of duplicates within the file."""
    refused: int
    """Number of memories that a person deleted here and that stay deleted."""
    quarantined: int
    tasks: int
    """Number of tasks added, if the file contained tasks."""
    staged: int
    """Number of learnings staged, if the file was the state of a loop."""
    change_id: str
    """ID of the change for undo; empty if nothing changed."""
    note: str
    problems: list[ImportProblem]


_COUNTS = ("new", "merged", "revived", "known", "again", "refused", "quarantined", "tasks", "staged")


class ExportQuery(MemoryFilters):
    """Filters and format of an export."""

    format: Annotated[
        ExportFormat,
        Meta(description="`json` is the published format, version 1; the others are text. `bundle` has the history."),
    ] = "json"


@calls.get("/api/projects/{project}/memories/export", response_type=MemoryExport, may_be_text=True)
def export_memories(project: Project, name: str, query: ExportQuery) -> ResponseChunk:
    """Export all matching memories, oldest first.

    A large export is not a snapshot: each memory is read when it is sent, so that writers need not wait. Fields that a
    format does not support are left out; json and bundle support all of them.
    """
    target = selected_project(project, name)
    if query.format == "json":
        about = MemoryExport(EXPORT_VERSION, target.store.project_name, now(), [])
        return _export_piece(project, name, query, encode_json(about).removesuffix(b"]}"), None)
    if query.format == "bundle":
        return _Bundle(target, name, query).piece(project)
    exported = target.transfer.export(query.format, _filters(target, query))
    text = "".join(piece for _, pieces in exported.files for piece in pieces)
    return ResponseChunk(text=text.encode("utf-8", "replace"), next_chunk=None, is_text=True)


def _filters(target: Project, query: ExportQuery) -> MemoryFilter:
    filters = memory_filter_from(target, query)
    return filters if query.state else replace(filters, states=FORMATS[query.format].exported_states)


class _Bundle:
    """Bundle that is exported piece by piece, in changing threads."""

    def __init__(self, target: Project, name: str, query: ExportQuery) -> None:
        self._project = target
        self._name = name
        self._query = query
        self._lines = target.transfer.bundle(self._memories())

    def _memories(self) -> Iterator[tuple[Memory, Sequence[MemoryEvent]]]:
        position = None
        while True:
            found = self._project.memory.list(
                _filters(self._project, self._query), Page(limit=EXPORT_CHUNK_SIZE, after=position), oldest=True
            )
            position = found.next
            for one in found:
                # A store belongs to one thread, and the next memory may be read in another one.
                yield from self._project.transfer.with_history([one])
            if position is None:
                return

    def piece(self, project: Project) -> ResponseChunk:
        """Return the next lines."""
        self._project = selected_project(project, self._name)
        lines = [line.encode("utf-8", "replace") for line in islice(self._lines, EXPORT_CHUNK_SIZE)]
        return ResponseChunk(
            text=b"".join(lines), next_chunk=self.piece if len(lines) == EXPORT_CHUNK_SIZE else None, is_text=True
        )


class KnowledgeFile(Struct):
    """Knowledge entry as a file."""

    name: str
    text: str


@calls.get("/api/projects/{project}/memories/export/knowledge")
def export_knowledge(project: Project, name: str, query: MemoryFilters) -> Listing[KnowledgeFile]:
    """Export knowledge entries as Markdown files, oldest first."""
    target = selected_project(project, name)
    exported = target.transfer.export("knowledge", memory_filter_from(target, query))
    return Listing([KnowledgeFile(name=name, text="".join(pieces)) for name, pieces in exported.files])


def _export_piece(
    project: Project, name: str, query: MemoryFilters, before: bytes, after: tuple[str, str] | None
) -> ResponseChunk:
    """Return the next memories of an export after a position."""
    target = selected_project(project, name)
    found = target.memory.list(
        memory_filter_from(target, query), Page(limit=EXPORT_CHUNK_SIZE, after=after), oldest=True
    )
    text = before + b",".join(encode_json(ExportedMemory(**export_fields(one))) for one in found)  # type: ignore[arg-type]
    if found.next is None:
        return ResponseChunk(text=text + b"]}", next_chunk=None)
    return ResponseChunk(text=text, next_chunk=lambda project: _export_piece(project, name, query, b",", found.next))


@calls.post("/api/projects/{project}/memories/import")
def import_memories(project: Project, name: str, body: MemoryImportRequest) -> ImportSummary:
    """Import memories from a file of any supported format; importing it again changes nothing."""
    form = None if body.format == UNKNOWN_FORMAT else body.format
    result = selected_project(project, name).transfer.import_text(
        body.text, body.name, stage=body.stage, force=body.force, format=form
    )
    counts = {one: getattr(result, one) for one in _COUNTS}
    if result.problems and not any(counts.values()):
        problem = result.problems[0]
        hint = " Set `force` to import it anyway." if problem.needs_force else ""
        raise InvalidValueError(f"text: {problem.why}{hint}")
    return _outcome(result, counts)


def _outcome(result: ImportResult, counts: dict[str, int]) -> ImportSummary:
    return ImportSummary(
        name=result.name,
        format=result.format,
        change_id=result.change_id,
        note=result.note,
        problems=[ImportProblem(line=one.line, why=one.why) for one in result.problems],
        **counts,
    )
