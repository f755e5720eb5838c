"""Structured learnings: description in words, comparison and merging.

The content of a learning is a JSON object that other programs may have written. Unknown fields are kept, and a field of
the wrong type counts as missing; nothing here raises because of what the content says.
"""

from __future__ import annotations

import json

from ralph.core.limits import MAX_TITLE_LENGTH
from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.text import extract_title, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.core.records import Memory

    Content = Mapping[str, object]

LEARNING_SECTIONS = {
    one.name: one.learnings_section[1]
    for one in sorted(MEMORY_TYPES.values(), key=lambda one: one.learnings_section or (0, ""))
    if one.learnings_section
}
"""Sections of the knowledge base from previous loops, by memory type."""
LEARNING_KINDS = tuple(LEARNING_SECTIONS)
"""Memory kinds with structured content."""
GENERAL_TASK_TYPE = "general"
"""Task type of learnings that apply to all tasks."""
IMPACTS = ("low", "medium", "high")
MAX_EXAMPLES = 10
"""Maximum number of example files in a convention."""
MAX_NUMBER = 1e15
"""Number above which a value counts as missing."""


# --- description ---------------------------------------------------------------


def describe_learning(kind: str, task_type: str | None, content: Content) -> tuple[str, str]:
    """Return a title and a body that describe the content."""
    if plain_text := plain_text_of(kind, content):
        return plain_text
    if kind == "estimate":
        return _describe_estimate(task_type, content)
    statement = _statement(kind, content)
    if not statement:
        title = f"{kind.capitalize()} for {task_type or GENERAL_TASK_TYPE} tasks"
        return title, _list_values(content) or title
    plain = " ".join(statement.split())
    is_short = len(plain) <= MAX_TITLE_LENGTH
    suffix = _format_examples(content) if kind == "convention" else _format_evidence(content)
    details = _text(content, "details")
    # The body starts with the title, so that callers showing both can omit one.
    first_sentence = _end_sentence(plain if is_short else statement, bool(suffix or details))
    body = " ".join(filter(None, ["" if details.startswith(plain) else first_sentence, details, suffix]))
    return plain if is_short else extract_title(statement), body


def _describe_estimate(task_type: str | None, content: Content) -> tuple[str, str]:
    complexity = _text(content, "complexity")
    title = f"Estimate for {task_type or GENERAL_TASK_TYPE} tasks" + (f" ({complexity})" if complexity else "")
    iterations, milliseconds = number_field(content, "totalIterations"), number_field(content, "avgIterationTime")
    duration = "" if milliseconds is None else format_seconds(milliseconds / 1000)
    parts = []
    if iterations is not None:
        per_iteration = f" of {duration}{'' if iterations == 1 else ' each'}" if duration else ""
        parts.append(f"About {_format_count(iterations, 'iteration')}{per_iteration}")
    elif duration:
        parts.append(f"About {duration} per iteration")
    if success := _format_percent(content, "successRate"):
        parts.append(f"{success} succeed")
    return title, _join_clauses(parts) or _list_values(content) or title


def _format_evidence(content: Content) -> str:
    """Return the evidence for a strategy or an antipattern."""
    iterations, occurrences = number_field(content, "iterations"), number_field(content, "occurrences")
    over = "" if iterations is None else f"over {_format_count(iterations, 'iteration')}"
    effective = _format_percent(content, "effectiveness")
    tasks = number_field(content, "tasks")
    within = "" if tasks is None else f"in {_format_count(tasks, 'task')}"
    parts = [" ".join(filter(None, [f"{effective} effective" if effective else "", over, over and within]))]
    if occurrences is not None:
        parts.append(" ".join(filter(None, [f"seen {_format_count(occurrences, 'time')}", within])))
    if impact := _text(content, "impact"):
        parts.append(f"impact {impact}")
    return _join_clauses(parts)


def _format_examples(content: Content) -> str:
    """Return how many files follow a convention, and some of them."""
    examples = text_list(content, "examples")[:MAX_EXAMPLES]
    witnesses = number_field(content, "witnesses")
    counted = f"{_format_count(witnesses, 'file')}, no exception. " if witnesses is not None else ""
    return f"{counted}Examples: {', '.join(examples)}" if examples else counted.strip()


def _join_clauses(parts: list[str]) -> str:
    line = "; ".join(filter(None, parts))
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _end_sentence(text: str, more_follows: bool) -> str:
    return f"{text}." if more_follows and text[-1] not in ".!?:;,…" else text


def _list_values(content: Content) -> str:
    """Return the plain values of a content with unknown fields, by name."""
    values = (f"{name}: {text}" for name, value in content.items() if (text := _format_value(value)))
    return truncate("; ".join(values), 1000)


def _format_value(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) <= MAX_NUMBER else ""
    return value.strip() if isinstance(value, str) else ""


def _format_count(count: float, noun: str) -> str:
    return f"{count:.1f}".removesuffix(".0") + f" {noun}{'' if count == 1 else 's'}"


def _format_percent(content: Content, name: str) -> str:
    share = number_field(content, name)
    return f"{share:.0%}" if share is not None and share <= 1 else ""


def format_seconds(seconds: float) -> str:
    """Return a duration as text, such as "42 s" or "6 min"."""
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def structured_content(memory: Memory) -> dict[str, object]:
    """Return the content of a learning; for a plain-text learning, build one that says the same."""
    if content := parse_content(memory.structured_content):
        return content
    details = "" if memory.content == memory.title else memory.content
    return {_statement_field(memory.kind): memory.title, **({"details": details} if details else {})}


