"""`ralph status`."""

from __future__ import annotations

from ralph.cli.output import (
    add_format_option,
    bold,
    color_by_status,
    format_duration,
    format_time,
    open_project,
    pluralize,
    print_json,
    printable,
    unblock_step,
    wrap_line,
)
from ralph.core.records import TaskStatus, status_word
from ralph.core.text import format_usd

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.config import Config
    from ralph.loop.overview import Overview

MAX_TASKS_SHOWN = 5
"""Maximum number of tasks listed per section."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_format_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Print the state of the project."""
    with open_project(args) as project:
        if args.format == "json":
            print_json(project.overview())
        else:
            _print(project.overview(MAX_TASKS_SHOWN), project.config, is_linked=project.worktree != project.directory)
    return 0


def _print(overview: Overview, config: Config, *, is_linked: bool) -> None:
    print(bold(f"Project {'of the main worktree: ' * is_linked}{printable(overview.root)}"))
    counts = ", ".join(color_by_status(word, f"{n} {word}") for word, n in count_words(overview).items())
    print(f"Tasks     {counts or 'none yet: ralph task add TITLE'}")
    print_line("Attempts", f"{overview.attempts}{_outcomes(overview, config)}{_spent(overview)}")
    print(f"Memories  {overview.memories}")
    print_line("Models", _models(overview, config))
    if overview.last_run:
        iterations = pluralize(overview.last_run.iterations, "iteration")
        print_line("Last run", f"{overview.last_run.id}, {iterations}: {_ending(overview)}")
        if overview.last_run.request:
            _print_request(overview.last_run.request, is_working=bool(overview.running))
        if overview.last_run.waits_until:
            wait = f"until {format_time(overview.last_run.waits_until)} for the {overview.last_run.waits_for}"
            print_line("", f"waiting {wait}; to stop: ralph stop")
    for attempt in overview.running:
        model = f", {printable(attempt.model)} ({printable(attempt.model_reason)})" if attempt.model else ""
        hat = f" as {attempt.hat}" if attempt.hat != "creator" else ""
        since = f"since {format_time(attempt.started_at)}{model}"
        print_line("Working", f"{attempt.task_id} attempt {attempt.number}{hat}, {since}")
    for attempt in overview.left:
        note = "its run is gone; the next ralph run will retry it"
        print_line("Orphaned", f"{attempt.task_id} attempt {attempt.number}: {note}")
    print_list("Next", [f"{task.id} {printable(task.title)}" for task in overview.ready], total=overview.ready_count)
    print_list(
        "Problems",
        [
            line
            for entry in overview.trouble
            for line in (
                f"{entry.task.id} failed {pluralize(entry.trouble.failures, 'time')} in a row"
                f" ({entry.metrics.failures_since_reset} of {config.execution.max_retries} retries used)"
                f"{', stuck' if entry.is_stuck else ''}; {entry.next_step}",
                *(f"  {printable(sign)}" for sign in entry.trouble.signs),
                *([f"  with {printable(entry.model)}: {printable(entry.model_reason)}"] if entry.model else []),
            )
        ],
        3 * MAX_TASKS_SHOWN,
    )
    print_list(
        "Attention",
        [
            f"{task.id} {printable(task.title)}: {task.status}, {printable(task.reason) or 'no reason given'}"
            for task in overview.waiting
        ],
        total=overview.waiting_count,
    )
    if overview.waiting:
        steps = [unblock_step(task.id, task.reason) for task in overview.waiting]
        for what, command in dict(reversed(steps)).items():  # for each way to go on, the first task
            print_line("", f"{what}: {command}")
    print_list("Files", [printable(problem) for problem in overview.warnings[len(config.warnings) :]])


def _outcomes(overview: Overview, config: Config) -> str:
    """Return how the attempts ended, in counts that add up to their number."""
    running = len(overview.running) + len(overview.left)
    others = overview.attempts - overview.done - overview.failed - running
    other = "handed over, stopped or asked" if len(config.hats.order) > 1 else "stopped or asked"
    counts = {"done": overview.done, "failed": overview.failed, other: others}
    words = [f"{count} {word}" for word, count in {**counts, "running": running}.items() if count > 0]
    return f": {', '.join(words)}" if words else ""


def _spent(overview: Overview) -> str:
    cost = f", {format_usd(overview.cost_usd)}" if overview.cost_usd else ""
    return f"; {format_duration(overview.seconds)}{cost}"


def count_words(overview: Overview) -> dict[str, int]:
    """Return the number of tasks by what people read for their status."""
    pending = overview.counts.get(TaskStatus.PENDING, 0)
    ready = min(overview.ready_count, pending)
    counts = {"ready": ready, "waiting": pending - ready}
    for status, count in overview.counts.items():
        if status is not TaskStatus.PENDING:
            counts[status_word(status, is_ready=False)] = count
    return {word: count for word, count in counts.items() if count}


def _ending(overview: Overview) -> str:
    """Return how the last run ended, or what became of it."""
    states = {"running": "still running", "killed": "killed; to continue: ralph run --resume"}
    ending = overview.last_run.ending if overview.last_run else ""
    return ending or states.get(overview.last_run_state, "not ended, or killed on another machine or before a reboot")


def _print_request(request: str, *, is_working: bool) -> None:
    from ralph.loop.steering import PAUSE

    if request == PAUSE:
        state = "pausing after the current attempt" if is_working else "paused"
        print_line("", f"{state}; to continue: ralph resume")


def _models(overview: Overview, config: Config) -> str:
    if overview.takes_model:
        return overview.strategy
    has_agent = config.agent.command or config.agent.name != "command" or overview.last_run
    return "chosen by the agent itself" if has_agent else "not chosen yet"


def print_line(name: str, line: str) -> None:
    """Print a line with its name in the first column, wrapped to the terminal."""
    indent = " " * (len(line) - len(line.lstrip()))
    print(wrap_line(line.lstrip(), f"{name:9} {indent}", f"          {indent}"))


def print_list(name: str, lines: list[str], most: int = MAX_TASKS_SHOWN, total: int = 0) -> None:
    """Print up to `most` lines of which the first has the name, and how many of `total` are left out."""
    for index, line in enumerate(lines[:most]):
        print_line(name if index == 0 else "", line)
    total = max(total, len(lines))
    if total > most:
        print(f"          and {total - most} more")
