"""Rendering of structured learnings in the sections of the published design.

Only learnings with structured content are rendered here; a convention stated in plain text is a memory like any other.
"""

from __future__ import annotations

from ralph.core.text import one_line
from ralph.memory.lifecycle.learnings import LEARNING_SECTIONS, structured_content
from ralph.memory.recall.render import escape_untrusted, staleness_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Memory

KNOWLEDGE_BASE_HEADING = "## Knowledge Base (from previous loops)"
MAX_SECTION_HEADING_LENGTH = len("## \n\n\n\n") + max(map(len, LEARNING_SECTIONS.values()))
"""Length of the longest section heading with its line breaks, in characters."""


def render_knowledge_base(memories: Iterable[Memory]) -> str:
    """Return the learnings of previous loops as prompt text, by kind; empty if there are none."""
    lines: dict[str, list[str]] = {kind: [] for kind in LEARNING_SECTIONS}
    for memory in memories:
        if memory.kind in lines:
            lines[memory.kind].append(render_learning(memory))
    sections = [f"## {LEARNING_SECTIONS[kind]}\n\n" + "\n".join(entries) for kind, entries in lines.items() if entries]
    return "\n\n".join([KNOWLEDGE_BASE_HEADING, *sections]) + "\n" if sections else ""


def render_learning(memory: Memory) -> str:
    """Return a structured learning as one line of its section."""
    return _line(memory) + staleness_note(memory)


def _line(memory: Memory) -> str:
    content = structured_content(memory)
    statement = content.get("pattern" if memory.kind == "convention" else "description")
    text = _one_line(statement if isinstance(statement, str) and statement.strip() else memory.body or memory.title)
    if memory.kind == "strategy":
        share = _number(content.get("effectiveness"), most=1)
        return f"- {text} (effectiveness: {share:.0%})" if share is not None else f"- {text}"
    if memory.kind == "antipattern":
        return f"- {text}" if text.lower().startswith("avoid") else f"- Avoid: {text}"
    if memory.kind == "estimate":
        return _estimate_line(memory, content) or f"- {text}"
    examples = content.get("examples")
    names = [_one_line(one, 120) for one in examples if isinstance(one, str)] if isinstance(examples, list) else []
    return f"- {text}\n  Examples: {', '.join(names[:5])}" if names else f"- {text}"


def _estimate_line(memory: Memory, content: dict[str, object]) -> str:
    iterations, milliseconds = _number(content.get("totalIterations")), _number(content.get("avgIterationTime"))
    if iterations is None or milliseconds is None:
        return ""
    subject = _one_line(f"{memory.task_type or 'general'} tasks", 60)
    complexity = content.get("complexity")
    if isinstance(complexity, str) and complexity:
        subject += f" of {_one_line(complexity, 20)} complexity"
    return f"- {subject}: ~{iterations:.0f} iterations, ~{milliseconds / 1000:.0f}s per iteration"


def _one_line(text: str, width: int = 300) -> str:
    return one_line(escape_untrusted(text), width)


def _number(value: object, most: float = 1e15) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return None
    return float(value)
