"""Recall query: weighted words of a task and the files it mentions."""

from __future__ import annotations

import re

from ralph.core.records import record
from ralph.core.tokenize import compound_names, tokenize, tokenize_path
from ralph.memory.recall.common_words import COMMON_STEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE_WEIGHT, BODY_WEIGHT, ERRORS_WEIGHT, FILES_WEIGHT, HINT_WEIGHT = 3.0, 1.0, 2.0, 2.0, 0.5
"""Weight of a word by the part of the context it comes from."""
IDENTIFIER_WEIGHT = 2.0
"""Additional weight of a word in path search if it is part of an identifier."""
BODY_PATH_WEIGHT = 0.5
"""Weight of a word of the body in path search."""
MAX_QUERY_WORDS = 300
"""Maximum number of words in a query."""
MAX_PART_LENGTH = 16_000
"""Number of characters read of each part; longer parts keep their start and end."""
MAX_FILES = 50
"""Maximum number of files read from the context."""
MAX_MENTIONS = 200
"""Maximum number of paths and dotted names in a query."""
MAX_SEGMENTS = 6
"""Maximum number of trailing segments kept of a path or dotted name."""

_NAME = re.compile(r"(?<!\w)(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)")
_PART = r"(?:[\w-]+|\[[\w-]+\]|\([\w-]+\))"
_MENTION = re.compile(rf"(?<![\w-])(?:{_PART}[/\\.])+{_PART}")
_PATH = re.compile(r"(?<![\w./-])[\w-]+(?:/[\w.-]+)+")
_DATE = re.compile(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)|\b(?:19|20)\d\d-")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,4}$")


@record
class RecallContext:
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
    guided: frozenset[str] = frozenset()
    """Ids of memories that the guide of the agent says."""
    at: str = ""
    """Timestamp treated as now; empty for the current time."""


@record
class RecallQuery:
    """Weighted query words, weighted path words, and mentioned files."""

    words: dict[str, float]
    title: frozenset[str]
    paths: dict[str, float]
    hints: frozenset[str]
    """Words that only occur around the task, and those of an error that any error has; they are no evidence."""
    identifiers: frozenset[str]
    """Identifiers of several words that the task names, as a whole."""
    mentions: frozenset[tuple[str, ...]]
    """Paths and dotted names as lower-case segments, without file extension."""
    periods: tuple[tuple[float, float], ...] = ()
    """Days and months that the title names, each by its first day and the one after its last."""


def build_query(context: RecallContext) -> RecallQuery:
    """Return the query for a context."""
    title, body = truncate_middle(context.title), truncate_middle(context.body)
    errors = truncate_middle("\n".join(context.errors))
    weights: dict[str, float] = {}
    paths: dict[str, float] = {}
    in_title = frozenset(tokenize(title))
    files = context.files[:MAX_FILES]
    in_files = [word for path in files for word in tokenize_path(path)]
    _add_weight(weights, in_title, TITLE_WEIGHT)
    _add_weight(weights, in_files, FILES_WEIGHT)
    in_errors, in_body = tokenize(errors), tokenize(body)
    _add_weight(weights, in_errors, ERRORS_WEIGHT)
    _add_weight(weights, in_body, BODY_WEIGHT)
    hints = {
        *tokenize(context.feature or ""),
        *(word for path in context.recent[:MAX_FILES] for word in tokenize_path(path)),
    }
    hints.difference_update(weights)
    _add_weight(weights, hints, HINT_WEIGHT)
    # The folder at the top of a path is the same for most of a project: it says where, not what.
    hints.update(_top_folders(f"{title}\n{body}"))
    # What every test runner prints tells nothing, however much of it a memory quotes.
    hints.update(COMMON_STEMS.intersection(in_errors).difference(in_title, in_body, in_files))
    _add_weight(paths, in_title, TITLE_WEIGHT)
    _add_weight(paths, in_files, FILES_WEIGHT)
    _add_weight(paths, in_errors, ERRORS_WEIGHT)
    _add_weight(paths, in_body, BODY_PATH_WEIGHT)
    _add_weight(paths, tokenize(" ".join(_NAME.findall(f"{title}\n{body}"))), IDENTIFIER_WEIGHT)
    heaviest = sorted(weights, key=lambda word: -weights[word])[:MAX_QUERY_WORDS]
    return RecallQuery(
        words={word: weights[word] for word in heaviest},
        title=in_title,
        paths=paths,
        hints=frozenset(hints),
        identifiers=frozenset(compound_names(f"{title}\n{body}")),
        mentions=_mentions(f"{title}\n{body}\n{errors}", files),
        periods=_periods(title, context.at),
    )


def _periods(title: str, at: str) -> tuple[tuple[float, float], ...]:
    """Return the dates that a title names; those in a text are mostly the times of a log."""
    if not at or not _DATE.search(title):
        return ()
    from ralph.memory.recall.dates import named_periods

    return named_periods(title, at)


def _top_folders(text: str) -> set[str]:
    """Return the words that occur in a text only as the first folder of paths."""
    folders = {word for path in _PATH.findall(text) for word in tokenize(path.partition("/")[0])}
    return folders.difference(tokenize(_PATH.sub(" ", text))) if folders else folders


def truncate_middle(text: str) -> str:
    """Return a text limited to `MAX_PART_LENGTH` characters, keeping its start and end."""
    if len(text) <= MAX_PART_LENGTH:
        return text
    return f"{text[: MAX_PART_LENGTH // 2]}\n{text[-MAX_PART_LENGTH // 2 :]}"


def path_segments(path: str) -> tuple[str, ...]:
    """Return the segments of a path in lower case, without file extension."""
    return tuple(part for part in re.split(r"[/\\]", _EXTENSION.sub("", path).lower()) if part)


def _add_weight(weights: dict[str, float], words: Iterable[str], weight: float) -> None:
    for word in dict.fromkeys(words):
        weights[word] = weights.get(word, 0.0) + weight


def _mentions(text: str, files: Iterable[str]) -> frozenset[tuple[str, ...]]:
    mentions = {path_segments(path)[-MAX_SEGMENTS:] for path in files}
    for mention in dict.fromkeys(_MENTION.findall(text)):
        if len(mentions) >= MAX_MENTIONS:
            break
        bare = _EXTENSION.sub("", mention) if "/" in mention or "\\" in mention else mention
        mentions.add(tuple(part for part in re.split(r"[/\\.]", bare.lower()) if part)[-MAX_SEGMENTS:])
    return frozenset(mentions - {()})
