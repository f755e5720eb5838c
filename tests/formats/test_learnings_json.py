from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, MemoryState, replace
from ralph.formats.imported import imported_memory
from ralph.formats.js_json import checksum, dumps
from ralph.formats.learnings_json import read_learnings_json, write_learnings_json
from ralph.formats.planned import ReadProblem
from ralph.formats.registry import FORMATS
from ralph.formats.staging_json import read_staging_json, write_staging_json
from ralph.memory.import_export import save_with_backup
from ralph.memory.lifecycle.learnings import describe_learning
from tests.make import a_memory

pytestmark = pytest.mark.storeless

AT = "2026-05-01T00:00:00.000Z"

LEARNINGS = """\
{
  "version": "1.0.0",
  "checksum": "47070be523cca22298e54bea6be512c4a2571715c4123e32d2a8393818defabf",
  "lastUpdated": "2026-03-02T09:30:00.250Z",
  "learnings": [
    {
      "id": "learn-0a1b2c3d",
      "type": "strategy",
      "taskType": "test-fix",
      "content": {
        "description": "Erst prüfen — dann ändern ✓",
        "effectiveness": 1,
        "iterations": 4,
        "tiny": 1e-7,
        "big": 1e+21,
        "none": []
      },
      "confidence": 0.9,
      "sourceLoops": [
        "loop-1",
        "loop-2"
      ],
      "createdAt": "2026-03-01T08:00:00.000Z",
      "updatedAt": "2026-03-02T09:30:00.250Z",
      "useCount": 3,
      "successRate": 1
    },
    {
      "id": "learn-4e5f6071",
      "type": "estimate",
      "taskType": "feature",
      "content": {
        "avgIterationTime": 43500.5,
        "totalIterations": 3,
        "complexity": "medium",
        "successRate": 0.6666666666666666
      },
      "confidence": 0.4,
      "sourceLoops": [],
      "createdAt": "2026-03-01T08:00:01.000Z",
      "updatedAt": "2026-03-01T08:00:01.000Z",
      "useCount": 0,
      "successRate": 0.6666666666666666
    }
  ],
  "stats": {
    "totalLearnings": 2,
    "byType": {
      "strategy": 1,
      "antipattern": 0,
      "estimate": 1,
      "convention": 0
    },
    "byTaskType": {
      "test-fix": 1,
      "feature": 1
    }
  }
}"""

STAGING = """\
{
  "version": "1.0.0",
  "checksum": "d3feae9c813a93f9333ee8a7562186bae50dc1518c0635300ad796d16ce6a438",
  "lastUpdated": "2026-03-01T08:06:00.000Z",
  "staged": [
    {
      "id": "stage-1772352000000-0",
      "learning": {
        "type": "convention",
        "taskType": "general",
        "content": {
          "pattern": "Tests in tests/",
          "examples": [
            "tests/test_a.py"
          ]
        },
        "confidence": 0.7,
        "sourceLoops": [
          "loop-1"
        ],
        "successRate": 1
      },
      "status": "pending",
      "stagedAt": "2026-03-01T08:00:00.000Z"
    },
    {
      "id": "stage-1772352000000-1",
      "learning": {
        "type": "convention",
        "taskType": "general",
        "content": {
          "pattern": "Tests in tests/",
          "examples": [
            "tests/test_a.py"
          ]
        },
        "confidence": 0.8,
        "sourceLoops": [
          "loop-1"
        ],
        "successRate": 1
      },
      "status": "validated",
      "stagedAt": "2026-03-01T08:00:00.000Z",
      "validatedAt": "2026-03-01T08:05:00.000Z"
    },
    {
      "id": "stage-1772352000000-2",
      "learning": {
        "type": "convention",
        "taskType": "general",
        "content": {
          "pattern": "Tests in tests/",
          "examples": [
            "tests/test_a.py"
          ]
        },
        "confidence": 0.1,
        "sourceLoops": [
          "loop-1"
        ],
        "successRate": 0.5
      },
      "status": "rejected",
      "stagedAt": "2026-03-01T08:00:00.000Z",
      "rejectionReason": "Confidence too low (< 0.3)"
    }
  ]
}"""


def a_file(*entries: object, name: str = "learnings", **fields: object) -> str:
    """Give a file of these entries, with the right checksum unless another is given."""
    return dumps({"version": "1.0.0", "checksum": checksum(entries), **fields, name: entries})


