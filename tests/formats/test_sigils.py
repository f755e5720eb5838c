from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ralph.core.memory_types import SIGNAL_TYPES
from ralph.core.records import (
    Difficulty,
    FailureReportSigil,
    HandoverSigil,
    KnowledgeSigil,
    LearningSigil,
    MemorySignal,
    Sigils,
    SubtaskSigil,
    record_fields,
)
from ralph.core.text import SIGIL_NAMES, neutralize
from ralph.formats.sigil_scanner import MAX_MARKS
from ralph.formats.sigils import (
    KNOWLEDGE_WORDS,
    MAX_FIELD_CHARACTERS,
    MAX_ITEMS,
    MAX_NOTES_CHARACTERS,
    MAX_PROBLEMS,
    MAX_SUBTASKS,
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
    parse_sigils,
    strip_sigils,
)
from ralph.loop.instructions import MEMORY_INSTRUCTIONS, STUCK_WARNING, TASK_INSTRUCTIONS

DONE = "<task-done>t-000001</task-done>"
FAILED = "<task-failed>t-000001</task-failed>"
HANDED = '<hand-over to="critic">See the parser.</hand-over>'
PART = '<subtask title="Read the file">Bytes to lines.</subtask>'


def said(text: str, prompt: str = "") -> dict[str, Any]:
    """Everything an answer said, without what it did not say and without the problems."""
    fields = record_fields(parse_sigils(text, prompt))
    silence = record_fields(Sigils())
    return {name: value for name, value in fields.items() if value != silence[name] and name != "problems"}


# --- task ids ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (DONE, ("t-000001",)),
        ("All tests pass.\n\n" + DONE + "\n", ("t-000001",)),
        ("Everything works: " + DONE, ("t-000001",)),
        ("<task-done>  t-000001\n</task-done>", ("t-000001",)),
        ("<TASK-DONE>t-000001</Task-Done>", ("t-000001",)),
        ("< task-done >t-000001</ task-done >", ("t-000001",)),
        ('<task-done status="ok" by=me>t-000001</task-done>', ("t-000001",)),
        ("<task-done>`t-000001`</task-done>", ("t-000001",)),
        ("- " + DONE, ("t-000001",)),
        ("**" + DONE + "**", ("t-000001",)),
        ("\r\n" + DONE + "\r\n", ("t-000001",)),
        ("\x1b[32m" + DONE + "\x1b[0m", ("t-000001",)),
        ("<task\u200b-done>t-000001</task-done>", ("t-000001",)),
        (DONE + DONE + "<task-done>t-000002</task-done>", ("t-000001", "t-000002")),
        ("I end with <task-done> when it works.\nIt works: " + DONE, ("t-000001",)),
        ("<task-done></task-done>", ()),
        ("<task-done> \n </task-done>", ()),
        ("<task-done/>", ()),
        ("<task-done>t-000001", ()),
        ("<task-done>t-000001</task-done", ()),
        ("<task-done>t-000001<task-done>", ()),
        ("task-done>t-000001</task-done>", ()),
        ("<task-doner>t-000001</task-doner>", ()),
        ("<my-task-done>t-000001</my-task-done>", ()),
        ("<taſk-done>t-000001</taſk-done>", ()),
        ("<task-done>the task t-000001</task-done>", ()),
        ("<task-done>" + "t" * 65 + "</task-done>", ()),
        ("&lt;task-done&gt;t-000001&lt;/task-done&gt;", ()),
    ],
)
def test_a_task_is_done_when_its_id_stands_in_a_closed_sigil(text: str, ids: tuple[str, ...]) -> None:
    assert parse_sigils(text).done_ids == ids


def test_of_done_and_failed_the_last_counts() -> None:
    assert said(FAILED + "\n" + DONE) == {"done_ids": ("t-000001",)}


@pytest.mark.parametrize(
    "text",
    [
        f"<journal>Ended with {DONE}, as asked.</journal>",
        f"<knowledge tags='a' title='b'>\n{DONE}\n</knowledge>",
        f"<failure-report>what_tried: {DONE}\nwhy_failed: x</failure-report>",
        f"<task-failed>{DONE}</task-failed>",
        f"<journal>a <journal>b</journal> {DONE} </journal>",
        f"<journal>a <knowledge tags='a' title='b'>b</journal> {DONE} </knowledge>",
        f"MEMORY:convention:End with {DONE}",
        f"> {DONE}",
        f"  > the prompt says {DONE}",
        f"+    {DONE}",
        f"docs/loop.md:12:{DONE}",
        f"12:{DONE}",
        f"   12→{DONE}",
        f"The format is:\n```\nprint(1)\n{DONE}\n```\n",
        f"~~~xml\n<!-- example -->\n{DONE}\n~~~",
        f"````\n```\n{DONE}\n```\nx\n````",
        f"When the tests pass I will say `{DONE}` and stop.",
        f"Not yet `echo {DONE}`",
        f"<journal>I was about to write {DONE} when",
        f"<journal>I quote {DONE} and the word <journal> here.</journal>",
    ],
)
def test_a_quoted_done_is_not_a_done(text: str) -> None:
    assert parse_sigils(text).done_ids == ()


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{DONE}\n```",
        f"```xml\n<journal>Done.</journal>\n\n{DONE}\n```",
        f"```\n<journal>\n```\ncode\n```\n</journal>\n{DONE}\n```",
        f"```\nMEMORY:fix:x\n{DONE}\n```",
        f"```python\nprint(1)\n```\n{DONE}\n```python\nprint(2)\n```",
        f"```\nnever closed\n{DONE}",
        f"````md\n```py\nx\n```\n````\n{DONE}",
        f"`{DONE}`",
        f"- `{DONE}`.",
        f"Ran `make`, all good. {DONE}",
        f"12:01:05 {DONE}",
        f"<journal>See `x</journal> {DONE}",
    ],
)
def test_a_done_near_code_is_still_a_done(text: str) -> None:
    assert parse_sigils(text).done_ids == ("t-000001",)


