"""The file formats that can be imported and exported.

Everything that lists formats is derived from `FORMATS`: command-line choices, HTTP enums, detection, import, export and
the table in the documentation. An entry names functions as `module:function`; they are loaded on first use, so that
commands that only list the formats load no parser.
"""

from __future__ import annotations

from ralph.core.records import MemoryState, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal

    from ralph.core.records import Memory
    from ralph.formats.databases import ForeignDatabase
    from ralph.formats.detection import DatabaseSample, FileSample
    from ralph.formats.imported import Reading
    from ralph.formats.planned import PlannedProject

UNKNOWN_FORMAT = "unknown"
"""Name reported for a file of no known format."""


@record
class FileFormat:
    """One file format: how it is recognized, read and written.

    A format without a reader can only be exported, one without a writer only imported.
    """

    name: str
    title: str
    """What the format contains, for the documentation (Markdown)."""
    extensions: tuple[str, ...] = ()
    """Extensions of the files that are imported from a directory."""
    project_paths: tuple[str, ...] = ()
    """Where projects keep files of this format, relative to their root."""
    content: Literal["memories", "tasks", "loop-state", "project", "episodes"] = "memories"
    """What files contain; a project has tasks and features, and may have memories."""
    detector: str = ""
    """Function `(FileSample) -> bool`, of a database `(DatabaseSample) -> bool`.

    Empty if the format is never detected, and has to be named.
    """
    reader: str = ""
    """Function `(text, at) -> Reading`; of a streamed format `(lines) -> items`.

    Of a project or episodes `(text, at) -> PlannedProject`, with a `ForeignDatabase` instead of the text if it is in
    one.
    """
    verifier: str = ""
    """Function `(lines) -> message` that checks the integrity of a streamed format."""
    is_streamed: bool = False
    """Whether files are read line by line, and may be larger than memory."""
    is_database: bool = False
    """Whether files are SQLite databases."""
    writer: str = ""
    """Function `(memories, **options)` that returns a text, or yields names and texts if the export is a directory."""
    writer_options: tuple[Literal["project", "at"], ...] = ()
    """Keyword arguments of the writer: the name of the project, the current time."""
    selector: str = ""
    """Function `(memory) -> bool` that tells which memories the format can express; empty if it can express all."""
    has_history: bool = False
    """Whether the format includes the history; the writer then gets pairs of a memory and its events."""
    is_directory: bool = False
    """Whether an export is a directory of files."""
    is_fallback: bool = False
    """Whether it is only tested for after all other formats."""
    keeps_backup: bool = False
    """Whether the previous version of a file is kept next to it as `.bak`."""
    has_estimates: bool = False
    """Whether the estimates of the project are part of an export; they are computed, not stored."""
    exported_states: tuple[MemoryState, ...] = (MemoryState.ACTIVE,)
    """States that are exported by default."""

    @property
    def is_importable(self) -> bool:
        """Return whether files of this format can be imported."""
        # Tasks and the state of loops are parsed by the services that import them.
        return bool(self.reader) or self.content != "memories"

    def detect(self, sample: FileSample | DatabaseSample) -> bool:
        """Return whether a file has this format; always false if it cannot be imported."""
        return self.is_importable and bool(self.detector) and bool(_load(self.detector)(sample))

    def read(self, text: str, at: str, *, force: bool = False) -> Reading:
        """Return the memories and problems of a file; a damaged file is read only with `force`."""
        memories, problems = _load(self.reader)(text, at)
        refusal = next((problem for problem in problems if problem.needs_force), None)
        if refusal is None:
            return memories, problems
        if not force:
            return (), (refusal,)
        return memories, tuple(
            replace(problem, was_read=True, needs_force=False) if problem.needs_force else problem
            for problem in problems
        )

    def read_project(self, source: str | ForeignDatabase, at: str) -> PlannedProject:
        """Return the tasks, features and memories of the project of another program."""
        project: PlannedProject = _load(self.reader)(source, at)
        return project

    def is_intact(self, text: str) -> bool:
        """Return whether a file can be read and its checksum matches; without a reader, every file is intact."""
        if not self.reader:
            return True
        memories, problems = _load(self.reader)(text, "")
        return not problems or (bool(memories) and not any(problem.needs_force for problem in problems))

    def read_lines(self, lines: Iterable[str]) -> Any:
        """Yield the memories, events and problems of a streamed file."""
        return _load(self.reader)(lines)

    def verify(self, lines: Iterable[str]) -> str:
        """Return what is wrong with a streamed file, or an empty string."""
        return str(_load(self.verifier)(lines)) if self.verifier else ""

    def can_express(self, memory: Memory) -> bool:
        """Return whether a memory can be written in this format."""
        return not self.selector or bool(_load(self.selector)(memory))

    def write(self, memories: Iterable[Any], *, project: str, at: str) -> Any:
        """Return what the writer makes of memories."""
        values = {"project": project, "at": at}
        return _load(self.writer)(memories, **{name: values[name] for name in self.writer_options})


