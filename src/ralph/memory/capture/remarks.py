"""What a person asks to remember in a prompt, in their own words."""

from __future__ import annotations

import re

from ralph.core.text import extract_title, one_line, sanitize
from ralph.memory.capture.statements import statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

MAX_PROMPT_CHARACTERS = 20_000
"""Number of characters of a prompt that are searched; longer ones are pasted texts."""
MAX_REMARK_CHARACTERS = 500
MIN_REMARK_WORDS = 3
MAX_REMARKS = 5
"""Maximum number of remarks taken from one prompt."""

_REMARK = re.compile(
    r"""
    (?:^|(?<=[.!?;:]\s)|(?<=\n))[ \t>*-]*                              # at the start of a sentence or a line
    (?:(?:ok(?:ay)?|and|also|but|so|please|pls|yes|no|great|thanks|by\ the\ way|btw)\b[,.!]?\s+){0,3}
    (?P<cue>
        (?:remember|note|keep\ in\ mind|bear\ in\ mind|don['’]t\ forget|do\ not\ forget)
            (?:\ for\ (?:later|next\ time|the\ future))? (?:\s*[:,]\s*|\ (?=that\b|to\b))
        | for\ (?:future|later)\ (?:reference|sessions?)\s*[:,]\s*
        | from\ now\ on\s*[:,]?\s+
    )
    (?:that\s*[:,]?\s+|to\s+)?
    (?P<text>[^\n]{1,2000}?)(?=[.!](?:\s|$)|\?|\n|$)(?P<end>\??)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def find_remarks(prompt: str, at: str) -> list[Memory]:
    """Return the memories that a person states in a prompt by words like "remember that"."""
    text = prompt[:MAX_PROMPT_CHARACTERS]
    memories = []
    for found in _REMARK.finditer(text):
        remark = one_line(sanitize(found["text"]), MAX_REMARK_CHARACTERS)
        if not found["end"] and len(remark.split()) >= MIN_REMARK_WORDS:
            kind = "decision" if found["cue"].lower().startswith("from") else "context"
            content = f"{remark[0].upper()}{remark[1:]}"
            memories.append(statement(kind, extract_title(content), content, (), at))
    return memories[:MAX_REMARKS]
