"""`ralph` without a command: where the project stands and what to do next, on one screen."""

from __future__ import annotations

from ralph.cli.output import (
    answer_command,
    bold,
    color_by_status,
    format_time,
    open_project,
    pluralize,
    printable,
    terminal_width,
    truncate,
    wrap_line,
)
from ralph.cli.status import count_words
from ralph.core.errors import ProjectNotFoundError
from ralph.core.records import MemoryState

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.records import Run
    from ralph.loop.attention import AttentionItem
    from ralph.loop.overview import Overview
    from ralph.project import Project

MAX_SHOWN = 3
"""Maximum number of tasks listed per section, so that all of it fits on one screen."""
MAX_WAITING_SHOWN = 2
"""Maximum number of tasks listed that need a person; each may take two lines."""
INDENT = " " * 11
"""Indent of everything but the names of the sections."""

ADD_TASK = 'ralph task add "Describe the task"'
ABOUT = "Ralph runs coding agents in a loop and remembers what every attempt taught."
WAYS_TO_START = """\
Start in the directory of your code:
  ralph init

Give your own agent sessions a memory:
  ralph setup claude             # or codex, gemini, …

Or let an agent work through tasks:
  ralph task add "Make the tests pass"
  ralph run --agent claude
"""


def run(args: argparse.Namespace) -> int:
    """Print where the project stands, or outside a project how to start."""
    try:
        with open_project(args) as project:
            _print_project(project)
    except ProjectNotFoundError as error:
        _print_start(error)
    return 0


def _print_start(error: ProjectNotFoundError) -> None:
    print(bold(wrap_line(ABOUT)))
    print(f"\n{WAYS_TO_START}")
    print(wrap_line(printable(str(error))))
    print("Watch it learn first: ralph demo. All commands: ralph --help")


def _print_project(project: Project) -> None:
    from ralph.store.memory_stats import MemoryStatistics

    overview = project.overview(MAX_SHOWN)
    waiting = _waiting(project) if overview.waiting_count else []
    states = MemoryStatistics(project.store.scope).counts("state")
    to_review = states.get(MemoryState.STAGED, 0) + states.get(MemoryState.QUARANTINED, 0)
    print(bold(truncate(printable(overview.root), terminal_width())))
    counts = ", ".join(color_by_status(word, f"{n:,} {word}") for word, n in count_words(overview).items())
    print(f"{'Tasks':{len(INDENT)}}{counts or 'none yet'}")
    _print_section("Memory", [pluralize(overview.memories, "memory")])
    _print_section(*_last_run(project, overview))
    _print_section(
        "Ready", [f"{one.id} {printable(one.title)}" for one in overview.ready], overview.ready_count - MAX_SHOWN
    )
    _print_attention(waiting[:MAX_WAITING_SHOWN], overview.waiting_count - MAX_WAITING_SHOWN, to_review)
    print()
    _print_section("Next", next_commands(project, overview, waiting, to_review))


def _waiting(project: Project) -> list[AttentionItem]:
    from ralph.loop.attention import find_waiting_tasks  # only loaded when a task waits

    return find_waiting_tasks(project.store, MAX_SHOWN)


def _print_section(name: str, lines: list[str], more: int = 0) -> None:
    """Print a line per entry, cut to the width of the terminal, with the name before the first one."""
    for index, line in enumerate(lines):
        print(truncate(f"{name if index == 0 else '':{len(INDENT)}}{line}", terminal_width()))
    if more > 0:
        print(f"{INDENT}and {more:,} more")


def _last_run(project: Project, overview: Overview) -> tuple[str, list[str]]:
    """Return what runs, or how the last run ended, with the name of the section."""
    last = overview.last_run
    if last is None:
        return "Running", ["nothing; no run was started yet"]
    if overview.last_run_state != "running" and not overview.running:
        return "Last run", [_ending(last, overview.last_run_state)]
    titles = project.store.tasks.titles([one.task_id for one in overview.running])
    lines = [_state(last, is_working=bool(overview.running))] if overview.last_run_state == "running" else []
    for attempt in overview.running[:MAX_SHOWN]:
        since = f"since {format_time(attempt.started_at)}"
        lines.append(
            f"{attempt.task_id} attempt {attempt.number}, {since}: {printable(titles.get(attempt.task_id or '', ''))}"
        )
    more = len(overview.running) - MAX_SHOWN
    return "Running", [*lines, *[f"and {pluralize(more, 'more attempt')}"] * (more > 0)]


