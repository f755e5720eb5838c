"""`ralph stop`, `ralph pause` and `ralph resume`."""

from __future__ import annotations

from ralph.cli.output import open_project, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_SAID = {
    "stop": "{run} ends its session now and stops. To continue: ralph run --resume",
    "pause": "{run} pauses after the current attempt. To continue: ralph resume",
    "resume": "{run} continues.",
}


def describe_request(request: str, run_id: str) -> str:
    """Return what a run does because of a request."""
    return _SAID[request or "resume"].format(run=run_id)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the commands."""
    parser.add_argument("run", metavar="RUN", nargs="?", default="", help="id of the run (default: the active one)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Ask a run to stop, to pause or to continue."""
    with open_project(args) as project:
        asked = project.runs.steer("" if args.command == "resume" else args.command, args.run)
    if args.format == "json":
        print_json(asked)
    else:
        print(describe_request(asked.request, asked.id))
    return 0
