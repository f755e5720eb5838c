"""`ralph init`."""

from __future__ import annotations

import os

from ralph.cli.output import working_directory
from ralph.cli.trust import add_trust_option, offer_trust
from ralph.core.config import AgentConfig, load_config
from ralph.core.trust_record import TRUST_VARIABLE
from ralph.workspace import init_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="database to use: postgresql://USER@HOST/DATABASE or a file (default: a file in .ralph)",
    )
    parser.add_argument(
        "--project", default="", metavar="NAME", help="name in the database; an existing project of that name is joined"
    )
    add_trust_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Set up a project. Running it twice is safe."""
    directory = working_directory(args)
    offer_trust(directory, trust=args.trust)
    lines = init_project(directory, url=args.store, name=args.project)
    for line in lines:
        print(f"  {line}")
    if any(line.startswith(("created", "joined")) for line in lines):
        agent = load_config(directory, {**os.environ, TRUST_VARIABLE: "1"}).agent
        is_chosen = agent.command or agent.name != AgentConfig().name
        start = "ralph run" if is_chosen else "ralph run --agent claude"
        print(f'Ready. Next: ralph task add "Describe the task", then {start}')
        print("To use the memory in your own agent sessions: ralph setup claude")
    else:
        print("This project is already set up; nothing was changed.")
    return 0
