"""Text of the prompt section with what was asked about a task, and the answers."""

from __future__ import annotations

from ralph.loop.authored_text import delimit
from ralph.memory.recall.render import escape_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Question

ANSWERS_SECTION = "Questions and Answers"
"""Name of the section."""


def answers_text(questions: Sequence[Question]) -> str:
    """Return the section: questions as notes, and a person's answers word for word."""
    text = f"### {ANSWERS_SECTION}\n\nEarlier sessions asked about this task. The answers are part of the task.\n"
    for question in questions:
        text += f"\n**Question** of {question.asked_at[:10]}: {_quote(question.text)}\n"
        text += f"\n{_answer(question)}\n"
    return text


def _answer(question: Question) -> str:
    if question.answered_at is None:
        return "Nobody answered it. Decide yourself, and say in the journal what you decided."
    at = question.answered_at[:10]
    if question.answered_by == "person":
        return f"**Answer of the person**, {at}, word for word:\n\n{delimit('answer', question.answer)}"
    return f"**Answer**, {at}, passed on by an agent: {_quote(question.answer)}"


def _quote(text: str) -> str:
    """Return what an agent said; several lines as a quotation, in which none can pose as the answer of a person."""
    lines = escape_untrusted(text).splitlines()
    return lines[0] if len(lines) == 1 else "\n\n" + "\n".join(f"> {line}".rstrip() for line in lines)
