from __future__ import annotations

import hashlib
import json
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.records import (
    Memory,
    MemoryEvent,
    MemorySource,
    MemoryState,
    record_fields,
    replace,
    timestamp,
)
from ralph.core.text import sanitize
from ralph.formats import bundle
from ralph.formats.bundle import is_bundle, read_bundle, verify_bundle, write_bundle
from ralph.formats.detection import FileSample
from ralph.formats.planned import ReadProblem
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
LATER = "2026-05-02T10:20:30.400Z"

FULL = Memory(
    id="mem-1767225600-0a1b",
    kind="strategy",
    title="Test first — immer ✓",
    content="Write the test first.\n\n  Then the code.",
    structured_content='{"description":"Test first","iterations":3}',
    tags=("tests", "größe"),
    files=("src/app.py", "tests/*_test.py"),
    feature="f-00ff00",
    task_type="test-fix",
    hat="critic",
    source=MemorySource.AUTOMATIC,
    state=MemoryState.QUARANTINED,
    state_reason="Came from a page.",
    confidence=0.85,
    wins=3,
    losses=1,
    uses=7,
    success_rate=0.75,
    support=4,
    superseded_by="mem-1767225600-ffff",
    origin_task="t-0a0b0c",
    origin_run="run-01234567",
    origin_attempt=2,
    origin_session="session 1",
    origin_loops=("Loop-1", "loop-2"),
    created_at=AT,
    updated_at=LATER,
    used_at=AT,
    verified_at=LATER,
    validated_at=AT,
)
CHANGES = (
    MemoryEvent(seq=1, memory_id=FULL.id, what="added", was=None, became=None, who="me", why="", at=AT),
    MemoryEvent(
        seq=9,
        memory_id=FULL.id,
        what="changed",
        was='{"title":"Old"}',
        became='{"title":"New"}',
        who="ralph",
        why="learned again",
        at=LATER,
        change_id="c-1",
        undoes=1,
    ),
)


def lines_of(*memories: Memory) -> list[str]:
    return list(write_bundle(((memory, ()) for memory in memories), "demo", AT))


def keys_of(memory: Memory) -> dict[str, object]:
    """Give the fields of a memory by the keys that a bundle has for them."""
    keys = {"content": "body", "structured_content": "content"}
    return {keys.get(name, name): value for name, value in record_fields(memory).items()}


def sealed(*rows: object, count: int | None = None) -> list[str]:
    """Give a bundle whose lines are these, with a last line that fits."""
    lines = [json.dumps({"ralph_bundle": 1, "project": "demo", "exported_at": AT}) + "\n"]
    lines += [row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows]
    seal = hashlib.sha256("".join(lines).encode()).hexdigest()
    return [*lines, json.dumps({"count": len(rows) if count is None else count, "checksum": seal}) + "\n"]


def one(**fields: object) -> Memory:
    """Give the memory that a line with these fields stands for."""
    (memory,) = read_bundle(sealed({"kind": "pattern", "body": "Tabs break it."} | fields))
    assert isinstance(memory, Memory)
    return memory


# --- there and back ------------------------------------------------------------------


def test_everything_comes_back_as_it_was() -> None:
    plain = a_memory("Tabs", "They break it.")

    lines = list(write_bundle([(FULL, CHANGES), (plain, ())], "demo", AT))

    assert list(read_bundle(lines)) == [FULL, *CHANGES, plain]


def test_no_field_of_a_record_is_left_out_but_what_is_of_one_working_copy() -> None:
    known = set(keys_of(FULL)) - {"seen", "stale"}, set(record_fields(CHANGES[0]))

    assert (set(bundle._MEMORY_FIELDS), set(bundle._EVENT_FIELDS)) == known


words = st.text(max_size=30).map(sanitize)
shares = st.floats(0, 1)
counts = st.integers(0, 1000)
moments = st.floats(0, 4e9).map(timestamp)


