"""Read what an agent said from the transcript it keeps itself: Claude Code's, Codex's and Gemini's, one object a line.

Only the end of a long one is read, and a line that is broken or of another kind says nothing: a transcript belongs to
the agent, which may change it with any release.
"""

from __future__ import annotations

import json
import os

ENDING = ".jsonl"
LARGEST = 4 * 1024 * 1024
"""So many bytes at the end are read."""
_SAYERS = ("assistant", "gemini")
_TEXTS = ("text", "output_text")
"""What Claude Code and Codex call a part of a message that is text."""


def said_in(path: str, since: str = "") -> list[str]:
    """Give what the agent itself said since a moment, message by message: not its subagents, nor its tools.

    A session that was made of another one has what that one said in its transcript too, from before it began.
    """
    return [text for line in _lines(path) if (text := _text_in(line, since))]


def _lines(path: str) -> list[bytes]:
    if not path.endswith(ENDING):
        return []
    try:
        if not os.path.isfile(path):  # noqa: PTH113 -- to open a pipe waits for whoever writes into it
            return []
        with open(path, "rb") as file:  # noqa: PTH123
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LARGEST))
            return file.read(LARGEST).split(b"\n")
    except (OSError, ValueError):
        return []


def _text_in(line: bytes, since: str) -> str:
    if not any(f'"{sayer}"'.encode() in line for sayer in _SAYERS):
        return ""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(entry, dict) or entry.get("isSidechain"):
        return ""
    at = entry.get("timestamp")
    if since and isinstance(at, str) and at < since:
        return ""
    message = entry if entry.get("type") == "gemini" else entry.get("message", entry.get("payload"))
    if not isinstance(message, dict) or message.get("role", message.get("type")) not in _SAYERS:
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in _TEXTS)
    return "\n".join(text for text in texts if isinstance(text, str))
