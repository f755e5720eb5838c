"""`ralph run`."""

from __future__ import annotations

import sys

from ralph.cli.output import open_project, positive_amount, positive_count
from ralph.cli.trust import add_trust_option, require_trust
from ralph.core.agents import RUNNABLE_AGENTS
from ralph.core.config import STRATEGIES
from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Examples:
  ralph run --agent claude                        run Claude Code on the tasks
  ralph run "Fix the flaky login test" --agent claude    add this task and run it
  ralph run -- sh agent.sh                        any program that reads a prompt from stdin
  ralph run --gate "make test" --max-iterations 10 -- claude -p
  ralph run --task t-1a2b3c                       run only this task
  ralph run --strategy escalate -- claude -p --model {model}
  ralph run --parallel 4                          run four tasks in parallel, each on its own branch
  ralph run --holdout 0.1                         measure the effect of memory: ralph stats lift
  ralph run --resume --max-iterations 50          continue the latest run

Exit codes: 0 all tasks done or a limit reached, 1 some tasks need attention,
2 invalid usage, 3 nothing to do, 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.usage = "ralph run [options] [TITLE] [-- PROGRAM ARGUMENTS...]"
    parser.add_argument(
        "--agent",
        metavar="NAME",
        help=f"{', '.join(RUNNABLE_AGENTS)} (default: as configured)",
    )
    parser.add_argument("--model", help="model to use; replaces {model} in the arguments of PROGRAM")
    parser.add_argument("--strategy", choices=STRATEGIES, help="how to choose the model (default: as configured)")
    parser.add_argument("--task", metavar="ID", help="run only this task")
    parser.add_argument(
        "--parallel", type=_workers, metavar="N", default=0, help="run N tasks in parallel, each in a git worktree"
    )
    parser.add_argument(
        "--resume", metavar="RUN", nargs="?", const="", help="continue a stopped run (default: the latest)"
    )
    parser.add_argument(
        "--gate",
        metavar="COMMAND",
        action="append",
        help="shell command that must succeed for a task to be done; repeatable",
    )
    parser.add_argument("--no-verify", action="store_true", help="run no gates and trust the agent")
    parser.add_argument("--review", action="store_true", help="have a read-only agent session review the work")
    parser.add_argument(
        "--max-iterations", type=positive_count("iterations"), metavar="N", help="stop after N iterations"
    )
    parser.add_argument("--max-minutes", type=positive_amount, metavar="N", help="stop after N minutes")
    parser.add_argument(
        "--max-cost", type=positive_amount, metavar="USD", help="start no iteration after this cost is reached"
    )
    parser.add_argument(
        "--max-tokens", type=positive_count("tokens"), metavar="N", help="start no iteration after N tokens are used"
    )
    for limit, type_, metavar in (
        ("iterations", positive_count("iterations"), "N"),
        ("minutes", positive_amount, "N"),
        ("cost", positive_amount, "USD"),
        ("tokens", positive_count("tokens"), "N"),
    ):
        parser.add_argument(
            f"--max-task-{limit}",
            type=type_,
            metavar=metavar,
            help=f"maximum {limit} per task; then the task is blocked",
        )
    parser.add_argument("--wait", action="store_true", help="wait for new tasks when all are done")
    parser.add_argument("--no-memory", action="store_true", help="leave memory out of all prompts")
    parser.add_argument(
        "--holdout",
        type=_share,
        metavar="SHARE",
        default=0.0,
        help="share of iterations without memory, to measure its effect",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json prints one object per event (default: text)"
    )
    add_trust_option(parser)
    parser.add_argument(
        "words", nargs="*", metavar="TITLE", help="add a task with this title and run it; after --, the agent's program"
    )
    parser.set_defaults(act=run)


def _share(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, such as 0.1, not {text!r}")
    return value


def _workers(text: str) -> int:
    import argparse

    from ralph.loop.options import MAX_WORKERS

    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MAX_WORKERS):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MAX_WORKERS}, not {text!r}")
    return int(text)


def _title(words: list[str]) -> str:
    """Return the title of a task to add; empty if there is none."""
    if len(words) > 1:
        raise UsageError(
            f"Unexpected argument: {words[1]}. Put the title of a task in quotes, and a program after --.",
            code="unexpected-argument",
        )
    return words[0] if words else ""


def run(args: argparse.Namespace) -> int:
    """Run the loop and show its progress."""
    from ralph.cli.progress import feedback_prompt, open_progress_view
    from ralph.core.allocator import use_one_arena
    from ralph.loop.options import RunOptions

    if args.agent and args.agent not in RUNNABLE_AGENTS:
        from ralph.cli import suggest_match

        known, match = ", ".join(RUNNABLE_AGENTS), suggest_match(args.agent, RUNNABLE_AGENTS)
        raise UsageError(f"Unknown agent {args.agent!r}. Known: {known}.{match}", code="unknown-agent")
    if args.gate and args.no_verify:
        raise UsageError("Use either --gate or --no-verify, not both.", code="conflicting-options")
    if args.review and args.no_verify:
        raise UsageError("Use either --review or --no-verify, not both.", code="conflicting-options")
    if args.holdout and args.no_memory:
        raise UsageError(
            "Use either --holdout or --no-memory, not both: a holdout compares iterations with and without memory.",
            code="conflicting-options",
        )
    if args.task and args.parallel > 1:
        raise UsageError(
            "Use either --task or --parallel, not both: one task has one worker.", code="conflicting-options"
        )
    title = _title(args.words)
    if title and (args.task or args.resume is not None):
        raise UsageError("Use a title without --task and --resume: it is a new task.", code="conflicting-options")
    require_trust(args)
    use_one_arena()
    with open_project(args) as project:
        options = RunOptions(
            iterations=args.max_iterations or 0,
            minutes=args.max_minutes or 0.0,
            cost_usd=args.max_cost or 0.0,
            tokens=args.max_tokens or 0,
            task_iterations=args.max_task_iterations or 0,
            task_minutes=args.max_task_minutes or 0.0,
            task_cost_usd=args.max_task_cost or 0.0,
            task_tokens=args.max_task_tokens or 0,
            model=args.model,
            with_memory=not args.no_memory,
            holdout=args.holdout,
            only=args.task,
            stays=args.wait,
            parallel=args.parallel,
            agent=args.agent or "",
            program=args.program,
            gates=tuple(args.gate or ()),
            verify=not args.no_verify,
            review=args.review,
            strategy=args.strategy or "",
        )
        with open_progress_view(args.format) as view:
            ask = None if args.format == "json" or not sys.stdin.isatty() else feedback_prompt(view)
            add = (lambda: project.tasks.add(title)) if title else None
            summary = project.runs.start(options, view.show, ask, resume=args.resume, add_task=add)
    return summary.ending.exit_code
