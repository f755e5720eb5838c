"""New memories get into `.agent/memories.md` without the file being parsed, and to the same place."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.memories_document import SECTION_HEADINGS, MarkdownEntry
from ralph.formats.memories_md import MEMORIES_TEMPLATE, edit_document
from ralph.formats.sync import sync
from ralph.formats.sync.additions import MAX_ADDITIONS, insert_entries
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from tests.make import a_memory

T = ChangeInfo(who="t", why="t")
LINES = (
    *(f"## {heading}" for heading in SECTION_HEADINGS.values()),
    "# Memories",
    "## notes",
    "### mem-1-aaaa",
    "### A remark",
    "#### Deep",
    "#tag",
    "> Quoted text",
    "> ```",
    "```",
    "~~~sh",
    "- ```",
    "",
    "  ",
    "Words of a person",
    "<!-- tags: a | created: 2026-01-02 -->",
)


def entry(number: int, kind: str) -> MarkdownEntry:
    return MarkdownEntry(id=f"mem-9-{number:04x}", kind=kind, body=f"Text {number}\nand more", created="2026-01-02")


def add(project: Project, count: int, since: int = 0) -> None:
    with project.store.transaction():
        for number in range(since, since + count):
            memory = a_memory(f"Fact {number}", f"Fact {number} is w{number}.", id=f"mem-{number}-0000", kind="pattern")
            project.store.memories.insert_unchecked(memory, T)


@given(st.lists(st.sampled_from(LINES), max_size=25), st.sampled_from(tuple(SECTION_HEADINGS)), st.booleans())
def test_new_entries_go_where_a_parsed_file_has_them(lines: list[str], kind: str, is_closed: bool) -> None:
    text = "\n".join(lines) + "\n" * is_closed
    new = [entry(1, kind), entry(2, kind)]

    found = insert_entries(text, new)

    assert found in (None, edit_document(text, put=new))


@pytest.mark.parametrize("kind", SECTION_HEADINGS)
def test_a_file_as_ralph_writes_it_needs_no_parsing(kind: str) -> None:
    text = edit_document(MEMORIES_TEMPLATE, put=[entry(number, one) for number, one in enumerate(SECTION_HEADINGS)])

    assert insert_entries(text, [entry(99, kind)]) == edit_document(text, put=[entry(99, kind)])


def test_adding_to_many_memories_is_no_more_work_than_adding_to_few(project: Project) -> None:
    add(project, 20)
    sync(project.store, project.root)
    few = _calls_of_a_sync_after_adding(project, 20)
    add(project, 1_000, since=1_000)
    sync(project.store, project.root)

    many = _calls_of_a_sync_after_adding(project, 5_000)

    assert many < 2 * few
    assert "w5000." in (project.root / ".agent" / "memories.md").read_text()


def _calls_of_a_sync_after_adding(project: Project, number: int) -> int:
    add(project, 1, since=number)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        sync(project.store, project.root)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("count", [1, MAX_ADDITIONS + 1])
def test_the_file_has_the_same_entries_whether_they_are_added_or_all_are_compared(project: Project, count: int) -> None:
    add(project, 3)
    sync(project.store, project.root)
    add(project, count, since=10)
    project.memory.add("Chosen because of w1.", type="decision")
    sync(project.store, project.root)
    text = (project.root / ".agent" / "memories.md").read_text()

    (project.root / ".agent" / "memories.md").unlink()
    sync(project.store, project.root)

    again = (project.root / ".agent" / "memories.md").read_text()
    assert sorted(again.split("\n### ")) == sorted(text.split("\n### "))


def test_what_is_added_changed_and_deleted_between_two_syncs_is_in_the_file_as_in_the_store(project: Project) -> None:
    add(project, 3)
    sync(project.store, project.root)

    project.memory.edit("mem-0-0000", content="Fact 0 is other.")
    project.memory.delete("mem-1-0000")
    project.memory.add("Fact 7 is new.")
    sync(project.store, project.root)

    text = (project.root / ".agent" / "memories.md").read_text()
    assert ["other" in text, "mem-1-0000" in text, "Fact 7" in text] == [True, False, True]


def test_a_new_knowledge_entry_gets_its_file_without_reading_the_others(project: Project) -> None:
    add(project, 1)
    known = [a_memory(f"Known {n}", f"Text {n}.", id=f"mem-{n}-0001", tags=("t",)) for n in range(1, 4)]
    for memory in known:
        project.store.memories.insert_unchecked(memory, T)
    sync(project.store, project.root)
    again = a_memory("Known 1", "Another text.", id="mem-9-0001", tags=("t",))
    project.store.memories.insert_unchecked(again, T)
    read: list[str] = []
    sys.setprofile(lambda frame, what, _: read.append(frame.f_code.co_name) if what == "call" else None)
    try:
        written = sync(project.store, project.root).written
    finally:
        sys.setprofile(None)

    files = sorted(path.name for path in (project.root / ".ralph" / "knowledge").iterdir())
    assert (written, "_full_sync" in read) == (1, False)
    assert files == ["known-1-2.md", "known-1.md", "known-2.md", "known-3.md"]
    assert "Another text." in (project.root / ".ralph" / "knowledge" / "known-1-2.md").read_text()
    (project.root / ".agent" / "memories.md").touch()
    assert sync(project.store, project.root).written == 0  # a full sync agrees
    assert sync(project.store, project.root).imported_count == 0
