from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ralph.core.markdown import blank_code_blocks
from ralph.core.records import MemorySource, replace
from ralph.formats.memories_document import SECTION_HEADINGS, MarkdownEntry, MemoriesDocument, parse_document
from ralph.formats.memories_md import MEMORIES_TEMPLATE, edit_document, header_id, read_memories_md, write_memories_md
from ralph.formats.planned import ReadProblem
from tests.make import a_memory

NOW = "2026-03-01T12:00:00.000Z"

FILE = """\
# Memories

## Patterns

### mem-1700000200-a1b2
> Routes are registered in one place.
> A handler never imports another.
<!-- tags: api, layout | created: 2025-01-20 -->

### mem-1700000100-c3d4
> Run the tests first.
<!-- tags: workflow | created: 2025-01-19 -->

## Decisions

### mem-1700000300-e5f6
> Rows, not documents.
<!-- tags: storage | created: 2025-01-21 -->

## Fixes

## Context
"""


def entries(text: str) -> tuple[MarkdownEntry, ...]:
    """Read a file that nothing is wrong with."""
    document = parse_document(text)
    assert document.problems == ()
    return document.entries


def bodies(text: str) -> list[tuple[str, str, str]]:
    """Give id, kind and text of every entry."""
    return [(entry.id, entry.kind, entry.body) for entry in parse_document(text).entries]


def ids(text: str) -> list[str]:
    return [entry.id for entry in parse_document(text).entries]


def an_entry(id: str = "mem-1-new", body: str = "New.", **fields: object) -> MarkdownEntry:
    return replace(MarkdownEntry(id=id, kind="pattern", body=body, tags=("a",), created="2025-02-01"), **fields)


NEW_BLOCK = "### mem-1-new\n> New.\n<!-- tags: a | created: 2025-02-01 -->\n"


# --- reading ---------------------------------------------------------------------------


def test_entries_have_the_kind_of_their_section_their_text_tags_and_date() -> None:
    first, second, third = entries(FILE)

    assert first == MarkdownEntry(
        id="mem-1700000200-a1b2",
        kind="pattern",
        body="Routes are registered in one place.\nA handler never imports another.",
        tags=("api", "layout"),
        created="2025-01-20",
        line=5,
    )
    assert (second.kind, third.kind) == ("pattern", "decision")
    assert FILE.split("\n")[third.line - 1] == "### mem-1700000300-e5f6"


@pytest.mark.parametrize(
    "text", ["", "\n", "\ufeff", MEMORIES_TEMPLATE, "just words", "> a quote\n", "# A title\n> a quote\n"]
)
def test_a_file_without_entries_is_empty_and_no_problem(text: str) -> None:
    assert parse_document(text) == MemoriesDocument(entries=(), problems=(), has_conflict=False)


@pytest.mark.parametrize("id", ["mem-1737390000-g7h8", "mem-1737400000-i9j0", "mem-x", "mem-my_own-note", "mem-über-1"])
def test_an_id_needs_no_certain_digits(id: str) -> None:
    assert bodies(f"### {id}\n> a\n") == [(id, "pattern", "a")]


@pytest.mark.parametrize("heading", ["###  mem-1", "###\tmem-1", "### mem-1  ", "### mem-1 (about parsers)"])
def test_a_heading_may_have_room_and_words_around_its_id(heading: str) -> None:
    assert bodies(f"{heading}\n> a\n") == [("mem-1", "pattern", "a")]


@pytest.mark.parametrize("heading", ["###mem-1", "#### mem-1", " ### mem-1", "mem-1"])
def test_other_lines_with_an_id_are_no_entries(heading: str) -> None:
    assert bodies(f"{heading}\n> a\n") == []


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ("> a\n>\n> b\n", "a\n\nb"),
        (">a\n>  b\n> \n", "a\n b\n"),
        ("> a\n\n> b\n", "a\nb"),
        ("> ### mem-2\n> > deep\n> -->\n", "### mem-2\n> deep\n-->"),
        ("> a  \n", "a  "),
        ("> ```\n> x\n", "```\nx"),
    ],
)
def test_every_quoted_line_is_text_and_blank_ones_are_kept(lines: str, body: str) -> None:
    assert bodies(f"### mem-1\n{lines}") == [("mem-1", "pattern", body)]


@pytest.mark.parametrize(
    ("comment", "tags", "created"),
    [
        ("", (), ""),
        ("<!-- tags: a, b | created: 2025-01-20 -->", ("a", "b"), "2025-01-20"),
        ("<!--tags:a,b|created:2025-01-20-->", ("a", "b"), "2025-01-20"),
        ("  <!--  created: 2025-01-20  |  Tags: a ,, b, a  -->  ", ("a", "b"), "2025-01-20"),
        ("<!-- tags: a b, c:d -->", ("a b", "c:d"), ""),
        ("<!-- created: 2025-01-20 -->", (), "2025-01-20"),
        ("<!-- tags:  | created: 2025-01-20 -->", (), "2025-01-20"),
        ("<!-- tags: a | created: 2025-01-20T10:00:00Z | by: me -->", ("a",), "2025-01-20"),
        ("<!-- tags: a | created: last week -->", ("a",), ""),
        ("<!-- tags: a | created: 2025-13-01 -->", ("a",), ""),
        ("<!-- a remark -->", (), ""),
        ("<!-- tags: a --> and more", (), ""),
        ("<!-- tags: a", (), ""),
    ],
)
def test_tags_and_date_are_read_however_they_are_written(comment: str, tags: tuple[str, ...], created: str) -> None:
    (entry,) = entries(f"### mem-1\n> text\n{comment}\n")

    assert (entry.body, entry.tags, entry.created) == ("text", tags, created)


