"""Tell whether two texts say the same, word for word, and whether a text only repeats what was shown.

The rule: what could change the meaning stays. Articles and plural endings may
differ; negations, numbers, identifiers, operators and paths may not.
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

ECHO = 0.8
"""A text with this share of its word sequences in what was shown is no news."""
SEQUENCE = 4
LONGEST_CACHED = 2000
"""Characters of a text whose words are kept for the next text."""

WARNINGS = ("pitfall", "antipattern")
FILLERS = frozenset("a an the very just really quite simply please also".split())
_NOT_PLURAL = frozenset("https news macos does this always perhaps besides whereas towards".split())
_OPENING = "\"'“”‘«,;()[]{}|·•—–。，、；：（）「」"
# At the start of a word these can be part of it: `.env`, `!ready`, `:memory:`.
_CLOSING = _OPENING + ".:!?…！？"
_BETWEEN = re.compile(r"[,;\"“”«»()\[\]{}|…—–。，、；：！？（）「」]+")
_PLAIN = re.compile(r"[A-Za-z][a-z]*\Z")
_NEGATED = {"can't": "can", "won't": "will", "shan't": "shall"}


def same_words(text: str) -> str:
    """Give the words of a text in order, without what may differ between two ways to say the same."""
    chunks = text.replace("**", " ").replace("’", "'").split()
    # Nearly every word was met before; but what is longer than any word is not worth keeping.
    words = map(_word, chunks) if len(text) <= LONGEST_CACHED else map(_words_of, chunks)
    # Texts of nothing but fillers still have to differ from each other.
    return " ".join(filter(None, words)) or " ".join(chunks).lower()


def _words_of(chunk: str) -> str:
    """Give the words of what stands between two spaces, or nothing for a filler."""
    if "`" in chunk:  # code stays as it is: `,` is not `;`
        parts = chunk.lower().split("`")
        return " ".join(
            filter(None, (_code(part) if place % 2 else _trimmed(part) for place, part in enumerate(parts)))
        )
    inner = _trimmed(chunk)
    if _BETWEEN.search(inner):
        return " ".join(filter(None, (_plain(_trimmed(part)) for part in _BETWEEN.split(inner))))
    return _plain(inner)


_word = lru_cache(maxsize=30_000)(_words_of)


def _code(part: str) -> str:
    """Give code as it is, but for what also stands around words; nothing but such signs is kept: `,` is not `;`."""
    return _BETWEEN.sub(" ", part).strip() or part


def _trimmed(chunk: str) -> str:
    return chunk.lstrip(_OPENING).rstrip(_CLOSING)


def _plain(word: str) -> str:
    """Give a word in lower case, without a plural's s; nothing for a filler or a mere dash."""
    lower = word.lower()
    if lower in FILLERS:
        return ""
    if _PLAIN.match(word):
        if len(lower) > 3 and lower[-1] == "s" and lower[-2] not in "sui" and lower not in _NOT_PLURAL:
            return lower[:-1]
        return "can not" if lower == "cannot" else lower
    if lower.count("'") == 1:
        if lower.endswith("n't"):
            return f"{_plain(_NEGATED.get(lower, lower[:-3]))} not".lstrip()
        if lower.endswith("'s"):
            return _plain(word[:-2])
    return lower if lower.strip("*-_#~") else ""


def fingerprint(memory: Memory) -> str:
    """Give a mark of 16 hex digits that two memories share when they say the same."""
    import hashlib

    if memory.kind == "knowledge":
        from ralph.memory.knowledge import title_key

        same = f"knowledge {title_key(memory.title)}"
    elif memory.content:
        from ralph.memory.learning import identity

        same = identity(memory.kind, memory.task_type, memory.content)
    else:
        # What is recommended and what is warned of may be put in the same words.
        same = ("avoid: " if memory.kind in WARNINGS else "") + same_words(memory.body or memory.title)
    return hashlib.sha256(same.encode("utf-8", "replace")).hexdigest()[:16]


class Echo:
    """What was shown to an agent, to tell what it merely repeats."""

    def __init__(self, injected: str) -> None:
        words = _words(injected)
        self._text = f" {' '.join(words)} "
        self._sequences = set(_sequences(words))

    def repeats(self, text: str) -> bool:
        """Say whether nearly all of a text stands in what was shown."""
        words = _words(text)
        if len(words) < SEQUENCE:
            return bool(words) and f" {' '.join(words)} " in self._text
        sequences = _sequences(words)
        return sum(1 for sequence in sequences if sequence in self._sequences) >= ECHO * len(sequences)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _sequences(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(SEQUENCE)), strict=False))