def _state(run: Run, *, is_working: bool) -> str:
    from ralph.loop.steering import PAUSE

    state = ("; pauses after the current attempt" if is_working else "; paused") if run.request == PAUSE else ""
    wait = f", waits until {format_time(run.waits_until)} for the {run.waits_for}" if run.waits_until else ""
    return f"{run.id} with {printable(run.agent)} since {format_time(run.started_at)}{state}{wait}"


def _ending(run: Run, state: str) -> str:
    if state == "killed":
        return f"{run.id} was killed"
    if run.ended_at is None:
        return f"{run.id} has not ended, or was killed on another machine"
    attempts = pluralize(run.iterations, "attempt")
    return f"{run.id} ended {format_time(run.ended_at)} after {attempts}: {printable(run.ending)}"


def _print_attention(waiting: list[AttentionItem], more: int, to_review: int) -> None:
    room = terminal_width() - len(INDENT)
    lines = []
    for one in waiting:
        line = f"{one.id} {printable(one.title)}: {_why(one)}"
        lines += [line] if len(line) <= room else [f"{one.id} {printable(one.title)}", f"  {_why(one)}"]
    if to_review:
        lines.append(f"{pluralize(to_review, 'learning')} to review")
    _print_section("Attention", lines or ["nothing needs you"], more)


def _why(item: AttentionItem) -> str:
    words = {"question": "asks: ", "approval": "held: ", "failed": "failed: "}
    return f"{words.get(item.kind, '')}{printable(item.text) or 'no reason given'}"


def next_commands(project: Project, overview: Overview, waiting: list[AttentionItem], to_review: int) -> list[str]:
    """Return the commands to type next, most urgent first, each with what it does."""
    from ralph.loop.options import RunEnding, resume_command, start_command

    found = []
    if waiting:
        id, kind = waiting[0].id, waiting[0].kind
        retry = (f"ralph task reset {id}", f"retry the {'failed' if kind == 'failed' else 'blocked'} task")
        found.append(
            {
                "question": (answer_command(id), "answer, which makes the task ready"),
                "approval": (f"ralph task approve {id}", "see the held work and accept it"),
            }.get(kind, retry)
        )
    last = overview.last_run
    ending = next((one for one in RunEnding if last and one == last.ending), None)
    if overview.last_run_state == "running":
        found.append(("ralph watch", "follow and steer the run"))
    elif overview.last_run_state == "killed" or (ending and ending.is_resumable and overview.ready_count):
        found.append((resume_command(ending or ""), "continue the last run"))
    elif overview.ready_count:
        found.append((start_command(project.config.agent), "run an agent on the tasks"))
    elif not overview.counts:
        found.append((ADD_TASK, "add a task"))
        if not _has_connected_agent(project):
            found.append(("ralph setup claude", "use the memory in your own sessions"))
    if last and overview.last_run_state != "running":
        found.append(("ralph report", "see what the last run did"))
    if to_review:
        found.append(("ralph learn review", "review what was learned"))
    if overview.last_run_state == "ended" and not overview.ready_count:
        found.append((ADD_TASK, "add a task"))
    found = [*found[:MAX_SHOWN], ("ralph --help", "all commands")]
    width = max(len(command) for command, _ in found)
    lines = [f"{command:{width}}  {purpose}" for command, purpose in found]
    has_room = max(map(len, lines)) <= terminal_width() - len(INDENT)
    return lines if has_room else [command for command, _ in found]


def _has_connected_agent(project: Project) -> bool:
    from pathlib import Path

    from ralph.core.agents import CONNECTABLE_AGENTS
    from ralph.integrations.setup import is_connected, setup_options

    places = setup_options(Path(project.worktree)), setup_options(None)
    return any(is_connected(agent, options) for agent in CONNECTABLE_AGENTS for options in places)