def test_an_unknown_section_keeps_the_kind_of_the_one_before() -> None:
    text = "### mem-1\n> a\n## Fixes\n### mem-2\n> b\n## Odds and ends\n### mem-3\n> c\n# Part two\n### mem-4\n> d\n"

    assert [(id, kind) for id, kind, _ in bodies(text)] == [
        ("mem-1", "pattern"),
        ("mem-2", "fix"),
        ("mem-3", "fix"),
        ("mem-4", "fix"),
    ]


@pytest.mark.parametrize("heading", ["## decisions", "##  Decisions  ", "## Decisions ##", "## DECISIONS"])
def test_a_section_is_known_however_it_is_written(heading: str) -> None:
    assert bodies(f"{heading}\n### mem-1\n> a\n") == [("mem-1", "decision", "a")]


@pytest.mark.parametrize(
    ("heading", "id"),
    [
        ("### something-else", "mem-something-else"),
        ("### mem-", "mem-mem"),
        ("### mem-1.5", "mem-1-5"),
        ("###", "mem-entry"),
    ],
)
def test_a_block_with_another_heading_is_an_entry_and_does_not_flow_into_the_one_before(heading: str, id: str) -> None:
    document = parse_document(f"### mem-1\n> a\n\n{heading}\n> b\n<!-- tags: t -->\n\n### mem-2\n> c\n")

    assert [(one.id, one.body, one.tags) for one in document.entries] == [
        ("mem-1", "a", ()),
        (id, "b", ("t",)),
        ("mem-2", "c", ()),
    ]
    assert document.problems == ()


@pytest.mark.parametrize("rest", ["", "<!-- tags: a -->\n", ">\n> \n"])
def test_an_entry_without_words_is_a_problem_but_not_gone(rest: str) -> None:
    document = parse_document(f"### mem-1\n{rest}\n### mem-2\n> b\n")

    assert [entry.id for entry in document.entries] == ["mem-2"]
    assert document.problems == (ReadProblem(line=1, why="Skipped entry 'mem-1': it has no text."),)
    assert document.ids_without_text == ("mem-1",)


VARIANTS = """\
# Memories

Facts that hold across sessions.

### sqlite-wal (2026-03-04)
Checkpoint the log before a copy:

```sh
# not a heading
sqlite3 x.db 'PRAGMA wal_checkpoint'
```

### Retry budget — 2026-03-05

- three attempts
- then ask

## Decisions

- **Rows**, not documents.
  They are easier to query.
* No ORM.
<!-- tags: storage -->

### mem-1700000300-e5f6
Quoted by nobody.
<!-- tags: a | created: 2025-01-21 -->

### sqlite-wal (2026-03-04)
> The same heading again.

## Android permissions (2026-03-06)

- `INTERNET` must be declared.

### Empty

## Fixes
"""


@pytest.mark.parametrize("change", [str, lambda text: "\ufeff" + text.replace("\n", "\r\n")])
def test_entries_in_other_forms_are_read_with_their_heading_date_and_kind(change: Callable[[str], str]) -> None:
    document = parse_document(change(VARIANTS))

    found = [(one.id, one.kind, one.title, one.body.split("\n")[0], one.created) for one in document.entries]
    assert found == [
        ("mem-sqlite-wal-2026-03-04", "pattern", "sqlite-wal", "Checkpoint the log before a copy:", "2026-03-04"),
        ("mem-Retry-budget-2026-03-05", "pattern", "Retry budget", "- three attempts", "2026-03-05"),
        ("mem-Rows-not-documents", "decision", "", "**Rows**, not documents.", ""),
        ("mem-No-ORM", "decision", "", "No ORM.", ""),
        ("mem-1700000300-e5f6", "decision", "", "Quoted by nobody.", "2025-01-21"),
        ("mem-sqlite-wal-2026-03-04-2", "decision", "sqlite-wal", "The same heading again.", "2026-03-04"),
        (
            "mem-Android-permissions-2026-03-06",
            "pattern",
            "Android permissions",
            "- `INTERNET` must be declared.",
            "2026-03-06",
        ),
    ]
    assert document.entries[0].body.endswith("wal_checkpoint'\n```")
    assert document.entries[2].body == "**Rows**, not documents.\nThey are easier to query."
    assert document.entries[3].tags == ("storage",)
    assert [problem.line for problem in document.problems] == [
        change(VARIANTS).split("\n").index("### Empty" + "\r" * ("\r" in change("\n"))) + 1
    ]


def test_an_import_names_every_line_of_other_forms_that_it_leaves_out() -> None:
    memories, problems = read_memories_md(VARIANTS + "A stray paragraph.\n", NOW)

    assert len(memories) == 7
    lines = VARIANTS.split("\n")
    assert [(problem.line, problem.was_read) for problem in problems] == [
        (3, True),
        (lines.index("### Empty") + 1, False),
        (len(lines), False),
    ]


