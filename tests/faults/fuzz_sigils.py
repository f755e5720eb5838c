"""Answers of agents that speak of being done, and a second opinion on whether they are.

Two ways to know better than the reader of sigils. Answers are put together from parts of which it is known by how they
are made that none of them says that the task is done; whatever order they come in, it is not. And `may_be_done` reads
any answer by the rules of docs/formats.md in another way, line by line, without any of the reader's code: what it
rules out must not count, whatever bytes the answer is made of.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from ralph.core.records import AgentReply, SessionEnding, Sigils, record_fields
from ralph.core.text import SIGIL_NAMES, clean, neutralize
from ralph.formats.sigils import parse_sigils, strip_sigils
from ralph.loop.outcome import claims_done
from tests.faults.fuzz_inputs import Inputs
from tests.faults.fuzz_targets import can_be_stored, is_sentence, must

TASK = "t-3f9a01"
OTHER = "t-3f9a02"
DONE = f"<task-done>{TASK}</task-done>"
PROMPT = (Path(__file__).parents[1] / "golden" / "prompt_everything.md").read_text(encoding="utf-8")

WHOLE_PROMPT = 0.02
"""So often the whole of a prompt is there, which takes long to read."""

# --- a second opinion ------------------------------------------------------------------------------

_TAG = re.compile(r"<\s*(/?)\s*([A-Za-z-]+)(?=[\s/>])([^<>]*)>")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`\n]*)$")
_LISTING = re.compile(r"\s*(?:>|\+|\d+(?:\t|→|│| *\|)|(?=[^\s:]*[/.])[^\s:]+:\d+[:-])")
_SPELLINGS = {"handover": "hand-over", "sub-task": "subtask"}


def may_be_done(answer: str, prompt: str) -> bool:
    """Say whether an answer could mean that the task is done; no means that it certainly does not."""
    text = clean(answer)
    if TASK not in text or "task-done" not in text.lower():
        return False
    if not is_plain(text):
        return True  # tags with quotation marks or brackets in them: that is for the reader to tell
    said = " ".join(clean(prompt).lower().split())
    closed = _closed(text)
    ours = [span for span in closed if _says_our_task(text, span)]
    blocks = _blocks(text, closed)
    for start, end, _ in ours:
        line_start = text.rfind("\n", 0, start) + 1
        before = text[line_start:start]
        is_inside = any(other[0] < start and end <= other[1] for other in closed)
        is_listed = bool(_LISTING.match(before)) or before.lstrip() == "-" or bool(re.fullmatch(r"\s*\d+:\s*", before))
        is_shown = any(block[0] < start and end <= block[1] for block in blocks)
        is_echo = " ".join(text[start:end].lower().split()) in said
        if not (is_inside or is_listed or is_shown or is_echo):
            return True
    return False


def is_plain(text: str) -> bool:
    """Say whether every tag is written in a way that can be read in one way only."""
    for found in re.finditer(r"<\s*/?\s*([A-Za-z-]+)(?=[\s/>])", text):
        if found[1].lower() in SIGIL_NAMES:
            tag = _TAG.match(text, found.start())
            if tag is None or len(tag[0]) > 500 or re.search("[=\"'“”„‘’]", tag[3]):
                return False
    return "MEMORY" not in text and not any(len(line) > 200 for line in text.split("\n")) and text.count("<") < 200


def _closed(text: str) -> list[tuple[int, int, str]]:
    """Give where each sigil begins and ends: an end tag goes with the nearest open tag of its name."""
    opened: dict[str, list[tuple[int, int]]] = {}
    found: list[tuple[int, int, str]] = []
    for tag in _TAG.finditer(text):
        name = _SPELLINGS.get(tag[2].lower(), tag[2].lower())
        if name not in SIGIL_NAMES:
            continue
        waiting = opened.setdefault(name, [])
        if not tag[1] and tag[3].endswith("/"):
            found.append((tag.start(), tag.end(), ""))
        elif not tag[1]:
            waiting.append((tag.start(), tag.end()))
        elif waiting:
            start, inner = waiting.pop()
            found.append((start, tag.end(), text[inner : tag.start()] if name == "task-done" else ""))
    return found


def _says_our_task(text: str, span: tuple[int, int, str]) -> bool:
    return span[2].strip(" \t\n*`'\"") == TASK


def _blocks(text: str, closed: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Give the code blocks that have an end and hold anything but sigils; a fence inside of a sigil is none."""
    blocks: list[tuple[int, int]] = []
    fence, start, at = "", 0, 0
    rows: list[tuple[int, str, re.Match[str] | None]] = []
    for row in text.split("\n"):
        # One inside of a sigil is part of its text.
        is_inside = any(one[0] < at + len(row) - len(row.lstrip()) < one[1] for one in closed)
        rows.append((at, row, None if is_inside else _FENCE.match(row)))
        at += len(row) + 1
    number = 0
    while number < len(rows):
        start, row, found = rows[number]
        number += 1
        if not found:
            continue
        fence = found[1]
        for later in range(number, len(rows)):
            end, other, closing = rows[later]
            if closing and closing[1][0] == fence[0] and len(closing[1]) >= len(fence) and not closing[2].strip():
                if not _holds_only_sigils(text, start + len(row), end, closed):
                    blocks.append((start, end + len(other)))
                number = later + 1
                break
    return blocks


