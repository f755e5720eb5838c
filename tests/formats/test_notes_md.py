from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory
from ralph.formats.notes_md import MAX_SECTION_WORDS, read_notes_md
from ralph.formats.planned import ReadProblem

AT = "2026-05-01T00:00:00.000Z"

NOTES = """\
# Billing service

This file tells agents how to work here.

## Architecture

Requests go through `app/router.py`.

### Storage layout

- one table per customer

## Testing (2026-03-04)

Run `make test`.

```sh
# Not a heading
make test
```

## Overview
"""


def read(text: str) -> list[Memory]:
    """Read notes that nothing is wrong with."""
    memories, unreadable = read_notes_md(text, AT)
    assert all(problem.was_read for problem in unreadable)
    return list(memories)


def titles(text: str) -> list[str]:
    return [memory.title for memory in read(text)]


def nothing(why: str) -> tuple[tuple[Memory, ...], tuple[ReadProblem, ...]]:
    return (), (ReadProblem(line=1, why=why),)


def test_every_section_with_a_text_of_its_own_is_a_memory() -> None:
    memories = read(NOTES)

    assert [(memory.title, memory.content) for memory in memories] == [
        ("Architecture", "Requests go through `app/router.py`."),
        ("Storage layout", "- one table per customer"),
        ("Testing (2026-03-04)", "Run `make test`.\n\n```sh\n# Not a heading\nmake test\n```"),
    ]
    assert [memory.kind for memory in memories] == ["architecture", "architecture", "context"]
    assert [memory.created_at for memory in memories] == [AT, AT, "2026-03-04T00:00:00.000Z"]
    assert memories[0].files == ("app/router.py",)


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Project structure", "architecture"),
        ("Naming", "convention"),
        ("Code style", "convention"),
        ("Why SQLite", "decision"),
        ("Gotchas", "pitfall"),
        ("What to avoid", "pitfall"),
        ("Don’t", "pitfall"),
        ("Known issues", "pitfall"),
        ("Anti-patterns", "pitfall"),
        ("Troubleshooting", "fix"),
        ("Bug fixes", "fix"),
        ("Dependencies", "dependency"),
        ("Tech stack", "dependency"),
        ("Guardrails", "constraint"),
        ("Requirements", "constraint"),
        ("Patterns", "pattern"),
        ("How to release", "pattern"),
        ("Release", "context"),
        ("Fixtures", "context"),
        ("Information", "context"),
    ],
)
def test_the_words_of_a_heading_give_the_kind(heading: str, kind: str) -> None:
    assert [memory.kind for memory in read(f"## {heading}\n\nSome text.\n")] == [kind]


def test_a_heading_that_says_nothing_of_its_kind_takes_that_of_the_one_above() -> None:
    (memory,) = read("# Notes\n\n## Conventions\n\n### Imports\n\nSorted.\n")

    assert (memory.kind, memory.tags) == ("convention", ("imports", "conventions"))


def test_tags_are_the_telling_words_of_the_headings() -> None:
    (memory,) = read("# Billing\n\n## The REST API of our project\n\n### How to use Next.js and C++ (2026)\n\nSo.\n")

    assert memory.tags == ("next.js", "c++", "rest", "api")


def test_a_heading_that_is_generic_or_used_twice_has_the_one_above_before_it() -> None:
    text = "# App\n## Overview\na\n## Server\n### Testing\nb\n## Client\n### Testing\nc\n### Build\nd\n"

    assert titles(text) == ["App: Overview", "Server: Testing", "Client: Testing", "Build"]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("## 🔧 Working commands", "Working commands"),
        ("## **Bold** words ##", "Bold words"),
        ("## 2.1 Numbers", "Numbers"),
        ("## See [the guide](docs/guide.md)", "See the guide"),
        ("## SHA-256 sums", "SHA-256 sums"),
        ("## C#", "C#"),
        ("## `__init__` files", "`__init__` files"),
        ("Setext\n======", "Setext"),
    ],
)
def test_a_title_is_the_heading_without_marks(written: str, title: str) -> None:
    assert titles(f"# App\n\n## A\n\nx\n\n{written}\n\ny\n")[1:] == [title]


@pytest.mark.parametrize(
    "introduction",
    ["> Lessons that carry over.", "This file provides guidance for agents that work here.", "Short.", "---", ""],
)
def test_a_word_about_the_file_itself_is_no_memory(introduction: str) -> None:
    assert titles(f"# Memories\n\n{introduction}\n\n## Tabs\n\nThey break it.\n") == ["Tabs"]


def test_a_text_above_the_sections_has_the_name_of_the_document() -> None:
    text = "---\nowner: us\n---\n# Billing\n\nInvoices are sent at night, never by day.\n\n## Tabs\n\nThey break it.\n"

    assert [(memory.title, memory.content) for memory in read(text)] == [
        ("Billing", "Invoices are sent at night, never by day."),
        ("Tabs", "They break it."),
    ]