@pytest.mark.parametrize(
    ("id", "created"),
    [
        pytest.param("mem-1771420870-071e", "2026-02-18T13:21:10.000Z", id="on that day"),
        pytest.param("mem-1771520870-071e", "2026-02-18T00:00:00.000Z", id="on another day"),
        pytest.param("mem-99999999999999-071e", "2026-02-18T00:00:00.000Z", id="no time"),
    ],
)
def test_an_entry_was_made_when_its_id_says_if_that_is_on_its_day(id: str, created: str) -> None:
    text = f"# Memories\n\n## Patterns\n\n### {id}\n> Use tabs.\n<!-- tags: x | created: 2026-02-18 -->\n"

    memories, _ = read_memories_md(text, NOW)

    assert [memory.created_at for memory in memories] == [created]
    assert "created: 2026-02-18" in write_memories_md(memories)


def test_an_entry_in_another_form_is_rewritten_only_when_it_changes() -> None:
    found = {one.id: one for one in parse_document(VARIANTS).entries}
    wal, orm = found["mem-sqlite-wal-2026-03-04"], found["mem-No-ORM"]

    changed = edit_document(VARIANTS, put=[*found.values(), replace(wal, body="New."), replace(orm, body="One ORM.")])

    after = {one.id: (one.kind, one.body) for one in parse_document(changed).entries}
    assert after == {one.id: (one.kind, one.body) for one in found.values()} | {
        wal.id: ("pattern", "New."),
        orm.id: ("decision", "One ORM."),
    }
    assert "### mem-sqlite-wal-2026-03-04\n> New.\n<!-- tags:  | created: 2026-03-04 -->\n\n### Retry budget" in changed


def test_an_entry_in_another_form_is_removed_with_all_its_rows() -> None:
    ids_left = ids(VARIANTS)
    text = VARIANTS
    for id in ids(VARIANTS)[::-1]:
        text = edit_document(text, remove=[id])
        ids_left.remove(id)
        assert ids(text) == ids_left
    assert text == ("# Memories\n\nFacts that hold across sessions.\n\n## Decisions\n\n### Empty\n\n## Fixes\n")


def test_equal_ids_are_given_as_they_stand() -> None:
    assert bodies("### mem-1\n> a\n### mem-1\n> b\n") == [("mem-1", "pattern", "a"), ("mem-1", "pattern", "b")]


@pytest.mark.parametrize(("opening", "closing"), [("```", "```"), ("```md", "````"), ("~~~", "~~~"), ("  ```", " ```")])
def test_an_example_in_a_code_block_is_no_entry(opening: str, closing: str) -> None:
    code = f"{opening}\n### mem-1\n> a\n### other\n> b\n{closing}\n"
    text = f"Write it so:\n{code}\n### mem-2\n> b\n{code}> c\n"

    assert bodies(text) == [("mem-2", "pattern", "b\nc")]
    assert parse_document(text).problems == ()


def test_a_code_block_that_never_ends_hides_nothing() -> None:
    assert bodies("```\n### mem-1\n> a\n") == [("mem-1", "pattern", "a")]
    assert blank_code_blocks(["````", "a", "```", "b", "~~~", "~~~"]) == (["````", "a", "```", "b", "", ""], [0, 2])


def test_carriage_returns_and_a_byte_order_mark_are_no_part_of_an_entry() -> None:
    text = "\ufeff### mem-1\r\n> a\r\n>\r\n> b\r\n<!-- tags: t | created: 2025-01-20 -->\r\n"

    (entry,) = entries(text)

    assert (entry.body, entry.tags, entry.created) == ("a\n\nb", ("t",), "2025-01-20")


# --- what git could not merge ------------------------------------------------------------


def sides(text: str) -> list[tuple[str, str, str]]:
    """Give id, side and text of every entry."""
    return [(entry.id, entry.side, entry.body) for entry in parse_document(text).entries]


