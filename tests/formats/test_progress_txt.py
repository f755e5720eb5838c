from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory, MemorySource
from ralph.formats.planned import ReadProblem
from ralph.formats.progress_txt import read_progress_txt

AT = "2026-05-01T00:00:00.000Z"

LOG = """\
# Ralph Progress Log
Started: Mon Jan 12 2026

## Codebase Patterns
- Settings are read in `app/settings.py`, nowhere else.
- Use `make db` before the integration tests;
  they fail without it.
- Money is kept in cents:
  - never in floats
  - rounding is half up

## Iteration Notes
- (append entries below)

---

## 2026-01-12 - US-001
- What was implemented: the settings module.
- Files changed: app/settings.py, tests/test_settings.py
- **Learnings for future iterations:**
  - Patterns discovered: the cache wants a folder it may write to.
  - Gotchas encountered: none
---
## 2026-01-13 09:30 - US-002: Invoices
- What was implemented: invoices.
- **Learnings:**
  - Patterns discovered: none
  - Gotchas encountered: Settings are read in `app/settings.py`, nowhere else.
---
"""


def read(text: str) -> list[Memory]:
    """Read a log that nothing is wrong with."""
    memories, unreadable = read_progress_txt(text, AT)
    assert all(problem.was_read for problem in unreadable)
    return list(memories)


