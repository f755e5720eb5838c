"""How knowledge entries are told apart and linked: titles, tags and `[[Title]]`s."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

TAG_OVERLAP = 0.5
LONGEST_LINK = 200

_CODE = re.compile(r"^(?P<fence>```+|~~~+)[^\n]*$|(?P<tick>`+)(?!`)", re.MULTILINE)
_LINK = re.compile(rf"\[\[([^\[\]\n]{{1,{LONGEST_LINK}}})\]\]")


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
    """Give the titles a text links to as `[[Title]]`, each once; what stands in code is no link."""
    if "[[" not in body:
        return ()
    return tuple(dict.fromkeys(title for match in _LINK.finditer(_without_code(body)) if (title := match[1].strip())))


def _without_code(text: str) -> str:
    """Give the text without fenced blocks and code spans."""
    kept: list[str] = []
    start = 0
    while found := _CODE.search(text, start):
        mark = found["fence"] or found["tick"]
        closing = f"\n{mark}" if found["fence"] else mark
        end = text.find(closing, found.end())
        kept.append(text[start : found.start()])
        if end < 0 and found["fence"]:
            return "".join(kept)  # a fence that is never closed runs to the end
        start = found.end() if end < 0 else end + len(closing)
    kept.append(text[start:])
    return " ".join(kept)