@settings(max_examples=30)
@given(
    st.builds(
        Memory,
        id=st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True),
        kind=st.sampled_from(MEMORY_KINDS),
        title=st.just("A title"),
        content=words.filter(bool),
        tags=st.lists(st.from_regex(r"[a-zäöü0-9-]{1,20}", fullmatch=True).map(str.lower), unique=True).map(tuple),
        source=st.sampled_from(MemorySource),
        state=st.sampled_from(MemoryState),
        state_reason=words,
        confidence=shares,
        success_rate=st.none() | shares,
        uses=counts,
        origin_attempt=st.none() | counts,
        created_at=moments,
        updated_at=moments,
        used_at=st.none() | moments,
    )
)
def test_any_memory_comes_back_as_it_was(memory: Memory) -> None:
    assert list(read_bundle(lines_of(memory))) == [memory]


def test_the_format_is_what_it_is() -> None:
    first, second, third, last = write_bundle([(FULL, CHANGES[:1])], "demo", AT)

    assert json.loads(first) == {"ralph_bundle": 1, "project": "demo", "exported_at": AT}
    assert json.loads(second) == {
        **{name: value for name, value in keys_of(FULL).items() if name not in ("seen", "stale")},
        "tags": ["tests", "größe"],
        "files": ["src/app.py", "tests/*_test.py"],
        "origin_loops": ["Loop-1", "loop-2"],
        "source": "automatic",
        "state": "quarantined",
    }
    assert json.loads(third) == {"event": record_fields(CHANGES[0])}
    assert json.loads(last) == {
        "count": 1,
        "checksum": hashlib.sha256((first + second + third).encode()).hexdigest(),
    }


def test_a_bundle_of_nothing_is_whole() -> None:
    assert list(read_bundle(lines_of())) == []


def test_a_bundle_that_went_through_windows_is_whole() -> None:
    lines = ["\ufeff" + line for line in lines_of(FULL)[:1]] + lines_of(FULL)[1:]

    assert list(read_bundle(line.replace("\n", "\r\n") for line in [*lines, "\n"])) == [FULL]


# --- what is missing or new ----------------------------------------------------------


def test_missing_fields_are_as_in_a_new_memory() -> None:
    memory = one()

    assert memory == Memory(
        id="", kind="pattern", title="Tabs break it", content="Tabs break it.", created_at=AT, updated_at=AT
    )


def test_null_counts_as_missing() -> None:
    assert one(confidence=None, tags=None, state=None, support=None, created_at=None) == one()


def test_fields_of_a_newer_bundle_are_passed_over() -> None:
    assert one(mood="good", extra={"a": [1]}) == one()


def test_a_bundle_of_a_newer_version_is_not_touched() -> None:
    lines = ['{"ralph_bundle": 2}\n', *lines_of(FULL)[1:]]

    assert list(read_bundle(lines)) == [
        ReadProblem(line=1, why="The bundle has version 2, but this Ralph only supports 1. Upgrade Ralph.")
    ]


@pytest.mark.parametrize(
    "first", ["", "{}", "[]", "hello", '{"ralph_bundle": "1"}', '{"ralph_bundle": true}', "{" * 9999]
)
def test_what_does_not_begin_as_a_bundle_is_none(first: str) -> None:
    (problem,) = read_bundle([first, *lines_of(FULL)[1:]] if first else [])

    assert isinstance(problem, ReadProblem)
    assert problem.why.startswith("Not a bundle: ")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (lines_of()[0], True),
        ('\ufeff{ "ralph_bundle" : 1', True),
        ('{"project": "ralph_bundle"}', False),
        ("", False),
        ("# ralph_bundle", False),
    ],
)
def test_a_bundle_is_told_by_its_first_words(start: str, expected: bool) -> None:
    assert is_bundle(FileSample(start, "x")) is expected


