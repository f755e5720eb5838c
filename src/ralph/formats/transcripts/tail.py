"""Reader of what an agent said last, for hooks: in the JSON lines of Claude Code, Codex, Gemini and Copilot CLI.

Only the end of a long transcript is read, and unknown or invalid lines are ignored, because agents may change the
format with any release.
"""

from __future__ import annotations

import json
import os

TRANSCRIPT_SUFFIX = ".jsonl"
MAX_TRANSCRIPT_BYTES = 4 * 1024 * 1024
"""Number of bytes read from the end of a transcript."""
_COPILOT_MESSAGE = "assistant.message"
_AGENT_ROLES = ("assistant", "gemini", _COPILOT_MESSAGE)
"""Role or type of a message written by the agent."""
_TEXT_TYPES = ("text", "output_text")
"""Type of a text part of a message, in Claude Code and Codex."""


def read_agent_messages(path: str, since: str = "") -> list[str]:
    """Return the messages of the agent itself since a time, without those of subagents and tools.

    The transcript of a resumed session starts with the messages of the session it continues; `since` excludes them.
    """
    return [text for line in _last_lines(path) if (text := _agent_text(line, since))]


def _last_lines(path: str) -> list[bytes]:
    if not path.endswith(TRANSCRIPT_SUFFIX):
        return []
    try:
        if not os.path.isfile(path):  # noqa: PTH113 -- opening a pipe would block
            return []
        with open(path, "rb") as file:  # noqa: PTH123
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_TRANSCRIPT_BYTES))
            return file.read(MAX_TRANSCRIPT_BYTES).split(b"\n")
    except (OSError, ValueError):
        return []


def _agent_text(line: bytes, since: str) -> str:
    if not any(f'"{role}"'.encode() in line for role in _AGENT_ROLES):
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
    if entry.get("type") == _COPILOT_MESSAGE and isinstance(data := entry.get("data"), dict):
        message = {} if data.get("parentToolCallId") else {"role": _COPILOT_MESSAGE, "content": data.get("content")}
    if not isinstance(message, dict) or message.get("role", message.get("type")) not in _AGENT_ROLES:
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in _TEXT_TYPES)
    return "\n".join(text for text in texts if isinstance(text, str))
