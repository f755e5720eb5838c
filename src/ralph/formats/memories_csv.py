"""Read and write memories as a table: CSV with a header.

A spreadsheet runs what begins like a formula, so such a cell is written with an
apostrophe before it, which is taken off again when it is read.
"""

from __future__ import annotations

import re

from ralph.formats.imported import (
    InvalidEntryError,
    count_of,
    id_of,
    imported,
    kind_of,
    moment_of,
    paths_of,
    read_entries,
    share_of,
    tags_of,
)
from ralph.formats.js_json import dumps, loads, number
from ralph.formats.learnings_json import structured
from ralph.formats.planned import Unreadable, unify_newlines
from ralph.memory.learning import content_of
from ralph.records import Source
from ralph.text import accept, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ralph.formats.imported import Reading
    from ralph.records import Memory

COLUMNS: dict[str, Callable[[Memory], str]] = {
    "id": lambda memory: memory.id,
    "type": lambda memory: memory.kind,
    "taskType": lambda memory: memory.task_type or "",
    "confidence": lambda memory: number(memory.confidence),
    "successRate": lambda memory: "" if memory.success_rate is None else number(memory.success_rate),
    "useCount": lambda memory: str(memory.uses),
    "createdAt": lambda memory: memory.created_at,
    "title": lambda memory: memory.title,
    "content": lambda memory: memory.body or memory.title,
    "tags": lambda memory: ",".join(memory.tags),
    "files": lambda memory: ",".join(memory.files),
    "source": lambda memory: memory.source,
    "structured": lambda memory: dumps(content_of(memory)) if memory.content else "",
}
"""What stands in each cell, by the name of its column."""
NEEDED = ("type", "content")
OTHER_NAMES = {
    "body": "content",
    "kind": "type",
    "category": "type",
    "filerefs": "files",
    "structuredcontent": "structured",
}
"""As they are compared: lower case, letters only."""

_NAMES = {name.lower(): name for name in COLUMNS}
_FORMULA = re.compile(r"'*+[=+\-@\t\r]")
_APOSTROPHE = re.compile(r"'++[=+\-@\t\r]")


# --- reading -------------------------------------------------------------------


def read_memories_csv(text: str, at: str) -> Reading:
    """Give the memories of a table, and what could not be read; `at` is the present moment, for what is undated."""
    cut_off: list[Unreadable] = []
    rows = _rows(unify_newlines(text), cut_off)
    header = next(rows, None)
    if header is None:
        return (), tuple(cut_off)
    names = _names(header[1])
    if missing := [name for name in NEEDED if name not in names]:
        why = f"The table has no column `{'` and no column `'.join(missing)}`; no memory can be read from it."
        return (), (Unreadable(line=header[0], why=why),)
    memories, problems = read_entries(rows, lambda cells: _memory(_named(cells, names), at), "The row")
    return memories, (*problems, *cut_off)


def _rows(text: str, cut_off: list[Unreadable]) -> Iterator[tuple[int, list[str]]]:
    """Give every row that is not blank, after the line it starts on; what ends the reading early goes to `cut_off`."""
    import csv
    import io

    # Python's limit is for the whole process, so it is left as it is.
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text))
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error:
        why = f"A cell has more than {csv.field_size_limit():,} characters; from this row on nothing is read."
        cut_off.append(Unreadable(line=line, why=why))


def _delimiter(text: str) -> str:
    """Give what separates the cells of the first line: some spreadsheets write semicolons or tabs."""
    first = text.lstrip("\n")[:1000].partition("\n")[0]
    return max(",;\t", key=first.count)


def _names(header: list[str]) -> list[str]:
    """Give the header with our names for the columns; of two with the same name the first one counts."""
    names: list[str] = []
    for name in map(column_of, header):
        names.append("" if name in names else name)
    return names


def column_of(cell: str) -> str:
    """Give our name for the column that a cell of the header names; empty for one of others."""
    plain = re.sub(r"[ _]", "", cell.strip(" \"'\ufeff").lower())
    return _NAMES.get(OTHER_NAMES.get(plain, plain), "")


def _named(cells: list[str], names: list[str]) -> dict[str, str]:
    if len(cells) > len(names) and any(cells[len(names) :]):
        raise InvalidEntryError("it has more cells than the table has columns")
    return dict(zip(names, map(_plain, cells), strict=False))


def _memory(cells: Mapping[str, str], at: str) -> Memory:
    if not cells.get("content", "").strip():
        raise InvalidEntryError("it has no content")
    source = cells.get("source", "").strip().lower()
    return imported(
        kind=kind_of(cells.get("type")),
        title=cells.get("title", ""),
        body=cells["content"],
        at=at,
        id=id_of(cells.get("id")),
        task_type=one_line(accept(cells.get("taskType", "")), 50) or None,
        confidence=share_of(_number(cells, "confidence"), "confidence"),
        success_rate=share_of(_number(cells, "successRate"), "success rate"),
        uses=count_of(_number(cells, "useCount"), "use count"),
        created_at=moment_of(cells.get("createdAt", "").strip()),
        tags=tags_of(cells.get("tags")),
        files=paths_of(cells.get("files")),
        source=Source(source) if source in tuple(Source) else Source.IMPORTED,
        content=_content(cells.get("structured", "").strip()),
    )


def _content(cell: str) -> str:
    try:
        return dumps(structured(loads(cell))) if cell else ""
    except InvalidEntryError:
        raise
    except ValueError as error:
        raise InvalidEntryError(f"its structured content is not JSON: {error}") from None


def _number(cells: Mapping[str, str], name: str) -> str:
    return cells.get(name, "").strip()[:100]


def _plain(cell: str) -> str:
    return cell[1:] if _APOSTROPHE.match(cell) else cell


# --- writing -------------------------------------------------------------------


def write_memories_csv(memories: Iterable[Memory]) -> str:
    """Give the memories as a table that a spreadsheet opens without running anything in it."""
    import csv
    import io

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    for memory in memories:
        writer.writerow(_guarded(cell(memory)) for cell in COLUMNS.values())
    return table.getvalue()


def _guarded(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell
