"""What a person sees of a run: a live line in a terminal, plain lines elsewhere, or JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from ralph.cli.output import duration, money, plural, safe
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


LEFT_FREE = 3
"""Columns at the end of a live line: Ctrl+C prints two letters there, and a line that wraps leaves a ghost."""
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

        self._doing: dict[int, _Doing] = {}
        """What each worker does just now; the only one is 0."""
        self._console = Console(highlight=False, soft_wrap=True)
        self._live: Live = Live(console=self._console, get_renderable=self._now, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _now(self) -> Text:
        from rich.text import Text

        return Text("\n").join(self._line(number, doing) for number, doing in sorted(self._doing.items()) if doing.what)

    def _line(self, number: int, doing: _Doing) -> Text:
        from rich.text import Text

        frame = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(time.monotonic() * 8) % 10]
        elapsed = duration(time.monotonic() - doing.since)
        who = f"[{number}] " if number else ""
        line = Text.assemble((f"{frame} {who}", "cyan"), doing.what, (f"  {elapsed}", "dim"))
        if doing.heard:
            line.append(f"  {doing.heard}", "dim italic")
        line.truncate(max(20, self._console.width - LEFT_FREE), overflow="ellipsis")
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
        worker = details.get("worker", 0)
        assert isinstance(worker, int)
        doing = self._doing.setdefault(worker, _Doing())
        if event.what == "attempt_started":
            model = f" with {safe(str(details['model']))}" if details["model"] else ""
            doing.begin(f"{details['task_id']} attempt {details['attempt']}{model}: working")
        elif event.what == "output":
            last = str(details["text"]).strip().rpartition("\n")[2]
            doing.heard = safe(last)[:200] or doing.heard
        elif event.what == "gate_started":
            doing.begin(f"checking: {safe(str(details['command']))}")
        elif event.what == "review_started":
            doing.begin(f"{details['task_id']}: verifying")
        elif event.what == "waiting":
            what = "tasks that another worker has" if details["pending"] else "new tasks"
            doing.begin("waiting: no task is free" if worker else f"waiting for {what}")
        elif event.what == "attempt_ended":
            doing.begin("")
        elif event.what == "run_ended":
            self._doing.clear()

    def pause(self) -> None:
        """Take the live lines away until the next event."""
        self._doing.clear()
        self._live.stop()


class _Doing:
    """What a worker does just now."""

    def __init__(self) -> None:
        self.what = ""
        self.since = time.monotonic()
        self.heard = ""

    def begin(self, what: str) -> None:
        """Note that it does something else now."""
        if what != self.what:
            self.what, self.since, self.heard = what, time.monotonic(), ""


def lines_of(event: Event) -> list[tuple[str, str]]:
    """Give the lines that tell a person of an event, each with its style."""
    teller = _TELLERS.get(event.what)
    worker = event.details.get("worker")
    mark = f"[{worker}] " if worker else ""
    return [(style, mark + safe_line(line)) for style, line in teller(event.details)] if teller else []


def safe_line(line: str) -> str:
    """Give a line without control characters, its indent kept."""
    return line[: len(line) - len(line.lstrip())] + safe(line)


def _count(number: object, noun: str) -> str:
    assert isinstance(number, int)
    return plural(number, noun)


def _run_started(details: dict[str, object]) -> list[tuple[str, str]]:
    work = f"{details['only']} alone" if details["only"] else f"{_count(details['ready'], 'task')} ready"
    workers, holdout, used = details["workers"], details["holdout"], details["used"]
    assert isinstance(workers, int)
    assert isinstance(holdout, float)
    assert isinstance(used, list)
    goes_on = " goes on" if details["is_resumed"] else ""
    crew = f", {workers} workers" if workers > 1 else ""
    lines = [("bold", f"{details['run_id']}{goes_on}: {details['agent']} agent{crew}, {work}")]
    if details["is_resumed"] and used:
        lines.append(("cyan", f"Used so far: {', '.join(used)}"))
    if holdout:
        lines.append(
            ("cyan", f"Memory is left out of {holdout:.0%} of the iterations, to measure it: ralph stats lift")
        )
    if details["gates_left_out"]:
        lines.append(("yellow", "Gates are not run (--no-verify): the agent's word is taken for done."))
    elif not details["gates"] and not details["is_reviewed"]:
        lines.append(("yellow", "No gates are set: the agent's word is taken for done. See gates in .ralph.toml"))
    return lines


def _recovered(details: dict[str, object]) -> list[tuple[str, str]]:
    return [("yellow", f"{details['task_id']} was left by a worker that is gone; it can be taken again")]


def _attempt_started(details: dict[str, object]) -> list[tuple[str, str]]:
    hat = f", {details['hat']}" if details["hat"] != "creator" else ""
    model = f", {details['model']}" if details["model"] else ""
    about = f"(attempt {details['attempt']}{hat}{model})"
    lines = [("bold", f"{details['iteration']}. {details['task_id']} {details['title']} {about}")]
    # Why it is the first of the ladder again is no news.
    if details["model"] and not str(details["model_reason"]).endswith(("no failure yet", "in the configuration")):
        lines.append(("dim", f"   {details['model']}: {details['model_reason']}"))
    if not details["with_memory"]:
        lines.append(("dim", "   without memory"))
    return lines


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


def _review_ended(details: dict[str, object]) -> list[tuple[str, str]]:
    if details["passed"]:
        return [("green", f"   verified by a second session ({details['seconds']:.1f}s)")]
    return [("yellow", f"   verification failed: {one_line(str(details['reason']), 160)}")]


def _merged(details: dict[str, object]) -> list[tuple[str, str]]:
    files = details["files"]
    assert isinstance(files, list)
    return [("green", f"   merged: {_count(len(files), 'file')}")] if details["commit"] else []


def _stale(details: dict[str, object]) -> list[tuple[str, str]]:
    count = details["count"]
    assert isinstance(count, int)
    what = "1 memory names files" if count == 1 else f"{count:,} memories name files"
    return [("yellow", f"{what} that changed since: ralph memory list --stale")]


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
    # A gate or a verification that failed has said so on the line before.
    is_told = outcome == "retried" and str(details["reason"]).startswith(("the gate ", "the verification "))
    reason = f": {details['reason']}" if details["reason"] and not is_told else ""
    cost = f", ${details['cost_usd']:.4f}" if details["cost_usd"] else ""
    # Among the lines of several workers one has to see at a glance which task it was.
    task = f"{details['task_id']} " if details.get("worker") else ""
    mark, what = (_MARKS[outcome], outcome)
    if outcome == "done" and details["handed_to"]:
        mark, what = "→", f"handed over to the {details['handed_to']}"
    line = f"   {mark} {task}{what}{reason} ({duration(seconds)}{cost}){_what_next(details)}"
    parts, used = details["parts"], details["used"]
    assert isinstance(parts, list)
    assert isinstance(used, list)
    lines = [(_STYLES[outcome], line), *(("cyan", f"   new part: {title}") for title in parts)]
    if used:
        lines.append(("dim", f"   used: {', '.join(used)}"))
    return lines


def _what_next(details: dict[str, object]) -> str:
    if details["parts"]:
        return "; split into parts"
    if details["task_status"] == "blocked":
        why = str(details["task_reason"])
        spent = why.partition(",")[0] if why.startswith("has used up") else ""
        left = "no retries left" if why.startswith("failed") else spent
        return f"; {left + ', ' if left else ''}waits for you: ralph task reset {details['task_id']}"
    if details["handed_to"]:
        return ""
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
    cost_usd = details["cost_usd"]
    assert isinstance(cost_usd, float | int)
    cost = f", {money(cost_usd)}" if cost_usd else ""
    tokens = f", {details['tokens']:,} tokens" if details["tokens"] else ""
    return [
        (
            "bold",
            f"Stopped: {details['ending']}. {details['done']} done in {_count(details['iterations'], 'attempt')},"
            f" {duration(seconds)}{tokens}{cost}.",
        ),
        *([("dim", "Go on with: ralph run --resume")] if details["can_go_on"] else []),
    ]


_TELLERS = {
    "run_started": _run_started,
    "recovered": _recovered,
    "attempt_started": _attempt_started,
    "recalled": _recalled,
    "gate_ended": _gate_ended,
    "review_ended": _review_ended,
    "merged": _merged,
    "stale": _stale,
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
