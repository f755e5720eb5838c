"""Classification of objectives by type of work.

Only whole words count, in the order of the types: a "latest release" is not a test.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ralph.memory.lifecycle.learnings import GENERAL_TASK_TYPE

_WORDS = {
    "test-fix": "test tests tested testing spec specs jest vitest pytest failing",
    "feature": "implement implements implemented implementing implementation build builds building",
    "refactor": "refactor refactors refactored refactoring reorganize reorganizes reorganized reorganizing reorganise"
    " reorganised reorganising restructure restructures restructured restructuring clean cleans cleaned cleaning"
    " cleanup cleanups",
    "bug-fix": "fix fixes fixed fixing bugfix hotfix bug bugs debug debugging error errors crash crashes crashed"
    " crashing issue issues",
    "documentation": "document documents documented documenting documentation readme readmes guide guides doc docs"
    " docstring docstrings",
    "architecture": "architecture architectures architectural design designs designed designing structure structures"
    " structured",
    "performance": "optimize optimizes optimized optimizing optimization optimise optimised optimising optimisation"
    " performance perf speed speeds speedup slow slower slowly slowness",
}
_TYPES = {word: name for name, words in reversed(_WORDS.items()) for word in words.split()}
_ORDER = {name: place for place, name in enumerate(_WORDS)}
_NEW_FEATURE = {(verb, noun) for verb in ("add", "adds", "adding", "new") for noun in ("feature", "features")}
_ARTICLES = frozenset(("a", "an", "the"))


def task_type_of(title: str, body: str) -> str:
    """Return the task type from the title or, if that is not conclusive, from title and body."""
    from_title = classify_objective(title)
    return from_title if from_title != GENERAL_TASK_TYPE else classify_objective(f"{title}\n{body}")


def classify_objective(objective: str) -> str:
    """Return the first task type that a word of the objective indicates, else `general`."""
    words = [word for word in re.findall(r"[a-z]+", objective.lower()) if word not in _ARTICLES]
    types = {_TYPES[word] for word in words if word in _TYPES}
    if any(pair in _NEW_FEATURE for pair in pairwise(words)):
        types.add("feature")
    return min(types, key=_ORDER.__getitem__, default=GENERAL_TASK_TYPE)