CONFLICT = """\
## Patterns

<<<<<<< HEAD
### mem-1
> ours
<!-- tags: a -->
||||||| base
### mem-0
> base
=======
### mem-2
> theirs
>>>>>>> topic

### mem-3
> shared
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_entries_inside_a_conflict_have_a_side(newline: str) -> None:
    text = CONFLICT.replace("\n", newline)

    assert parse_document(text).has_conflict
    assert sides(text) == [("mem-1", "ours", "ours"), ("mem-2", "theirs", "theirs"), ("mem-3", "", "shared")]
    lines = text.split(newline)
    assert all(lines[entry.line - 1] == f"### {entry.id}" for entry in parse_document(text).entries)


def test_an_entry_that_both_sides_changed_is_given_once_for_each() -> None:
    text = "### mem-1\n<<<<<<< a\n> ours\n=======\n> theirs\n>>>>>>> b\n<!-- tags: t -->\n\n### mem-2\n> b\n"

    document = parse_document(text)

    assert sides(text) == [("mem-1", "ours", "ours"), ("mem-1", "theirs", "theirs"), ("mem-2", "", "b")]
    assert [entry.tags for entry in document.entries] == [("t",), ("t",), ()]
    assert [entry.line for entry in document.entries] == [1, 1, 9]


def test_an_entry_that_one_side_made_longer_is_given_once_for_each() -> None:
    text = "### mem-1\n> a\n<<<<<<< a\n=======\n> b\n>>>>>>> b\n"

    assert sides(text) == [("mem-1", "ours", "a"), ("mem-1", "theirs", "a\nb")]


@pytest.mark.parametrize(
    "line", ["=======", "|||||||", "<<<<<<<<", ">>>>>>>>", "<<<<<<<x", "a <<<<<<< x", "> <<<<<<< x"]
)
def test_a_line_that_only_looks_like_the_mark_of_a_conflict_is_none(line: str) -> None:
    document = parse_document(f"### mem-1\n> a\n\nTitle\n{line}\n")

    assert not document.has_conflict
    assert [entry.side for entry in document.entries] == [""]


def test_a_mark_that_was_left_behind_is_a_conflict_and_no_text() -> None:
    document = parse_document("### mem-1\n> a\n>>>>>>> topic\n### mem-2\n> b\n<<<<<<< HEAD\n> c\n")

    assert document.has_conflict
    assert [(one.id, one.side, one.body) for one in document.entries] == [("mem-1", "", "a"), ("mem-2", "", "b\nc")]


def test_a_file_with_a_conflict_is_not_edited() -> None:
    assert edit_document(CONFLICT, put=[an_entry("mem-2"), an_entry()], remove=["mem-1"]) == CONFLICT


def test_what_both_sides_have_is_problem_once() -> None:
    document = parse_document(CONFLICT + "### bad\n> x\n### mem-9\n")

    assert [problem.line for problem in document.problems] == [19]
    assert document.ids_without_text == ("mem-9",)


# --- putting -----------------------------------------------------------------------------


def block(entry: MarkdownEntry) -> str:
    text = edit_document(f"## {SECTION_HEADINGS[entry.kind]}\n", put=[entry])
    return "### " + text.partition("### ")[2]


def test_a_block_has_the_shape_of_the_file() -> None:
    first, second, third = entries(FILE)

    assert all(block(one) in FILE for one in (first, second, third))


def test_a_block_says_nothing_of_what_is_not_known() -> None:
    assert block(an_entry(tags=(), created="")) == "### mem-1-new\n> New.\n"
    assert block(an_entry(created="")) == "### mem-1-new\n> New.\n<!-- tags: a -->\n"
    assert block(an_entry(tags=())) == "### mem-1-new\n> New.\n<!-- tags:  | created: 2025-02-01 -->\n"
    assert block(an_entry(created="2025-02-01 -->\nx", tags=())) == "### mem-1-new\n> New.\n"


def test_a_new_entry_goes_right_after_the_heading_of_its_section() -> None:
    text = edit_document(FILE, put=[an_entry()])

    assert text == FILE.replace("## Patterns\n", f"## Patterns\n\n{NEW_BLOCK}")


def test_the_last_of_several_new_entries_is_on_top() -> None:
    text = edit_document(
        FILE, put=[an_entry("mem-1"), an_entry("mem-2", kind="fix"), an_entry("mem-3"), an_entry("mem-4")]
    )

    assert ids(text)[:4] == ["mem-4", "mem-3", "mem-1", "mem-1700000200-a1b2"]
    assert ids(text)[-1] == "mem-2"
    assert "\n\n\n" not in text


@pytest.mark.parametrize("text", ["", "\n \n", "\r\n"])
def test_an_empty_file_starts_from_the_template(text: str) -> None:
    newline = "\r\n" if "\r" in text else "\n"
    expected = MEMORIES_TEMPLATE.replace("## Fixes\n", "## Fixes\n\n" + NEW_BLOCK)

    assert edit_document(text, put=[an_entry(kind="fix")]) == expected.replace("\n", newline)
    assert edit_document("\ufeff" + text, put=[an_entry(kind="fix")]) == "\ufeff" + expected.replace("\n", newline)
    assert edit_document(text) == text
    assert edit_document(text, remove=["mem-1"]) == text


def test_missing_sections_are_made_at_the_end_in_the_order_of_the_template() -> None:
    text = edit_document(
        "# Mine\n\nwords", put=[an_entry("mem-1", kind="context"), an_entry("mem-2"), an_entry("mem-3")]
    )

    comment = "<!-- tags: a | created: 2025-02-01 -->"
    assert text == (
        "# Mine\n\nwords\n\n## Patterns\n\n"
        f"### mem-3\n> New.\n{comment}\n\n### mem-2\n> New.\n{comment}\n\n## Context\n\n### mem-1\n> New.\n{comment}\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Patterns", f"## Patterns\n\n{NEW_BLOCK}"),
        ("## Patterns\n### mem-1\n> a\n", f"## Patterns\n\n{NEW_BLOCK}\n### mem-1\n> a\n"),
        ("## Patterns\n## Fixes\n", f"## Patterns\n\n{NEW_BLOCK}\n## Fixes\n"),
        ("## Patterns\n\n\n## Fixes", f"## Patterns\n\n{NEW_BLOCK}\n\n## Fixes"),
        ("### mem-1\n> a", f"### mem-1\n> a\n\n## Patterns\n\n{NEW_BLOCK}"),
    ],
)
def test_a_new_entry_has_a_blank_line_on_either_side(before: str, after: str) -> None:
    assert edit_document(before, put=[an_entry()]) == after


def test_words_that_introduce_a_section_stay_above_its_entries() -> None:
    text = "## Patterns\n\n> How we do things here.\n\n### mem-1\n> a\n"

    changed = edit_document(text, put=[an_entry()])

    assert changed == f"## Patterns\n\n> How we do things here.\n\n{NEW_BLOCK}\n### mem-1\n> a\n"
    assert ids(changed) == ["mem-1-new", "mem-1"]


NOTED = """\
## Patterns
intro

