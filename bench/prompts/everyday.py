"""Write the words of prompts without a subject to `ralph.memory.recall.everyday_words`.

Run `python -m bench.prompts.everyday` after editing everyday.txt.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

from ralph.core.tokenize import tokenize
from ralph.memory.recall import everyday_words
from ralph.memory.recall.rank import is_common

PROMPTS = Path(__file__).with_name("everyday.txt")
TARGET = Path(everyday_words.__file__)
GROUPS = (1, 2, 3, 5, 10)
"""Least number of prompts that have the words of each group."""
LINE_LENGTH = 108


def render() -> str:
    """Return the text of the module."""
    prompts = PROMPTS.read_text(encoding="utf-8").splitlines()
    counts = Counter(word for prompt in prompts for word in set(tokenize(prompt)) if not is_common(word))
    head = TARGET.read_text(encoding="utf-8").partition("STEMS = {")[0]
    parts = [head, "STEMS = {\n"]
    for least, limit in zip(GROUPS, (*GROUPS[1:], len(prompts) + 1), strict=True):
        words = " ".join(sorted(word for word, count in counts.items() if least <= count < limit))
        lines = textwrap.wrap(words, LINE_LENGTH, break_long_words=False)
        parts.append(f"    {least}: (\n")
        parts += [f'        "{line}{" " if line is not lines[-1] else ""}"\n' for line in lines]
        parts.append("    ),\n")
    parts.append("}\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