def _load(reference: str) -> Any:
    """Import the function that a reference names."""
    import importlib

    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


_HERE = "ralph.formats."
FORMATS: dict[str, FileFormat] = {
    format.name: format
    for format in (
        FileFormat(
            name="bundle",
            title="everything with its history, as JSON lines with a checksum",
            extensions=(".jsonl",),
            detector=_HERE + "bundle:is_bundle",
            reader=_HERE + "bundle:read_bundle",
            verifier=_HERE + "bundle:verify_bundle",
            is_streamed=True,
            writer=_HERE + "bundle:write_bundle",
            writer_options=("project", "at"),
            has_history=True,
        ),
        FileFormat(
            name="loop-state",
            title="the state of another loop; its learnings are staged",
            extensions=(".json",),
            content="loop-state",
            detector=_HERE + "loop_state:is_loop_state",
        ),
        FileFormat(
            name="learnings",
            title="`ralph-learnings.json`, byte for byte, with its checksum; a damaged file is read from its `.bak`",
            extensions=(".json",),
            project_paths=(".aiwg/knowledge/ralph-learnings.json",),
            detector=_HERE + "learnings_json:is_learnings_json",
            reader=_HERE + "learnings_json:read_learnings_json",
            writer=_HERE + "learnings_json:write_learnings_json",
            selector=_HERE + "learnings_json:is_learning",
            has_estimates=True,
            keeps_backup=True,
        ),
        FileFormat(
            name="staging",
            title="`staging.json`: learnings that wait for review, and rejected ones",
            extensions=(".json",),
            project_paths=(".aiwg/knowledge/staging.json",),
            detector=_HERE + "staging_json:is_staging_json",
            reader=_HERE + "staging_json:read_staging_json",
            writer=_HERE + "staging_json:write_staging_json",
            writer_options=("at",),
            selector=_HERE + "staging_json:is_staged_learning",
            keeps_backup=True,
            exported_states=(MemoryState.STAGED, MemoryState.REJECTED),
        ),
        FileFormat(
            name="json",
            title='the version 1 document: `{"version": 1, "project", "exported_at", "memories": […]}`',
            extensions=(".json",),
            detector=_HERE + "memories_json:is_memories_json",
            reader=_HERE + "memories_json:read_memories_json",
            writer=_HERE + "memories_json:write_memories_json",
            writer_options=("project", "at"),
        ),
        FileFormat(
            name="csv",
            title="one row per memory",
            extensions=(".csv",),
            detector=_HERE + "memories_csv:is_memories_csv",
            reader=_HERE + "memories_csv:read_memories_csv",
            writer=_HERE + "memories_csv:write_memories_csv",
        ),
        FileFormat(
            name="knowledge",
            title="a directory of knowledge files",
            extensions=(".md",),
            project_paths=(".ralph/knowledge",),
            detector=_HERE + "knowledge_md:is_knowledge_md",
            reader=_HERE + "knowledge_md:read_knowledge_md",
            writer=_HERE + "knowledge_md:write_knowledge_files",
            selector=_HERE + "knowledge_md:is_knowledge",
            is_directory=True,
        ),
        FileFormat(
            name="markdown",
            title="`memories.md`: patterns, decisions, fixes and context",
            extensions=(".md",),
            project_paths=(".agent/memories.md", ".ralph/agent/memories.md"),
            detector=_HERE + "memories_md:is_memories_md",
            reader=_HERE + "memories_md:read_memories_md",
            writer=_HERE + "memories_md:write_memories_md",
            selector=_HERE + "memories_md:has_section",
        ),
        FileFormat(
            name="progress",
            title="`progress.txt`: codebase patterns and learnings",
            extensions=(".txt", ".md"),
            project_paths=("progress.txt",),
            detector=_HERE + "progress_txt:is_progress_txt",
            reader=_HERE + "progress_txt:read_progress_txt",
        ),
        FileFormat(
            name="guardrails",
            title='guardrails: "signs" become constraints',
            extensions=(".md",),
            project_paths=("GUARDRAILS.md", ".ralph/guardrails.md"),
            detector=_HERE + "guardrails_md:is_guardrails_md",
            reader=_HERE + "guardrails_md:read_guardrails_md",
        ),
        FileFormat(
            name="beads",
            title="`.beads/issues.jsonl`: issues become tasks, with what blocks them; memories",
            extensions=(".jsonl",),
            project_paths=(".beads/issues.jsonl", ".beads/beads.jsonl"),
            content="project",
            detector=_HERE + "beads_jsonl:is_beads_jsonl",
            reader=_HERE + "beads_jsonl:read_beads_jsonl",
        ),
        FileFormat(
            name="progress-db",
            title="`progress.db` of RefoundAI's ralph: tasks, features and the journal, as the log of its tasks",
            extensions=(".db",),
            project_paths=(".ralph/progress.db",),
            content="project",
            is_database=True,
            detector=_HERE + "progress_db:is_progress_db",
            reader=_HERE + "progress_db:read_progress_db",
        ),
        FileFormat(
            name="claude-mem",
            title="`claude-mem.db` of claude-mem: observations, summaries and prompts of this project become episodes",
            extensions=(".db",),
            content="episodes",
            is_database=True,
            detector=_HERE + "claude_mem:is_claude_mem",
            reader=_HERE + "claude_mem:read_claude_mem",
        ),
        FileFormat(
            name="tasks",
            title="`tasks.jsonl` and checklists become tasks (export: `ralph task list --format jsonl`)",
            extensions=(".jsonl", ".md"),
            content="tasks",
            detector=_HERE + "task_files:is_task_file",
        ),
        FileFormat(
            name="notes",
            title="sections of `CLAUDE.md`, `AGENTS.md` and other notes",
            extensions=(".md", ".txt"),
            is_fallback=True,
            detector=_HERE + "notes_md:is_notes_md",
            reader=_HERE + "notes_md:read_notes_md",
        ),
    )
}
"""All formats by name, in the order in which a file is tested for them."""


