"""Format detection, and a reader of memory files in any supported format.

The format is detected from the content. The file name only decides between two possible formats, because people rename
files, and backups end in `.bak`.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum

from ralph.core.text import accept
from ralph.formats.bundle import is_bundle
from ralph.formats.planned import Unreadable, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.formats.imported import Reading
    from ralph.formats.learnings_json import LearningsFile
    from ralph.formats.notes_md import Section


class Format(StrEnum):
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


LISTS = {"learnings": Format.LEARNINGS, "staged": Format.STAGING, "memories": Format.MEMORIES_JSON}
"""Format of a JSON file, by the name of the list that has its entries."""
LOOP_FIELDS = frozenset({"loopId", "objective", "currentIteration"})
"""Fields of which a loop state has at least one."""
BY_FORCE = "is imported only with force."
"""End of the message about a file that can be imported with `force`."""
MOST_COLUMNS = 100
"""Maximum number of columns of a table."""
LONGEST_COLUMN = 30
"""Maximum length of a column name, in characters."""
LEAST_KNOWN_COLUMNS = 3
"""Number of known columns from which a table counts as memories, whatever other columns it has."""
TEMPLATE_HEADINGS = frozenset({"memories", "patterns", "decisions", "fixes", "context"})
"""Headings of an empty `memories.md`, in lower case."""
BINARY_SHARE = 0.05
"""Maximum share of control and replacement characters in a text file."""
LOOKED_AT = 100_000
"""Number of characters inspected to detect the format."""
LONGEST_PAGE = 20_000_000
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
    text: str, name: str, at: str, format: Format | None = None, *, force: bool = False
) -> tuple[Format, Reading]:
    """Return the format of a file, its memories and its problems; `name` is used in messages.

    `at` is the current time, for entries without a date. A bundle or learnings file with a wrong checksum is read only
    with `force`.
    """
    detected = format or recognise(text, name)
    return detected, _read(text, name, at, detected, force)


def _read(text: str, name: str, at: str, format: Format, force: bool) -> Reading:
    match format:
        case Format.BUNDLE:
            return _read_bundle(text, force)
        case Format.LEARNINGS | Format.STAGING:
            return _read_learnings(text, at, format, force)
        case Format.KNOWLEDGE:
            return _read_knowledge(text, at)
        case Format.MEMORIES_JSON:
            from ralph.formats.memories_json import read_memories_json

            return read_memories_json(text, at)
        case Format.CSV:
            from ralph.formats.memories_csv import read_memories_csv

            return read_memories_csv(text, at)
        case Format.MEMORIES_MD:
            from ralph.formats.memories_md import read_memories_md

            return read_memories_md(text, at)
        case Format.PROGRESS:
            from ralph.formats.progress_txt import read_progress_txt

            return read_progress_txt(accept(text), at)
        case Format.GUARDRAILS:
            from ralph.formats.guardrails_md import read_guardrails_md

            return read_guardrails_md(accept(text), at)
        case Format.NOTES:
            from ralph.formats.notes_md import read_notes_md

            return read_notes_md(accept(text), at)
        case Format.TASKS:
            return _failure(f"{name} contains tasks. Import them with: ralph task import {name}")
        case Format.LOOP_STATE:
            return _failure(f"{name} is a loop state without memories. Extract learnings with: ralph learn extract")
        case _:
            return _failure(f"{name} is empty." if not text.strip("\ufeff \t\r\n") else f"No memories found in {name}.")


def _failure(why: str) -> Reading:
    return (), (Unreadable(line=1, why=why),)


def _read_bundle(text: str, force: bool) -> Reading:
    from ralph.core.records import Memory
    from ralph.formats.bundle import read_bundle, verify_bundle

    lines = text.split("\n")
    if not force and (why := verify_bundle(lines)):
        return _failure(f"{why} What can be read of it {BY_FORCE}")
    result = list(read_bundle(lines))
    memories = tuple(item for item in result if isinstance(item, Memory))
    return memories, tuple(item for item in result if isinstance(item, Unreadable))


def _read_learnings(text: str, at: str, format: Format, force: bool) -> Reading:
    from ralph.formats.learnings_json import read_learnings_json, read_staging_json

    try:
        result: LearningsFile = (read_staging_json if format is Format.STAGING else read_learnings_json)(text, at)
    except ValueError as error:
        return _failure(str(error))
    if result.is_intact:
        return result.memories, result.problems
    why = "The checksum does not match: the file was changed or damaged after it was written"
    if not force:
        return _failure(f"{why}; it {BY_FORCE}")
    return result.memories, (
        Unreadable(line=1, why=f"{why}. It was imported because of force.", was_read=True),
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


def recognise(text: str, name: str) -> Format:
    """Detect the format of a file from its content."""
    if is_bundle(text[:1000]):
        return Format.BUNDLE
    text = unify_newlines(text)
    if not text.strip() or _is_binary(text) or _MARKUP.match(text):
        return Format.UNKNOWN
    if _JSON.match(text):
        return _detect_json(text)
    if (comments := _COMMENTS.match(text)) and _detect_json(text[comments.end() :]) is Format.TASKS:
        return Format.TASKS
    if _is_table(text):
        return Format.CSV
    return _detect_markdown(text, name)


def _is_binary(text: str) -> bool:
    start = text[:LOOKED_AT]
    control_characters = sum(start.count(mark) for mark in ("\x00", "\ufffd", "\x01", "\x02", "\x03"))
    return "\x00" in start or control_characters > len(start) * BINARY_SHARE


def _detect_json(text: str) -> Format:
    start = len(text) - len(text.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except RecursionError:
        return Format.UNKNOWN
    except ValueError:
        damaged = _LIST.search(text)
        return LISTS[damaged[1]] if damaged else Format.UNKNOWN
    if isinstance(value, dict):
        is_whole_text = not text[end:].strip()
        if is_whole_text and isinstance(value.get("iterations"), list) and not value.keys().isdisjoint(LOOP_FIELDS):
            return Format.LOOP_STATE
        for field, format in LISTS.items():
            if is_whole_text and isinstance(value.get(field), list):
                return format
        return Format.TASKS if _is_task(value) else Format.UNKNOWN
    first = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else None
    if first is None:
        return Format.UNKNOWN
    if _is_memory(first):
        return Format.MEMORIES_JSON
    return Format.TASKS if _is_task(first) else Format.UNKNOWN


def _is_memory(fields: dict[str, Any]) -> bool:
    return ("type" in fields or "kind" in fields) and ("content" in fields or "body" in fields)


def _is_task(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("title"), str) and not _is_memory(fields)


def _is_table(text: str) -> bool:
    """Return whether the first line is a header with columns of memories."""
    from ralph.formats.memories_csv import column_of

    header = text.lstrip("\n").partition("\n")[0][:4000].lower()
    delimiter = max(",;\t", key=header.count)
    columns = [column.strip(" \"'") for column in header.split(delimiter)]
    if not 1 < len(columns) <= MOST_COLUMNS or any(not 0 < len(column) <= LONGEST_COLUMN for column in columns):
        return False
    known = sum(bool(column_of(column)) for column in columns)
    return known >= LEAST_KNOWN_COLUMNS or known == len(columns)


def _detect_markdown(text: str, name: str) -> Format:
    from ralph.formats.guardrails_md import has_list_of_signs, has_signs
    from ralph.formats.notes_md import is_path, is_prose, sections_of

    if _is_knowledge(text):
        return Format.KNOWLEDGE
    if len(text) > LONGEST_PAGE:
        return Format.MEMORIES_MD if _MEMORY_ENTRY.search(text[:LOOKED_AT]) else Format.UNKNOWN
    sections = sections_of(text)
    if _is_memories_md(text, sections):
        return Format.MEMORIES_MD
    if _is_progress(sections, name):
        return Format.PROGRESS
    title = sections[1].heading.lower() if len(sections) > 1 else ""
    is_named_guardrails = "guardrail" in title or "guardrail" in name.lower()
    if has_signs(text) or (is_named_guardrails and has_list_of_signs(text)):
        return Format.GUARDRAILS
    if _is_checklist(sections, name):
        return Format.TASKS
    is_notes = title or is_path(text) or any(map(is_prose, text.split("\n\n")))
    return Format.NOTES if is_notes else Format.UNKNOWN


def _is_knowledge(text: str) -> bool:
    """Return whether the front matter has a title, and tags, a date or a feature."""
    if not text.startswith("---\n"):
        return False
    keys = set()
    for row in text[4:LOOKED_AT].split("\n"):
        if row.rstrip() in ("---", "..."):
            break
        if detected := _KEY.match(row):
            keys.add(detected[1].lower())
    return "title" in keys and not keys.isdisjoint({"tags", "created_at", "feature"})


def _is_memories_md(text: str, sections: list[Section]) -> bool:
    """Return whether the text has entries with memory ids, or is the empty template."""
    headings = [section.heading.lower() for section in sections[1:]]
    if any(heading.startswith("mem-") for heading in headings):
        return True
    if not headings or headings[0] != "memories":
        return False
    is_empty = len(headings) > 1 and not any(section.text() for section in sections)
    return bool(_METADATA.search(text)) or (is_empty and TEMPLATE_HEADINGS.issuperset(headings))


def _is_progress(sections: list[Section], name: str) -> bool:
    """Return whether the text is the progress log of a loop: patterns, and an entry for each iteration."""
    from ralph.formats.progress_txt import is_entry, says_learned

    with_heading = sections[1:]
    title = with_heading[0].heading.lower() if with_heading and with_heading[0].level == 1 else ""
    has_patterns = any("codebase pattern" in section.heading.lower() for section in with_heading)
    entry: Section | None = None
    has_entries = has_learned = False
    for section in with_heading[1:] if title else with_heading:
        if is_entry(section.heading):
            entry = section
        elif entry and section.level <= entry.level:
            entry = None
        has_entries |= entry is not None
        has_learned |= entry is not None and says_learned(section)
    if "progress log" in title or ("progress" in title + name.lower() and (has_entries or has_patterns)):
        return True
    return (has_entries and (has_patterns or has_learned)) or (has_patterns and len(with_heading) == 1)


def _is_checklist(sections: list[Section], name: str) -> bool:
    """Return whether the text is mostly checkboxes, or has some and a name like that of a task file."""
    boxes = others = 0
    for section in sections:
        for _, row, level in section.rows:
            if level == 0 and row.strip():
                is_box = bool(_BOX.match(row))
                boxes += is_box
                others += not is_box
    return boxes > 0 and (boxes >= others or bool(_TASK_NAMES.search(name.replace("\\", "/").rsplit("/", 1)[-1])))