### mem-1 (parser)
a note above
>old
>text
a note between
<!--created: 2025-01-20 |tags:a | by: me-->

a note below
  - with a list

### mem-2
> b
"""


def test_a_changed_entry_stays_where_it_is_with_all_the_notes_in_it() -> None:
    text = edit_document(NOTED, put=[an_entry("mem-1", "new\n\ntext", tags=("a", "b"), created="")])

    assert text == NOTED.replace(">old\n>text\n", "> new\n>\n> text\n").replace(
        "<!--created: 2025-01-20 |tags:a | by: me-->", "<!-- tags: a, b | created: 2025-01-20 | by: me -->"
    )


def test_only_what_changed_is_written_anew() -> None:
    same = an_entry("mem-1", "old\ntext", created="2025-01-20")

    assert edit_document(NOTED, put=[same]) == NOTED
    assert edit_document(NOTED, put=[replace(same, body="new")]) == NOTED.replace(">old\n>text\n", "> new\n")
    assert edit_document(NOTED, put=[replace(same, tags=())]) == NOTED.replace(
        "<!--created: 2025-01-20 |tags:a | by: me-->", "<!-- tags:  | created: 2025-01-20 | by: me -->"
    )


def test_an_entry_without_a_comment_gets_one_below_its_text() -> None:
    text = edit_document("### mem-1\n> a\nnote\n### mem-2\n> b", put=[an_entry("mem-1", "a"), an_entry("mem-2", "c")])

    comment = "<!-- tags: a | created: 2025-02-01 -->"
    assert text == f"### mem-1\n> a\n{comment}\nnote\n### mem-2\n> c\n{comment}\n"


def test_an_entry_of_another_kind_moves_with_its_notes() -> None:
    text = NOTED + "\n## Fixes\n\n### mem-3\n> c\n"

    changed = edit_document(text, put=[an_entry("mem-1", "old\ntext", kind="fix", created="2025-01-20")])

    start, end = text.index("### mem-1"), text.index("### mem-2")
    expected = text[:start] + text[end:]
    assert changed == expected.replace("## Fixes\n", "## Fixes\n\n" + text[start:end].rstrip("\n") + "\n")


def test_an_entry_without_words_gets_them_where_it_stands() -> None:
    text = "### mem-1\n<!-- created: 2024-12-31 -->\n\n### mem-2\n> b\n"

    changed = edit_document(text, put=[an_entry("mem-1", created="")])

    assert changed == "### mem-1\n> New.\n<!-- tags: a | created: 2024-12-31 -->\n\n### mem-2\n> b\n"


def test_the_first_of_two_entries_with_one_id_is_changed() -> None:
    text = "### mem-1\n> a\n\n### mem-1\n> b\n"

    assert (
        edit_document(text, put=[an_entry("mem-1", "c", tags=(), created="")]) == "### mem-1\n> c\n\n### mem-1\n> b\n"
    )
    assert edit_document(text, remove=["mem-1"]) == "### mem-1\n> b\n"


def test_a_kind_without_a_section_has_no_place_in_the_file() -> None:
    old = entries(FILE)[0]

    assert edit_document(FILE, put=[an_entry(kind="pitfall"), replace(old, kind="knowledge", body="x")]) == FILE
    assert edit_document("", put=[an_entry(kind="pitfall")]) == ""


def test_the_line_ends_of_the_file_are_kept() -> None:
    text = edit_document(
        FILE.replace("\n", "\r\n"),
        put=[an_entry(), an_entry("mem-1700000100-c3d4", "one\r\ntwo"), an_entry("mem-2", kind="fix")],
        remove=["mem-1700000200-a1b2"],
    )

    assert text.count("\n") == text.count("\r\n") == text.count("\r")
    assert [body for _, _, body in bodies(text)] == ["New.", "one\ntwo", "Rows, not documents.", "New."]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_that_ends_without_a_newline_still_does(newline: str) -> None:
    text = "## Fixes\n\n### mem-1\n> a\n\n### mem-2\n> b\n\nlast words".replace("\n", newline)

    assert edit_document(text, remove=["mem-1"]) == "## Fixes\n\n### mem-2\n> b\n\nlast words".replace("\n", newline)
    assert edit_document(text, put=[an_entry("mem-2", kind="fix")]).endswith(newline + newline + "last words")
    added = edit_document(text, put=[an_entry()])
    assert added == text + f"\n\n## Patterns\n\n{NEW_BLOCK}".replace("\n", newline)


def test_a_byte_order_mark_stays_at_the_top() -> None:
    text = "\ufeff### mem-1\n> a\n\n## Fixes\n"

    assert edit_document(text, remove=["mem-1"]) == "\ufeff## Fixes\n"
    moved = edit_document(text, put=[an_entry("mem-1", "a", kind="fix", tags=(), created="")])
    assert moved == "\ufeff## Fixes\n\n### mem-1\n> a\n"


@pytest.mark.parametrize(
    ("tag", "kept"),
    [("a|b", "a b"), ("a,b", "a b"), ("a --> b", "a -> b"), ("a\n### mem-9\n> x", "a ### mem-9 > x"), ("c++", "c++")],
)
def test_no_tag_can_end_the_comment_it_stands_in(tag: str, kept: str) -> None:
    text = edit_document("", put=[an_entry(tags=(tag, " ", "z"))])

    (entry,) = entries(text)
    assert (entry.tags, entry.created) == ((kept, "z"), "2025-02-01")
    assert edit_document(text, put=[entry]) == text


def test_an_id_from_elsewhere_becomes_one_that_a_heading_can_carry() -> None:
    assert header_id("mem-1-a") == "mem-1-a"
    assert header_id("8f3a\n> x") == "mem-8f3a-x"
    assert header_id("") == "mem-0"
    text = edit_document("", put=[an_entry("8f3a/x")])
    assert ids(text) == ["mem-8f3a-x"]
    assert edit_document(text, put=[an_entry("8f3a/x")]) == text
    assert edit_document(text, remove=["8f3a/x"]) == MEMORIES_TEMPLATE


# --- removing and renaming -------------------------------------------------------------


def test_what_was_put_and_removed_again_leaves_no_trace() -> None:
    for kind in SECTION_HEADINGS:
        text = edit_document(FILE, put=[an_entry(kind=kind)])

        assert text != FILE
        assert edit_document(text, remove=["mem-1-new"]) == FILE


def test_all_entries_removed_leave_the_template() -> None:
    assert edit_document(FILE, remove=ids(FILE)) == MEMORIES_TEMPLATE


def test_a_removed_entry_leaves_the_notes_that_stood_in_it() -> None:
    text = edit_document(NOTED, remove=["mem-1"])

    assert text == (
        "## Patterns\nintro\n\na note above\na note between\n\na note below\n  - with a list\n\n### mem-2\n> b\n"
    )


def test_nothing_is_removed_that_is_not_there_or_makes_no_sense() -> None:
    text = "### mem-1\n\n### mem-other\n> a\n"

    assert edit_document(text, remove=["mem-1", "mem-2"]) == text


def test_an_entry_that_is_put_and_removed_at_once_is_put() -> None:
    assert edit_document(FILE, put=[an_entry()], remove=["mem-1-new"]) == edit_document(FILE, put=[an_entry()])


def test_a_new_name_changes_the_heading_alone() -> None:
    text = "### mem-1 (mem-1)\n> mem-1\n\n### mem-1  \r\n> b"

    assert edit_document(text, rename={1: "mem-2"}) == "### mem-1 (mem-1)\n> mem-1\n\n### mem-2  \r\n> b"
    assert edit_document(text, rename={0: "mem-2"}) == "### mem-2 (mem-1)\n> mem-1\n\n### mem-1  \r\n> b"


def test_what_is_renamed_goes_by_its_new_id_at_once() -> None:
    text = "### mem-1\n> a\n\n### mem-1\n> b\n"

    assert edit_document(text, rename={0: "mem-2"}, remove=["mem-1"]) == "### mem-2\n> a\n"


def test_a_title_stays_a_title_whatever_is_above_it() -> None:
    text = "### mem-1\n> a\n\n# Title\nText\n"

    assert [one.id for one in parse_document(text).entries] == ["mem-1"]
    assert [one.line for one in parse_document(text).problems] == [4]
    assert parse_document(edit_document(text, remove=["mem-1"])).entries == ()


# --- any file ----------------------------------------------------------------------------

KINDS = st.sampled_from(list(SECTION_HEADINGS))
BODY_LINES = st.text("ab#>-<!|` \té", max_size=8).map(str.rstrip)
BODIES = st.lists(BODY_LINES, min_size=1, max_size=4).map("\n".join).filter(str.strip)
TAGS = st.lists(st.sampled_from(["a", "b-c", "d e", "f:g", "-", "->", "<!-"]), max_size=3, unique=True)
NEW = st.builds(
    lambda number, kind, body, tags, created: MarkdownEntry(
        id=f"mem-{number}", kind=kind, body=body, tags=tuple(tags), created=created
    ),
    st.integers(0, 12),
    KINDS,
    BODIES,
    TAGS,
    st.sampled_from(["", "2025-01-20"]),
)
NOTES = st.sampled_from(
    [
        ["note"],
        ["note", "", "  note"],
        ["note: <!-- tags: a -->"],
        ["note", "=======", "note"],
        ["#### note"],
        ["```", "### mem-5", "> note", "```"],
        ["### note", "> note"],
        ["# note"],
        ["## note"],
        ["\tnote \x0b\x85\u2028 note"],
    ]
)
PIECES = st.one_of(
    st.tuples(st.just("section"), KINDS.map(SECTION_HEADINGS.__getitem__)),
    st.tuples(st.just("entry"), NEW),
    st.tuples(st.just("notes"), NOTES),
    st.tuples(st.just("blank"), st.none()),
)


def is_note(line: str) -> bool:
    return "note" in line or line.strip() in ("```", "=======") or line.strip() == "### mem-5" or line == "> note"


@st.composite
def files(draw: st.DrawFn) -> str:
    """Make a file as people, git and programs leave it; every line that is nobody's entry can be told."""
    lines: list[str] = []
    used: set[str] = set()
    for what, piece in draw(st.lists(PIECES, max_size=14)):
        if isinstance(piece, MarkdownEntry):
            if piece.id not in used and piece.id != "mem-5":
                lines += [*block(piece).split("\n")[:-1], *draw(st.sampled_from([[], [""], ["", ""]]))]
                used.add(piece.id)
        else:
            lines += piece if isinstance(piece, list) else [f"## {piece}"] if what == "section" else [""]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + draw(st.sampled_from(["", newline]))