def _holds_only_sigils(text: str, start: int, end: int, closed: list[tuple[int, int, str]]) -> bool:
    inside = sorted(one for one in closed if start <= one[0] and one[1] <= end)
    left, at = "", start
    for one in inside:
        left += text[at : one[0]] if one[0] > at else ""
        at = max(at, one[1])
    return not (left + text[at:end]).strip(" \t\n*`'\"-")


# --- answers that do not say it ---------------------------------------------------------------------

_LOOKALIKES = (
    *(f"＜task-done＞{TASK}＜/task-done＞", f"<tаsk-done>{TASK}</tаsk-done>", f"<task‑done>{TASK}</task‑done>"),
    *(f"&lt;task-done&gt;{TASK}&lt;/task-done&gt;", f"<task_done>{TASK}</task_done>", f"‹task-done>{TASK}‹/task-done>"),
    *(f"<task-done>{TASK}x</task-done>", f"<task-done>{TASK[:-1]}</task-done>", f"<task-done>{OTHER}</task-done>"),
    *(
        "<task-done>ｔ-3f9a01</task-done>",
        f"<task-done>the {TASK}</task-done>",
        f"<task-done>{TASK} {OTHER}</task-done>",
    ),
    *("<task-done></task-done>", "<task-done/>", f"<task-done id='{TASK}'/>", f"<task-done>{TASK}</task-failed>"),
    *(
        f"<task-done>{TASK}",
        f"{TASK}</task-done>",
        f"<task-done {TASK}>",
        f"<task-done>{TASK}<task-done>",
        "<task-done",
    ),
    *(
        f"<task-done-{TASK}>",
        f"[task-done]{TASK}[/task-done]",
        f"task-done: {TASK}",
        f"<task-failed>{TASK}</task-failed>",
    ),
    *(
        f"<TASK-DONE>{TASK.upper()}</TASK-DONE>",
        "<task-done>t–3f9a01</task-done>",
        "<task-done>\\t-3f9a01</task-done>",
    ),
    *(
        f"<task-done>{TASK}\n{OTHER}</task-done>",
        "<task-done>&#116;-3f9a01</task-done>",
        "<task-done>TASK_ID</task-done>",
    ),
    f"<task-done><task-done>{TASK}</task-failed></task-done>",
)
"""What looks like it, and is not."""
_LONG = (
    "journal",
    "learning",
    "knowledge tags='a' title='b'",
    "failure-report",
    "retry-suggestion",
    "verify-fail",
    "hand-over",
)
_CODE = ("print(1)", "$ ralph task list", "def f(): pass", "x = 1  # y")
_PROSE = (
    "I looked at the parser.",
    "All tests pass.",
    "",
    "Next I change `a.py`.",
    "# Done",
    "- one\n- two",
    "Ok.",
    "\x1b[1mx\x1b[0m",
)


