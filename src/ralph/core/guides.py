"""Sections of guides and skills that are compiled from memories: markers, lines and sources.

A section is between `<!-- ralph:begin NAME -->` and `<!-- ralph:end -->`. It ends with a comment that names the memory
of each line and the line's fingerprint. What the section says follows from the file alone, so a line that somebody
edits or removes is no longer taken for what its memory says.
"""

# pathlib takes milliseconds to import, which hooks can save.
# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import os
from binascii import crc32

from ralph.core.agents import AGENTS
from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

GUIDES = ("AGENTS.md", "CLAUDE.md")
"""Files in which agents look for instructions, relative to the project."""
SKILL = "SKILL"
TARGETS = (*GUIDES, SKILL)
"""What memories can be compiled to; a skill is `.claude/skills/NAME/SKILL.md`."""
BEGIN, SOURCES, END = "<!-- ralph:begin ", "<!-- ralph:sources", "<!-- ralph:end -->"
COMMENT_END = "-->"
BULLET = "- "
MAX_READ_BYTES = 32 * 1024
"""Number of bytes that agents certainly read of a guide; Codex leaves out the rest by default."""


@record
class GuideSection:
    """A compiled section of a file."""

    name: str
    first: int
    """Index of the row with the begin marker."""
    last: int
    """Index of the row with the end marker."""
    sources: Mapping[str, str]
    """Fingerprint of its line by memory id."""
    stated: frozenset[str]
    """Fingerprints of the lines that are there."""


def fingerprint_line(line: str) -> str:
    """Return a short fingerprint of a line."""
    return f"{crc32(line.strip().encode('utf-8', 'surrogateescape')):08x}"


def find_sections(text: str) -> tuple[list[GuideSection], int | None]:
    """Return the sections of a text, and the row of a begin marker without an end, if there is one."""
    if BEGIN not in text:
        return [], None
    from ralph.core.markdown import blank_code_blocks

    rows, _ = blank_code_blocks(text.split("\n"))
    rows = [row.rstrip() for row in rows]
    sections: list[GuideSection] = []
    first: int | None = None
    for place, row in enumerate(rows):
        if row.startswith(BEGIN) and row.endswith(COMMENT_END):
            if first is not None:
                return sections, first
            first = place
        elif row == END and first is not None:
            sections.append(_section(rows, first, place))
            first = None
    return sections, first


def _section(rows: Sequence[str], first: int, last: int) -> GuideSection:
    sources: dict[str, str] = {}
    stated: set[str] = set()
    is_sources = False
    for row in rows[first + 1 : last]:
        if row == SOURCES:
            is_sources = True
        elif row == COMMENT_END:
            is_sources = False
        elif is_sources:
            id, _, mark = row.partition(" ")
            sources[id] = mark
        elif row.startswith(BULLET):
            stated.add(fingerprint_line(row))
    name = rows[first][len(BEGIN) : -len(COMMENT_END)].strip()
    return GuideSection(name=name, first=first, last=last, sources=sources, stated=frozenset(stated))


def guides_of(agent: str) -> tuple[str, ...]:
    """Return the guides that an agent reads at the start of every session."""
    return AGENTS[agent].guides if agent in AGENTS else ()


def stated_sources(directory: Path | str, guides: Sequence[str] = GUIDES) -> dict[str, str]:
    """Return what guides say: the fingerprint of the line, by memory id."""
    names = list(guides)
    found: dict[str, str] = {}
    for name in names:
        text = _read_start(os.path.join(directory, name))
        # Claude Code reads a file that is named like this on a line of its own.
        names += [other for other in GUIDES if other not in names and f"\n@{other}\n" in f"\n{text}\n"]
        for section in find_sections(text)[0]:
            found |= {id: mark for id, mark in section.sources.items() if mark in section.stated}
    return found


def _read_start(path: str) -> str:
    """Return what agents certainly read of a file; empty if it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return file.read(MAX_READ_BYTES).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    except OSError:
        return ""
