"""Reader and writer of memories as CSV with a header.

Spreadsheets execute cells that look like formulas, so such cells are written with a leading apostrophe, which is
removed when they are read.
"""

from __future__ import annotations

import csv
import io
import re

from ralph.core.records import MemorySource
from ralph.core.text import one_line, sanitize
from ralph.formats.imported import (
    InvalidEntryError,
    convert_entries,
    imported_memory,
    parse_count,
    parse_id,
    parse_paths,
    parse_ratio,
    parse_tags,
    parse_timestamp,
)
from ralph.formats.js_json import dumps, format_number, loads
from ralph.formats.learnings_json import clean_content
from ralph.formats.planned import ReadProblem, unify_newlines
from ralph.memory.lifecycle.learnings import structured_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ralph.core.records import Memory
    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

CSV_COLUMNS: dict[str, Callable[[Memory], str]] = {
    "id": lambda memory: memory.id,
    "type": lambda memory: memory.kind,
    "taskType": lambda memory: memory.task_type or "",
    "confidence": lambda memory: format_number(memory.confidence),
    "successRate": lambda memory: "" if memory.success_rate is None else format_number(memory.success_rate),
    "useCount": lambda memory: str(memory.uses),
    "createdAt": lambda memory: memory.created_at,
    "title": lambda memory: memory.title,
    "content": lambda memory: memory.content or memory.title,
    "tags": lambda memory: ",".join(memory.tags),
    "files": lambda memory: ",".join(memory.files),
    "source": lambda memory: memory.source,
    "structured": lambda memory: dumps(structured_content(memory)) if memory.structured_content else "",
}
"""Function that returns the cell of a memory, by column name."""
REQUIRED_COLUMNS = ("type", "content")
"""Required columns."""
COLUMN_ALIASES = {
    "body": "content",
    "kind": "type",
    "category": "type",
    "filerefs": "files",
    "structuredcontent": "structured",
}
"""Aliases of column names, in lower case and without separators."""

MAX_HEADER_CHARS = 4000
"""Number of characters of the first line that are inspected."""
MAX_COLUMNS = 100
"""Maximum number of columns of a table."""
MAX_COLUMN_CHARS = 30
"""Maximum length of a column name, in characters."""
MIN_KNOWN_COLUMNS = 3
"""Number of known columns from which a table counts as memories, whatever other columns it has."""

_COLUMN_BY_LOWER = {name.lower(): name for name in CSV_COLUMNS}
_FORMULA = re.compile(r"'*+[=+\-@\t\r]")
_ESCAPED_FORMULA = re.compile(r"'++[=+\-@\t\r]")


# --- reading -------------------------------------------------------------------


def is_memories_csv(sample: FileSample) -> bool:
    """Return whether the first line is a header with columns of memories."""
    if sample.is_json:
        return False
    header = sample.text.lstrip("\n")[:MAX_HEADER_CHARS].partition("\n")[0]
    columns = [column.strip(" \"'") for column in header.split(_delimiter(header))]
    if not 1 < len(columns) <= MAX_COLUMNS or any(not 0 < len(column) <= MAX_COLUMN_CHARS for column in columns):
        return False
    known = sum(bool(canonical_column(column)) for column in columns)
    return known >= MIN_KNOWN_COLUMNS or known == len(columns)


def read_memories_csv(text: str, at: str) -> Reading:
    """Return the memories and the problems of a CSV text; `at` is the current time, for rows without a date."""
    fatal: list[ReadProblem] = []
    rows = _rows(unify_newlines(text), fatal)
    header = next(rows, None)
    if header is None:
        return (), tuple(fatal)
    names = _column_names(header[1])
    if missing := [name for name in REQUIRED_COLUMNS if name not in names]:
        why = f"Nothing imported: the table has no column `{'` and no column `'.join(missing)}`."
        return (), (ReadProblem(line=header[0], why=why),)
    memories, problems = convert_entries(rows, lambda cells: _memory(_by_column(cells, names), at), "The row")
    return memories, (*problems, *fatal)


def _rows(text: str, fatal: list[ReadProblem]) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of every row that is not blank; append a fatal problem to `fatal`."""
    # csv.field_size_limit() is global to the process, so it is not changed here.
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text))
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error:
        why = f"Skipped this row and all after it: a cell has more than {csv.field_size_limit():,} characters."
        fatal.append(ReadProblem(line=line, why=why))


def _delimiter(text: str) -> str:
    """Return the delimiter of the first line; some spreadsheets use semicolons or tabs."""
    first = text.lstrip("\n")[:1000].partition("\n")[0]
    return max(",;\t", key=first.count)


def _column_names(header: list[str]) -> list[str]:
    """Return our column names for a header, with empty strings for unknown and duplicate columns."""
    names: list[str] = []
    for name in map(canonical_column, header):
        names.append("" if name in names else name)
    return names


def canonical_column(cell: str) -> str:
    """Return our column name for a header cell, or an empty string if it is unknown."""
    plain = re.sub(r"[ _]", "", cell.strip(" \"'\ufeff").lower())
    return _COLUMN_BY_LOWER.get(COLUMN_ALIASES.get(plain, plain), "")


def _by_column(cells: list[str], names: list[str]) -> dict[str, str]:
    if len(cells) > len(names) and any(cells[len(names) :]):
        raise InvalidEntryError("it has more cells than the header")
    return dict(zip(names, map(_unescape_formula, cells), strict=False))


def _memory(cells: Mapping[str, str], at: str) -> Memory:
    if not cells.get("content", "").strip():
        raise InvalidEntryError("it has no content")
    source = cells.get("source", "").strip().lower()
    return imported_memory(
        kind=cells.get("type", ""),
        title=cells.get("title", ""),
        content=cells["content"],
        at=at,
        id=parse_id(cells.get("id")),
        task_type=one_line(sanitize(cells.get("taskType", "")), 50) or None,
        confidence=parse_ratio(_number(cells, "confidence"), "confidence"),
        success_rate=parse_ratio(_number(cells, "successRate"), "success rate"),
        uses=parse_count(_number(cells, "useCount"), "use count"),
        created_at=parse_timestamp(cells.get("createdAt", "").strip()),
        tags=parse_tags(cells.get("tags")),
        files=parse_paths(cells.get("files")),
        source=MemorySource(source) if source in tuple(MemorySource) else MemorySource.IMPORTED,
        structured_content=_content(cells.get("structured", "").strip()),
    )


def _content(cell: str) -> str:
    try:
        return dumps(clean_content(loads(cell))) if cell else ""
    except InvalidEntryError:
        raise
    except ValueError as error:
        raise InvalidEntryError(f"its structured content is not valid JSON: {error}") from None


def _number(cells: Mapping[str, str], name: str) -> str:
    return cells.get(name, "").strip()[:100]


def _unescape_formula(cell: str) -> str:
    return cell[1:] if _ESCAPED_FORMULA.match(cell) else cell


# --- writing -------------------------------------------------------------------


def write_memories_csv(memories: Iterable[Memory]) -> str:
    """Return the memories as CSV that is safe to open in a spreadsheet."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for memory in memories:
        writer.writerow(_escape_formula(cell(memory)) for cell in CSV_COLUMNS.values())
    return table.getvalue()


def _escape_formula(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell
