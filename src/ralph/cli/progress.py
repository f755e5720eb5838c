"""Views of a run: live lines in a terminal, plain lines for logs, or JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from ralph.cli.output import (
    answer_command,
    can_move_cursor,
    exact_line,
    format_duration,
    format_time,
    pluralize,
    printable,
    symbol,
)
from ralph.core.records import ASKS, NEEDS_PERSON, outcome_word
from ralph.core.text import format_usd, one_line
from ralph.loop.options import resume_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self

    from ralph.core.records import Task
    from ralph.loop.progress import ProgressEvent

MAX_DIFF_LINES_SHOWN = 40
"""Maximum length of a diff of protected files on the terminal, in lines."""
_MARKS = {"done": "✓", "failed": "✗", "retried": "↻", "blocked": "…", "interrupted": "⏸", "error": "!"}
_STYLES = {
    "done": "green",
    "failed": "red",
    "retried": "yellow",
    "blocked": "yellow",
    "interrupted": "magenta",
    "error": "red",
}


def open_progress_view(format: str) -> ProgressView:
    """Return the view for an output format and for what standard output is connected to."""
    if format == "json":
        return JsonProgressView()
    if not can_move_cursor(sys.stdout):
        return ProgressView()
    from ralph.cli.live_view import LiveProgressView

    return LiveProgressView()


def feedback_prompt(view: ProgressView) -> Callable[[Task], str]:
    """Return a function that asks the person who pressed Ctrl+C for feedback."""

    def ask(task: Task) -> str:
        view.pause()
        print(f"\nInterrupted {task.id}: {printable(task.title)}")
        print("What should the next attempt know? (Enter: nothing, continue; Ctrl+C: stop the run)")
        return input("> ").strip()

    return ask


class ProgressView:
    """A view that prints plain lines for the events of a run, for logs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""

    is_naming_runs = False
    """Whether each line begins with the run it is about, because there are several."""

    def show(self, event: ProgressEvent, run_id: str = "") -> None:
        """Show one event; `run_id` is its run, if several may be followed."""
        self.print_lines(format_event(event), run_id)

    def print_lines(self, lines: Iterable[tuple[str, str]], run_id: str = "", *, is_wrapped: bool = True) -> None:
        """Print lines, each with its style, which only a terminal shows; `is_wrapped` there."""
        for _, line in lines:
            print(f"{self._name(run_id)}{line}", flush=True)

    def _name(self, run_id: str) -> str:
        return f"{run_id}: " if self.is_naming_runs and run_id else ""

    def describe(self, idle: str, footer: str) -> None:
        """Say what is shown while nothing happens, and below everything else; only where lines can be drawn over."""

    def pause(self) -> None:
        """Clear the live lines, if any, before a question is asked."""

    def hide(self) -> None:
        """Hide the live lines, if any, until the next event."""


class JsonProgressView(ProgressView):
    """A view that prints each event, except agent output, as a JSON object per line."""

    def show(self, event: ProgressEvent, run_id: str = "") -> None:
        """Print the event."""
        if event.what != "output":
            run = {"run_id": run_id} if run_id else {}
            fields = {"event": event.what, "at": event.at, **run, **event.details}
            print(json.dumps(fields, ensure_ascii=False), flush=True)


def format_event(event: ProgressEvent) -> list[tuple[str, str]]:
    """Return the lines to print for an event, each with its style."""
    formatter = _FORMATTERS.get(event.what)
    worker = event.details.get("worker")
    mark = f"[{worker}] " if worker else ""
    show = exact_line if event.what == "held" else printable_line  # a diff is only worth showing as it is
    return [(style, mark + show(line)) for style, line in formatter(event.details)] if formatter else []


def printable_line(line: str) -> str:
    """Return a line without control characters, keeping its indent."""
    return line[: len(line) - len(line.lstrip())] + printable(line)


def _run_started(details: dict[str, Any]) -> list[tuple[str, str]]:
    work = f"only {details['only']}" if details["only"] else f"{pluralize(details['ready'], 'task')} ready"
    workers, holdout, used = details["workers"], details["holdout"], details["used"]
    resumed = " resumed" if details["is_resumed"] else ""
    workers_text = f", {workers} workers" if workers > 1 else ""
    model = f", {details['model']}" if details.get("model") else ""
    lines = [("bold", f"{details['run_id']}{resumed}: {details['agent']} agent{model}{workers_text}, {work}")]
    if details["is_resumed"] and used:
        lines.append(("cyan", f"Already used: {', '.join(used)}"))
    if holdout:
        lines.append(
            ("cyan", f"{holdout:.0%} of the iterations run without memory, to measure its effect: ralph stats lift")
        )
    if details["gates_left_out"]:
        lines.append(("yellow", "Gates are off (--no-verify): tasks count as done when the agent says so."))
    elif not details["gates"] and not details["is_reviewed"]:
        lines.append(
            ("yellow", "No gates are configured: tasks count as done when the agent says so. Set gates in .ralph.toml.")
        )
    if note := details.get("commit_note"):
        lines.append(("yellow", note))
    return lines


def _recovered(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("yellow", f"{details['task_id']} was abandoned by a worker that is gone and is pending again")]


def _attempt_started(details: dict[str, Any]) -> list[tuple[str, str]]:
    hat = f", {details['hat']}" if details["hat"] != "creator" else ""
    model = f", {details['model']}" if details["model"] else ""
    about = f"(attempt {details['attempt']}{hat}{model})"
    lines = [("bold", f"{details['iteration']}. {details['task_id']} {details['title']} {about}")]
    # The reason is only worth a line if it is not the default choice.
    if details["model"] and not details.get("is_default_model"):
        lines.append(("dim", f"   {details['model']}: {details['model_reason']}"))
    if not details["with_memory"]:
        lines.append(("dim", "   without memory"))
    return lines


def _recalled(details: dict[str, Any]) -> list[tuple[str, str]]:
    memories = details["memories"]
    lines = [("cyan", f"   recalled: {one['title']}") for one in memories]
    if details["previous_attempts"]:
        lines.append(("cyan", f"   recalled: {pluralize(details['previous_attempts'], 'failed attempt')} at this task"))
    if details.get("past_work"):
        lines.append(("cyan", f"   recalled: {pluralize(details['past_work'], 'passage')} of past work"))
    if details["advice"]:
        lines.append(("cyan", "   recalled: feedback from the person who interrupted it"))
    return lines


def _gate_ended(details: dict[str, Any]) -> list[tuple[str, str]]:
    command = one_line(str(details["command"]), 60)
    if details["passed"]:
        return [("green", f"   gate passed: {command} ({details['seconds']:.1f}s)")]
    if details.get("should_fail"):
        return [("green", f"   gate failed, as it should: {command} ({details['seconds']:.1f}s)")]
    return [("yellow", f"   gate failed: {command} ({details['seconds']:.1f}s)")]


def _review_ended(details: dict[str, Any]) -> list[tuple[str, str]]:
    if details["passed"]:
        return [("green", f"   review passed ({details['seconds']:.1f}s)")]
    return [("yellow", f"   review failed ({details['seconds']:.1f}s)")]


def _merged(details: dict[str, Any]) -> list[tuple[str, str]]:
    files = details["files"]
    return [("green", f"   merged: {pluralize(len(files), 'file')}")] if details["commit"] else []


def _committed(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("green", f"   committed {details['commit'][:12]}: {pluralize(len(details['files']), 'file')}")]


def _stale(details: dict[str, Any]) -> list[tuple[str, str]]:
    count = details["count"]
    what = "1 memory refers to files" if count == 1 else f"{count:,} memories refer to files"
    return [("yellow", f"{what} that have changed since. See: ralph memory list --stale")]


def _ignored(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("yellow", f"   ignored: {details['problem']}")]


