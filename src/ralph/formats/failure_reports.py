"""Parser for the fields of a `<failure-report>`, however the agent lays them out."""

from __future__ import annotations

import json
import re

_REPORT_KEYS = {
    alias: key
    for key, aliases in {
        "what_tried": "what_tried what_was_tried what_i_tried tried",
        "why_failed": "why_failed why_it_failed why_this_failed why",
        "error_category": "error_category category",
        "relevant_files": "relevant_files relevant_file files",
        "stack_trace": "stack_trace stack_trace_snippet stacktrace trace",
    }.items()
    for alias in aliases.split()
}
_REPORT_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z_-]{1,30}+)>")
_REPORT_LINE = re.compile(
    r"(\s*+)(?>(?:(?:[-*+•]|\d{1,2}+[.)]|\#{1,6}+)\s++)?)[*_`\"']{0,3}+"
    r"([A-Za-z][A-Za-z_-]*+(?>(?:\ [A-Za-z]++){0,3}))[*_`\"']{0,3}+\s{0,3}+:(?=\s|[*_`]|\Z)[*_`]{0,2}+(.*)"
)
_UNKNOWN_KEY = re.compile(r"[a-z][a-z0-9]*+(?:[_-][a-z0-9]++)*+")
_BLOCK_SCALARS = ("|", ">", "|-", ">-", "|+", ">+")


def parse_report_fields(body: str) -> dict[str, str]:
    """Return the text of each known key; lines without a key belong to the one above. Prose is why it failed."""
    fields = _parse_json(body) or _parse_lines(body)
    return fields or ({"why_failed": body.strip()} if len(body.split()) > 1 else {})


def _parse_json(body: str) -> dict[str, str]:
    """Return the known keys of a JSON object, or an empty dict."""
    text = body.strip().removeprefix("```json").strip("`").strip()
    if not text.startswith("{"):
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    named = {_REPORT_KEYS.get(_normalize_key(name), ""): value for name, value in values.items()}
    return {
        name: "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in named.items()
        if name and value
    }


def _parse_lines(body: str) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    key: str | None = None
    for line in _REPORT_TAG.sub(_tag_to_line, body).split("\n"):
        found = _REPORT_LINE.fullmatch(line)
        name = _normalize_key(found[2]) if found else ""
        if found and name in _REPORT_KEYS:
            key = _REPORT_KEYS[name]
            texts.setdefault(key, []).append(_unquoted(found[3].strip()))
        elif found and key != "stack_trace" and not found[1] and _UNKNOWN_KEY.fullmatch(found[2]):
            key = None
        elif key:
            texts[key].append(line.rstrip() if key == "stack_trace" else line.strip())
    return {name: "\n".join(lines).strip("\n").rstrip() for name, lines in texts.items()}


def _tag_to_line(tag: re.Match[str]) -> str:
    """Turn `<what_tried>` into `what_tried:` on a new line, its end tag into a line break."""
    name = _normalize_key(tag[2])
    if name not in _REPORT_KEYS:
        return tag[0]
    return "\n" if tag[1] else f"\n{name}: "


def _normalize_key(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_").strip("_")


def _unquoted(value: str) -> str:
    if value in _BLOCK_SCALARS:
        return ""
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
        return value[1:-1]
    return value
