"""Tell what kind of work an objective asks for.

Whole words count, in the order of the kinds: a "latest release" is no test.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ralph.memory.learning import GENERAL

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


def type_of_work(title: str, body: str) -> str:
    """Give the type of a task's work: what its title says, else what its text says."""
    said = task_type(title)
    return said if said != GENERAL else task_type(f"{title}\n{body}")


def task_type(objective: str) -> str:
    """Give the type of the work: the first that a word of the objective speaks of, else `general`."""
    words = [word for word in re.findall(r"[a-z]+", objective.lower()) if word not in _ARTICLES]
    types = {_TYPES[word] for word in words if word in _TYPES}
    if any(pair in _NEW_FEATURE for pair in pairwise(words)):
        types.add("feature")
    return min(types, key=_ORDER.__getitem__, default=GENERAL)