def _learned(details: dict[str, Any]) -> list[tuple[str, str]]:
    what = "learned" if details["is_new"] else "updated" if details.get("is_updated") else "confirmed"
    return [("green", f"   {what}: {details['title']} ({details['kind']})")]


def _extracted(details: dict[str, Any]) -> list[tuple[str, str]]:
    """Format the learnings of a run. Pending ones from earlier runs are checked along with them."""
    count = {name: number for name, number in details.items() if isinstance(number, int)}
    extracted = {"new": count["extracted"] - count["merged"], "already known": count["merged"]}
    checked = {
        "promoted": count["promoted"],
        "rejected": count["rejected"],
        "to review (ralph learn review)": count["validated"] - count["promoted"],
        "waiting for more data": count["waiting"],
    }
    lines = [("green", f"Extracted {pluralize(count['extracted'], 'learning')} ({_counts(extracted)}).")]
    return lines + [("green", f"Validated learnings: {_counts(checked)}.")] * any(
        number > 0 for number in checked.values()
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number > 0)


def _consolidated(details: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    if details["superseded"]:
        lines.append(("dim", f"Superseded as near-duplicates: {pluralize(details['superseded'], 'memory')}."))
    if left := details.get("left"):
        why = "more than a fifth of all is for you to decide"
        lines.append(
            (
                "yellow",
                f"Left {pluralize(left, 'near-duplicate')}: {why}. See them with: ralph memory consolidate --dry-run",
            )
        )
    return lines


def _reflected(details: dict[str, Any]) -> list[tuple[str, str]]:
    cost, spent, limit = details["cost_usd"], details["spent_usd"], details["limit_usd"]
    price = f"{format_usd(cost or 0)}, {format_usd(spent)} of {format_usd(limit or 0)} today"
    if details["problem"]:
        return [("yellow", f"Reflected ({price}), but nothing of it counts: {details['problem']}.")]
    found = {
        "to review (ralph learn review)": details["added"],
        "proposed (ralph learn proposals)": details["proposals"],
    }
    lines = [("green", f"Reflected ({price}): {_counts(found | {'refused': details['refused']}) or 'nothing to add'}.")]
    if spent > (limit or 0):
        lines.append(("yellow", "That is more than allowed per day: no more reflections today."))
    return lines


def _retired(details: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    if details["count"]:
        what = pluralize(details["count"], "memory")
        lines.append(("dim", f"Retired, because nothing spoke for them in a month: {what}."))
    if left := details.get("left"):
        why = "more than a fifth of all is for you to decide"
        what = pluralize(left, "memory")
        lines.append(("yellow", f"Left, though nothing spoke for them in a month: {what}; {why}: ralph memory cleanup"))
    return lines


def _attempt_ended(details: dict[str, Any]) -> list[tuple[str, str]]:
    from ralph.loop.outcome import NO_SIGIL

    outcome = str(details["outcome"])
    reason = f": {details['reason']}" if details["reason"] else ""
    if details["reason"] == NO_SIGIL:  # whoever writes an agent needs it to the letter
        reason = f": the agent ended without <task-done>{details['task_id']}</task-done>"
    cost = f", {format_usd(details['cost_usd'])}" if details["cost_usd"] else ""
    # With several workers, each line has to name its task.
    task = f"{details['task_id']} " if details.get("worker") else ""
    mark, what = _MARKS[outcome], "failed" if outcome == "retried" else outcome_word(outcome)
    if outcome == "done" and details["handed_to"]:
        mark, what = "→", f"handed over to the {details['handed_to']}"
    if str(details.get("task_reason", "")).startswith(NEEDS_PERSON):
        mark, what = "⏸", "held"
    if details.get("question"):
        mark, what, reason = "?", ASKS, f": {one_line(details['question'])}"
    mark = symbol(f"{mark} ")
    line = f"   {mark}{task}{what}{reason} ({format_duration(details['seconds'])}{cost}){_next_step(details)}"
    parts, used = details["parts"], details["used"]
    lines = [(_STYLES[outcome], line), *(("cyan", f"   new subtask: {title}") for title in parts)]
    if used:
        lines.append(("dim", f"   used: {', '.join(used)}"))
    return lines


def _next_step(details: dict[str, Any]) -> str:
    if details["parts"]:
        return "; split into subtasks"
    if str(details.get("task_reason", "")).startswith(NEEDS_PERSON):
        return f"; needs a person. To see and accept the work: ralph task approve {details['task_id']}"
    if details.get("question"):
        return f"; to answer: {answer_command(details['task_id'])}"
    if details["task_status"] == "blocked":
        spent = f"it has used up {details['spent_limit']}, so " if details.get("spent_limit") else ""
        why = "no retries are left, so " if details.get("is_out_of_retries") else spent
        return f"; {why}it needs a person. To retry: ralph task reset {details['task_id']}"
    if details["handed_to"]:
        return ""
    return "; will be retried" if details["task_status"] == "pending" else ""


def _heard(details: dict[str, Any]) -> list[tuple[str, str]]:
    titles, count = details["titles"], details["count"]
    lines = [("cyan", f"   learned by another worker: {title}") for title in titles]
    more = count - len(titles)
    return [*lines, ("cyan", f"   learned by another worker: {more:,} more")] if more > 0 else lines


def _held(details: dict[str, Any]) -> list[tuple[str, str]]:
    lines = details["diff"].split("\n")
    more = [f"… ({len(lines) - MAX_DIFF_LINES_SHOWN} more lines)"] if len(lines) > MAX_DIFF_LINES_SHOWN else []
    shown = [("dim", f"     {line}") for line in (*lines[:MAX_DIFF_LINES_SHOWN], *more)]
    return [("yellow", f"   needs a person: {details['reason']}"), *shown]


def _waiting_for_limit(details: dict[str, Any]) -> list[tuple[str, str]]:
    until, left = format_time(details["until"]), format_duration(details["seconds"])
    return [("yellow", f"The usage limit of {details['agent']} is reached: waiting until {until} ({left}).")]


def _paused(_: dict[str, Any]) -> list[tuple[str, str]]:
    return [("yellow", "Paused. To continue: ralph resume")]


def _budget_nearly_used(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("yellow", f"   nearly used up: {', '.join(details['used'])}")]


def _note(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("cyan", f"   {details['message']}")]


def _warning(details: dict[str, Any]) -> list[tuple[str, str]]:
    return [("red", f"   {details['message']}")]


def _run_ended(details: dict[str, Any]) -> list[tuple[str, str]]:
    cost = f", {format_usd(details['cost_usd'])}" if details["cost_usd"] else ""
    tokens = f", {details['tokens']:,} tokens" if details["tokens"] else ""
    return [
        (
            "bold",
            f"Stopped: {details['ending']}. {details['done']} done in {pluralize(details['iterations'], 'attempt')},"
            f" {format_duration(details['seconds'])}{tokens}{cost}.",
        ),
        *([("dim", f"To continue: {resume_command(details['ending'])}")] if details["can_go_on"] else []),
        *(("yellow" if line.startswith("Needs attention") else "", line) for line in details.get("report", ())),
    ]


_FORMATTERS = {
    "run_started": _run_started,
    "recovered": _recovered,
    "attempt_started": _attempt_started,
    "recalled": _recalled,
    "gate_ended": _gate_ended,
    "review_ended": _review_ended,
    "merged": _merged,
    "committed": _committed,
    "stale": _stale,
    "ignored": _ignored,
    "learned": _learned,
    "extracted": _extracted,
    "consolidated": _consolidated,
    "reflected": _reflected,
    "retired": _retired,
    "attempt_ended": _attempt_ended,
    "heard": _heard,
    "waiting_for_limit": _waiting_for_limit,
    "paused": _paused,
    "budget_nearly_used": _budget_nearly_used,
    "note": _note,
    "held": _held,
    "warning": _warning,
    "run_ended": _run_ended,
}
