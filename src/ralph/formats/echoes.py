"""Echoes: sigils of an answer that an agent has not said, but repeated from its prompt or from stored text.

Memories, specs and descriptions of tasks may hold a sigil, as an example or planted. An agent that prints such a text
has not said it. A sigil that can only be said in one way, such as task-done with the id of the task at hand, is an
echo only where text next to it is repeated too: else a description that quotes it would keep its task from ever
being done.
"""

from __future__ import annotations

import re

from ralph.core.text import compiled_pattern
from ralph.formats.sigil_scanner import MARKUP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ralph.formats.sigil_scanner import SigilMark

    FindTexts = Callable[[Sequence[str]], Iterable[str]]
    """Function that returns the stored texts that may hold one of some fragments, in lower case."""

NEXT_CHARACTERS = 40
"""Length of the text next to a sigil that is compared, in characters."""
MAX_FRAGMENT = 60
"""Length of the part of a sigil by which stored texts are found, in characters."""
_UNVARYING = ("task-done", "task-failed", "verify-pass")
"""Sigils that have no text of their own."""
_FRAGMENT = rf"[!-~]{{1,{MAX_FRAGMENT}}}"
_EDGE = MARKUP + "-+•#>"


class EchoFinder:
    """Recognizes the sigils of an answer that stand in the prompt or in stored text."""

    def __init__(self, text: str, prompt: str = "", find_texts: FindTexts | None = None, task_id: str = "") -> None:
        self._text = text
        self._prompt = fold(prompt)
        self._find_texts = find_texts
        self._task_id = task_id.lower()

    def sources(self, marks: Iterable[SigilMark]) -> dict[SigilMark, str]:
        """Return the sigils that are echoes, each with what it is repeated from."""
        echoes: dict[SigilMark, str] = {}
        others: list[tuple[SigilMark, str]] = []
        for mark in marks:
            raw = fold(self._text[mark.start : mark.end])
            if self._is_echo(mark, raw, self._prompt):
                echoes[mark] = "the prompt"
            else:
                others.append((mark, raw))
        for source in self._stored([raw for _, raw in others]):
            echoes |= {mark: "a stored text" for mark, raw in others if self._is_echo(mark, raw, source)}
        return echoes

    def _stored(self, raws: Sequence[str]) -> Iterator[str]:
        if self._find_texts and raws:
            for text in self._find_texts(list(dict.fromkeys(map(_fragment, raws)))):
                yield fold(text)

    def _is_echo(self, mark: SigilMark, raw: str, source: str) -> bool:
        if raw not in source:
            return False
        return not self._is_unvarying(mark) or self._is_printed(mark, raw, source)

    def _is_unvarying(self, mark: SigilMark) -> bool:
        """Return whether who means this sigil has to say it just so."""
        body = self._text[mark.body : mark.body_end].strip(MARKUP).lower()
        return bool(self._task_id) and mark.name in _UNVARYING and body in ("", self._task_id)

    def _is_printed(self, mark: SigilMark, raw: str, source: str) -> bool:
        """Return whether the text before or after a sigil is the same as in a source."""
        before = fold(self._text[max(0, mark.start - 4 * NEXT_CHARACTERS) : mark.start]).strip(_EDGE)
        after = fold(self._text[mark.end : mark.end + 4 * NEXT_CHARACTERS]).strip(_EDGE)
        for found in re.finditer(re.escape(raw), source):
            start, end = found.span()
            was_before = source[max(0, start - NEXT_CHARACTERS) : start].strip(_EDGE)
            was_after = source[end : end + NEXT_CHARACTERS].strip(_EDGE)
            if not (was_before or was_after):
                return True  # nothing else is there that could be repeated
            if (was_before and before.endswith(was_before)) or (was_after and after.startswith(was_after)):
                return True
        return False


def fold(text: str) -> str:
    """Return a text in lower case with single spaces."""
    return " ".join(text.lower().split())


def _fragment(raw: str) -> str:
    """Return the longest part of a sigil that every spelling of it has."""
    return max((found[0] for found in compiled_pattern(_FRAGMENT).finditer(raw)), key=len)