@pytest.mark.parametrize("name", [name for name in SIGIL_NAMES if name != "task-done"])
@pytest.mark.parametrize("attributes", ["", ' title="never closed', " title='a' tags=“"])
def test_a_tag_that_is_never_closed_hides_nothing_that_follows(name: str, attributes: str) -> None:
    answer = f"<{name}{attributes}>half a thought\n{DONE}\n<journal>Notes.</journal>\nMEMORY:fix:Restart it"

    sigils = parse_sigils(answer)

    assert sigils.done_ids == ("t-000001",)
    assert sigils.journal == "Notes."
    assert [signal.content for signal in sigils.signals] == ["Restart it"]


def test_everything_complete_before_a_cut_counts() -> None:
    answer = f"<journal>Notes.</journal>\n{DONE}\n<knowledge tags='a' title='b'>half of i"

    assert said(answer) == {"done_ids": ("t-000001",), "journal": "Notes."}
    assert parse_sigils(answer).problems == ("never closed: <knowledge>",)


# --- the failure report --------------------------------------------------------

TRIED: dict[str, Any] = {"tried": "ran the tests", "why": "no database"}


@pytest.mark.parametrize(
    ("body", "report"),
    [
        ("what_tried: ran the tests\nwhy_failed: no database", FailureReportSigil(**TRIED)),
        ("what_was_tried: ran the tests\nwhy_it_failed: no database", FailureReportSigil(**TRIED)),
        ("WHAT_TRIED : ran the tests\n  Why : no database", FailureReportSigil(**TRIED)),
        ("- **What was tried:** ran the tests\n- **Why it failed**: no database", FailureReportSigil(**TRIED)),
        ("1. `what_tried`: ran the tests\n2. __why_failed__: no database", FailureReportSigil(**TRIED)),
        ('what_tried: "ran the tests"\nwhy_failed: |\n  no database', FailureReportSigil(**TRIED)),
        ("<what_tried>ran the tests</what_tried><why_failed>no database</why_failed>", FailureReportSigil(**TRIED)),
        (
            "mood: bad\nwhat_tried: ran the tests\nmood: worse\nstill bad\nwhy_failed: no database",
            FailureReportSigil(**TRIED),
        ),
        ("why_failed: no database\nwhat_tried: ran the tests\nerror_category:", FailureReportSigil(**TRIED)),
        (
            "what_tried: ran the tests\nthen again\n\nand again\nwhy_failed: no database: refused\nError: x",
            FailureReportSigil(tried="ran the tests\nthen again\n\nand again", why="no database: refused\nError: x"),
        ),
        (
            "what_tried: ran the tests\nwhy_failed: no database\ncategory: Test Failure\nfiles: a.py, `b/c.py`,a.py",
            FailureReportSigil(**TRIED, category="test_failure", files=("a.py", "b/c.py")),
        ),
        (
            'what_tried: ran the tests\nwhy_failed: no database\nrelevant_files: ["a.py", "b/c.py"]',
            FailureReportSigil(**TRIED, files=("a.py", "b/c.py")),
        ),
        (
            "what_tried: ran the tests\nrelevant_files:\n  - a.py\n  - b/c.py (line 3)\nwhy_failed: no database",
            FailureReportSigil(**TRIED, files=("a.py", "b/c.py")),
        ),
        (
            "what_tried: ran the tests\nwhy_failed: no database\nrelevant_files: none",
            FailureReportSigil(**TRIED),
        ),
        (
            "what_tried: ran the tests\nwhy_failed: no database\n"
            "stack_trace_snippet:\nTraceback (most recent call last):\n  File x\nkey: 1\ncategory: timeout",
            FailureReportSigil(
                **TRIED, category="timeout", trace="Traceback (most recent call last):\n  File x\nkey: 1"
            ),
        ),
        (
            "what_tried: ran the tests\nwhy_failed: no database\nstack_trace: " + "x" * 600,
            FailureReportSigil(**TRIED, trace="x" * 500),
        ),
    ],
)
def test_a_failure_report_is_read_however_it_is_laid_out(body: str, report: FailureReportSigil) -> None:
    assert said(f"<failure-report>\n{body}\n</failure-report>") == {"report": report}


@pytest.mark.parametrize("body", ["", "?", "what_tried: x", "why_failed:\nwhat_tried: y"])
def test_a_malformed_failure_report_is_a_problem(body: str) -> None:
    sigils = parse_sigils(f"<failure-report>{body}</failure-report>")

    assert sigils.report is None
    assert sigils.problems[0].startswith("failure-report without ")


def test_the_first_failure_report_that_says_something_counts() -> None:
    reports = [f"<failure-report>{body}</failure-report>" for body in ("?", "tried: a\nwhy: b", "tried: c\nwhy: d")]

    assert parse_sigils("\n".join(reports)).report == FailureReportSigil(tried="a", why="b")


