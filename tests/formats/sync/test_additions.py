"""New memories get into `.agent/memories.md` without the file being parsed, and to the same place."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.memories_document import SECTION_HEADINGS, MarkdownEntry
from ralph.formats.memories_md import MEMORIES_TEMPLATE, edit_document, insertion_offsets
from ralph.formats.sync import held_memory_ids, sync
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


@given(
    st.lists(st.sampled_from(LINES), max_size=25),
    st.lists(st.sampled_from(tuple(SECTION_HEADINGS)), min_size=1, max_size=6),
    st.sampled_from(("\n", "\r\n")),
    st.booleans(),
    st.booleans(),
)
def test_new_entries_go_where_a_parsed_file_has_them(
    lines: list[str], kinds: list[str], newline: str, is_closed: bool, has_mark: bool
) -> None:
    text = "\ufeff" * has_mark + newline.join(lines) + newline * is_closed
    content, offsets = text.encode(), insertion_offsets(text)
    for number in range(2):
        new = [entry(10 * number + n, kind) for n, kind in enumerate(kinds) if kind in offsets]

        parts, offsets = insert_entries(content, offsets, new)

        content, text = b"".join(parts), edit_document(text, put=new) if new else text
        assert content.decode() == text


@pytest.mark.parametrize("kind", SECTION_HEADINGS)
def test_a_file_as_ralph_writes_it_has_a_place_for_each_kind(kind: str) -> None:
    text = edit_document(MEMORIES_TEMPLATE, put=[entry(number, one) for number, one in enumerate(SECTION_HEADINGS)])

    parts, _ = insert_entries(text.encode(), insertion_offsets(text), [entry(99, kind)])

    assert b"".join(parts).decode() == edit_document(text, put=[entry(99, kind)])


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


def _names_called(act: Callable[[], object]) -> set[str]:
    called: set[str] = set()
    sys.setprofile(lambda frame, what, _: called.add(frame.f_code.co_name) if what == "call" else None)
    try:
        act()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize(
    "prepare",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("# Memories\n", "# Memories\n```\n## Fixes\n```\n"),
        lambda text: text.replace("## Fixes\n", "## Fixes\nWhat broke, and why.\n"),
        lambda text: text + "\n### A remark\n- ```\n  not closed\n",
    ],
)
def test_what_people_add_to_the_file_does_not_make_each_addition_parse_it(
    project: Project, prepare: Callable[[str], str]
) -> None:
    path = project.root / ".agent" / "memories.md"
    add(project, 3)
    sync(project.store, project.root)
    path.write_bytes(prepare(path.read_text()).encode())
    sync(project.store, project.root)
    for number in range(3):
        before = path.read_bytes().decode()
        new = project.memory.add(f"Fixed {number} by w{number}.", type="fix").memory

        called = _names_called(lambda: sync(project.store, project.root))

        made = MarkdownEntry(id=new.id, kind="fix", body=new.content, created=new.created_at[:10])
        assert "parse_page" not in called
        assert path.read_bytes().decode() == edit_document(before, put=[made])
    path.touch()
    again = sync(project.store, project.root)
    assert (again.imported_count, again.written) == (0, 0)  # a full sync agrees


def test_a_held_entry_stays_held_and_reported_while_others_are_added(project: Project) -> None:
    path = project.root / ".agent" / "memories.md"
    add(project, 3)
    sync(project.store, project.root)
    older = path.read_bytes()
    project.memory.edit("mem-0-0000", content="Fact 0 is newer.")
    sync(project.store, project.root)
    path.write_bytes(older)
    held = sync(project.store, project.root)
    add(project, 1, since=4)

    called = _names_called(lambda: sync(project.store, project.root))

    after = sync(project.store, project.root)
    assert "parse_page" not in called
    assert (held.held_count, after.held_count) == (1, 1)
    assert after.problems == held.problems
    assert held_memory_ids(project.store, project.root) == [(".agent/memories.md", "mem-0-0000")]
    assert "mem-4-0000" in path.read_text()


@pytest.mark.parametrize("damage", ["0", "1", "99999999", "x"])
def test_a_damaged_record_of_the_layout_is_noticed(project: Project, damage: str) -> None:
    path = project.root / ".agent" / "memories.md"
    add(project, 3)
    sync(project.store, project.root)
    before = path.read_text()
    mark = project.store.scope.query("SELECT files_mark FROM synced_places")[0]["files_mark"]
    damaged = re.sub(r"pattern:\d+", f"pattern:{damage}", mark)
    project.store.scope.execute("UPDATE synced_places SET files_mark = :mark", mark=damaged)
    new = project.memory.add("Fact 7 is new.", type="pattern").memory

    sync(project.store, project.root)

    made = MarkdownEntry(id=new.id, kind="pattern", body=new.content, created=new.created_at[:10])
    assert damaged != mark
    assert path.read_text() == edit_document(before, put=[made])


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
    written: list[int] = []
    called = _names_called(lambda: written.append(sync(project.store, project.root).written))

    files = sorted(path.name for path in (project.root / ".ralph" / "knowledge").iterdir())
    assert (written, "_full_sync" in called) == ([1], False)
    assert files == ["known-1-2.md", "known-1.md", "known-2.md", "known-3.md"]
    assert "Another text." in (project.root / ".ralph" / "knowledge" / "known-1-2.md").read_text()
    (project.root / ".agent" / "memories.md").touch()
    assert sync(project.store, project.root).written == 0  # a full sync agrees
    assert sync(project.store, project.root).imported_count == 0
