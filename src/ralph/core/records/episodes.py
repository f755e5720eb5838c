"""Records of episodes: what was said and done, word for word."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records.base import record


class EpisodeKind(StrEnum):
    """Where an episode comes from."""

    SESSION = "session"
    ATTEMPT = "attempt"
    COMMIT = "commit"


class Speaker(StrEnum):
    """Speaker of a turn: a person, an agent, or a tool that failed."""

    PERSON = "person"
    AGENT = "agent"
    TOOL = "tool"


@record
class Turn:
    """One thing said in a transcript, as its reader found it."""

    key: str
    """Id that is the same in every copy of the transcript."""
    speaker: Speaker
    text: str
    files: tuple[str, ...] = ()
    """Files the agent edited or wrote with this turn."""
    branch: str = ""
    at: str = ""
    """Timestamp as `core.records.timestamp` writes it; empty if unknown."""
    offset: int = 0
    """Where the next turn starts: bytes in the file, or records in a database."""


@record
class Episode:
    """A passage of past work, word for word: of a session, an attempt or a commit."""

    id: str
    kind: EpisodeKind
    source: str
    """Session id, `run/iteration` of an attempt, or commit id."""
    agent: str = ""
    """Name of the agent; of a commit, its author."""
    position: int = 0
    """Place of the passage in its source, from 0."""
    speaker: Speaker
    text: str
    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Commits it refers to, as `reverts:ID` or `fixes:ID`."""
    branch: str = ""
    at: str
    rules: str = ""
    """Rules for all work that a person states in it, as JSON."""


@record
class RecalledEpisode:
    """An episode recalled for a task, with its score and the components of the score."""

    episode: Episode
    score: float
    because: tuple[tuple[str, float], ...] = ()
    relevance: float = 0.0
    """Estimated probability that it is relevant."""
    evidence: str = ""
    """What the estimate rests on, in words."""
    superseded_at: str = ""
    """Date of a later episode that changes what it says; empty if there is none."""
