"""`ralph run`."""

from __future__ import annotations

import sys

from ralph.cli.output import count_of, open_project
from ralph.config import AGENTS, STRATEGIES
from ralph.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Examples:
  ralph run --agent claude                        Claude Code works on the tasks
  ralph run -- sh agent.sh                        any program: prompt on stdin, answer on stdout
  ralph run --gate "make test" --max-iterations 10 -- claude -p
  ralph run --task t-1a2b3c                       one task alone
  ralph run --strategy escalate -- claude -p --model {model}
  ralph run --parallel 4                          four tasks at once, each on a branch of its own
  ralph run --holdout 0.1                         measure what memory brings: ralph stats lift
  ralph run --resume --max-iterations 50          go on with the latest run

Exit codes: 0 all done or a limit reached, 1 tasks are left that need a person,
2 wrong usage, 3 nothing to do, 130 interrupted.
"""


MOST_WORKERS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.usage = "ralph run [options] [-- PROGRAM ARGUMENTS...]"
    parser.add_argument(
        "--agent",
        metavar="NAME",
        help="claude, codex, gemini, opencode, acp, command, …: docs/agents.md (default: as configured)",
    )
    parser.add_argument("--model", help="the model to ask for; stands for {model} in the program's arguments")
    parser.add_argument("--strategy", choices=STRATEGIES, help="how the model is chosen (default: as configured)")
    parser.add_argument("--task", metavar="ID", help="work on this task alone")
    parser.add_argument(
        "--parallel", type=_workers, metavar="N", default=0, help="so many tasks at once, each in a git worktree"
    )
    parser.add_argument(
        "--resume", metavar="RUN", nargs="?", const="", help="go on with a run that stopped: the latest, or this one"
    )
    parser.add_argument("--gate", metavar="COMMAND", action="append", help="a shell command that must succeed")
    parser.add_argument("--no-verify", action="store_true", help="take the agent's word for it: run no gates")
    parser.add_argument("--review", action="store_true", help="let a read-only agent session check the work")
    parser.add_argument("--max-iterations", type=count_of("iterations"), metavar="N", help="stop after so many")
    parser.add_argument("--max-minutes", type=_amount, metavar="N", help="stop after so many minutes")
    parser.add_argument("--max-cost", type=_amount, metavar="USD", help="start no iteration once this is spent")
    parser.add_argument("--max-tokens", type=count_of("tokens"), metavar="N", help="start none once these are used")
    for what, kind, sign in (
        ("iterations", count_of("iterations"), "N"),
        ("minutes", _amount, "N"),
        ("cost", _amount, "USD"),
        ("tokens", count_of("tokens"), "N"),
    ):
        parser.add_argument(
            f"--max-task-{what}", type=kind, metavar=sign, help=f"most {what} of one task; then it waits"
        )
    parser.add_argument("--wait", action="store_true", help="wait for new tasks instead of ending without any")
    parser.add_argument("--no-memory", action="store_true", help="leave memory out of the prompts, to compare")
    parser.add_argument(
        "--holdout", type=_share, metavar="SHARE", default=0.0, help="leave memory out of this share, to measure it"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json prints one object for each event"
    )
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="the command agent's program, after --")
    parser.set_defaults(act=run)


def _amount(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"it must be a number of more than 0, not {text!r}")
    return value


def _share(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"it must be a share between 0 and 1, like 0.1, not {text!r}")
    return value


def _workers(text: str) -> int:
    import argparse

    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"it must be a number from 1 to {MOST_WORKERS}, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run the loop and show what happens."""
    from ralph.cli.progress import ask_feedback, open_view
    from ralph.loop.order import Order

    if args.agent and args.agent not in AGENTS:
        from ralph.cli import meant

        raise UsageError(f"Unknown agent {args.agent!r}. Known: {', '.join(AGENTS)}.{meant(args.agent, AGENTS)}")
    if args.gate and args.no_verify:
        raise UsageError("Say either --gate or --no-verify.")
    if args.review and args.no_verify:
        raise UsageError("Say either --review or --no-verify.")
    if args.holdout and args.no_memory:
        raise UsageError("Say either --holdout or --no-memory: without memory there is nothing to compare with.")
    if args.task and args.parallel > 1:
        raise UsageError("Say either --task or --parallel: one task has one worker.")
    with open_project(args) as project:
        order = Order(
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
            program=tuple(args.program),
            gates=tuple(args.gate or ()),
            verify=not args.no_verify,
            review=args.review,
            strategy=args.strategy or "",
        )
        with open_view(args.format) as view:
            ask = None if args.format == "json" or not sys.stdin.isatty() else ask_feedback(view)
            summary = project.run(order, view.tell, ask, resume=args.resume)
    return summary.ending.exit_code
