from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import MemoryState, replace
from ralph.formats.bundle import write_bundle
from ralph.formats.learnings_json import write_learnings_json, write_staging_json
from ralph.formats.memories_csv import write_memories_csv
from ralph.formats.memories_json import write_memories_json
from ralph.formats.memories_md import write_memories_md
from ralph.formats.memory_files import MAX_NOTES_CHARS, ImportFormat, detect_format, read_memories
from ralph.formats.planned import ReadProblem
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
MEMORY = a_memory("Tabs", "They break the parser.", kind="pattern", tags=("parser",))
LEARNING = a_memory(
    "Test first", "Test first.", kind="strategy", task_type="test-fix", content='{"description":"Test first."}'
)

BUNDLE = "".join(write_bundle([(MEMORY, ())], "demo", AT))
LEARNINGS = write_learnings_json([LEARNING], AT)
STAGING = write_staging_json([replace(LEARNING, state=MemoryState.STAGED)], AT)
MEMORIES_JSON = write_memories_json([MEMORY], "demo", AT)
CSV = write_memories_csv([MEMORY])
MEMORIES_MD = write_memories_md([MEMORY])
KNOWLEDGE = '---\ntitle: "Tabs"\ntags: [parser]\ncreated_at: "2026-01-01T00:00:00Z"\n---\n\nThey break the parser.\n'
PROGRESS = "# Progress Log\n\n## Codebase Patterns\n- Tabs break the parser.\n\n## 2026-01-12 - US-001\n- Did it.\n"
GUARDRAILS = "# Guardrails\n\n### Sign: Read first\n- **Trigger**: Before a change\n- **Instruction**: Read the file\n"
NOTES = "# Billing\n\n## Tabs\n\nThey break the parser.\n"
TASKS = '{"id": "t-000001", "title": "Fix the parser", "status": "pending"}\n{"title": "Another"}\n'
LOOP_STATE = json.dumps(
    {"loopId": "loop-1", "objective": "Fix tests", "iterations": [{"number": 1, "learnings": ["a"]}]}
)

SAMPLES = {
    ImportFormat.BUNDLE: BUNDLE,
    ImportFormat.LEARNINGS: LEARNINGS,
    ImportFormat.STAGING: STAGING,
    ImportFormat.MEMORIES_JSON: MEMORIES_JSON,
    ImportFormat.CSV: CSV,
    ImportFormat.MEMORIES_MD: MEMORIES_MD,
    ImportFormat.KNOWLEDGE: KNOWLEDGE,
    ImportFormat.PROGRESS: PROGRESS,
    ImportFormat.GUARDRAILS: GUARDRAILS,
    ImportFormat.NOTES: NOTES,
    ImportFormat.TASKS: TASKS,
    ImportFormat.LOOP_STATE: LOOP_STATE,
}
WITH_MEMORIES = sorted(SAMPLES.keys() - {ImportFormat.TASKS, ImportFormat.LOOP_STATE})


# --- what is it? ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["x", "ralph-learnings.json.bak", "memories.md", "progress.txt", "GUARDRAILS.md", "a.csv"]
)
@pytest.mark.parametrize("format", SAMPLES)
def test_a_file_is_told_by_what_it_says_whatever_its_name(format: ImportFormat, name: str) -> None:
    assert detect_format(SAMPLES[format], name) is format


@pytest.mark.parametrize("format", SAMPLES)
def test_byte_order_marks_and_carriage_returns_hide_nothing(format: ImportFormat) -> None:
    text = "\ufeff" + SAMPLES[format].replace("\n", "\r\n")

    assert detect_format(text, "x") is format