# --- what is damaged -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": ""}, "it has no kind"),
        ({"body": " "}, "it is empty"),
        ({"body": 7}, "its body is not a string"),
        ({"body": "a" * (MAX_BODY_LENGTH + 1)}, "its body has 100,001 characters, and the limit is 100,000"),
        ({"confidence": 1.5}, "its confidence is not a number from 0 to 1"),
        ({"confidence": "0.5 "}, "its confidence is not a number from 0 to 1"),
        ({"success_rate": True}, "its success_rate is not a number from 0 to 1"),
        ({"uses": -1}, "its uses is not a non-negative integer"),
        ({"uses": 1e300}, "its uses is not a non-negative integer"),
        ({"state": "lost"}, "its state 'lost' is not supported"),
        ({"source": ["web"]}, "its source is not a string"),
        ({"created_at": "yesterday"}, "'yesterday' is not a date"),
        ({"created_at": "2026-02-30T00:00:00.000Z"}, "'2026-02-30T00:00:00.000Z' is not a date"),
        ({"id": "a b"}, "its id has characters other than letters, digits, dots and hyphens"),
        ({"tags": "a,b"}, "its tags are not a list of strings of up to 100 characters"),
        ({"tags": [1]}, "its tags are not a list of strings of up to 100 characters"),
        ({"content": "{"}, "its content is invalid: it is not valid JSON"),
        ({"content": "[" * 9999}, "its content is invalid: it is not valid JSON"),
    ],
)
def test_a_value_that_makes_no_sense_leaves_out_its_memory_alone(fields: dict[str, object], why: str) -> None:
    lines = sealed({"kind": "pattern", "body": "Tabs break it."} | fields, {"kind": "fix", "body": "Spaces."})

    problem, memory = read_bundle(lines)

    assert problem == ReadProblem(line=2, why=f"Line 2 was skipped: {why}.")
    assert isinstance(memory, Memory)


def test_dates_with_another_offset_become_timestamps() -> None:
    assert one(created_at="2026-05-01T02:00:00+02:00", updated_at="2026-05-31").created_at == AT


@pytest.mark.parametrize("row", ["{oops\n", "[1]\n", '{"kind": NaN}\n', "[" * 9999 + "\n", '{"body": "cut\n'])
def test_a_damaged_line_is_one_problem(row: str) -> None:
    good = {"kind": "fix", "body": "Spaces."}

    first, problem, second = read_bundle(sealed(good, row, good, count=2))

    assert isinstance(first, Memory)
    assert isinstance(second, Memory)
    assert isinstance(problem, ReadProblem)
    assert problem.line == 3


def test_the_history_of_a_damaged_memory_is_left_out_with_it() -> None:
    event = {"event": record_fields(CHANGES[0])}

    read = list(read_bundle(sealed({"kind": "fix"}, event, event, {"kind": "fix", "body": "Spaces."}, count=2)))

    assert [type(found) for found in read] == [ReadProblem, Memory]


@pytest.mark.parametrize(
    "event", [None, {}, {"memory_id": "mem-1", "at": AT}, {"memory_id": "mem-2", "what": "added", "at": AT}]
)
def test_a_change_that_belongs_to_no_memory_is_a_problem(event: object) -> None:
    memory, problem = read_bundle(sealed({"id": "mem-1", "kind": "fix", "body": "Spaces."}, {"event": event}, count=1))

    assert isinstance(memory, Memory)
    assert isinstance(problem, ReadProblem)


def test_a_changed_bundle_ends_with_a_problem() -> None:
    lines = lines_of(FULL)

    read = list(read_bundle([line.replace("Test first", "Test last") for line in lines]))

    assert read[-1] == ReadProblem(
        line=3, why="The checksum does not match: the bundle was changed after it was written.", was_read=True
    )


def test_what_stands_after_the_end_is_not_read() -> None:
    *_, problem = read_bundle([*lines_of(FULL), *lines_of(FULL)])

    assert problem == ReadProblem(line=4, why="Ignored unexpected lines after the end of the bundle.")


@given(st.integers(0, 3000))
def test_a_cut_bundle_is_never_taken_for_a_whole_one(kept: int) -> None:
    text = "".join(write_bundle([(FULL, CHANGES), (replace(FULL, id="mem-2"), ())], "demo", AT)).rstrip("\n")

    *_, problem = [*read_bundle(text[: min(kept, len(text) - 1)].split("\n"))]

    assert isinstance(problem, ReadProblem)


# --- is it whole? ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        lines_of(),
        list(write_bundle([(FULL, CHANGES), (replace(FULL, tags=("checksum", "event")), CHANGES)], "demo", AT)),
        [line.replace("\n", "\r\n") for line in lines_of(FULL)],
        ["\ufeff" + lines_of(FULL)[0], "\n", *lines_of(FULL)[1:], "\n"],
        sealed({"kind": "fix", "body": "Spaces."}, {"event": {}}, "{oops\n", count=1),
    ],
)
def test_a_whole_bundle_is_verified(lines: list[str]) -> None:
    assert verify_bundle(lines) == ""