@pytest.mark.parametrize(
    "answer",
    [
        "<failure-report>The port 5432 of tests/db.py is taken.</failure-report>\n<task-failed>t-1</task-failed>",
        '<failure-report>{"why_failed": "The port 5432 of tests/db.py is taken."}</failure-report>',
        "I looked around.\n\nThe port 5432 of tests/db.py is taken.\n<task-failed>t-1</task-failed>",
    ],
)
def test_the_reason_of_a_failure_is_kept_in_prose_and_json(answer: str) -> None:
    report = parse_sigils(answer).report

    assert report
    assert report.why.endswith("The port 5432 of tests/db.py is taken.")
    assert report.files == ("tests/db.py",)


def test_a_failure_on_its_own_line_outweighs_a_done_in_a_sentence() -> None:
    plan = "Once it works I will print <task-done>t-1</task-done> at the end."

    assert parse_sigils(f"{plan}\n\n<task-failed>t-1</task-failed>").done_ids == ()
    assert parse_sigils(f"{plan}\n- **<task-failed>t-1</task-failed>**\n").done_ids == ()
    assert parse_sigils("<task-failed>t-1</task-failed> at first, now <task-done>t-1</task-done>").done_ids == ("t-1",)
    assert parse_sigils("<task-done>t-1</task-done>\n<task-failed>t-1</task-failed>").done_ids == ()
    assert parse_sigils("<task-failed>t-1</task-failed>\n<task-done>t-1</task-done>").failed_ids == ()


# --- what is worth remembering ---------------------------------------------------


@pytest.mark.parametrize(
    ("sigil", "learning"),
    [
        ("<learning>Run it twice.</learning>", LearningSigil(category="other", content="Run it twice.")),
        ('<learning category="Pitfall">x</learning>', LearningSigil(category="pitfall", content="x")),
        ("<learning category='my own'>x</learning>", LearningSigil(category="my_own", content="x")),
        (
            '<learning tags="Cargo, a/b.rs,,cargo" category=tool_usage>x\ny</learning>',
            LearningSigil(category="tool_usage", content="x\ny", tags=("cargo", "a/b.rs")),
        ),
    ],
)
def test_a_learning_has_a_category_and_tags(sigil: str, learning: LearningSigil) -> None:
    assert said(sigil) == {"learnings": (learning,)}


def test_many_learnings_are_kept_in_order_and_equal_ones_once() -> None:
    answer = "<learning>a</learning><learning>b</learning> <learning> a </learning><learning> </learning>"

    assert [learning.content for learning in parse_sigils(answer).learnings] == ["a", "b"]


@pytest.mark.parametrize(
    "attributes",
    [
        'tags="a,b" title="Two words"',
        "title='Two words' tags='a,b'",
        "title=“Two words” tags=“a,b”",
        "title=‘Two words’ tags=”a,b”",
        "title=Two words tags=a,b",
        "tags=a, b title=Two words",
        'tags = " A ,b,, a" title = "Two\n words"',
        'TAGS="a;b"\n  Title="Two words"\n  id=3',
        'tags=["a", "b"] title="Two words"',
        'title="Two words" other="x > y" tags="#a,#b"',
    ],
)
def test_knowledge_is_read_however_its_attributes_are_written(attributes: str) -> None:
    expected = KnowledgeSigil(title="Two words", tags=("a", "b"), body="The body.")

    assert said(f"<knowledge {attributes}>\nThe body.\n</knowledge>") == {"knowledge": (expected,)}


def test_a_title_may_hold_angle_brackets() -> None:
    answer = '<knowledge tags="rust" title="Vec<u8> -> String, <b> too">x</knowledge>'

    assert parse_sigils(answer).knowledge[0].title == "Vec<u8> -> String, <b> too"


@pytest.mark.parametrize(
    ("sigil", "problem"),
    [
        ("<knowledge>x</knowledge>", "knowledge without title and tags: x"),
        ('<knowledge tags="a">x</knowledge>', "knowledge without title: x"),
        ('<knowledge title="t">x</knowledge>', "knowledge without tags: t"),
        ('<knowledge title="t" tags=" , ">x</knowledge>', "knowledge without tags: t"),
        ('<knowledge title="t" tags="a"> \n </knowledge>', "knowledge without body: t"),
        ('<knowledge title="t" tags="a"/>', "knowledge without body: t"),
    ],
)
def test_incomplete_knowledge_is_a_problem_and_only_that_one_is_skipped(sigil: str, problem: str) -> None:
    sigils = parse_sigils(f"{sigil}<knowledge title='ok' tags='a'>b</knowledge>")

    assert sigils.problems == (problem,)
    assert [knowledge.title for knowledge in sigils.knowledge] == ["ok"]


def test_a_long_body_of_knowledge_is_cut_and_says_so() -> None:
    words = "word " * (KNOWLEDGE_WORDS + 1)

    body = parse_sigils(f"<knowledge title='t' tags='a'>{words}</knowledge>").knowledge[0].body

    assert body.split() == ["word"] * KNOWLEDGE_WORDS + ["[truncated]"]


@pytest.mark.parametrize("kind", SIGNAL_TYPES)
def test_every_kind_of_memory_line_is_read(kind: str) -> None:
    signal = MemorySignal(kind=kind, title="x", content="x")

    assert said(f"MEMORY:{kind}:x\n") == {"signals": (signal,)}
    assert said(f"MEMORY : {kind.upper()} : x") == {"signals": (signal,)}


