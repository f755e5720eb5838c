"""Records of a prompt: what it can be built from, and what it was built from."""

from __future__ import annotations

from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records.attempts import Attempt, AttemptOutcome, FailureReport
    from ralph.core.records.episodes import RecalledEpisode
    from ralph.core.records.memories import RecalledMemory
    from ralph.core.records.rules import StandingRule
    from ralph.core.records.tasks import Feature, Question, Task, TaskMetrics


@record
class OmittedItem:
    """A candidate that was not put into the prompt, and why."""

    what: str
    why: str
    id: str = ""
    place: int | None = None
    """Rank from 1, for a memory that was ranked; likewise `score` and its components."""
    score: float | None = None
    because: tuple[tuple[str, float], ...] = ()
    relevance: float | None = None
    """Estimated probability that it is relevant, for a memory that was ranked."""
    evidence: str = ""
    """What the estimate rests on, in words."""


@record
class PromptContext:
    """Everything a prompt for one attempt can be built from."""

    task: Task
    run_id: str = ""
    attempt_number: int = 1
    with_memory: bool = True
    metrics: TaskMetrics
    prerequisites: tuple[tuple[Task, str], ...] = ()
    """Completed dependencies, each with the notes of the attempt that completed it."""
    parents: tuple[Task, ...] = ()
    """Tasks it is part of, nearest first."""
    feature: Feature | None = None
    rules: tuple[StandingRule, ...] = ()
    memories: tuple[RecalledMemory, ...] = ()
    episodes: tuple[RecalledEpisode, ...] = ()
    journal: tuple[Attempt, ...] = ()
    """Recent attempts of this run in order, then matches from other runs."""
    reports: tuple[FailureReport, ...] = ()
    """Failure reports of this task, newest first."""
    similar_reports: tuple[FailureReport, ...] = ()
    """Failure reports of other tasks, most similar first."""
    attempts: tuple[Attempt, ...] = ()
    """Earlier attempts at this task, newest first."""
    unfinished: tuple[str, ...] = ()
    """Files that the working tree holds changes of, if the last attempt was cut off, each with its status."""
    questions: tuple[Question, ...] = ()
    """What agents asked a person about this task, with the answers, oldest first."""
    handovers: tuple[Attempt, ...] = ()
    """Attempts by earlier hats at this task, newest first."""
    recent_outcomes: tuple[AttemptOutcome, ...] = ()
    estimate: str = ""
    """What tasks like this took so far."""
    left_out: tuple[OmittedItem, ...] = ()


@record
class PromptSection:
    """A section of a prompt, with what it includes and what it left out."""

    name: str
    text: str
    tokens: int
    cap_tokens: int | None = None
    shown: tuple[str, ...] = ()
    left_out: tuple[OmittedItem, ...] = ()


@record
class Prompt:
    """The text sent to an agent, and what it was built from."""

    text: str
    tokens: int
    sections: tuple[PromptSection, ...]
    shown: tuple[str, ...] = ()
    """Ids of the memories in the text."""
    episodes: tuple[str, ...] = ()
    """Ids of the episodes in the text."""