WHOLE = list(write_bundle([(FULL, CHANGES), (replace(FULL, id="mem-2"), ())], "demo", AT))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            [line.replace("Test first", "Test last") for line in WHOLE],
            "The checksum does not match: the bundle was changed after it was written.",
        ),
        (
            WHOLE[:2] + WHOLE[3:],
            "The checksum does not match: the bundle was changed after it was written.",
        ),
        (WHOLE[:-1], "The bundle is truncated: its last line, with the checksum, is missing."),
        ([*WHOLE, "more\n"], "Ignored unexpected lines after the end of the bundle."),
    ],
)
def test_what_is_no_whole_bundle_gets_a_sentence(lines: list[str], why: str) -> None:
    assert verify_bundle(lines) == why


@given(st.lists(st.text(max_size=40) | st.sampled_from(WHOLE), max_size=6))
def test_reading_ends_with_what_verifying_said(lines: list[str]) -> None:
    why = verify_bundle(lines)

    *_, last = [None, *read_bundle(lines)]
    found = last.why if isinstance(last, ReadProblem) and not last.why.startswith(("Line ", "Not a bundle")) else ""
    assert why == found


@given(st.integers(0, 3000))
def test_of_a_cut_bundle_nothing_is_read_or_it_is_not_verified(kept: int) -> None:
    text = "".join(WHOLE).rstrip("\n")
    lines = text[: min(kept, len(text) - 1)].split("\n")

    assert verify_bundle(lines) or not any(isinstance(found, Memory) for found in read_bundle(lines))


@pytest.mark.slow
def test_verifying_takes_a_small_part_of_the_time_of_reading() -> None:
    lines = list(write_bundle(many(5000), "demo", AT))

    started = time.perf_counter()
    assert sum(isinstance(found, Memory) for found in read_bundle(lines)) == 5000
    read = time.perf_counter()
    assert verify_bundle(lines) == ""
    verified = time.perf_counter()

    assert verified - read < (read - started) / 3


def test_more_tags_than_a_memory_may_have_are_a_problem_and_many_loops_are_not() -> None:
    tags = [f"tag {number}" for number in range(51)]

    assert len(one(tags=tags[:50], origin_loops=tags * 20).tags) == 50
    problem, *_ = read_bundle(sealed({"kind": "fix", "body": "Spaces.", "tags": tags}))
    assert problem == ReadProblem(line=2, why="Line 2 was skipped: it has 51 tags, and the limit is 50.")


def test_secrets_and_invisible_characters_do_not_come_in() -> None:
    memory = one(
        title="The key\u200b",
        body="It is ghp_abcdefghijklmnopqrstuvwxyz0123456789.\x00",
        tags=["a\u202eb", "ok"],
        hat="\ud800web",
        trust="dropped",  # a field of older versions
    )

    assert (memory.title, memory.content, memory.tags, memory.hat) == (
        "The key",
        "It is [redacted].",
        ("ab", "ok"),
        "web",
    )


@given(st.lists(st.text(max_size=40) | st.sampled_from(lines_of(FULL)), max_size=6))
def test_no_lines_make_the_reader_fail(lines: list[str]) -> None:
    assert all(isinstance(found, Memory | ReadProblem) for found in read_bundle(lines))


# --- much of it ----------------------------------------------------------------------


def many(count: int) -> Iterator[tuple[Memory, tuple[MemoryEvent, ...]]]:
    for number in range(count):
        yield replace(FULL, id=f"mem-{number}", content=f"Rule {number}: write the test first."), ()


def test_a_large_bundle_passes_through_without_being_held() -> None:
    for _ in read_bundle(write_bundle(many(1), "demo", AT)):
        pass  # modules that load with the first use are not what is measured
    tracemalloc.start()
    try:
        read = sum(1 for _ in read_bundle(write_bundle(many(500), "demo", AT)))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert read == 500
    assert held < 250_000
