"""What a person sees of a run: a live line in a terminal, plain lines elsewhere, or JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from ralph.cli.output import duration, plural, safe
from ralph.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, Self

    from rich.live import Live
    from rich.text import Text

    from ralph.loop.progress import Event
    from ralph.records import Task

    class View(Protocol):
        """Something that shows events."""

        def __enter__(self) -> Self:
            """Begin to show."""

        def __exit__(self, *_: object) -> None:
            """Leave the terminal as it was."""

        def tell(self, event: Event) -> None:
            """Show one event."""

        def pause(self) -> None:
            """Get out of the way of a question."""


_MARKS = {"done": "✓", "failed": "✗", "retried": "↻", "blocked": "…", "interrupted": "⏸", "error": "!"}
_STYLES = {
    "done": "green",
    "failed": "red",
    "retried": "yellow",
    "blocked": "yellow",
    "interrupted": "magenta",
    "error": "red",
}


def open_view(format: str) -> View:
    """Give the view that fits where the output goes."""
    if format == "json":
        return JsonView()
    return LiveView() if sys.stdout.isatty() else PlainView()


def ask_feedback(view: View) -> Callable[[Task], str]:
    """Give the question that is put to whoever pressed Ctrl+C."""

    def ask(task: Task) -> str:
        view.pause()
        print(f"\nInterrupted {task.id}: {safe(task.title)}")
        print("What should the next attempt know? (Enter: nothing and go on; Ctrl+C: stop the run)")
        return input("> ").strip()

    return ask


class JsonView:
    """One JSON object a line for every event but the agent's own output."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, event: Event) -> None:
        """Print the event."""
        if event.what != "output":
            print(json.dumps({"event": event.what, "at": event.at, **event.details}, ensure_ascii=False), flush=True)

    def pause(self) -> None:
        """Nothing is in the way."""


class PlainView:
    """One plain line for every event that matters, for logs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, event: Event) -> None:
        """Print the event's line."""
        for _, line in lines_of(event):
            print(line, flush=True)

    def pause(self) -> None:
        """Nothing is in the way."""