@pytest.mark.parametrize(
    ("line", "kind", "title"),
    [
        ("MEMORY:patterns:x", "pattern", "x"),
        ("MEMORY:dependencies:x", "dependency", "x"),
        ("MEMORY:fixes:x", "fix", "x"),
        ("  - MEMORY:fix:x", "fix", "x"),
        ("1. **MEMORY:fix:x**", "fix", "x"),
        ("* `MEMORY:fix:use `a``", "fix", "use `a`"),
        ("MEMORY:pitfall:Avoid session.Get() before v1.2 is out. Then it works.", "pitfall", None),
        ("MEMORY:decision:We use a mutex. Channels were slower.", "decision", "We use a mutex"),
        ("MEMORY:decision:It ends here.", "decision", "It ends here"),
        ("MEMORY:decision:" + "x" * 101, "decision", "x" * 100 + "..."),
        ("MEMORY:fix:a:b:c", "fix", "a:b:c"),
    ],
)
def test_the_title_of_a_memory_line_is_its_first_sentence(line: str, kind: str, title: str | None) -> None:
    signals = parse_sigils(f"Some text.\n{line}\nMore text.").signals

    assert [signal.kind for signal in signals] == [kind]
    assert signals[0].title == (title or "Avoid session.Get() before v1.2 is out")


@pytest.mark.parametrize(
    "line",
    [
        "MEMORY:wish:x",
        "MEMORY:fix:",
        "MEMORY:fix: \u200b\u202e ",
        "MEMORY:fix",
        "MEMORY::x",
        "memory: fix: x",
        "MY_MEMORY:fix:x",
        "See MEMORY:fix:x",
        "> MEMORY:fix:x",
        "<journal>\nMEMORY:fix:x\n</journal>",
        "```\ncode\nMEMORY:fix:x\n```",
    ],
)
def test_what_is_no_memory_line_is_not_remembered(line: str) -> None:
    assert parse_sigils(f"{line}\n").signals == ()


# --- the other sigils ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<journal>\nOne.\n\n  Two.\n</journal>", {"journal": "One.\n\n  Two."}),
        ("<journal> \n\t</journal>", {}),
        ("<journal> </journal><journal>a</journal><journal>b</journal>", {"journal": "a"}),
        ("<journal>a<journal>b</journal>", {"journal": "b"}),
        ("<journal>a<journal>b</journal>c</journal>", {"journal": "a<journal>b</journal>c"}),
        ("<retry-suggestion></retry-suggestion><retry-suggestion>x</retry-suggestion>", {"retry_suggestion": "x"}),
        ("<difficulty-estimate> Hard.\n</difficulty-estimate>", {"difficulty": Difficulty.HARD}),
        ("<difficulty-estimate>so-so</difficulty-estimate>", {}),
        ("<next-model>opus</next-model><next-model>haiku</next-model>", {"next_model": "opus"}),
        ("<next-model>claude-opus-4[1m]</next-model>", {"next_model": "claude-opus-4[1m]"}),
        ("<next-model>--dangerous opus</next-model>", {}),
        ("<verify-pass/>", {"verify_passed": True}),
        ("<verify-pass />", {"verify_passed": True}),
        ("<verify-pass></verify-pass>", {"verify_passed": True}),
        ("<verify-pass>All 12 tests pass.</verify-pass>", {"verify_passed": True}),
        ("<verify-pass>", {}),
        ("I would say `<verify-pass/>` if it worked.", {}),
        ("<verify-fail>No test.</verify-fail>", {"verify_passed": False, "verify_reason": "No test."}),
        ("<verify-fail/>", {"verify_passed": False}),
        ("<verify-pass/><verify-fail>x</verify-fail>", {"verify_passed": False, "verify_reason": "x"}),
        ("<verify-fail>x</verify-fail><verify-pass/>", {"verify_passed": False, "verify_reason": "x"}),
        ("<verify-pass>no: <verify-fail>x</verify-fail></verify-pass>", {}),
    ],
)
def test_the_other_sigils(text: str, expected: dict[str, Any]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize("difficulty", Difficulty)
def test_every_difficulty_is_read(difficulty: Difficulty) -> None:
    answer = f"<difficulty-estimate>{difficulty.value.title()}</difficulty-estimate>"

    assert parse_sigils(answer).difficulty is difficulty


# --- handing over ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "to", "said_to_next"),
    [
        (HANDED, "critic", "See the parser."),
        ("<hand-over to='Critic'>\nSee\n\nthis.\n</hand-over>", "critic", "See\n\nthis."),
        ("<HandOver hat=CRITIC>x</handover>", "critic", "x"),
        ("< hand-over to = “critic” >x</ HAND-OVER >", "critic", "x"),
        ("<handover to=critic>x</hand-over>", "critic", "x"),
        ('<hand-over to="the critic.">x</hand-over>', "critic", "x"),
        ('<hand-over to="critic"></hand-over>', "critic", ""),
        ('<hand-over to="critic"/>', "critic", ""),
        ("<hand-over to=critic/>", "critic", ""),
        ('<hand-over to="" hat="critic" />', "critic", ""),
        ("<hand-over>x</hand-over>", "", "x"),
        ("<hand-over/>", "", ""),
        ("<hand-over to='editor'>x</hand-over><hand-over to='critic'>y</hand-over>", "editor", "x"),
        (f"<hand-over>not yet {DONE}</hand-over>", "", f"not yet {DONE}"),
        (f"```\n{HANDED}\n```", "critic", "See the parser."),
        (f"- `{HANDED}`", "critic", "See the parser."),
    ],
)
def test_a_hand_over_says_to_whom_and_what(text: str, to: str, said_to_next: str) -> None:
    assert said(text) == {"hand_over": HandoverSigil(to=to, text=said_to_next)}
    assert parse_sigils(text).problems == ()


