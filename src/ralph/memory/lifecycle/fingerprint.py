"""Fingerprints that recognize memories with the same meaning, and detection of text copied from a prompt.

Anything that could change the meaning is kept. Articles and plural endings may differ; negations, numbers, identifiers,
operators and paths may not.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ralph.core.memory_types import MEMORY_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

MIN_COPIED_SHARE = 0.8
"""Share of word sequences found in the prompt from which a text counts as copied."""
SEQUENCE_LENGTH = 4
"""Length of the word sequences compared, in words."""
MAX_CACHED_LENGTH = 2000
"""Length of a text up to which its words are cached, in characters."""

WARNING_KINDS = tuple(one.name for one in MEMORY_TYPES.values() if one.is_warning)
"""Memory types that say what to avoid."""
FILLER_WORDS = frozenset("a an the very just really quite simply please also".split())
_NOT_PLURAL = frozenset("https news macos does this always perhaps besides whereas towards".split())
_OPENING = "\"'“”‘«,;()[]{}|·•—–。，、；：（）「」"
# Only stripped at the end: at the start they can be part of the word, as in `.env`, `!ready` or `:memory:`.
_CLOSING = _OPENING + ".:!?…！？"
_SEPARATORS = re.compile(r"[,;\"“”«»()\[\]{}|…—–。，、；：！？（）「」]+")
_LETTERS = re.compile(r"[A-Za-z][a-z]*\Z")
_CONTRACTIONS = {"can't": "can", "won't": "will", "shan't": "shall"}


def normalized_words(text: str) -> str:
    """Return the words of a text in order, normalized so that equivalent phrasings are equal."""
    chunks = text.replace("**", " ").replace("’", "'").split()
    # Most words repeat, so they are cached; long texts would only fill the cache.
    words = map(_normalize_cached, chunks) if len(text) <= MAX_CACHED_LENGTH else map(_normalize_chunk, chunks)
    # Texts that consist of filler words only must still differ from each other.
    return " ".join(filter(None, words)) or " ".join(chunks).lower()


def _normalize_chunk(chunk: str) -> str:
    """Return the normalized words of a chunk between two spaces; empty for a filler word."""
    if "`" in chunk:  # code is kept verbatim
        parts = chunk.lower().split("`")
        return " ".join(
            filter(
                None,
                (_normalize_code(part) if index % 2 else _strip_punctuation(part) for index, part in enumerate(parts)),
            )
        )
    inner = _strip_punctuation(chunk)
    if _SEPARATORS.search(inner):
        return " ".join(filter(None, (_normalize_word(_strip_punctuation(part)) for part in _SEPARATORS.split(inner))))
    return _normalize_word(inner)


_normalize_cached = lru_cache(maxsize=30_000)(_normalize_chunk)


def _normalize_code(part: str) -> str:
    """Return code without surrounding punctuation, unless it is nothing else: `,` is not `;`."""
    return _SEPARATORS.sub(" ", part).strip() or part


def _strip_punctuation(chunk: str) -> str:
    return chunk.lstrip(_OPENING).rstrip(_CLOSING)


def _normalize_word(word: str) -> str:
    """Return a word in lower case without plural s; empty for a filler word or a dash."""
    lower = word.lower()
    if lower in FILLER_WORDS:
        return ""
    if _LETTERS.match(word):
        if len(lower) > 3 and lower[-1] == "s" and lower[-2] not in "sui" and lower not in _NOT_PLURAL:
            return lower[:-1]
        return "can not" if lower == "cannot" else lower
    if lower.count("'") == 1:
        if lower.endswith("n't"):
            return f"{_normalize_word(_CONTRACTIONS.get(lower, lower[:-3]))} not".lstrip()
        if lower.endswith("'s"):
            return _normalize_word(word[:-2])
    return lower if lower.strip("*-_#~") else ""


def fingerprint(memory: Memory) -> str:
    """Return 16 hex digits that are equal for two memories with the same meaning."""
    from ralph.core.hashing import sha256_hex

    if memory.kind == "knowledge":
        from ralph.memory.lifecycle.knowledge import title_key

        identity_text = f"knowledge {title_key(memory.title)}"
    elif memory.structured_content:
        from ralph.memory.lifecycle.learnings import learning_identity

        identity_text = learning_identity(memory.kind, memory.task_type, memory.structured_content)
    else:
        # A recommendation and a warning can have the same words.
        identity_text = ("avoid: " if memory.kind in WARNING_KINDS else "") + normalized_words(
            memory.content or memory.title
        )
    return sha256_hex(identity_text.encode("utf-8", "replace"))[:16]


class EchoDetector:
    """Text shown to an agent, to detect what the agent merely repeats."""

    def __init__(self, prompt: str) -> None:
        words = _words(prompt)
        self._text = f" {' '.join(words)} "
        self._sequences = set(_sequences(words))

    def is_copied(self, text: str) -> bool:
        """Return whether nearly all of a text occurs in what was shown."""
        words = _words(text)
        if len(words) < SEQUENCE_LENGTH:
            return bool(words) and f" {' '.join(words)} " in self._text
        sequences = _sequences(words)
        return sum(1 for sequence in sequences if sequence in self._sequences) >= MIN_COPIED_SHARE * len(sequences)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _sequences(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(SEQUENCE_LENGTH)), strict=False))