CHANGES = st.lists(NEW.filter(lambda one: one.id != "mem-5"), max_size=4, unique_by=lambda one: one.id)
CONTENT = ("id", "kind", "body", "tags", "created")


def content(entry: MarkdownEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in CONTENT)


@settings(max_examples=30)
@given(files(), CHANGES, st.sets(st.integers(0, 12), max_size=4))
@example("### note\n> note\n### mem-0\n> <\nnote", [], {0})
def test_an_edit_does_what_it_says_and_keeps_every_other_line(
    text: str, put: list[MarkdownEntry], gone: set[int]
) -> None:
    before = {entry.id: entry for entry in parse_document(text).entries}
    remove = {f"mem-{number}" for number in gone} - {one.id for one in put}

    changed = edit_document(text, put=put, remove=remove)

    after = parse_document(changed)
    wanted = {id: entry for id, entry in before.items() if id not in remove}
    wanted |= {
        one.id: replace(one, created=one.created or (before[one.id].created if one.id in before else "")) for one in put
    }
    assert {content(entry) for entry in after.entries} == {content(entry) for entry in wanted.values()}
    assert len(after.entries) == len(wanted)
    notes = [line for line in text.removeprefix("\ufeff").split("\n") if is_note(line)]
    left = [line for line in changed.removeprefix("\ufeff").split("\n") if is_note(line)]
    if text.endswith("\n") or changed.endswith("\r\n"):  # the last line may have got a line end
        notes, left = [line.rstrip("\r") for line in notes], [line.rstrip("\r") for line in left]
    # An entry in a form of its own gets ours if it would take in the notes of a removed one.
    notes, left = ([re.sub(r"^(?:### (?:mem-)?|> ?)", "", line) for line in lines] for lines in (notes, left))
    moved = any(one.id in before and before[one.id].kind != one.kind for one in put)
    assert left == notes or (moved and sorted(left) == sorted(notes))
    assert len(after.problems) == len(parse_document(text).problems)
    assert changed.startswith("\ufeff") == text.startswith("\ufeff")


