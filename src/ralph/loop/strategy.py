"""Choose the model for an attempt, and say why."""

from __future__ import annotations

from ralph.records import record


@record
class Choice:
    """A model and the reason for it."""

    model: str | None
    reason: str


def choose_model(configured: str, flag: str | None = None) -> Choice:
    """Give the model the person asked for; without one the agent decides."""
    if flag:
        return Choice(model=flag, reason="asked for with --model")
    if configured:
        return Choice(model=configured, reason="fixed in the configuration")
    return Choice(model=None, reason="no model is configured")
