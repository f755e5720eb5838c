"""`ralph completion`: shell scripts that get their candidates from `ralph completion --words`."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_ralph() {
    local IFS=$'\\n'
    COMPREPLY=($(ralph completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _ralph ralph
"""
_ZSH = """\
#compdef ralph
_ralph() {
    local -a found
    found=("${(@f)$(ralph completion --words -- "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\\\:/g; s/\\t/:/')}")
    _describe 'ralph' found || _files
}
compdef _ralph ralph
"""
_FISH = """\
complete -c ralph -f -a '(ralph completion --words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
complete -c ralph -n '__fish_seen_subcommand_from import' -F
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = """\
To enable it:
  bash:  echo 'eval "$(ralph completion bash)"' >> ~/.bashrc
  zsh:   echo 'eval "$(ralph completion zsh)"' >> ~/.zshrc      (after compinit)
  fish:  ralph completion fish > ~/.config/fish/completions/ralph.fish
"""
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)
    parser.usage = "ralph completion SHELL"
    parser.add_argument("arguments", nargs="*", metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Print the script of a shell, or the candidates for the next word."""
    if args.words:
        for word, text in candidates(args.arguments, args.directory):
            print(f"{word}\t{text}" if text else word)
        return 0
    if len(args.arguments) != 1 or args.arguments[0] not in SHELLS:
        from ralph.core.errors import UsageError

        raise UsageError(f"Name one shell: {', '.join(SHELLS)}.")
    print(_SCRIPTS[args.arguments[0]], end="")
    return 0


def candidates(words: list[str], directory: str = ".") -> list[tuple[str, str]]:
    """Return the completions of the last word, each with a description."""
    from ralph.cli import COMMANDS, build_parser

    *before, start = words or [""]
    if "-C" in before[:-1]:
        directory = before[before.index("-C") + 1]
    option, is_joined, rest = start.partition("=")
    if is_joined and option.startswith("--"):
        before, start = [*before, option], rest
    command = next((word for word in before if word in COMMANDS), None)
    parser: argparse.ArgumentParser = build_parser(command)
    for word in before:
        parser = _subcommands(parser).get(word, parser)
    options = {name: action for action in parser._actions for name in action.option_strings}
    pending_option = options.get(before[-1]) if before else None
    if pending_option is not None and pending_option.nargs != 0:
        found = _values(pending_option, directory)
    elif start.startswith("-"):
        found = [(name, action.help or "") for name, action in options.items() if action.help != argparse.SUPPRESS]
    elif subcommands := _subcommands(parser):
        found = [(name, subparser.description or "") for name, subparser in subcommands.items()]
    else:
        found = [pair for action in parser._actions if not action.option_strings for pair in _values(action, directory)]
    prefix = f"{option}=" if is_joined and option.startswith("--") else ""
    return [(prefix + word, text) for word, text in found if word.startswith(start)]


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _values(action: argparse.Action, directory: str) -> list[tuple[str, str]]:
    """Return the values of an argument: its choices, or matching records of the project."""
    from ralph.core.agents import RUNNABLE_AGENTS

    if action.choices:
        return [(str(choice), "") for choice in action.choices]
    if action.metavar == "SHELL":
        return [(shell, "") for shell in SHELLS]
    if action.dest == "agent":
        return [(name, "") for name in RUNNABLE_AGENTS]
    return _records(action.dest, directory)


def _records(dest: str, directory: str) -> list[tuple[str, str]]:
    """Return the records of the project that an argument can name."""
    from itertools import islice
    from pathlib import Path

    from ralph.cli.output import printable
    from ralph.core.errors import RalphError
    from ralph.project import Project
    from ralph.store.memory_queries import MemoryFilter

    try:
        with Project.open(Path(directory)) as project:
            store = project.store
            if dest in ("id", "task", "parent", "needs", "add", "remove"):
                return [(item.id, printable(item.title)) for item in store.tasks.all()]
            if dest == "memory":
                return [(item.id, printable(item.title)) for item in islice(store.memories.find(MemoryFilter()), 50)]
            if dest == "feature":
                return [(item.id, printable(item.name)) for item in store.features.all()]
            if dest == "run":
                return [(item.id, printable(item.ending)) for item in store.runs.latest(50)]
            if dest == "entry":
                return [(f"{item.run_id}/{item.iteration}", str(item.task_id)) for item in store.attempts.latest(50)]
            if dest == "category":
                return [(row["category"], f"{row['failures']} failures") for row in store.failures.counts()]
    except RalphError:
        pass  # without a project there are no candidates; completion must not print errors
    return []
