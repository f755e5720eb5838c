"""What the loop tells those who watch it, one event at a time."""

from __future__ import annotations

from ralph.loop.capture import telling_line
from ralph.records import fields_of, now, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.records import Attempt, GateResult, Prompt, Recollection, Status, Task

    Tell = Callable[["Event"], None]


@record
class Event:
    """Something that happened in a run.

    what: run_started, recovered, attempt_started, recalled, output, gate_started, gate_ended, ignored,
    learned, attempt_ended, interrupted, waiting, warning, run_ended.
    """

    what: str
    at: str
    details: dict[str, object]


def event(what: str, **details: object) -> Event:
    """Give an event of this moment."""
    return Event(what=what, at=now(), details=details)


def forgiving(tell: Tell) -> Tell:
    """Give a way to tell that falls silent once nobody can hear: a closed terminal must not end a session."""
    hears = True

    def told(event: Event) -> None:
        nonlocal hears
        if hears:
            try:
                tell(event)
            except (OSError, ValueError):
                hears = False

    return told


def run_started(run_id: str, agent: str, ready: int, only: str | None, gates: Sequence[str]) -> Event:
    """Tell that a run begins."""
    return event("run_started", run_id=run_id, agent=agent, ready=ready, only=only, gates=list(gates))


def attempt_started(task: Task, attempt: Attempt) -> Event:
    """Tell that a session is about to begin."""
    return event(
        "attempt_started",
        iteration=attempt.iteration,
        task_id=task.id,
        title=task.title,
        attempt=attempt.number,
        model=attempt.model,
        model_reason=attempt.model_reason,
    )


def recalled(known: Recollection, prompt: Prompt) -> Event:
    """Tell what the agent will be told."""
    titles = {one.memory.id: one.memory.title for one in known.memories}
    return event(
        "recalled",
        memories=[{"id": id, "title": titles[id]} for id in prompt.shown],
        journal=len(known.journal),
        previous_attempts=len(known.reports),
        advice=len(known.interruptions),
        tokens=prompt.tokens,
    )


def gate(command: str, result: GateResult | None) -> Event:
    """Tell that a gate starts or, with its result, that it ended."""
    if result is None:
        return event("gate_started", command=command)
    return event(
        "gate_ended",
        command=command,
        passed=result.passed,
        seconds=round(result.seconds, 3),
        detail="" if result.passed else telling_line(result),
    )


def attempt_ended(attempt: Attempt, task_status: Status) -> Event:
    """Tell how an attempt ended and where its task stands now."""
    told = {
        name: value
        for name, value in fields_of(attempt).items()
        if name
        not in ("run_id", "number", "feature_id", "hat", "agent", "worker", "shown", "with_memory", "started_at")
    }
    return event("attempt_ended", **told, attempt=attempt.number, task_status=task_status)
