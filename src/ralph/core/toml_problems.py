"""What is wrong with a settings file, in words that help to correct it."""

from __future__ import annotations

import re

from ralph.core.text import clean, one_line

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")


def describe_toml_problem(name: str, text: str, error: ValueError) -> str:
    """Return why a TOML file cannot be read, and what to do about it."""
    what = _repeated_header(text) or f"{one_line(clean(str(error)))}. Correct it."
    return f"Cannot read {name}: {what}"


def _repeated_header(text: str) -> str:
    """Return that a section is there twice, with both lines, or an empty string."""
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (header := _HEADER.fullmatch(line)):
            continue
        section = one_line(clean(header[1].strip()), 80)
        if first := seen.get(section):
            return f"[{section}] is there twice, in lines {first} and {number}. Put its settings under one of them."
        seen[section] = number
    return ""