@given(files())
def test_entries_put_back_as_they_were_read_change_nothing(text: str) -> None:
    assert edit_document(text, put=parse_document(text).entries) == text


LINES = """\
### mem-1
### mem-2
### mem-3 x
### other
## Patterns
## Fixes
# x
#
> a
>
>b
<!-- tags: a -->
<!-- created: -->

```
````
~~~
- ```sh
<<<<<<< a
||||||| b
=======
>>>>>>> c
words""".split("\n")


@given(st.lists(st.sampled_from(LINES), max_size=25).map("\n".join), KINDS)
def test_any_text_can_be_read_and_edited(text: str, kind: str) -> None:
    document = parse_document(text)

    changed = edit_document(text, put=[an_entry(kind=kind)], remove=["mem-1"])

    lines = text.split("\n")
    assert all(one.is_verbatim or lines[one.line - 1].startswith(f"### {one.id}") for one in document.entries)
    assert edit_document(text) == text
    assert document.has_conflict or ("mem-1-new", kind, "New.") in bodies(changed)
    if any(one.id == "mem-1" and one.is_verbatim for one in document.entries):
        return  # it was removed with the words below it
    for line in ("words", "```", "<<<<<<< a", "=======", ">>>>>>> c"):
        assert text.split("\n").count(line) == changed.split("\n").count(line)


@given(st.lists(NEW, max_size=5, unique_by=lambda one: one.id))
def test_what_is_written_is_read_back(put: list[MarkdownEntry]) -> None:
    text = edit_document("", put=put)

    assert {content(entry) for entry in entries(text)} == {content(one) for one in put}


# --- for import and export ---------------------------------------------------------------


def test_a_file_is_imported_as_memories() -> None:
    memories, unreadable = read_memories_md(FILE, NOW)

    assert unreadable == ()
    assert [(one.id, one.kind, one.title) for one in memories] == [
        ("mem-1700000200-a1b2", "pattern", "Routes are registered in one place"),
        ("mem-1700000100-c3d4", "pattern", "Run the tests first"),
        ("mem-1700000300-e5f6", "decision", "Rows, not documents"),
    ]
    assert memories[0].tags == ("api", "layout")
    assert memories[0].created_at == "2025-01-20T00:00:00.000Z"
    assert (memories[0].source, memories[0].confidence) == (MemorySource.IMPORTED, 0.7)


