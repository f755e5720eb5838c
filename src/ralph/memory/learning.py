"""Structured learnings: in words, compared, and put together when they are equal.

The content of a learning is a JSON object that others may have written. Fields we
do not know stay in it, and a field of the wrong shape counts as missing; nothing
here raises over what the content says.
"""

from __future__ import annotations

import json

from ralph.memory.limits import LONGEST_TITLE
from ralph.text import cut, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.records import Memory

    Content = Mapping[str, object]

LEARNING_KINDS = ("strategy", "antipattern", "estimate", "convention")
"""The kinds that have structured content."""
GENERAL = "general"
"""The task type of what holds for all tasks."""
IMPACTS = ("low", "medium", "high")
MOST_EXAMPLES = 10
LARGEST_NUMBER = 1e15


# --- in words ------------------------------------------------------------------


def described(kind: str, task_type: str | None, content: Content) -> tuple[str, str]:
    """Give a title and a body that say what the content does."""
    if words := in_plain_words(kind, content):
        return words
    if kind == "estimate":
        return _estimate(task_type, content)
    said = _said(kind, content)
    if not said:
        title = f"{kind.capitalize()} for {task_type or GENERAL} tasks"
        return title, _spelled_out(content) or title
    plain = " ".join(said.split())
    is_short = len(plain) <= LONGEST_TITLE
    added = _convention(content) if kind == "convention" else _evidence(content)
    details = _text(content, "details")
    # The body begins with the title, so that whoever shows both can say it once.
    start = _sentence(plain if is_short else said, bool(added or details))
    body = " ".join(filter(None, ["" if details.startswith(plain) else start, details, added]))
    return plain if is_short else title_of(said), body


def _estimate(task_type: str | None, content: Content) -> tuple[str, str]:
    complexity = _text(content, "complexity")
    title = f"Estimate for {task_type or GENERAL} tasks" + (f" ({complexity})" if complexity else "")
    iterations, milliseconds = _number(content, "totalIterations"), _number(content, "avgIterationTime")
    each = "" if milliseconds is None else _span(milliseconds / 1000)
    parts = []
    if iterations is not None:
        of_each = f" of {each}{'' if iterations == 1 else ' each'}" if each else ""
        parts.append(f"About {_counted(iterations, 'iteration')}{of_each}")
    elif each:
        parts.append(f"About {each} for each iteration")
    if success := _percent(content, "successRate"):
        parts.append(f"{success} succeed")
    return title, _joined(parts) or _spelled_out(content) or title


def _evidence(content: Content) -> str:
    """Give what speaks for a strategy or against an antipattern."""
    iterations, occurrences = _number(content, "iterations"), _number(content, "occurrences")
    over = "" if iterations is None else f"over {_counted(iterations, 'iteration')}"
    effective = _percent(content, "effectiveness")
    parts = [" ".join(filter(None, [f"{effective} effective" if effective else "", over]))]
    if occurrences is not None:
        parts.append(f"seen {_counted(occurrences, 'time')}")
    if impact := _text(content, "impact"):
        parts.append(f"impact {impact}")
    return _joined(parts)


def _convention(content: Content) -> str:
    examples = _texts(content, "examples")[:MOST_EXAMPLES]
    return f"Examples: {', '.join(examples)}" if examples else ""


def _joined(parts: list[str]) -> str:
    line = "; ".join(filter(None, parts))
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _sentence(text: str, more_follows: bool) -> str:
    return f"{text}." if more_follows and text[-1] not in ".!?:;,…" else text


def _spelled_out(content: Content) -> str:
    """Give the plain values of a content whose fields we do not know, by name."""
    values = (f"{name}: {text}" for name, value in content.items() if (text := _plain(value)))
    return cut("; ".join(values), 1000)


def _plain(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) <= LARGEST_NUMBER else ""
    return value.strip() if isinstance(value, str) else ""


def _counted(count: float, noun: str) -> str:
    return f"{count:.1f}".removesuffix(".0") + f" {noun}{'' if count == 1 else 's'}"


def _percent(content: Content, name: str) -> str:
    share = _number(content, name)
    return f"{share * 100:.0f} %" if share is not None and share <= 1 else ""


