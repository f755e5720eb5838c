"""Records of the sigils in an agent's answer."""

from __future__ import annotations

from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records.tasks import Difficulty


@record
class KnowledgeSigil:
    """A `<knowledge>` sigil."""

    title: str
    tags: tuple[str, ...]
    body: str


@record
class LearningSigil:
    """A `<learning>` sigil."""

    category: str
    content: str
    tags: tuple[str, ...] = ()


@record
class MemorySignal:
    """A `MEMORY:type:content` line."""

    kind: str
    title: str
    content: str


@record
class FailureReportSigil:
    """A `<failure-report>` sigil."""

    tried: str
    why: str
    category: str = "unknown"
    files: tuple[str, ...] = ()
    trace: str = ""


@record
class HandoverSigil:
    """A `<hand-over>` sigil: the hat that continues, and what it has to know."""

    to: str
    """Name of the next hat. Empty to follow the configured order."""
    text: str = ""


@record
class SubtaskSigil:
    """A `<subtask>` sigil: part of a task that is too large."""

    title: str
    body: str = ""
    needs: tuple[str, ...] = ()
    """Titles of the subtasks that must be done first."""


@record
class Sigils:
    """All sigils found in an agent's answer."""

    done_ids: tuple[str, ...] = ()
    failed_ids: tuple[str, ...] = ()
    report: FailureReportSigil | None = None
    learnings: tuple[LearningSigil, ...] = ()
    knowledge: tuple[KnowledgeSigil, ...] = ()
    signals: tuple[MemorySignal, ...] = ()
    journal: str = ""
    difficulty: Difficulty | None = None
    retry_suggestion: str = ""
    next_model: str | None = None
    hand_over: HandoverSigil | None = None
    subtasks: tuple[SubtaskSigil, ...] = ()
    question: str = ""
    """What a person has to decide, if the agent asks."""
    verify_passed: bool | None = None
    verify_reason: str = ""
    problems: tuple[str, ...] = ()
    """Sigils that were skipped and why, for the log."""
