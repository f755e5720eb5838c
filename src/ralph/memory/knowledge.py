"""How knowledge entries are told apart and linked: titles, tags and `[[Title]]`s."""

from __future__ import annotations

from ralph.markdown import without_code, without_code_spans
from ralph.text import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

TAG_OVERLAP = 0.5
LONGEST_LINK = 200

_LINK = rf"\[\[([^\[\]\n]{{1,{LONGEST_LINK}}})\]\]"


def title_key(title: str) -> str:
    """Give what titles are compared by: databases disagree on upper and lower case beyond ASCII."""
    return " ".join(title.casefold().split())


def is_update(known: Memory, new: Memory) -> bool:
    """Say whether a new knowledge entry is about the same thing as a known one.

    Equal titles are; so are titles of which one holds the other, when more than half of the tags
    (of the one with fewer) are the same.
    """
    ours, theirs = title_key(known.title), title_key(new.title)
    if ours == theirs:
        return True
    fewer = min(len(known.tags), len(new.tags))
    overlap = len(set(known.tags) & set(new.tags)) / fewer if fewer else 0.0
    return overlap > TAG_OVERLAP and (ours in theirs or theirs in ours)


def links_in(body: str) -> tuple[str, ...]:
    """Give the titles in `[[Title]]` links, each once in any case of letters; what stands in code is no link."""
    if "[[" not in body:
        return ()
    rows, unclosed = without_code(body.replace("\r\n", "\n").split("\n"))
    if unclosed:  # a text that was cut inside a code block
        rows = rows[: unclosed[0]]
    paragraphs = "\n".join(row if row.strip() else "" for row in rows).split("\n\n")
    titles: dict[str, str] = {}
    for paragraph in paragraphs:
        for link in compiled(_LINK).finditer(without_code_spans(paragraph)):
            if title := link[1].strip():
                titles.setdefault(title.casefold(), title)
    return tuple(titles.values())