def _span(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def content_of(memory: Memory) -> dict[str, object]:
    """Give the content of a learning; one that came in plain words gets a content that says the same."""
    if content := _object(memory.content):
        return content
    details = "" if memory.body == memory.title else memory.body
    return {_headline(memory.kind): memory.title, **({"details": details} if details else {})}


def in_plain_words(kind: str, content: Content) -> tuple[str, str] | None:
    """Give the title and the body of a learning whose content says no more than they do; None for any other."""
    if not content.keys() <= {_headline(kind), "details"}:
        return None
    title, details = content.get(_headline(kind)), content.get("details", "")
    if not isinstance(title, str) or not isinstance(details, str) or not title or len(title) > LONGEST_TITLE:
        return None
    # Only what comes back to the letter when it is written again.
    if title.split("\n") != [title.strip()] or details != details.strip() or details == title:
        return None
    return title, details or title


def _headline(kind: str) -> str:
    return "pattern" if kind == "convention" else "description"


# --- compared and put together ---------------------------------------------------


def identity(kind: str, task_type: str | None, content: str) -> str:
    """Give what two learnings must have in common to be one: kind, task type and what they say."""
    fields = _object(content)
    said = _said(kind, fields) if fields is not None else ""
    return "\n".join(" ".join(part.casefold().split()) for part in (kind, task_type or GENERAL, said or content))


def merged_content(kind: str, old: str, new: str, old_support: int) -> str:
    """Give the content of two equal learnings put together; the old one was learned `old_support` times."""
    ours, theirs = _object(old), _object(new)
    if ours is None or theirs is None:
        known = ours if theirs is None else theirs
        return _compact(known or {})
    settled: dict[str, object] = {}
    if kind == "strategy":
        settled = _strategies(ours, theirs)
    elif kind == "antipattern":
        settled = _antipatterns(ours, theirs)
    elif kind == "estimate":
        settled = _estimates(ours, theirs, max(1, old_support))
    elif kind == "convention":
        settled = _conventions(ours, theirs)
    return _compact({**ours, **theirs, **{name: value for name, value in settled.items() if value is not None}})


def _strategies(old: Content, new: Content) -> dict[str, object]:
    before, after = _number(old, "iterations"), _number(new, "iterations")
    return {
        "effectiveness": _average(old, new, "effectiveness", before, after),
        "iterations": _sum(before, after),
    }


def _antipatterns(old: Content, new: Content) -> dict[str, object]:
    impacts = [impact for one in (old, new) if (impact := _text(one, "impact").lower()) in IMPACTS]
    return {
        "occurrences": _sum(_number(old, "occurrences"), _number(new, "occurrences")),
        "impact": max(impacts, key=IMPACTS.index, default=None),
    }


def _estimates(old: Content, new: Content, support: int) -> dict[str, object]:
    before, after = _number(old, "totalIterations"), _number(new, "totalIterations")
    # The old one stands for all the loops it was learned from, the new one for its own.
    weight = None if before is None else before * support
    return {
        "avgIterationTime": _average(old, new, "avgIterationTime", weight, after),
        "totalIterations": _average(old, new, "totalIterations", support, 1),
        "successRate": _average(old, new, "successRate", weight, after),
    }


def _conventions(old: Content, new: Content) -> dict[str, object]:
    examples = dict.fromkeys(_texts(old, "examples") + _texts(new, "examples"))
    return {"examples": list(examples)[:MOST_EXAMPLES] or None}


def _average(old: Content, new: Content, name: str, old_weight: float | None, new_weight: float | None) -> object:
    """Give the weighted mean, or the one value there is; without weights both count the same."""
    before, after = _number(old, name), _number(new, name)
    if before is None or after is None:
        return _tidy(after if before is None else before)
    if old_weight is None or new_weight is None or not old_weight + new_weight:
        old_weight = new_weight = 1
    return _tidy((before * old_weight + after * new_weight) / (old_weight + new_weight))


def _sum(before: float | None, after: float | None) -> object:
    return None if before is None and after is None else _tidy((before or 0) + (after or 0))


def _tidy(number: float | None) -> float | None:
    return int(number) if number is not None and number == int(number) else number


# --- what a content holds --------------------------------------------------------


def _said(kind: str, content: Content) -> str:
    """Give what the learning is about; another field says so for each kind, and an estimate is for a complexity."""
    names = {"estimate": ("complexity",), "convention": ("pattern", "description")}.get(
        kind, ("description", "pattern")
    )
    return next(filter(None, (_text(content, name) for name in names)), "")


def _object(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text, parse_constant=lambda word: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _compact(content: Content) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _text(content: Content, name: str) -> str:
    value = content.get(name)
    return value.strip() if isinstance(value, str) else ""


def _texts(content: Content, name: str) -> list[str]:
    value = content.get(name)
    return [text.strip() for text in value if isinstance(text, str) and text.strip()] if isinstance(value, list) else []


def _number(content: Content, name: str) -> float | None:
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_NUMBER:
        return None
    return value
