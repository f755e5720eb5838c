"""Rendering of the Markdown subset of memories as HTML: `code`, **bold** and [[links]].

Must match `marked` in ui.js. The text is untrusted: every piece is escaped separately.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIECES = re.compile(r"(`[^`\n]+`|\*\*[^*\n]+\*\*|\[\[[^\[\]\n]+\]\])")
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
MAX_DIFF_WORDS = 1_500
"""Number of words above which texts are not compared, because it would take too long."""
MIN_SIMILARITY = 0.3
"""Similarity below which texts are shown one after the other."""


def render_markdown(
    text: object,
    ids: Mapping[str, str | None] | None = None,
    suffix: str = "",
    matched: re.Pattern[str] | None = None,
) -> Markup:
    """Render a text with links, which lead to the memory of that title or to a search for it; mark what matches."""
    return Markup("").join(
        _render_piece(piece, ids or {}, suffix, matched) if number % 2 else _marked(piece, matched)
        for number, piece in enumerate(_PIECES.split(str(text)))
    )


def render_inline_markdown(text: object, matched: re.Pattern[str] | None = None) -> Markup:
    """Render a text without links, for use in headings and other links; mark what matches."""
    return Markup("").join(
        (_inline(piece, matched) or _marked(piece[2:-2].strip(), matched)) if number % 2 else _marked(piece, matched)
        for number, piece in enumerate(_PIECES.split(str(text)))
    )


def _marked(text: str, pattern: re.Pattern[str] | None) -> Markup:
    """Return a text, escaped, with the matches of a pattern marked."""
    if pattern is None:
        return escape(text)
    parts, end = [], 0
    for match in pattern.finditer(text):
        parts += [escape(text[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _inline(piece: str, matched: re.Pattern[str] | None) -> Markup | None:
    if piece.startswith("`"):
        return Markup("<code>{}</code>").format(_marked(piece[1:-1], matched))
    return Markup("<strong>{}</strong>").format(_marked(piece[2:-2], matched)) if piece.startswith("**") else None


def _render_piece(piece: str, ids: Mapping[str, str | None], suffix: str, matched: re.Pattern[str] | None) -> Markup:
    if rendered := _inline(piece, matched):
        return rendered
    title = piece[2:-2].strip()
    id, shown = ids.get(title), _marked(title, matched)
    if id:
        return Markup('<a href="/memories/{}{}">{}</a>').format(id, suffix, shown)
    extra = "&" + suffix[1:] if suffix else ""
    return Markup('<a href="/memories?{}{}">{}</a>').format(urlencode({"q": title}), extra, shown)


def word_diff(was: str, became: str) -> list[tuple[str, str]]:
    """Return the word diff of two texts as pieces that are `same`, `gone` or `new`."""
    before, after = _WORDS.findall(was), _WORDS.findall(became)
    replaced = [(how, text) for how, text in (("gone", was), ("new", became)) if text]
    if not before or not after or max(len(before), len(after)) > MAX_DIFF_WORDS:
        return replaced
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < MIN_SIMILARITY:
        return replaced
    return list(
        chain.from_iterable(
            _pieces(how, before[start:end], after[first:last]) for how, start, end, first, last in matcher.get_opcodes()
        )
    )


def _pieces(how: str, before: list[str], after: list[str]) -> list[tuple[str, str]]:
    if how == "equal":
        return [("same", "".join(before))]
    return [(kind, "".join(words)) for kind, words in (("gone", before), ("new", after)) if words]