class LiveView:
    """Lines as they come, and below them what is going on right now."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._doing = ""
        self._since = time.monotonic()
        self._heard = ""
        self._console = Console(highlight=False, soft_wrap=True)
        self._live: Live = Live(console=self._console, get_renderable=self._now, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _now(self) -> Text:
        from rich.text import Text

        if not self._doing:
            return Text("")
        frame = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(time.monotonic() * 8) % 10]
        elapsed = duration(time.monotonic() - self._since)
        line = Text.assemble((f"{frame} ", "cyan"), self._doing, (f"  {elapsed}", "dim"))
        if self._heard:
            line.append(f"  {self._heard}", "dim italic")
        line.truncate(max(20, self._console.width - 1), overflow="ellipsis")
        return line

    def tell(self, event: Event) -> None:
        """Show the event, and what it means for what is going on."""
        from rich.text import Text

        if not self._live.is_started:
            self._live.start()
        self._follow(event)
        for style, line in lines_of(event):
            self._console.print(Text(line, style=style))

    def _follow(self, event: Event) -> None:
        details = event.details
        if event.what == "attempt_started":
            model = f" with {safe(str(details['model']))}" if details["model"] else ""
            self._begin(f"{details['task_id']} attempt {details['attempt']}{model}: working")
        elif event.what == "output":
            last = str(details["text"]).strip().rpartition("\n")[2]
            self._heard = safe(last)[:200] or self._heard
        elif event.what == "gate_started":
            self._begin(f"checking: {safe(str(details['command']))}")
        elif event.what == "waiting":
            what = "tasks that another worker has" if details["pending"] else "new tasks"
            self._begin(f"waiting for {what}")
        elif event.what in ("attempt_ended", "run_ended"):
            self._begin("")

    def _begin(self, doing: str) -> None:
        if doing != self._doing:
            self._doing, self._since, self._heard = doing, time.monotonic(), ""

    def pause(self) -> None:
        """Take the live line away until the next event."""
        self._begin("")
        self._live.stop()


def lines_of(event: Event) -> list[tuple[str, str]]:
    """Give the lines that tell a person of an event, each with its style."""
    teller = _TELLERS.get(event.what)
    return [(style, safe_line(line)) for style, line in teller(event.details)] if teller else []


def safe_line(line: str) -> str:
    """Give a line without control characters, its indent kept."""
    return line[: len(line) - len(line.lstrip())] + safe(line)


def _count(number: object, noun: str) -> str:
    assert isinstance(number, int)
    return plural(number, noun)


def _run_started(details: dict[str, object]) -> list[tuple[str, str]]:
    work = f"{details['only']} alone" if details["only"] else f"{_count(details['ready'], 'task')} ready"
    lines = [("bold", f"{details['run_id']}: {details['agent']} agent, {work}")]
    if not details["gates"]:
        lines.append(("yellow", "No gates are set: the agent's word is taken for done. See gates in .ralph.toml"))
    return lines


def _recovered(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("yellow", f"{details['task_id']} was left by a worker that is gone; it can be taken again")]


def _attempt_started(details: dict[str, object]) -> list[tuple[str, str]]:
    model = f", {details['model']}" if details["model"] else ""
    return [
        (
            "bold",
            f"{details['iteration']}. {details['task_id']} {details['title']} (attempt {details['attempt']}{model})",
        )
    ]


def _recalled(details: dict[str, object]) -> list[tuple[str, str]]:
    memories = details["memories"]
    assert isinstance(memories, list)
    lines = [("cyan", f"   recalled: {one['title']}") for one in memories]
    if details["previous_attempts"]:
        lines.append(("cyan", f"   recalled: {_count(details['previous_attempts'], 'failed attempt')} at this task"))
    if details["advice"]:
        lines.append(("cyan", "   recalled: what a person said who stopped it"))
    return lines


def _gate_ended(details: dict[str, object]) -> list[tuple[str, str]]:
    command = one_line(str(details["command"]), 60)
    if details["passed"]:
        return [("green", f"   gate passed: {command} ({details['seconds']:.1f}s)")]
    return [("yellow", f"   gate failed: {details['detail']} ({command}, {details['seconds']:.1f}s)")]


def _ignored(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("yellow", f"   ignored: {details['problem']}")]


def _learned(details: dict[str, object]) -> list[tuple[str, str]]:
    what = "learned" if details["is_new"] else "confirmed"
    return [("green", f"   {what}: {details['title']} ({details['kind']})")]


def _extracted(details: dict[str, object]) -> list[tuple[str, str]]:
    """Say what a run taught, and what came of it and of what waited from earlier runs, which is checked with it."""
    count = {name: number for name, number in details.items() if isinstance(number, int)}
    drawn = {"new": count["extracted"] - count["merged"], "known already": count["merged"]}
    checked = {
        "kept": count["promoted"],
        "rejected": count["rejected"],
        "for you to decide (ralph learn review)": count["validated"] - count["promoted"],
        "with too little data so far": count["waiting"],
    }
    lines = [("green", f"Drawn from the run: {plural(count['extracted'], 'learning')}: {_counts(drawn)}.")]
    return lines + [("green", f"Checked: {_counts(checked)}.")] * any(number > 0 for number in checked.values())


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number > 0)


def _consolidated(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("dim", f"Put aside as near-duplicates: {_count(details['superseded'], 'memory')}.")]


def _attempt_ended(details: dict[str, object]) -> list[tuple[str, str]]:
    outcome = str(details["outcome"])
    seconds = details["seconds"]
    assert isinstance(seconds, float)
    # A failed gate has said so on the line before.
    reason = f": {details['reason']}" if details["reason"] and outcome != "retried" else ""
    cost = f", ${details['cost_usd']:.4f}" if details["cost_usd"] else ""
    line = f"   {_MARKS[outcome]} {outcome}{reason} ({duration(seconds)}{cost}){_what_next(details)}"
    return [(_STYLES[outcome], line)]


def _what_next(details: dict[str, object]) -> str:
    if details["task_status"] == "blocked":
        return f"; no retries left, waits for you: ralph task reset {details['task_id']}"
    return "; will be tried again" if details["task_status"] == "pending" else ""


def _heard(details: dict[str, object]) -> list[tuple[str, str]]:
    titles, count = details["titles"], details["count"]
    assert isinstance(titles, list)
    assert isinstance(count, int)
    lines = [("cyan", f"   learned elsewhere: {title}") for title in titles]
    more = count - len(titles)
    return [*lines, ("cyan", f"   learned elsewhere: {more:,} more")] if more > 0 else lines


def _note(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("cyan", f"   {details['message']}")]


def _warning(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("red", f"   {details['message']}")]


def _run_ended(details: dict[str, object]) -> list[tuple[str, str]]:
    seconds = details["seconds"]
    assert isinstance(seconds, float)
    cost = f", ${details['cost_usd']:.2f}" if details["cost_usd"] else ""
    tokens = f", {details['tokens']:,} tokens" if details["tokens"] else ""
    return [
        (
            "bold",
            f"Stopped: {details['ending']}. {details['done']} done in {_count(details['iterations'], 'attempt')},"
            f" {duration(seconds)}{tokens}{cost}.",
        )
    ]


_TELLERS = {
    "run_started": _run_started,
    "recovered": _recovered,
    "attempt_started": _attempt_started,
    "recalled": _recalled,
    "gate_ended": _gate_ended,
    "ignored": _ignored,
    "learned": _learned,
    "extracted": _extracted,
    "consolidated": _consolidated,
    "attempt_ended": _attempt_ended,
    "heard": _heard,
    "note": _note,
    "warning": _warning,
    "run_ended": _run_ended,
}
