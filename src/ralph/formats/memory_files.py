"""Format detection, and a reader of memory files in any supported format.

The format is detected from the content. The file name only decides between two possible formats, because people rename
files, and backups end in `.bak`.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum

from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.text import sanitize
from ralph.formats.bundle import is_bundle
from ralph.formats.planned import ReadProblem, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.formats.imported import Reading
    from ralph.formats.learnings_json import LearningsFile
    from ralph.formats.notes_md import NotesSection


class ImportFormat(StrEnum):
    """Format of a file that can be imported."""

    BUNDLE = "bundle"
    LEARNINGS = "learnings"
    STAGING = "staging"
    MEMORIES_JSON = "json"
    CSV = "csv"
    MEMORIES_MD = "markdown"
    KNOWLEDGE = "knowledge"
    PROGRESS = "progress"
    GUARDRAILS = "guardrails"
    NOTES = "notes"
    TASKS = "tasks"
    LOOP_STATE = "loop-state"
    UNKNOWN = "unknown"


FORMAT_BY_LIST = {
    "learnings": ImportFormat.LEARNINGS,
    "staged": ImportFormat.STAGING,
    "memories": ImportFormat.MEMORIES_JSON,
}
"""Format of a JSON file, by the name of the list that has its entries."""
LOOP_STATE_FIELDS = frozenset({"loopId", "objective", "currentIteration"})
"""Fields of which a loop state has at least one."""
NEEDS_FORCE = "is imported only with force."
"""End of the message about a file that can be imported with `force`."""
MAX_COLUMNS = 100
"""Maximum number of columns of a table."""
MAX_COLUMN_CHARS = 30
"""Maximum length of a column name, in characters."""
MIN_KNOWN_COLUMNS = 3
"""Number of known columns from which a table counts as memories, whatever other columns it has."""
TEMPLATE_HEADINGS = frozenset({"memories", *(one.heading.lower() for one in MEMORY_TYPES.values() if one.file_section)})
"""Headings of an empty `memories.md`, in lower case."""
MAX_BINARY_RATIO = 0.05
"""Maximum share of control and replacement characters in a text file."""
DETECTION_CHARS = 100_000
"""Number of characters inspected to detect the format."""
MAX_NOTES_CHARS = 20_000_000
"""Maximum length of markdown notes, in characters; only `memories.md` may be longer."""

_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[\]{\"])")
_COMMENTS = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)(?=[ \t]*(?:\{[ \t]*\"|\[\s*\{))")
"""Comments above JSON lines of tasks."""
_KEY = re.compile(r"([A-Za-z_]+)[ \t]*:")
_LIST = re.compile(r"\"(learnings|staged|memories)\"\s{0,9}:\s{0,9}\[")
_MARKUP = re.compile(r"\s*<(?:!doctype|\?xml|html|svg)\b", re.IGNORECASE)
_MEMORY_ENTRY = re.compile(r"^### mem-\d", re.MULTILINE)
_METADATA = re.compile(r"^[ \t]*<!--[ \t]*tags:", re.MULTILINE)
_BOX = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[.?\](?:[ \t]|$)")
_TASK_NAMES = re.compile(r"task|todo|plan|prd|checklist|backlog", re.IGNORECASE)


def read_memories(
    text: str, name: str, at: str, format: ImportFormat | None = None, *, force: bool = False
) -> tuple[ImportFormat, Reading]:
    """Return the format of a file, its memories and its problems; `name` is used in messages.

    `at` is the current time, for entries without a date. A bundle or learnings file with a wrong checksum is read only
    with `force`.
    """
    detected = format or detect_format(text, name)
    return detected, _read(text, name, at, detected, force)


def _read(text: str, name: str, at: str, format: ImportFormat, force: bool) -> Reading:
    match format:
        case ImportFormat.BUNDLE:
            return _read_bundle(text, force)
        case ImportFormat.LEARNINGS | ImportFormat.STAGING:
            return _read_learnings(text, at, format, force)
        case ImportFormat.KNOWLEDGE:
            return _read_knowledge(text, at)
        case ImportFormat.MEMORIES_JSON:
            from ralph.formats.memories_json import read_memories_json

            return read_memories_json(text, at)
        case ImportFormat.CSV:
            from ralph.formats.memories_csv import read_memories_csv

            return read_memories_csv(text, at)
        case ImportFormat.MEMORIES_MD:
            from ralph.formats.memories_md import read_memories_md

            return read_memories_md(text, at)
        case ImportFormat.PROGRESS:
            from ralph.formats.progress_txt import read_progress_txt

            return read_progress_txt(sanitize(text), at)
        case ImportFormat.GUARDRAILS:
            from ralph.formats.guardrails_md import read_guardrails_md

            return read_guardrails_md(sanitize(text), at)
        case ImportFormat.NOTES:
            from ralph.formats.notes_md import read_notes_md

            return read_notes_md(sanitize(text), at)
        case ImportFormat.TASKS:
            return _failure(f"{name} contains tasks. Import them with: ralph task import {name}")
        case ImportFormat.LOOP_STATE:
            return _failure(f"{name} is a loop state without memories. Extract learnings with: ralph learn extract")
        case _:
            return _failure(f"{name} is empty." if not text.strip("\ufeff \t\r\n") else f"No memories found in {name}.")


def _failure(why: str) -> Reading:
    return (), (ReadProblem(line=1, why=why),)


def _read_bundle(text: str, force: bool) -> Reading:
    from ralph.core.records import Memory
    from ralph.formats.bundle import read_bundle, verify_bundle

    lines = text.split("\n")
    if not force and (why := verify_bundle(lines)):
        return _failure(f"{why} What can be read of it {NEEDS_FORCE}")
    result = list(read_bundle(lines))
    memories = tuple(item for item in result if isinstance(item, Memory))
    return memories, tuple(item for item in result if isinstance(item, ReadProblem))


def _read_learnings(text: str, at: str, format: ImportFormat, force: bool) -> Reading:
    from ralph.formats.learnings_json import read_learnings_json, read_staging_json

    try:
        result: LearningsFile = (read_staging_json if format is ImportFormat.STAGING else read_learnings_json)(text, at)
    except ValueError as error:
        return _failure(str(error))
    if result.is_intact:
        return result.memories, result.problems
    why = "The checksum does not match: the file was changed or damaged after it was written"
    if not force:
        return _failure(f"{why}; it {NEEDS_FORCE}")
    return result.memories, (
        ReadProblem(line=1, why=f"{why}. It was imported because of force.", was_read=True),
        *result.problems,
    )


def _read_knowledge(text: str, at: str) -> Reading:
    from ralph.formats.imported import InvalidEntryError
    from ralph.formats.knowledge_md import read_knowledge_md

    try:
        return (read_knowledge_md(text, at),), ()
    except InvalidEntryError as error:
        return _failure(f"Nothing imported: {error}.")


# --- format detection ------------------------------------------------------------


def detect_format(text: str, name: str) -> ImportFormat:
    """Detect the format of a file from its content."""
    if is_bundle(text[:1000]):
        return ImportFormat.BUNDLE
    text = unify_newlines(text)
    if not text.strip() or _is_binary(text) or _MARKUP.match(text):
        return ImportFormat.UNKNOWN
    if _JSON.match(text):
        return _detect_json(text)
    if (comments := _COMMENTS.match(text)) and _detect_json(text[comments.end() :]) is ImportFormat.TASKS:
        return ImportFormat.TASKS
    if _is_table(text):
        return ImportFormat.CSV
    return _detect_markdown(text, name)


def _is_binary(text: str) -> bool:
    start = text[:DETECTION_CHARS]
    control_characters = sum(start.count(mark) for mark in ("\x00", "\ufffd", "\x01", "\x02", "\x03"))
    return "\x00" in start or control_characters > len(start) * MAX_BINARY_RATIO


def _detect_json(text: str) -> ImportFormat:
    start = len(text) - len(text.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except RecursionError:
        return ImportFormat.UNKNOWN
    except ValueError:
        damaged = _LIST.search(text)
        return FORMAT_BY_LIST[damaged[1]] if damaged else ImportFormat.UNKNOWN
    if isinstance(value, dict):
        is_whole_text = not text[end:].strip()
        if (
            is_whole_text
            and isinstance(value.get("iterations"), list)
            and not value.keys().isdisjoint(LOOP_STATE_FIELDS)
        ):
            return ImportFormat.LOOP_STATE
        for field, format in FORMAT_BY_LIST.items():
            if is_whole_text and isinstance(value.get(field), list):
                return format
        return ImportFormat.TASKS if _is_task(value) else ImportFormat.UNKNOWN
    first = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else None
    if first is None:
        return ImportFormat.UNKNOWN
    if _is_memory(first):
        return ImportFormat.MEMORIES_JSON
    return ImportFormat.TASKS if _is_task(first) else ImportFormat.UNKNOWN


def _is_memory(fields: dict[str, Any]) -> bool:
    return ("type" in fields or "kind" in fields) and ("content" in fields or "body" in fields)


def _is_task(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("title"), str) and not _is_memory(fields)


def _is_table(text: str) -> bool:
    """Return whether the first line is a header with columns of memories."""
    from ralph.formats.memories_csv import canonical_column

    header = text.lstrip("\n").partition("\n")[0][:4000].lower()
    delimiter = max(",;\t", key=header.count)
    columns = [column.strip(" \"'") for column in header.split(delimiter)]
    if not 1 < len(columns) <= MAX_COLUMNS or any(not 0 < len(column) <= MAX_COLUMN_CHARS for column in columns):
        return False
    known = sum(bool(canonical_column(column)) for column in columns)
    return known >= MIN_KNOWN_COLUMNS or known == len(columns)


def _detect_markdown(text: str, name: str) -> ImportFormat:
    from ralph.formats.guardrails_md import has_any_sign, has_signs
    from ralph.formats.notes_md import is_pointer, is_prose, parse_sections

    if _is_knowledge(text):
        return ImportFormat.KNOWLEDGE
    if len(text) > MAX_NOTES_CHARS:
        return ImportFormat.MEMORIES_MD if _MEMORY_ENTRY.search(text[:DETECTION_CHARS]) else ImportFormat.UNKNOWN
    sections = parse_sections(text)
    if _is_memories_md(text, sections):
        return ImportFormat.MEMORIES_MD
    if _is_progress(sections, name):
        return ImportFormat.PROGRESS
    title = sections[1].heading.lower() if len(sections) > 1 else ""
    is_named_guardrails = "guardrail" in title or "guardrail" in name.lower()
    if has_signs(text) or (is_named_guardrails and has_any_sign(text)):
        return ImportFormat.GUARDRAILS
    if _is_checklist(sections, name):
        return ImportFormat.TASKS
    is_notes = title or is_pointer(text) or any(map(is_prose, text.split("\n\n")))
    return ImportFormat.NOTES if is_notes else ImportFormat.UNKNOWN


def _is_knowledge(text: str) -> bool:
    """Return whether the front matter has a title, and tags, a date or a feature."""
    if not text.startswith("---\n"):
        return False
    keys = set()
    for row in text[4:DETECTION_CHARS].split("\n"):
        if row.rstrip() in ("---", "..."):
            break
        if detected := _KEY.match(row):
            keys.add(detected[1].lower())
    return "title" in keys and not keys.isdisjoint({"tags", "created_at", "feature"})


def _is_memories_md(text: str, sections: list[NotesSection]) -> bool:
    """Return whether the text has entries with memory ids, or is the empty template."""
    headings = [section.heading.lower() for section in sections[1:]]
    if any(heading.startswith("mem-") for heading in headings):
        return True
    if not headings or headings[0] != "memories":
        return False
    is_empty = len(headings) > 1 and not any(section.text() for section in sections)
    return bool(_METADATA.search(text)) or (is_empty and TEMPLATE_HEADINGS.issuperset(headings))


def _is_progress(sections: list[NotesSection], name: str) -> bool:
    """Return whether the text is the progress log of a loop: patterns, and an entry for each iteration."""
    from ralph.formats.progress_txt import announces_learnings, is_iteration_heading

    with_heading = sections[1:]
    title = with_heading[0].heading.lower() if with_heading and with_heading[0].level == 1 else ""
    has_patterns = any("codebase pattern" in section.heading.lower() for section in with_heading)
    entry: NotesSection | None = None
    has_entries = has_learned = False
    for section in with_heading[1:] if title else with_heading:
        if is_iteration_heading(section.heading):
            entry = section
        elif entry and section.level <= entry.level:
            entry = None
        has_entries |= entry is not None
        has_learned |= entry is not None and announces_learnings(section)
    if "progress log" in title or ("progress" in title + name.lower() and (has_entries or has_patterns)):
        return True
    return (has_entries and (has_patterns or has_learned)) or (has_patterns and len(with_heading) == 1)


def _is_checklist(sections: list[NotesSection], name: str) -> bool:
    """Return whether the text is mostly checkboxes, or has some and a name like that of a task file."""
    boxes = others = 0
    for section in sections:
        for _, row, level in section.rows:
            if level == 0 and row.strip():
                is_box = bool(_BOX.match(row))
                boxes += is_box
                others += not is_box
    return boxes > 0 and (boxes >= others or bool(_TASK_NAMES.search(name.replace("\\", "/").rsplit("/", 1)[-1])))
