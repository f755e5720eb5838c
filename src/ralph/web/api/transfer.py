"""Endpoints for importing and exporting memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, convert

from ralph.core.records import replace
from ralph.formats.registry import FORMATS, UNKNOWN_FORMAT, export_formats, import_formats
from ralph.project import Project
from ralph.web.api.filters import MemoryFilters, memory_filter_from, selected_project
from ralph.web.endpoints import EndpointGroup, Listing, RawResponse, RequestBody
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    ImportFormat: TypeAlias = str
    ExportFormat: TypeAlias = str
else:
    ImportFormat = Literal[(*(name for name in import_formats() if not FORMATS[name].is_database), UNKNOWN_FORMAT)]
    ExportFormat = Literal[tuple(name for name in export_formats() if not FORMATS[name].is_directory)]

calls = EndpointGroup("memories")

MAX_IMPORT_NAME_CHARS = 200
"""Maximum length of a file name, in characters."""


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
    pinned_at: str | None = None
    """Not imported: what every prompt tells is for the people of a project to decide."""
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


class MemoryImportSummary(Struct, kw_only=True):
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
    superseded: int
    """Number of memories that a person deleted here and that stay deleted."""
    quarantined: int
    tasks: int
    """Number of tasks added, if the file contained tasks."""
    features: int
    """Number of features added, if the file was the project of another program."""
    staged: int
    """Number of learnings staged, if the file was the state of a loop."""
    change_id: str
    """ID of the change for undo; empty if nothing changed."""
    note: str
    problems: list[ImportProblem]


_COUNTS = (
    "new",
    "merged",
    "revived",
    "known",
    "again",
    "refused",
    "superseded",
    "quarantined",
    "tasks",
    "features",
    "staged",
)


class ExportQuery(MemoryFilters):
    """Filters and format of an export."""

    format: Annotated[
        ExportFormat,
        Meta(description="`json` is the published format, version 1; the others are text. `bundle` has the history."),
    ] = "json"


@calls.get("/api/projects/{project}/memories/export", response_type=MemoryExport, text_types=("text/plain",))
def export_memories(project: Project, name: str, query: ExportQuery) -> RawResponse:
    """Export all matching memories, oldest first.

    Fields that a format does not support are left out; json and bundle support all of them.
    """
    target = selected_project(project, name)
    filters = memory_filter_from(target, query)
    if not query.state:
        filters = replace(filters, states=FORMATS[query.format].exported_states)
    exported = target.transfer.export(query.format, filters)
    text = "".join(chunk for _, chunks in exported.files for chunk in chunks)
    return RawResponse(text=text.encode("utf-8", "replace"), is_text=query.format != "json")


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


@calls.post("/api/projects/{project}/memories/import")
def import_memories(project: Project, name: str, body: MemoryImportRequest) -> MemoryImportSummary:
    """Import memories from a file of any supported format; importing it again changes nothing."""
    form = None if body.format == UNKNOWN_FORMAT else body.format
    result = selected_project(project, name).transfer.import_text(
        body.text, body.name, stage=body.stage, force=body.force, format=form
    )
    summary = convert(result, MemoryImportSummary, from_attributes=True)
    if result.problems and not any(getattr(summary, name) for name in _COUNTS):
        problem = result.problems[0]
        hint = " Set `force` to import it anyway." if problem.needs_force else ""
        raise InvalidValueError(f"text: {problem.why}{hint}")
    return summary
