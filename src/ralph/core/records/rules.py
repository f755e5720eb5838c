"""Records of standing rules: what holds for all work on a project."""

from __future__ import annotations

from ralph.core.records.base import record


@record
class Rule:
    """What a sentence wants to hold for all work."""

    text: str
    """The rule in the words of who stated it, without what precedes it."""
    subject: tuple[str, ...] = ()
    """What it is about: things that all code has, each with a plus sign, and stems of other words."""
    values: tuple[str, ...] = ()
    """Names, figures and quoted words in it."""
    replaced: tuple[str, ...] = ()
    """Values of which it says that they hold no longer, as in "instead of pip"."""
    is_negative: bool = False
    is_change: bool = False
    """Whether its sentence says that something held before."""
    place: int = 0
    """Number of its sentence in the text."""


@record
class StatedRule:
    """A rule with where and when it was stated."""

    rule: Rule
    id: str
    """Memory or episode that states it."""
    at: str
    source: str = ""
    """Session in which it was stated; empty for a memory."""
    position: int = 0
    """Order of texts with the same time."""
    trust: float = 0.0
    """Confidence of a memory; 0 for what was only said."""
    is_memory: bool = False
    is_pinned: bool = False
    is_by_agent: bool = False
    """Whether no person has added, changed or pinned it."""


@record
class StandingRule:
    """A rule in its newest form, with what it replaced and what contradicts it."""

    stated: StatedRule
    sources: tuple[str, ...] = ()
    """Sessions and memories that state it."""
    superseded: tuple[StatedRule, ...] = ()
    """Earlier forms, newest first."""
    conflicts: tuple[StatedRule, ...] = ()
    """Memories that contradict it, if nothing tells which of them holds."""
