"""Texts of people and programs to measure with: the sources of Python's own library, which every machine has.

Made-up words would flatter: what is cached by word, as redaction and stems are, depends on how many there are.
"""

from __future__ import annotations

import random
import re
import sysconfig
from functools import cache
from pathlib import Path

MAX_MODULES = 400
_DOCSTRING = re.compile(r'"""(.{80,1200}?)"""', re.DOTALL)


@cache
def sources() -> tuple[str, ...]:
    """Return the texts of modules."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
    texts = (path.read_text("utf-8", "replace") for path in paths if "test" not in path.parts)
    return tuple(
        text for text, _ in zip((text for text in texts if len(text) > 3_000), range(MAX_MODULES), strict=False)
    )


@cache
def paragraphs() -> tuple[str, ...]:
    """Return paragraphs in the words of programmers: docstrings."""
    found = (" ".join(text.split()) for source in sources() for text in _DOCSTRING.findall(source))
    return tuple(dict.fromkeys(found))


def paragraph(chance: random.Random) -> str:
    """Return a paragraph, with numbers as people write them."""
    return f"{chance.choice(paragraphs())} ({chance.randrange(10_000)})"


def output(chance: random.Random, length: int) -> str:
    """Return a part of a module, as the output of a tool."""
    source = chance.choice(sources())
    start = chance.randrange(max(1, len(source) - length))
    return source[start : start + length]


def forget_words() -> None:
    """Empty what is cached by word, as when the program starts."""
    from ralph.core import tokenize
    from ralph.core.redaction import hints

    hints._known.clear()
    hints._harmless.clear()
    tokenize.forget_chunks()
