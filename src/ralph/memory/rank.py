"""Put memories in the order of their use for a task, and say why.

A score is a sum of named shares, so that it can be explained; what is not
shown gets a reason.
"""

from __future__ import annotations

import re

from ralph.memory.lifecycle import faded
from ralph.records import LeftOut, Recalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.config import FilterConfig
    from ralph.records import Memory

MOST = 8
WORDS, TAGS, CONFIDENCE = 1.0, 0.15, 0.2
MOST_TAGS = 4
FLOOR = 0.25
"""A memory that scores less than this has hardly a word in common with the task."""


def rank(
    found: Sequence[tuple[Memory, float]], task_text: str, path_words: Iterable[str] = (), at: str = ""
) -> tuple[list[Recalled], list[LeftOut]]:
    """Give the best of the found memories, each with what its score is made of, and why the others are not.

    `found` are matches, each with the share of the task's words it holds; `task_text` is what the task says;
    `at` is now: what nothing has spoken for in a while counts less.
    """
    scored = score(found, task_text, path_words, at)
    kept = [one for one in scored if one.score >= FLOOR]
    left = [LeftOut(what=one.memory.title, why=f"score {one.score:.2f} is too low") for one in scored[len(kept) :]]
    left = [LeftOut(what=one.memory.title, why=f"not among the best {MOST}") for one in kept[MOST:]] + left
    return kept[:MOST], left


def score(
    found: Sequence[tuple[Memory, float]], task_text: str, path_words: Iterable[str] = (), at: str = ""
) -> list[Recalled]:
    """Give the found memories best first, each with what its score is made of."""
    words = set(re.findall(r"\w+", task_text.lower())) | set(path_words)
    scored = []
    for memory, score in found:
        met = sum(1 for tag in memory.tags if set(re.findall(r"\w+", tag)) & words)
        shares = (
            ("words", WORDS * score),
            ("tags", TAGS * min(met, MOST_TAGS)),
            ("confidence", CONFIDENCE * (faded(memory, at) if at else memory.confidence)),
        )
        scored.append(Recalled(memory=memory, score=sum(share for _, share in shares), because=shares))
    scored.sort(key=lambda one: (-one.score, one.memory.id))
    return scored


def allowed(
    found: Sequence[tuple[Memory, float]], only: FilterConfig
) -> tuple[list[tuple[Memory, float]], list[LeftOut]]:
    """Give the found memories that have one of the tags the project allows, and why the others are left out."""
    tags = set(only.tags)
    kept = [one for one in found if not tags or tags & set(one[0].tags)]
    left = [memory for memory, _ in found if tags and not tags & set(memory.tags)]
    return kept, [LeftOut(what=memory.title, why="has none of the configured tags") for memory in left]


def path_words(paths: Iterable[str]) -> set[str]:
    """Give the words of more than two characters in file paths."""
    return {word for path in paths for word in re.split(r"[/.\-_]", path.lower()) if len(word) > 2}
