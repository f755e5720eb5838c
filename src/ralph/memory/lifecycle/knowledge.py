"""Identity of knowledge entries and the `[[Title]]` links between them."""

from __future__ import annotations

from ralph.core.markdown import blank_code_blocks, strip_code_spans
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

MIN_TAG_OVERLAP = 0.5
"""Share of common tags, relative to the entry with fewer tags, above which similar titles match."""
MAX_LINK_LENGTH = 200
"""Maximum length of a link title, in characters."""

_LINK = rf"\[\[([^\[\]\n]{{1,{MAX_LINK_LENGTH}}})\]\]"


def title_key(title: str) -> str:
    """Return the key titles are compared by; databases differ in case folding beyond ASCII."""
    return " ".join(title.casefold().split())


def is_update(known: Memory, new: Memory) -> bool:
    """Return whether a new knowledge entry updates a known one.

    It does if the titles are equal, or if one title contains the words of the other and more than half of the tags (of
    the entry with fewer tags) are the same.
    """
    ours, theirs = title_key(known.title), title_key(new.title)
    if ours == theirs:
        return True
    fewer = min(len(known.tags), len(new.tags))
    overlap = len(set(known.tags) & set(new.tags)) / fewer if fewer else 0.0
    return overlap > MIN_TAG_OVERLAP and (_contains(ours, theirs) or _contains(theirs, ours))


def _contains(title: str, part: str) -> bool:
    """Return whether a title contains another one as whole words: "Auth" is in "Auth tokens", not in "OAuth"."""
    start = title.find(part)
    while part and start >= 0:
        end = start + len(part)
        if not _is_within_word(title, start) and not _is_within_word(title, end):
            return True
        start = title.find(part, start + 1)
    return False


def _is_within_word(text: str, place: int) -> bool:
    """Return whether a word goes on at a place; scripts without letter case have no spaces between words."""
    around = text[max(0, place - 1) : place + 1]
    return 0 < place < len(text) and all(one.isdigit() or one.lower() != one.upper() for one in around)


def links_in(body: str) -> tuple[str, ...]:
    """Return the distinct titles of `[[Title]]` links, ignoring case and code."""
    if "[[" not in body:
        return ()
    rows, unclosed = blank_code_blocks(body.replace("\r\n", "\n").split("\n"))
    if unclosed:  # the text was truncated inside a code block
        rows = rows[: unclosed[0]]
    paragraphs = "\n".join(row if row.strip() else "" for row in rows).split("\n\n")
    titles: dict[str, str] = {}
    for paragraph in paragraphs:
        for link in compiled_pattern(_LINK).finditer(strip_code_spans(paragraph)):
            if title := link[1].strip():
                titles.setdefault(title.casefold(), title)
    return tuple(titles.values())