def test_a_long_section_becomes_several_memories_and_nothing_is_lost() -> None:
    bullets = [f"- Rule {number}: {'word ' * 60}end\n  - and its detail" for number in range(20)]
    text = "## Rules\n\nAll of these hold:\n\n" + "\n".join(bullets) + "\n"

    memories = read(text)

    assert [memory.title for memory in memories] == [
        f"Rules ({n}/{len(memories)})" for n in range(1, len(memories) + 1)
    ]
    assert all(len(memory.content.split()) <= MAX_SECTION_WORDS for memory in memories)
    assert " ".join(" ".join(memory.content for memory in memories).split()) == " ".join(text[8:].split())
    assert memories[0].content.startswith("All of these hold:\n\n- Rule 0")
    assert memories[1].content.startswith("- Rule")


def test_a_code_block_is_never_split() -> None:
    code = "```\n" + "a b c\n\n" * 300 + "```"

    memories = read(f"## Long\n\n{'word ' * 400}\n\n{code}\n\nThe end of it.\n")

    assert [memory.content.count("```") for memory in memories] == [0, 2, 0]


@pytest.mark.parametrize(
    "text", ["```\n# a\n", "<!-- never closed\n", "~~~\n```\n~~\n"], ids=["fence", "comment", "other fence"]
)
def test_a_block_that_does_not_end_hides_nothing(text: str) -> None:
    assert titles(f"{text}\n## Tabs\n\nThey break it.\n")[-1] == "Tabs"


def test_comments_and_tables_of_contents_are_no_memories() -> None:
    text = (
        "# App\n\n<!-- a note\n## Not a heading\n-->\n\n## Contents\n\n- [Tabs](#tabs)\n\n## Tabs\n\nThey break it.\n"
    )

    assert titles(text) == ["Tabs"]


@pytest.mark.parametrize("body", ["(none yet)", "TBD", "*Add notes here.*", "---"])
def test_a_section_that_keeps_a_place_free_is_no_memory(body: str) -> None:
    assert titles(f"## A\n\n{body}\n\n## Tabs\n\nThey break it.\n") == ["Tabs"]


def test_without_headings_the_paragraphs_are_memories() -> None:
    text = "Invoices are sent at night, never by day.\n\nok\n\nNever do this:\n\n- skip the tests\n- push on Fridays\n"

    memories, problems = read_notes_md(text, AT)

    assert [(memory.kind, memory.content) for memory in memories] == [
        ("context", "Invoices are sent at night, never by day."),
        ("context", "Never do this:\n- skip the tests\n- push on Fridays"),
    ]
    assert memories[0].title == "Invoices are sent at night, never by day"
    assert [(problem.line, problem.was_read) for problem in problems] == [(3, False)]


@pytest.mark.parametrize(
    "text",
    [
        "/home/me/project/.agent/memories.md",
        "~/notes/memories.md\n",
        "../shared/AGENTS.md",
        "AGENTS.md",
        "@AGENTS.md",
        "C:\\work\\notes.md",
        "/home/my name/notes.md",
        "https://example.com/memories.md",
        "\ufeffdocs/notes.txt\r\n",
    ],
)
def test_a_file_that_only_points_somewhere_says_so(text: str) -> None:
    assert read_notes_md(text, AT) == nothing(
        "Nothing to import: the file only contains a path. Import that file instead."
    )


@pytest.mark.parametrize("text", ["", "a", "1, 2, 3", "-----", "x = 1"])
def test_a_file_without_words_says_so(text: str) -> None:
    assert read_notes_md(text, AT) == nothing("Nothing to import: no section or paragraph found.")


def test_headings_without_texts_are_nothing() -> None:
    assert read_notes_md("# A\n## B\n", AT) == nothing("Nothing to import: no section with text found.")


def test_a_block_as_long_as_a_file_is_left_out_and_reported() -> None:
    memories, unreadable = read_notes_md(f"## A\n\n{'a' * MAX_BODY_LENGTH}b\n\n## Tabs\n\nThey break it.\n", AT)

    assert [memory.title for memory in memories] == ["Tabs"]
    assert [problem.line for problem in unreadable] == [1]


@given(
    st.text()
    | st.lists(
        st.sampled_from(["# A", "## B", "###", "text here", "- x", "  - y", "```", "<!--", "-->", "---", "\n", "==="])
    ).map("\n".join)
)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    memories, unreadable = read_notes_md(text, AT)

    assert memories or unreadable
    assert all(memory.title and memory.content for memory in memories)


def test_a_heading_without_text_is_named() -> None:
    text = "# Memories\n\n## Rules\n\n### use-uv (2026-01-20)\nWe use uv, not pip.\n\n### retry-cap (2026-02-02)\n"

    memories, problems = read_notes_md(text, AT)

    assert [memory.content for memory in memories] == ["We use uv, not pip."]
    assert [(problem.line, problem.was_read) for problem in problems] == [(8, True)]  # not `Rules`, which has sections
