from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, MemoryState, record_fields
from ralph.formats.imported import imported_memory
from ralph.formats.memories_json import read_memories_json, write_memories_json
from ralph.formats.planned import ReadProblem
from ralph.formats.public_memory import public_fields

AT = "2026-05-01T00:00:00.000Z"

EXPORT = """\
{
  "version": 1,
  "project": "shop",
  "exported_at": "2026-03-01T08:00:00Z",
  "memories": [
    {
      "id": "mem-4711",
      "type": "pattern",
      "title": "Prices are integers",
      "content": "Prices are integers, in cents.\\nSee Money.",
      "confidence": 0.85,
      "tags": ["Money", "api"],
      "file_refs": ["src/billing/*.go"],
      "created_by_hat": "creator",
      "source": "automatic",
      "use_count": 5
    }
  ]
}
"""


def one(**fields: object) -> Memory:
    """Read a single memory that nothing is wrong with."""
    memories, problems = read_memories_json(json.dumps([{"type": "fix", "content": "Restart it.", **fields}]), AT)
    assert problems == ()
    return memories[0]


# --- reading -------------------------------------------------------------------------


def test_an_export_is_read_with_all_that_it_says() -> None:
    memories, problems = read_memories_json(EXPORT, AT)

    assert problems == ()
    assert memories == (
        Memory(
            id="mem-4711",
            kind="pattern",
            title="Prices are integers",
            content="Prices are integers, in cents.\nSee Money.",
            tags=("money", "api"),
            files=("src/billing/*.go",),
            hat="creator",
            source=MemorySource.AUTOMATIC,
            confidence=0.85,
            uses=5,
            created_at=AT,
            updated_at=AT,
        ),
    )


def test_a_bare_list_is_read_too() -> None:
    bare = json.dumps(json.loads(EXPORT)["memories"])

    assert read_memories_json(bare, AT) == read_memories_json(EXPORT, AT)


def test_type_and_content_are_enough() -> None:
    assert one() == Memory(
        id="",
        kind="fix",
        title="Restart it",
        content="Restart it.",
        source=MemorySource.IMPORTED,
        confidence=0.7,
        created_at=AT,
        updated_at=AT,
    )


def test_a_source_nobody_knows_is_an_import() -> None:
    assert one(source="oracle").source is MemorySource.IMPORTED
    assert one(source=["explicit"]).source is MemorySource.IMPORTED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is not valid JSON: expecting value (line 1, column 1)"),
        (EXPORT[:100], "the file is not valid JSON: expecting value (line 6, column 5)"),
        (
            "{" * 100_000,
            "the file is not valid JSON: expecting property name enclosed in double quotes (line 1, column 2)",
        ),
        ("[" * 100_000, "the file is not valid JSON: it is nested too deeply"),
        ("3", "the file has no `memories` list"),
        ('{"memories": {}}', "the file has no `memories` list"),
        ('{"version": 2, "memories": []}', "the export has version '2', but only version 1 is supported"),
        ('{"version": "1.1", "memories": []}', "the export has version '1.1', but only version 1 is supported"),
        ('{"version": true, "memories": []}', "the export has version 'True', but only version 1 is supported"),
    ],
)
def test_what_is_no_such_export_gets_one_sentence(text: str, why: str) -> None:
    assert read_memories_json(text, AT) == ((), (ReadProblem(line=1, why=f"Nothing imported: {why}."),))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("Restart it.", "it is not an object"),
        ({"content": "Restart it."}, "it has no type"),
        ({"type": "fix"}, "it is empty"),
        ({"type": "fix", "content": 3}, "its content is not a string"),
        ({"type": "fix", "content": "a", "title": []}, "its title is not a string"),
        ({"type": "fix", "content": "a", "confidence": 7}, "its confidence is not a number from 0 to 1"),
        ({"type": "fix", "content": "a", "use_count": -1}, "its use count is not a non-negative integer"),
        ({"type": "fix", "content": "a", "tags": {"a": 1}}, "its tags or files are not a list"),
        ({"type": "fix", "content": "a", "tags": ["x" * 10**6]}, "one of its tags or files has 1,000,000 characters"),
        ({"type": "fix", "content": "a", "created_at": "soon"}, "'soon' is not a date"),
        ({"type": "fix", "content": "a", "created_by_hat": 1}, "its created_by_hat is not a string"),
        ({"type": "estimate", "structured_content": []}, "its content is not a non-empty object"),
        ({"type": "fix", "content": "a", "state": "lost"}, "its state 'lost' is not supported"),
        ({"type": "fix", "content": "a", "state": ["active"]}, "its state \"['active']\" is not supported"),
        ({"type": "fix", "content": "a", "support": -1}, "its support is not a non-negative integer"),
        ({"type": "fix", "content": "a", "source_loops": "l"}, "its source loops are not a list of names"),
        ({"type": "fix", "content": "a", "feature": 7}, "its feature is not a string"),
        ({"type": "fix", "content": "x" * 10**6}, "it has 1,000,000 characters, and the limit is 100,000"),
        ({"type": "fix", "content": "a", "success_rate": float("nan")}, "its success rate is not a number from 0 to 1"),
    ],
)
def test_an_odd_entry_is_one_problem_and_the_others_are_read(entry: object, why: str) -> None:
    sound = {"type": "fix", "content": "Restart it."}

    memories, problems = read_memories_json(json.dumps([sound, entry, sound]), AT)

    assert len(memories) == 2
    assert problems == (ReadProblem(line=2, why=f"Entry 2 was skipped: {why}."),)


