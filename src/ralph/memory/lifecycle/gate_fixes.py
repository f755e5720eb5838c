"""What a memory of a fixed gate says: the problem, and what fixed it. Pure."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

_PROBLEM = re.compile(r"\*\*Problem:\*\* (.+?) \([^()\n]*\)(?:\n|\Z)")


def describe_fix(problem: str, program: str, fix: str) -> str:
    """Return the text of a memory of a fixed gate."""
    return f"**Problem:** {problem} ({program})\n\n**Fix:** {fix}"


def fix_text(memory: Memory) -> str:
    """Return what fixed a gate according to a memory; empty if it is about none."""
    return memory.content.partition("\n\n**Fix:** ")[2] if _PROBLEM.match(memory.content) else ""


def tells_fix(fix: Memory, sentence: Memory) -> bool:
    """Return whether what fixed a gate, according to a memory, has the sentence that another one holds."""
    return bool(sentence.content) and sentence.content in fix_text(fix)


def fixed_error(memory: Memory) -> str:
    """Return the error that a memory says how to fix, without what differs from time to time; empty if it says none."""
    found = _PROBLEM.match(memory.content)
    if not found:
        return ""
    from ralph.memory.lifecycle.error_category import normalized_error, without_location

    return normalized_error(without_location(found[1]), with_names=True)
