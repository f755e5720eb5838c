from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory
from ralph.formats.guardrails_md import has_any_sign, has_signs, read_guardrails_md
from ralph.formats.planned import ReadProblem

AT = "2026-05-01T00:00:00.000Z"


def read(text: str) -> list[Memory]:
    """Read guardrails that nothing is wrong with."""
    memories, unreadable = read_guardrails_md(text, AT)
    assert all(problem.was_read for problem in unreadable)
    return list(memories)


def rejected(text: str) -> list[int]:
    """Give the lines that are named as left out."""
    return [problem.line for problem in read_guardrails_md(text, AT)[1] if not problem.was_read]


def said(text: str) -> list[tuple[str, str]]:
    return [(memory.title, memory.content) for memory in read_guardrails_md(text, AT)[0]]


def test_a_sign_is_a_constraint_in_sentences() -> None:
    (memory,) = read(
        "# Guardrails\n\n### Sign: Check input\n- **Trigger**: When a form is sent\n"
        "- **Instruction**: Check every field in `app/forms.py`\n"
        "- **Added after**: Iteration 3 - a broken order\n- **Example**: `check(form)`\n"
    )

    assert (memory.kind, memory.title, memory.tags) == ("constraint", "Check input", ("guardrail",))
    assert memory.content == (
        "When a form is sent: Check every field in `app/forms.py`.\n"
        "Added after: Iteration 3 - a broken order.\nExample: `check(form)`."
    )
    assert memory.files == ("app/forms.py",)


@pytest.mark.parametrize(
    "heading",
    [
        "### Sign: Read first",
        "## Sign: Read first ##",
        "### SIGN: Read first",
        "### SIGN-001: Read first",
        "### Sign 3: Read first",
        "### Sign 3 - Read first",
        "### 2. Sign: Read first",
        "### 🪧 Sign: Read first",
        "**Sign: Read first**",
        "**Sign**: Read first",
        "1. **Sign: Read first**",
        "- **Sign 4:** Read first",
        "Sign: Read first",
    ],
)
def test_a_sign_is_told_however_it_is_headed(heading: str) -> None:
    text = f"# Guardrails\n\n{heading}\n\n- Trigger: Before a change\n- Instruction: Read the file\n"

    assert said(text) == [("Read first", "Before a change: Read the file.")]


@pytest.mark.parametrize(
    "fields",
    [
        "- **Trigger**: Before a change\n- **Instruction**: Read the file",
        "- **Trigger:** Before a change.\n- **Instruction:** Read the file.",
        "* trigger: before a change\n* instruction: Read the file",
        "Trigger: Before a change\nInstruction: Read the file",
        "**When**: Before a change\n\n**Do**: Read the file",
        "Pattern: Before a change\nFix: Read the file",
        "- Trigger: Before\n  a change\n- Instruction: Read\n  the file",
    ],
)
def test_the_fields_are_told_however_they_are_written(fields: str) -> None:
    ((title, body),) = said(f"### Sign: Read first\n{fields}\n")

    assert title == "Read first"
    assert " ".join(body.split()) == "Before a change: Read the file."


def test_steps_of_an_instruction_stay_steps() -> None:
    ((_, body),) = said(
        "### Sign: Deploy\n- **Trigger**: Before a release\n- **Instruction**:\n  1. **Look**: run `pwd`\n"
        "  2. Then:\n     ```sh\n     # not a heading\n     make release\n     ```\n- **Source**: a bad day\n"
    )

    assert body == (
        "Before a release:\n1. **Look**: run `pwd`\n2. Then:\n   ```sh\n   # not a heading\n   make release\n   ```\n"
        "Source: a bad day."
    )


def test_a_sign_may_be_a_text() -> None:
    text = "### SIGN: Secrets in traces\n`app/redact.py` must run first.\nMitigation: run its tests.\n"

    assert said(text) == [("Secrets in traces", "`app/redact.py` must run first.\nMitigation: run its tests.")]