# --- writing -------------------------------------------------------------------------


def test_an_export_has_the_fields_of_version_1_first_and_only_what_says_something_after_them() -> None:
    memory = imported_memory(kind="fix", title="Restart", content="Restart it.", at=AT, id="mem-1", confidence=1.0)

    assert write_memories_json([memory], "shop", AT) == (
        '{\n  "version": 1,\n  "project": "shop",\n  "exported_at": "2026-05-01T00:00:00.000Z",\n'
        '  "memories": [\n    {\n      "id": "mem-1",\n      "type": "fix",\n      "title": "Restart",\n'
        '      "content": "Restart it.",\n      "confidence": 1,\n      "tags": [],\n      "file_refs": [],\n'
        '      "created_by_hat": null,\n      "source": "imported",\n      "use_count": 0,\n'
        '      "created_at": "2026-05-01T00:00:00.000Z",\n      "updated_at": "2026-05-01T00:00:00.000Z"\n'
        "    }\n  ]\n}\n"
    )


def test_a_memory_that_is_all_in_its_title_says_it_as_its_content() -> None:
    memory = imported_memory(kind="knowledge", title="Restart it", content="", structured_content='{"a":1}', at=AT)

    written = json.loads(write_memories_json([memory], "shop", AT))["memories"][0]

    assert written["content"] == "Restart it"
    assert written["structured_content"] == {"a": 1}


MOMENTS = st.datetimes().map(lambda one: one.isoformat(timespec="milliseconds") + "Z")
SHARES = st.floats(0, 1)
WORDS = st.text("abc ü✓\n(.-\"\\😀=,'", min_size=1, max_size=20).map(lambda text: f"x{text}x")
IDS = st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True)
NAMES = st.text("abc-1*/", min_size=1, max_size=10)
TITLES = st.text("ab \t\u00a0ü", max_size=10).map(lambda text: f"x{text}x")


@st.composite
def exported(draw: st.DrawFn) -> Memory:
    return imported_memory(
        kind=draw(st.sampled_from(["pattern", "fix", "own thing"])),
        title=draw(TITLES),
        content=draw(WORDS),
        at=AT,
        id=draw(IDS),
        structured_content=draw(st.sampled_from(["", '{"description":"ü","tiny":1e-7}'])),
        confidence=draw(SHARES),
        tags=tuple(draw(st.lists(NAMES, unique=True, max_size=3))),
        files=tuple(draw(st.lists(NAMES, unique=True, max_size=3))),
        hat=draw(st.none() | NAMES),
        source=draw(st.sampled_from(MemorySource)),
        uses=draw(st.integers(0, 10**9)),
        created_at=draw(MOMENTS),
        updated_at=draw(MOMENTS),
        used_at=draw(st.none() | MOMENTS),
        verified_at=draw(st.none() | MOMENTS),
        success_rate=draw(st.none() | SHARES),
        task_type=draw(st.none() | NAMES),
        validated_at=draw(st.none() | MOMENTS),
        support=draw(st.integers(1, 10**9)),
        feature=draw(st.none() | NAMES),
        origin_loops=tuple(draw(st.lists(NAMES, unique=True, max_size=3))),
        state=draw(st.sampled_from(MemoryState)),
        state_reason=draw(st.just("") | WORDS),
        superseded_by=draw(st.none() | IDS),
    )


@settings(max_examples=30)
@given(exported())
def test_what_a_command_prints_can_be_imported(memory: Memory) -> None:
    found, problems = read_memories_json(json.dumps([public_fields(memory)]), AT)

    assert problems == ()
    assert [record_fields(one) for one in found] == [record_fields(memory)]


@settings(max_examples=30)
@given(st.lists(exported(), max_size=3))
def test_memories_come_back_as_they_were_written(memories: list[Memory]) -> None:
    found, problems = read_memories_json(write_memories_json(memories, "shop", AT), AT)

    assert problems == ()
    assert list(found) == memories