def test_an_import_cleans_what_it_takes_and_dates_what_has_no_date() -> None:
    key = "ghp" + "_" + "a1B2" * 9

    (memory,), unreadable = read_memories_md(f"### mem-1\n> the \x1b[31mkey\u200b is {key}\n", NOW)

    assert (memory.content, memory.tags, memory.created_at) == ("the key is [redacted]", (), NOW)
    assert unreadable == ()


def test_an_import_says_what_it_left_out_and_what_it_read_otherwise() -> None:
    tags = ", ".join(map(str, range(60)))
    text = (
        "### mem-1\n> \u200b\n### mem-2\n### mem-3\n> a\n<!-- created: 2025-02-30 -->\n"
        f"### mem-4\n> b\n<!-- tags: {tags} -->\n"
    )

    memories, unreadable = read_memories_md(text, NOW)

    assert [(one.id, one.created_at) for one in memories] == [("mem-3", NOW)]
    assert [one.line for one in unreadable] == [1, 3, 4, 7]
    assert unreadable[0].why == "Skipped entry 'mem-1': it is empty."
    assert unreadable[2].why == "Invalid date: '2025-02-30' is not a date; used today instead."


def test_an_import_of_an_unmerged_file_has_both_sides_and_says_so() -> None:
    memories, unreadable = read_memories_md(CONFLICT, NOW)

    assert [one.content for one in memories] == ["ours", "theirs", "shared"]
    assert unreadable == (
        ReadProblem(line=3, why="The file has git conflict markers; imported both sides.", was_read=True),
    )


def test_an_export_has_the_newest_first_in_each_section_and_no_other_kinds() -> None:
    memories = [
        a_memory("Old", "Old.", id="mem-1", kind="fix", created_at="2025-01-20T10:00:00.000Z", tags=("a", "b")),
        a_memory("New", "New.\nTwo lines.", id="mem-2", kind="fix", created_at="2025-01-20T11:00:00.000Z"),
        a_memory("Known", "Known.", id="mem-3", kind="knowledge"),
        a_memory("A title alone", "", id="mem-4", kind="context", created_at="2025-01-22T00:00:00.000Z"),
    ]

    text = write_memories_md(memories)

    assert text == (
        "# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n"
        "### mem-2\n> New.\n> Two lines.\n<!-- tags:  | created: 2025-01-20 -->\n\n"
        "### mem-1\n> Old.\n<!-- tags: a, b | created: 2025-01-20 -->\n\n"
        "## Context\n\n### mem-4\n> A title alone\n<!-- tags:  | created: 2025-01-22 -->\n"
    )
    assert write_memories_md([]) == MEMORIES_TEMPLATE


def test_what_is_exported_can_be_imported() -> None:
    memories, _ = read_memories_md(FILE, NOW)

    again, unreadable = read_memories_md(write_memories_md(memories), NOW)

    assert unreadable == ()
    assert sorted(again, key=lambda one: one.id) == sorted(memories, key=lambda one: one.id)


# --- size --------------------------------------------------------------------------------


def a_large_file(count: int) -> str:
    return MEMORIES_TEMPLATE.replace(
        "## Fixes\n",
        "## Fixes\n\n"
        + "\n".join(f"### mem-{n}\n> one\n> two\n<!-- tags: a, b | created: 2025-01-20 -->\n" for n in range(count)),
    )


@pytest.mark.slow
def test_thousands_of_changes_take_one_pass() -> None:
    text = a_large_file(4000)
    put = [an_entry(f"mem-{n}", kind="fix" if n % 3 else "context") for n in range(0, 6000, 2)]

    started = time.process_time()
    changed = edit_document(text, put=put, remove=[f"mem-{n}" for n in range(1, 4000, 4)])

    assert time.process_time() - started < 2
    assert len(entries(changed)) == 4000 + 1000 - 1000


def test_spaces_in_a_heading_take_no_time() -> None:
    started = time.thread_time()

    (entry,) = parse_document(f"## a{' ' * 5_000}b - (2026-01-31)\ntext\n").entries

    assert time.thread_time() - started < 1
    assert entry.title == f"a{' ' * 5_000}b"
    assert entry.created == "2026-01-31"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "x" * 3_000_000,
        "### mem-" + "a" * 3_000_000 + "!",
        "### mem-1\n> a\n<!-- " + "| " * 1_000_000 + "-->",
        "### mem-1\n> a\n" + "<!-- tags:\n" * 100_000,
        "\n".join("`" * (1000 - n) for n in range(900)) + "\nx" * 200_000,
        "<<<<<<< a\n" * 100_000,
        "<<<<<<< a\n### mem-1\n=======\n> b\n>>>>>>> c\n" * 20_000,
        "### mem-1\n" + "> a\n\n" * 200_000,
    ],
    ids=["one line", "id", "comment", "comments", "fences", "marks", "conflicts", "quotes"],
)
def test_a_hostile_file_takes_no_longer_than_its_size(text: str) -> None:
    started = time.process_time()

    edit_document(text, put=[an_entry(), an_entry("mem-1", "b")])

    assert time.process_time() - started < 5
