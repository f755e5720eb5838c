"""Recall query: weighted words of a task and the files it mentions."""

from __future__ import annotations

import re

from ralph.core.records import record
from ralph.core.tokenize import path_words, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE, BODY, ERRORS, FILES, HINT = 3.0, 1.0, 2.0, 2.0, 0.5
"""Weight of a word by the part of the context it comes from."""
NAME = 2.0
"""Additional weight of a word in path search if it is part of an identifier."""
BODY_IN_PATHS = 0.5
"""Weight of a word of the body in path search."""
MOST_WORDS = 300
"""Maximum number of words in a query."""
LONGEST = 16_000
"""Number of characters read of each part; longer parts keep their start and end."""
MOST_FILES = 50
"""Maximum number of files read from the context."""
MOST_MENTIONS = 200
"""Maximum number of paths and dotted names in a query."""
MOST_SEGMENTS = 6
"""Maximum number of trailing segments kept of a path or dotted name."""

_NAME = re.compile(r"(?<!\w)(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)")
_MENTION = re.compile(r"(?<![\w-])(?:[\w-]+[/\\.])+[\w-]+")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,4}$")


@record
class Context:
    """Situation to recall memories for."""

    title: str = ""
    body: str = ""
    files: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    """Files changed shortly before; they only count as a hint."""
    errors: tuple[str, ...] = ()
    """Recent error messages and stack traces."""
    hat: str | None = None
    feature: str | None = None
    task_type: str | None = None
    session: str | None = None
    """Session whose own memories are left out."""
    failure: str | None = None
    """Fingerprint of the last failure."""
    shown: frozenset[str] = frozenset()
    """Ids of memories shown before."""
    at: str = ""
    """Timestamp treated as now; empty for the current time."""


@record
class Question:
    """Weighted query words, weighted path words, and mentioned files."""

    words: dict[str, float]
    title: frozenset[str]
    paths: dict[str, float]
    hints: frozenset[str]
    """Words that only occur around the task; they do not count as evidence."""
    mentions: frozenset[tuple[str, ...]]
    """Paths and dotted names as lower-case segments, without file extension."""


def question(context: Context) -> Question:
    """Return the query for a context."""
    title, body = bounded(context.title), bounded(context.body)
    errors = bounded("\n".join(context.errors))
    weights: dict[str, float] = {}
    paths: dict[str, float] = {}
    in_title = frozenset(words(title))
    files = context.files[:MOST_FILES]
    in_files = [word for path in files for word in path_words(path)]
    _add_weight(weights, in_title, TITLE)
    _add_weight(weights, in_files, FILES)
    in_errors, in_body = words(errors), words(body)
    _add_weight(weights, in_errors, ERRORS)
    _add_weight(weights, in_body, BODY)
    hints = {
        *words(context.feature or ""),
        *(word for path in context.recent[:MOST_FILES] for word in path_words(path)),
    }
    hints.difference_update(weights)
    _add_weight(weights, hints, HINT)
    _add_weight(paths, in_title, TITLE)
    _add_weight(paths, in_files, FILES)
    _add_weight(paths, in_errors, ERRORS)
    _add_weight(paths, in_body, BODY_IN_PATHS)
    _add_weight(paths, words(" ".join(_NAME.findall(f"{title}\n{body}"))), NAME)
    heaviest = sorted(weights, key=lambda word: -weights[word])[:MOST_WORDS]
    return Question(
        words={word: weights[word] for word in heaviest},
        title=in_title,
        paths=paths,
        hints=frozenset(hints),
        mentions=_mentions(f"{title}\n{body}\n{errors}", files),
    )


def bounded(text: str) -> str:
    """Return a text limited to `LONGEST` characters, keeping its start and end."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"


def parts_of(path: str) -> tuple[str, ...]:
    """Return the segments of a path in lower case, without file extension."""
    return tuple(part for part in re.split(r"[/\\]", _EXTENSION.sub("", path).lower()) if part)


def _add_weight(weights: dict[str, float], words: Iterable[str], weight: float) -> None:
    for word in dict.fromkeys(words):
        weights[word] = weights.get(word, 0.0) + weight


def _mentions(text: str, files: Iterable[str]) -> frozenset[tuple[str, ...]]:
    mentions = {parts_of(path)[-MOST_SEGMENTS:] for path in files}
    for mention in dict.fromkeys(_MENTION.findall(text)):
        if len(mentions) >= MOST_MENTIONS:
            break
        bare = _EXTENSION.sub("", mention) if "/" in mention or "\\" in mention else mention
        mentions.add(tuple(part for part in re.split(r"[/\\.]", bare.lower()) if part)[-MOST_SEGMENTS:])
    return frozenset(mentions - {()})
