"""Memories on their way in from a file and out again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ralph.formats.memories_json import VERSION, export_fields
from ralph.formats.memory_files import Format
from ralph.project import Project
from ralph.records import Memory, MemoryEvent, now, replace
from ralph.server.api.wanted import Filters, chosen, wanted_by
from ralph.server.calls import Body, Calls, Listing, Piece, encode
from ralph.server.problems import InvalidValueError
from ralph.store.known_memories import Wanted
from ralph.transferring import Brought, states_in

calls = Calls("memories")

LONGEST_NAME = 200
A_PIECE = 500
"""So many memories are made ready at a time."""


class ExportedMemory(Struct, kw_only=True, omit_defaults=True):
    """A memory in the published form; beyond version 1 only what there is to say."""

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
    """How often it was learned, if more than once."""
    task_type: str | None = None
    feature: str | None = None
    structured_content: Any = None
    source_loops: tuple[str, ...] | None = None
    state: str | None = None
    """Nothing when it is in use."""
    state_reason: str | None = None
    superseded_by: str | None = None


class MemoryExport(Struct):
    """Memories in the published form, version 1."""

    version: int
    project: str
    exported_at: str
    memories: list[ExportedMemory]


class MemoryImport(Body):
    """A file to take in."""

    text: Annotated[str, Meta(min_length=1, description="What is in it: JSON, CSV, markdown, …")]
    name: Annotated[str, Meta(max_length=LONGEST_NAME, description="What it is called.")] = "import"
    stage: Annotated[bool, Meta(description="Hold the memories back until they are reviewed.")] = False
    format: Annotated[Format, Meta(description="unknown: it is told by what is in it.")] = Format.UNKNOWN
    force: Annotated[bool, Meta(description="Also when a checksum does not match.")] = False


class ImportProblem(Struct):
    """Something that was left out, or read other than it is written."""

    line: int
    why: str


class ImportOutcome(Struct, kw_only=True):
    """What an import came to."""

    name: str
    format: str
    new: int
    merged: int
    revived: int
    known: int
    again: int
    """Said more than once in the file."""
    refused: int
    """A person has deleted them here, so they stay deleted."""
    quarantined: int
    tasks: int
    """Tasks that were added, when the file was one of tasks."""
    staged: int
    """Learnings that were staged, when the file was the state of a loop."""
    change_id: str
    """What undo takes; empty when nothing was changed."""
    note: str
    problems: list[ImportProblem]


_COUNTS = ("new", "merged", "revived", "known", "again", "refused", "quarantined", "tasks", "staged")


class ExportQuery(Filters):
    """Which memories, and in which form."""

    format: Annotated[
        Literal["json", "bundle", "csv", "markdown", "learnings", "staging"],
        Meta(description="json is the published form, version 1; all others come as text. bundle keeps the history."),
    ] = "json"


@calls.get("/api/projects/{project}/memories/export", gives=MemoryExport, or_text=True)
def export_memories(project: Project, name: str, query: ExportQuery) -> Piece:
    """Give the memories in the published form or in another one, oldest first, as a whole.

    Each is as it was when its turn came: a large export takes a while, and nobody waits for it. What a form has no
    place for is left out of it; json and bundle have one for everything.
    """
    of = chosen(project, name)
    if query.format == "json":
        about = MemoryExport(VERSION, of.store.project_name, now(), [])
        return _exported(project, name, query, encode(about).removesuffix(b"]}"), None)
    if query.format == "bundle":
        return _Bundle(of, name, query).piece(project)
    exported = of.transfer.export(query.format, _wanted(of, query))
    text = "".join(piece for _, pieces in exported.files for piece in pieces)
    return Piece(text=text.encode("utf-8", "replace"), then=None, is_text=True)


def _wanted(of: Project, query: ExportQuery) -> Wanted:
    wanted = wanted_by(of, query)
    return wanted if query.state else replace(wanted, states=states_in(query.format))


class _Bundle:
    """A bundle that is made piece by piece, each in the thread that has its turn."""

    def __init__(self, of: Project, name: str, query: ExportQuery) -> None:
        self._of = of
        self._name = name
        self._query = query
        self._lines = of.transfer.bundle(self._memories())

    def _memories(self) -> Iterator[tuple[Memory, Sequence[MemoryEvent]]]:
        place = None
        while True:
            found, place = self._of.memory.page(_wanted(self._of, self._query), A_PIECE, place, oldest=True)
            for one in found:
                # A store belongs to one thread: by the time of the next memory it may be another one's turn.
                yield from self._of.transfer.with_history([one])
            if place is None:
                return

    def piece(self, project: Project) -> Piece:
        """Give the next lines."""
        self._of = chosen(project, self._name)
        lines = [line.encode("utf-8", "replace") for line in islice(self._lines, A_PIECE)]
        return Piece(text=b"".join(lines), then=self.piece if len(lines) == A_PIECE else None, is_text=True)


class KnowledgeFile(Struct):
    """A knowledge entry as the file that is made of it."""

    name: str
    text: str


@calls.get("/api/projects/{project}/memories/export/knowledge")
def export_knowledge(project: Project, name: str, query: Filters) -> Listing[KnowledgeFile]:
    """Give the knowledge entries as files of markdown, oldest first."""
    of = chosen(project, name)
    exported = of.transfer.export("knowledge", wanted_by(of, query))
    return Listing([KnowledgeFile(name=name, text="".join(pieces)) for name, pieces in exported.files])


def _exported(project: Project, name: str, query: Filters, before: bytes, after: tuple[str, str] | None) -> Piece:
    """Give the next memories of an export, from a place on."""
    of = chosen(project, name)
    found, place = of.memory.page(wanted_by(of, query), A_PIECE, after, oldest=True)
    text = before + b",".join(encode(ExportedMemory(**export_fields(one))) for one in found)  # type: ignore[arg-type]
    if place is None:
        return Piece(text=text + b"]}", then=None)
    return Piece(text=text, then=lambda project: _exported(project, name, query, b",", place))


@calls.post("/api/projects/{project}/memories/import")
def import_memories(project: Project, name: str, body: MemoryImport) -> ImportOutcome:
    """Take in memories from a file, whatever its form; once more changes nothing."""
    form = None if body.format is Format.UNKNOWN else body.format
    brought = chosen(project, name).bring(body.text, body.name, stage=body.stage, force=body.force, format=form)
    counts = {one: getattr(brought, one) for one in _COUNTS}
    if brought.problems and not any(counts.values()):
        raise InvalidValueError(f"text: {brought.problems[0].why}")
    return _outcome(brought, counts)


def _outcome(brought: Brought, counts: dict[str, int]) -> ImportOutcome:
    return ImportOutcome(
        name=brought.name,
        format=brought.format,
        change_id=brought.change_id,
        note=brought.note,
        problems=[ImportProblem(line=one.line, why=one.why) for one in brought.problems],
        **counts,
    )