class Answers:
    """An endless supply of answers of which none says that the task is done, but for those that say so at their end."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines = PROMPT.split("\n")
        self._shown: list[str] = []
        """What the prompt has to hold: all of it, or what is echoed of it."""
        self._kinds: tuple[Callable[[], str], ...] = (
            *(self._lookalike, self._lookalike, self._inside, self._quoted, self._fenced, self._listed, self._echo),
            *(self._neutralised, self._planned, self._prose, self._split),
        )

    def next(self) -> tuple[str, str, bool]:
        """Give an answer, the prompt it answers, and whether it ends by saying that the task is done."""
        self._shown = list(self._lines) if self._random.random() < WHOLE_PROMPT else []
        parts = [self._random.choice(self._kinds)() for _ in range(self._random.choice((1, 2, 3, 5, 8)))]
        prompt = "\n".join([*self._shown, neutralize(DONE), *(f"- {neutralize(part)}" for part in parts[:2])])
        is_done = self._random.random() < 0.25
        # An open tag or backtick before it makes it doubtful, unless it is on a line of its own.
        answer = "\n".join([*parts, DONE] if is_done else parts)
        return answer, prompt, is_done

    def _prose(self) -> str:
        return self._random.choice(_PROSE)

    def _lookalike(self) -> str:
        # What is cut off must not be completed by what comes next.
        return self._random.choice(_LOOKALIKES) + " half\n</task-done></task-failed>"

    def _inside(self) -> str:
        name = self._random.choice(_LONG)
        inner = self._random.choice(
            (DONE, f"I end with {DONE} soon.", f"\n{DONE}\n", f"x\n```\n{DONE}\n```\n", f"> {DONE}")
        )
        if self._random.random() < 0.2:
            inner = f"<{name}>{inner}</{name.split()[0]}>{inner}"
        return f"<{name}>{inner}</{name.split()[0]}>"

    def _quoted(self) -> str:
        mark = self._random.choice(
            ("> ", ">", "  > ", "> > ", "+", "+ ", "12\t", "12→", "7 | ", "a.py:3:", "src/a.py:3-", "3: ")
        )
        return mark + DONE

    def _fenced(self) -> str:
        fence = self._random.choice(("```", "````", "~~~", "```text", "  ```"))
        bare = re.sub("[a-z]", "", fence)
        code = self._random.choice(_CODE)
        order = self._random.choice(((code, DONE), (DONE, code), (code, DONE, code)))
        return "\n".join([fence, *order, bare])

    def _listed(self) -> str:
        return f"--- a/x.md\n+++ b/x.md\n@@ -1 +1 @@\n-old\n+{DONE}\n context"

    def _echo(self) -> str:
        start = self._random.randrange(len(self._lines))
        lines = self._lines[start : start + self._random.randrange(1, 30)]
        self._shown += lines
        fences = [line for line in lines if line.startswith("```")]
        # Half a code block turns what follows inside out: nobody could tell what is shown in it.
        return "\n".join(lines if len(fences) % 2 == 0 else [line for line in lines if line not in fences])

    def _neutralised(self) -> str:
        return neutralize(
            self._random.choice((DONE, f"x {DONE} y", f"```\n{DONE}\n```", "MEMORY:fix:" + DONE, *_LOOKALIKES))
        )

    def _planned(self) -> str:
        words = self._random.choice(
            ("I will say `{}` at the end.", "When I am done, I write `{}`, not before.", "MEMORY:fix:say {}")
        )
        return words.format(DONE)

    def _split(self) -> str:
        mark = self._random.choice(("=", ";", "@@", "…", "|"))
        at = self._random.randrange(1, len(DONE) - len("</task-done>"))
        return DONE[:at] + mark + DONE[at:] + " half\n</task-done>"


# --- what must hold -----------------------------------------------------------------------------------


def is_said_done(answer: str, prompt: str) -> tuple[bool, Sigils]:
    """Say whether the loop would take the task for done, gates aside."""
    sigils = parse_sigils(answer, prompt)
    return claims_done(TASK, AgentReply(text=answer, ending=SessionEnding.FINISHED), sigils), sigils


def look_at(answer: str, prompt: str) -> bool:
    """Say whether the answer means that the task is done, having made sure that it may."""
    is_done, sigils = is_said_done(answer, prompt)
    must(not is_done or may_be_done(answer, prompt), "false done", answer, prompt[-300:])
    can_be_stored([value for value in record_fields(sigils).values() if value is not None])
    for line in sigils.problems:
        is_sentence(line)
    strip_sigils(answer).encode()
    return is_done


def look_at_made(answer: str, prompt: str, ends_done: bool) -> None:
    """Look at an answer of which it is known what it says."""
    is_done = look_at(answer, prompt)
    must(is_done <= ends_done, "false done", answer)


WORDS = (
    *(f"<{name}>" for name in SIGIL_NAMES),
    *(f"</{name}>" for name in SIGIL_NAMES),
    *(
        DONE,
        DONE,
        "<task-done>",
        "</task-done>",
        TASK,
        "\n",
        "\n",
        "```\n",
        "\n```\n",
        "~~~\n",
        "`",
        "> ",
        "+",
        "- ",
        "1: ",
        "a.py:1:",
    ),
    *(
        "<verify-pass/>",
        "<hand-over/>",
        "MEMORY:fix:",
        " title='",
        '="',
        "<task-done",
        "< / task-done >",
        "&lt;",
        "\u200b",
        "\x00",
    ),
)


MANY: tuple[tuple[str, str, str], ...] = (
    *(
        ("", "<task-done>", ""),
        ("", "<task-done", ""),
        ("", f"{DONE}\n", ""),
        ("", f"`{DONE} ", ""),
        ("", "</task-done>", ""),
    ),
    *(("", "<journal>", ""), ("<journal>", f"{DONE}\n", "</journal>"), ("", "```\n", DONE), ("", f"> {DONE}\n", "")),
    *(
        ("<task-done ", "a='b' ", f">{TASK}</task-done>"),
        ("", "<", DONE),
        ("", "\x00<", DONE),
        ("", "MEMORY:fix:x\n", ""),
    ),
    *(("\x1e", f"{DONE}\n", ""), (f"{DONE}\x1e", "<task-done>", ""), ("<task-done>", " ", f"{TASK}</task-done>")),
)
"""What may be there very often."""


def split(text: str) -> tuple[str, str]:
    """Give the answer and the prompt that one text stands for."""
    answer, _, prompt = text.partition("\x1e")
    return answer, prompt


def any_answer(text: str) -> object:
    """Any text as an answer, and what follows a mark as its prompt."""
    answer, prompt = split(text)
    return look_at(answer, prompt)


def any_answers(seed: int) -> Inputs:
    """Give texts made of answers and prompts."""
    made = Answers(seed)
    examples = [f"{answer}\x1e{prompt[-300:]}" for answer, prompt, _ in (made.next() for _ in range(200))]
    return Inputs(seed, examples, WORDS)
