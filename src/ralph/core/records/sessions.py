"""Records of agent sessions."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records.base import record


class SessionEnding(StrEnum):
    """Technical reason why an agent session ended, independent of what the agent reported."""

    FINISHED = "finished"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    WENT_SILENT = "went silent"
    FLOODED = "flooded"
    OUT_OF_MEMORY = "used too much memory"
    TOO_MANY_PROCESSES = "started too many processes"
    REFUSED = "refused"
    OUT_OF_TURNS = "out of turns or tokens"
    MODEL_FAILED = "could not use its model"
    """The model's service refused or failed: no key, no credit, overloaded or unreachable."""
    STOPPED = "stopped"
    """Stopped by Ralph, because of an interrupt or a lost claim."""


@record
class AgentSession:
    """An agent session outside the loop: what it was shown, and what it left behind."""

    id: str
    """Session id assigned by the agent."""
    agent: str
    title: str = ""
    """Beginning of the first prompt."""
    summary: str = ""
    """Last answer of the agent, or the summary of a compaction."""
    shown: tuple[str, ...] = ()
    """Ids of the memories in its context."""
    learned: tuple[str, ...] = ()
    """Ids of the memories learned from it."""
    said: tuple[str, ...] = ()
    """Fingerprints of the memories it asked to store, to recognize repetitions."""
    prompts: int = 0
    compactions: int = 0
    started_at: str
    last_at: str
    ended_at: str | None = None
    ending: str = ""
    """Why the session ended, as named by the agent."""


@record
class AgentReply:
    """Result of an agent session."""

    text: str
    ending: SessionEnding = SessionEnding.FINISHED
    detail: str = ""
    """One sentence about any ending other than `finished`."""
    exit_code: int | None = None
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None
    files: tuple[str, ...] | None = None
    """Files the agent changed. None if it does not report them and git has to be asked."""
    turns: int | None = None
    """Number of model requests."""
    session: str = ""
    """Session id assigned by the agent, which can be used to inspect or resume the session."""
    resets_at: float | None = None
    """When the usage limit that ended the session resets, in seconds since the epoch, if the agent reports it."""
    next_reset: float | None = None
    """When the usage limit resets that the session counts towards, reached or not, if the agent reports it."""
