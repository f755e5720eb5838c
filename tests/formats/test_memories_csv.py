from __future__ import annotations

import csv
import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource
from ralph.formats.imported import imported_memory
from ralph.formats.memories_csv import read_memories_csv, write_memories_csv
from ralph.formats.planned import ReadProblem
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"


def one(text: str) -> Memory:
    """Read a single memory that nothing is wrong with."""
    memories, problems = read_memories_csv(text, AT)
    assert problems == ()
    assert len(memories) == 1
    return memories[0]


# --- reading -------------------------------------------------------------------------


def test_a_row_is_read_by_the_header_in_any_order() -> None:
    found = one(
        "title,content,colour,tags,useCount,id,type,confidence,successRate,createdAt,files,source,taskType\n"
        '"Cents, always","Prices are\nin cents.",red,"Money, api",5,mem-1,Pattern,0.85,1,2026-03-01T08:00:00Z,'
        '"src/a.py,src/b.py",automatic,feature\n'
    )

    assert found == Memory(
        id="mem-1",
        kind="pattern",
        title="Cents, always",
        content="Prices are\nin cents.",
        tags=("money", "api"),
        files=("src/a.py", "src/b.py"),
        task_type="feature",
        source=MemorySource.AUTOMATIC,
        confidence=0.85,
        success_rate=1.0,
        uses=5,
        created_at="2026-03-01T08:00:00.000Z",
        updated_at="2026-03-01T08:00:00.000Z",
    )


@pytest.mark.parametrize(
    "header", ["type,content", "kind,body", "category,Content", " TYPE , Body ", "\ufefftype,content"]
)
def test_columns_have_other_names_too(header: str) -> None:
    found = one(f"{header}\r\nfix,Restart it.\r\n")

    assert (found.kind, found.title, found.content, found.confidence) == ("fix", "Restart it", "Restart it.", 0.7)


def test_columns_in_snake_case_are_known() -> None:
    found = one(
        "type,content,task_type,success_rate,use_count,created_at,file_refs\nfix,a,feature,0.5,3,2026-03-01,a.py"
    )

    assert (found.task_type, found.success_rate, found.uses, found.files) == ("feature", 0.5, 3, ("a.py",))
    assert found.created_at == "2026-03-01T00:00:00.000Z"


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_separate_cells_as_well(delimiter: str) -> None:
    assert one(f"type{delimiter}content\nfix{delimiter}a, b").content == "a, b"


def test_short_and_blank_rows_are_no_trouble() -> None:
    memories, problems = read_memories_csv("type,content,tags,id\n\nfix,a\n,,,\nfix,b,,,,\n", AT)

    assert problems == ()
    assert [memory.content for memory in memories] == ["a", "b"]


def test_nothing_is_read_from_nothing() -> None:
    assert read_memories_csv("", AT) == ((), ())
    assert read_memories_csv("\n\n", AT) == ((), ())


def test_a_table_without_content_is_one_problem() -> None:
    text = "id,type,taskType,confidence,successRate,useCount,createdAt\n" + "learn-1,strategy,feature,1,1,0,2026\n" * 9

    assert read_memories_csv(text, AT) == (
        (),
        (ReadProblem(line=1, why="Nothing imported: the table has no column `content`."),),
    )


def test_a_text_that_is_no_table_is_one_problem() -> None:
    _, problems = read_memories_csv("\nRestart it, then wait.\nAnd so on.", AT)

    assert problems == (
        ReadProblem(line=2, why="Nothing imported: the table has no column `type` and no column `content`."),
    )


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("fix,,,", "it has no content"),
        ('fix," ",,', "it has no content"),
        (",a,,", "it has no type"),
        ("fix,a,nan,", "its confidence is not a number from 0 to 1"),
        ("fix,a,7,", "its confidence is not a number from 0 to 1"),
        ("fix,a,,-1", "its use count is not a non-negative integer"),
        ("fix,a,,,extra", "it has more cells than the header"),
        (f"fix,{'a' * 110_000},,", "it has 110,000 characters, and the limit is 100,000"),
    ],
)
def test_an_odd_row_is_one_problem_on_the_line_where_it_starts(row: str, why: str) -> None:
    text = f'type,content,confidence,useCount\nfix,"two\nlines",,\n{row}\nfix,b,,\n'

    memories, problems = read_memories_csv(text, AT)

    assert [memory.content for memory in memories] == ["two\nlines", "b"]
    assert problems == (ReadProblem(line=4, why=f"The row was skipped: {why}."),)


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("{oops", "its structured content is not valid JSON: expecting property name enclosed in double quotes"),
        ("[1]", "its content is not a non-empty object"),
        ("[" * 100_000, "its structured content is not valid JSON: it is nested too deeply"),
    ],
)
def test_structured_content_that_makes_no_sense_is_one_problem(cell: str, why: str) -> None:
    memories, problems = read_memories_csv(f"type,content,structured\nstrategy,a,{cell}\nstrategy,b,\n", AT)

    assert [(memory.content, memory.structured_content) for memory in memories] == [("b", "")]
    assert problems[0].why.startswith(f"The row was skipped: {why}")