def an_entry(**changes: object) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": "learn-1",
        "type": "strategy",
        "taskType": "feature",
        "content": {"description": "Tests first"},
        "confidence": 0.5,
        "sourceLoops": ["loop-1"],
        "createdAt": "2026-03-01T08:00:00.000Z",
        "updatedAt": "2026-03-01T08:00:00.000Z",
        "useCount": 0,
        "successRate": 1,
    }
    return {name: value for name, value in {**entry, **changes}.items() if value != "absent"}


def one(**changes: object) -> Memory:
    found, problems = read_learnings_json(a_file(an_entry(**changes)), AT)
    assert problems == ()
    return found[0]


def complaint(entry: object) -> str:
    """Give what is said about an entry between two that nothing is wrong with."""
    found, problems = read_learnings_json(a_file(an_entry(), entry, an_entry()), AT)
    assert len(found) == 2
    assert [problem.line for problem in problems] == [2]
    return problems[0].why


# --- ralph-learnings.json -----------------------------------------------------------


def test_a_file_is_read_with_all_that_it_says() -> None:
    found, problems = read_learnings_json(LEARNINGS, AT)

    assert problems == ()
    assert found[0] == Memory(
        id="learn-0a1b2c3d",
        kind="strategy",
        title="Erst prüfen — dann ändern ✓",
        content="Erst prüfen — dann ändern ✓. 100% effective over 4 iterations.",
        structured_content='{"description":"Erst prüfen — dann ändern ✓","effectiveness":1,"iterations":4,'
        '"tiny":1e-7,"big":1e+21,"none":[]}',
        task_type="test-fix",
        source=MemorySource.IMPORTED,
        confidence=0.9,
        uses=3,
        success_rate=1.0,
        support=2,
        origin_loops=("loop-1", "loop-2"),
        created_at="2026-03-01T08:00:00.000Z",
        updated_at="2026-03-02T09:30:00.250Z",
    )
    assert found[1].title == "Estimate for feature tasks (medium)"


def test_what_was_read_is_written_to_the_letter() -> None:
    assert write_learnings_json(read_learnings_json(LEARNINGS, AT)[0]) == LEARNINGS


def test_the_checksum_is_over_the_learnings_alone() -> None:
    changed_stats = LEARNINGS.replace('"totalLearnings": 2', '"totalLearnings": 7')
    changed_learning = LEARNINGS.replace('"useCount": 3', '"useCount": 4')

    assert FORMATS["learnings"].is_intact(changed_stats)
    assert not FORMATS["learnings"].is_intact(changed_learning)
    found, (problem,) = read_learnings_json(changed_learning, AT)
    assert [memory.uses for memory in found] == [4, 0]
    assert problem.needs_force


def test_other_spaces_and_keys_in_another_form_do_not_break_the_checksum() -> None:
    respaced = json.dumps(json.loads(LEARNINGS), indent=1, ensure_ascii=True)

    assert FORMATS["learnings"].is_intact(respaced)


def test_a_file_without_a_checksum_is_not_intact() -> None:
    found, problems = read_learnings_json('{"learnings": []}', AT)

    assert found == ()
    assert [problem.needs_force for problem in problems] == [True]


def test_only_learnings_are_written_and_every_type_is_counted() -> None:
    memories = [
        a_memory("Tests first", kind="strategy", task_type="2024", updated_at="2026-03-05T00:00:00.000Z"),
        a_memory("Use the cache", kind="pattern", updated_at="2026-04-05T00:00:00.000Z"),
        a_memory("Tabs", kind="convention", updated_at="2026-03-01T00:00:00.000Z"),
        a_memory("More tests", kind="strategy", task_type="2024", updated_at="2026-03-01T00:00:00.000Z"),
    ]

    written = json.loads(write_learnings_json(memories))

    assert [learning["content"] for learning in written["learnings"]] == [
        {"description": "Tests first"},
        {"pattern": "Tabs"},
        {"description": "More tests"},
    ]
    assert written["lastUpdated"] == "2026-03-05T00:00:00.000Z"
    assert written["stats"] == {
        "totalLearnings": 3,
        "byType": {"strategy": 2, "antipattern": 0, "estimate": 0, "convention": 1},
        "byTaskType": {"2024": 2, "general": 1},
    }
    assert list(written["stats"]["byType"]) == ["strategy", "antipattern", "estimate", "convention"]
    assert json.loads(write_learnings_json(memories, AT))["lastUpdated"] == AT


