"""What a recall asks for: the words of a task, each with its weight, and the files it speaks of."""

from __future__ import annotations

import re

from ralph.memory.words import path_words, words
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE, BODY, ERRORS, FILES, HINT = 3.0, 1.0, 2.0, 2.0, 0.5
"""What a word counts by where it stands in the question."""
NAME = 2.0
"""What a word counts more in search of a path when it is part of a name in code."""
BODY_IN_PATHS = 0.5
MOST_WORDS = 300
LONGEST = 16_000
"""So many characters of a part are read: of a longer one its beginning and its end."""
MOST_FILES = 50
MOST_MENTIONS = 200
MOST_SEGMENTS = 6

_NAME = re.compile(r"(?<!\w)(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)")
_MENTION = re.compile(r"(?<![\w-])(?:[\w-]+[/\\.])+[\w-]+")
_ENDING = re.compile(r"\.[A-Za-z]\w{0,4}$")


@record
class Context:
    """What is at hand, as far as a recall asks."""

    title: str = ""
    body: str = ""
    files: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    """Files that were worked on just before: a hint, no more."""
    errors: tuple[str, ...] = ()
    """What went wrong just now: error text, stack traces."""
    hat: str | None = None
    feature: str | None = None
    task_type: str | None = None
    session: str | None = None
    """Whose own memories it does not need to be told."""
    failure: str | None = None
    """The fingerprint of the last failure."""
    shown: frozenset[str] = frozenset()
    """Ids of memories it has already."""
    at: str = ""
    """The moment that counts as now; the present one if it is not given."""


@record
class Question:
    """The words to look for, each with its weight; the same for words of paths; the files that are spoken of."""

    words: dict[str, float]
    title: frozenset[str]
    paths: dict[str, float]
    hints: frozenset[str]
    """Of the words, those that only what surrounds the task holds: they do not make a memory an answer."""
    mentions: frozenset[tuple[str, ...]]
    """Paths and dotted names, as their parts in lower case, without the file's ending."""


def question(context: Context) -> Question:
    """Give what to look for in a context."""
    title, body = bounded(context.title), bounded(context.body)
    errors = bounded("\n".join(context.errors))
    weights: dict[str, float] = {}
    paths: dict[str, float] = {}
    in_title = frozenset(words(title))
    files = context.files[:MOST_FILES]
    in_files = [word for path in files for word in path_words(path)]
    _raise(weights, in_title, TITLE)
    _raise(weights, in_files, FILES)
    in_errors, in_body = words(errors), words(body)
    _raise(weights, in_errors, ERRORS)
    _raise(weights, in_body, BODY)
    hints = {
        *words(context.feature or ""),
        *(word for path in context.recent[:MOST_FILES] for word in path_words(path)),
    }
    hints.difference_update(weights)
    _raise(weights, hints, HINT)
    _raise(paths, in_title, TITLE)
    _raise(paths, in_files, FILES)
    _raise(paths, in_errors, ERRORS)
    _raise(paths, in_body, BODY_IN_PATHS)
    _raise(paths, words(" ".join(_NAME.findall(f"{title}\n{body}"))), NAME)
    heaviest = sorted(weights, key=lambda word: -weights[word])[:MOST_WORDS]
    return Question(
        words={word: weights[word] for word in heaviest},
        title=in_title,
        paths=paths,
        hints=frozenset(hints),
        mentions=_mentions(f"{title}\n{body}\n{errors}", files),
    )


def bounded(text: str) -> str:
    """Give a text that is not too long to think about: of a longer one its beginning and its end."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"


def parts_of(path: str) -> tuple[str, ...]:
    """Give the parts of a file's path in lower case, without its ending."""
    return tuple(part for part in re.split(r"[/\\]", _ENDING.sub("", path).lower()) if part)


def _raise(weights: dict[str, float], found: Iterable[str], by: float) -> None:
    for word in dict.fromkeys(found):
        weights[word] = weights.get(word, 0.0) + by


def _mentions(text: str, files: Iterable[str]) -> frozenset[tuple[str, ...]]:
    found = {parts_of(path)[-MOST_SEGMENTS:] for path in files}
    for mention in dict.fromkeys(_MENTION.findall(text)):
        if len(found) >= MOST_MENTIONS:
            break
        bare = _ENDING.sub("", mention) if "/" in mention or "\\" in mention else mention
        found.add(tuple(part for part in re.split(r"[/\\.]", bare.lower()) if part)[-MOST_SEGMENTS:])
    return frozenset(found - {()})