def import_formats() -> tuple[str, ...]:
    """Return the names of the formats that can be imported."""
    return tuple(format.name for format in _importable())


def _importable() -> list[FileFormat]:
    return [format for format in FORMATS.values() if format.is_importable]


def export_formats() -> tuple[str, ...]:
    """Return the names of the formats that can be exported."""
    return tuple(format.name for format in FORMATS.values() if format.writer)


def detect_format(text: str, name: str) -> FileFormat | None:
    """Return the format of a file, or None if it is unknown."""
    from ralph.formats.detection import FileSample

    sample = FileSample(text, name)
    if not sample.is_text:
        return None
    candidates = sorted((one for one in FORMATS.values() if not one.is_database), key=lambda one: one.is_fallback)
    return next((format for format in candidates if format.detect(sample)), None)


def import_extensions() -> tuple[str, ...]:
    """Return the extensions of the files that are imported from a directory."""
    return tuple(dict.fromkeys(ending for format in _importable() for ending in format.extensions))


def project_paths() -> Sequence[str]:
    """Return where projects keep files that can be imported."""
    return [path for format in _importable() for path in format.project_paths]


def format_table() -> str:
    """Return all formats as a Markdown table, for the documentation."""
    rows = [
        f"| `{format.name}` | {_yes(format.is_importable)} | {_yes(format.writer)} | {format.title} |"
        for format in FORMATS.values()
    ]
    return "\n".join(["| format | import | export | content |", "|---|---|---|---|", *rows])


def _yes(value: object) -> str:
    return "yes" if value else ""
