"""How failed attempts are told, and that nothing is told twice."""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, RecalledMemory
from ralph.core.text import gate_failure_prefix, without_gate_prefix
from ralph.loop.failure_text import report_text, similar_failure_text
from tests.loop.test_prompt import a_failure, a_task, an_entry, build, known
from tests.make import a_memory

COMMAND = "/home/ada/shop/.venv/bin/python -m unittest -q tests.test_total"
OUTPUT = """\
======================================================================
FAIL: test_half_a_cent (tests.test_total.Total.test_half_a_cent)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "tests/test_total.py", line 9, in test_half_a_cent
    self.assertEqual(total, Decimal("2.68"), "money is rounded half up")
AssertionError: Decimal('2.67') != Decimal('2.68') : money is rounded half up

----------------------------------------------------------------------
Ran 1 test in 0.001s"""
HEADLINE = "AssertionError: Decimal('2.67') != Decimal('2.68') : money is rounded half up"
WHY = f"{gate_failure_prefix(COMMAND)}{HEADLINE}\n{OUTPUT}"


def test_a_gate_is_named_without_the_directories_of_this_machine() -> None:
    assert gate_failure_prefix(COMMAND) == "the gate `python -m unittest -q tests.test_total` failed: "
    assert gate_failure_prefix("cd /srv/shop && make -C sub/dir test") == (
        "the gate `cd shop && make -C sub/dir test` failed: "
    )
    assert without_gate_prefix(WHY).startswith(HEADLINE)
    assert without_gate_prefix("the gate was open") == "the gate was open"


def test_what_a_gate_printed_is_a_code_block_without_rulers() -> None:
    text = report_text(a_failure(1, why=WHY, trace=OUTPUT[:500]))

    assert f"failed: {HEADLINE}\n\n```\nFAIL: test_half_a_cent" in text
    assert "---" not in text
    assert "===" not in text
    assert text.count(HEADLINE) == 2
    assert "- **Avoid**: doing the same again\n- **Files**: src/parser.py" in text


def test_a_gate_that_printed_one_line_is_quoted_once() -> None:
    text = report_text(a_failure(1, why=f"{gate_failure_prefix('make test')}{HEADLINE}\n{HEADLINE}\n", trace=""))

    assert text.count("money is rounded half up") == 1
    assert "```" not in text


def test_what_an_agent_reported_stays_prose() -> None:
    text = report_text(a_failure(1, why="Two causes.\nThe second one is older.", trace=""))

    assert "- **Why it failed**: Two causes.\nThe second one is older.\n- **Avoid**" in text


def test_the_failure_of_another_task_is_one_sentence_and_what_to_try() -> None:
    text = similar_failure_text(a_failure(2, task_id="t-00000d", why=WHY))

    first, second = text.splitlines()
    assert first == f"- **t-00000d, attempt 2** [test_failure], 2026-11-15: {HEADLINE}"
    assert second == "  Try instead: Expand tabs before counting."


def test_notes_that_another_section_tells_are_not_repeated_in_the_journal() -> None:
    tried = "Rounded with round(price * quantity, 2)."
    fix = a_memory("Half up", "Round with billing.money.cents().", kind="fix")
    done = "Totals are rounded to cents by the caller."
    context = known(
        attempt_number=2,
        reports=(a_failure(1, tried=tried),),
        prerequisites=((a_task(id="t-00000c", title="Totals"), done),),
        memories=(RecalledMemory(memory=fix, score=1.0),),
        journal=(
            an_entry(1, task_id="t-00000a", outcome=AttemptOutcome.RETRIED, notes=tried),
            an_entry(2, task_id="t-00000c", notes=done),
            an_entry(3, notes="Something that nobody else tells."),
            an_entry(4, run_id="run-00000000", notes="Round with billing.money.cents()."),
        ),
    )

    prompt = build(context)

    journal = next(section for section in prompt.sections if section.name == "Run Journal")
    assert prompt.text.count(tried) == prompt.text.count(done) == prompt.text.count(fix.content) == 1
    assert journal.shown == ("run-00000001/3",)
    assert [(left.what, left.why) for left in journal.left_out] == [
        ("run-00000001/1", "already in Previous Attempts"),
        ("run-00000001/2", "already in Completed Prerequisites"),
        ("run-00000000/4", "already in Project Knowledge"),
    ]


def test_of_notes_only_the_sentences_that_nobody_else_tells_are_in_the_journal() -> None:
    rule, choice = "Round with billing.money.cents().", "Totals are rounded by the caller, not here."
    memories = [a_memory("Half up", rule, kind="fix"), a_memory("Callers", choice, kind="decision")]
    context = known(
        memories=tuple(RecalledMemory(memory=one, score=1.0) for one in memories),
        reports=(a_failure(1, tried="Went through every caller of the tax table."),),
        journal=(
            an_entry(1, notes=f"Two commits. {rule} The tax table is next.\n{choice}"),
            an_entry(2, notes=f"{rule} Went through every caller of the tax table."),
        ),
    )

    prompt = build(context)

    journal = next(section for section in prompt.sections if section.name == "Run Journal")
    assert "- **Notes**: Two commits. The tax table is next.\n" in journal.text
    assert prompt.text.count(rule) == prompt.text.count(choice) == 1
    assert [(left.what, left.why) for left in journal.left_out] == [("run-00000001/2", "already in other sections")]


def test_an_outage_is_told_once_and_is_nothing_to_avoid() -> None:
    error = 'API Error: 529 {"type":"overloaded_error"}'
    tried = f"Let me run the login test a few times to see how it fails.\n{error}"

    text = report_text(a_failure(1, category="crash", tried=tried, why=f"claude exited with 1: {error}"))

    assert "- **Tried**: Let me run the login test a few times to see how it fails.\n- **Why" in text
    assert text.count("API Error") == 1
    assert "repeating the same approach" not in text
    assert "the service of the model failed" in text


def test_what_a_test_runner_prints_around_an_error_is_left_out() -> None:
    printed = f"""F                                                        [100%]
{"=" * 30} FAILURES {"=" * 30}
{"_" * 25} test_tabs {"_" * 25}
E       AssertionError: tabs count as four
{"=" * 20} short test summary info {"=" * 20}
1 failed, 41 passed in 0.62s"""

    text = report_text(a_failure(1, why=f"the gate `pytest -q` failed: AssertionError: tabs count as four\n{printed}"))

    block = text.partition("```\n")[2].partition("\n```")[0]
    assert block.splitlines() == [
        "test_tabs",
        "E       AssertionError: tabs count as four",
        "1 failed, 41 passed in 0.62s",
    ]