def plain_text_of(kind: str, content: Content) -> tuple[str, str] | None:
    """Return the title and body of a learning whose content has nothing else; None for any other."""
    if not content.keys() <= {_statement_field(kind), "details"}:
        return None
    title, details = content.get(_statement_field(kind)), content.get("details", "")
    if not isinstance(title, str) or not isinstance(details, str) or not title or len(title) > MAX_TITLE_LENGTH:
        return None
    # Only texts that survive a round trip unchanged.
    if title.split("\n") != [title.strip()] or details != details.strip() or details == title:
        return None
    return title, details or title


def _statement_field(kind: str) -> str:
    return "pattern" if kind == "convention" else "description"


# --- comparison and merging ------------------------------------------------------


def learning_identity(kind: str, task_type: str | None, content: str) -> str:
    """Return the text two learnings must have in common to be the same: kind, task type and statement."""
    fields = parse_content(content)
    statement = _statement(kind, fields) if fields is not None else ""
    return "\n".join(
        " ".join(part.casefold().split()) for part in (kind, task_type or GENERAL_TASK_TYPE, statement or content)
    )


def merge_content(kind: str, old: str, new: str, old_support: int) -> str:
    """Return the merged content of two equal learnings; the old one has been learned `old_support` times."""
    old_fields, new_fields = parse_content(old), parse_content(new)
    if old_fields is None or new_fields is None:
        known = old_fields if new_fields is None else new_fields
        return _to_json(known or {})
    merged: dict[str, object] = {}
    if kind == "strategy":
        merged = _merge_strategies(old_fields, new_fields)
    elif kind == "antipattern":
        merged = _merge_antipatterns(old_fields, new_fields)
    elif kind == "estimate":
        merged = _merge_estimates(old_fields, new_fields, max(1, old_support))
    elif kind == "convention":
        merged = _merge_conventions(old_fields, new_fields)
    return _to_json(
        {**old_fields, **new_fields, **{name: value for name, value in merged.items() if value is not None}}
    )


def _merge_strategies(old: Content, new: Content) -> dict[str, object]:
    before, after = number_field(old, "iterations"), number_field(new, "iterations")
    return {
        "effectiveness": _weighted_mean(old, new, "effectiveness", before, after),
        "iterations": _sum(before, after),
        **_merge_support(old, new),
    }


def _merge_support(old: Content, new: Content) -> dict[str, object]:
    """Return the sums of the figures that tell how well a learning is supported, if either of the two has them."""
    names = [name for name in ("uses", "tasks", "turned") if {name} & (old.keys() | new.keys())]
    # A learning of an older version has no uses, but those that succeeded.
    return {name: _sum(_support(old, name), _support(new, name)) for name in names}


def _support(content: Content, name: str) -> float | None:
    return number_field(content, "iterations" if name == "uses" and name not in content else name)


def _merge_antipatterns(old: Content, new: Content) -> dict[str, object]:
    impacts = [impact for one in (old, new) if (impact := _text(one, "impact").lower()) in IMPACTS]
    return {
        "occurrences": _sum(number_field(old, "occurrences"), number_field(new, "occurrences")),
        "impact": max(impacts, key=IMPACTS.index, default=None),
        **_merge_support(old, new),
    }


def _merge_estimates(old: Content, new: Content, support: int) -> dict[str, object]:
    before, after = number_field(old, "totalIterations"), number_field(new, "totalIterations")
    # The old estimate is weighted by all loops it was learned from, the new one by its own.
    weight = None if before is None else before * support
    return {
        "avgIterationTime": _weighted_mean(old, new, "avgIterationTime", weight, after),
        "totalIterations": _weighted_mean(old, new, "totalIterations", support, 1),
        "successRate": _weighted_mean(old, new, "successRate", weight, after),
    }


def _merge_conventions(old: Content, new: Content) -> dict[str, object]:
    examples = dict.fromkeys(text_list(old, "examples") + text_list(new, "examples"))
    counts = [count for one in (old, new) if (count := number_field(one, "witnesses")) is not None]
    witnesses = max(*counts, len(examples)) if counts else None
    return {"examples": list(examples)[:MAX_EXAMPLES] or None, "witnesses": _as_int(witnesses)}


def _weighted_mean(old: Content, new: Content, name: str, old_weight: float | None, new_weight: float | None) -> object:
    """Return the weighted mean, or the only value there is; without weights both count the same."""
    before, after = number_field(old, name), number_field(new, name)
    if before is None or after is None:
        return _as_int(after if before is None else before)
    if old_weight is None or new_weight is None or not old_weight + new_weight:
        old_weight = new_weight = 1
    return _as_int((before * old_weight + after * new_weight) / (old_weight + new_weight))


def _sum(before: float | None, after: float | None) -> object:
    return None if before is None and after is None else _as_int((before or 0) + (after or 0))


def _as_int(number: float | None) -> float | None:
    return int(number) if number is not None and number == int(number) else number


# --- content fields --------------------------------------------------------------


def _statement(kind: str, content: Content) -> str:
    """Return the field that says what the learning is about, which depends on the kind."""
    names = {"estimate": ("complexity",), "convention": ("pattern", "description")}.get(
        kind, ("description", "pattern")
    )
    return next(filter(None, (_text(content, name) for name in names)), "")


def parse_content(text: str) -> dict[str, object] | None:
    """Return the fields of a content, or None if it is not a JSON object."""
    try:
        value = json.loads(text, parse_constant=lambda word: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _to_json(content: Content) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _text(content: Content, name: str) -> str:
    value = content.get(name)
    return value.strip() if isinstance(value, str) else ""


def text_list(content: Content, name: str) -> list[str]:
    """Return the texts in a field that is a list."""
    value = content.get(name)
    return [text.strip() for text in value if isinstance(text, str) and text.strip()] if isinstance(value, list) else []


def number_field(content: Content, name: str) -> float | None:
    """Return a field that is a number of a plausible size, or None."""
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER:
        return None
    return value
