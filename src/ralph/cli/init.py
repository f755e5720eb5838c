"""`ralph init`."""

from __future__ import annotations

import os
from pathlib import Path

from ralph.cli.output import printable, working_directory
from ralph.cli.trust import add_trust_option, offer_trust
from ralph.core.config import load_config
from ralph.core.trust_record import TRUST_VARIABLE
from ralph.loop.options import start_command
from ralph.workspace import init_project, shared_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from pathlib import Path


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
    parser.add_argument(
        "--separate", action="store_true", help="in a linked worktree: do not use the project of the main worktree"
    )
    add_trust_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Set up a project. Running it twice is safe."""
    directory = working_directory(args)
    if not (args.separate or args.store or args.project) and (root := shared_project(directory)):
        offer_trust(Path(root), trust=args.trust)
        print(f"Project of the main worktree: {printable(root)}")
        print("This worktree uses it; nothing was changed. For a project of its own: ralph init --separate")
        return 0
    offer_trust(directory, trust=args.trust)
    lines = init_project(directory, url=args.store, name=args.project)
    for line in lines:
        print(f"  {line}")
    if any(line.startswith(("created", "joined")) for line in lines):
        agent = load_config(directory, {**os.environ, TRUST_VARIABLE: "1"}).agent
        _offer_history(directory)
        print(f'Ready. Next: ralph task add "Describe the task", then {start_command(agent)}')
        print("To use the memory in your own agent sessions: ralph setup claude")
    else:
        print("This project is already set up; nothing was changed.")
    return 0


def _offer_history(directory: Path) -> None:
    """Offer to import the past work of a new project; without a terminal, only say that there is some."""
    from ralph.cli.import_ import CONSENT, REVOKE, foreign_data_hint, import_history
    from ralph.cli.interactive import ask, is_interactive
    from ralph.core.consent import may_read_sessions
    from ralph.project import Project

    with Project.open(directory) as project:
        available = project.episodes.available()
        if project.actor.is_agent:
            return
        if hint := foreign_data_hint(project):
            print(hint)
        if not available:
            return
        if available.sessions and not may_read_sessions() and is_interactive():
            print(f"{CONSENT} {REVOKE}")
        found = f"Found {available} for this project."
        if not is_interactive():
            print(f"{found} To import past work: ralph import")
        elif ask(f"{found} Import them? [Y/n] ", at_end="n").lower() in ("", "y", "yes"):
            import_history(project, available)
        else:
            print("To import past work later: ralph import")
