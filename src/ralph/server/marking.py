"""The little of Markdown that memories are written in, as HTML: `code`, **stress** and [[links]]; all else is text.

The same rule as `marked` in ui.js. What comes in is foreign: every piece is escaped on its own.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECES = re.compile(r"(`[^`\n]+`|\*\*[^*\n]+\*\*|\[\[[^\[\]\n]+\]\])")
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
MOST_WORDS = 1_500
"""Of longer texts the words are not compared: it would take too long."""
LEAST_ALIKE = 0.3
"""Texts that have less in common are shown one after the other."""
FAR_WORDS = 60
NEAR_WORDS = 24
"""Of a longer part that stayed as it was so much is shown at each end, with the spaces between."""


def marked(text: object, ids: Mapping[str, str | None] | None = None, suffix: str = "") -> Markup:
    """Give a text with its code, stress and links; a link leads to the memory of that title, or to a search for it."""
    pieces = _PIECES.split(str(text))
    return Markup("").join(
        _shown(piece, ids or {}, suffix) if number % 2 else piece for number, piece in enumerate(pieces)
    )


def stressed(text: object) -> Markup:
    """Give a text with its code and stress, for where a link cannot stand: in another one, or in a heading."""
    pieces = _PIECES.split(str(text))
    return Markup("").join(
        (_link_free(piece) or piece[2:-2].strip()) if number % 2 else piece for number, piece in enumerate(pieces)
    )


def _link_free(piece: str) -> Markup | None:
    if piece.startswith("`"):
        return Markup("<code>{}</code>").format(piece[1:-1])
    return Markup("<strong>{}</strong>").format(piece[2:-2]) if piece.startswith("**") else None


def _shown(piece: str, ids: Mapping[str, str | None], suffix: str) -> Markup:
    if found := _link_free(piece):
        return found
    title = piece[2:-2].strip()
    id = ids.get(title)
    if id:
        return Markup('<a href="/memories/{}{}">{}</a>').format(id, suffix, title)
    more = "&" + suffix[1:] if suffix else ""
    return Markup('<a href="/memories?{}{}">{}</a>').format(urlencode({"q": title}), more, title)


def worded(was: str, became: str) -> list[tuple[str, str]]:
    """Give what became of a text: pieces that are `same`, `gone` or `new`, in the order one reads them."""
    before, after = _WORDS.findall(was), _WORDS.findall(became)
    whole = [(how, text) for how, text in (("gone", was), ("new", became)) if text]
    if not before or not after or max(len(before), len(after)) > MOST_WORDS:
        return whole
    compared = SequenceMatcher(None, before, after, autojunk=False)
    if compared.ratio() < LEAST_ALIKE:
        return whole
    return list(
        chain.from_iterable(
            _pieces(how, before[start:end], after[first:last])
            for how, start, end, first, last in compared.get_opcodes()
        )
    )


def _pieces(how: str, before: list[str], after: list[str]) -> list[tuple[str, str]]:
    if how == "equal":
        is_long = len(before) > FAR_WORDS
        shown = [*before[:NEAR_WORDS], " … ", *before[-NEAR_WORDS:]] if is_long else before
        return [("same", "".join(shown))]
    return [(kind, "".join(words)) for kind, words in (("gone", before), ("new", after)) if words]