@pytest.mark.parametrize("to", ["manager", "creator or critic", "critics", "?", "crìtic"])
def test_the_order_decides_when_nobody_knows_the_hat(to: str) -> None:
    sigils = parse_sigils(f'<hand-over to="{to}">x</hand-over>')

    assert sigils.hand_over == HandoverSigil(to="", text="x")
    assert sigils.problems == (f"hand-over to an unknown hat: {to}",)


@pytest.mark.parametrize("sigil", [HANDED, PART, '<hand-over to="critic"/>'])
@pytest.mark.parametrize(
    "around",
    [
        "> {}",
        "+ {}",
        "12:{}",
        "docs/hats.md:12:{}",
        "The format is:\n```\nprint(1)\n{}\n```\n",
        "When it works I will say `{}` and stop.",
        "<journal>I say {} later.</journal>",
        "<journal>I was about to say {} when",
        "<subtask title='Say it'>End with {}.</sub-task>",
        "MEMORY:convention:End with {}",
    ],
)
def test_a_quoted_sigil_moves_no_task(around: str, sigil: str) -> None:
    sigils = parse_sigils(around.format(sigil))

    assert sigils.hand_over is None
    assert [part for part in sigils.subtasks if part.title != "Say it"] == []


@pytest.mark.parametrize(
    "text", [HANDED[:-1], "<hand-over to='critic'>x", "<hand-over to='critic", PART[:-1], PART[:30]]
)
def test_half_a_hand_over_or_sub_task_is_none(text: str) -> None:
    assert said(text) == {}


# --- the parts of a task -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (PART, SubtaskSigil(title="Read the file", body="Bytes to lines.")),
        ("<Sub-Task TITLE='Read, and close'>x\ny</SUBTASK>", SubtaskSigil(title="Read, and close", body="x\ny")),
        ("<subtask title=Read the file needs=none>x</subtask>", SubtaskSigil(title="Read the file", body="x")),
        ('<subtask title="Read\n the file"/>', SubtaskSigil(title="Read the file")),
        ("<subtask>\n  Read the file\n\nx\ny\n</subtask>", SubtaskSigil(title="Read the file", body="x\ny")),
        ("<subtask>- **Read the file**</subtask>", SubtaskSigil(title="Read the file")),
        ("<subtask title=''>## Use `open`\nx</subtask>", SubtaskSigil(title="Use `open`", body="x")),
    ],
)
def test_a_sub_task_is_read_however_it_is_written(text: str, part: SubtaskSigil) -> None:
    assert said(text) == {"subtasks": (part,)}
    assert parse_sigils(text).problems == ()


@pytest.mark.parametrize("empty", ["<subtask/>", "<subtask> \n </subtask>", "<subtask title='**'> \u200b </subtask>"])
def test_an_empty_sub_task_is_a_problem_and_only_that_one_is_skipped(empty: str) -> None:
    sigils = parse_sigils(f"{empty}\n{PART}")

    assert sigils.problems == ("subtask without a title",)
    assert [part.title for part in sigils.subtasks] == ["Read the file"]


def parts_of(*parts: tuple[str, str]) -> str:
    """An answer with sub-tasks of these titles and needs."""
    return "\n".join(f'<subtask title="{title}" needs="{needs}">x</subtask>' for title, needs in parts)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ("", ()),
        ("n/a", ()),
        ("Read it", ("Read it",)),
        (" read  IT. ", ("Read it",)),
        ("Read it; Split, then join", ("Read it", "Split, then join")),
        ("Split, then join", ("Split, then join",)),
        ("Read it, Check `x`", ("Read it", "Check `x`")),
        ("['Read it'; 'Check `x`']", ("Read it", "Check `x`")),
        ("Read it;;Read it;", ("Read it",)),
        ("One; two", ("One; two",)),
    ],
)
def test_a_sub_task_names_the_ones_before_it(needs: str, expected: tuple[str, ...]) -> None:
    others = [(title, "") for title in ("Read it", "Split, then join", "Check `x`", "One; two")]

    sigils = parse_sigils(parts_of(("Last", needs), *others))

    assert sigils.subtasks[0].needs == expected
    assert sigils.problems == ()


def test_a_need_that_is_no_part_is_dropped() -> None:
    sigils = parse_sigils(parts_of(("A", "B; the rest"), ("B", "")))

    assert [part.needs for part in sigils.subtasks] == [("B",), ()]
    assert sigils.problems == ("subtask needs an unknown subtask: the rest",)


def test_the_need_that_closes_a_circle_is_dropped() -> None:
    sigils = parse_sigils(parts_of(("A", "B"), ("B", "C"), ("C", "A; D"), ("D", "D")))

    assert [part.needs for part in sigils.subtasks] == [("B",), ("C",), ("D",), ()]
    assert sigils.problems == (
        "subtasks depend on each other: C needs a",
        "subtasks depend on each other: D needs d",
    )


def test_sub_tasks_are_few_short_and_different() -> None:
    same = parts_of(("Part 0", ""), ("part  0.", ""))
    many = parts_of(*((f"Part {number}", "") for number in range(MAX_SUBTASKS + 3)))
    long = f"<subtask>{'long ' * 100}\n{'x' * 50_000}</subtask>"

    sigils = parse_sigils(f"{same}\n{long}\n{many}")

    assert [part.title for part in sigils.subtasks if part.title.startswith("Part")] == [
        f"Part {number}" for number in range(MAX_SUBTASKS - 1)
    ]
    assert len(sigils.subtasks[1].title) <= MAX_TITLE
    assert sigils.subtasks[1].body.startswith("long long")
    assert len(sigils.subtasks[1].body) == MAX_FIELD_CHARACTERS
    assert sigils.problems == ("4 more sub-tasks left out",)


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from("abcd"), st.lists(st.sampled_from("abcdef"), max_size=4))))
def test_sub_tasks_never_wait_for_each_other(parts: list[tuple[str, list[str]]]) -> None:
    subtasks = parse_sigils(parts_of(*((title, ";".join(needs)) for title, needs in parts))).subtasks

    waiting = {part.title: set(part.needs) for part in subtasks}
    while ready := [title for title, needs in waiting.items() if not needs & waiting.keys()]:
        for title in ready:
            del waiting[title]
    assert waiting == {}
    assert [part.title for part in subtasks] == list(dict.fromkeys(title for title, _ in parts))