def test_an_empty_file_is_a_file_too() -> None:
    found, problems = read_learnings_json(write_learnings_json([], AT), AT)

    assert (found, problems) == ((), ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is not valid JSON: expecting value (line 1, column 1)"),
        (LEARNINGS[:300], "the file is not valid JSON: expecting ':' delimiter (line 11, column 22)"),
        ("[" * 100_000, "the file is not valid JSON: it is nested too deeply"),
        ("[]", "the file has no `learnings` list"),
        ('{"learnings": {}}', "the file has no `learnings` list"),
        (STAGING, "the file has no `learnings` list"),
        ('{"version": "2.0.0", "learnings": []}', "the version of the file is not 1.0.0"),
        ('{"version": [1], "learnings": []}', "the version of the file is not 1.0.0"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_sentence(text: str, why: str) -> None:
    assert read_learnings_json(text, AT) == ((), (ReadProblem(line=1, why=f"Nothing imported: {why}."),))


# --- one learning ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, "it is not an object"),
        (an_entry(type="absent"), "it has no type"),
        (an_entry(type=3), "it has no type"),
        (an_entry(type="pattern"), "its type is not one of strategy, antipattern, estimate, convention"),
        (an_entry(taskType=["feature"]), "its task type is not a string"),
        (an_entry(content="absent"), "its content is not a non-empty object"),
        (an_entry(content="Tests first"), "its content is not a non-empty object"),
        (an_entry(content={}), "its content is not a non-empty object"),
        (
            an_entry(content={"description": "x" * 10**7}),
            "its content has 10,000,018 characters, and the limit is",
        ),
        (an_entry(confidence=7), "its confidence is not a number from 0 to 1"),
        (an_entry(confidence=True), "its confidence is not a number from 0 to 1"),
        (an_entry(successRate=-0.1), "its success rate is not a number from 0 to 1"),
        (an_entry(useCount=1.5), "its use count is not a non-negative integer"),
        (an_entry(sourceLoops="loop-1"), "its source loops are not a list of names"),
        (an_entry(sourceLoops=[{}]), "its source loops are not a list of names"),
        (
            an_entry(sourceLoops=["x" * 10**7]),
            "it has more than 10,000 source loops, or one of more than 100",
        ),
        (an_entry(createdAt="yesterday"), "'yesterday' is not a date"),
        (an_entry(updatedAt=[]), "'[]' is not a date"),
    ],
)
def test_an_odd_entry_is_one_problem_and_the_others_are_read(entry: object, why: str) -> None:
    assert complaint(entry).startswith(f"Entry 2 was skipped: {why}")


def test_numbers_that_json_does_not_have_cost_one_entry() -> None:
    text = a_file(an_entry(), an_entry(confidence=0.123), an_entry(content={"description": "a", "n": [0.123]}))

    found, (damage, *problems) = read_learnings_json(text.replace("0.123", "NaN"), AT)

    assert len(found) == 1
    assert damage.needs_force
    assert [problem.why for problem in problems] == [
        "Entry 2 was skipped: its confidence is not a number from 0 to 1.",
        "Entry 3 was skipped: its content has a number that is not valid JSON.",
    ]


def test_what_a_learning_leaves_out_is_filled_in() -> None:
    content = {"description": "a", "depth": [{"b": 1}]}

    (found,), _ = read_learnings_json(a_file({"type": "Strategy", "content": content}), AT)

    assert found == replace(
        one(content=content, successRate=None, sourceLoops=[]),
        id="",
        task_type=None,
        created_at=AT,
        updated_at=AT,
    )


def test_moments_without_milliseconds_and_with_an_offset_are_read() -> None:
    found = one(createdAt="2026-02-03T10:30:00Z", updatedAt="2026-02-03T12:30:00+01:00")

    assert (found.created_at, found.updated_at) == ("2026-02-03T10:30:00.000Z", "2026-02-03T11:30:00.000Z")