@pytest.mark.slow
def test_a_cell_of_ten_megabytes_is_a_sentence() -> None:
    started = time.process_time()

    memories, problems = read_memories_csv('type,content\nfix,a\nfix,"' + "x\n" * 5 * 10**6 + '"\nfix,b\n', AT)

    assert [memory.content for memory in memories] == ["a"]
    assert problems == (
        ReadProblem(line=3, why="Skipped this row and all after it: a cell has more than 131,072 characters."),
    )
    assert read_memories_csv("x" * 10**7, AT)[1][0].line == 1
    assert time.process_time() - started < 5


# --- writing -------------------------------------------------------------------------


def test_the_columns_of_the_original_come_first() -> None:
    memory = imported_memory(
        kind="fix", title="Restart", content="Restart it.", at=AT, id="mem-1", confidence=1.0, tags=("a", "b")
    )

    assert write_memories_csv([memory]) == (
        "id,type,taskType,confidence,successRate,useCount,createdAt,title,content,tags,files,source,structured\n"
        'mem-1,fix,,1,,0,2026-05-01T00:00:00.000Z,Restart,Restart it.,"a,b",,imported,\n'
    )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "'=1", "''-x"])
def test_a_cell_that_looks_like_a_formula_is_disarmed_and_comes_back(text: str) -> None:
    written = write_memories_csv([a_memory(text, "x" + text, kind="fix")])

    cells = list(csv.reader(io.StringIO(written)))[1]
    assert cells[7] == f"'{text}"
    assert cells[8] == "x" + text
    assert one(written).title == text.strip()


@pytest.mark.parametrize("text", ["'quoted'", "it's", "a=b", "'", "''"])
def test_other_apostrophes_are_left_alone(text: str) -> None:
    written = write_memories_csv([a_memory(text, text, kind="fix")])

    assert list(csv.reader(io.StringIO(written)))[1][8] == text
    assert one(written).content == text


MOMENTS = st.datetimes().map(lambda one: one.isoformat(timespec="milliseconds") + "Z")
SHARES = st.floats(0, 1)
WORDS = st.text("abc ü\n;,\"\\'=+-@\t\u2028", min_size=1, max_size=20).map(lambda text: f"{text}x".strip())
IDS = st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True)
NAMES = st.text("abc=+-@'1", min_size=1, max_size=10)


@st.composite
def listed(draw: st.DrawFn) -> Memory:
    return imported_memory(
        kind=draw(st.sampled_from(["pattern", "fix", "own thing"])),
        title=draw(NAMES),
        content=draw(WORDS),
        at=AT,
        id=draw(IDS),
        confidence=draw(SHARES),
        tags=tuple(draw(st.lists(NAMES, unique=True, max_size=3))),
        files=tuple(draw(st.lists(NAMES, unique=True, max_size=3))),
        source=draw(st.sampled_from(MemorySource)),
        uses=draw(st.integers(0, 10**9 - 1)),
        created_at=draw(MOMENTS),
        success_rate=draw(st.none() | SHARES),
        task_type=draw(st.none() | NAMES),
        structured_content=draw(st.sampled_from(["", '{"description":"ü, \\"x\\"\\n","tiny":1e-7}'])),
    )


@settings(max_examples=30)
@given(st.lists(listed(), max_size=3))
def test_memories_come_back_as_they_were_written(memories: list[Memory]) -> None:
    found, problems = read_memories_csv(write_memories_csv(memories), AT)

    assert problems == ()
    assert list(found) == memories