@pytest.mark.parametrize(
    ("text", "format"),
    [
        # JSON
        ('[{"type": "fix", "content": "Use tabs."}]', ImportFormat.MEMORIES_JSON),
        ('{"version": 1, "memories": []}', ImportFormat.MEMORIES_JSON),
        ('{"learnings": [], "memories": []}', ImportFormat.LEARNINGS),
        ('{"version": "1.0.0", "learnings": [{"id": "a', ImportFormat.LEARNINGS),
        ('{"staged": [{"id": "a', ImportFormat.STAGING),
        ('{"ralph_bundle": 1, "proj', ImportFormat.BUNDLE),
        ('[{"title": "Fix it"}]', ImportFormat.TASKS),
        ('# Plan\n\n{"title": "Fix it"}\n', ImportFormat.TASKS),
        ('{"iterations": []}', ImportFormat.UNKNOWN),
        ('{"name": "app", "version": "1.0.0"}', ImportFormat.UNKNOWN),
        ('{"memories": 3}', ImportFormat.UNKNOWN),
        ("[]", ImportFormat.UNKNOWN),
        ('["a"]', ImportFormat.UNKNOWN),
        ('{"a": oops', ImportFormat.UNKNOWN),
        # tables
        ("id,type,taskType,confidence,successRate,useCount,createdAt\n", ImportFormat.CSV),
        ("type;content\nfix;Use tabs\n", ImportFormat.CSV),
        ("Type\tTitle\tContent\tOwner\n", ImportFormat.CSV),
        ("name,age\nme,7\n", ImportFormat.UNKNOWN),
        # markdown memories
        ("# Memories\n\n## Patterns\n\n### mem-oops\nno quote\n", ImportFormat.MEMORIES_MD),
        ("### mem-1767225600-0a1b\n> Use tabs.\n", ImportFormat.MEMORIES_MD),
        (
            "# Memories\n\n### my note\n> Use tabs.\n<!-- tags: parser | created: 2026-01-01 -->\n",
            ImportFormat.MEMORIES_MD,
        ),
        ("# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n", ImportFormat.MEMORIES_MD),
        ("# Memories\n\n> Learned here.\n\n## Tabs\n\nThey break it.\n", ImportFormat.NOTES),
        ("# How to\n\n```markdown\n### mem-1767225600-0a1b\n> Use tabs.\n```\n\n## Usage\n\nSo.\n", ImportFormat.NOTES),
        # front matter
        ("---\ntitle: Tabs\nfeature: parser\n---\nx", ImportFormat.KNOWLEDGE),
        ("---\nname: skill\ndescription: does it\n---\n# Skill\n\nDo it.\n", ImportFormat.NOTES),
        ("---\niteration: 1\n---\n\n# Ralph Progress Log\n", ImportFormat.PROGRESS),
        # logs
        ("# Progress Log\nStarted: now\n", ImportFormat.PROGRESS),
        ("## Codebase Patterns\n- Use tabs.\n", ImportFormat.PROGRESS),
        ("## Codebase Patterns\n- Use tabs.\n\n## Iteration 2 - setup-02\n- Did it.\n", ImportFormat.PROGRESS),
        ("## ML-001 - A model\n**Status**: done\n\n### Learnings:\n- Use tabs.\n", ImportFormat.PROGRESS),
        ("# Guide\n\n## Codebase Patterns\n- Use tabs.\n\n## Commands\n- `make`\n", ImportFormat.NOTES),
        ("# Plan\n\n## Phase 1\n\nBuild it.\n\n## Learnings\n\nNone of them is dated.\n", ImportFormat.NOTES),
        # guardrails
        ("# Guardrails (Signs)\n\n## Learned signs\n- Never skip the gate.\n", ImportFormat.GUARDRAILS),
        ("# Reference\n\n## Sign: A\n- Trigger: b\n- Instruction: c\n", ImportFormat.GUARDRAILS),
        ("# README\n\n```\n### Sign: A\n- Trigger: b\n- Instruction: c\n```\n", ImportFormat.NOTES),
        ("# Functions\n\n### Sign: sign(x)\n\nIt is -1, 0 or 1.\n", ImportFormat.NOTES),
        ("# Guardrails\n\nDo not push on Fridays.\n", ImportFormat.NOTES),
        ("# Guardrails\n\n## Scope\n- The plan.\n\n## Constraints\n- Never skip the gate.\n", ImportFormat.NOTES),
        # tasks
        ("# Plan\n\n- [ ] Fix it\n- [x] Test it\n", ImportFormat.TASKS),
        ("# Rules\n\nAll of these hold.\n\nAlways.\n\n- [ ] tick me\n", ImportFormat.NOTES),
        # notes
        ("/home/me/.agent/memories.md", ImportFormat.NOTES),
        ("Invoices are sent at night, never by day.", ImportFormat.NOTES),
        ("[a link](there) and some more words to read", ImportFormat.NOTES),
        # nothing
        ("", ImportFormat.UNKNOWN),
        ("\ufeff \r\n\t\n", ImportFormat.UNKNOWN),
        ("\x00\x01PNG and some more words to read", ImportFormat.UNKNOWN),
        ("\ufffd" * 50 + " and some more words to read", ImportFormat.UNKNOWN),
        ("<!DOCTYPE html>\n<p>and some more words to read</p>", ImportFormat.UNKNOWN),
        ("1 2 3", ImportFormat.UNKNOWN),
    ],
)
def test_what_is_damaged_or_looks_like_another_is_told_as_well(text: str, format: ImportFormat) -> None:
    assert detect_format(text, "file") is format


@pytest.mark.parametrize(
    ("text", "name", "format"),
    [
        (
            "# Log\n\n## Codebase Patterns\n- Use tabs.\n\n## Commands\n- `make`\n",
            "scripts/progress.txt",
            ImportFormat.PROGRESS,
        ),
        ("# Rules we keep\n\n## Our signs\n- Never skip the gate.\n", ".ralph/guardrails.md", ImportFormat.GUARDRAILS),
        ("# Work\n\nSome words.\n\nMore words.\n\n- [ ] Fix it\n", "plans/TODO.md", ImportFormat.TASKS),
    ],
)
def test_the_name_decides_where_two_forms_are_possible(text: str, name: str, format: ImportFormat) -> None:
    assert detect_format(text, name) is format
    assert detect_format(text, "x") is ImportFormat.NOTES


def test_no_notes_are_as_long_as_a_database() -> None:
    assert detect_format("# A\n\nwords here\n" * (MAX_NOTES_CHARS // 10), "x") is ImportFormat.UNKNOWN
    assert detect_format("### mem-1-0000\n> a\n" * (MAX_NOTES_CHARS // 15), "x") is ImportFormat.MEMORIES_MD


# --- reading it ----------------------------------------------------------------------


@pytest.mark.parametrize("format", WITH_MEMORIES)
def test_every_form_is_read_by_its_reader(format: ImportFormat) -> None:
    found, (memories, unreadable) = read_memories(SAMPLES[format], "file", AT)

    assert found is format
    assert len(memories) == 1
    assert unreadable == ()


def test_a_staged_learning_stays_staged() -> None:
    _, ((memory,), _) = read_memories(STAGING, "staging.json", AT)

    assert memory.state is MemoryState.STAGED


@pytest.mark.parametrize("text", [LEARNINGS, STAGING])
def test_learnings_with_a_wrong_checksum_come_in_only_by_force(text: str) -> None:
    changed = text.replace("Test first.", "Test last.")

    refused = read_memories(changed, "ralph-learnings.json", AT)[1]
    forced = read_memories(changed, "ralph-learnings.json", AT, force=True)[1]

    why = "The checksum does not match: the file was changed or damaged after it was written"
    assert refused == ((), (ReadProblem(line=1, why=f"{why}; it is imported only with force."),))
    assert len(forced[0]) == 1
    assert forced[1] == (ReadProblem(line=1, why=f"{why}. It was imported because of force.", was_read=True),)


def test_a_bundle_that_was_changed_or_cut_comes_in_only_by_force() -> None:
    changed = BUNDLE.replace(MEMORY.title, "Another title")
    cut = BUNDLE[: BUNDLE.rindex('{"count"')]

    for text in (changed, cut):
        (refused, (problem,)), (forced, _) = (read_memories(text, "x", AT, force=force)[1] for force in (False, True))
        assert refused == ()
        assert problem.why.endswith(". What can be read of it is imported only with force.")
        assert len(forced) == 1


def test_a_form_that_is_given_is_not_guessed() -> None:
    found, (memories, _) = read_memories(PROGRESS, "x", AT, ImportFormat.NOTES)

    assert found is ImportFormat.NOTES
    assert [memory.title for memory in memories] == ["Codebase Patterns", "2026-01-12 - US-001"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TASKS, "plan.txt contains tasks. Import them with: ralph task import plan.txt"),
        (LOOP_STATE, "plan.txt is a loop state without memories. Extract learnings with: ralph learn extract"),
        ('{"a": 1}', "No memories found in plan.txt."),
        ("", "plan.txt is empty."),
    ],
)
def test_what_holds_no_memories_says_so_in_one_sentence(text: str, why: str) -> None:
    assert read_memories(text, "plan.txt", AT)[1] == ((), (ReadProblem(line=1, why=why),))


@pytest.mark.parametrize("format", SAMPLES)
@pytest.mark.parametrize("text", ["", "x", "{", "[" * 9999, "---\ntitle: [\n---\n", '{"learnings": {}}', "\x00"])
def test_no_reader_fails_on_what_is_not_its_own(text: str, format: ImportFormat) -> None:
    found, (memories, unreadable) = read_memories(text, "x", AT, format)

    assert found is format
    assert all(memory.title for memory in memories)
    assert all(problem.why for problem in unreadable)


pieces = st.sampled_from([piece for text in SAMPLES.values() for piece in text.split("\n")])


@given(st.text() | st.lists(pieces | st.text(max_size=9), max_size=12).map("\n".join))
def test_no_text_makes_it_fail(text: str) -> None:
    found, (memories, unreadable) = read_memories(text, "x", AT)

    assert found is detect_format(text, "x")
    assert found is not ImportFormat.UNKNOWN or (memories == () and len(unreadable) == 1)


# --- time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        lambda size: "a" * size,
        lambda size: "```x\n" * (size // 5),
        lambda size: "<!--\n" * (size // 5),
        lambda size: "# a\nb\n" * (size // 6),
        lambda size: "### Sign: a\n- Trigger: b\n  c\n" * (size // 29),
        lambda size: "## 2026-01-01\n- **Learnings:**\n  - a b\n" * (size // 38),
        lambda size: "- a\n" + "  b\n" * (size // 4),
        lambda size: "- [ ] a\n" * (size // 8),
        lambda size: "[" * size,
        lambda size: '{"a": "' + "b" * size,
        lambda size: "*_- #`:" * (size // 7),
    ],
)
def test_four_times_the_text_takes_about_four_times_as_long(shape: Callable[[int], str]) -> None:
    def seconds(size: int) -> float:
        started = time.thread_time()
        read_memories(shape(size), "x", AT)
        return time.thread_time() - started

    def shortest(size: int) -> float:
        return min(seconds(size) for _ in range(3))

    # Sixteen times would be the sign of a loop within a loop.
    assert shortest(32_000) < 10 * shortest(8_000) + 0.1