# --- the rest of an answer -----------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        ("", ""),
        ("Plain.\n\nWords.", "Plain.\n\nWords."),
        (f"Before.\n{HANDED}\nAfter. {DONE}", "Before.\n \nAfter."),
        ("<hand-over to='critic'/>After.", "After."),
        ("a\nMEMORY:fix:x\nb", "a\n \nb"),
        ("I end with <task-done> soon. <journal>half", "I end with   soon.  half"),
        ("<journal>a<knowledge title='b' tags='c'>d</journal>e</knowledge>f", "f"),
        ("```\ncode\n```\ntext", "```\ncode\n```\ntext"),
    ],
)
def test_an_answer_can_be_had_without_its_sigils(answer: str, rest: str) -> None:
    assert strip_sigils(answer) == rest


# --- nothing foreign gets in -------------------------------------------------------


def test_what_is_kept_is_clean_and_without_secrets() -> None:
    answer = (
        "<journal>\x1b[31mred\x1b[0m\u202e ghp_0123456789012345678901234567</journal>"
        "<learning tags='ghp_0123456789012345678901234567'>password = hunter2hunter2</learning>\n"
        "MEMORY:fix:use sk-ant-0123456789012345678901234567\n"
        "<subtask title='use ghp_0123456789012345678901234567'>password = hunter2hunter2</subtask>"
        "<hand-over>\x1b[31mpassword = hunter2hunter2</hand-over>"
    )

    sigils = parse_sigils(answer)

    assert sigils.journal == "red [redacted]"
    assert sigils.learnings == (LearningSigil(category="other", content="password = [redacted]", tags=("redacted",)),)
    assert sigils.signals[0].content == "use [redacted]"
    assert sigils.subtasks == (SubtaskSigil(title="use [redacted]", body="password = [redacted]"),)
    assert sigils.hand_over == HandoverSigil(to="", text="password = [redacted]")


def test_a_secret_is_not_saved_by_a_cut() -> None:
    secret = "ghp_" + "a1" * 20

    journal = parse_sigils(f"<journal>{'x ' * (MAX_NOTES_CHARACTERS // 2 - 5)}{secret} and more</journal>").journal

    assert len(journal) <= MAX_NOTES_CHARACTERS
    assert "ghp_" not in journal


def test_sizes_and_numbers_are_bounded_and_what_is_left_out_is_counted() -> None:
    many = MAX_ITEMS + 7
    tags = ",".join(f"{n}{'x' * MAX_TAG}" for n in range(MAX_TAGS + 5))
    answer = "\n".join(
        [f"<learning tags='{tags}'>{n} {'y' * 50_000}</learning>" for n in range(many)]
        + [f"<knowledge title='{n}' tags='a'>b</knowledge>" for n in range(many)]
        + [f"MEMORY:fix:number {n}" for n in range(many)]
        + [f"<task-done>t-{n}</task-done>" for n in range(many)]
    )

    sigils = parse_sigils(answer)

    assert [len(items) for items in (sigils.learnings, sigils.knowledge, sigils.signals, sigils.done_ids)] == [100] * 4
    assert all(len(learning.content) <= MAX_FIELD_CHARACTERS for learning in sigils.learnings)
    assert len(sigils.learnings[0].tags) == MAX_TAGS
    assert all(len(tag) <= MAX_TAG for tag in sigils.learnings[0].tags)
    assert sigils.problems == (
        "7 more learnings left out",
        "7 more knowledge sigils left out",
        "7 more MEMORY lines left out",
        "7 more task ids left out",
    )


def test_problems_are_bounded_too() -> None:
    sigils = parse_sigils("".join(f"<next-model>{n} {n}</next-model>" for n in range(1_000)))

    assert len(sigils.problems) == MAX_PROBLEMS + 1
    assert sigils.problems[-1] == f"{1_000 - MAX_PROBLEMS} more problems left out"


def test_a_flood_of_sigils_is_read_up_to_a_limit() -> None:
    sigils = parse_sigils("<journal>x</journal>\n" * (MAX_MARKS + 10) + DONE)

    assert sigils.journal == "x"
    assert sigils.done_ids == ()
    assert sigils.problems == (f"more than {MAX_MARKS} sigils; the rest was not read",)


# --- echoes of the prompt ----------------------------------------------------------

NESTED = '<journal>Outer <knowledge tags="a" title="b">c</knowledge></journal>'
PROMPT = f"{TASK_INSTRUCTIONS}{MEMORY_INSTRUCTIONS}{STUCK_WARNING}{NESTED}\n{DONE}\n"


def test_an_agent_that_repeats_its_prompt_says_nothing() -> None:
    assert said(PROMPT, PROMPT) == {}
    assert said(f"My instructions are:\n\n{PROMPT}\n\nI begin.", PROMPT) == {}
    assert "repeated from the prompt: <task-done>TASK_ID</task-done>" in parse_sigils(PROMPT, PROMPT).problems


