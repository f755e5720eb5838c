"""`ralph status`."""

from __future__ import annotations

from ralph.cli.output import (
    add_format,
    bold,
    colour,
    duration,
    moment,
    money,
    open_project,
    plural,
    print_json,
    safe,
    wrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.config import Config
    from ralph.project import Overview

MOST = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_format(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Print where the project stands."""
    with open_project(args) as project:
        if args.format == "json":
            print_json(project.overview())
        else:
            _print(project.overview(MOST), project.config)
    return 0


def _print(seen: Overview, config: Config) -> None:
    print(bold(f"Project {safe(seen.root)}"))
    counts = ", ".join(colour(status, f"{n} {status.replace('_', ' ')}") for status, n in seen.counts.items())
    print(f"Tasks     {counts or 'none yet: ralph task add TITLE'}")
    ended = seen.done + seen.failed
    rate = f", {100 * seen.done / ended:.0f} % done" if ended else ""
    cost = f", {money(seen.cost_usd)}" if seen.cost_usd else ""
    print(f"Attempts  {seen.attempts}{rate}, {duration(seen.seconds)}{cost}")
    print(f"Memories  {seen.memories}")
    print(f"Models    {_models(seen, config)}")
    if seen.last_run:
        ending = seen.last_run.ending or "has not ended"
        print(f"Last run  {seen.last_run.id}, {plural(seen.last_run.iterations, 'iteration')}: {ending}")
    for attempt in seen.running:
        model = f", {safe(attempt.model)} ({safe(attempt.model_reason)})" if attempt.model else ""
        hat = f" as {attempt.hat}" if attempt.hat != "creator" else ""
        since = f"since {moment(attempt.started_at)}{model}"
        _print_line("Working", f"{attempt.task_id} attempt {attempt.number}{hat}, {since}")
    for attempt in seen.left:
        says = "its run is gone; the next ralph run takes it again"
        _print_line("Left", f"{attempt.task_id} attempt {attempt.number}: {says}")
    _print_list("Next", [f"{task.id} {safe(task.title)}" for task in seen.ready], in_all=seen.ready_count)
    _print_list(
        "Trouble",
        [
            line
            for one in seen.trouble
            for line in (
                f"{one.task.id} failed {plural(one.trouble.failures, 'time')} in a row"
                f" ({one.metrics.failures_since_reset} of {config.execution.max_retries} retries used)"
                f"{', stuck' if one.is_stuck else ''}; {one.next_step}",
                *(f"  {safe(sign)}" for sign in one.trouble.signs),
                *([f"  with {safe(one.model)}: {safe(one.model_reason)}"] if one.model else []),
            )
        ],
        3 * MOST,
    )
    _print_list(
        "Waiting",
        [
            f"{task.id} {safe(task.title)}: {task.status}, {safe(task.reason) or 'no reason given'}"
            for task in seen.waiting
        ],
        in_all=seen.waiting_count,
    )
    if seen.waiting:
        _print_line("", "all of them: ralph task list --status blocked; try again: ralph task reset ID")


def _models(seen: Overview, config: Config) -> str:
    if seen.takes_model:
        return seen.strategy
    has_agent = config.agent.command or config.agent.name != "command" or seen.last_run
    return "the agent takes no model" if has_agent else "not chosen yet"


def _print_line(name: str, line: str) -> None:
    indent = " " * (len(line) - len(line.lstrip()))
    print(wrapped(line.lstrip(), f"{name:8}  {indent}", f"          {indent}"))


def _print_list(name: str, lines: list[str], most: int = MOST, in_all: int = 0) -> None:
    for place, line in enumerate(lines[:most]):
        _print_line(name if place == 0 else "", line)
    in_all = max(in_all, len(lines))
    if in_all > most:
        print(f"          and {in_all - most} more")
