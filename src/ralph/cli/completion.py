"""`ralph completion`: argcomplete's shell scripts, and the records of the project as candidates."""

from __future__ import annotations

import argparse
import os

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from ralph.cli import COMMANDS, build_parser
from ralph.core.agents import RUNNABLE_AGENTS
from ralph.core.errors import RalphError
from ralph.core.paging import Page
from ralph.core.records import category_word
from ralph.core.text import pluralize
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SHELLS = ("bash", "zsh", "fish")
MAX_CANDIDATES = 50
"""Maximum number of memories, runs and attempts that are offered."""

EPILOG = """\
To enable it:
  bash:  echo 'eval "$(ralph completion bash)"' >> ~/.bashrc
  zsh:   echo 'eval "$(ralph completion zsh)"' >> ~/.zshrc      (after compinit)
  fish:  ralph completion fish > ~/.config/fish/completions/ralph.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Print the script of a shell."""
    print(shellcode(["ralph"], shell=args.shell))


def complete() -> None:
    """Answer the shell, which describes the line to complete in the environment, and end the process."""
    words = os.environ.get("COMP_LINE", "").split()
    parser = build_parser(next((word for word in words if word in COMMANDS), None))
    _build_actions(parser)
    argcomplete.autocomplete(parser, default_completer=RecordCompleter(), always_complete_options=False)


def _build_actions(parser: argparse.ArgumentParser) -> None:
    """Build the parsers of all actions, which argcomplete inspects."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                action.choices[name] = getattr(subparser, "built", subparser)
                _build_actions(action.choices[name])


class RecordCompleter(BaseCompleter):
    """Completes arguments with records of the project, and all others with files."""

    def __call__(
        self,
        *,
        prefix: str,
        action: argparse.Action,
        parser: argparse.ArgumentParser,
        parsed_args: argparse.Namespace,
    ) -> Any:
        """Return the candidates for an argument, with their descriptions."""
        if action.dest == "agent":
            return dict.fromkeys(RUNNABLE_AGENTS, "")
        try:
            records = _records(action.dest, parsed_args.directory)
        except RalphError:
            return {}  # without a project there are no candidates; completion must not print errors
        return FilesCompleter()(prefix) if records is None else records


def _records(dest: str, directory: str) -> Mapping[str, str] | None:
    """Return the records of the project that an argument can name, or None if it names something else."""
    page = Page(limit=MAX_CANDIDATES)
    with Project.open(directory) as project:
        if dest in ("id", "task", "parent", "needs", "add", "remove"):
            return {task.id: task.title for task in project.tasks.list()}
        if dest == "memory":
            return {memory.id: memory.title for memory in project.memory.list(MemoryFilter(), page)}
        if dest == "feature":
            return {view.feature.id: view.feature.name for view in project.features.list()}
        if dest == "run":
            return {run.id: run.ending for run in project.stats.runs()}
        if dest == "entry":
            return {f"{one.run_id}/{one.iteration}": str(one.task_id) for one in project.journal.attempts(page)}
        if dest == "category":
            counts = project.journal.failure_counts()
            return {category_word(row["category"]): pluralize(row["failures"], "failure") for row in counts}
    return None