@pytest.mark.parametrize(
    "echo",
    [
        "MEMORY:pattern:How something specific is done here",
        "MEMORY:pattern:How something specific",
        "- MEMORY:pattern:How  something specific is done here\n",
        '<knowledge tags="a" title="b">c</knowledge>',
        '<knowledge\n  tags="a"\n  title="b">c</knowledge>',
        "<journal>\n  Decisions, discoveries,\n  and what is left to do.\n</journal>",
        DONE,
    ],
)
def test_an_excerpt_of_the_prompt_says_nothing(echo: str) -> None:
    assert said(echo, PROMPT) == {}
    assert said(echo) != {}


def test_what_is_not_in_the_prompt_is_said_even_next_to_an_echo() -> None:
    answer = f"{PROMPT}\n<journal>My own.</journal>\n<task-done>t-000002</task-done>\nMEMORY:fix:My own"

    assert said(answer, PROMPT) == {
        "done_ids": ("t-000002",),
        "journal": "My own.",
        "signals": (MemorySignal(kind="fix", title="My own", content="My own"),),
    }


# --- any text ------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(f"<{name}>" for name in SIGIL_NAMES),
        *(f"</{name}>" for name in SIGIL_NAMES),
        *(f"<{name}" for name in SIGIL_NAMES),
        *(f"< / {name.upper()} >" for name in SIGIL_NAMES),
        *(
            "<verify-pass/>",
            "<hand-over/>",
            DONE,
            FAILED,
            HANDED,
            PART,
            "t-000001",
            "\n",
            "\n\n",
            " ",
            "<",
            ">",
            "/",
            "</",
            "```",
            "```\n",
            "~~~\n",
            "`",
        ),
        *("MEMORY:", "MEMORY:fix:", "MEMORY:fix:x\n", "MEMORY", ":", "\nMEMORY : fixes : x", "fix", "- ", "> ", "**"),
        *(
            '<knowledge tags="a" title="b">',
            "<learning tags='a'>",
            "<subtask title=a needs=b>",
            "<sub-task title='b' needs='a;b, c'>",
            ' title="',
            ' needs="',
            " to=critic",
            " tags=",
            "'",
            '"',
            "“",
            "”",
            "=",
            "a,b",
        ),
        *("what_tried: x\n", "why_failed: y\n", "relevant_files: a, b\n", "stack_trace:\n", "<what_tried>", "</why>"),
        *(
            "\u200b",
            "\x00",
            "\ud800",
            "\x1b[0m",
            "\x1b",
            "\ufeff",
            "\u00a0",
            "\u2028",
            "\r",
            "\t",
            "ſ",
            "İ",
            "K",
            "‹",
            "😀",
        ),
        *("hard", "opus", "x", "word ", "password=hunter2hunter2", "+", "a.py:1:", "1. "),
    ]
)
SURROGATES_TOO = st.characters(exclude_categories=())
ANY_TEXT = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.text(SURROGATES_TOO, max_size=200),
    st.lists(st.one_of(PIECES, st.text(SURROGATES_TOO, max_size=5)), max_size=40).map("".join),
)


@settings(max_examples=150, deadline=None)
@given(text=ANY_TEXT, prompt=ANY_TEXT)
def test_no_text_breaks_the_reader_and_all_it_gives_can_be_stored(text: str, prompt: str) -> None:
    sigils = parse_sigils(text, prompt)

    repr(sigils).encode("utf-8")
    strip_sigils(text).encode("utf-8")
    assert sigils == parse_sigils(text, prompt)
    assert all(task_id and not set(task_id) & set(" \n<>") for task_id in sigils.done_ids + sigils.failed_ids)


@settings(max_examples=150, deadline=None)
@given(text=ANY_TEXT)
@example(text="<task\u200b-done>t-1</task-done>")
@example(text="MEM\u200bORY:fix:x")
@example(text="< \n / journal><journal>x</journal>")
@example(text="MEMORY:MEMORY:fix:x")
def test_neutralised_text_says_nothing(text: str) -> None:
    assert said(neutralize(text)) == {}


@settings(max_examples=100, deadline=None)
@given(prompt=ANY_TEXT, before=st.text("ab \n"), after=st.text("ab \n"))
def test_no_prompt_can_be_repeated_as_an_answer(prompt: str, before: str, after: str) -> None:
    assert said(f"{before}\n{prompt}\n{after}", prompt) == {}


NOISE = st.text(st.characters(exclude_characters="<`~'\"“”‘’"), max_size=80)
SAID = st.sampled_from(
    [
        (DONE, {"done_ids": ("t-000001",)}),
        ("<Journal >Notes.</journal>", {"journal": "Notes."}),
        ("<learning>x</learning>", {"learnings": (LearningSigil(category="other", content="x"),)}),
        ("<knowledge title=t tags=a>x</knowledge>", {"knowledge": (KnowledgeSigil(title="t", tags=("a",), body="x"),)}),
        ("<failure-report>tried: a\nwhy: b</failure-report>", {"report": FailureReportSigil(tried="a", why="b")}),
        ("<verify-pass/>", {"verify_passed": True}),
        (HANDED, {"hand_over": HandoverSigil(to="critic", text="See the parser.")}),
        (PART, {"subtasks": (SubtaskSigil(title="Read the file", body="Bytes to lines."),)}),
    ]
)


