"""`ralph run`."""

from __future__ import annotations

import sys

from ralph.cli.output import count_of, open_project
from ralph.errors import WrongUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Examples:
  ralph run -- sh agent.sh                        prompt on stdin, answer on stdout
  ralph run --gate "make test" --max-iterations 10 -- claude -p
  ralph run --task t-1a2b3c                       one task alone

Exit codes: 0 all done or a limit reached, 1 tasks are left that need a person,
2 wrong usage, 3 nothing to do, 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.usage = "ralph run [options] [-- PROGRAM ARGUMENTS...]"
    parser.add_argument("--agent", metavar="NAME", help="command or rehearsal (default: as configured)")
    parser.add_argument("--model", help="the model to ask for; stands for {model} in the program's arguments")
    parser.add_argument("--task", metavar="ID", help="work on this task alone")
    parser.add_argument("--gate", metavar="COMMAND", action="append", help="a shell command that must succeed")
    parser.add_argument("--no-verify", action="store_true", help="take the agent's word for it: run no gates")
    parser.add_argument("--max-iterations", type=count_of("iterations"), metavar="N", help="stop after so many")
    parser.add_argument("--max-minutes", type=_amount, metavar="N", help="stop after so many minutes")
    parser.add_argument("--max-cost", type=_amount, metavar="USD", help="start no iteration once this is spent")
    parser.add_argument("--wait", action="store_true", help="wait for new tasks instead of ending without any")
    parser.add_argument("--no-memory", action="store_true", help="leave memory out of the prompts, to compare")
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


def run(given: argparse.Namespace) -> int:
    """Run the loop and show what happens."""
    from ralph.cli.progress import ask_feedback, open_view
    from ralph.config import with_flags
    from ralph.loop.run import Order

    if given.gate and given.no_verify:
        raise WrongUsage("Say either --gate or --no-verify.")
    with open_project(given) as project:
        project.config = with_flags(
            project.config,
            agent=given.agent,
            program=given.program,
            gates=given.gate,
            verify=not given.no_verify,
        )
        limits = project.config.limits
        order = Order(
            iterations=given.max_iterations or limits.iterations,
            minutes=given.max_minutes or limits.minutes,
            cost_usd=given.max_cost or limits.cost_usd,
            model=given.model,
            with_memory=not given.no_memory,
            only=given.task,
            stays=given.wait,
        )
        with open_view(given.format) as view:
            ask = None if given.format == "json" or not sys.stdin.isatty() else ask_feedback(view)
            summary = project.run(order, view.tell, ask)
    return summary.ending.exit_code