def test_a_sign_may_be_one_long_line() -> None:
    text = (
        f"🪧 SIGN: Never ask twice. {'It only costs time and nobody answers differently. ' * 3}\n\n🪧 SIGN: Ask once.\n"
    )

    first, second = read(text)

    assert first.title == "Never ask twice"
    assert first.content.startswith("Never ask twice. It only costs time")
    assert (second.title, second.content) == ("Ask once", "Ask once.")


def test_signs_in_code_blocks_count_and_end_with_the_block() -> None:
    text = (
        "# Reference\n\n## Types\n\n```markdown\n### Sign: Read first\n- **Trigger**: Before a change\n"
        "- **Instruction**: Read the file\n```\n\nNot a part of it.\n\n```sh\nmake\n```\n"
    )

    assert said(text) == [("Read first", "Before a change: Read the file.")]


@pytest.mark.parametrize(
    "template",
    [
        "### Sign: [Name]\n- **Trigger**: When this happens\n- **Instruction**: Do this instead",
        "### Sign: A name\n- **Trigger**: [When it applies]\n- **Instruction**: [What to do]",
        "### Sign: {SHORT_TITLE}\n{what went wrong}",
        "### Sign: <name>\n- Trigger: x",
        "### Sign:\n",
        "```markdown\n## Sign: [Short Title]\n\n- **Trigger**: [What]\n```",
    ],
)
def test_a_template_is_no_sign(template: str) -> None:
    assert read_guardrails_md(f"# Guardrails\n\n{template}\n", AT)[0] == ()


def test_a_list_of_signs_may_be_bullets() -> None:
    text = (
        "# Guardrails\n\n- **Short**: this is about the file\n\n## When to add signs\n- When it went wrong twice.\n\n"
        "## Learned signs\n\n- Never skip the gate.\n- Commit early,\n  and often.\n  - also on Fridays\n\n"
        "## Other\n- Not one.\n\n## Standing Guardrails (always active)\n\n* **Ports**: free them.\n"
    )

    assert said(text) == [
        ("Never skip the gate", "Never skip the gate."),
        ("Commit early, and often", "Commit early, and often.\n- also on Fridays"),
        ("Ports: free them", "**Ports**: free them."),
    ]
    assert rejected(text) == [1, 5, 15]


def test_a_list_of_signs_may_be_headings() -> None:
    text = (
        "# Guardrails\n\n## Signs (failures)\n\n### No database\nIt breaks. Leave it out.\n\n### Empty\n\n## Notes\nx\n"
    )

    assert said(text) == [("No database", "It breaks. Leave it out.")]
    assert rejected(text) == [10]


def test_equal_signs_appear_once() -> None:
    sign = "### Sign: Read first\n- Trigger: Before a change\n- Instruction: Read the file\n"

    assert len(read(sign + sign)) == 1


def test_the_date_of_a_sign_is_when_it_was_added() -> None:
    (memory,) = read("### Sign: A\n- Trigger: b\n- Instruction: c\n- Added after: 2026-02-03, the second outage\n")

    assert memory.created_at == "2026-02-03T00:00:00.000Z"


def test_a_file_without_signs_says_so() -> None:
    assert read_guardrails_md("# Guardrails\n\nBe careful.\n", AT) == (
        (),
        (
            ReadProblem(
                line=1,
                why="Nothing to import: no sign (`### Sign: Name` with Trigger and Instruction) found.",
            ),
        ),
    )


def test_only_signs_that_say_what_to_do_speak_for_the_whole_file() -> None:
    fenced = "# Reference\n\n```\n### Sign: A\n- Trigger: b\n- Instruction: c\n```\n"

    assert has_signs("### Sign: A\n- Trigger: b\n- Instruction: c\n")
    assert not has_signs("### Sign: sign(x)\n\nIt is discontinuous at 0.\n")
    assert not has_signs(fenced)
    assert has_any_sign(fenced)


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "### Sign: a",
                "## Signs",
                "- **Trigger**: b",
                "- **Instruction**: c",
                "```",
                "---",
                "- x",
                "  - y",
                "\n",
                "[a]",
            ]
        )
    ).map("\n".join)
)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    memories, unreadable = read_guardrails_md(text, AT)

    assert memories or unreadable
    assert all(memory.kind == "constraint" for memory in memories)
