"""Read and write memories as a table: CSV with a header.

A spreadsheet runs what begins like a formula, so such a cell is written with an
apostrophe before it, which is taken off again when it is read.
"""

from __future__ import annotations

import re

from ralph.formats.imported import (
    NotAMemory,
    count_of,
    id_of,
    imported,
    kind_of,
    moment_of,
    paths_of,
    share_of,
    tags_of,
)
from ralph.formats.js_json import number
from ralph.formats.planned import Unreadable, unify_newlines
from ralph.records import Source
from ralph.text import accept, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ralph.formats.imported import Reading
    from ralph.records import Memory

COLUMNS = (
    "id",
    "type",
    "taskType",
    "confidence",
    "successRate",
    "useCount",
    "createdAt",
    "title",
    "content",
    "tags",
    "files",
    "source",
)
NEEDED = ("type", "content")
OTHER_NAMES = {"body": "content", "kind": "type", "category": "type", "filerefs": "files"}
"""As they are compared: lower case, letters only."""

_FORMULA = re.compile(r"'*+[=+\-@\t\r]")
_APOSTROPHE = re.compile(r"'++[=+\-@\t\r]")


# --- reading -------------------------------------------------------------------


def read_memories_csv(text: str, at: str) -> Reading:
    """Give the memories of a table, and what could not be read; `at` is the present moment, for what is undated."""
    rows = _rows(unify_newlines(text))
    header = next(rows, None)
    if header is None:
        return (), ()
    if isinstance(header, Unreadable):
        return (), (header,)
    names = _names(header[1])
    if missing := [name for name in NEEDED if name not in names]:
        why = f"The table has no column `{'` and no column `'.join(missing)}`; no memory can be read from it."
        return (), (Unreadable(line=header[0], why=why),)
    memories, problems = [], []
    for row in rows:
        if isinstance(row, Unreadable):
            problems.append(row)
            continue
        line, cells = row
        try:
            if len(cells) > len(names) and any(cells[len(names) :]):
                raise NotAMemory("it has more cells than the table has columns")
            memories.append(_memory(dict(zip(names, map(_plain, cells), strict=False)), at))
        except NotAMemory as error:
            problems.append(Unreadable(line=line, why=f"The row is left out: {error}."))
    return tuple(memories), tuple(problems)


def _rows(text: str) -> Iterator[tuple[int, list[str]] | Unreadable]:
    """Give every row that is not blank, after the line it starts on."""
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
        yield Unreadable(line=line, why=why)


def _delimiter(text: str) -> str:
    """Give what separates the cells of the first line: some spreadsheets write semicolons or tabs."""
    first = text.lstrip("\n")[:1000].partition("\n")[0]
    return max(",;\t", key=first.count)


def _names(header: list[str]) -> list[str]:
    """Give the header with our names for the columns; of two with the same name the first one counts."""
    ours = {name.lower(): name for name in COLUMNS}
    names: list[str] = []
    for cell in header:
        plain = re.sub(r"[^a-z]", "", cell.lower())
        name = ours.get(OTHER_NAMES.get(plain, plain), "")
        names.append("" if name in names else name)
    return names


def _memory(cells: Mapping[str, str], at: str) -> Memory:
    if not cells.get("content", "").strip():
        raise NotAMemory("it has no content")
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
    )


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
        writer.writerow(map(_guarded, _cells(memory)))
    return table.getvalue()


def _cells(memory: Memory) -> tuple[str, ...]:
    return (
        memory.id,
        memory.kind,
        memory.task_type or "",
        number(memory.confidence),
        "" if memory.success_rate is None else number(memory.success_rate),
        str(memory.uses),
        memory.created_at,
        memory.title,
        memory.body or memory.title,
        ",".join(memory.tags),
        ",".join(memory.files),
        memory.source,
    )


def _guarded(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell
