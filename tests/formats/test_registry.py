from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.cli import main
from ralph.core.errors import UsageError
from ralph.core.records import MemoryState, replace
from ralph.formats.bundle import write_bundle
from ralph.formats.detection import MAX_NOTES_CHARS
from ralph.formats.learnings_json import write_learnings_json
from ralph.formats.memories_csv import write_memories_csv
from ralph.formats.memories_json import write_memories_json
from ralph.formats.memories_md import write_memories_md
from ralph.formats.registry import FORMATS, FileFormat, detect_format, export_formats, format_table, import_formats
from ralph.formats.staging_json import write_staging_json
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
MEMORY = a_memory("Tabs", "They break the parser.", kind="pattern", tags=("parser",))
LEARNING = a_memory(
    "Test first",
    "Test first.",
    kind="strategy",
    task_type="test-fix",
    structured_content='{"description":"Test first."}',
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
BEADS = (
    '{"id": "bd-1", "title": "Fix the parser", "status": "open", "priority": 1, "issue_type": "bug"}\n'
    '{"_type": "memory", "key": "tabs", "value": "Tabs break the parser."}\n'
)
TASKS = '{"id": "t-000001", "title": "Fix the parser", "status": "pending"}\n{"title": "Another"}\n'
LOOP_STATE = json.dumps(
    {"loopId": "loop-1", "objective": "Fix tests", "iterations": [{"number": 1, "learnings": ["a"]}]}
)

SAMPLES = {
    "bundle": BUNDLE,
    "learnings": LEARNINGS,
    "staging": STAGING,
    "json": MEMORIES_JSON,
    "csv": CSV,
    "markdown": MEMORIES_MD,
    "knowledge": KNOWLEDGE,
    "progress": PROGRESS,
    "guardrails": GUARDRAILS,
    "notes": NOTES,
    "beads": BEADS,
    "tasks": TASKS,
    "loop-state": LOOP_STATE,
}
READ_WHOLE = sorted(SAMPLES.keys() - {"tasks", "loop-state", "bundle", "beads"})


def detected(text: str, name: str) -> str | None:
    format = detect_format(text, name)
    return format.name if format else None


# --- detection ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["x", "ralph-learnings.json.bak", "memories.md", "progress.txt", "GUARDRAILS.md", "a.csv"]
)
@pytest.mark.parametrize("format", SAMPLES)
def test_a_file_is_told_by_what_it_says_whatever_its_name(format: str, name: str) -> None:
    assert detected(SAMPLES[format], name) == format


@pytest.mark.parametrize("format", SAMPLES)
def test_byte_order_marks_and_carriage_returns_hide_nothing(format: str) -> None:
    text = "\ufeff" + SAMPLES[format].replace("\n", "\r\n")

    assert detected(text, "x") == format


@pytest.mark.parametrize(
    ("text", "format"),
    [
        # JSON
        ('[{"type": "fix", "content": "Use tabs."}]', "json"),
        ('{"version": 1, "memories": []}', "json"),
        ('{"learnings": [], "memories": []}', "learnings"),
        ('{"version": "1.0.0", "learnings": [{"id": "a', "learnings"),
        ('{"staged": [{"id": "a', "staging"),
        ('{"ralph_bundle": 1, "proj', "bundle"),
        ('[{"title": "Fix it"}]', "tasks"),
        ('# Plan\n\n{"title": "Fix it"}\n', "tasks"),
        ('{"iterations": []}', None),
        ('{"name": "app", "version": "1.0.0"}', None),
        ('{"memories": 3}', None),
        ("[]", None),
        ('["a"]', None),
        ('{"a": oops', None),
        # tables
        ("id,type,taskType,confidence,successRate,useCount,createdAt\n", "csv"),
        ("type;content\nfix;Use tabs\n", "csv"),
        ("Type\tTitle\tContent\tOwner\n", "csv"),
        ("name,age\nme,7\n", None),
        # markdown memories
        ("# Memories\n\n## Patterns\n\n### mem-oops\nno quote\n", "markdown"),
        ("### mem-1767225600-0a1b\n> Use tabs.\n", "markdown"),
        (
            "# Memories\n\n### my note\n> Use tabs.\n<!-- tags: parser | created: 2026-01-01 -->\n",
            "markdown",
        ),
        ("# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n", "markdown"),
        ("# Memories\n\n> Learned here.\n\n## Tabs\n\nThey break it.\n", "notes"),
        ("# How to\n\n```markdown\n### mem-1767225600-0a1b\n> Use tabs.\n```\n\n## Usage\n\nSo.\n", "notes"),
        # front matter
        ("---\ntitle: Tabs\nfeature: parser\n---\nx", "knowledge"),
        ("---\nname: skill\ndescription: does it\n---\n# Skill\n\nDo it.\n", "notes"),
        ("---\niteration: 1\n---\n\n# Ralph Progress Log\n", "progress"),
        # logs
        ("# Progress Log\nStarted: now\n", "progress"),
        ("## Codebase Patterns\n- Use tabs.\n", "progress"),
        ("## Codebase Patterns\n- Use tabs.\n\n## Iteration 2 - setup-02\n- Did it.\n", "progress"),
        ("## ML-001 - A model\n**Status**: done\n\n### Learnings:\n- Use tabs.\n", "progress"),
        ("# Guide\n\n## Codebase Patterns\n- Use tabs.\n\n## Commands\n- `make`\n", "notes"),
        ("# Plan\n\n## Phase 1\n\nBuild it.\n\n## Learnings\n\nNone of them is dated.\n", "notes"),
        # guardrails
        ("# Guardrails (Signs)\n\n## Learned signs\n- Never skip the gate.\n", "guardrails"),
        ("# Reference\n\n## Sign: A\n- Trigger: b\n- Instruction: c\n", "guardrails"),
        ("# README\n\n```\n### Sign: A\n- Trigger: b\n- Instruction: c\n```\n", "notes"),
        ("# Functions\n\n### Sign: sign(x)\n\nIt is -1, 0 or 1.\n", "notes"),
        ("# Guardrails\n\nDo not push on Fridays.\n", "notes"),
        ("# Guardrails\n\n## Scope\n- The plan.\n\n## Constraints\n- Never skip the gate.\n", "notes"),
        # tasks
        ("# Plan\n\n- [ ] Fix it\n- [x] Test it\n", "tasks"),
        ("# Rules\n\nAll of these hold.\n\nAlways.\n\n- [ ] tick me\n", "notes"),
        # notes
        ("/home/me/.agent/memories.md", "notes"),
        ("Invoices are sent at night, never by day.", "notes"),
        ("[a link](there) and some more words to read", "notes"),
        # nothing
        ("", None),
        ("\ufeff \r\n\t\n", None),
        ("\x00\x01PNG and some more words to read", None),
        ("\ufffd" * 50 + " and some more words to read", None),
        ("<!DOCTYPE html>\n<p>and some more words to read</p>", None),
        ("1 2 3", None),
    ],
)
def test_what_is_damaged_or_looks_like_another_is_told_as_well(text: str, format: str | None) -> None:
    assert detected(text, "file") == format


@pytest.mark.parametrize(
    ("text", "name", "format"),
    [
        (
            "# Log\n\n## Codebase Patterns\n- Use tabs.\n\n## Commands\n- `make`\n",
            "scripts/progress.txt",
            "progress",
        ),
        ("# Rules we keep\n\n## Our signs\n- Never skip the gate.\n", ".ralph/guardrails.md", "guardrails"),
        ("# Work\n\nSome words.\n\nMore words.\n\n- [ ] Fix it\n", "plans/TODO.md", "tasks"),
    ],
)
def test_the_name_decides_where_two_forms_are_possible(text: str, name: str, format: str | None) -> None:
    assert detected(text, name) == format
    assert detected(text, "x") == "notes"


def test_no_notes_are_as_long_as_a_database() -> None:
    assert detected("# A\n\nwords here\n" * (MAX_NOTES_CHARS // 10), "x") is None
    assert detected("### mem-1-0000\n> a\n" * (MAX_NOTES_CHARS // 15), "x") == "markdown"


# --- reading -------------------------------------------------------------------------


@pytest.mark.parametrize("format", READ_WHOLE)
def test_every_format_is_read_by_its_reader(format: str) -> None:
    memories, problems = FORMATS[format].read(SAMPLES[format], AT)

    assert len(memories) == 1
    assert all(problem.was_read for problem in problems)


def test_a_staged_learning_stays_staged() -> None:
    (memory,), _ = FORMATS["staging"].read(STAGING, AT)

    assert memory.state is MemoryState.STAGED


@pytest.mark.parametrize("format", ["learnings", "staging"])
def test_learnings_with_a_wrong_checksum_are_read_only_with_force(format: str) -> None:
    changed = SAMPLES[format].replace("Test first.", "Test last.")

    refused = FORMATS[format].read(changed, AT)
    forced = FORMATS[format].read(changed, AT, force=True)

    assert [(len(found), problem.needs_force, problem.was_read) for found, (problem,) in (refused, forced)] == [
        (0, True, False),
        (1, False, True),
    ]


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("Tabs", "Spaces"), lambda text: text[: text.rindex('{"count"')]]
)
def test_a_bundle_that_was_changed_or_cut_is_imported_only_with_force(
    project: Project, change: Callable[[str], str]
) -> None:
    refused = project.transfer.import_text(change(BUNDLE), "x")
    forced = project.transfer.import_text(change(BUNDLE), "x", force=True)

    assert (refused.new, [problem.needs_force for problem in refused.problems]) == (0, [True])
    assert forced.new == 1


@pytest.mark.parametrize(("text", "format"), [("", "unknown"), ('{"a": 1}', "unknown"), (PROGRESS, "notes")])
def test_a_given_format_is_not_detected_and_an_unknown_one_is_a_problem(
    project: Project, text: str, format: str
) -> None:
    result = project.transfer.import_text(text, "x", format="notes" if format == "notes" else None)

    assert result.format == format
    assert (result.new > 0, len(result.problems)) == ((True, 0) if format == "notes" else (False, 1))


@pytest.mark.parametrize("format", READ_WHOLE)
@pytest.mark.parametrize("text", ["", "x", "{", "[" * 9999, "---\ntitle: [\n---\n", '{"learnings": {}}', "\x00"])
def test_no_reader_fails_on_what_is_not_its_own(text: str, format: str) -> None:
    memories, problems = FORMATS[format].read(text, AT)

    assert all(memory.title for memory in memories)
    assert all(problem.why for problem in problems)


pieces = st.sampled_from([piece for text in SAMPLES.values() for piece in text.split("\n")])


@given(st.text() | st.lists(pieces | st.text(max_size=9), max_size=12).map("\n".join))
def test_no_text_makes_a_detected_reader_fail(text: str) -> None:
    read(text)


def read(text: str) -> None:
    format = detect_format(text, "x")
    if format and format.name in READ_WHOLE:
        format.read(text, AT)


@pytest.mark.parametrize("damaged", [LEARNINGS.replace("Test first.", "Test last."), LEARNINGS[:-5], "", "\x00" * 100])
def test_a_damaged_file_is_imported_from_its_backup(project: Project, tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "ralph-learnings.json"
    path.write_text(damaged)
    path.with_name(path.name + ".bak").write_text(LEARNINGS)

    (result,) = project.transfer.import_path(path)

    assert (result.format, result.new, result.problems) == ("learnings", 1, ())
    assert result.note
    assert path.read_text() == damaged


def test_an_intact_file_is_imported_whatever_its_backup_is(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "ralph-learnings.json"
    path.write_text(LEARNINGS)
    path.with_name(path.name + ".bak").write_text("{")

    (result,) = project.transfer.import_path(path)

    assert (result.new, result.note, result.problems) == (1, "", ())


# --- the registry --------------------------------------------------------------------


def test_every_entry_names_functions_that_exist() -> None:
    for format in FORMATS.values():
        for reference in (format.detector, format.reader, format.verifier, format.writer, format.selector):
            module, _, name = reference.partition(":")
            assert not reference or callable(getattr(importlib.import_module(module), name)), reference


def test_loading_the_registry_loads_no_format() -> None:
    code = "import sys, ralph.formats.registry; print(*(m for m in sys.modules if m.startswith('ralph.formats.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["ralph.formats.registry"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> FileFormat:
    """Register a format that is one entry and one module."""
    here = "tests.formats.toy_format:"
    format = FileFormat(
        name="toy",
        title="one line per memory",
        extensions=(".toy",),
        project_paths=("memories.toy",),
        detector=here + "is_toy",
        reader=here + "read_toy",
        writer=here + "write_toy",
    )
    monkeypatch.setitem(FORMATS, "toy", format)
    return format


@pytest.mark.usefixtures("toy")
def test_a_new_format_is_detected_imported_and_exported(project: Project, tmp_path: Path) -> None:
    (tmp_path / "memories.toy").write_text("!toy\nfix: Start docker first.\n")

    results = project.transfer.import_path(tmp_path)
    exported = project.transfer.export("toy", MemoryFilter())
    project.transfer.save(exported, "toy", tmp_path / "out.toy")

    assert [(result.format, result.new) for result in results] == [("toy", 1)]
    assert (tmp_path / "out.toy").read_text() == "!toy\nfix: Start docker first.\n"


@pytest.mark.usefixtures("toy")
def test_a_new_format_is_a_choice_on_the_command_line_and_in_the_docs(
    project: Project, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("fix: Start docker first.\n")

    imported = main(["-C", str(project.root), "memory", "import", "--from", "toy", str(tmp_path / "x")])
    capsys.readouterr()
    exported = main(["-C", str(project.root), "memory", "export", "--format", "toy"])

    assert (imported, exported) == (0, 0)
    assert "fix: Start docker first." in capsys.readouterr().out
    assert "| `toy` | yes | yes | one line per memory |" in format_table()
    assert "toy" in import_formats()
    assert "toy" in export_formats()


@pytest.fixture
def write_only_toy(monkeypatch: pytest.MonkeyPatch) -> FileFormat:
    """Register a format that can only be exported."""
    title, writer = "a report", "tests.formats.toy_format:write_toy"
    format = FileFormat(name="toy-report", title=title, writer=writer, keeps_backup=True)
    monkeypatch.setitem(FORMATS, "toy-report", format)
    return format


@pytest.mark.usefixtures("write_only_toy")
def test_a_format_without_a_reader_is_only_exported(project: Project, tmp_path: Path) -> None:
    project.memory.add("Start docker first.", type="fix")
    path = tmp_path / "report.md"

    for _ in range(2):
        project.transfer.save(project.transfer.export("toy-report", MemoryFilter()), "toy-report", path)

    assert path.read_text() == path.with_name("report.md.bak").read_text() == "!toy\nfix: Start docker first.\n"
    assert "toy-report" in export_formats()
    assert "toy-report" not in import_formats()
    assert detect_format("!toy", "x") is None
    assert "| `toy-report` |  | yes | a report |" in format_table()


@pytest.mark.usefixtures("write_only_toy")
@pytest.mark.parametrize("format", ["poem", "toy-report"])
def test_a_format_that_cannot_be_imported_is_refused(project: Project, tmp_path: Path, format: str) -> None:
    (tmp_path / "x").write_text("fix: Start docker first.\n")

    with pytest.raises(UsageError) as from_path:
        project.transfer.import_path(tmp_path / "x", format=format)
    with pytest.raises(UsageError) as from_text:
        project.transfer.import_text("fix: Start docker first.", "x", format=format)

    assert from_path.value.code == from_text.value.code == "unknown-format"


def test_formats_without_a_reader_of_memories_are_still_imported() -> None:
    assert {"tasks", "loop-state"} < set(import_formats())


# --- time ----------------------------------------------------------------------------


@pytest.mark.slow
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
        read(shape(size))
        return time.thread_time() - started

    def shortest(size: int) -> float:
        return min(seconds(size) for _ in range(3))

    # Sixteen times would be the sign of a loop within a loop.
    assert shortest(32_000) < 10 * shortest(8_000) + 0.1