def test_the_content_is_cleaned_and_secrets_are_taken_out() -> None:
    content = {"description": " Use\x00 \u200bit ", "apiKey": "abc123def456", "notes": ["password=hunter2hunter2"]}

    found = one(content=content)

    assert json.loads(found.structured_content) == {
        "description": " Use it ",
        "apiKey": "[redacted]",
        "notes": ["password=[redacted]"],
    }
    assert found.title == "Use it"


# --- staging.json ------------------------------------------------------------------------


def test_staged_learnings_wait_are_validated_or_rejected() -> None:
    found, problems = read_staging_json(STAGING, AT)

    assert problems == ()
    assert [(memory.id, memory.state, memory.validated_at, memory.state_reason) for memory in found] == [
        ("stage-1772352000000-0", MemoryState.STAGED, None, ""),
        ("stage-1772352000000-1", MemoryState.STAGED, "2026-03-01T08:05:00.000Z", ""),
        ("stage-1772352000000-2", MemoryState.REJECTED, None, "Confidence too low (< 0.3)"),
    ]
    assert {memory.created_at for memory in found} == {"2026-03-01T08:00:00.000Z"}


def test_a_staging_file_is_written_to_the_letter() -> None:
    found, problems = read_staging_json(STAGING, AT)

    assert problems == ()
    assert write_staging_json(found, "2026-03-01T08:06:00.000Z") == STAGING


def test_only_staged_and_rejected_learnings_are_in_a_staging_file() -> None:
    memories = [
        a_memory("a", kind="strategy", state=MemoryState.ACTIVE),
        a_memory("b", kind="pattern", state=MemoryState.STAGED),
        a_memory("c", kind="strategy", state=MemoryState.STAGED),
    ]

    staged = json.loads(write_staging_json(memories, AT))["staged"]

    assert [entry["learning"]["content"] for entry in staged] == [{"description": "c"}]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"status": "pending"}, "it has no learning"),
        ({"learning": an_entry(), "status": "lost"}, "its status is not pending, validated or rejected"),
        ({"learning": an_entry(), "status": ["pending"]}, "its status is not pending, validated or rejected"),
        ({"learning": an_entry(confidence=2), "status": "pending"}, "its confidence is not a number from 0 to 1"),
    ],
)
def test_an_odd_staged_entry_is_one_problem(entry: object, why: str) -> None:
    sound = {"id": "stage-1-0", "learning": an_entry(), "status": "validated"}

    found, problems = read_staging_json(a_file(entry, sound, name="staged"), AT)

    assert [problem.why for problem in problems] == [f"Entry 1 was skipped: {why}."]
    assert [memory.validated_at for memory in found] == [AT]


def test_a_file_of_learnings_is_no_staging_file() -> None:
    found, (problem,) = read_staging_json(LEARNINGS, AT)

    assert found == ()
    assert "`staged`" in problem.why


# --- there and back ------------------------------------------------------------------------

MOMENTS = st.datetimes().map(lambda one: one.isoformat(timespec="milliseconds") + "Z")
SHARES = st.floats(0, 1)
WORDS = st.text('abc ü✓(.-"\\😀', min_size=1, max_size=20).map(lambda text: f"x{text}x")
CONTENTS = st.dictionaries(
    st.sampled_from("description pattern complexity iterations occurrences impact examples 7 other".split()),
    WORDS | st.floats(-1e30, 1e30) | st.integers() | st.lists(WORDS, max_size=2) | st.none() | st.booleans(),
    min_size=1,
)


@st.composite
def learnings(draw: st.DrawFn) -> Memory:
    kind = draw(st.sampled_from(["strategy", "antipattern", "estimate", "convention"]))
    task_type = draw(st.sampled_from(["feature", "bug-fix", "eigene Art"]))
    content = dumps(draw(CONTENTS))
    title, body = describe_learning(kind, task_type, json.loads(content))
    loops = draw(st.lists(st.text("ab1-", min_size=1, max_size=8), unique=True, max_size=3))
    return imported_memory(
        kind=kind,
        title=title,
        content=body,
        at=AT,
        id=draw(st.text("abc-1", min_size=1, max_size=20)),
        task_type=task_type,
        structured_content=content,
        confidence=draw(SHARES),
        success_rate=draw(SHARES | st.none()),
        origin_loops=tuple(loops),
        support=max(1, len(loops)),
        created_at=draw(MOMENTS),
    )