@settings(max_examples=100, deadline=None)
@given(before=NOISE, sigil=SAID, after=NOISE)
def test_a_sigil_on_a_line_of_its_own_is_found_in_any_noise(
    before: str, sigil: tuple[str, dict[str, Any]], after: str
) -> None:
    found = said(f"{before}\n{sigil[0]}\n{after}")

    found.pop("signals", None)
    assert found == sigil[1]


# An answer cut inside a code block, or inside a sigil that quotes another on a line of its own, cannot be told
# from one where the block or the sigil was forgotten to be closed; those are not among the parts.
HONEST_PARTS = st.sampled_from(
    [
        "Some prose.\n",
        "Run `make`.\n",
        "<task-done>t-000002</task-done>\n",
        f"<journal>I am about to write {DONE} now.</journal>\n",
        f"<knowledge tags='a' title='b'>\nEnd with {DONE}.\n</knowledge>\n",
        f"I will say `{DONE}` later.\n",
        f"> {DONE}\n",
        f"MEMORY:convention:End with {DONE}\n",
        HANDED + "\n",
        PART + "\n",
        f"<journal>Then {HANDED} and {PART} come.</journal>\n",
        f"I will say `{HANDED}` later, and `{PART}` too.\n",
        f"<hand-over>End with {DONE}, then {PART} and so on.</hand-over>\n",
        "```python\nprint(1)\n```\n",
        "<difficulty-estimate>easy</difficulty-estimate>\n",
    ]
)


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(HONEST_PARTS, max_size=8), share=st.floats(0, 1))
def test_cutting_an_answer_never_makes_a_quotation_a_sigil(parts: list[str], share: float) -> None:
    answer = "".join(parts)

    whole, cut = parse_sigils(answer), parse_sigils(answer[: int(len(answer) * share)])

    assert set(cut.done_ids) <= set(whole.done_ids)
    assert cut.hand_over in (None, whole.hand_over)
    assert set(cut.subtasks) <= set(whole.subtasks)


# --- time ------------------------------------------------------------------------------

HOSTILE = [
    "<",
    "< ",
    "</",
    "<task-done>",
    "</task-done>",
    "<task-done",
    "<task-done <",
    "<journal><knowledge a=b><learning>",
    "<journal></journal>",
    "<task-done>x</task-done>",
    "`<task-done>x</task-done> ",
    "<journal><task-done>x</task-done> ",
    "<hand-over to=critic>",
    "<hand-over/>",
    "<subtask>",
    "<subtask title=a needs=" + "b;" * 800 + ">x</subtask>",
    "<subtask><sub-task>x</subtask>",
    '<knowledge title="',
    "<knowledge title='<",
    "<knowledge a=“",
    "“<knowledge a=“”",
    "<knowledge =",
    "<learning a a a a a a a a a>x</learning>",
    "<learning " + "a=b " * 400 + ">x</learning>",
    "<learning " + " " * 1900 + "=>x</learning>",
    "<failure-report>" + "a: \n" * 2_000 + "</failure-report>",
    "```\n",
    "```x\n",
    "``` ",
    "~~~\n```\n````\n",
    "MEMORY:fix:x\n",
    "MEMORY:fix:x ",
    "MEMORY:",
    "> <task-done>x</task-done>",
    "a.py:1:<task-done>x</task-done>",
    "\n",
    " ",
    "`",
    "\x1b[",
    "\x00<",
]


def seconds_for(text: str, prompt: str) -> float:
    """Give the processor time of a reading."""
    started = time.process_time()
    parse_sigils(text, prompt)
    return time.process_time() - started


def assert_linear(short: str, long: str, *, is_prompt: bool = False) -> None:
    """Eight times the text: linear is 8, quadratic 64. Half-way in between is far from both.

    The least time of a few readings counts: what else the machine does hardly shows in it. One of the long text that
    is quick enough is as good as the least.
    """

    def once(text: str) -> float:
        return seconds_for("", text) if is_prompt else seconds_for(text, "")

    least = min(once(short) for _ in range(3))
    assert any(once(long) <= 24 * least + 0.02 for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    short = piece * (20_000 // len(piece))
    long = short * 8

    assert_linear(short, long)
    assert_linear(short, long, is_prompt=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["journal", "task-done"])
def test_deep_nesting_takes_no_more_time(name: str) -> None:
    def nested(depth: int) -> str:
        return f"<{name}>" * depth + DONE + f"</{name}>" * depth

    short, long = nested(2_000), nested(16_000)

    assert_linear(short, long)
    assert said(long, long) == {}


@pytest.mark.parametrize(
    ("words", "difficulty"),
    [
        ("very hard", Difficulty.HARD),
        ("Difficult, because of the locks", Difficulty.HARD),
        ("medium", Difficulty.MODERATE),
        ("simple", Difficulty.EASY),
        ("very easy", Difficulty.TRIVIAL),
        ("impossible", Difficulty.BLOCKED),
    ],
)
def test_the_words_that_models_use_for_a_difficulty_are_understood(words: str, difficulty: Difficulty) -> None:
    assert parse_sigils(f"<difficulty-estimate>{words}</difficulty-estimate>").difficulty is difficulty


@pytest.mark.parametrize(
    "learning",
    [
        '<learning category="fix" relevance_tags="db, ports">Use port 5433.</learning>',
        '<learning>{"category": "fix", "content": "Use port 5433.", "relevance_tags": ["db", "ports"]}</learning>',
    ],
)
def test_learnings_in_the_spellings_that_models_use_are_understood(learning: str) -> None:
    expected = LearningSigil(category="fix", content="Use port 5433.", tags=("db", "ports"))
    assert parse_sigils(learning).learnings == (expected,)