def learned(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Give what is learned in a log, and its tags."""
    return [(memory.content, memory.tags) for memory in read(text)]


def test_patterns_and_learnings_become_memories_and_the_journal_stays_behind() -> None:
    memories = read(LOG)

    assert [(memory.kind, memory.content) for memory in memories] == [
        ("pattern", "Settings are read in `app/settings.py`, nowhere else."),
        ("pattern", "Use `make db` before the integration tests; they fail without it."),
        ("pattern", "Money is kept in cents:\n- never in floats\n- rounding is half up"),
        ("context", "the cache wants a folder it may write to."),
    ]
    assert {memory.source for memory in memories} == {MemorySource.IMPORTED}
    assert memories[0].files == ("app/settings.py",)


def test_a_learning_has_the_date_and_the_story_of_its_entry() -> None:
    pattern, *_, learning = read(LOG)

    assert (pattern.tags, pattern.created_at) == ((), AT)
    assert (learning.tags, learning.created_at) == (("us-001",), "2026-01-12T00:00:00.000Z")


def test_a_log_that_was_only_begun_says_that_there_is_nothing_in_it() -> None:
    text = "# Ralph Progress Log\nStarted: \n---\n\n## Codebase Patterns\n(Add patterns here as you find them)\n\n---\n"

    assert read_progress_txt(text, AT) == (
        (),
        (ReadProblem(line=1, why="Nothing to import: no pattern or learning found."),),
    )


@pytest.mark.parametrize(
    ("heading", "tags", "created_at"),
    [
        ("2026-01-13 - US-012", ("us-012",), "2026-01-13T00:00:00.000Z"),
        ("[2026-01-13 16:12] - US-012: A title", ("us-012",), "2026-01-13T16:12:00.000Z"),
        ("2026-01-13 20:52:57 GMT - US-012", ("us-012",), "2026-01-13T20:52:57.000Z"),
        ("2026/01/13 - setup-02", ("setup-02",), "2026-01-13T00:00:00.000Z"),
        ("Iteration 7 - setup-02", ("setup-02",), AT),
        ("✓ Iteration 7 - US-002: Check it", ("us-002",), AT),
        ("Iteration 2 - 2026-01-13T11:40:00Z", (), "2026-01-13T11:40:00.000Z"),
        ("ML-007 - Add a model", ("ml-007",), AT),
        ("2026-01-13 - Fix UTF-8 output", (), "2026-01-13T00:00:00.000Z"),
        ("2026-13-45 - US-012", ("us-012",), AT),
    ],
)
def test_headings_of_entries_are_told_in_all_their_forms(heading: str, tags: tuple[str, ...], created_at: str) -> None:
    (memory,) = read(f"# Log\n\n## {heading}\n- Did things.\n- **Learnings:**\n  - Tabs break the parser.\n")

    assert (memory.content, memory.tags, memory.created_at) == ("Tabs break the parser.", tags, created_at)


@pytest.mark.parametrize(
    "entry",
    [
        "- **Learnings:**\n  - One thing.\n  - Another thing.",
        "- **Learnings:**\n- One thing.\n- Another thing.\n- Files changed: a.py",
        "- Learnings for future iterations:\n    * One thing.\n    * Another thing.\n- Commit: abc",
        "**Learnings:**\n- One thing.\n- Another thing.\n\n**Design decisions:**\n- Not this.",
        "**Learnings:**\n\n- One thing.\n\n- Another thing.\n\n---\n- Not this.",
        "### Completed\n- Not this.\n\n### Learnings\n- One thing.\n- Another thing.\n\n### Next Steps\n- Not this.",
        "- What the next iteration should know:\n  - Patterns:\n    * One thing.\n  - Gotchas:\n    * Another thing.",
        "- **Learnings:** One thing.\n- **Gotchas:** Another thing.",
        "- **Learnings:**\n  - Patterns discovered: One thing.\n  - Useful context: Another thing.",
    ],
)
def test_learnings_are_found_however_they_are_laid_out(entry: str) -> None:
    bodies = [body for body, _ in learned(f"# Log\n\n## 2026-01-13 - US-001\n- Built it.\n{entry}\n")]

    assert bodies == ["One thing.", "Another thing."]


@pytest.mark.parametrize(
    "template",
    [
        "(Add reusable patterns here)",
        "- (append entries below)",
        "*Add reusable patterns discovered during development here.*",
        "- [pattern]",
        "<!-- patterns go here -->",
        "- None yet.",
        "- TBD",
        "- N/A",
        "- Patterns discovered",
        '- Patterns discovered (e.g., "this codebase uses X for Y")',
        "- No new patterns yet.",
    ],
)
def test_a_place_kept_free_is_no_memory(template: str) -> None:
    assert learned(f"## Codebase Patterns\n{template}\n- Tabs break the parser.\n") == [("Tabs break the parser.", ())]


def test_what_was_done_is_never_taken_for_what_was_learned() -> None:
    journal = "- Pattern matching in the parser: done\n- Lesson pages: built\n- Notes: all tests pass here\n"

    assert learned(f"# Log\n\n## 2026-01-13 - US-001\n{journal}- **Learnings:**\n  - Use tabs.\n") == [
        ("Use tabs.", ("us-001",))
    ]


def test_under_a_heading_of_its_own_what_was_learned_on_a_day_needs_no_label() -> None:
    (memory,) = read("# Log of learnings\n\n## Learnings\n\n### 2026-01-13\n- Use tabs.\n")

    assert (memory.content, memory.created_at) == ("Use tabs.", "2026-01-13T00:00:00.000Z")


def test_patterns_may_be_grouped_under_headings() -> None:
    text = (
        "## Codebase Patterns (first)\n\n### Service Layer\n- One class each.\n---\n## 2026-01-13 - US-1\n- Did it.\n"
    )

    assert learned(text) == [("One class each.", ("service", "layer"))]


def test_code_below_a_bullet_belongs_to_it() -> None:
    text = "## Codebase Patterns\n- Log so:\n  ```python\n  # not a heading\n\n  log()\n  ```\n- Next.\n- Last one."

    assert [body for body, _ in learned(text)] == [
        "Log so:\n```python\n# not a heading\n\nlog()\n```",
        "Next.",
        "Last one.",
    ]


def test_other_sections_for_later_keep_their_kind() -> None:
    text = "## Gotchas\n- Never run two at once.\n\n## Key Files\n- `a.py`\n\n## Decisions\n- We keep SQLite.\n"

    memories, problems = read_progress_txt(text, AT)

    assert [(memory.kind, memory.content) for memory in memories] == [
        ("pitfall", "Never run two at once."),
        ("decision", "We keep SQLite."),
    ]
    assert [(problem.line, problem.was_read) for problem in problems] == [(4, False)]


def test_signs_in_a_log_are_guardrails() -> None:
    sign = "### Sign: Read first\n- **Trigger**: Before a change\n- **Do**: Read the file\n"
    text = f"## Guardrails (pitfalls)\n\n{sign}\n## Codebase Patterns\n- One class each.\n"

    assert [(memory.kind, memory.title) for memory in read(text)] == [
        ("pattern", "One class each"),
        ("constraint", "Read first"),
    ]


def test_a_title_is_the_first_sentence_without_emphasis() -> None:
    (memory,) = read("## Codebase Patterns\n- **Migrations**: run `make db`. Then the tests.\n")

    assert memory.title == "Migrations: run `make db`"
    assert memory.content == "**Migrations**: run `make db`. Then the tests."


def test_a_bullet_as_long_as_a_file_is_left_out_and_reported() -> None:
    memories, unreadable = read_progress_txt(f"## Codebase Patterns\n- {'a ' * MAX_BODY_LENGTH}\n- Fine.\n", AT)

    assert [memory.content for memory in memories] == ["Fine."]
    assert [problem.line for problem in unreadable] == [2]


def test_secrets_and_invisible_characters_do_not_come_in() -> None:
    (memory,) = read("## Codebase Patterns\n- The key\u200b is ghp_abcdefghijklmnopqrstuvwxyz0123456789.\n")

    assert memory.content == "The key is [redacted]."


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "## Codebase Patterns",
                "## 2026-01-01 - US-001",
                "- **Learnings:**",
                "  - a b c",
                "```",
                "---",
                "\n",
                ":",
                "x",
            ]
        )
    ).map("\n".join)
)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    memories, unreadable = read_progress_txt(text, AT)

    assert memories or unreadable
    assert len({memory.content for memory in memories}) == len(memories)
    assert all(problem.why.endswith(".") for problem in unreadable)