@settings(max_examples=30)
@given(st.lists(learnings(), max_size=3), st.integers(0, 10**9), MOMENTS)
def test_learnings_come_back_as_they_were_written(memories: list[Memory], uses: int, updated_at: str) -> None:
    used = tuple(replace(memory, uses=uses, updated_at=updated_at) for memory in memories)

    found, problems = read_learnings_json(write_learnings_json(used), AT)

    assert found == used
    assert problems == ()
    assert write_learnings_json(found) == write_learnings_json(used)


@settings(max_examples=30)
@given(st.lists(learnings(), max_size=3), st.sampled_from(["pending", "validated", "rejected"]), WORDS, MOMENTS)
def test_staged_learnings_come_back_as_they_were_written(
    memories: list[Memory], status: str, reason: str, validated_at: str
) -> None:
    changes: dict[str, dict[str, object]] = {
        "pending": {"state": MemoryState.STAGED},
        "validated": {"state": MemoryState.STAGED, "validated_at": validated_at, "updated_at": validated_at},
        "rejected": {"state": MemoryState.REJECTED, "state_reason": reason},
    }
    staged = tuple(replace(memory, **changes[status]) for memory in memories)

    found, problems = read_staging_json(write_staging_json(staged, AT), AT)

    assert (found, problems) == (staged, ())


LINES = st.text("ab .:ü", max_size=20).map(lambda text: f"x{text}x")
TEXTS = st.text("ab .:ü\n", max_size=20).map(lambda text: f"x{text}y")


@given(st.sampled_from(["strategy", "antipattern", "estimate", "convention"]), LINES, TEXTS)
def test_learnings_in_plain_words_come_back_in_plain_words(kind: str, title: str, body: str) -> None:
    stated = imported_memory(kind=kind, title=title, content=body, at=AT, id="mem-1", task_type="general")

    found, problems = read_learnings_json(write_learnings_json([stated]), AT)

    assert (found, problems) == ((stated,), ())


@pytest.mark.parametrize("kind", ["strategy", "antipattern", "estimate", "convention"])
def test_a_learning_that_is_all_in_its_title_keeps_its_words(kind: str) -> None:
    stated = imported_memory(kind=kind, title="Tests  first", content="Tests  first", at=AT, id="mem-1")

    (found,), _ = read_learnings_json(write_learnings_json([stated]), AT)

    assert (found.title, found.content) == ("Tests  first", "Tests  first")


# --- the file and its backup ------------------------------------------------------------------

DAMAGED = LEARNINGS.replace('"useCount": 3', '"useCount": 4')
NEWER = write_learnings_json([a_memory("Tests first", kind="strategy", updated_at=AT)])


def test_saving_keeps_the_present_file_as_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "ralph-learnings.json"

    save_with_backup(FORMATS["learnings"], path, LEARNINGS)
    save_with_backup(FORMATS["learnings"], path, NEWER)

    assert {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == {
        "ralph-learnings.json": NEWER,
        "ralph-learnings.json.bak": LEARNINGS,
    }


@pytest.mark.parametrize("damaged", [DAMAGED, LEARNINGS[:-5], "nothing of the kind"])
def test_a_damaged_file_never_takes_the_place_of_a_good_backup(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "ralph-learnings.json"
    save_with_backup(FORMATS["learnings"], path, LEARNINGS)
    save_with_backup(FORMATS["learnings"], path, LEARNINGS)
    path.write_text(damaged, encoding="utf-8")

    save_with_backup(FORMATS["learnings"], path, NEWER)

    assert {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()} == {
        "ralph-learnings.json": NEWER,
        "ralph-learnings.json.bak": LEARNINGS,
        "ralph-learnings.json.damaged": damaged,
    }


def test_a_staging_file_is_saved_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "staging.json"

    save_with_backup(FORMATS["staging"], path, STAGING)
    save_with_backup(FORMATS["staging"], path, write_staging_json([], AT))

    assert (tmp_path / "staging.json.bak").read_text(encoding="utf-8") == STAGING


def test_saving_through_a_link_changes_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    target, link = tmp_path / "shared" / "learnings.json", tmp_path / "learnings.json"
    target.write_text(LEARNINGS, encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)

    save_with_backup(FORMATS["learnings"], link, NEWER)

    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == NEWER
    assert target.stat().st_mode & 0o777 == 0o640
